//! A decoder for model folders built for an NPU: graphs of fixed shapes, as `model::NpuBundle` describes them.
//!
//! A prompt goes through the prefill graph in chunks, the last one padded; a single token through the decode graph. Keys
//! and values are kept here, in the graphs' own element type: both graphs read one cache, and the rows that they add for
//! real tokens are copied behind it. So rewinding is to forget a number, and padding leaves no trace. Which execution
//! provider runs the two graphs is the caller's choice.

mod buffer;
mod cache;
mod graph;
mod positions;

use std::path::Path;

use ort::session::Session;

use super::ends::{Embeddings, EndNames, LanguageHead};
use super::{DecodeError, Decoder, GraphPlacement, Limits};
use crate::model::NpuBundle;
use crate::onnx_runtime::{CpuSessionOptions, OnnxRuntime, RuntimeError};

use cache::Cache;
use graph::StaticGraph;

pub use graph::Observed;

pub struct StaticDecoder {
    bundle: NpuBundle,
    embeddings: Embeddings,
    prefill: StaticGraph,
    decode: StaticGraph,
    head: LanguageHead,
    cache: Cache,
    position: usize,
    logits: Vec<f32>,
    /// Hidden states on their way into a graph or out of it; kept for their memory.
    rows: Vec<f32>,
}

/// Whose logits are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Last,
    All,
}

/// Is called after each pass with the graph that ran, the number of real tokens and that of the tokens before them.
type AfterPass<'a> = &'a mut dyn FnMut(&StaticGraph, usize, usize);

impl StaticDecoder {
    /// Opens the graphs that `bundle` names in `folder`: the ends on the CPU, prefill and decode with `npu_session`.
    ///
    /// Graphs that take or give anything else than the bundle says are refused. The two may give more, which
    /// `forward_observed` shows: float32 of a fixed shape.
    pub fn new(
        runtime: &OnnxRuntime,
        folder: &Path,
        bundle: NpuBundle,
        ends: CpuSessionOptions,
        npu_session: &dyn Fn(&Path) -> Result<Session, RuntimeError>,
    ) -> Result<Self, DecodeError> {
        let files = &bundle.files;
        let embeddings = Embeddings::new(
            runtime.cpu_session(&folder.join(&files.embeddings), ends)?,
            EndNames::new(&files.embeddings, "input_ids", "hidden_states"),
            bundle.hidden,
        )?;
        let head = Self::head_of(runtime, folder, &bundle, ends)?;
        let cache = Cache::new(&bundle, folder)?;
        let graph = |file: &str, tokens: usize| {
            StaticGraph::new(npu_session(&folder.join(file))?, file, tokens, &bundle, &cache)
        };
        let (prefill, decode) = (graph(&files.prefill, bundle.chunk)?, graph(&files.decode, 1)?);
        Ok(Self { bundle, embeddings, prefill, decode, head, cache, position: 0, logits: Vec::new(), rows: Vec::new() })
    }

    /// The graph from hidden states to logits alone.
    pub fn head_of(
        runtime: &OnnxRuntime,
        folder: &Path,
        bundle: &NpuBundle,
        options: CpuSessionOptions,
    ) -> Result<LanguageHead, DecodeError> {
        let file = &bundle.files.lm_head;
        let session = runtime.cpu_session(&folder.join(file), options)?;
        let names = EndNames::new(file, "output_hidden_states", "logits");
        LanguageHead::new(session, names, bundle.hidden, bundle.vocabulary)
    }

    pub fn bundle(&self) -> &NpuBundle {
        &self.bundle
    }

    pub fn limits(&self) -> Limits {
        Limits {
            context: self.bundle.context,
            vocabulary: self.bundle.vocabulary,
            first_token: self.bundle.sink.as_ref().map(|sink| sink.token),
        }
    }

    /// The graph from hidden states to logits, without all the rest.
    pub fn into_head(self) -> LanguageHead {
        self.head
    }

    /// Where ONNX Runtime put the nodes of the prefill and the decode graph.
    pub fn placement(&self) -> Vec<GraphPlacement> {
        let compiled = self.bundle.compiled_nodes;
        [(&self.prefill, compiled.map(|nodes| nodes.prefill)), (&self.decode, compiled.map(|nodes| nodes.decode))]
            .map(|(graph, compiled_nodes)| GraphPlacement {
                graph: graph.name().to_owned(),
                placement: graph.placement(),
                compiled_nodes,
            })
            .into()
    }

    /// Appends `tokens` and returns the logits after each of them, one row of the vocabulary's size after another.
    ///
    /// Those after a sink's token, at position 0, are from a graph whose quantization was made for the tokens behind it:
    /// they are poor, and no measure of the graph.
    pub fn forward_all(&mut self, tokens: &[u32]) -> Result<&[f32], DecodeError> {
        self.run(tokens, Wanted::All, &mut |_, _, _| {})?;
        Ok(&self.logits)
    }

    /// Like `forward`, and shows each pass's first hidden states and all outputs. A sink's token makes no pass.
    pub fn forward_observed(
        &mut self,
        tokens: &[u32],
        observer: &mut dyn FnMut(&Observed<'_>),
    ) -> Result<(), DecodeError> {
        self.run(tokens, Wanted::Last, &mut |graph, rows, position| graph.observe(rows, position, observer))
    }

    fn run(&mut self, tokens: &[u32], wanted: Wanted, after_pass: AfterPass<'_>) -> Result<(), DecodeError> {
        self.limits().check(tokens, self.position)?;
        self.logits.clear();
        let (mut position, mut rest) = (self.position, tokens);
        if let (0, Some(_), Some((sink, behind))) = (position, &self.bundle.sink, tokens.split_first()) {
            // Its keys and values are in the cache for ever; only its logits may be wanted.
            if wanted == Wanted::All || behind.is_empty() {
                self.pass(&[*sink], 0, 0)?;
            }
            (position, rest) = (1, behind);
        }
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(self.bundle.chunk));
            let first_wanted = match wanted {
                Wanted::All => 0,
                Wanted::Last if later.is_empty() => now.len() - 1,
                Wanted::Last => now.len(),
            };
            self.pass(now, position, first_wanted)?;
            let graph = if now.len() == 1 { &self.decode } else { &self.prefill };
            self.cache.append(graph.new_rows(), position, now.len());
            after_pass(graph, now.len(), position);
            (position, rest) = (position + now.len(), later);
        }
        self.position = position;
        Ok(())
    }

    /// Runs at most a chunk of tokens behind `position` others, and the language head for those from `first_wanted` on.
    fn pass(&mut self, tokens: &[u32], position: usize, first_wanted: usize) -> Result<(), DecodeError> {
        self.rows.clear();
        self.embeddings.run(tokens, &mut self.rows)?;
        let graph = if tokens.len() == 1 { &mut self.decode } else { &mut self.prefill };
        graph.run(&self.rows, position)?;
        if first_wanted == tokens.len() {
            return Ok(());
        }
        self.rows.clear();
        graph.read_output(first_wanted..tokens.len(), &mut self.rows);
        self.head.run(&self.rows, &mut self.logits)
    }
}

impl Decoder for StaticDecoder {
    fn context_limit(&self) -> usize {
        self.bundle.context
    }

    fn prefill_chunk(&self) -> usize {
        self.bundle.chunk
    }

    fn position(&self) -> usize {
        self.position
    }

    fn rewind(&mut self, position: usize) {
        self.position = self.position.min(position);
    }

    fn forward(&mut self, tokens: &[u32]) -> Result<(), DecodeError> {
        self.run(tokens, Wanted::Last, &mut |_, _, _| {})
    }

    fn logits(&self) -> &[f32] {
        &self.logits[self.logits.len().saturating_sub(self.bundle.vocabulary)..]
    }
}
