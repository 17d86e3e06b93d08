//! A decoder graph with dynamic shapes whose keys and values live in one preallocated buffer, bound as past and present
//! at once: each pass writes its new rows in place, so nothing is copied from token to token. The buffer starts small and
//! doubles when it is full, up to the context: a short chat does not pay for a long context's memory.
//!
//! The graph is onnxruntime-genai's plain decoder: `input_ids` and `attention_mask` (both int64 [1, tokens]) in, `logits`
//! (float32 [1, positions, vocabulary]) out. A graph built by ortalk has one input more, `logits_index` (int64
//! [positions]), an initializer that may be overridden: it names the positions whose logits are wanted.

use ort::memory::{Allocator, MemoryInfo};
use ort::session::{IoBinding, Session};
use ort::value::{Tensor, TensorElementType, ValueType};

use super::{DecodeError, Decoder, Limits, of_layer};
use crate::model::{DecoderConfig, ModelFolder};
use crate::onnx_runtime::{CpuSessionOptions, OnnxRuntime, Placement, placement, run_bound};

/// Room for so many tokens is made at first.
const FIRST_CAPACITY: usize = 1024;

/// A longer pass is no faster (904 tokens/s at 128 and 809 at 512, measured when this was chosen).
const PREFILL_CHUNK: usize = 128;

/// ONNX Runtime multiplies one row by another kernel than several.
const SHORTEST_PREFILL: usize = 2;

/// The optional input that names the positions whose logits are wanted.
const LOGITS_INDEX: &str = "logits_index";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecoderOptions {
    pub session: CpuSessionOptions,
    /// The longest sequence to hold, in tokens.
    pub context: usize,
}

pub struct SharedBufferDecoder {
    session: Session,
    binding: IoBinding,
    names: Names,
    cache: Vec<CacheTensor>,
    /// Tokens that the cache's tensors have room for.
    capacity: usize,
    selects_logits: bool,
    vocabulary: usize,
    context: usize,
    position: usize,
    /// Where the graph writes one position's logits, `[1, 1, vocabulary]`.
    last: Tensor<f32>,
    /// The last pass's logits.
    logits: Vec<f32>,
}

/// The keys or the values of one layer.
struct CacheTensor {
    past: String,
    present: String,
    /// `[1, heads, capacity, head size]`; the binding holds it too.
    tensor: Tensor<f32>,
}

struct Names {
    graph: String,
    input_ids: String,
    attention_mask: String,
    logits: String,
}

impl SharedBufferDecoder {
    pub fn new(runtime: &OnnxRuntime, folder: &ModelFolder, options: DecoderOptions) -> Result<Self, DecodeError> {
        let config = &folder.config.model;
        let decoder = &config.decoder;
        let Some(graph) = decoder.filename.as_ref().filter(|_| decoder.pipeline.0.is_empty()) else {
            return Err(DecodeError::InPieces { folder: folder.path.clone() });
        };
        let session = runtime.cpu_session(&folder.path.join(graph), options.session)?;
        let names = Names {
            graph: graph.clone(),
            input_ids: decoder.inputs.input_ids.clone(),
            attention_mask: decoder.inputs.attention_mask.clone(),
            logits: decoder.outputs.logits.clone(),
        };
        let graph_error = |what: String| DecodeError::Graph { graph: names.graph.clone(), what };
        let run_error = |error: ort::Error| DecodeError::Run(error.to_string());

        let mut expected = vec![names.input_ids.clone(), names.attention_mask.clone()];
        let mut binding = session.create_binding().map_err(run_error)?;
        // Grows as the graph has inputs for it: the configuration's number of layers is only a claim.
        let mut cache = Vec::new();
        let capacity = FIRST_CAPACITY.min(options.context);
        let shape = [1, decoder.num_key_value_heads, capacity, decoder.head_size];
        for layer in 0..decoder.num_hidden_layers {
            for (past, present) in [
                (&decoder.inputs.past_key_names, &decoder.outputs.present_key_names),
                (&decoder.inputs.past_value_names, &decoder.outputs.present_value_names),
            ] {
                let (past, present) = (of_layer(past, layer), of_layer(present, layer));
                check_cache_input(&session, &past, decoder).map_err(graph_error)?;
                expected.push(past.clone());
                let tensor = Tensor::<f32>::new(&Allocator::default(), shape).map_err(run_error)?;
                let mut slot = CacheTensor { past, present, tensor };
                slot.bind(&mut binding).map_err(run_error)?;
                cache.push(slot);
            }
        }
        for input in session.inputs() {
            if !expected.iter().any(|name| name == input.name()) {
                return Err(graph_error(format!("has the input '{}', which is not known here", input.name())));
            }
        }
        check_logits(&session, &names.logits, config.vocab_size).map_err(graph_error)?;
        let selects_logits = session.overridable_initializers().iter().any(|i| i.name() == LOGITS_INDEX);
        let last = Tensor::<f32>::new(&Allocator::default(), [1, 1, config.vocab_size]).map_err(run_error)?;
        Ok(Self {
            session,
            binding,
            names,
            cache,
            capacity,
            selects_logits,
            vocabulary: config.vocab_size,
            context: options.context,
            position: 0,
            last,
            logits: Vec::new(),
        })
    }

    /// Where ONNX Runtime put the graph's nodes.
    pub fn placement(&self) -> Option<Placement> {
        placement(&self.session)
    }

    /// Appends `tokens` and returns the logits after each of them, one row of the vocabulary's size after another.
    pub fn forward_all(&mut self, tokens: &[u32]) -> Result<&[f32], DecodeError> {
        let positions: Vec<i64> = (0..tokens.len() as i64).collect();
        self.run(tokens, positions)?;
        Ok(&self.logits)
    }

    fn run(&mut self, tokens: &[u32], positions: Vec<i64>) -> Result<(), DecodeError> {
        let limits = Limits { context: self.context, vocabulary: self.vocabulary, first_token: None };
        limits.check(tokens, self.position)?;
        let total = self.position + tokens.len();
        if total > self.capacity {
            self.grow(total).map_err(|error| DecodeError::Run(error.to_string()))?;
        }
        self.run_bound(tokens, total, positions).map_err(DecodeError::Run)?;
        self.position = total;
        Ok(())
    }

    /// Makes room for at least `tokens`, which the context holds, and keeps what is in the cache.
    fn grow(&mut self, tokens: usize) -> ort::Result<()> {
        let capacity = tokens.next_power_of_two().min(self.context);
        for slot in &mut self.cache {
            slot.grow(capacity, self.position)?;
            slot.bind(&mut self.binding)?;
        }
        self.capacity = capacity;
        Ok(())
    }

    fn run_bound(&mut self, tokens: &[u32], total: usize, positions: Vec<i64>) -> Result<(), String> {
        self.bind_inputs(tokens, total).map_err(|error| error.to_string())?;
        if self.selects_logits && positions.len() == 1 {
            self.bind_last(positions).map_err(|error| error.to_string())?;
            run_bound(&mut self.session, &self.binding)?;
            let (_, values) = self.last.extract_tensor();
            self.logits.clear();
            self.logits.extend_from_slice(values);
            return Ok(());
        }
        self.run_unbound(positions).map_err(|error| error.to_string())
    }

    fn bind_inputs(&mut self, tokens: &[u32], total: usize) -> ort::Result<()> {
        let ids: Vec<i64> = tokens.iter().map(|token| i64::from(*token)).collect();
        let binding = &mut self.binding;
        binding.bind_input(self.names.input_ids.as_str(), &Tensor::from_array(([1, tokens.len()], ids))?)?;
        binding.bind_input(self.names.attention_mask.as_str(), &Tensor::from_array(([1, total], vec![1_i64; total]))?)
    }

    fn bind_last(&mut self, position: Vec<i64>) -> ort::Result<()> {
        self.binding.bind_input(LOGITS_INDEX, &Tensor::from_array(([1], position))?)?;
        self.binding.bind_output(self.names.logits.as_str(), &mut self.last)
    }

    /// For logits of which only the graph knows how many come. ONNX Runtime allocates them: a tensor of ours may not have
    /// more rows than the graph declares, which for other programs' sake is one.
    fn run_unbound(&mut self, positions: Vec<i64>) -> ort::Result<()> {
        let last_only = positions.len() == 1;
        let name = self.names.logits.as_str();
        if self.selects_logits {
            self.binding.bind_input(LOGITS_INDEX, &Tensor::from_array(([positions.len()], positions))?)?;
        }
        self.binding.bind_output_to_device(name, &MemoryInfo::default())?;
        let outputs = self.session.run_binding(&self.binding)?;
        let (_, values) = outputs[name].try_extract_tensor::<f32>()?;
        let wanted = if last_only { &values[values.len().saturating_sub(self.vocabulary)..] } else { values };
        self.logits.clear();
        self.logits.extend_from_slice(wanted);
        Ok(())
    }
}

impl CacheTensor {
    fn bind(&mut self, binding: &mut IoBinding) -> ort::Result<()> {
        binding.bind_input(self.past.as_str(), &self.tensor)?;
        binding.bind_output(self.present.as_str(), &mut self.tensor)
    }

    /// A larger tensor with the first `kept` tokens of each head.
    fn grow(&mut self, capacity: usize, kept: usize) -> ort::Result<()> {
        let (shape, old) = self.tensor.extract_tensor();
        let (heads, old_capacity, head_size) = (shape[1] as usize, shape[2] as usize, shape[3] as usize);
        let mut larger = Tensor::<f32>::new(&Allocator::default(), [1, heads, capacity, head_size])?;
        let (_, new) = larger.extract_tensor_mut();
        for head in 0..heads {
            let (from, to) = (head * old_capacity * head_size, head * capacity * head_size);
            new[to..to + kept * head_size].copy_from_slice(&old[from..from + kept * head_size]);
        }
        self.tensor = larger;
        Ok(())
    }
}

impl Decoder for SharedBufferDecoder {
    fn context_limit(&self) -> usize {
        self.context
    }

    fn prefill_chunk(&self) -> usize {
        PREFILL_CHUNK
    }

    fn shortest_prefill(&self) -> usize {
        SHORTEST_PREFILL
    }

    fn position(&self) -> usize {
        self.position
    }

    fn rewind(&mut self, position: usize) {
        self.position = self.position.min(position);
    }

    fn forward(&mut self, tokens: &[u32]) -> Result<(), DecodeError> {
        self.run(tokens, vec![tokens.len() as i64 - 1])
    }

    fn logits(&self) -> &[f32] {
        &self.logits[self.logits.len().saturating_sub(self.vocabulary)..]
    }
}

fn check_cache_input(session: &Session, name: &str, config: &DecoderConfig) -> Result<(), String> {
    let input = session
        .inputs()
        .iter()
        .find(|input| input.name() == name)
        .ok_or_else(|| format!("has no input '{name}', which its configuration names"))?;
    let ValueType::Tensor { ty: TensorElementType::Float32, shape, .. } = input.dtype() else {
        let found = input.dtype();
        return Err(format!("keeps its cache '{name}' as {found}; only float32 runs on the CPU lane so far"));
    };
    let (heads, head_size) = (config.num_key_value_heads, config.head_size);
    if fits(shape.get(1), heads) && fits(shape.get(3), head_size) {
        return Ok(());
    }
    Err(format!(
        "keeps its cache '{name}' in the shape {:?}, but its configuration says num_key_value_heads {heads} and head_size \
         {head_size}; they must be the same",
        &shape[..]
    ))
}

/// Whether a graph's declared size is this one; a negative one is any.
fn fits(declared: Option<&i64>, size: usize) -> bool {
    declared.is_none_or(|declared| usize::try_from(*declared).map_or(true, |declared| declared == size))
}

/// One row of logits must have the vocabulary's size, or rows would be cut at the wrong places.
fn check_logits(session: &Session, name: &str, vocabulary: usize) -> Result<(), String> {
    let output = session
        .outputs()
        .iter()
        .find(|output| output.name() == name)
        .ok_or_else(|| format!("has no output '{name}', which its configuration names"))?;
    let ValueType::Tensor { ty: TensorElementType::Float32, shape, .. } = output.dtype() else {
        let found = output.dtype();
        return Err(format!("gives its logits '{name}' as {found}; only float32 runs on the CPU lane so far"));
    };
    if fits(shape.last(), vocabulary) {
        return Ok(());
    }
    Err(format!(
        "gives logits of the shape {:?}, but its configuration says vocab_size {vocabulary}; the last size must be that",
        &shape[..]
    ))
}
