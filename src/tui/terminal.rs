//! Takes the terminal and gives it back, and paints frames on it.
//!
//! Everything that goes to the screen goes through one writer, which holds a whole frame until it is complete: clear,
//! cells and synchronized-update brackets leave in one write. The way back is kept where a panic hook and the signal
//! thread can reach it.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::rc::Rc;
use std::sync::Mutex;

use crossterm::event::{
    DisableBracketedPaste, EnableBracketedPaste, KeyboardEnhancementFlags, PopKeyboardEnhancementFlags,
    PushKeyboardEnhancementFlags,
};
use crossterm::terminal::{
    BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
};
use crossterm::{cursor, queue};
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;
use ratatui::{Frame, TerminalOptions, Viewport};

use super::joined::{self, Careful};
use super::platform;
use crate::log_file;

/// A frame as bytes, complete when it is taken. Shared between ratatui's backend and the terminal.
#[derive(Debug, Clone, Default)]
pub struct FrameBytes(Rc<RefCell<Vec<u8>>>);

impl Write for FrameBytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    /// Nothing leaves before the frame is complete.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Draws frames as bytes that a terminal shows at once.
pub struct Painter {
    bytes: FrameBytes,
    /// A new size, or the old one again: the next frame begins with an empty screen.
    anew: Option<Rect>,
    terminal: ratatui::Terminal<Careful<CrosstermBackend<FrameBytes>>>,
}

impl Painter {
    pub fn new(columns: u16, rows: u16) -> io::Result<Self> {
        let bytes = FrameBytes::default();
        let viewport = Viewport::Fixed(Rect::new(0, 0, columns, rows));
        let backend = Careful(CrosstermBackend::new(bytes.clone()));
        Ok(Self {
            bytes,
            anew: None,
            terminal: ratatui::Terminal::with_options(backend, TerminalOptions { viewport })?,
        })
    }

    /// One frame: what changed since the last one, between synchronized-update brackets.
    pub fn frame(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<Vec<u8>> {
        queue!(self.bytes, BeginSynchronizedUpdate)?;
        let drawn = match self.anew.take() {
            // Not `clear`, which asks the terminal where its cursor is.
            Some(area) => self.terminal.resize(area),
            None => Ok(()),
        };
        let draw = |frame: &mut Frame<'_>| {
            draw(frame);
            joined::mark(frame.buffer_mut());
        };
        let drawn = drawn.and_then(|()| self.terminal.draw(draw).map(|_| ()));
        queue!(self.bytes, EndSynchronizedUpdate)?;
        drawn?;
        Ok(self.bytes.0.take())
    }

    /// Forgets what is on the screen; the next frame draws everything.
    pub fn resize(&mut self, columns: u16, rows: u16) {
        self.anew = Some(Rect::new(0, 0, columns, rows));
    }
}

/// The terminal, as long as it is ours.
pub struct Screen {
    painter: Painter,
    log: File,
    /// Whether the mouse is taken with the terminal.
    mouse: bool,
}

struct Taken {
    saved: platform::Saved,
    screen: File,
}

/// The way back. Not in `Screen`, since a panic hook and the signal thread must find it.
static TAKEN: Mutex<Option<Taken>> = Mutex::new(None);

impl Screen {
    pub fn enter(log: &Path, mouse: bool) -> io::Result<Self> {
        // The log is worth having, but no reason not to chat.
        let log = log_file::open(log)
            .and_then(|log| log_file::begin(&log).map(|()| log))
            .or_else(|_| File::options().write(true).open(platform::NULL_DEVICE))?;
        let (columns, rows) = size();
        let screen = Self { painter: Painter::new(columns, rows)?, log, mouse };
        screen.take()?;
        Ok(screen)
    }

    /// Paints one frame.
    pub fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        let bytes = self.painter.frame(draw)?;
        write_all(&bytes)
    }

    pub fn take_mouse(&mut self, on: bool) -> io::Result<()> {
        self.mouse = on;
        let mut bytes = Vec::new();
        platform::take_mouse(&mut bytes, on)?;
        self.send(&bytes)
    }

    /// Bytes that are no frame, between two frames.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() { Ok(()) } else { write_all(bytes) }
    }

    pub fn resize(&mut self, columns: u16, rows: u16) {
        self.painter.resize(columns, rows);
    }

    /// Gives the terminal back for as long as `meanwhile` takes.
    pub fn lend(&mut self, meanwhile: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        give_back();
        let result = meanwhile();
        self.take()?;
        self.repaint();
        result
    }

    /// Takes the terminal anew: somebody else may have changed its mode and its content.
    pub fn retake(&mut self) -> io::Result<()> {
        give_back();
        self.take()?;
        self.repaint();
        Ok(())
    }

    fn repaint(&mut self) {
        let (columns, rows) = size();
        self.painter.resize(columns, rows);
    }

    fn take(&self) -> io::Result<()> {
        let (saved, screen) = platform::Saved::take_over(&self.log)?;
        *lock() = Some(Taken { saved, screen });
        let taken = crossterm::terminal::enable_raw_mode().and_then(|()| {
            let mut bytes = Vec::new();
            // Cleared here too: not every terminal has a second screen, and some keep what stood on it.
            queue!(bytes, EnterAlternateScreen, Clear(ClearType::All), EnableBracketedPaste)?;
            // Tells Shift-Enter from Enter where the terminal can; others ignore it, and old consoles refuse it.
            let flags = KeyboardEnhancementFlags::DISAMBIGUATE_ESCAPE_CODES;
            let _ = queue!(bytes, PushKeyboardEnhancementFlags(flags));
            // Also left, where a program before us forgot to.
            platform::take_mouse(&mut bytes, self.mouse)?;
            write_all(&bytes)
        });
        if taken.is_err() {
            give_back();
        }
        taken
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Leaves the terminal as it was found. May be called at any time, more than once, from any thread.
pub fn give_back() {
    // A thread that panicked while it held this left nothing half done that matters here.
    let taken = match TAKEN.try_lock() {
        Ok(mut taken) => taken.take(),
        Err(std::sync::TryLockError::Poisoned(poisoned)) => poisoned.into_inner().take(),
        Err(std::sync::TryLockError::WouldBlock) => None,
    };
    let Some(Taken { saved, mut screen }) = taken else { return };
    let mut bytes = Vec::new();
    let _ = queue!(bytes, EndSynchronizedUpdate);
    let _ = queue!(bytes, PopKeyboardEnhancementFlags);
    let _ = platform::take_mouse(&mut bytes, false);
    // Where there is no second screen, the shell still gets an empty one.
    let _ = queue!(bytes, Clear(ClearType::All), cursor::MoveTo(0, 0));
    let _ = queue!(bytes, DisableBracketedPaste, cursor::Show, LeaveAlternateScreen);
    let _ = screen.write_all(&bytes);
    let _ = crossterm::terminal::disable_raw_mode();
    saved.restore();
}

/// Gives the terminal back when the thread of the screen panics, before the message is printed. Panics of other threads
/// go to the log, as everything else on standard error does.
pub fn install_panic_hook() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    let screen_thread = std::thread::current().id();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if std::thread::current().id() == screen_thread {
                give_back();
            }
            before(info);
        }));
    });
}

/// Columns and rows; some terminals, and terminals that are just being set up, report nothing.
pub fn size() -> (u16, u16) {
    match crossterm::terminal::size() {
        Ok((columns, rows)) if columns > 0 && rows > 0 => (columns, rows),
        _ => (80, 24),
    }
}

fn write_all(bytes: &[u8]) -> io::Result<()> {
    // Not under the lock: a terminal that reads nothing must not keep the signal thread from giving it back.
    let screen = match lock().as_ref() {
        Some(taken) => taken.screen.try_clone(),
        None => return Err(io::ErrorKind::NotConnected.into()),
    };
    screen?.write_all(bytes)
}

fn lock() -> std::sync::MutexGuard<'static, Option<Taken>> {
    TAKEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
#[path = "terminal_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "pace_tests.rs"]
mod pace_tests;
