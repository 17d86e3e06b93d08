//! The screen: a chat in the terminal with its instruments beside it.
//!
//! One way through it: threads for input, signals, the machine's samples and loading send `event::Event`s to the driver;
//! `update` turns each into a new `state::State` and `event::Effect`s, which the driver performs; `view` draws the state.
//! It knows no ONNX Runtime: everything about models comes from a [`Backend`].

mod answer;
mod attach;
mod backend;
mod block;
mod chats;
mod chord;
mod clipboard;
mod command;
mod completion;
mod composer;
mod composer_view;
mod consent;
mod conversation;
mod driver;
mod editor;
mod errands;
mod event;
#[cfg(test)]
mod fixtures;
mod format;
mod frames;
mod glyphs;
mod held;
mod help;
mod history_file;
mod input;
mod joined;
mod keymap;
mod keys;
mod layout;
mod looks;
mod markdown;
mod offer;
mod page;
mod palette;
mod panels;
mod paste_burst;
mod picker;
mod picker_view;
mod platform;
mod race;
#[cfg(test)]
mod race_tests;
mod race_text;
mod race_view;
mod record;
#[doc(hidden)]
pub mod rehearsal;
mod replay;
#[cfg(test)]
mod replay_tests;
mod skin;
mod standing;
mod state;
mod strip;
mod switch;
mod terminal;
pub(crate) mod text;
mod theme;
mod title;
mod token_mark;
mod trace;
mod transcript;
mod update;
mod view;
mod writing;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use crate::bill::Books;
use crate::config::{Editing, KeySettings, Panels, ScreenSettings, Settings};
use crate::engine::AnswerSettings;
use crate::recording::{Header, Recorder, Recording, RecordingError};
use crate::telemetry::device::DeviceSample;

pub use backend::{Backend, ModelEntry, Models, OpenedModel, RefusedModel, Tell};
pub use chats::{ChatOptions, Given};
pub use event::Exit;
pub use keymap::KeysError;
pub use theme::ThemeError;

/// Makes the engine. Runs on a thread of its own while the screen is open already; an error is shown there.
pub type Load = Box<dyn FnOnce() -> Result<Arc<dyn Backend>, String> + Send>;
/// Looks at the machine once. Runs on a thread of its own, about once a second.
pub type Sample = Box<dyn FnMut() -> DeviceSample + Send>;

pub struct TuiOptions {
    pub load: Load,
    /// Those that can take its place; without, `/model` says that there is none.
    pub models: Option<Arc<dyn Models>>,
    pub sample: Option<Sample>,
    /// Measures what answers take and writes it down.
    pub books: Option<Books>,
    pub answers: AnswerSettings,
    /// The host of the server that the whole chat is over; `None` where the engine is in this process.
    pub server: Option<String>,
    /// The name of a theme; without one, the environment decides.
    pub theme: Option<String>,
    /// Whose keys edit what is typed.
    pub editing: Editing,
    /// Where messages sent are kept for later sessions; `None` where they are not.
    pub history: Option<PathBuf>,
    /// Keys in place of the usual ones.
    pub keys: KeySettings,
    /// Where themes of the reader's own lie.
    pub themes: PathBuf,
    pub screen: ScreenSettings,
    /// Where conversations are kept; `None` keeps none.
    pub chats: Option<ChatOptions>,
    /// Where standard output and error go while the screen is open.
    pub log_file: PathBuf,
    /// A file, which must not be there, to record the run into.
    pub record: Option<PathBuf>,
    /// A recording to play in place of an engine, and how fast; `load` is not called.
    pub replay: Option<(Recording, f64)>,
}

#[derive(Debug, thiserror::Error)]
pub enum TuiError {
    #[error("{0} is not a terminal; 'ortalk run' answers a prompt without one")]
    NotATerminal(&'static str),
    #[error("TERM is 'dumb': this terminal cannot place text on a screen; 'ortalk run' answers a prompt on it")]
    DumbTerminal,
    #[error(transparent)]
    Theme(#[from] ThemeError),
    #[error(transparent)]
    Keys(#[from] KeysError),
    #[error(transparent)]
    Recording(#[from] RecordingError),
    #[error("the terminal cannot be used: {0}")]
    Terminal(#[from] std::io::Error),
}

/// Whether there is a terminal to draw on and to read keys from.
pub fn require_terminal() -> Result<(), TuiError> {
    if !std::io::stdin().is_terminal() {
        return Err(TuiError::NotATerminal("standard input"));
    }
    if !std::io::stdout().is_terminal() {
        return Err(TuiError::NotATerminal("standard output"));
    }
    if std::env::var_os("TERM").is_some_and(|name| name == "dumb") {
        return Err(TuiError::DumbTerminal);
    }
    Ok(())
}

/// What `run` would refuse of the settings; a person should not wait for a download or a model to hear it.
pub fn check(settings: &Settings, themes: &Path) -> Result<(), TuiError> {
    keymap::Keymap::new(&settings.keys)?;
    looks(settings.theme.as_deref(), themes, &settings.screen)?;
    Ok(())
}

fn looks(theme: Option<&str>, themes: &Path, screen: &ScreenSettings) -> Result<looks::Looks, ThemeError> {
    let mut looks = looks::Looks::new(palette::Depth::new(screen.colours));
    looks.add_folder(themes);
    looks.choose_first(theme)?;
    Ok(looks)
}

/// Has keys come from the terminal where standard input was something else, which has been read to its end.
pub fn read_keys_from_terminal() -> std::io::Result<()> {
    platform::read_keys_from_terminal()
}

/// Opens the chat and returns when it is over, with the terminal as it was.
pub fn run(options: TuiOptions) -> Result<Exit, TuiError> {
    let keys = keymap::Keymap::new(&options.keys)?;
    let looks = looks(options.theme.as_deref(), &options.themes, &options.screen)?;
    let connection = clipboard::Connection::detect();
    let skin = skin::Skin { theme: looks.theme(), glyphs: glyphs::Glyphs::new(options.screen.unicode) };
    require_terminal()?;
    let mut state = state::State::new(options.answers, options.log_file, Instant::now());
    state.keys = keys;
    state.models.are_there = options.models.is_some();
    state.server = options.server;
    state.composer.use_vi(options.editing == Editing::Vim);
    state.looks = looks;
    state.set_pace(frames::Pace::new(options.screen.pace, connection.over_ssh));
    state.connection = connection;
    state.mouse = options.screen.mouse;
    state.panels.hidden = options.screen.panels == Panels::Hidden;
    state.prices = options.books.as_ref().and_then(Books::prices).cloned();
    if let Some(chats) = &options.chats {
        state.chats = chats::Chats::new(chats);
    }
    let header = Header::now(state.prices.clone());
    let recorder = options.record.as_deref().map(|path| Recorder::create(path, &header)).transpose()?;
    if let Some((recording, speed)) = &options.replay {
        state.prices = recording.header.prices.clone();
        state.replay = Some(replay::Replay::new(recording, *speed));
    }
    let sources = driver::Sources {
        load: options.load,
        models: options.models,
        sample: options.sample,
        books: options.books,
        chats: options.chats,
        history: options.history,
        recorder: recorder.map(record::ScreenRecorder::new),
        recording: options.replay,
    };
    Ok(driver::run(state, skin, sources)?)
}
