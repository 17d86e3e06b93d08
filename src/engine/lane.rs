//! What a lane is: one way to run the model, as the router and the front ends see it.

use std::fmt;

pub use crate::onnx_runtime::Placement;

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LaneId {
    Npu,
    Cpu,
}

impl LaneId {
    pub fn name(self) -> &'static str {
        match self {
            Self::Npu => "npu",
            Self::Cpu => "cpu",
        }
    }
}

impl fmt::Display for LaneId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LaneState {
    Ready,
    /// It cannot run here: the plug-in, the device or the model for it is missing.
    Absent {
        reason: String,
    },
    /// It ran, or should have, and broke.
    Failed {
        reason: String,
    },
}

/// Rates measured by the answers of this session; absent until the first one.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct MeasuredRates {
    /// Tokens per second.
    pub prefill: Option<f64>,
    /// Tokens per second.
    pub decode: Option<f64>,
}

/// A lane as it stands now.
#[derive(Debug, Clone, PartialEq)]
pub struct LaneStatus {
    pub id: LaneId,
    /// ONNX Runtime's name of it: `CPUExecutionProvider`, `QNNExecutionProvider`.
    pub execution_provider: String,
    /// The hardware's own name where it is known.
    pub device: Option<String>,
    /// The execution provider runs on a simulator.
    pub emulated: bool,
    pub state: LaneState,
    /// Prompt and answer together, in tokens; 0 where the lane is not ready.
    pub context_limit: usize,
    pub threads: Option<usize>,
    /// What ONNX Runtime reported after the session was made; `None` where it was not.
    pub placement: Option<Placement>,
    pub measured: MeasuredRates,
}
