//! Reads the terminal on a thread of its own.
//!
//! Not on the event loop: when a terminal disappears, the read below may spin or fail in ways that differ between
//! systems, and the loop must be able to end the program meanwhile.

use std::io;
use std::time::Duration;

use crossterm::event::{self, KeyEventKind, MouseButton, MouseEventKind};

use super::event::{Event, Mouse};
use super::platform;

/// How often a quiet terminal is asked whether it is still there.
const POLL: Duration = Duration::from_millis(250);

/// Ends when `send` says that nobody takes events any more, or when nobody is `listening`.
pub fn spawn(
    send: impl Fn(Event) -> bool + Send + 'static,
    listening: impl Fn() -> bool + Send + 'static,
) -> io::Result<()> {
    std::thread::Builder::new().name("input".into()).spawn(move || {
        while listening() {
            let event = match event::poll(POLL) {
                Ok(true) => event::read(),
                Ok(false) if platform::terminal_gone() => Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(false) => continue,
                Err(error) => Err(error),
            };
            let taken = match event {
                Ok(event) => translate(event).is_none_or(&send),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => true,
                Err(_) => {
                    send(Event::InputLost);
                    false
                }
            };
            if !taken {
                return;
            }
        }
    })?;
    Ok(())
}

fn translate(event: event::Event) -> Option<Event> {
    match event {
        event::Event::Key(key) if key.kind != KeyEventKind::Release => Some(Event::Key(key)),
        event::Event::Paste(text) => Some(Event::Paste(text)),
        event::Event::Resize(columns, rows) => Some(Event::Resize { columns, rows }),
        event::Event::Mouse(mouse) => Some(Event::Mouse(match mouse.kind {
            MouseEventKind::ScrollUp => Mouse::WheelUp,
            MouseEventKind::ScrollDown => Mouse::WheelDown,
            MouseEventKind::Down(MouseButton::Left) => Mouse::Click { column: mouse.column, row: mouse.row },
            _ => return None,
        })),
        event::Event::Key(_) | event::Event::FocusGained | event::Event::FocusLost => None,
    }
}
