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
/// faster (904 tokens/s at 128 and 809 at 512, measured when this was chosen).
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

    /// The tokens whose keys and values are kept.
    pub fn cached(&self) -> &[u32] {
        &self.cached
    }

    /// Rewinds to what the cache and the prompt have in common, as far as it may be reused, and returns its length.
    fn reuse(&mut self, prompt: &[u32]) -> usize {
        let reused = reusable(&self.cached, prompt);
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

/// How many tokens of a prompt need not be run again.
pub fn reusable(cached: &[u32], prompt: &[u32]) -> usize {
    let common = cached.iter().zip(prompt).take_while(|(a, b)| a == b).count();
    common.min(prompt.len().saturating_sub(SHORTEST_PREFILL))
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
            let cut = if self.usage.completion_tokens >= job.max_tokens {
                Some(FinishReason::Length)
            } else if lane.decoder.position() + 1 > lane.decoder.context_limit() {
                Some(FinishReason::ContextFull)
            } else {
                None
            };
            if let Some(cut) = cut {
                release_held(job, &mut detokenizer, &mut stops)?;
                return Ok(cut);
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use pretty_assertions::assert_eq;
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    use super::super::testing::{END, ScriptedDecoder, byte_model};
    use super::*;

    fn job(prompt: &str, max_tokens: usize, stop: &[&str]) -> (Job, UnboundedReceiver<GenerationEvent>) {
        let (events, received) = unbounded_channel();
        let job = Job {
            prompt: prompt.bytes().map(u32::from).collect(),
            sampling: Sampling::GREEDY,
            max_tokens,
            stop: stop.iter().map(|s| s.to_string()).collect(),
            submitted: Instant::now(),
            events,
        };
        (job, received)
    }

    fn script(text: &str) -> Vec<u32> {
        text.bytes().map(u32::from).chain([END]).collect()
    }

    fn lane(decoder: ScriptedDecoder) -> LaneDecoder {
        LaneDecoder::new(LaneId::Cpu, Box::new(decoder))
    }

    /// Answers and returns the pieces of text and how it finished.
    fn answer(lane: &mut LaneDecoder, prompt: &str, max_tokens: usize, stop: &[&str]) -> (Vec<String>, Finished) {
        let dir = tempfile::tempdir().unwrap();
        let folder = byte_model(dir.path());
        let (job, mut received) = job(prompt, max_tokens, stop);
        let finished = generate(lane, &folder, &job, &|| false);
        drop(job);
        let mut pieces = Vec::new();
        while let Ok(event) = received.try_recv() {
            match event {
                GenerationEvent::Token(token) => pieces.push(token.text),
                GenerationEvent::TrailingText(text) => pieces.push(format!("+{text}")),
                _ => {}
            }
        }
        (pieces, finished)
    }

    #[test]
    fn an_answer_ends_at_the_end_token() {
        let (pieces, finished) = answer(&mut lane(ScriptedDecoder::new(&script("Hi!"), 64)), "Hello", 10, &[]);
        assert_eq!(pieces, ["H", "i", "!"]);
        assert_eq!(finished.reason, FinishReason::Stop);
        assert_eq!(finished.usage, Usage { prompt_tokens: 5, completion_tokens: 3, reused_tokens: 0 });
        assert_eq!(finished.timings.token_latencies.len(), 2);
        assert!(finished.timings.ttft.is_some());
    }

    #[test]
    fn a_character_is_never_cut() {
        let (pieces, _) = answer(&mut lane(ScriptedDecoder::new(&script("é🦀"), 64)), "ab", 10, &[]);
        assert_eq!(pieces, ["", "é", "", "", "", "🦀"]);
    }

    #[test]
    fn a_cut_answer_gives_its_incomplete_character_at_the_end() {
        let (pieces, finished) = answer(&mut lane(ScriptedDecoder::new(&script("a🦀"), 64)), "ab", 3, &[]);
        assert_eq!(pieces, ["a", "", "", "+\u{fffd}"]);
        assert_eq!(finished.reason, FinishReason::Length);
    }

    #[test]
    fn a_stop_text_ends_the_answer_and_stays_out_of_it() {
        let (pieces, finished) = answer(&mut lane(ScriptedDecoder::new(&script("one. two"), 64)), "ab", 20, &[". "]);
        assert_eq!(pieces.concat(), "one");
        assert_eq!(finished.reason, FinishReason::Stop);
        assert_eq!(finished.usage.completion_tokens, 5);
    }

    #[test]
    fn half_a_stop_text_comes_out_when_the_answer_ends() {
        let (pieces, _) = answer(&mut lane(ScriptedDecoder::new(&script("one."), 64)), "ab", 20, &[". "]);
        assert_eq!(pieces, ["o", "n", "e", "", "+."]);
    }

    #[test]
    fn the_end_of_the_context_is_told_from_the_longest_answer() {
        // Five prompt tokens and three answered ones fill eight; the fourth is chosen but has no room to go on from.
        let (pieces, finished) = answer(&mut lane(ScriptedDecoder::new(&script("abcdefgh"), 8)), "Hello", 50, &[]);
        assert_eq!(pieces.concat(), "abcd");
        assert_eq!(finished.reason, FinishReason::ContextFull);
    }

    #[test]
    fn a_second_turn_reuses_the_first() {
        let mut lane = lane(ScriptedDecoder::new(&script("ok"), 400));
        answer(&mut lane, "first question", 10, &[]);
        // "first question" and "ok" are in the cache.
        let (_, finished) = answer(&mut lane, "first questionok, and more", 10, &[]);
        assert_eq!(finished.usage, Usage { prompt_tokens: 26, completion_tokens: 2, reused_tokens: 16 });
        assert_eq!(finished.timings.prefill_tokens, 10);
    }

    #[test]
    fn the_same_prompt_again_still_runs_two_tokens() {
        let mut lane = lane(ScriptedDecoder::new(&script("ok"), 400));
        answer(&mut lane, "question", 10, &[]);
        let (pieces, finished) = answer(&mut lane, "question", 10, &[]);
        assert_eq!(pieces, ["o", "k"]);
        assert_eq!(finished.usage.reused_tokens, 6);
    }

    #[test]
    fn no_pass_over_a_prompt_is_a_single_token() {
        for total in 1..700 {
            let (mut done, mut lengths) = (0, Vec::new());
            while done < total {
                let end = chunk_end(done, total);
                lengths.push(end - done);
                done = end;
            }
            assert_eq!(lengths.iter().sum::<usize>(), total);
            assert!(total == 1 || lengths.iter().all(|n| (2..=PREFILL_CHUNK).contains(n)), "{total}: {lengths:?}");
        }
    }

    #[test]
    fn a_dropped_receiver_cancels_within_one_token() {
        let dir = tempfile::tempdir().unwrap();
        let folder = byte_model(dir.path());
        let decoder = ScriptedDecoder::new(&vec![u32::from(b'x'); 1000], 2000);
        let passes = decoder.passes.clone();
        let mut lane = lane(decoder);
        let (job, mut received) = job("ab", 1000, &[]);
        // Stands for a front end that goes away during the fifth pass.
        let reader = std::cell::RefCell::new(Some(received.try_recv().err().map(|_| received).unwrap()));
        let finished = generate(&mut lane, &folder, &job, &|| {
            if passes.load(Ordering::Relaxed) >= 5 {
                reader.borrow_mut().take();
            }
            job.events.is_closed()
        });
        assert_eq!(finished.reason, FinishReason::Cancelled);
        assert_eq!(passes.load(Ordering::Relaxed), 5);
    }

    #[test]
    fn a_failed_pass_ends_the_answer_and_the_next_one_starts_afresh() {
        let mut faulty = ScriptedDecoder::new(&script("abc"), 64);
        faulty.fault_at = Some(2);
        let mut lane = lane(faulty);
        let (pieces, finished) = answer(&mut lane, "Hello", 10, &[]);
        assert_eq!(pieces, ["a", "b"]);
        assert_eq!(finished.reason, FinishReason::Error("the forward pass failed: injected fault".into()));
        let (pieces, finished) = answer(&mut lane, "Hello", 10, &[]);
        assert_eq!((pieces.concat().as_str(), finished.usage.reused_tokens), ("abc", 0));
    }
}
