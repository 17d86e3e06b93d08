//! What a lane's process opens, and what it says of it.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::decoder::{DecodeError, Decoder, GraphPlacement, Limits, StaticDecoder};
use crate::model::{NpuBundle, NpuOptions};
use crate::onnx_runtime::{CPU_PROVIDER, CpuSessionOptions, OnnxRuntime, QNN_PROVIDER, QnnPlugin};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LaneRequest {
    /// A model folder built for an NPU.
    pub folder: PathBuf,
    /// ONNX Runtime's library.
    pub library: PathBuf,
    pub provider: LaneProvider,
    /// For the graphs at the ends, which run on the CPU.
    pub threads: usize,
}

/// What runs the prefill and the decode graph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaneProvider {
    Cpu,
    Qnn { plugin: QnnPlugin, options: NpuOptions },
}

/// An opened lane.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LaneReady {
    /// ONNX Runtime's name of the execution provider.
    pub provider: String,
    /// The hardware, or the simulator, where it has a name.
    pub device: Option<String>,
    pub emulated: bool,
    /// Of the prefill and the decode graph.
    pub placement: Vec<GraphPlacement>,
    pub limits: Limits,
    /// Tokens in one pass over a prompt.
    pub prefill_chunk: usize,
}

impl LaneRequest {
    /// Opens it in this process.
    pub fn open(&self) -> Result<(Box<dyn Decoder>, LaneReady), DecodeError> {
        let bundle = NpuBundle::read(&self.folder)?;
        let runtime = OnnxRuntime::load(&self.library, Arc::new(|line| eprintln!("{line}")))?;
        let cpu = CpuSessionOptions { threads: self.threads, spinning: false };
        let decoder = StaticDecoder::new(&runtime, &self.folder, bundle, cpu, &|graph| match &self.provider {
            LaneProvider::Cpu => runtime.cpu_session(graph, cpu),
            LaneProvider::Qnn { plugin, options } => runtime.npu_session(graph, plugin, options),
        })?;
        let (provider, device) = match &self.provider {
            LaneProvider::Cpu => (CPU_PROVIDER, None),
            LaneProvider::Qnn { .. } => (QNN_PROVIDER, runtime.qnn_device()),
        };
        let ready = LaneReady {
            provider: provider.to_owned(),
            emulated: device.as_ref().is_some_and(|device| device.emulated),
            device: device.map(|device| device.name),
            placement: decoder.placement(),
            limits: decoder.limits(),
            prefill_chunk: decoder.prefill_chunk(),
        };
        Ok((Box::new(decoder), ready))
    }
}
