//! What a lane's process opens, and what it says of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::decoder::{DecodeError, Decoder, GraphPlacement, Limits, PipelineDecoder, StaticDecoder};
use crate::model::{NPU_FILE, NpuBundle, NpuOptions, read_config};
use crate::onnx_runtime::{CPU_PROVIDER, CpuSessionOptions, OnnxRuntime, QNN_PROVIDER, QnnPlugin};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LaneRequest {
    /// A model folder built for an NPU: a bundle of ours or a pipeline.
    pub folder: PathBuf,
    /// ONNX Runtime's library.
    pub library: PathBuf,
    pub provider: LaneProvider,
    /// For the graphs at the ends, which run on the CPU.
    pub threads: usize,
}

/// What runs the graphs between the ends.
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
    /// Of the graphs that the provider runs.
    pub placement: Vec<GraphPlacement>,
    pub limits: Limits,
    /// Tokens in one pass over a prompt.
    pub prefill_chunk: usize,
}

impl LaneRequest {
    /// Opens it in this process.
    pub fn open(&self) -> Result<(Box<dyn Decoder>, LaneReady), DecodeError> {
        let runtime = OnnxRuntime::load(&self.library, Arc::new(|line| eprintln!("{line}")))?;
        let cpu = CpuSessionOptions { threads: self.threads, spinning: false };
        let session = |graph: &Path| match &self.provider {
            LaneProvider::Cpu => runtime.cpu_session(graph, cpu),
            LaneProvider::Qnn { plugin, options } => runtime.npu_session(graph, plugin, options),
        };
        let (decoder, placement, limits): (Box<dyn Decoder>, _, _) = if self.folder.join(NPU_FILE).is_file() {
            let bundle = NpuBundle::read(&self.folder)?;
            let decoder = StaticDecoder::new(&runtime, &self.folder, bundle, cpu, &session)?;
            let (placement, limits) = (decoder.placement(), decoder.limits());
            (Box::new(decoder), placement, limits)
        } else {
            let config = read_config(&self.folder)?;
            if config.model.decoder.pipeline.0.is_empty() {
                return Err(DecodeError::InOnePiece { folder: self.folder.clone() });
            }
            let decoder = PipelineDecoder::new(&runtime, &self.folder, &config, cpu, &session)?;
            let (placement, limits) = (decoder.placement(), decoder.limits());
            (Box::new(decoder), placement, limits)
        };
        let (provider, device) = match &self.provider {
            LaneProvider::Cpu => (CPU_PROVIDER, None),
            LaneProvider::Qnn { .. } => (QNN_PROVIDER, runtime.qnn_device()),
        };
        let ready = LaneReady {
            provider: provider.to_owned(),
            emulated: device.as_ref().is_some_and(|device| device.emulated),
            device: device.map(|device| device.name),
            placement,
            limits,
            prefill_chunk: decoder.prefill_chunk(),
        };
        Ok((decoder, ready))
    }
}
