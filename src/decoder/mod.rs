//! One forward pass on one execution provider. What to do with the logits is the engine's business.

mod child;
mod ends;
mod limits;
mod pipeline;
mod plain;
mod ports;
mod static_bundle;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::model::{CONFIG_FILE, ModelError, NPU_FILE};
use crate::onnx_runtime::{Placement, RuntimeError};

pub use child::{
    ChildDecoder, ChildOptions, Deadlines, LaneProvider, LaneReady, LaneRequest, ServeError, lane_processes, serve_lane,
};
pub use ends::LanguageHead;
pub use limits::Limits;
pub use pipeline::PipelineDecoder;
pub use plain::{CacheKind, Contract, DecoderOptions, GraphOutline, PREFILL_CHUNK, PlainDecoder};
pub use static_bundle::{Observed, StaticDecoder};

/// A model with its KV cache. Positions count from 0; the cache holds keys and values for positions `0..position()`.
///
/// A decoder may hold several sequences side by side, in slots. `position`, `rewind`, `forward` and `logits` are about the
/// one that was selected last, the first one in the beginning.
pub trait Decoder: Send {
    /// The longest sequence it can hold, in tokens.
    fn context_limit(&self) -> usize;

    /// Tokens that one pass over a prompt had best take: progress and cancelling wait for no more than that.
    fn prefill_chunk(&self) -> usize;

    /// The fewest tokens that a pass over a prompt should have, where the prompt has them. More than one where a single
    /// token is computed by other code, which rounds differently: then an answer does not depend on what was cached.
    fn shortest_prefill(&self) -> usize {
        1
    }

    /// How many sequences of up to so many tokens it can hold at once. Whoever uses more slots, or longer ones, takes more
    /// memory than there is for them; a slot without tokens takes none.
    fn slots(&self, _tokens: usize) -> usize {
        1
    }

    /// Chooses a slot, below the most that there are of the shortest sequences.
    fn select(&mut self, _slot: usize) {}

    /// Puts the first tokens of another slot, with their keys and values, into the selected one, in place of what it held.
    fn copy(&mut self, _from: usize, _tokens: usize) -> Result<(), DecodeError> {
        Err(DecodeError::OneSlot)
    }

    /// Appends one token to each of several slots, each named once, and sets `logits` to theirs, one row of the vocabulary's
    /// size after another. No bit of them depends on which slots come together. What is selected afterwards is not said.
    fn step(&mut self, next: &[(usize, u32)], logits: &mut Vec<f32>) -> Result<(), DecodeError> {
        one_by_one(self, next, logits)
    }

    /// Tokens in the cache.
    fn position(&self) -> usize;

    /// Forgets all tokens from `position` on; does nothing if there are fewer.
    fn rewind(&mut self, position: usize);

    /// Appends `tokens`, at least one.
    fn forward(&mut self, tokens: &[u32]) -> Result<(), DecodeError>;

    /// The logits after the last token of the last pass, one for each entry of the vocabulary.
    fn logits(&self) -> &[f32];
}

/// A step as passes of one sequence each.
fn one_by_one(
    decoder: &mut (impl Decoder + ?Sized),
    next: &[(usize, u32)],
    logits: &mut Vec<f32>,
) -> Result<(), DecodeError> {
    logits.clear();
    for (slot, token) in next {
        decoder.select(*slot);
        decoder.forward(&[*token])?;
        logits.extend_from_slice(decoder.logits());
    }
    Ok(())
}

/// Where ONNX Runtime put one graph's nodes; `None` where it has no record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphPlacement {
    /// The graph's file.
    pub graph: String,
    pub placement: Option<Placement>,
    /// For a graph that was compiled beforehand, and is one node now: how many it was made of.
    pub compiled_nodes: Option<usize>,
}

impl GraphPlacement {
    /// Nodes on this execution provider, and all nodes; of a compiled graph those that it was made of.
    pub fn nodes(&self, provider: &str) -> Option<(usize, usize)> {
        let placement = self.placement.as_ref()?;
        let (on, total) = (placement.nodes_on(provider), placement.total());
        Some(match self.compiled_nodes {
            Some(nodes) if on == total => (nodes, nodes),
            _ => (on, total),
        })
    }

    /// The graph's file without its ending: "prefill".
    pub fn name(&self) -> &str {
        self.graph.strip_suffix(".onnx").unwrap_or(&self.graph)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error("the graph '{graph}' {what}")]
    Graph { graph: String, what: String },
    #[error(
        "the decoder in '{}' is in several graphs, made for an NPU; the CPU lane needs a folder with one: build it from \
         the model's GGUF file with `ortalk build`", folder.display()
    )]
    InPieces { folder: PathBuf },
    #[error(
        "'{}' is not built for an NPU: it has neither {NPU_FILE} nor a decoder.pipeline in its {CONFIG_FILE}; \
         `ortalk build --target npu` makes a folder that is", folder.display()
    )]
    InOnePiece { folder: PathBuf },
    #[error("the pipeline in '{}' does not run here: {what}", folder.display())]
    Pipeline { folder: PathBuf, what: String },
    #[error("'{}' is not right: {what}", path.display())]
    File { path: PathBuf, what: String },
    #[error(
        "the sequence starts with token {found}, but this model was built for sequences that start with token {expected}"
    )]
    FirstToken { expected: u32, found: u32 },
    #[error("{tokens} more tokens do not fit after {position}: the context holds {limit}")]
    ContextFull { tokens: usize, position: usize, limit: usize },
    #[error("this decoder holds one sequence, and another one was to be copied")]
    OneSlot,
    #[error("a forward pass of no tokens was asked for")]
    NoTokens,
    #[error("token {token} is outside of the vocabulary of {vocabulary}")]
    UnknownToken { token: u32, vocabulary: usize },
    #[error("the NPU lane failed: {0}")]
    Lane(String),
    #[error("the forward pass failed: {0}")]
    Run(String),
}

impl DecodeError {
    fn run(error: ort::Error) -> Self {
        Self::Run(error.to_string())
    }
}

/// The name of a layer's input or output, from a pattern with `%d` for the layer.
fn of_layer(pattern: &str, layer: usize) -> String {
    pattern.replacen("%d", &layer.to_string(), 1)
}
