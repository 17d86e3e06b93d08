//! Looks for what an NPU lane needs: Qualcomm's QNN plug-in for ONNX Runtime, and an NPU.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::onnx_runtime::devices::{DeviceKind, DeviceListing};
use crate::provision::PLUGIN_FILES;

/// What was found of the NPU lane's needs; its text says what is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NpuAbsence {
    /// The plug-in library, if it is installed.
    pub plugin: Option<PathBuf>,
    /// The NPU's execution provider or device node, if there is one.
    pub device: Option<String>,
}

const PLUGIN_FILE: &str = PLUGIN_FILES.0;

/// `dev` is the folder of device nodes, `/dev` outside tests.
pub fn look(devices: &[DeviceListing], plugin_folders: &[PathBuf], dev: &Path) -> NpuAbsence {
    let plugin = plugin_folders.iter().find_map(|folder| plugin_in(folder));
    let listed = devices.iter().find(|device| device.kind == DeviceKind::Npu);
    let device =
        listed.map(|device| format!("{} ({})", device.vendor, device.execution_provider)).or_else(|| node(dev));
    NpuAbsence { plugin, device }
}

/// Right in the folder, or in one folder below it, as packages lie in ortalk's cache.
fn plugin_in(folder: &Path) -> Option<PathBuf> {
    let below = std::fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    std::iter::once(folder.to_path_buf())
        .chain(below)
        .map(|folder| folder.join(PLUGIN_FILE))
        .find(|file| file.is_file())
}

/// Linux names other makers' NPUs `accel/accel0` and so on.
fn node(dev: &Path) -> Option<String> {
    compute_dsp(dev).or_else(|| first(&dev.join("accel"), "accel"))
}

/// Linux's name of Qualcomm's compute DSP.
pub fn compute_dsp(dev: &Path) -> Option<String> {
    first(dev, "fastrpc-cdsp")
}

fn first(folder: &Path, start: &str) -> Option<String> {
    let mut names: Vec<PathBuf> = std::fs::read_dir(folder)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(start)))
        .collect();
    names.sort();
    names.into_iter().next().map(|path| path.display().to_string())
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

    #[test]
    fn the_plug_in_and_the_device_are_found() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(PLUGIN_FILE), "").unwrap();
        std::fs::create_dir(dir.path().join("accel")).unwrap();
        std::fs::write(dir.path().join("accel/accel0"), "").unwrap();
        let found = look(&[], &[dir.path().into()], dir.path());
        assert_eq!(found.plugin, Some(dir.path().join(PLUGIN_FILE)));
        assert!(found.device.clone().unwrap().ends_with("accel0"));
        assert!(found.to_string().starts_with("no model built for the NPU"), "{found}");
    }

    #[test]
    fn the_plug_in_is_found_in_a_package_s_folder() {
        let dir = tempfile::tempdir().unwrap();
        let package = dir.path().join("onnxruntime-qnn-2.7.0");
        std::fs::create_dir(&package).unwrap();
        std::fs::write(package.join(PLUGIN_FILE), "").unwrap();
        let found = look(&[], &[dir.path().join("none"), dir.path().into()], dir.path());
        assert_eq!(found.plugin, Some(package.join(PLUGIN_FILE)));
    }

    #[test]
    fn a_listed_device_comes_before_a_node() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("fastrpc-cdsp"), "").unwrap();
        let found = look(&[listing(DeviceKind::Npu)], &[], dir.path());
        assert_eq!(found.device.as_deref(), Some("Qualcomm (QNNExecutionProvider)"));
    }
}
