//! From what is on this machine to the engine's lanes.

use std::path::PathBuf;

use crate::engine::{LaneId, LaneSource, LaneSpec};
use crate::onnx_runtime::{OnnxRuntime, QNN_PROVIDER};

/// The NPU lane, or why there is none.
pub fn npu_lane(runtime: &OnnxRuntime, plugin_folders: &[PathBuf]) -> LaneSpec {
    let absence = runtime.npu_absence(plugin_folders);
    LaneSpec {
        id: LaneId::Npu,
        execution_provider: QNN_PROVIDER.to_string(),
        device: absence.device.clone(),
        emulated: false,
        context_limit: 0,
        threads: None,
        source: LaneSource::Absent { reason: absence.to_string() },
    }
}
