//! Runs quantized bundles beside the float model over held-out texts; `quality` says how far apart they are.
//!
//! Of every model the last hidden states are kept, position by position, from which logits are made when they are compared:
//! so no two models are in memory at once, and the float model's logits are made once for all. All positions are judged on
//! the CPU; compiled graphs, which a simulator may run, only for a part.

use super::corpus::Texts;
use super::quality::{Comparison, Quality, most_likely};
use crate::decoder::{DecodeError, Decoder, LanguageHead, StaticDecoder};

/// Tokens of each answer to judge by.
const ANSWER: usize = 48;

/// The same for a large model, which takes its time for each. The texts' own tokens are judged as well.
const ANSWER_OF_LARGE: usize = 16;

/// Tokens behind a chunk that a part ends with: they go through the decode graph, where a simulator takes seconds for each.
const PART_DECODED: usize = 4;

/// Of a large model, ranges from random numbers are judged by so many positions and what is left of the text: they stand
/// beside the report for comparison, and what they cost shows in the first.
const RANDOM_OF_LARGE: usize = 200;

/// A model with so many weights is large.
const LARGE: usize = 300_000_000;

/// Rows of which the logits are made at a time. Those of all would take hundreds of megabytes; of fewer, each weight of the head
/// would be turned into a number more often.
const ROWS: usize = 128;

/// How much text a model is judged by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// Tokens of each answer.
    answer: usize,
    /// Positions of the bundle that was calibrated on random numbers, at least.
    random: usize,
}

impl Effort {
    /// For so many weights.
    pub fn of(weights: usize) -> Self {
        if weights < LARGE {
            Self { answer: ANSWER, random: usize::MAX }
        } else {
            Self { answer: ANSWER_OF_LARGE, random: RANDOM_OF_LARGE }
        }
    }

    pub fn random(&self) -> usize {
        self.random
    }
}

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

/// What a quantized model makes of them.
#[derive(Default)]
pub struct Found(Vec<FoundRows>);

struct FoundRows {
    /// The index of its sequence.
    sequence: usize,
    /// The first position that counts.
    first: usize,
    /// The last hidden states of tokens from the second on.
    rows: Vec<f32>,
}

/// The start of a text that a compiled model is judged by: a chunk through the prefill graph, the rest token by token.
pub struct Part<'r> {
    sequence: usize,
    pub prompt: &'r [u32],
    pub rest: &'r [u32],
}

impl Part<'_> {
    /// `rows` are the last hidden states of each token but the first.
    pub fn found(&self, rows: Vec<f32>) -> Found {
        Found(vec![FoundRows { sequence: self.sequence, first: 1, rows }])
    }
}

impl Reference {
    /// `stops` are the tokens that end an answer.
    pub fn new(
        mut float: StaticDecoder,
        texts: &Texts,
        stops: &[u32],
        effort: Effort,
        progress: &mut dyn FnMut(f32),
    ) -> Result<Self, DecodeError> {
        let mut sequences: Vec<Sequence> = Vec::new();
        let total = (texts.questions.len() + texts.passages.len()) as f32;
        let questions = texts.questions.iter().map(|question| (question, effort.answer));
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

    /// Runs texts, each in one prompt, until `positions` count, or all.
    pub fn run(
        &self,
        quantized: &mut StaticDecoder,
        positions: usize,
        progress: &mut dyn FnMut(f32),
    ) -> Result<Found, DecodeError> {
        let (mut found, mut counted) = (Vec::new(), 0);
        for (index, sequence) in self.sequences.iter().enumerate() {
            if counted >= positions {
                break;
            }
            progress(index as f32 / self.sequences.len() as f32);
            let rows = start(quantized, &sequence.tokens)?;
            found.push(FoundRows { sequence: index, first: sequence.shared, rows });
            counted += sequence.tokens.len().saturating_sub(sequence.shared);
        }
        progress(1.0);
        Ok(Found(found))
    }

    /// A part for graphs of `chunk` tokens; the first token makes no pass where it is a sink.
    pub fn part(&self, chunk: usize, has_sink: bool) -> Option<Part<'_>> {
        let chunk = chunk + usize::from(has_sink);
        let enough = |sequence: &Sequence| sequence.tokens.len() >= chunk + PART_DECODED;
        let index = self.sequences.iter().position(enough).unwrap_or(0);
        let tokens = &self.sequences.get(index)?.tokens;
        let (prompt, rest) = tokens.split_at(chunk.min(tokens.len()));
        Some(Part { sequence: index, prompt, rest: &rest[..rest.len().min(PART_DECODED)] })
    }

    /// How far each of several models is from the float one. `head` is theirs; `None` where nothing was compared.
    pub fn compare(
        &mut self,
        head: &mut LanguageHead,
        found: &[Found],
        progress: &mut dyn FnMut(f32),
    ) -> Result<Vec<Option<Quality>>, DecodeError> {
        let mut comparisons: Vec<Comparison> = found.iter().map(|_| Comparison::default()).collect();
        let (width, vocabulary) = (self.head.hidden(), self.head.vocabulary());
        let (mut float_logits, mut logits) = (Vec::new(), Vec::new());
        for (index, sequence) in self.sequences.iter().enumerate() {
            progress(index as f32 / self.sequences.len() as f32);
            for (piece, float_rows) in sequence.rows.chunks(ROWS * width).enumerate() {
                float_logits.clear();
                self.head.run(float_rows, &mut float_logits)?;
                for (Found(found), comparison) in found.iter().zip(&mut comparisons) {
                    let Some(found) = found.iter().find(|found| found.sequence == index) else { continue };
                    let Some(rows) = found.rows.chunks(ROWS * width).nth(piece) else { continue };
                    logits.clear();
                    head.run(rows, &mut logits)?;
                    // Row 0 is of the token at position 1.
                    let positions = 1 + piece * ROWS..;
                    let pairs = float_logits.chunks_exact(vocabulary).zip(logits.chunks_exact(vocabulary));
                    for (position, (float, quantized)) in positions.zip(pairs) {
                        if position >= found.first {
                            comparison.add(float, quantized, sequence.tokens.get(position + 1).copied());
                        }
                    }
                }
            }
        }
        progress(1.0);
        Ok(comparisons.into_iter().map(Comparison::quality).collect())
    }
}

/// The last hidden states of a prompt's tokens and of those that come after it one by one, but for the first of all.
pub fn part_rows(decoder: &mut StaticDecoder, prompt: &[u32], rest: &[u32]) -> Result<Vec<f32>, DecodeError> {
    let mut rows = start(decoder, prompt)?;
    for token in rest {
        rows.extend(append(decoder, &[*token])?);
    }
    Ok(rows)
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
