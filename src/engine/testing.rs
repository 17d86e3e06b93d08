//! For the engine's own tests: a model whose tokens are bytes, and a decoder that answers from a script.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use std::time::Instant;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::event::GenerationEvent;
use super::job::{Job, Request};
use super::request::Sampling;
use super::route::RemoteUse;
use super::thinking::ThinkingSplitter;
use super::tool_calls::CallFinder;
use crate::decoder::{DecodeError, Decoder};
use crate::model::{CallStyle, ModelFolder, ToolStyle};

/// The token that ends an answer; tokens below 256 are bytes.
pub const END: u32 = 256;
const VOCABULARY: usize = 257;

/// A model folder with a byte-level tokenizer without merges, and a template that writes each message as `<role>text`.
pub fn byte_model(folder: &Path) -> ModelFolder {
    let mut vocabulary = serde_json::Map::new();
    for byte in 0..=255_u8 {
        vocabulary.insert(byte_symbol(byte).to_string(), byte.into());
    }
    let tokenizer = serde_json::json!({
        "version": "1.0",
        "added_tokens": [{"id": END, "content": "<end>", "special": true, "single_word": false, "lstrip": false,
                          "rstrip": false, "normalized": false}],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
        "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    });
    let config = serde_json::json!({
        "model": {"type": "llama", "context_length": 64, "vocab_size": VOCABULARY, "eos_token_id": [END], "decoder":
            {"filename": "model.onnx", "head_size": 1, "num_hidden_layers": 1, "num_key_value_heads": 1}},
    });
    std::fs::write(folder.join("tokenizer.json"), tokenizer.to_string()).unwrap();
    std::fs::write(folder.join("genai_config.json"), config.to_string()).unwrap();
    let template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>";
    std::fs::write(folder.join("chat_template.jinja"), template).unwrap();
    ModelFolder::open(folder).unwrap()
}

/// A greedy request for these bytes as a prompt, and where its events come out.
pub fn job(prompt: &str, max_tokens: usize, stop: &[&str]) -> (Job, UnboundedReceiver<GenerationEvent>) {
    job_with(prompt, max_tokens, stop, Sampling::GREEDY, false)
}

pub fn job_with(
    prompt: &str,
    max_tokens: usize,
    stop: &[&str],
    sampling: Sampling,
    pinned: bool,
) -> (Job, UnboundedReceiver<GenerationEvent>) {
    let (events, received) = unbounded_channel();
    let style = ToolStyle { calls: CallStyle::Tagged, in_template: false, hidden: Vec::new() };
    let job = Job::new(Request {
        prompt: prompt.bytes().map(u32::from).collect(),
        sampling,
        max_tokens,
        stop: stop.iter().map(|stop| stop.to_string()).collect(),
        logprobs: None,
        thinking: ThinkingSplitter::off(),
        calls: CallFinder::new(&style, Vec::new()),
        constraint: None,
        pinned,
        measure: None,
        fresh: false,
        chat: None,
        remote: RemoteUse::default(),
        submitted: Instant::now(),
        events,
    });
    (job, received)
}

/// GPT-2's printable stand-in for a byte (`bytes_to_unicode` in its encoder).
fn byte_symbol(byte: u8) -> char {
    let printable = |b: u8| matches!(b, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    if printable(byte) {
        return char::from(byte);
    }
    let rank = (0..byte).filter(|b| !printable(*b)).count();
    char::from_u32(256 + rank as u32).unwrap()
}

/// Gives the script's tokens one after the other, however it was prompted; can be told to fail.
pub struct ScriptedDecoder {
    pub script: Vec<u32>,
    pub context: usize,
    /// Fails at this pass, counted from 0.
    pub fault_at: Option<usize>,
    /// `Decoder::prefill_chunk` and `Decoder::shortest_prefill`.
    pub chunk: usize,
    pub shortest: usize,
    /// Gives no finite logit at this pass.
    pub nan_at: Option<usize>,
    /// Refuses a token at this pass.
    pub unknown_at: Option<usize>,
    /// Panics at this pass.
    pub panic_at: Option<usize>,
    /// Tokens of each pass so far, shared so that a test can look at it.
    pub passes: Arc<AtomicUsize>,
    pub lengths: Vec<usize>,
    position: usize,
    given: usize,
    logits: Vec<f32>,
}

impl ScriptedDecoder {
    pub fn new(script: &[u32], context: usize) -> Self {
        Self {
            script: script.to_vec(),
            context,
            fault_at: None,
            panic_at: None,
            nan_at: None,
            unknown_at: None,
            chunk: 128,
            shortest: 2,
            passes: Arc::default(),
            lengths: Vec::new(),
            position: 0,
            given: 0,
            logits: Vec::new(),
        }
    }
}

impl Decoder for ScriptedDecoder {
    fn context_limit(&self) -> usize {
        self.context
    }

    fn prefill_chunk(&self) -> usize {
        self.chunk
    }

    fn shortest_prefill(&self) -> usize {
        self.shortest
    }

    fn position(&self) -> usize {
        self.position
    }

    fn rewind(&mut self, position: usize) {
        self.position = self.position.min(position);
        self.given = 0;
    }

    fn forward(&mut self, tokens: &[u32]) -> Result<(), DecodeError> {
        let pass = self.passes.fetch_add(1, Ordering::Relaxed);
        if self.fault_at == Some(pass) {
            return Err(DecodeError::Run("injected fault".into()));
        }
        assert!(self.panic_at != Some(pass), "injected panic");
        if self.unknown_at == Some(pass) {
            return Err(DecodeError::UnknownToken { token: 999, vocabulary: VOCABULARY });
        }
        self.lengths.push(tokens.len());
        self.position += tokens.len();
        // A pass of one token is decode; longer ones are the prompt's.
        self.given = if tokens.len() == 1 { self.given + 1 } else { 0 };
        let next = self.script.get(self.given).copied().unwrap_or(END);
        self.logits = vec![0.0; VOCABULARY];
        self.logits[next as usize] = 1.0;
        if self.nan_at == Some(pass) {
            self.logits.fill(f32::NAN);
        }
        Ok(())
    }

    fn logits(&self) -> &[f32] {
        &self.logits
    }
}

/// Gives a next token that depends on every token before it, and not on how they came: an answer that lost or repeated one
/// would go on differently. Answers never end by themselves.
pub struct SequenceDecoder {
    context: usize,
    tokens: Vec<u32>,
    logits: Vec<f32>,
    fault: Fault,
}

/// When a `SequenceDecoder` breaks: in the pass that would hold so many tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    Never,
    Error(usize),
    Panic(usize),
    Hang(usize),
    /// Takes no sequence that starts as this one does.
    Refuse,
}

impl SequenceDecoder {
    pub fn new(context: usize, fault: Fault) -> Self {
        Self { context, tokens: Vec::new(), logits: Vec::new(), fault }
    }
}

impl Decoder for SequenceDecoder {
    fn context_limit(&self) -> usize {
        self.context
    }

    fn prefill_chunk(&self) -> usize {
        8
    }

    fn position(&self) -> usize {
        self.tokens.len()
    }

    fn rewind(&mut self, position: usize) {
        self.tokens.truncate(position);
    }

    fn forward(&mut self, tokens: &[u32]) -> Result<(), DecodeError> {
        let (before, after) = (self.tokens.len(), self.tokens.len() + tokens.len());
        assert!(after <= self.context, "{after} tokens in a context of {}", self.context);
        let now = |at: usize| (before + 1..=after).contains(&at);
        match self.fault {
            Fault::Error(at) if now(at) => return Err(DecodeError::Run("injected fault".into())),
            Fault::Refuse => return Err(DecodeError::FirstToken { expected: END, found: tokens[0] }),
            Fault::Panic(at) if now(at) => panic!("injected panic"),
            Fault::Hang(at) if now(at) => loop {
                std::thread::park();
            },
            _ => {}
        }
        self.tokens.extend_from_slice(tokens);
        // FNV-1a over the tokens, then one more step for each entry of the vocabulary.
        let step = |hash: u64, token: u32| (hash ^ u64::from(token)).wrapping_mul(0x100_0000_01b3);
        let hash = self.tokens.iter().fold(0xcbf2_9ce4_8422_2325, |hash, token| step(hash, *token));
        self.logits = (0..VOCABULARY as u32).map(|entry| (step(step(hash, entry), 7) >> 40) as f32 / 2e6).collect();
        self.logits[END as usize] = -100.0;
        Ok(())
    }

    fn logits(&self) -> &[f32] {
        &self.logits
    }
}

/// Of each pass so far, slots and how many tokens each was given.
pub type Passes = Arc<Mutex<Vec<Vec<(usize, usize)>>>>;

/// Gives each of its slots a next token as `SequenceDecoder` does, and remembers what it was asked for.
pub struct SlotDecoder {
    /// Tokens that it has memory for, in rows of the longest sequence's length.
    budget: usize,
    context: usize,
    slots: Vec<SequenceDecoder>,
    selected: usize,
    passes: Passes,
    logits: Vec<f32>,
}

impl SlotDecoder {
    pub fn new(count: usize, context: usize, budget: usize) -> Self {
        let slots = (0..count).map(|_| SequenceDecoder::new(context, Fault::Never)).collect();
        Self { budget, context, slots, selected: 0, passes: Arc::default(), logits: Vec::new() }
    }

    /// Breaks when a slot holds so many tokens.
    pub fn with_fault(mut self, fault: Fault) -> Self {
        self.slots.iter_mut().for_each(|slot| slot.fault = fault);
        self
    }

    pub fn passes(&self) -> Passes {
        self.passes.clone()
    }

    fn ran(&self, pass: Vec<(usize, usize)>) {
        let held: Vec<usize> = self.slots.iter().map(|slot| slot.tokens.len()).filter(|length| *length > 0).collect();
        let longest = held.iter().copied().max().unwrap_or(0);
        assert!(held.len() <= self.slots(longest), "{held:?} with memory for {} tokens", self.budget);
        self.passes.lock().unwrap().push(pass);
    }
}

impl Decoder for SlotDecoder {
    fn context_limit(&self) -> usize {
        self.context
    }

    fn prefill_chunk(&self) -> usize {
        64
    }

    fn slots(&self, tokens: usize) -> usize {
        (self.budget / tokens.max(1)).clamp(1, self.slots.len())
    }

    fn select(&mut self, slot: usize) {
        self.selected = slot;
    }

    fn copy(&mut self, from: usize, tokens: usize) -> Result<(), DecodeError> {
        self.slots[self.selected].tokens = self.slots[from].tokens[..tokens].to_vec();
        Ok(())
    }

    fn step(&mut self, next: &[(usize, u32)], logits: &mut Vec<f32>) -> Result<(), DecodeError> {
        logits.clear();
        for (slot, token) in next {
            self.slots[*slot].forward(&[*token])?;
            logits.extend_from_slice(self.slots[*slot].logits());
        }
        self.ran(next.iter().map(|(slot, _)| (*slot, 1)).collect());
        Ok(())
    }

    fn position(&self) -> usize {
        self.slots[self.selected].position()
    }

    fn rewind(&mut self, position: usize) {
        self.slots[self.selected].rewind(position);
    }

    fn forward(&mut self, tokens: &[u32]) -> Result<(), DecodeError> {
        self.slots[self.selected].forward(tokens)?;
        self.logits = self.slots[self.selected].logits().to_vec();
        self.ran(vec![(self.selected, tokens.len())]);
        Ok(())
    }

    fn logits(&self) -> &[f32] {
        &self.logits
    }
}
