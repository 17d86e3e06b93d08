//! Calibration: runs the float graphs and observes between which values each activation lies.
//!
//! On text, the cache holds the keys and values that the text makes: questions are answered token by token through the
//! decode graph, passages go through the prefill graph. The first token, which every sequence starts with, is left out but
//! for its keys and values: its activations are hundreds of times larger than those of all others, and a bundle keeps it as a
//! constant (`sink`).

use std::collections::HashMap;

use ort::session::{Session, SessionInputValue};
use ort::value::{Tensor, TensorElementType, ValueType};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::corpus::Texts;
use super::graph::{self, Ranges};
use super::ranges::{Accumulator, ObserveError, Pass};
use super::{FloatGraphs, ObservedGraph};
use crate::decoder::{DecodeError, Decoder, Observed, StaticDecoder};

/// Tokens of each answer to calibrate on; twice as many made no difference.
const ANSWER: usize = 16;

/// By how much ranges over text are widened. Half as much again costs 16-bit codes next to nothing: on held-out chats the
/// divergence was 0.0033, not 0.0039. On texts of an unusual form, where some activations went far beyond what calibration had
/// seen, it was 0.011, not 0.025.
const HEADROOM: f32 = 1.5;

/// Passes over random numbers, of each of both graphs. More of them widen the ranges by next to nothing.
const RANDOM_PASSES: u64 = 4;

#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error(transparent)]
    Observe(#[from] ObserveError),
    #[error("the float graph could not be run on random numbers: {0}")]
    Random(String),
}

/// Ranges over text. `decoder` runs the observed graphs without a sink, so that the first token's keys and values are seen.
/// `stops` are the tokens that end an answer.
pub fn on_text(
    decoder: &mut StaticDecoder,
    float: &FloatGraphs,
    texts: &Texts,
    stops: &[u32],
    progress: &mut dyn FnMut(f32),
) -> Result<Ranges, CalibrateError> {
    let mut observer = Observer::new(float);
    let sink = float.bundle.sink.as_ref().map(|sink| sink.token);
    let total = (texts.questions.len() + texts.passages.len()) as f32;
    let questions = texts.questions.iter().map(|question| (question, ANSWER));
    let passages = texts.passages.iter().map(|passage| (passage, 0));
    for (done, (sequence, answer)) in questions.chain(passages).enumerate() {
        progress(done as f32 / total);
        decoder.rewind(0);
        let mut rest = sequence.as_slice();
        if let Some((first, behind)) = sequence.split_first().filter(|(first, _)| Some(**first) == sink) {
            decoder.forward_observed(&[*first], &mut |observed| {
                if is_cache(observed.name) {
                    observer.see(observed);
                }
            })?;
            rest = behind;
        }
        decoder.forward_observed(rest, &mut |observed| observer.see(observed))?;
        for _ in 0..answer.min(decoder.context_limit().saturating_sub(sequence.len())) {
            let Some(next) = super::quality::most_likely(decoder.logits()).map(|token| token as u32) else { break };
            if stops.contains(&next) {
                break;
            }
            decoder.forward_observed(&[next], &mut |observed| observer.see(observed))?;
        }
        observer.failed()?;
    }
    progress(1.0);
    Ok(observer.accumulator.ranges(HEADROOM))
}

fn is_cache(name: &str) -> bool {
    name.starts_with("present.")
}

/// Adds what a decoder shows to the ranges.
struct Observer {
    observed: HashMap<String, graph::Observed>,
    context: usize,
    accumulator: Accumulator,
    /// The decoder does not stop at the first failure, so it waits here.
    failure: Option<ObserveError>,
}

impl Observer {
    fn new(float: &FloatGraphs) -> Self {
        let graphs = [&float.prefill.graph, &float.decode.graph];
        let observed = graphs.into_iter().flat_map(|graph| graph.observed());
        Self {
            observed: observed.map(|(tensor, observed)| (tensor.name.clone(), observed)).collect(),
            context: float.bundle.context,
            accumulator: Accumulator::default(),
            failure: None,
        }
    }

    fn see(&mut self, seen: &Observed<'_>) {
        let pass = Pass { tokens: seen.tokens, real: seen.rows, past: seen.position, context: self.context };
        self.add(seen.name, seen.shape, seen.values, &pass);
    }

    fn add(&mut self, name: &str, shape: &[usize], values: &[f32], pass: &Pass) {
        let Some(observed) = self.observed.get(name) else { return };
        if let Err(error) = self.accumulator.add(name, *observed, shape, values, pass) {
            self.failure.get_or_insert(error);
        }
    }

    fn failed(&mut self) -> Result<(), ObserveError> {
        self.failure.take().map_or(Ok(()), Err)
    }
}

/// Ranges over normally distributed numbers in every input, the cache among them: what tools feed that know no text. For
/// comparison only.
pub fn on_random(
    float: &FloatGraphs,
    open: &dyn Fn(&ObservedGraph) -> Result<Session, DecodeError>,
    progress: &mut dyn FnMut(f32),
) -> Result<Ranges, CalibrateError> {
    let mut observer = Observer::new(float);
    for (index, graph) in [&float.prefill, &float.decode].into_iter().enumerate() {
        let mut session = open(graph)?;
        let (tokens, context) = (graph.graph.tokens, graph.graph.context);
        let pass = Pass { tokens, real: tokens, past: context, context };
        for seed in 0..RANDOM_PASSES {
            progress((index as f32 + seed as f32 / RANDOM_PASSES as f32) / 2.0);
            run_on_random(&mut session, seed, &mut |name, shape, values| observer.add(name, shape, values, &pass))
                .map_err(|error| CalibrateError::Random(error.to_string()))?;
            observer.failed()?;
        }
    }
    progress(1.0);
    // As the tools do that calibrate so.
    Ok(observer.accumulator.ranges(1.0))
}

/// Is shown a tensor's name, shape and values.
type See<'a> = &'a mut dyn FnMut(&str, &[usize], &[f32]);

/// Runs a graph on random numbers and shows its inputs and outputs.
fn run_on_random(session: &mut Session, seed: u64, see: See<'_>) -> Result<(), ort::Error> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut inputs = Vec::new();
    for input in session.inputs() {
        let ValueType::Tensor { ty: TensorElementType::Float32, shape, .. } = input.dtype() else { continue };
        let shape: Vec<usize> = shape.iter().map(|size| usize::try_from(*size).unwrap_or(1)).collect();
        let values: Vec<f32> = (0..shape.iter().product()).map(|_| normal(&mut random)).collect();
        see(input.name(), &shape, &values);
        inputs.push((input.name().to_owned(), SessionInputValue::from(Tensor::from_array((shape, values))?)));
    }
    let outputs = session.run(inputs)?;
    for (name, value) in &outputs {
        let (shape, values) = value.try_extract_tensor::<f32>()?;
        let shape: Vec<usize> = shape.iter().map(|size| usize::try_from(*size).unwrap_or(0)).collect();
        see(name, &shape, values);
    }
    Ok(())
}

/// A number from the standard normal distribution (Box and Muller, 1958).
fn normal(random: &mut ChaCha8Rng) -> f32 {
    let (u, v): (f64, f64) = (random.random(), random.random());
    ((-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_numbers_are_normal() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let values: Vec<f64> = (0..100_000).map(|_| f64::from(normal(&mut random))).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let moment = |power| values.iter().map(|value| (value - mean).powi(power)).sum::<f64>() / values.len() as f64;
        // Their standard errors are 0.003, 0.004 and 0.03.
        assert!(mean.abs() < 0.015 && (moment(2) - 1.0).abs() < 0.02 && (moment(4) - 3.0).abs() < 0.15);
    }
}
