//! One answer on one lane: prefill, then token after token until something ends it.

use std::time::Instant;

use tokio::sync::mpsc::UnboundedSender;

use super::event::{FinishReason, Finished, GenerationEvent, PrefillProgress, Timings, Token, Usage};
use super::lane::LaneId;
use super::request::Sampling;
use super::sampler::Sampler;
use super::text::{Detokenizer, StopMatcher};
use crate::decoder::Decoder;
use crate::model::ModelFolder;

/// Prompt tokens in one forward pass: cancelling and progress wait for no more than that, and a longer pass is no
/// faster (`cpu-inference` measured 795 tokens/s at 128 and 743 at 512).
const PREFILL_CHUNK: usize = 128;

/// The new part of a prompt is never a single token. ONNX Runtime multiplies one row by another kernel, which rounds
/// differently; with at least two rows, an answer is the same whether its prompt was in the cache or not.
const SHORTEST_PREFILL: usize = 2;

/// A request that was routed, templated and tokenized.
pub struct Job {
    pub prompt: Vec<u32>,
    pub sampling: Sampling,
    pub max_tokens: usize,
    pub stop: Vec<String>,
    /// When the front end handed the request over.
    pub submitted: Instant,
    pub events: UnboundedSender<GenerationEvent>,
}

/// A decoder and the tokens whose keys and values it holds.
pub struct LaneDecoder {
    pub id: LaneId,
    pub decoder: Box<dyn Decoder>,
    cached: Vec<u32>,
}

impl LaneDecoder {
    pub fn new(id: LaneId, decoder: Box<dyn Decoder>) -> Self {
        Self { id, decoder, cached: Vec::new() }
    }

    /// Rewinds to what the cache and the prompt have in common, as far as it may be reused, and returns its length.
    fn reuse(&mut self, prompt: &[u32]) -> usize {
        let common = self.cached.iter().zip(prompt).take_while(|(a, b)| a == b).count();
        let reused = common.min(prompt.len().saturating_sub(SHORTEST_PREFILL));
        self.decoder.rewind(reused);
        self.cached.truncate(reused);
        reused
    }

    fn forward(&mut self, tokens: &[u32]) -> Result<&[f32], String> {
        if let Err(error) = self.decoder.forward(tokens) {
            // What a failed pass left in the cache is not known.
            self.decoder.rewind(0);
            self.cached.clear();
            return Err(error.to_string());
        }
        self.cached.extend_from_slice(tokens);
        Ok(self.decoder.logits())
    }
}

/// Answers the job, sending events as it goes. `stopping` ends it like a dropped receiver does.
pub fn generate(lane: &mut LaneDecoder, folder: &ModelFolder, job: &Job, stopping: &dyn Fn() -> bool) -> Finished {
    let mut answer = Answer {
        usage: Usage { prompt_tokens: job.prompt.len(), ..Usage::default() },
        timings: Timings::default(),
        last_token: None,
    };
    let cancelled = || stopping() || job.events.is_closed();
    let reason = answer.run(lane, folder, job, &cancelled).unwrap_or_else(FinishReason::Error);
    Finished { reason, usage: answer.usage, timings: answer.timings }
}

struct Answer {
    usage: Usage,
    timings: Timings,
    last_token: Option<Instant>,
}

impl Answer {
    fn run(
        &mut self,
        lane: &mut LaneDecoder,
        folder: &ModelFolder,
        job: &Job,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<FinishReason, String> {
        let mut sampler = Sampler::new(job.sampling.clone(), &job.prompt);
        let mut detokenizer = Detokenizer::new(&folder.tokenizer);
        let mut stops = StopMatcher::new(&job.stop);

        let mut next = match self.prefill(lane, job, cancelled, &mut sampler)? {
            Some(token) => token,
            None => return Ok(FinishReason::Cancelled),
        };
        loop {
            let at = Instant::now();
            if folder.config.model.eos_token_id.0.contains(&next) {
                release_held(job, &mut detokenizer, &mut stops)?;
                return Ok(FinishReason::Stop);
            }
            sampler.observe(next);
            let released = stops.push(&detokenizer.push(next).map_err(|e| e.to_string())?);
            self.token(lane.id, job, next, at, released.text);
            if released.stopped {
                return Ok(FinishReason::Stop);
            }
            let full = lane.decoder.position() + 1 > lane.decoder.context_limit();
            if self.usage.completion_tokens >= job.max_tokens || full {
                release_held(job, &mut detokenizer, &mut stops)?;
                return Ok(FinishReason::Length);
            }
            if cancelled() {
                return Ok(FinishReason::Cancelled);
            }
            let logits = lane.forward(&[next])?;
            next = sampler.sample(logits).map_err(|e| e.to_string())?;
        }
    }

    /// Runs the new part of the prompt and chooses the first token; `None` when cancelled.
    fn prefill(
        &mut self,
        lane: &mut LaneDecoder,
        job: &Job,
        cancelled: &dyn Fn() -> bool,
        sampler: &mut Sampler,
    ) -> Result<Option<u32>, String> {
        let reused = lane.reuse(&job.prompt);
        self.usage.reused_tokens = reused;
        let total = job.prompt.len();
        let mut done = reused;
        loop {
            let _ = job.events.send(GenerationEvent::PrefillProgress(PrefillProgress { done, total, reused }));
            if cancelled() {
                return Ok(None);
            }
            let end = chunk_end(done, total);
            let started = Instant::now();
            let logits = lane.forward(&job.prompt[done..end])?;
            self.timings.prefill += started.elapsed();
            self.timings.prefill_tokens += end - done;
            done = end;
            if done == total {
                let token = sampler.sample(logits).map_err(|e| e.to_string())?;
                let _ = job.events.send(GenerationEvent::PrefillProgress(PrefillProgress { done, total, reused }));
                return Ok(Some(token));
            }
        }
    }

    fn token(&mut self, lane: LaneId, job: &Job, id: u32, at: Instant, text: String) {
        match self.last_token {
            None => self.timings.ttft = Some(at.duration_since(job.submitted)),
            Some(last) => self.timings.token_latencies.push(at.duration_since(last)),
        }
        self.last_token = Some(at);
        self.usage.completion_tokens += 1;
        let _ = job.events.send(GenerationEvent::Token(Token { text, id, at, lane }));
    }
}

/// Sends what was held back as a possible stop text or an incomplete character.
fn release_held(job: &Job, detokenizer: &mut Detokenizer<'_>, stops: &mut StopMatcher) -> Result<(), String> {
    let incomplete = detokenizer.finish().map_err(|e| e.to_string())?;
    let released = stops.push(&incomplete);
    let text = if released.stopped { released.text } else { released.text + &stops.finish() };
    if !text.is_empty() {
        let _ = job.events.send(GenerationEvent::TrailingText(text));
    }
    Ok(())
}

/// Where the next pass over the prompt ends, so that no pass is a single token unless the whole prompt is.
fn chunk_end(done: usize, total: usize) -> usize {
    let end = (done + PREFILL_CHUNK).min(total);
    if total - end > 0 && total - end < SHORTEST_PREFILL { total - SHORTEST_PREFILL } else { end }
}
