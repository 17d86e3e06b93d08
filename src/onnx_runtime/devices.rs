//! The devices that ONNX Runtime lists, each with the execution provider that offers it.

use std::path::PathBuf;

use ort::device::Device;
use ort::environment::Environment;
use ort::memory::DeviceType;
use serde::{Deserialize, Serialize};

use super::c_api;

/// ONNX Runtime's name of its built-in CPU execution provider.
pub const CPU_PROVIDER: &str = "CPUExecutionProvider";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceKind {
    Npu,
    Gpu,
    Cpu,
    Other,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceListing {
    pub execution_provider: String,
    /// Who made the execution provider.
    pub provider_vendor: String,
    /// The execution provider's own version, where it says one.
    pub provider_version: Option<String>,
    /// The library that a plug-in execution provider comes from.
    pub library: Option<PathBuf>,
    pub kind: DeviceKind,
    /// The hardware's maker, as ONNX Runtime reports it.
    pub vendor: String,
}

pub(super) fn list(environment: &Environment) -> Vec<DeviceListing> {
    environment.devices().filter_map(|device| listing(&device)).collect()
}

fn listing(device: &Device<'_>) -> Option<DeviceListing> {
    let metadata = c_api::device_metadata(device);
    let value = |key| metadata.iter().find(|(known, _)| known == key).map(|(_, value)| value.clone());
    Some(DeviceListing {
        execution_provider: device.ep().ok()?.to_string(),
        provider_vendor: device.ep_vendor().unwrap_or("unknown").to_string(),
        provider_version: value("version"),
        library: value("library_path").map(PathBuf::from),
        kind: kind(device),
        vendor: device.hardware_device().vendor().unwrap_or("unknown").to_string(),
    })
}

pub(super) fn kind(device: &Device<'_>) -> DeviceKind {
    match device.hardware_device().ty() {
        DeviceType::CPU => DeviceKind::Cpu,
        DeviceType::GPU => DeviceKind::Gpu,
        DeviceType::NPU => DeviceKind::Npu,
        _ => DeviceKind::Other,
    }
}
