//! Reads the terminal on a thread of its own.
//!
//! Not on the event loop: when a terminal disappears, the read below may spin or fail in ways that differ between
//! systems, and the loop must be able to end the program meanwhile.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crossterm::event::{self, KeyEventKind, MouseButton, MouseEventKind};

use super::event::{Event, Mouse};
use super::paste_burst::{Burst, GAP};
use super::platform;

/// How often a quiet terminal is asked whether it is still there.
const POLL: Duration = Duration::from_millis(250);
/// How long the thread may take until it leaves the terminal alone.
const PATIENCE: Duration = Duration::from_secs(2);

/// Keeps the thread from reading while another program has the terminal.
#[derive(Debug, Clone, Default)]
pub struct Pause(Arc<(Mutex<Paused>, Condvar)>);

#[derive(Debug, Default)]
struct Paused {
    wanted: bool,
    /// The thread waits, and reads nothing.
    reached: bool,
}

impl Pause {
    fn lock(&self) -> MutexGuard<'_, Paused> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `meanwhile` while nobody reads the terminal. Refused where the thread does not stop reading.
    pub fn during<T>(&self, meanwhile: impl FnOnce() -> T) -> io::Result<T> {
        let mut paused = self.lock();
        paused.wanted = true;
        let until = Instant::now() + PATIENCE;
        while !paused.reached && Instant::now() < until {
            paused = self.0.1.wait_timeout(paused, PATIENCE).unwrap_or_else(PoisonError::into_inner).0;
        }
        let reached = paused.reached;
        drop(paused);
        let result = reached.then(meanwhile);
        self.lock().wanted = false;
        self.0.1.notify_all();
        result.ok_or_else(|| io::Error::new(io::ErrorKind::TimedOut, "the terminal is still being read"))
    }

    /// Waits here as long as somebody wants it.
    fn keep(&self) {
        let mut paused = self.lock();
        while paused.wanted {
            paused.reached = true;
            self.0.1.notify_all();
            paused = self.0.1.wait(paused).unwrap_or_else(PoisonError::into_inner);
        }
        paused.reached = false;
    }
}

/// Ends when `send` says that nobody takes events any more, or when nobody is `listening`.
pub fn spawn(
    pause: Pause,
    send: impl Fn(Event) -> bool + Send + 'static,
    listening: impl Fn() -> bool + Send + 'static,
) -> io::Result<()> {
    std::thread::Builder::new().name("input".into()).spawn(move || {
        let mut burst = Burst::default();
        while listening() {
            pause.keep();
            let event = match event::poll(if burst.is_empty() { POLL } else { GAP }) {
                Ok(true) => event::read(),
                Ok(false) if !burst.is_empty() => {
                    if burst.end().into_iter().all(&send) {
                        continue;
                    }
                    return;
                }
                Ok(false) if platform::terminal_gone() => Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(false) => continue,
                Err(error) => Err(error),
            };
            let taken = match event {
                Ok(event) => translate(event, &mut burst).into_iter().all(&send),
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

/// What an event means, after what the run of keys before it was, if it ends that.
fn translate(event: event::Event, burst: &mut Burst) -> Vec<Event> {
    let event = match event {
        event::Event::Key(key) if key.kind == KeyEventKind::Release => return Vec::new(),
        event::Event::Key(key) if platform::PASTES_ARE_KEYS => match burst.push(key) {
            Some(key) => Event::Key(key),
            None => return Vec::new(),
        },
        event::Event::Key(key) => Event::Key(key),
        event::Event::Paste(text) => Event::Paste(text),
        event::Event::Resize(columns, rows) => Event::Resize { columns, rows },
        event::Event::Mouse(mouse) => Event::Mouse(match mouse.kind {
            MouseEventKind::ScrollUp => Mouse::WheelUp,
            MouseEventKind::ScrollDown => Mouse::WheelDown,
            MouseEventKind::Down(MouseButton::Left) => Mouse::Click { column: mouse.column, row: mouse.row },
            _ => return Vec::new(),
        }),
        event::Event::FocusGained | event::Event::FocusLost => return Vec::new(),
    };
    let mut events = burst.end();
    events.push(event);
    events
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn nothing_is_read_while_the_terminal_is_lent() {
        let pause = Pause::default();
        let reads = Arc::new(AtomicUsize::new(0));
        let reader = std::thread::spawn({
            let (pause, reads) = (pause.clone(), reads.clone());
            move || {
                while reads.load(Ordering::SeqCst) < 1000 {
                    pause.keep();
                    reads.fetch_add(1, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });
        let quiet = pause.during(|| {
            let before = reads.load(Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(30));
            reads.load(Ordering::SeqCst) == before
        });
        assert!(quiet.unwrap());
        let before = reads.load(Ordering::SeqCst);
        while reads.load(Ordering::SeqCst) == before {
            std::thread::sleep(Duration::from_millis(1));
        }
        reads.store(1000, Ordering::SeqCst);
        reader.join().unwrap();
    }
}
