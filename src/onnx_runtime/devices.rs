//! The devices that ONNX Runtime lists, each with the execution provider that offers it.

use ort::environment::Environment;
use ort::memory::DeviceType;

/// ONNX Runtime's name of its built-in CPU execution provider.
pub const CPU_PROVIDER: &str = "CPUExecutionProvider";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceKind {
    Cpu,
    Gpu,
    Npu,
    Other,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceListing {
    pub execution_provider: String,
    pub kind: DeviceKind,
    /// The hardware's maker, as ONNX Runtime reports it.
    pub vendor: String,
}

pub(super) fn list(environment: &Environment) -> Vec<DeviceListing> {
    environment
        .devices()
        .filter_map(|device| {
            let hardware = device.hardware_device();
            Some(DeviceListing {
                execution_provider: device.ep().ok()?.to_string(),
                kind: match hardware.ty() {
                    DeviceType::CPU => DeviceKind::Cpu,
                    DeviceType::GPU => DeviceKind::Gpu,
                    DeviceType::NPU => DeviceKind::Npu,
                    _ => DeviceKind::Other,
                },
                vendor: hardware.vendor().unwrap_or("unknown").to_string(),
            })
        })
        .collect()
}
