//! What differs between operating systems: file descriptors, signals, stopping. Both leaf files offer the same:
//!
//! - `Saved::take_over(log)`: the way to the screen, with the program's own output sent to the log; `Saved::restore`
//! - `terminal_gone()`: nobody is at the other end any more
//! - `read_keys_from_terminal()`: standard input, which was something else, is the terminal from now on
//! - `take_mouse(bytes, on)`: what makes the terminal report the mouse, or stop it
//! - `can_stop()` and `stop(by)`: give the shell its turn
//! - `end_now(status)`: the process's end, without the libraries' own
//! - `watch_signals(send)`: a thread that reports signals and ends the process if it does not end by itself
//! - `lend(meanwhile)`: another program has the terminal, and its signals are not this program's
//! - `NULL_DEVICE`, and `PASTES_ARE_KEYS`: a paste does not come as one

#[cfg(unix)]
mod unix;
#[cfg(unix)]
pub use unix::*;

#[cfg(windows)]
mod windows;
#[cfg(windows)]
pub use windows::*;

/// How long the program may take to end by itself after it was told to.
pub const GRACE: std::time::Duration = std::time::Duration::from_secs(2);

/// Ends the process. `last_wish` gets a moment, no more: it writes to a terminal that perhaps nobody reads.
fn end(number: i32, last_wish: fn()) {
    let _ = std::thread::Builder::new().spawn(last_wish);
    std::thread::sleep(GRACE / 10);
    end_now(128 + number);
}
