//! Finds how the CPU lane runs fastest on this machine with this model: threads, spinning, and the tokens of a prompt that
//! go through the model in one pass.
//!
//! What is compared is a chat's **turn**: [`TURN_PROMPT`] tokens of prompt and [`TURN_ANSWER`] of answer, reckoned from a
//! shorter piece of it that is measured (`measure`). Settings race (`race`): in each round every one that is still in it runs
//! once, in an order that changes, so that what disturbs the machine disturbs all of them; two settings are compared by the
//! ratios of their times within the rounds. One that is surely slower leaves the race, so it costs less than measuring all
//! settings equally often. There are three races (`search`):
//!
//! 1. thread counts, without spinning;
//! 2. those that are left, with and without spinning; on machines with many threads also the counts beside the best;
//! 3. sizes of a prompt's pass, by the prefill alone.
//!
//! **The rule.** A setting is slower than another where the 95 % confidence interval of the median ratio lies above 1 and
//! the median is at least [`MARGIN`] above it. Settings that are not slower than the fastest cannot be told from it; among
//! them the one with the fewest threads is taken, of these one without spinning, of these the one with the smallest pass.
//! What was taken is at last set beside the default, which stays if it is faster, and where it takes no more threads and
//! spinning and is not surely slower.

mod measure;
mod race;
mod search;

use serde::Serialize;

pub use measure::{Open, Timer, Work};
pub use race::{Entry, RaceReport, Standing, compare};
pub use search::{Progress, Tuned, search};

use crate::engine::CpuSetting;

/// Tokens of a turn's prompt that are not in the cache yet.
pub const TURN_PROMPT: usize = 512;
/// Tokens of a turn's answer.
pub const TURN_ANSWER: usize = 128;
/// A difference that is worth a thread: smaller ones are not told apart.
pub const MARGIN: f64 = 0.02;

/// Of a race, at most. Twelve ratios give an interval from the third to the tenth: two disturbed rounds on either side do not
/// matter.
pub const ROUNDS: usize = 12;

/// What settings are searched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Space {
    /// How the lane runs where nobody tuned it.
    pub default: CpuSetting,
    /// Threads that may run at once.
    pub threads: usize,
    /// Tokens of a pass, in ascending order.
    pub chunks: Vec<usize>,
    /// Of a race, at most; never fewer than three.
    pub rounds: usize,
}

/// One measurement of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Timing {
    /// Of one token of a prompt, on average.
    pub prefill_token_ms: f64,
    /// The median time between two tokens; absent where only the prefill was measured.
    pub decode_token_ms: Option<f64>,
}

impl Timing {
    /// Of a whole turn, reckoned; of its prefill where nothing else was measured.
    pub fn turn_ms(&self) -> f64 {
        self.prefill_token_ms * TURN_PROMPT as f64 + self.decode_token_ms.unwrap_or(0.0) * TURN_ANSWER as f64
    }
}
