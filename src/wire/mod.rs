//! The engine's events and its snapshot as JSON, both ways: for the server's extension of OpenAI's API, for whom it is
//! connected to, and for recordings. Who reads it makes of it what an engine in its own process would have given.
//!
//! Times are milliseconds since the request was submitted. A reader ignores fields that it does not know; an event of a
//! kind that it does not know is `Event::Unknown`.

mod event;
mod extension;
mod snapshot;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use event::{Event, Finished, Logprob, Logprobs, Reason, Rejection, Routing, Timings, Token, ToolCallDelta, Usage};
pub use extension::{AnswerExtension, RequestExtension};
pub use snapshot::{Graph, Lane, Memory, Snapshot, State, Thinking};

/// Rounded to a microsecond.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Milliseconds(pub f64);

impl From<Duration> for Milliseconds {
    fn from(duration: Duration) -> Self {
        Self((duration.as_secs_f64() * 1e6).round() / 1e3)
    }
}

impl From<Milliseconds> for Duration {
    /// What is no duration (negative, not a number, out of range) is none.
    fn from(milliseconds: Milliseconds) -> Self {
        Self::try_from_secs_f64(milliseconds.0 / 1e3).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
