//! Which panels a reader wants to see and how, and what they keep between answers.

use std::time::Duration;

use crate::engine::LaneId;

use super::super::answer::Answer;

/// Answers whose speed is remembered.
const TREND: usize = 64;

#[derive(Debug, Clone, Default)]
pub struct Shown {
    /// The column, or the strip, is put away.
    pub hidden: bool,
    /// The open panel takes the place of the conversation.
    pub zoomed: bool,
    pub cursor: Option<TokenCursor>,
    trend: Vec<Past>,
}

/// The token of an answer that a reader looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenCursor {
    /// Of the conversation.
    pub block: usize,
    /// Of the block's tokens.
    pub token: usize,
    /// The reader was at the newest text before, and goes back there.
    pub followed: bool,
}

/// How fast an answer was that is over.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Past {
    pub lane: LaneId,
    pub emulated: bool,
    pub tokens: usize,
    pub tokens_per_second: Option<f64>,
    pub ttft: Option<Duration>,
    pub prefill_tokens_per_second: Option<f64>,
}

impl Shown {
    /// The last answers, the newest last.
    pub fn trend(&self) -> &[Past] {
        &self.trend
    }

    /// Another conversation's answers come.
    pub fn forget_trend(&mut self) {
        self.trend.clear();
    }

    /// Notes an answer that is over; one that gave no token has no speed.
    pub fn note(&mut self, answer: &Answer) {
        let Some(lane) = answer.lane.filter(|_| answer.tokens > 0) else { return };
        if self.trend.len() == TREND {
            self.trend.remove(0);
        }
        self.trend.push(Past {
            lane,
            emulated: answer.is_emulated(),
            tokens: answer.tokens,
            tokens_per_second: answer.tokens_per_second(),
            ttft: answer.ttft(),
            prefill_tokens_per_second: answer.prefill_tokens_per_second(),
        });
    }
}
