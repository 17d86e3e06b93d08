//! Everything that can happen to the screen, in one enum, and everything the screen can ask for, in another.
//!
//! `update` turns the first into the second; the driver alone performs effects.

use std::sync::Arc;

use crossterm::event::KeyEvent;

use crate::bill::Bill;
use crate::engine::{AnswerSettings, ChatRequest, EngineSnapshot, GenerationEvent, RoutingDecision};
use crate::race::{Plan, RaceEvent};
use crate::recording::Timed;
use crate::telemetry::device::DeviceSample;

use super::attach::{AttachError, FileText};
use super::backend::ModelEntry;
use super::chats::{News, Wish};
use super::clipboard::Outcome;
use super::composer::Inset;

#[derive(Debug, Clone)]
pub enum Event {
    /// A key was pressed or repeats; releases are dropped by the input thread.
    Key(KeyEvent),
    /// A bracketed paste, as one text.
    Paste(String),
    Resize {
        columns: u16,
        rows: u16,
    },
    /// The engine can answer.
    EngineLoaded(EngineSnapshot),
    /// The engine could not be made; the text is for people and may have many lines.
    EngineFailed(String),
    /// What `/model` can choose from.
    ModelsListed(Result<Vec<ModelEntry>, String>),
    /// The engine was given up to make room for the next one.
    EngineReleased,
    /// How far the one is that is being loaded.
    ModelStage(String),
    /// Another model answers from now on; it suggests these numbers.
    ModelOpened(EngineSnapshot, Box<AnswerSettings>),
    /// The one that answered goes on.
    ModelRefused(String),
    /// The engine as it stands after something changed.
    Snapshot(EngineSnapshot),
    /// From the stream of the answer that was submitted last.
    Generation(GenerationEvent),
    /// The stream ended without `Finished`: the lane's thread is gone.
    GenerationLost,
    /// What the router said about the composer's text of this revision.
    Previewed {
        revision: u64,
        result: Result<RoutingDecision, String>,
    },
    /// What the conversation of this number takes as it stands.
    ConversationCounted {
        number: u64,
        result: Result<RoutingDecision, String>,
    },
    /// What the running answer took; comes just before its end, or after it was cancelled.
    Billed(Box<Bill>),
    /// What the router said about the message that waits at the head of the queue.
    Weighed(Result<RoutingDecision, String>),
    Device(Box<DeviceSample>),
    /// From the race with this number.
    Race {
        number: u64,
        event: Box<RaceEvent>,
    },
    /// A line of the recording that is played.
    Played(Box<Timed>),
    /// There is no line left.
    PlayedAll,
    /// Tokens of a paste or a file, by the number of its inset.
    Counted {
        id: u64,
        tokens: usize,
    },
    /// What lies in and below a folder.
    FolderListed {
        folder: String,
        paths: Vec<String>,
    },
    /// A file that the composer's text names, or why there is no text of it.
    FileRead {
        mentioned: String,
        result: Result<FileText, AttachError>,
    },
    /// What earlier sessions sent, the oldest first.
    HistoryLoaded(Vec<String>),
    /// The history cannot be read or written; comes once.
    HistoryLost(String),
    /// What a person left in their editor.
    Edited(Result<String, String>),
    /// What the disk says of kept conversations.
    Chats(News),
    /// The end of the log file, or why it cannot be read.
    LogRead(Result<String, String>),
    /// A deadline that `State::deadline` named has come.
    Tick,
    Signal(Signal),
    /// Only where the program has the mouse.
    Mouse(Mouse),
    /// What became of a text that was to be copied.
    Clipboard(Outcome),
    /// The terminal is gone: nobody reads or types any more.
    InputLost,
}

/// A place is counted from the upper left corner, in cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mouse {
    WheelUp,
    WheelDown,
    Click { column: u16, row: u16 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM, SIGINT or SIGHUP, or Windows' close and shutdown events; the number is the Unix one.
    Terminate(i32),
    /// SIGTSTP from outside.
    #[cfg_attr(windows, allow(dead_code))] // it has no job control
    Stop,
    /// SIGCONT: somebody may have used the terminal in the meantime.
    #[cfg_attr(windows, allow(dead_code))]
    Continue,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Start an answer. There is never one running.
    Submit(ChatRequest),
    /// Drop the running answer's stream.
    CancelGeneration,
    /// Ask the router, off this thread; answered by `Event::Previewed`.
    Preview {
        revision: u64,
        request: ChatRequest,
    },
    /// Ask the router likewise about the conversation without a new message; answered by `Event::ConversationCounted`.
    CountConversation {
        number: u64,
        request: ChatRequest,
    },
    /// Ask the router likewise; answered by `Event::Weighed`.
    Weigh(ChatRequest),
    /// Run a race on a thread of its own; answered by `Event::Race`.
    Race {
        number: u64,
        plan: Box<Plan>,
    },
    /// Drop the running race's streams.
    CancelRace,
    /// Stop playing the recording, or go on.
    PauseReplay(bool),
    /// Count the tokens of a paste or a file, off this thread; answered by `Event::Counted` where they can be counted.
    CountTokens(Arc<Inset>),
    /// List a folder, off this thread; answered by `Event::FolderListed`.
    ListFolder(String),
    /// Read a file that the composer's text names, off this thread; answered by `Event::FileRead`.
    ReadFile(String),
    /// Append a message to the history of all sessions.
    Remember(String),
    /// Lend the terminal to the reader's editor; answered by `Event::Edited`.
    Edit(String),
    /// Read the engine's state; answered by `Event::Snapshot`.
    RefreshSnapshot,
    /// Copy a text to the clipboard that the reader has; answered by `Event::Clipboard`.
    Copy(String),
    /// Copy a text by way of the terminal alone; answered likewise.
    CopyByTerminal(String),
    /// What concerns kept conversations; performed in their order.
    Chats(Wish),
    /// Ask which models there are, off this thread; answered by `Event::ModelsListed`.
    ListModels,
    /// Load the model of this name, off this thread; answered by `Event::ModelOpened` or `Event::ModelRefused`.
    OpenModel(String),
    /// Read the end of the log file, off this thread; answered by `Event::LogRead`.
    ReadLog,
    /// Take the mouse, or leave it to the terminal.
    TakeMouse(bool),
    /// Give the terminal back and stop the process until it is continued.
    Suspend {
        by: SuspendedBy,
    },
    /// Take the terminal again and draw everything.
    Repaint,
    Quit(Exit),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SuspendedBy {
    Key,
    Signal,
}

/// Why the chat ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The reader asked for it.
    Quit,
    /// A signal with this number; a shell expects status 128 + number.
    Signal(i32),
    /// The terminal disappeared.
    TerminalLost,
}

impl Exit {
    /// The process's exit status, as shells expect it.
    pub fn code(self) -> u8 {
        match self {
            Self::Quit => 0,
            Self::Signal(number) => u8::try_from(128 + number).unwrap_or(255),
            Self::TerminalLost => 128 + 1, // as if by SIGHUP
        }
    }
}
