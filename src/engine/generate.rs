//! The answers that a lane works on: each is prefilled, then gets token after token, until something ends it or the lane
//! cannot go on.
//!
//! They take turns. In each, one prompt gets one chunk further, and every answer that has begun gets its next token, in one
//! pass where the decoder can. While answers run, chunks are short: so nobody's next token waits long for another's
//! prompt, and a prompt's first token does not wait for another's whole answer.
//!
//! Nobody knows how long an answer will be, so memory is given for some tokens more than there are. Where it comes to its
//! end, answers that need more of it pause until others have ended; where all pause, the newest one leaves, to be run again
//! later, token by token as it was, so that no bit of it changes.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use super::event::{FinishReason, GenerationEvent, PrefillProgress};
use super::job::{ChoiceError, Job};
use super::lane::LaneId;
use super::slots::Slots;
use crate::decoder::{DecodeError, Decoder};
use crate::model::ModelFolder;

/// Tokens of a prompt between two tokens of other answers. A pass over so many takes as long as one for the next tokens of
/// 16 answers; shorter ones make prefill slower, and longer ones were measured to make it hardly faster.
const SHARED_CHUNK: usize = 32;

/// Tokens for which there is to be room behind a sequence when its answer begins, or has used up its room.
const EXPECTED_GROWTH: usize = 256;

/// A decoder and what runs in it.
pub struct LaneDecoder {
    pub id: LaneId,
    decoder: Box<dyn Decoder>,
    slots: Slots,
    running: Vec<Answer>,
    /// Turns so far.
    turns: u64,
    /// Answers wait for memory.
    short_of_memory: bool,
    /// Of the last step of several answers.
    logits: Vec<f32>,
}

/// A job in a slot.
struct Answer {
    job: Job,
    slot: usize,
    stage: Stage,
    measured: Measured,
    /// The turn in which a chunk of its prompt ran last.
    turn: u64,
    /// When this lane gave its last token.
    last: Option<Instant>,
    /// Tokens of the answer that were there before and are run again, one by one.
    repeated: Repeated,
}

/// The end of what is run again, and how much of it was.
#[derive(Debug, Clone, Copy, Default)]
struct Repeated {
    done: usize,
    total: usize,
}

enum Stage {
    Prefill(Prefill),
    /// This token was chosen last, and has to be run.
    Decode(u32),
}

struct Prefill {
    /// Prompt and answer so far.
    sequence: Vec<u32>,
    /// How many of its tokens are in the cache.
    done: usize,
    reused: usize,
    began: Option<Instant>,
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
    /// It has to begin again when others have ended: there is no memory for all of them.
    Displaced,
}

/// What this lane's part of an answer measured.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Measured {
    pub prefill_tokens: usize,
    pub prefill: Duration,
    /// Time between tokens of this lane's own.
    pub token_latencies: Vec<Duration>,
    /// Others ran beside it, so the times are not the lane's for one answer.
    pub shared: bool,
}

/// A job that left its lane.
pub struct Ended {
    pub job: Job,
    pub outcome: Outcome,
    pub measured: Measured,
    pub slot: usize,
}

impl LaneDecoder {
    pub fn new(id: LaneId, decoder: Box<dyn Decoder>) -> Self {
        let slots = Slots::new(decoder.slots(1));
        Self { id, decoder, slots, running: Vec::new(), turns: 0, short_of_memory: false, logits: Vec::new() }
    }

    /// The tokens whose keys and values a slot keeps.
    pub fn cached(&self, slot: usize) -> &[u32] {
        self.slots.cached(slot)
    }

    pub fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    /// Begins with a job, or gives it back where it has to wait for another one's end. One that was displaced repeats its
    /// answer as it was; one that comes from elsewhere has it run as a prompt.
    pub fn admit(&mut self, job: Job, displaced: bool) -> Result<(), Box<Job>> {
        if self.short_of_memory {
            return Err(Box::new(job));
        }
        let sequence = if displaced { job.prompt.clone() } else { job.sequence() };
        let repeated = Repeated { done: 0, total: if displaced { job.answered().len() } else { 0 } };
        let longest = self.room(&job);
        let known: &[u32] = if job.fresh { &[] } else { &sequence };
        let fitting = |tokens| self.decoder.slots(tokens);
        let Some(place) = self.slots.place(known, longest, self.decoder.shortest_prefill(), &fitting) else {
            return Err(Box::new(job));
        };
        for slot in &place.forgotten {
            self.decoder.select(*slot);
            self.decoder.rewind(0);
        }
        self.slots.take(&place, longest);
        self.decoder.select(place.slot);
        let mut reused = place.reused;
        if let Some(from) = place.copied_from {
            let copied = catch_unwind(AssertUnwindSafe(|| self.decoder.copy(from, reused)));
            if !matches!(copied, Ok(Ok(()))) {
                // If it is broken, the first pass says so.
                self.slots.truncate(place.slot, 0);
                reused = 0;
            }
        }
        self.decoder.rewind(reused);
        let total = sequence.len();
        job.send(GenerationEvent::PrefillProgress(PrefillProgress { done: reused, total, reused }));
        let stage = Stage::Prefill(Prefill { sequence, done: reused, reused, began: None });
        let (slot, measured) = (place.slot, Measured::default());
        self.running.push(Answer { job, slot, stage, measured, turn: self.turns, last: None, repeated });
        Ok(())
    }

    /// The tokens that a job gets room for, as it is now.
    fn room(&self, job: &Job) -> usize {
        let left = job.max_tokens.saturating_sub(job.answered().len()).min(EXPECTED_GROWTH);
        (job.prompt.len() + job.answered().len()).saturating_add(left).min(self.decoder.context_limit())
    }

    /// One turn of all answers; returns those that left. `stopping` ends them like dropped receivers do.
    ///
    /// Where the lane breaks, all of them leave.
    pub fn turn(&mut self, folder: &ModelFolder, stopping: &dyn Fn() -> bool) -> Vec<Ended> {
        self.turns += 1;
        let mut ended = Vec::new();
        self.end(&mut ended, |answer| {
            let cancelled = stopping() || answer.job.is_cancelled();
            cancelled.then_some(Outcome::Finished(FinishReason::Cancelled))
        });
        let shared = self.running.len() > 1;
        self.running.iter_mut().for_each(|answer| answer.measured.shared |= shared);
        let broken = self.advance_prompt(folder, &mut ended).or_else(|| self.step(folder, &mut ended));
        self.short_of_memory &= !self.running.is_empty();
        if let Some(reason) = broken {
            self.end(&mut ended, |_| Some(Outcome::Broken(reason.clone())));
        }
        ended
    }

    /// Takes out the answers that have come to an end.
    fn end(&mut self, ended: &mut Vec<Ended>, mut outcome: impl FnMut(&mut Answer) -> Option<Outcome>) {
        let mut index = 0;
        while index < self.running.len() {
            match outcome(&mut self.running[index]) {
                Some(outcome) => {
                    let Answer { job, slot, measured, .. } = self.running.remove(index);
                    self.slots.give_back(slot);
                    ended.push(Ended { job, outcome, measured, slot });
                }
                None => index += 1,
            }
        }
    }

    /// Runs one chunk of the prompt that has waited for longest. Returns why the lane is broken, if it is.
    fn advance_prompt(&mut self, folder: &ModelFolder, ended: &mut Vec<Ended>) -> Option<String> {
        let others = self.running.iter().any(|answer| matches!(answer.stage, Stage::Decode(_)));
        let waiting = self.running.iter_mut().filter(|answer| matches!(answer.stage, Stage::Prefill(_)));
        let answer = waiting.min_by_key(|answer| answer.turn)?;
        let Stage::Prefill(prefill) = &mut answer.stage else { return None };
        let (slot, total) = (answer.slot, prefill.sequence.len());
        answer.turn = self.turns;

        let one_pass = answer.job.measure.is_some_and(|measure| measure.one_pass);
        let whole = self.decoder.prefill_chunk();
        let chunk = if one_pass { total } else { whole.min(if others { SHARED_CHUNK } else { whole }) };
        let end = chunk_end(prefill.done, total, chunk, self.decoder.shortest_prefill());
        let tokens = &prefill.sequence[prefill.done..end];
        let started = Instant::now();
        let began = *prefill.began.get_or_insert(started);
        let ran = guarded(|| {
            self.decoder.select(slot);
            self.decoder.forward(tokens)
        });
        if let Err(outcome) = ran {
            return self.failed(&[slot], outcome, ended);
        }
        self.slots.extend(slot, tokens);
        answer.measured.prefill += started.elapsed();
        answer.measured.prefill_tokens += tokens.len();
        prefill.done = end;
        let Prefill { done, reused, .. } = *prefill;
        let progress = GenerationEvent::PrefillProgress(PrefillProgress { done, total, reused });
        if done < total {
            answer.job.send(progress);
            return None;
        }
        if answer.repeat() {
            answer.job.send(progress);
            return None;
        }
        let token = match answer.choose(self.decoder.logits()) {
            Ok(token) => token,
            Err(Outcome::Broken(reason)) => return Some(reason),
            Err(outcome) => {
                self.end_slot(slot, Some(outcome), ended);
                return None;
            }
        };
        let first_token = Instant::now();
        answer.job.send(progress);
        let job = &mut answer.job;
        if job.answered().is_empty() {
            job.timings.model_ttft = Some(first_token.duration_since(began));
            job.usage.reused_tokens = reused;
            (job.timings.prefill, job.timings.prefill_tokens) =
                (answer.measured.prefill, answer.measured.prefill_tokens);
        }
        let full = self.slots.cached(slot).len() >= self.decoder.context_limit();
        let outcome = answer.take(token, self.id, full, folder);
        self.end_slot(slot, outcome, ended);
        None
    }

    /// The answers that have room for another token, with the token to run. Where none has, the newest one leaves.
    fn ready(&mut self, ended: &mut Vec<Ended>) -> Vec<(usize, u32)> {
        let (mut ready, mut paused) = (Vec::new(), None);
        for index in 0..self.running.len() {
            let answer = &self.running[index];
            let (Stage::Decode(token), slot) = (&answer.stage, answer.slot) else { continue };
            let (token, length) = (*token, self.slots.cached(slot).len());
            if length < self.slots.reserved(slot) {
                ready.push((slot, token));
                continue;
            }
            let longest = self.room(&answer.job).max(length + 1);
            match self.slots.grow(slot, longest, &|tokens| self.decoder.slots(tokens)) {
                Some(forgotten) => {
                    for other in forgotten {
                        self.decoder.select(other);
                        self.decoder.rewind(0);
                    }
                    ready.push((slot, token));
                }
                None => paused = Some(slot),
            }
        }
        self.short_of_memory = paused.is_some();
        let nobody_goes_on =
            ready.is_empty() && self.running.iter().all(|answer| matches!(answer.stage, Stage::Decode(_)));
        if let Some(slot) = paused.filter(|_| nobody_goes_on) {
            self.end_slot(slot, Some(Outcome::Displaced), ended);
        }
        ready
    }

    /// The next token of every answer that has begun. Returns why the lane is broken, if it is.
    fn step(&mut self, folder: &ModelFolder, ended: &mut Vec<Ended>) -> Option<String> {
        let next = self.ready(ended);
        let ran = match next.as_slice() {
            [] => return None,
            [(slot, token)] => guarded(|| {
                self.decoder.select(*slot);
                self.decoder.forward(&[*token])
            }),
            next => guarded(|| self.decoder.step(next, &mut self.logits)),
        };
        if let Err(outcome) = ran {
            let slots: Vec<usize> = next.iter().map(|(slot, _)| *slot).collect();
            return self.failed(&slots, outcome, ended);
        }
        let logits = if next.len() == 1 { self.decoder.logits() } else { &self.logits };
        let rows = logits.chunks_exact((logits.len() / next.len()).max(1));
        let limit = self.decoder.context_limit();
        let mut outcomes = Vec::new();
        let ready = self.running.iter_mut().filter(|answer| next.iter().any(|(slot, _)| *slot == answer.slot));
        for ((answer, (slot, token)), row) in ready.zip(&next).zip(rows) {
            self.slots.extend(*slot, &[*token]);
            if answer.repeat() {
                continue;
            }
            let full = self.slots.cached(*slot).len() >= limit;
            match answer.choose(row) {
                Ok(token) => outcomes.push((*slot, answer.take(token, self.id, full, folder))),
                Err(Outcome::Broken(reason)) => return Some(reason),
                Err(outcome) => outcomes.push((*slot, Some(outcome))),
            }
        }
        for (slot, outcome) in outcomes {
            self.end_slot(slot, outcome, ended);
        }
        None
    }

    fn end_slot(&mut self, slot: usize, outcome: Option<Outcome>, ended: &mut Vec<Ended>) {
        if outcome.is_some() {
            self.end(ended, |answer| outcome.clone().filter(|_| answer.slot == slot));
        }
    }

    /// After a pass that failed. What it left in the cache is not known.
    fn failed(&mut self, slots: &[usize], outcome: Outcome, ended: &mut Vec<Ended>) -> Option<String> {
        slots.iter().for_each(|slot| self.slots.truncate(*slot, 0));
        if let Outcome::Broken(reason) = outcome {
            return Some(reason);
        }
        for slot in slots {
            self.decoder.select(*slot);
            self.decoder.rewind(0);
            self.end_slot(*slot, Some(outcome.clone()), ended);
        }
        None
    }
}

impl Answer {
    /// Goes on to the next of the tokens that are run again; false where the next token is to be chosen.
    fn repeat(&mut self) -> bool {
        let Repeated { done, total } = self.repeated;
        if done < total {
            self.stage = Stage::Decode(self.job.answered()[done]);
            self.repeated.done += 1;
        }
        done < total
    }

    /// The next token. The error is how the answer ends.
    fn choose(&mut self, logits: &[f32]) -> Result<u32, Outcome> {
        // A decoder's panic is caught where it is called; one here is a fault of ours that this request met.
        let chosen = catch_unwind(AssertUnwindSafe(|| self.job.choose(logits)));
        match chosen.map_err(our_fault) {
            Ok(Ok(token)) => Ok(token),
            // No finite logit: this lane computes nonsense.
            Ok(Err(ChoiceError::Sample(error))) => Err(Outcome::Broken(error.to_string())),
            Ok(Err(ChoiceError::Form(message))) | Err(message) => Err(Outcome::Finished(FinishReason::Error(message))),
        }
    }

    /// Takes a token into the answer. Returns how that ends it, if it does. `full`: the context has room for no more.
    fn take(&mut self, token: u32, lane: LaneId, full: bool, folder: &ModelFolder) -> Option<Outcome> {
        let at = Instant::now();
        let finished = |reason| Some(Outcome::Finished(reason));
        if self.job.measure.is_none() && folder.ends.contains(&token) {
            return finished(FinishReason::Stop);
        }
        self.measured.token_latencies.extend(self.last.replace(at).map(|last| at.duration_since(last)));
        let pushed = catch_unwind(AssertUnwindSafe(|| self.job.push(token, at, lane, &folder.tokenizer)));
        let stopped = pushed.unwrap_or_else(|panic| Err(our_fault(panic)));
        match stopped {
            Err(message) => finished(FinishReason::Error(message)),
            Ok(true) => finished(FinishReason::Stop),
            Ok(false) if self.job.usage.completion_tokens >= self.job.max_tokens => finished(FinishReason::Length),
            Ok(false) if full => Some(Outcome::ContextFull),
            Ok(false) => {
                self.stage = Stage::Decode(token);
                None
            }
        }
    }
}

/// Runs a decoder, one that panics being broken and no more.
fn guarded(run: impl FnOnce() -> Result<(), DecodeError>) -> Result<(), Outcome> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(outcome(error)),
        Err(panic) => Err(Outcome::Broken(panic_message(&*panic))),
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

/// What a caught panic said; where it was, the panic hook has told standard error.
pub fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("it panicked without a message").to_owned()
}

fn our_fault(panic: Box<dyn Any + Send>) -> String {
    format!("this request broke ortalk, which is a bug: {}", panic_message(&*panic))
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
