//! What is known of the answer that runs, or of the last one: the numbers that the panels show.
//!
//! Times come from the tokens' own stamps, made on the lane's thread, never from when something was painted.

use std::time::{Duration, Instant};

use crate::engine::{Finished, GenerationEvent, LaneChange, LaneId, PrefillProgress, RoutingDecision};
use crate::store::{Made, Message};
use crate::telemetry::latency::tokens_per_second;

use super::trace::Took;

#[derive(Debug, Clone)]
pub struct Answer {
    /// The conversation's block that it fills.
    pub block: usize,
    pub submitted: Instant,
    pub decision: Option<RoutingDecision>,
    pub lane: Option<LaneId>,
    pub prefill: Option<PrefillProgress>,
    /// The last change of the lane.
    pub change: Option<LaneChange>,
    pub tokens: usize,
    first_token: Option<Instant>,
    last_token: Option<Instant>,
    latencies: Vec<Duration>,
    pub finished: Option<Finished>,
    /// Over: finished, cancelled or lost.
    pub over: bool,
    /// What was measured of it, where it was given in an earlier session.
    kept: Option<Kept>,
    /// It is the one of a race's answers that the reader kept; nothing was routed.
    pub raced: bool,
}

#[derive(Debug, Clone, Copy)]
struct Kept {
    emulated: bool,
    ttft: Option<Duration>,
    tokens_per_second: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Submitted; no lane was chosen yet.
    Waiting,
    Prefill,
    Decode,
    Over,
}

impl Answer {
    pub fn new(block: usize, submitted: Instant) -> Self {
        Self {
            block,
            submitted,
            decision: None,
            lane: None,
            prefill: None,
            change: None,
            tokens: 0,
            first_token: None,
            last_token: None,
            latencies: Vec::new(),
            finished: None,
            over: false,
            kept: None,
            raced: false,
        }
    }

    /// Of a race, and kept.
    pub fn raced(block: usize, submitted: Instant) -> Self {
        Self { raced: true, ..Self::new(block, submitted) }
    }

    /// An answer of a kept conversation; of one that went on, what was measured of its last part. `None` for a question, and
    /// for an answer that no lane gave.
    pub fn kept(block: usize, message: &Message, now: Instant) -> Option<Self> {
        let answer = message.answer.as_ref()?;
        let lane = LaneId::named(answer.lane()?)?;
        let mut latencies = Vec::new();
        let mut timed = 0;
        for piece in message.pieces() {
            match piece.made {
                Made::Token { first: true, .. } => {
                    latencies.clear();
                    timed = 1;
                }
                Made::Token { took, .. } => {
                    latencies.push(*took);
                    timed += 1;
                }
                Made::Text | Made::Lane { .. } | Made::GoesOn => {}
            }
        }
        let end = answer.end.as_ref();
        let kept = Kept {
            emulated: answer.is_emulated(),
            ttft: end.and_then(|end| end.ttft),
            tokens_per_second: end.and_then(|end| end.tokens_per_second).or_else(|| tokens_per_second(&latencies)),
        };
        let tokens = end.map_or(timed, |end| end.tokens);
        Some(Self { lane: Some(lane), tokens, latencies, over: true, kept: Some(kept), ..Self::new(block, now) })
    }

    /// It was given before the conversation was opened: what it took of the context is not known any more.
    pub fn is_kept(&self) -> bool {
        self.kept.is_some()
    }

    pub fn note(&mut self, event: &GenerationEvent) {
        match event {
            GenerationEvent::Routed(decision) => {
                self.lane = Some(decision.lane);
                self.decision = Some(decision.clone());
            }
            GenerationEvent::PrefillProgress(progress) => self.prefill = Some(*progress),
            GenerationEvent::Token(token) => {
                self.tokens += 1;
                self.lane = Some(token.lane);
                match self.last_token {
                    Some(last) => self.latencies.push(token.at.saturating_duration_since(last)),
                    None => self.first_token = Some(token.at),
                }
                self.last_token = Some(token.at);
            }
            // The conversation tells of these.
            GenerationEvent::ContextTrimmed(_) | GenerationEvent::TrailingText { .. } => {}
            GenerationEvent::LaneChanged(change) => {
                self.lane = Some(change.to);
                self.change = Some(change.clone());
            }
            GenerationEvent::Finished(finished) => {
                self.finished = Some(finished.clone());
                self.over = true;
            }
        }
    }

    pub fn phase(&self) -> Phase {
        if self.over {
            Phase::Over
        } else if self.prefill.is_some_and(|prefill| prefill.done < prefill.total) {
            Phase::Prefill
        } else if self.tokens > 0 {
            Phase::Decode
        } else if self.prefill.is_some() {
            Phase::Prefill
        } else {
            Phase::Waiting
        }
    }

    /// The lane that it is on runs on a simulator.
    pub fn is_emulated(&self) -> bool {
        let kept = self.kept.is_some_and(|kept| kept.emulated);
        let decided = || self.decision.as_ref().map_or(kept, |decision| decision.emulated);
        self.change.as_ref().map_or_else(decided, |change| change.emulated)
    }

    pub fn ttft(&self) -> Option<Duration> {
        let kept = || self.kept.and_then(|kept| kept.ttft);
        let reported = self.finished.as_ref().and_then(|finished| finished.timings.ttft).or_else(kept);
        reported.or_else(|| self.first_token.map(|at| at.saturating_duration_since(self.submitted)))
    }

    /// How long the newest token took.
    pub fn newest(&self) -> Took {
        match self.latencies.last() {
            Some(latency) => Took { time: *latency, first: false },
            None => {
                let at = self.first_token.unwrap_or(self.submitted);
                Took { time: at.saturating_duration_since(self.submitted), first: true }
            }
        }
    }

    /// Time between each token and the one before it.
    pub fn latencies(&self) -> &[Duration] {
        match &self.finished {
            Some(finished) if !finished.timings.token_latencies.is_empty() => &finished.timings.token_latencies,
            _ => &self.latencies,
        }
    }

    /// Tokens after the first per second since the first. A server's pieces count as tokens until it has said how many
    /// there were.
    pub fn tokens_per_second(&self) -> Option<f64> {
        if let Some(kept) = self.kept {
            return kept.tokens_per_second;
        }
        let Some(counted) = self.counted_by_server() else { return tokens_per_second(self.latencies()) };
        let seconds = self.latencies().iter().sum::<Duration>().as_secs_f64();
        (seconds > 0.0 && counted > 1).then(|| (counted - 1) as f64 / seconds)
    }

    /// What is said of tokens is about a server's pieces.
    pub fn is_estimate(&self) -> bool {
        self.lane == Some(LaneId::Remote) && self.counted_by_server().is_none()
    }

    /// The answer's tokens, where all of it came from a server that counted them.
    fn counted_by_server(&self) -> Option<usize> {
        let usage = self.finished.as_ref()?.usage;
        let remote = usage.remote.filter(|remote| !remote.is_estimate)?;
        (remote.completion_tokens == usage.completion_tokens).then_some(remote.completion_tokens)
    }

    pub fn prefill_tokens_per_second(&self) -> Option<f64> {
        self.finished.as_ref().and_then(|finished| finished.timings.prefill_tokens_per_second())
    }

    /// Until the lane has said how long its passes took, at least so many: the time to the first token has them in it.
    pub fn least_prefill_rate(&self) -> Option<f64> {
        let (new, _) = self.new_and_reused().filter(|_| self.tokens > 0 && self.change.is_none())?;
        if self.lane == Some(LaneId::Remote) {
            return None;
        }
        let seconds = self.ttft()?.as_secs_f64();
        (new > 0 && seconds > 0.0).then(|| new as f64 / seconds)
    }

    /// Prompt tokens that were computed, and those that an earlier turn had left in the cache. A prompt that was cancelled
    /// counts as far as it came.
    pub fn new_and_reused(&self) -> Option<(usize, usize)> {
        self.prefill.map(|prefill| (prefill.done.saturating_sub(prefill.reused), prefill.reused))
    }

    /// Tokens in the context now, and how many it can hold.
    pub fn context(&self) -> Option<(usize, usize)> {
        let decided = self.decision.as_ref()?.context_limit;
        let limit = self.change.as_ref().map_or(decided, |change| change.context_limit);
        // After a change of the lane, the answer before it is part of what is run again.
        let since = self.tokens - self.change.as_ref().map_or(0, |change| change.after_tokens.min(self.tokens));
        // What is computed is what the cache holds; the last token of a full context has no place in it.
        Some(((self.prefill?.done + since).min(limit), limit))
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::decision;
    use super::*;
    use crate::engine::Token;

    fn token(at: Instant) -> GenerationEvent {
        let (text, thinking) = ("x".to_owned(), String::new());
        GenerationEvent::Token(Token {
            text,
            thinking,
            thinks: false,
            tool_calls: Vec::new(),
            id: 1,
            logprobs: None,
            at,
            lane: LaneId::Cpu,
        })
    }

    #[test]
    fn rates_come_from_the_stamps_of_the_tokens() {
        let start = Instant::now();
        let mut answer = Answer::new(0, start);
        for ms in [100, 110, 120, 130] {
            let at = start + Duration::from_millis(ms);
            answer.note(&token(at));
        }
        assert_eq!(answer.ttft(), Some(Duration::from_millis(100)));
        assert_eq!(answer.latencies(), [Duration::from_millis(10); 3]);
        assert!((answer.tokens_per_second().unwrap() - 100.0).abs() < 1e-9);
        assert_eq!(answer.phase(), Phase::Decode);
    }

    #[test]
    fn another_lane_runs_the_answer_so_far_again() {
        let mut answer = Answer::new(0, Instant::now());
        answer.note(&GenerationEvent::Routed(RoutingDecision { context_limit: 8, ..decision() }));
        answer.note(&GenerationEvent::PrefillProgress(PrefillProgress { done: 6, total: 6, reused: 0 }));
        let token = |lane| {
            GenerationEvent::Token(Token {
                text: "x".into(),
                thinking: String::new(),
                thinks: false,
                tool_calls: Vec::new(),
                logprobs: None,
                id: 1,
                at: Instant::now(),
                lane,
            })
        };
        answer.note(&token(LaneId::Npu));
        answer.note(&token(LaneId::Npu));
        answer.note(&GenerationEvent::LaneChanged(LaneChange {
            from: LaneId::Npu,
            to: LaneId::Cpu,
            after_tokens: 2,
            context_limit: 100,
            emulated: false,
            reason: "the context of 8 is full".into(),
        }));
        answer.note(&GenerationEvent::PrefillProgress(PrefillProgress { done: 4, total: 8, reused: 4 }));
        assert_eq!((answer.phase(), answer.context()), (Phase::Prefill, Some((4, 100))));
        answer.note(&GenerationEvent::PrefillProgress(PrefillProgress { done: 8, total: 8, reused: 4 }));
        answer.note(&token(LaneId::Cpu));
        assert_eq!((answer.phase(), answer.context()), (Phase::Decode, Some((9, 100))));
    }

    #[test]
    fn the_context_holds_what_was_computed_and_never_more_than_its_limit() {
        let mut answer = Answer::new(0, Instant::now());
        answer.note(&GenerationEvent::Routed(RoutingDecision { context_limit: 8, ..decision() }));
        // A prompt that was refused has put nothing there.
        assert_eq!(answer.context(), None);
        answer.note(&GenerationEvent::PrefillProgress(PrefillProgress { done: 2, total: 6, reused: 2 }));
        assert_eq!(answer.context(), Some((2, 8)));
        // Were it cancelled here, nothing of it would have been computed.
        assert_eq!(answer.new_and_reused(), Some((0, 2)));
        answer.note(&GenerationEvent::PrefillProgress(PrefillProgress { done: 6, total: 6, reused: 2 }));
        assert_eq!(answer.new_and_reused(), Some((4, 2)));
        for _ in 0..3 {
            let at = Instant::now();
            answer.note(&token(at));
        }
        assert_eq!(answer.context(), Some((8, 8)));
    }
}
