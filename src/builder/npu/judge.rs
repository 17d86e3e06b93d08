//! Runs quantized bundles beside the float model over held-out texts; `quality` says how far apart they are.
//!
//! What the float model says is computed once: its answers to the questions, and the hidden states of all positions, from
//! which its logits are made again when they are compared. All positions are judged on the CPU; compiled graphs, which a
//! simulator may run, only for a part.

use super::corpus::Texts;
use super::quality::{Comparison, Quality, most_likely};
use crate::decoder::{DecodeError, Decoder, LanguageHead, StaticDecoder};

/// Tokens of each answer to judge by.
const ANSWER: usize = 48;

/// Tokens behind a chunk that a part ends with: they go through the decode graph, where a simulator takes seconds for each.
const PART_DECODED: usize = 4;

/// Rows of which the logits are made at a time: those of all would take hundreds of megabytes.
const ROWS: usize = 32;

/// What the float model makes of the held-out texts.
pub struct Reference {
    sequences: Vec<Sequence>,
    head: LanguageHead,
}

struct Sequence {
    tokens: Vec<u32>,
    /// So many first tokens are another sequence's first as well: what follows them is predicted there. At least one,
    /// because what follows the first token of all is judged nowhere.
    shared: usize,
    /// The last hidden states of each token but the first.
    rows: Vec<f32>,
}

impl Reference {
    /// `stops` are the tokens that end an answer.
    pub fn new(
        mut float: StaticDecoder,
        texts: &Texts,
        stops: &[u32],
        progress: &mut dyn FnMut(f32),
    ) -> Result<Self, DecodeError> {
        let mut sequences: Vec<Sequence> = Vec::new();
        let total = (texts.questions.len() + texts.passages.len()) as f32;
        let questions = texts.questions.iter().map(|question| (question, ANSWER));
        let passages = texts.passages.iter().map(|passage| (passage, 0));
        for (done, (prompt, answer)) in questions.chain(passages).enumerate() {
            progress(done as f32 / total);
            let mut tokens = prompt.clone();
            let mut rows = start(&mut float, &tokens)?;
            for _ in 0..answer.min(float.context_limit().saturating_sub(tokens.len())) {
                let Some(next) = most_likely(float.logits()).map(|token| token as u32) else { break };
                tokens.push(next);
                rows.extend(append(&mut float, &[next])?);
                if stops.contains(&next) {
                    break;
                }
            }
            let shared = sequences.iter().map(|other| common(&other.tokens, &tokens)).max().unwrap_or(0).max(1);
            sequences.push(Sequence { tokens, shared, rows });
        }
        progress(1.0);
        Ok(Self { sequences, head: float.into_head() })
    }

    /// Compares over all texts, each in one prompt.
    pub fn compare(
        &mut self,
        quantized: &mut StaticDecoder,
        progress: &mut dyn FnMut(f32),
    ) -> Result<Option<Quality>, DecodeError> {
        let mut comparison = Comparison::default();
        for (done, sequence) in self.sequences.iter().enumerate() {
            progress(done as f32 / self.sequences.len() as f32);
            let rows = start(quantized, &sequence.tokens)?;
            add(sequence, sequence.shared, &rows, [&mut self.head, quantized.head()], &mut comparison)?;
        }
        progress(1.0);
        Ok(comparison.quality())
    }

    /// Compares over the start of a text: a chunk of it through the prefill graph, then some tokens one by one.
    pub fn compare_part(
        &mut self,
        quantized: &mut StaticDecoder,
        progress: &mut dyn FnMut(f32),
    ) -> Result<Option<Quality>, DecodeError> {
        let mut comparison = Comparison::default();
        // A sink makes no pass, so a chunk follows it.
        let chunk = quantized.bundle().chunk + usize::from(quantized.bundle().sink.is_some());
        let enough = |sequence: &&Sequence| sequence.tokens.len() >= chunk + PART_DECODED;
        let Some(sequence) = self.sequences.iter().find(enough).or(self.sequences.first()) else { return Ok(None) };
        let (prompt, rest) = sequence.tokens.split_at(chunk.min(sequence.tokens.len()));
        let mut rows = start(quantized, prompt)?;
        let decoded = rest.len().min(PART_DECODED);
        for (done, token) in rest.iter().take(decoded).enumerate() {
            progress((done + 1) as f32 / (decoded + 1) as f32);
            rows.extend(append(quantized, &[*token])?);
        }
        add(sequence, 1, &rows, [&mut self.head, quantized.head()], &mut comparison)?;
        progress(1.0);
        Ok(comparison.quality())
    }
}

/// Adds what is predicted after each token from number `first` on, as far as `rows` goes: last hidden states of each token
/// but that at 0. `heads` are the float model's and the quantized one's.
fn add(
    sequence: &Sequence,
    first: usize,
    rows: &[f32],
    heads: [&mut LanguageHead; 2],
    comparison: &mut Comparison,
) -> Result<(), DecodeError> {
    let [float_head, head] = heads;
    let (width, vocabulary) = (float_head.hidden(), float_head.vocabulary());
    let pieces = sequence.rows.chunks(ROWS * width).zip(rows.chunks(ROWS * width));
    let mut position = 1;
    let (mut float_logits, mut logits) = (Vec::new(), Vec::new());
    for (float_rows, rows) in pieces {
        float_logits.clear();
        logits.clear();
        float_head.run(float_rows, &mut float_logits)?;
        head.run(rows, &mut logits)?;
        for (float, quantized) in float_logits.chunks_exact(vocabulary).zip(logits.chunks_exact(vocabulary)) {
            if position >= first {
                comparison.add(float, quantized, sequence.tokens.get(position + 1).copied());
            }
            position += 1;
        }
    }
    Ok(())
}

/// Runs the first tokens of a sequence; the last hidden states of each but the first.
fn start(decoder: &mut StaticDecoder, tokens: &[u32]) -> Result<Vec<f32>, DecodeError> {
    decoder.rewind(0);
    let mut rows = append(decoder, tokens)?;
    // A sink makes no pass, so it has none.
    if decoder.bundle().sink.is_none() {
        rows.drain(..decoder.bundle().hidden);
    }
    Ok(rows)
}

/// Runs more tokens; the last hidden states of each that made a pass.
fn append(decoder: &mut StaticDecoder, tokens: &[u32]) -> Result<Vec<f32>, DecodeError> {
    let width = decoder.bundle().hidden;
    let mut rows = Vec::new();
    decoder.forward_observed(tokens, &mut |observed| {
        if observed.name == OUTPUT {
            rows.extend_from_slice(&observed.values[..observed.rows * width]);
        }
    })?;
    Ok(rows)
}

/// What the graphs give to the language head.
const OUTPUT: &str = "output_hidden_states";

/// How many first tokens are the same.
fn common(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}
