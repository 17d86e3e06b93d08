//! Unix: duplicated descriptors, termios, POSIX signals.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags};
use rustix::process::Signal as Posix;
use rustix::stdio::{stderr, stdin, stdout};
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcsetattr};
use tokio::signal::unix::{SignalKind, signal};

use super::super::event::{Signal, SuspendedBy};
use super::GRACE;

pub const NULL_DEVICE: &str = "/dev/null";
pub const PASTES_ARE_KEYS: bool = false;

/// What the process's descriptors and the terminal's mode were.
#[derive(Debug)]
pub struct Saved {
    stdout: OwnedFd,
    stderr: OwnedFd,
    mode: Option<Termios>,
}

impl Saved {
    /// Sends standard output, and standard error where it is a terminal, to the log, so that native libraries cannot
    /// write over the screen. Returns the way to the screen.
    pub fn take_over(log: &File) -> io::Result<(Self, File)> {
        let saved = Self {
            stdout: rustix::io::fcntl_dupfd_cloexec(stdout(), 3)?,
            stderr: rustix::io::fcntl_dupfd_cloexec(stderr(), 3)?,
            mode: tcgetattr(stdin()).ok(),
        };
        let screen = File::from(saved.stdout.try_clone()?);
        rustix::stdio::dup2_stdout(log)?;
        if isatty(&saved.stderr) {
            rustix::stdio::dup2_stderr(log)?;
        }
        Ok((saved, screen))
    }

    /// Best effort: the terminal may be gone.
    pub fn restore(&self) {
        if let Some(mode) = &self.mode {
            // `Now`, not `Drain`: a terminal that reads nothing must not hold us.
            let _ = tcsetattr(stdin(), OptionalActions::Now, mode);
        }
        let _ = rustix::stdio::dup2_stdout(&self.stdout);
        let _ = rustix::stdio::dup2_stderr(&self.stderr);
    }
}

pub fn read_keys_from_terminal() -> io::Result<()> {
    let terminal = File::options().read(true).write(true).open("/dev/tty")?;
    Ok(rustix::stdio::dup2_stdin(&terminal)?)
}

/// The other end of the terminal was closed.
pub fn terminal_gone() -> bool {
    let fd = stdin();
    let mut fds = [PollFd::new(&fd, PollFlags::empty())];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    match rustix::event::poll(&mut fds, Some(&now)) {
        Ok(_) => fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL),
        Err(error) => error != rustix::io::Errno::INTR,
    }
}

/// Buttons and the wheel, in decimal coordinates; not each movement, which over a slow connection would be a stream.
pub fn take_mouse(bytes: &mut Vec<u8>, on: bool) -> io::Result<()> {
    bytes.extend_from_slice(if on { b"\x1b[?1000h\x1b[?1006h" } else { b"\x1b[?1006l\x1b[?1000l" });
    Ok(())
}

/// Whether there is a shell to come back from: the first process of a session was started by none.
pub fn can_stop() -> bool {
    rustix::process::getsid(None).is_ok_and(|session| session != rustix::process::getpid())
}

/// Not by `exit`, which would tear ONNX Runtime down under the threads that run it.
pub fn end_now(status: i32) -> ! {
    signal_hook::low_level::exit(status)
}

/// Another program has the terminal.
static LENT: AtomicBool = AtomicBool::new(false);

/// Keys that make signals reach the whole job: an interrupt is the other program's then, and stopping it stops this one
/// too, or the shell would wait for ever.
pub fn lend<T>(meanwhile: impl FnOnce() -> T) -> T {
    LENT.store(true, Ordering::SeqCst);
    let result = meanwhile();
    LENT.store(false, Ordering::SeqCst);
    result
}

/// Counts SIGCONT.
static CONTINUED: (Mutex<u64>, Condvar) = (Mutex::new(0), Condvar::new());

/// Returns when the process is continued.
pub fn stop(by: SuspendedBy) -> io::Result<()> {
    let mut count = CONTINUED.0.lock().unwrap_or_else(PoisonError::into_inner);
    let before = *count;
    // SIGSTOP, since SIGTSTP is caught. The key means the whole job, as it does without raw mode; a signal from outside
    // was meant for those who got it.
    match by {
        SuspendedBy::Key => rustix::process::kill_current_process_group(Posix::STOP)?,
        SuspendedBy::Signal => rustix::process::kill_process(rustix::process::getpid(), Posix::STOP)?,
    }
    // The kernel may stop another thread first: this one must not run on and take the terminal again.
    while *count == before {
        count = CONTINUED.1.wait(count).unwrap_or_else(PoisonError::into_inner);
    }
    Ok(())
}

/// Reports signals from a thread of its own. After one that ends the program, the thread waits a moment and then ends
/// the process itself, after `last_wish`: a screen that blocks must not outlive its terminal.
pub fn watch_signals(send: impl Fn(Signal) + Send + 'static, last_wish: fn()) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let watch = async move {
        let (Ok(mut terminate), Ok(mut interrupt), Ok(mut hangup), Ok(mut stop), Ok(mut go_on)) = (
            signal(SignalKind::terminate()),
            signal(SignalKind::interrupt()),
            signal(SignalKind::hangup()),
            signal(SignalKind::from_raw(Posix::TSTP.as_raw())),
            signal(SignalKind::from_raw(Posix::CONT.as_raw())),
        ) else {
            return;
        };
        loop {
            let number = tokio::select! {
                _ = terminate.recv() => Posix::TERM.as_raw(),
                _ = interrupt.recv() => {
                    if LENT.load(Ordering::SeqCst) {
                        continue;
                    }
                    Posix::INT.as_raw()
                }
                _ = hangup.recv() => Posix::HUP.as_raw(),
                _ = stop.recv() => {
                    if LENT.load(Ordering::SeqCst) {
                        let _ = rustix::process::kill_process(rustix::process::getpid(), Posix::STOP);
                        continue;
                    }
                    send(Signal::Stop);
                    continue;
                }
                _ = go_on.recv() => {
                    *CONTINUED.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
                    CONTINUED.1.notify_all();
                    send(Signal::Continue);
                    continue;
                }
            };
            send(Signal::Terminate(number));
            tokio::time::sleep(GRACE).await;
            super::end(number, last_wish)
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(move || runtime.block_on(watch))?;
    Ok(())
}
