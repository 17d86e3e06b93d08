//! Which panels a reader wants to see and how, and what they keep between answers.

use std::time::Duration;

use crate::engine::LaneId;
use crate::ledger::Entry;
use crate::telemetry::device::DeviceSample;

use super::super::answer::Answer;

/// Answers whose speed is remembered.
const TREND: usize = 64;
/// Samples of the machine that are remembered.
const SAMPLES: usize = 256;

/// Load of the CPU and of the NPU in percent, memory in GiB, watts: what of it was measured.
pub type Sampled = [Option<f64>; 4];

#[derive(Debug, Clone, Default)]
pub struct Shown {
    /// The column, or the strip, is put away.
    pub hidden: bool,
    /// The open panel takes the place of the conversation.
    pub zoomed: bool,
    pub cursor: Option<TokenCursor>,
    trend: Vec<Past>,
    bills: Vec<Entry>,
    samples: Vec<Sampled>,
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
        self.bills.clear();
    }

    /// What the last answers took, the newest last.
    pub fn bills(&self) -> &[Entry] {
        &self.bills
    }

    pub fn note_bill(&mut self, entry: &Entry) {
        push(&mut self.bills, entry.clone(), TREND);
    }

    /// The newest last.
    pub fn samples(&self) -> &[Sampled] {
        &self.samples
    }

    pub fn note_sample(&mut self, sample: &DeviceSample) {
        let sampled = [
            sample.cpu_percent.measured().map(|percent| f64::from(*percent)),
            sample.npu.load.measured().map(|load| f64::from(load.percent)),
            sample.memory_used.measured().map(|bytes| *bytes as f64 / f64::from(1 << 30)),
            sample.power.measured().map(|power| f64::from(power.watts)),
        ];
        push(&mut self.samples, sampled, SAMPLES);
    }

    /// Notes an answer that is over; one that gave no token has no speed.
    pub fn note(&mut self, answer: &Answer) {
        let Some(lane) = answer.lane.filter(|_| answer.tokens > 0) else { return };
        let past = Past {
            lane,
            emulated: answer.is_emulated(),
            tokens: answer.tokens,
            tokens_per_second: answer.tokens_per_second(),
            ttft: answer.ttft(),
            prefill_tokens_per_second: answer.prefill_tokens_per_second(),
        };
        push(&mut self.trend, past, TREND);
    }
}

/// The oldest goes where there are too many.
fn push<T>(list: &mut Vec<T>, new: T, most: usize) {
    if list.len() >= most {
        list.remove(0);
    }
    list.push(new);
}
