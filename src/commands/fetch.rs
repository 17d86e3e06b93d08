//! Fetching as a command shows it: progress on standard error, and Ctrl-C that ends the fetch in order.
//!
//! What is fetched, and how, is `provision`'s.

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::provision::{Progress, Stage};

/// The exit status that shells give a program ended by Ctrl-C.
pub const INTERRUPTED: u8 = 130;

/// Set when the person or the system asks the program to stop.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on the first Ctrl-C only sets the flag; a second one ends the program at once.
    pub fn listen() -> std::io::Result<Self> {
        let interrupt = Self::default();
        let flag = interrupt.0.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        // Registered before this returns, so that no signal falls into a gap.
        let mut stop = {
            let _entered = runtime.enter();
            StopSignals::register()?
        };
        std::thread::Builder::new().name("interrupt".into()).spawn(move || {
            runtime.block_on(async {
                loop {
                    stop.next().await;
                    if flag.swap(true, Ordering::SeqCst) {
                        std::process::exit(INTERRUPTED.into());
                    }
                }
            });
        })?;
        Ok(interrupt)
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

#[cfg(unix)]
struct StopSignals([tokio::signal::unix::Signal; 3]);

#[cfg(unix)]
impl StopSignals {
    fn register() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self([signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?, signal(SignalKind::hangup())?]))
    }

    async fn next(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! { _ = interrupt.recv() => (), _ = terminate.recv() => (), _ = hangup.recv() => () }
    }
}

#[cfg(windows)]
struct StopSignals(tokio::signal::windows::CtrlC, tokio::signal::windows::CtrlBreak);

#[cfg(windows)]
impl StopSignals {
    fn register() -> std::io::Result<Self> {
        Ok(Self(tokio::signal::windows::ctrl_c()?, tokio::signal::windows::ctrl_break()?))
    }

    async fn next(&mut self) {
        tokio::select! { _ = self.0.recv() => (), _ = self.1.recv() => () }
    }
}

/// Shows a fetch's progress: a bar on a terminal, else one line for each stage.
#[derive(Debug)]
pub struct FetchDisplay {
    interrupt: Interrupt,
    bar: Option<ProgressBar>,
    /// What the bar or the last line is about.
    shown: Option<(String, Stage)>,
    noted: bool,
}

impl FetchDisplay {
    pub fn new(interrupt: Interrupt) -> Self {
        let on_terminal = std::io::stderr().is_terminal();
        let bar = on_terminal.then(|| ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()));
        Self { interrupt, bar, shown: None, noted: false }
    }

    /// For `provision::Report`.
    pub fn report(&mut self, progress: &Progress) -> ControlFlow<()> {
        if self.interrupt.is_set() {
            return ControlFlow::Break(());
        }
        let now = (progress.what.clone(), progress.stage);
        let is_new = self.shown.as_ref() != Some(&now);
        if is_new {
            self.shown = Some(now);
            self.noted = false;
        }
        match &self.bar {
            Some(bar) => draw(bar, progress, is_new),
            None => self.print(progress, is_new),
        }
        ControlFlow::Continue(())
    }

    fn print(&mut self, progress: &Progress, is_new: bool) {
        let label = label(progress);
        if is_new {
            match progress.total_bytes {
                0 => eprintln!("{label}"),
                total => eprintln!("{label} ({})", megabytes(total)),
            }
        }
        // A note changes every second; in a log one of them is enough.
        if let Some(note) = progress.note.as_ref().filter(|_| !self.noted) {
            eprintln!("{label}: {note}");
            self.noted = true;
        }
    }

    /// Takes the bar off the screen, so that what follows starts on a clean line.
    pub fn clear(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Drop for FetchDisplay {
    fn drop(&mut self) {
        self.clear();
    }
}

fn draw(bar: &ProgressBar, progress: &Progress, is_new: bool) {
    // One part of a line can take what is left of the terminal's width: the note where there is one, else the bar.
    let template = match (&progress.note, progress.total_bytes) {
        (_, 0) => "{spinner} {prefix} {wide_msg}",
        (Some(_), _) => "{prefix} {decimal_bytes}/{decimal_total_bytes} {wide_msg}",
        (None, _) => "{prefix} [{wide_bar}] {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec}",
    };
    // The templates are ours and valid; a bar in another style is better than none.
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    // First, as each of the following calls may draw.
    bar.set_length(progress.total_bytes);
    bar.set_style(style.progress_chars("=> "));
    if is_new {
        bar.reset();
        bar.enable_steady_tick(Duration::from_millis(200));
        bar.set_prefix(label(progress));
    }
    bar.set_position(progress.done_bytes);
    bar.set_message(progress.note.clone().unwrap_or_default());
}

fn label(progress: &Progress) -> String {
    match progress.stage {
        Stage::Looking => format!("looking for {}", progress.what),
        stage => format!("{}: {stage}", progress.what),
    }
}

/// A size as it is shown to people, in decimal units as pip and download pages have them.
pub fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// The exit status for a fetch that was stopped.
pub fn interrupted() -> ExitCode {
    ExitCode::from(INTERRUPTED)
}
