//! Looks for what an NPU lane needs: Qualcomm's QNN plug-in for ONNX Runtime, and an NPU.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::onnx_runtime::devices::{DeviceKind, DeviceListing};
use crate::provision::PLUGIN_FILES;
use crate::telemetry::drivers;

/// What was found of the NPU lane's needs; its text says what is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NpuAbsence {
    /// The plug-in library, if it is installed.
    pub plugin: Option<PathBuf>,
    /// The NPU's execution provider or device node, if there is one.
    pub device: Option<String>,
}

/// `root` is where the system's files begin.
pub fn look(devices: &[DeviceListing], plugin_folders: &[PathBuf], root: &Path) -> NpuAbsence {
    let plugin = plugin_folders.iter().find_map(|folder| plugin_in(folder, DEPTH));
    let listed = devices.iter().find(|device| device.kind == DeviceKind::Npu);
    let device = match listed {
        Some(device) => Some(format!("{} ({})", device.vendor, device.execution_provider)),
        None => drivers::npu(root).first().map(|path| path.display().to_string()),
    };
    NpuAbsence { plugin, device }
}

/// In ortalk's cache, packages lie in folders of their own and have folders themselves.
const DEPTH: usize = 2;

fn plugin_in(folder: &Path, depth: usize) -> Option<PathBuf> {
    let file = folder.join(PLUGIN_FILES.0);
    if file.is_file() {
        return Some(file);
    }
    let deeper = depth.checked_sub(1)?;
    let below = std::fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    below.filter(|path| path.is_dir()).find_map(|folder| plugin_in(&folder, deeper))
}

impl fmt::Display for NpuAbsence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.plugin, &self.device) {
            (None, None) => f.write_str("QNN plug-in not installed, no NPU found"),
            (None, Some(device)) => write!(f, "QNN plug-in not installed (NPU: {device})"),
            (Some(_), None) => f.write_str("no NPU found (QNN plug-in installed)"),
            (Some(_), Some(device)) => write!(f, "no model built for the NPU ({device})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(kind: DeviceKind) -> DeviceListing {
        DeviceListing {
            execution_provider: "QNNExecutionProvider".into(),
            provider_vendor: "Qualcomm".into(),
            provider_version: None,
            library: None,
            kind,
            vendor: "Qualcomm".into(),
        }
    }

    #[test]
    fn an_empty_machine_lacks_both() {
        let dir = tempfile::tempdir().unwrap();
        let found = look(&[listing(DeviceKind::Cpu)], &[dir.path().into()], dir.path());
        assert_eq!(found, NpuAbsence { plugin: None, device: None });
        assert_eq!(found.to_string(), "QNN plug-in not installed, no NPU found");
    }

    #[cfg(unix)]
    #[test]
    fn the_plug_in_and_the_device_are_found() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(PLUGIN_FILES.0), "").unwrap();
        std::fs::create_dir_all(dir.path().join("dev/accel")).unwrap();
        std::fs::write(dir.path().join("dev/accel/accel0"), "").unwrap();
        let found = look(&[], &[dir.path().into()], dir.path());
        assert_eq!(found.plugin, Some(dir.path().join(PLUGIN_FILES.0)));
        assert!(found.device.clone().unwrap().ends_with("accel0"));
        assert!(found.to_string().starts_with("no model built for the NPU"), "{found}");
    }

    #[test]
    fn the_plug_in_is_found_in_a_package_s_folder() {
        let dir = tempfile::tempdir().unwrap();
        let package = dir.path().join("onnxruntime-qnn-2.7.0/onnxruntime_qnn");
        std::fs::create_dir_all(&package).unwrap();
        std::fs::write(package.join(PLUGIN_FILES.0), "").unwrap();
        let found = look(&[], &[dir.path().join("none"), dir.path().into()], dir.path());
        assert_eq!(found.plugin, Some(package.join(PLUGIN_FILES.0)));
    }

    #[test]
    fn a_listed_device_comes_before_a_node() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("dev")).unwrap();
        std::fs::write(dir.path().join("dev/fastrpc-cdsp"), "").unwrap();
        let found = look(&[listing(DeviceKind::Npu)], &[], dir.path());
        assert_eq!(found.device.as_deref(), Some("Qualcomm (QNNExecutionProvider)"));
    }
}
