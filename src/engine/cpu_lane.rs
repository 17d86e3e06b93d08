//! The CPU lane: the model folder's own graph on ONNX Runtime's CPU execution provider, in this process.

use std::sync::Arc;

use super::lane::{GraphPlacement, LaneId, LaneSource, LaneSpec, MeasuredRates, OpenLane};
use crate::decoder::{DecoderOptions, PlainDecoder};
use crate::model::ModelFolder;
use crate::onnx_runtime::{CPU_PROVIDER, CpuSessionOptions, OnnxRuntime};

/// Runs the folder's graph, up to `context` tokens; `None` is as many as the model was made for.
pub fn cpu_lane(runtime: OnnxRuntime, folder: Arc<ModelFolder>, threads: usize, context: Option<usize>) -> LaneSpec {
    let longest = folder.config.model.context_length;
    let context = context.map_or(longest, |context| context.min(longest));
    let open = move || {
        let options = DecoderOptions { session: CpuSessionOptions { threads, spinning: false }, context };
        let decoder = PlainDecoder::new(&runtime, &folder, options).map_err(|error| error.to_string())?;
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
        threads: Some(threads),
        memory: None,
        measured: MeasuredRates::default(),
        remote: None,
        source: LaneSource::Open(Box::new(open)),
    }
}
