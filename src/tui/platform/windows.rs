//! Windows: the console's own output, control events. There is no job control, and the standard handles stay as they
//! are: exchanging them needs code that the compiler cannot check.

use std::fs::File;
use std::io;

use crossterm::event::{DisableMouseCapture, EnableMouseCapture};
use crossterm::queue;
use tokio::signal::windows;

use super::super::event::{Signal, SuspendedBy};
use super::GRACE;

pub const NULL_DEVICE: &str = "NUL";
pub const PASTES_ARE_KEYS: bool = true;

#[derive(Debug)]
pub struct Saved;

impl Saved {
    pub fn take_over(_log: &File) -> io::Result<(Self, File)> {
        let screen = File::options().read(true).write(true).open("CONOUT$")?;
        Ok((Self, screen))
    }

    pub fn restore(&self) {
        let _ = crossterm::terminal::disable_raw_mode();
    }
}

pub fn read_keys_from_terminal() -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "on Windows keys come from standard input alone"))
}

/// A console that is closed ends its programs itself.
pub fn terminal_gone() -> bool {
    false
}

/// The console's mode, or its sequences where it has those.
pub fn take_mouse(bytes: &mut Vec<u8>, on: bool) -> io::Result<()> {
    if on { queue!(bytes, EnableMouseCapture) } else { queue!(bytes, DisableMouseCapture) }
}

pub fn can_stop() -> bool {
    false
}

pub fn stop(_by: SuspendedBy) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub fn lend<T>(meanwhile: impl FnOnce() -> T) -> T {
    meanwhile()
}

pub fn end_now(status: i32) -> ! {
    std::process::exit(status)
}

/// Reports the console's control events, under the numbers of the Unix signals that mean the same.
pub fn watch_signals(send: impl Fn(Signal) + Send + 'static, last_wish: fn()) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let watch = async move {
        let (Ok(mut interrupt), Ok(mut close), Ok(mut shutdown), Ok(mut logoff)) =
            (windows::ctrl_c(), windows::ctrl_close(), windows::ctrl_shutdown(), windows::ctrl_logoff())
        else {
            return;
        };
        let number = tokio::select! {
            _ = interrupt.recv() => 2,
            _ = close.recv() => 1,
            _ = shutdown.recv() => 15,
            _ = logoff.recv() => 1,
        };
        send(Signal::Terminate(number));
        tokio::time::sleep(GRACE).await;
        super::end(number, last_wish)
    };
    std::thread::Builder::new().name("signals".into()).spawn(move || runtime.block_on(watch))?;
    Ok(())
}
