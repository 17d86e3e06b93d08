//! Recordings: what a chat or a race showed, with its times, as lines of JSON that can be played again without the device,
//! the model or the library. `docs/recording.md` describes the file.
//!
//! The first line is a [`Header`]; each other one is a [`Timed`], in the order in which things happened. A reader passes
//! over fields and kinds of lines that it does not know. The last line is `end`, so that a file that was cut off is known.

mod conversation;
mod lanes;
mod read;
mod write;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::engine::LaneId;
use crate::ledger::{Entry, EntryEnergy, Prices};
use crate::race::Start;
use crate::telemetry::device::DeviceSample;
use crate::wire::{Event, Milliseconds, Snapshot};

pub use conversation::Records;
pub use lanes::LaneClocks;
pub use read::{Completeness, Recording, parse, read, read_from};
pub use write::Recorder;

/// What makes a file a recording.
pub const FORMAT: &str = "ortalk recording";

/// Grows when a line changes its meaning. Lines and fields that are added do not change it.
pub const VERSION: u32 = 1;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// [`FORMAT`].
    pub format: String,
    pub v: u32,
    /// The program and its version.
    #[serde(default)]
    pub made_by: String,
    /// When it began: UTC, by RFC 3339.
    #[serde(default)]
    pub time: String,
    /// The prices in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<Prices>,
}

impl Header {
    /// Of a recording that begins now.
    pub fn now(prices: Option<Prices>) -> Self {
        Self {
            format: FORMAT.to_owned(),
            v: VERSION,
            made_by: format!("ortalk {}", env!("CARGO_PKG_VERSION")),
            time: Entry::timestamp(chrono::Utc::now()),
            prices,
        }
    }
}

/// A line, and when it happened since the beginning. No line is earlier than the one before it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Timed {
    pub at_ms: Milliseconds,
    #[serde(flatten)]
    pub line: Line,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Line {
    /// The engine as it stands.
    Engine {
        snapshot: Box<Snapshot>,
    },
    /// It could not be made.
    EngineFailed {
        error: String,
    },
    /// A look at the machine.
    Device {
        sample: Box<DeviceSample>,
    },
    /// A message was sent to be answered. The times of the answer's events count from here.
    Prompt {
        text: String,
        /// Questions that stand above it; what else stood there gives way to it.
        questions: usize,
        /// Nothing new is asked: the last answer goes on.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        continues: bool,
        /// The question stands there already and gets another answer; `None` where an earlier version did not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        again: Option<bool>,
    },
    /// An event of the answer.
    Answer {
        event: Box<Event>,
    },
    /// The answer was cancelled.
    Cancelled,
    /// The answer's stream ended without a word.
    Lost,
    /// What the answer took.
    Bill {
        entry: Box<Entry>,
    },
    /// A new conversation began.
    Cleared,
    /// What was done to the conversation but for asking and answering: another version is shown, a message deleted.
    Conversation {
        /// Another one, which these records make, took its place.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        opened: bool,
        records: Records,
    },
    /// ortalk said something of its own in the conversation.
    Notice {
        level: NoticeLevel,
        text: String,
    },
    /// The engine was given up to make room for another model.
    EngineReleased,
    /// A race begins.
    Race {
        start: Box<Start>,
        /// Its prompt is a new message of the conversation.
        asks: bool,
    },
    /// A lane of the race is asked. The times of its events count from here.
    LaneBegan {
        lane: LaneId,
        round: usize,
    },
    Lane {
        lane: LaneId,
        event: Box<Event>,
    },
    LaneEnergy {
        lane: LaneId,
        energy: Box<EntryEnergy>,
    },
    RaceOver {
        cancelled: bool,
    },
    /// The reader left the race with the answer of this lane in view.
    RaceClosed {
        lane: Option<LaneId>,
    },
    /// The recording is whole.
    End,
    /// Of a later version.
    #[serde(other)]
    Unknown,
}

/// How much a notice wants to be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeLevel {
    Info,
    Warning,
    Error,
}

/// No recording is larger, in bytes: days of answers.
const LARGEST: u64 = 1 << 30;

#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    #[error("'{}' is there already; a recording is never written over, so name another file or move that one away", .0.display())]
    Exists(PathBuf),
    #[error("the recording '{}' cannot be written: {error}", path.display())]
    Write { path: PathBuf, error: std::io::Error },
    #[error("the recording '{}' cannot be read: {error}", path.display())]
    Read { path: PathBuf, error: std::io::Error },
    #[error("'{}' has more than {} GiB; no recording is so large", .0.display(), LARGEST >> 30)]
    TooLarge(PathBuf),
    #[error("'{}' is no recording of ortalk: its first line must be an object with \"format\": \"{FORMAT}\"", .0.display())]
    Foreign(PathBuf),
    #[error(
        "the recording '{}' has version {version}; this ortalk knows {VERSION}, so a newer one is needed to play it",
        path.display()
    )]
    Newer { path: PathBuf, version: u32 },
    #[error("line {number} of the recording '{}' is wrong: {problem}", path.display())]
    Line { path: PathBuf, number: usize, problem: String },
    #[error(
        "the recording '{}' is cut off after line {lines}, at {seconds:.1} s, or still being written; --partial plays what \
         is there",
        path.display()
    )]
    Cut { path: PathBuf, lines: usize, seconds: f64 },
    #[error("the recording '{}' has nothing to play", .0.display())]
    Empty(PathBuf),
}

#[cfg(test)]
mod tests;
