//! A decoder for model folders whose `genai_config.json` has a pipeline with a cache that is updated in place, as WinML CLI,
//! Olive and Foundry Local lay them out for NPUs.
//!
//! Stages: embeddings and language head on the CPU; `context`, which takes a window of tokens, and `iterator`, which takes
//! one, each in one graph or split by layers. There is no mask: GroupQueryAttention hides what is behind
//! `past_seq_len` (int32 `[1, 1]`), the index of a pass's last token. A prompt's last window is padded behind its tokens;
//! padding is written into the cache, too, but the next tokens overwrite it before anything can see it. So rewinding is
//! to forget a number.

mod layout;
mod phase;

use std::path::Path;

use ort::session::Session;

use super::ends::{Embeddings, LanguageHead};
use super::{DecodeError, Decoder, GraphPlacement, Limits};
use crate::model::GenaiConfig;
use crate::onnx_runtime::{CpuSessionOptions, OnnxRuntime, RuntimeError};

use layout::Layout;
use phase::{Cache, Phase};

pub struct PipelineDecoder {
    embeddings: Embeddings,
    context: Phase,
    iterator: Phase,
    head: LanguageHead,
    /// Slots of the cache.
    capacity: usize,
    limits: Limits,
    padding: u32,
    position: usize,
    logits: Vec<f32>,
    /// Hidden states on their way into a phase or out of it; kept for their memory.
    rows: Vec<f32>,
}

impl PipelineDecoder {
    /// Opens the graphs of `config`'s pipeline in `folder`: the ends on the CPU, context and iterator with `npu_session`.
    pub fn new(
        runtime: &OnnxRuntime,
        folder: &Path,
        config: &GenaiConfig,
        ends: CpuSessionOptions,
        npu_session: &dyn Fn(&Path) -> Result<Session, RuntimeError>,
    ) -> Result<Self, DecodeError> {
        let layout = Layout::of(config).map_err(|what| DecodeError::Pipeline { folder: folder.into(), what })?;
        let (hidden, vocabulary) = (config.model.decoder.hidden_size, config.model.vocab_size);
        let end = |file: &str| -> Result<_, DecodeError> {
            let session = runtime.cpu_session(&folder.join(file), ends)?;
            let names = layout::end_names(&session, file)
                .map_err(|what| DecodeError::Graph { graph: file.to_owned(), what })?;
            Ok((session, names))
        };
        let (session, names) = end(&layout.embeddings.filename)?;
        let source = names.output.clone();
        let embeddings = Embeddings::new(session, names, hidden)?;
        let (session, names) = end(&layout.head.filename)?;
        let target = names.input.clone();
        let head = LanguageHead::new(session, names, hidden, vocabulary)?;

        let mut cache = Cache::default();
        let mut phase = |stages, tokens| {
            let sessions = layout::open(stages, folder, npu_session)?;
            Phase::new(sessions, tokens, &config.model.decoder, &source, &target, &mut cache)
        };
        let (mut context, mut iterator) = (phase(&layout.context, layout.window)?, phase(&layout.iterator, 1)?);
        let capacity = cache.capacity();
        for phase in [&mut context, &mut iterator] {
            phase.bind(&mut cache).map_err(DecodeError::run)?;
        }
        let limits = Limits { context: config.model.context_length.min(capacity), vocabulary, first_token: None };
        let padding = if (layout.padding as usize) < vocabulary { layout.padding } else { 0 };
        let (logits, rows) = (Vec::new(), Vec::new());
        Ok(Self { embeddings, context, iterator, head, capacity, limits, padding, position: 0, logits, rows })
    }

    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Where ONNX Runtime put the nodes of the context and the iterator graphs.
    pub fn placement(&self) -> Vec<GraphPlacement> {
        [&self.context, &self.iterator].into_iter().flat_map(Phase::placement).collect()
    }

    /// Runs the first of the tokens behind `position` others, and returns how many; the language head behind the last one.
    fn pass(&mut self, tokens: &[u32], position: usize) -> Result<usize, DecodeError> {
        let window = self.context.tokens();
        // A window that would be padded beyond the cache's end goes token by token.
        let single = tokens.len() == 1 || position + window > self.capacity;
        let (phase, count) =
            if single { (&mut self.iterator, 1) } else { (&mut self.context, tokens.len().min(window)) };
        let mut padded = tokens[..count].to_vec();
        padded.resize(phase.tokens(), self.padding);
        self.rows.clear();
        self.embeddings.run(&padded, &mut self.rows)?;
        phase.run(&self.rows, position)?;
        if count == tokens.len() {
            self.rows.clear();
            phase.read_row(count - 1, &mut self.rows);
            self.logits.clear();
            self.head.run(&self.rows, &mut self.logits)?;
        }
        Ok(count)
    }
}

impl Decoder for PipelineDecoder {
    fn context_limit(&self) -> usize {
        self.limits.context
    }

    fn prefill_chunk(&self) -> usize {
        self.context.tokens()
    }

    fn position(&self) -> usize {
        self.position
    }

    fn rewind(&mut self, position: usize) {
        self.position = self.position.min(position);
    }

    fn forward(&mut self, tokens: &[u32]) -> Result<(), DecodeError> {
        self.limits.check(tokens, self.position)?;
        let (mut position, mut rest) = (self.position, tokens);
        while !rest.is_empty() {
            let done = self.pass(rest, position)?;
            (position, rest) = (position + done, &rest[done..]);
        }
        self.position = position;
        Ok(())
    }

    fn logits(&self) -> &[f32] {
        &self.logits
    }
}
