//! The tokens of an answer, one by one: which text each of them gave, how long it took, and on which lane. What links the
//! latency chart with the words of the conversation.

use std::ops::Range;
use std::time::Duration;

use crate::engine::LaneId;
use crate::telemetry::latency::median;

/// How many medians a stall takes, at least.
pub const STALL: u32 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TracedToken {
    /// Bytes of the text that is shown, or of the thinking. Empty where the text came with a later token.
    start: usize,
    end: usize,
    /// It is part of the thinking.
    pub thinks: bool,
    /// Since the token before it; of the first since the question was sent.
    pub took: Duration,
    /// The first of its answer.
    pub first: bool,
    pub lane: LaneId,
}

impl TracedToken {
    pub fn new(text: Range<usize>, thinks: bool, took: Took, lane: LaneId) -> Self {
        Self { start: text.start, end: text.end, thinks, took: took.time, first: took.first, lane }
    }

    pub fn text(&self) -> Range<usize> {
        self.start..self.end
    }
}

/// A token's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Took {
    pub time: Duration,
    /// It counts from the question, not from a token.
    pub first: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    tokens: Vec<TracedToken>,
}

impl Trace {
    pub fn add(&mut self, token: TracedToken) {
        self.tokens.push(token);
    }

    /// Text that was held back and belongs to the last token.
    pub fn stretch(&mut self, thinks: bool, end: usize) {
        if let Some(token) = self.tokens.iter_mut().rev().find(|token| token.thinks == thinks) {
            token.end = token.end.max(end);
        }
    }

    pub fn tokens(&self) -> &[TracedToken] {
        &self.tokens
    }

    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Times between two tokens.
    pub fn latencies(&self) -> Vec<Duration> {
        self.tokens.iter().filter(|token| !token.first).map(|token| token.took).collect()
    }
}

/// More than this is a stall: three times the median of an answer's latencies. `None` where there are fewer than four, which
/// tell nothing about a median.
pub fn stall_threshold(latencies: &[Duration]) -> Option<Duration> {
    median(latencies).filter(|_| latencies.len() >= 4).map(|median| median * STALL)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(values: &[u64]) -> Vec<Duration> {
        values.iter().map(|v| Duration::from_millis(*v)).collect()
    }

    #[test]
    fn a_stall_takes_more_than_three_medians() {
        assert_eq!(stall_threshold(&ms(&[10, 10, 10, 30, 31])), Some(Duration::from_millis(30)));
        assert_eq!(stall_threshold(&ms(&[10, 10, 100])), None);
        assert_eq!(stall_threshold(&[]), None);
    }

    #[test]
    fn text_that_came_late_belongs_to_the_last_token_of_its_kind() {
        let took = Took { time: Duration::from_millis(5), first: false };
        let mut trace = Trace::default();
        trace.stretch(false, 9);
        assert!(trace.is_empty());
        trace.add(TracedToken::new(0..4, true, Took { first: true, ..took }, LaneId::Cpu));
        trace.add(TracedToken::new(0..3, false, took, LaneId::Cpu));
        trace.stretch(true, 6);
        trace.stretch(false, 2);
        let texts: Vec<_> = trace.tokens().iter().map(TracedToken::text).collect();
        assert_eq!(texts, [0..6, 0..3]);
        assert_eq!(trace.latencies(), [took.time]);
    }
}
