//! A decoder in one graph whose shapes may differ from run to run, on the CPU: what ortalk builds, onnxruntime-genai's plain
//! decoders, and what Optimum exports for transformers.js. `contract` finds out what a graph takes and gives, `cache` keeps
//! keys and values in the way that it allows, `slots` knows whose they are, and here is what is common: feed, run, read the
//! logits.
//!
//! Several sequences get their next tokens in one pass, where the graph can and where that changes no bit of any logit:
//! ONNX Runtime chooses its kernels by the number of rows, and they need not round alike. It is tried on the lane's own
//! work: the first pass of each size is made once more, one by one for its outer rows.

mod cache;
mod contract;
mod outline;
mod slots;

use ort::memory::{Allocator, MemoryInfo};
use ort::session::{IoBinding, Session};
use ort::value::{DynTensor, Tensor, TensorElementType};

use super::{DecodeError, Decoder, Limits, one_by_one};
use crate::model::ModelFolder;
use crate::onnx_runtime::{CpuSessionOptions, OnnxRuntime, Placement, placement, run_bound};

pub use contract::{CacheKind, Contract};
pub use outline::GraphOutline;

use cache::Cache;
use contract::{Integers, Rank, Wanted};
use slots::{Layout, MOST_SLOTS, Slots, Swap};

/// Where nobody measured what is best: a longer pass is no faster (904 tokens/s at 128 and 809 at 512, measured when this
/// was chosen).
pub const PREFILL_CHUNK: usize = 128;

/// ONNX Runtime multiplies one row by another kernel than several.
const SHORTEST_PREFILL: usize = 2;

/// Of the largest logit: a pass in parts may differ by so much where activations are rounded to 8 bits. A token that sees
/// what comes behind it differs by far more.
const PART_ROUNDING: f32 = 0.1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecoderOptions {
    pub session: CpuSessionOptions,
    /// The longest sequence to hold, in tokens.
    pub context: usize,
}

pub struct PlainDecoder {
    session: Session,
    binding: IoBinding,
    contract: Contract,
    cache: Cache,
    slots: Slots,
    /// The slot that is selected.
    slot: usize,
    limits: Limits,
    prefill_chunk: usize,
    /// Several tokens behind a past go one by one.
    single_behind_past: bool,
    batches: Batches,
    /// Where the graph writes one position's logits, `[1, 1, vocabulary]`.
    last: DynTensor,
    /// The same of the last pass over several sequences: `[sequences, 1, vocabulary]`.
    last_of_several: Option<DynTensor>,
    /// The last pass's logits.
    logits: Vec<f32>,
}

/// Which numbers of sequences may share a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Batches {
    possible: bool,
    /// A pass over so many gave each its own logits, to the last bit.
    equal: [bool; MOST_SLOTS + 1],
}

/// What one pass runs: as many tokens for each sequence, one sequence behind the other.
#[derive(Clone, Copy)]
struct Pass<'a> {
    tokens: &'a [u32],
    /// Tokens of each sequence before the pass.
    positions: &'a [usize],
}

impl Pass<'_> {
    fn sequences(&self) -> usize {
        self.positions.len()
    }

    /// New tokens of each sequence.
    fn count(&self) -> usize {
        self.tokens.len() / self.positions.len().max(1)
    }

    /// Of the longest sequence, after the pass.
    fn total(&self) -> usize {
        self.positions.iter().max().map_or(0, |position| position + self.count())
    }
}

/// Whose logits are wanted of a pass.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rows {
    All,
    Last,
}

impl PlainDecoder {
    /// Opens the folder's graph. The graph says which kind of cache it has.
    pub fn new(runtime: &OnnxRuntime, folder: &ModelFolder, options: DecoderOptions) -> Result<Self, DecodeError> {
        let model = &folder.config.model;
        let Some(graph) = model.decoder.filename.as_ref().filter(|_| model.decoder.pipeline.0.is_empty()) else {
            return Err(DecodeError::InPieces { folder: folder.path.clone() });
        };
        let path = folder.path.join(graph);
        // Before the weights are loaded, which takes time.
        let outline = GraphOutline::read(&path)?;
        let contract =
            Contract::of(&outline, model).map_err(|what| DecodeError::Graph { graph: graph.clone(), what })?;
        let session = runtime.cpu_session_with(&path, options.session, &model.decoder.session_options)?;
        let binding = session.create_binding().map_err(DecodeError::run)?;
        let allocator = match contract.kind {
            CacheKind::Shared => Allocator::default(),
            // The session's own keeps the memory of tensors that come and go with each pass.
            CacheKind::Growing => Allocator::new(&session, MemoryInfo::default()).map_err(DecodeError::run)?,
        };
        let cache = Cache::new(contract.kind, &contract.cache, allocator).map_err(DecodeError::run)?;
        let last = DynTensor::new(&Allocator::default(), contract.logits.element, [1, 1, model.vocab_size])
            .map_err(DecodeError::run)?;
        let limits = Limits { context: options.context, vocabulary: model.vocab_size, first_token: None };
        let shared = contract.kind == CacheKind::Shared;
        let mut decoder = Self {
            slots: Slots::new(if shared { MOST_SLOTS } else { 1 }, options.context, 0),
            slot: 0,
            batches: Batches { possible: shared && contract.several_sequences, equal: [false; MOST_SLOTS + 1] },
            session,
            binding,
            contract,
            cache,
            limits,
            prefill_chunk: PREFILL_CHUNK,
            single_behind_past: false,
            last,
            last_of_several: None,
            logits: Vec::new(),
        };
        if decoder.cache.kind() == CacheKind::Growing {
            decoder.single_behind_past = !decoder.takes_several_behind_past()?;
            decoder.rewind(0);
        }
        Ok(decoder)
    }

    /// Makes room for several sequences, of so many tokens together; for a whole context in any case.
    pub fn with_room_for(mut self, tokens: usize) -> Self {
        let slots = if self.contract.kind == CacheKind::Shared { MOST_SLOTS } else { 1 };
        self.slots = Slots::new(slots, self.limits.context, tokens);
        self
    }

    /// Whether several sequences get their next tokens in one pass; `None` while that was not tried.
    pub fn shares_passes(&self) -> Option<bool> {
        if !self.batches.possible {
            return Some(false);
        }
        self.batches.equal.contains(&true).then_some(true)
    }

    /// Whether tokens behind a past come out as they do in one pass. Graphs that were traced with one token for their past
    /// fail there, or do not hide a token from those before it.
    fn takes_several_behind_past(&mut self) -> Result<bool, DecodeError> {
        let tokens: Vec<u32> = (0..4).filter(|token| (*token as usize) < self.limits.vocabulary).collect();
        if tokens.len() < 4 || self.limits.context < tokens.len() {
            return Ok(false);
        }
        // The third token's, which the fourth must not change; where only the last one's are given, those.
        let vocabulary = self.limits.vocabulary;
        let third = |rows: &[f32]| rows[rows.len().saturating_sub(2 * vocabulary)..][..vocabulary].to_vec();
        let whole = third(self.forward_all(&tokens)?);
        self.rewind(0);
        self.forward(&tokens[..2])?;
        let Ok(rows) = self.forward_all(&tokens[2..]) else { return Ok(false) };
        let parts = third(rows);
        let difference = whole.iter().zip(&parts).map(|(whole, part)| (whole - part).abs()).fold(0.0, f32::max);
        let largest = whole.iter().fold(0.0_f32, |largest, logit| largest.max(logit.abs()));
        Ok(difference <= PART_ROUNDING * largest)
    }

    /// Other than [`PREFILL_CHUNK`]; at least one.
    pub fn set_prefill_chunk(&mut self, tokens: usize) {
        self.prefill_chunk = tokens.max(1);
    }

    /// Where ONNX Runtime put the graph's nodes.
    pub fn placement(&self) -> Option<Placement> {
        placement(&self.session)
    }

    pub fn cache_kind(&self) -> CacheKind {
        self.cache.kind()
    }

    /// Appends `tokens` and returns the logits after each of them, one row of the vocabulary's size after another; where
    /// the graph gives only those of the last position, that row.
    pub fn forward_all(&mut self, tokens: &[u32]) -> Result<&[f32], DecodeError> {
        self.run(tokens, Rows::All)?;
        Ok(&self.logits)
    }

    fn run(&mut self, tokens: &[u32], rows: Rows) -> Result<(), DecodeError> {
        let position = self.position();
        self.limits.check(tokens, position)?;
        self.logits.clear();
        let single = self.single_behind_past && position > 0;
        for tokens in tokens.chunks(if single { 1 } else { tokens.len() }) {
            if rows == Rows::Last {
                self.logits.clear();
            }
            self.pass(tokens, rows).map_err(DecodeError::Run)?;
            self.slots.set_length(self.slot, self.position() + tokens.len());
        }
        Ok(())
    }

    /// Runs the graph for the selected slot, and appends the logits.
    fn pass(&mut self, tokens: &[u32], rows: Rows) -> Result<(), String> {
        let position = self.position();
        let pass = Pass { tokens, positions: &[position] };
        let text = |error: ort::Error| error.to_string();
        self.make_room(&[self.slot], pass.total())?;
        let row = self.slots.row(self.slot);
        self.cache.bind(row..row + 1, position, pass.total(), &mut self.binding)?;
        self.bind_inputs(pass, rows).map_err(text)?;
        let one_row = match self.contract.wanted {
            Wanted::Given => tokens.len() == 1 || self.contract.logits.last_only,
            _ => tokens.len() == 1 || rows == Rows::Last,
        };
        if one_row {
            self.binding.bind_output(self.contract.logits.name.as_str(), &mut self.last).map_err(text)?;
            run_bound(&mut self.session, &self.binding)?;
            append(&self.last, &mut self.logits, usize::MAX).map_err(text)?;
        } else {
            self.run_for_rows(rows).map_err(text)?;
        }
        self.cache.advance(pass.total());
        Ok(())
    }

    /// One token for each of these slots in one pass, whose rows are in that order. The slots stay as long as they are.
    fn pass_for_several(&mut self, next: &[(usize, u32)], logits: &mut Vec<f32>) -> Result<(), String> {
        let text = |error: ort::Error| error.to_string();
        let positions: Vec<usize> = next.iter().map(|(slot, _)| self.slots.length(*slot)).collect();
        let tokens: Vec<u32> = next.iter().map(|(_, token)| *token).collect();
        let pass = Pass { tokens: &tokens, positions: &positions };
        self.cache.bind(0..next.len(), pass.total(), pass.total(), &mut self.binding)?;
        self.bind_inputs(pass, Rows::Last).map_err(text)?;
        let rows = next.len();
        if self.last_of_several.as_ref().is_none_or(|last| last.shape().first() != Some(&(rows as i64))) {
            let (element, vocabulary) = (self.contract.logits.element, self.limits.vocabulary);
            let made = DynTensor::new(&Allocator::default(), element, [rows, 1, vocabulary]).map_err(text)?;
            self.last_of_several = Some(made);
        }
        let Some(last) = &mut self.last_of_several else { return Ok(()) };
        self.binding.bind_output(self.contract.logits.name.as_str(), &mut *last).map_err(text)?;
        run_bound(&mut self.session, &self.binding)?;
        append(last, logits, usize::MAX).map_err(text)
    }

    /// The logits of one token for each of these slots, which lie in this order in the first rows; `None` where such a pass
    /// does not give what passes one by one do.
    fn together(&mut self, next: &[(usize, u32)]) -> Result<Option<Vec<f32>>, DecodeError> {
        let mut together = Vec::new();
        if self.pass_for_several(next, &mut together).is_err() {
            return Ok(None);
        }
        let vocabulary = self.limits.vocabulary;
        if !self.batches.equal[next.len()] {
            let outer = [0, next.len() - 1];
            for index in outer {
                let (slot, token) = next[index];
                let alone = self.alone(slot, token)?;
                if *alone != together[index * vocabulary..(index + 1) * vocabulary] {
                    return Ok(None);
                }
            }
            self.batches.equal[next.len()] = true;
        }
        for (slot, _) in next {
            self.slots.set_length(*slot, self.slots.length(*slot) + 1);
        }
        Ok(Some(together))
    }

    /// The logits that a token of this slot has in a pass of its own. The slot stays as long as it is.
    fn alone(&mut self, slot: usize, token: u32) -> Result<&[f32], DecodeError> {
        self.slot = slot;
        self.logits.clear();
        self.pass(&[token], Rows::Last).map_err(DecodeError::Run)?;
        Ok(&self.logits)
    }

    fn make_room(&mut self, slots: &[usize], total: usize) -> Result<(), String> {
        if self.contract.kind == CacheKind::Growing {
            return Ok(());
        }
        match self.slots.make_room(slots, total, self.cache.rows(), self.cache.capacity()) {
            Some(layout) => {
                let Layout { rows, capacity, kept } = layout;
                self.cache.resize(rows, capacity, &kept, &mut self.binding).map_err(|error| error.to_string())
            }
            None => Ok(()),
        }
    }

    /// For logits of which only the graph knows how many rows they have: ONNX Runtime allocates them.
    fn run_for_rows(&mut self, rows: Rows) -> ort::Result<()> {
        let name = self.contract.logits.name.as_str();
        self.binding.bind_output_to_device(name, &MemoryInfo::default())?;
        let mut outputs = self.session.run_binding(&self.binding)?;
        let logits: DynTensor =
            outputs.remove(name).ok_or_else(|| ort::Error::new(format!("there is no '{name}'")))?.downcast()?;
        // Where the graph does not declare it, only now is it known.
        if logits.shape().last() != Some(&(self.limits.vocabulary as i64)) {
            let (found, expected) = (&logits.shape()[..], self.limits.vocabulary);
            return Err(ort::Error::new(format!("'{name}' came as {found:?}, but vocab_size is {expected}")));
        }
        let wanted = if rows == Rows::Last { self.limits.vocabulary } else { usize::MAX };
        append(&logits, &mut self.logits, wanted)
    }

    fn bind_inputs(&mut self, pass: Pass<'_>, rows: Rows) -> ort::Result<()> {
        let (sequences, count, total) = (pass.sequences(), pass.count(), pass.total());
        let (binding, contract) = (&mut self.binding, &self.contract);
        let mut feed = |input: &Integers, shape: &[usize], values: Vec<i64>| {
            binding.bind_input(input.name.as_str(), &input.tensor(shape, values)?)
        };
        feed(&contract.input_ids, &[sequences, count], pass.tokens.iter().map(|token| i64::from(*token)).collect())?;
        if let Some(mask) = &contract.attention_mask {
            let ones = |position: usize| (0..total).map(move |at| i64::from(at < position + count));
            feed(mask, &[sequences, total], pass.positions.iter().copied().flat_map(ones).collect())?;
        }
        if let Some(positions) = &contract.position_ids {
            let those = |position: &usize| *position as i64..(position + count) as i64;
            feed(positions, &[sequences, count], pass.positions.iter().flat_map(those).collect())?;
        }
        match &contract.wanted {
            Wanted::Given => {}
            Wanted::Index(name) => {
                let first = if rows == Rows::Last { count - 1 } else { 0 };
                let positions: Vec<i64> = (first as i64..count as i64).collect();
                binding.bind_input(name.as_str(), &Tensor::from_array(([positions.len()], positions))?)?;
            }
            Wanted::Last(input, rank) => {
                let kept = if rows == Rows::Last { 1 } else { count as i64 };
                feed(input, if *rank == Rank::Scalar { &[] } else { &[1] }, vec![kept])?;
            }
        }
        if let Some(name) = &contract.cache_branch {
            self.binding.bind_input(name.as_str(), &Tensor::from_array(([1], vec![pass.positions[0] > 0]))?)?;
        }
        Ok(())
    }
}

impl Integers {
    fn tensor(&self, shape: &[usize], values: Vec<i64>) -> ort::Result<DynTensor> {
        let shape = shape.to_vec();
        if self.element == TensorElementType::Int64 {
            return Ok(Tensor::from_array((shape, values))?.upcast());
        }
        // Tokens, positions and lengths are below 2^31: the context is.
        let values: Vec<i32> = values.into_iter().map(|value| i32::try_from(value).unwrap_or(i32::MAX)).collect();
        Ok(Tensor::from_array((shape, values))?.upcast())
    }
}

/// Appends the last `most` of the values, as float32.
fn append(from: &DynTensor, to: &mut Vec<f32>, most: usize) -> ort::Result<()> {
    fn last<T>(values: &[T], most: usize) -> &[T] {
        &values[values.len().saturating_sub(most)..]
    }
    match from.data_type() {
        TensorElementType::Float32 => to.extend_from_slice(last(from.try_extract_tensor::<f32>()?.1, most)),
        TensorElementType::Float16 => {
            to.extend(last(from.try_extract_tensor::<half::f16>()?.1, most).iter().map(|value| value.to_f32()));
        }
        _ => to.extend(last(from.try_extract_tensor::<half::bf16>()?.1, most).iter().map(|value| value.to_f32())),
    }
    Ok(())
}

impl Decoder for PlainDecoder {
    fn context_limit(&self) -> usize {
        self.limits.context
    }

    fn prefill_chunk(&self) -> usize {
        // What does not come in the first pass goes one by one.
        if self.single_behind_past { self.limits.context } else { self.prefill_chunk }
    }

    fn shortest_prefill(&self) -> usize {
        if self.single_behind_past { 1 } else { SHORTEST_PREFILL }
    }

    fn slots(&self, tokens: usize) -> usize {
        self.slots.fitting(tokens)
    }

    fn select(&mut self, slot: usize) {
        self.slot = slot;
    }

    fn copy(&mut self, from: usize, tokens: usize) -> Result<(), DecodeError> {
        let (slot, tokens) = (self.slot, tokens.min(self.slots.length(from)));
        self.slots.set_length(slot, 0);
        self.make_room(&[slot], tokens).map_err(DecodeError::Run)?;
        self.cache.copy(self.slots.row(from), self.slots.row(slot), tokens).map_err(DecodeError::run)?;
        self.slots.set_length(slot, tokens);
        Ok(())
    }

    fn step(&mut self, next: &[(usize, u32)], logits: &mut Vec<f32>) -> Result<(), DecodeError> {
        if next.len() < 2 || next.len() > MOST_SLOTS || !self.batches.possible {
            return one_by_one(self, next, logits);
        }
        for (slot, token) in next {
            self.limits.check(&[*token], self.slots.length(*slot))?;
        }
        let slots: Vec<usize> = next.iter().map(|(slot, _)| *slot).collect();
        let total = slots.iter().map(|slot| self.slots.length(*slot) + 1).max().unwrap_or(0);
        self.make_room(&slots, total).map_err(DecodeError::Run)?;
        for Swap { one, other, tokens } in self.slots.gather(&slots) {
            self.cache.swap(one, other, tokens).map_err(DecodeError::run)?;
        }
        let mut order: Vec<usize> = (0..next.len()).collect();
        order.sort_by_key(|index| self.slots.row(slots[*index]));
        let by_row: Vec<(usize, u32)> = order.iter().map(|index| next[*index]).collect();
        let Some(rows) = self.together(&by_row)? else {
            self.batches.possible = false;
            return one_by_one(self, next, logits);
        };
        // As they were asked for.
        let vocabulary = self.limits.vocabulary;
        logits.clear();
        logits.resize(rows.len(), 0.0);
        for (row, index) in rows.chunks_exact(vocabulary).zip(order) {
            logits[index * vocabulary..(index + 1) * vocabulary].copy_from_slice(row);
        }
        Ok(())
    }

    fn position(&self) -> usize {
        self.slots.length(self.slot)
    }

    fn rewind(&mut self, position: usize) {
        self.slots.set_length(self.slot, self.position().min(position));
    }

    fn forward(&mut self, tokens: &[u32]) -> Result<(), DecodeError> {
        self.run(tokens, Rows::Last)
    }

    fn logits(&self) -> &[f32] {
        &self.logits[self.logits.len().saturating_sub(self.limits.vocabulary)..]
    }
}
