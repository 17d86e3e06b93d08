//! The CPU lane: the model folder's own graph on ONNX Runtime's CPU execution provider, in this process.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::lane::{ChosenBy, GraphPlacement, LaneId, LaneSource, LaneSpec, MeasuredRates, OpenLane, Threads};
use crate::decoder::{DecoderOptions, PREFILL_CHUNK, PlainDecoder};
use crate::model::ModelFolder;
use crate::onnx_runtime::{CPU_PROVIDER, CpuSessionOptions, OnnxRuntime};

/// What may differ in how the CPU lane runs: its answers do not, their speed does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CpuSetting {
    pub threads: usize,
    /// Threads that wait for work keep their core busy.
    pub spinning: bool,
    /// Tokens of a prompt that go through the model in one pass.
    pub prefill_chunk: usize,
}

impl CpuSetting {
    /// What is good for most machines.
    pub fn with_threads(threads: usize) -> Self {
        Self { threads, spinning: false, prefill_chunk: PREFILL_CHUNK }
    }
}

impl fmt::Display for CpuSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { threads, spinning, prefill_chunk } = self;
        let plural = if *threads == 1 { "" } else { "s" };
        let spinning = if *spinning { "spinning" } else { "no spinning" };
        write!(f, "{threads} thread{plural}, {spinning}, passes of {prefill_chunk} tokens")
    }
}

/// Runs the folder's graph, up to `context` tokens; `None` is as many as the model was made for. All conversations together
/// keep up to `kept_tokens`, or one context's.
pub fn cpu_lane(
    runtime: OnnxRuntime,
    folder: Arc<ModelFolder>,
    setting: (CpuSetting, ChosenBy),
    context: Option<usize>,
    kept_tokens: usize,
) -> LaneSpec {
    let (CpuSetting { threads, spinning, prefill_chunk }, chosen_by) = setting;
    let longest = folder.config.model.context_length;
    let context = context.map_or(longest, |context| context.min(longest));
    let open = move || {
        let options = DecoderOptions { session: CpuSessionOptions { threads, spinning }, context };
        let decoder = PlainDecoder::new(&runtime, &folder, options).map_err(|error| error.to_string())?;
        let mut decoder = decoder.with_room_for(kept_tokens);
        decoder.set_prefill_chunk(prefill_chunk);
        let graph = folder.config.model.decoder.filename.clone().unwrap_or_else(|| "model.onnx".to_string());
        let placement = vec![GraphPlacement { graph, placement: decoder.placement(), compiled_nodes: None }];
        Ok(OpenLane { decoder: Box::new(decoder), placement, device: None, emulated: false })
    };
    LaneSpec {
        id: LaneId::Cpu,
        execution_provider: CPU_PROVIDER.to_string(),
        device: None,
        emulated: false,
        context_limit: context,
        threads: Some(Threads { count: threads, spinning, chosen_by }),
        memory: None,
        measured: MeasuredRates::default(),
        remote: None,
        source: LaneSource::Open(Box::new(open)),
    }
}
