//! One answer on one lane: prefill, then token after token until something ends it, or until the lane cannot go on.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use super::event::{FinishReason, GenerationEvent, PrefillProgress};
use super::job::{ChoiceError, Job};
use super::lane::LaneId;
use crate::decoder::{DecodeError, Decoder};
use crate::model::ModelFolder;

/// A decoder and the tokens whose keys and values it holds.
pub struct LaneDecoder {
    pub id: LaneId,
    decoder: Box<dyn Decoder>,
    cached: Vec<u32>,
}

/// How an answer left a lane.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    Finished(FinishReason),
    /// The context has no room for another token.
    ContextFull,
    /// The lane cannot run this request, and is none the worse.
    Refused(String),
    /// The lane is out of service.
    Broken(String),
}

/// What this lane's part of an answer measured.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Measured {
    pub prefill_tokens: usize,
    pub prefill: Duration,
    /// Time between tokens of this lane's own.
    pub token_latencies: Vec<Duration>,
}

impl LaneDecoder {
    pub fn new(id: LaneId, decoder: Box<dyn Decoder>) -> Self {
        Self { id, decoder, cached: Vec::new() }
    }

    /// The tokens whose keys and values are kept.
    pub fn cached(&self) -> &[u32] {
        &self.cached
    }

    fn is_full(&self) -> bool {
        self.cached.len() >= self.decoder.context_limit()
    }

    /// Rewinds to what the cache and the sequence have in common, as far as it may be reused, and returns its length.
    fn reuse(&mut self, sequence: &[u32]) -> usize {
        let reused = reusable(&self.cached, sequence, self.decoder.shortest_prefill());
        self.decoder.rewind(reused);
        self.cached.truncate(reused);
        reused
    }

    /// Runs `tokens`. A decoder that panics is broken, and no more.
    fn forward(&mut self, tokens: &[u32]) -> Result<&[f32], Outcome> {
        let ran = catch_unwind(AssertUnwindSafe(|| self.decoder.forward(tokens)));
        let outcome = match ran {
            Ok(Ok(())) => {
                self.cached.extend_from_slice(tokens);
                return Ok(self.decoder.logits());
            }
            Ok(Err(error)) => outcome(error),
            Err(panic) => Outcome::Broken(panic_message(&*panic)),
        };
        // What a failed pass left in the cache is not known.
        self.cached.clear();
        if !matches!(outcome, Outcome::Broken(_)) {
            self.decoder.rewind(0);
        }
        Err(outcome)
    }
}

/// Whose fault it is: the request's, for which no lane has an answer; a lane's that is made for other sequences; or the
/// lane is broken.
fn outcome(error: DecodeError) -> Outcome {
    match error {
        DecodeError::ContextFull { .. } | DecodeError::NoTokens | DecodeError::UnknownToken { .. } => {
            Outcome::Finished(FinishReason::Error(error.to_string()))
        }
        DecodeError::FirstToken { .. } => Outcome::Refused(error.to_string()),
        // Which lane it is, is said where the reason is shown.
        DecodeError::Lane(reason) => Outcome::Broken(reason),
        error => Outcome::Broken(error.to_string()),
    }
}

fn no_choice(error: ChoiceError) -> Outcome {
    match error {
        ChoiceError::Sample(error) => Outcome::Broken(error.to_string()),
        ChoiceError::Form(error) => Outcome::Finished(FinishReason::Error(error)),
    }
}

/// What a caught panic said; where it was, the panic hook has told standard error.
pub fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("it panicked without a message").to_owned()
}

/// How many tokens of a sequence need not be run again. At least `shortest` of them are run, where it has so many.
pub fn reusable(cached: &[u32], sequence: &[u32], shortest: usize) -> usize {
    let common = cached.iter().zip(sequence).take_while(|(a, b)| a == b).count();
    common.min(sequence.len().saturating_sub(shortest.max(1)))
}

/// Goes on with the job until it is finished or the lane cannot, sending events as it goes. `stopping` ends it like a
/// dropped receiver does.
pub fn generate(
    lane: &mut LaneDecoder,
    folder: &ModelFolder,
    job: &mut Job,
    stopping: &dyn Fn() -> bool,
) -> (Outcome, Measured) {
    let mut measured = Measured::default();
    let outcome = run(lane, folder, job, stopping, &mut measured).unwrap_or_else(|outcome| outcome);
    (outcome, measured)
}

fn run(
    lane: &mut LaneDecoder,
    folder: &ModelFolder,
    job: &mut Job,
    stopping: &dyn Fn() -> bool,
    measured: &mut Measured,
) -> Result<Outcome, Outcome> {
    let finished = |reason| Ok(Outcome::Finished(reason));
    let wrong = |message: String| Outcome::Finished(FinishReason::Error(message));
    // The token that this lane gave last, and when.
    let mut last: Option<Instant> = None;
    let mut next = match prefill(lane, job, stopping, measured)? {
        Some(token) => token,
        None => return finished(FinishReason::Cancelled),
    };
    loop {
        let at = Instant::now();
        if job.measure.is_none() && folder.ends.contains(&next) {
            return finished(FinishReason::Stop);
        }
        measured.token_latencies.extend(last.replace(at).map(|last| at.duration_since(last)));
        if job.push(next, at, lane.id, &folder.tokenizer).map_err(wrong)? {
            return finished(FinishReason::Stop);
        }
        if job.usage.completion_tokens >= job.max_tokens {
            return finished(FinishReason::Length);
        }
        if stopping() || job.is_cancelled() {
            return finished(FinishReason::Cancelled);
        }
        if lane.is_full() {
            return Ok(Outcome::ContextFull);
        }
        let logits = lane.forward(&[next])?;
        next = job.choose(logits).map_err(no_choice)?;
    }
}

/// Runs what is new of prompt and answer so far, and chooses the next token; `None` when cancelled.
fn prefill(
    lane: &mut LaneDecoder,
    job: &mut Job,
    stopping: &dyn Fn() -> bool,
    measured: &mut Measured,
) -> Result<Option<u32>, Outcome> {
    let sequence = job.sequence();
    let total = sequence.len();
    let one_pass = job.measure.is_some_and(|measure| measure.one_pass);
    let chunk = if one_pass { total } else { lane.decoder.prefill_chunk() };
    let shortest = lane.decoder.shortest_prefill();
    let reused = if job.measure.is_some() { lane.reuse(&[]) } else { lane.reuse(&sequence) };
    let began = Instant::now();
    let mut done = reused;
    loop {
        job.send(GenerationEvent::PrefillProgress(PrefillProgress { done, total, reused }));
        if stopping() || job.is_cancelled() {
            return Ok(None);
        }
        let end = chunk_end(done, total, chunk, shortest);
        let started = Instant::now();
        let logits = lane.forward(&sequence[done..end])?;
        measured.prefill += started.elapsed();
        measured.prefill_tokens += end - done;
        done = end;
        if done == total {
            let token = job.choose(logits).map_err(no_choice)?;
            let first_token = Instant::now();
            job.send(GenerationEvent::PrefillProgress(PrefillProgress { done, total, reused }));
            if job.answered().is_empty() {
                job.timings.model_ttft = Some(first_token.duration_since(began));
                job.usage.reused_tokens = reused;
                (job.timings.prefill, job.timings.prefill_tokens) = (measured.prefill, measured.prefill_tokens);
            }
            return Ok(Some(token));
        }
    }
}

/// Where the next pass over a prompt ends, so that no pass is shorter than `shortest` unless the whole prompt is.
fn chunk_end(done: usize, total: usize, chunk: usize, shortest: usize) -> usize {
    let end = (done + chunk.max(1)).min(total);
    let rest = total - end;
    if rest > 0 && rest < shortest { (total - shortest).max(done + 1) } else { end }
}

#[cfg(test)]
#[path = "generate_tests.rs"]
mod tests;
