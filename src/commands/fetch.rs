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

use crate::builder::{BuildProgress, BuildStage};
use crate::hub::{PullProgress, PullStage};
use crate::provision::{Progress, Stage};
use crate::tui::Tell;

/// The exit status that shells give a program ended by Ctrl-C.
pub const INTERRUPTED: u8 = 130;

/// Who minds Ctrl-C and the system's wish to stop once nothing is being fetched any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterFetch {
    /// The program ends at once.
    Exit,
    /// Someone else listens too, as the screen does; nothing happens here.
    LeaveSignals,
}

/// The person or the system asked the program to stop.
#[derive(Debug, thiserror::Error)]
#[error("stopped")]
pub struct Interrupted;

/// Set when the person or the system asks the program to stop.
#[derive(Debug, Default)]
struct Interrupt {
    asked: AtomicBool,
    /// Nothing is being fetched any more.
    over: AtomicBool,
}

impl Interrupt {
    /// From now on the first Ctrl-C only sets the flag; a second one ends the program at once.
    fn listen(after: AfterFetch) -> std::io::Result<Arc<Self>> {
        let interrupt = Arc::new(Self::default());
        let shared = interrupt.clone();
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
                    let over = shared.over.load(Ordering::SeqCst);
                    let again = shared.asked.swap(true, Ordering::SeqCst);
                    if (over && after == AfterFetch::Exit) || (!over && again) {
                        end_now();
                    }
                }
            });
        })?;
        Ok(interrupt)
    }
}

/// Not by `exit`, which would tear ONNX Runtime down under the threads that run it: they would report errors, or crash.
#[cfg(unix)]
pub fn end_now() -> ! {
    signal_hook::low_level::exit(INTERRUPTED.into())
}

#[cfg(windows)]
pub fn end_now() -> ! {
    std::process::exit(INTERRUPTED.into())
}

#[cfg(unix)]
pub(super) struct StopSignals([tokio::signal::unix::Signal; 3]);

#[cfg(unix)]
impl StopSignals {
    pub(super) fn register() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self([signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?, signal(SignalKind::hangup())?]))
    }

    pub(super) async fn next(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! { _ = interrupt.recv() => (), _ = terminate.recv() => (), _ = hangup.recv() => () }
    }
}

#[cfg(windows)]
pub(super) struct StopSignals(tokio::signal::windows::CtrlC, tokio::signal::windows::CtrlBreak);

#[cfg(windows)]
impl StopSignals {
    pub(super) fn register() -> std::io::Result<Self> {
        Ok(Self(tokio::signal::windows::ctrl_c()?, tokio::signal::windows::ctrl_break()?))
    }

    pub(super) async fn next(&mut self) {
        tokio::select! { _ = self.0.recv() => (), _ = self.1.recv() => () }
    }
}

/// Shows a fetch's or a build's progress: a bar on a terminal, else one line for each stage. Until there is something to
/// show, signals are left alone.
pub struct FetchDisplay {
    after: AfterFetch,
    /// In place of standard error, where a screen is.
    tell: Option<Tell>,
    interrupt: Option<Arc<Interrupt>>,
    bar: Option<ProgressBar>,
    /// What the bar or the last line is about.
    shown: Option<String>,
    noted: bool,
}

/// One look at something that takes time.
struct Step<'a> {
    label: String,
    done: u64,
    /// 0 where it is not known.
    total: u64,
    unit: Unit,
    note: Option<&'a str>,
}

impl Step<'_> {
    /// `smollm2: building for the CPU 42 %`
    fn words(&self) -> String {
        match self.total {
            0 => self.label.clone(),
            total => format!("{} {} %", self.label, (self.done.min(total) as f64 / total as f64 * 100.0) as u64),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Bytes,
    Percent,
}

impl FetchDisplay {
    pub fn new(after: AfterFetch) -> Self {
        Self { after, tell: None, interrupt: None, bar: None, shown: None, noted: false }
    }

    /// What is shown goes to a screen, as words; signals are the screen's.
    pub fn telling(tell: &Tell) -> Self {
        let mut display = Self::new(AfterFetch::LeaveSignals);
        display.tell = Some(tell.clone());
        display
    }

    pub fn after(&self) -> AfterFetch {
        self.after
    }

    /// For `provision::Report`.
    pub fn report(&mut self, progress: &Progress) -> ControlFlow<()> {
        let label = match progress.stage {
            Stage::Looking => format!("looking for {}", progress.what),
            stage => format!("{}: {stage}", progress.what),
        };
        self.show(&Step {
            label,
            done: progress.done_bytes,
            total: progress.total_bytes,
            unit: Unit::Bytes,
            note: progress.note.as_deref(),
        });
        if self.interrupted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// For `hub::PullReport`.
    pub fn report_pull(&mut self, progress: &PullProgress) -> ControlFlow<()> {
        let (label, total) = match progress.stage {
            PullStage::Asking => ("asking the Hub", 0),
            PullStage::Waiting => ("waiting for another program", 0),
            PullStage::Verifying => ("reading what is here", progress.total_bytes),
            PullStage::Downloading => ("downloading", progress.total_bytes),
        };
        self.show(&Step {
            label: format!("{}: {label}", progress.what),
            done: progress.done_bytes,
            total,
            unit: Unit::Bytes,
            note: progress.note.as_deref(),
        });
        if self.interrupted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// For `builder::cached`; a build takes seconds and cannot be stopped on the way.
    pub fn report_build(&mut self, model: &str, progress: BuildProgress) {
        let (label, total) = match progress.stage {
            BuildStage::Waiting => (format!("{model}: waiting for another ortalk"), 0),
            // It may turn out to be no model.
            BuildStage::Reading => (format!("{model}: reading"), 100),
            _ => (format!("{model}: building for the CPU"), 100),
        };
        // The weights are nearly all of it.
        let fraction = match progress.stage {
            BuildStage::Waiting | BuildStage::Reading => 0.0,
            BuildStage::Weights => progress.fraction,
            BuildStage::Graph | BuildStage::Tokenizer => 1.0,
        };
        self.show(&Step { label, done: (fraction * 100.0) as u64, total, unit: Unit::Percent, note: None });
    }

    fn show(&mut self, step: &Step<'_>) {
        if let Some(tell) = &self.tell {
            let words = step.words();
            if self.shown.as_ref() != Some(&words) {
                tell(words.clone());
                self.shown = Some(words);
            }
            return;
        }
        if self.interrupt.is_none() {
            // Without it, Ctrl-C ends the program at once, which the cache survives as well.
            self.interrupt = Interrupt::listen(self.after).ok();
            let on_terminal = std::io::stderr().is_terminal();
            self.bar = on_terminal.then(|| ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()));
        }
        let is_new = self.shown.as_ref() != Some(&step.label);
        if is_new {
            self.shown = Some(step.label.clone());
            self.noted = false;
        }
        match &self.bar {
            Some(bar) => draw(bar, step, is_new),
            None => self.print(step, is_new),
        }
    }

    fn print(&mut self, step: &Step<'_>, is_new: bool) {
        let label = &step.label;
        if is_new {
            match (step.total, step.unit) {
                (0, _) | (_, Unit::Percent) => eprintln!("{label}"),
                (total, Unit::Bytes) => eprintln!("{label} ({})", megabytes(total)),
            }
        }
        // A note changes every second; in a log one of them is enough.
        if let Some(note) = step.note.filter(|_| !self.noted) {
            eprintln!("{label}: {note}");
            self.noted = true;
        }
    }

    /// A line for the person, above what is shown.
    pub fn say(&self, line: &str) {
        if let Some(tell) = &self.tell {
            return tell(line.to_owned());
        }
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{line}")),
            None => eprintln!("{line}"),
        }
    }

    /// Takes the bar off the screen, so that what follows starts on a clean line, and stops minding Ctrl-C.
    pub fn finish(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        if let Some(interrupt) = &self.interrupt {
            interrupt.over.store(true, Ordering::SeqCst);
        }
    }

    /// Fails where a stop was asked for that nothing has honoured yet, as a build cannot.
    pub fn go_on(&self) -> Result<(), Interrupted> {
        if self.interrupted() { Err(Interrupted) } else { Ok(()) }
    }

    fn interrupted(&self) -> bool {
        self.interrupt.as_ref().is_some_and(|interrupt| interrupt.asked.load(Ordering::SeqCst))
    }
}

impl Drop for FetchDisplay {
    fn drop(&mut self) {
        self.finish();
    }
}

fn draw(bar: &ProgressBar, step: &Step<'_>, is_new: bool) {
    if is_new {
        let template = match (step.total, step.unit) {
            (0, _) => "{spinner} {prefix} {wide_msg}",
            (_, Unit::Bytes) => {
                "{prefix} [{bar:24}] {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec} {wide_msg}"
            }
            (_, Unit::Percent) => "{prefix} [{bar:24}] {pos} % {wide_msg}",
        };
        // The templates are ours and valid; a bar in another style is better than none.
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.progress_chars("=> "));
        bar.reset();
        bar.enable_steady_tick(Duration::from_millis(200));
        bar.set_prefix(step.label.clone());
    }
    bar.set_length(step.total);
    bar.set_position(step.done);
    bar.set_message(step.note.unwrap_or_default().to_string());
}

/// A size as it is shown to people, in decimal units as pip and download pages have them.
pub fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// The exit status for a fetch that was stopped.
pub fn interrupted() -> ExitCode {
    ExitCode::from(INTERRUPTED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_that_a_build_could_not_honour_is_honoured_after_it() {
        let mut display = FetchDisplay::new(AfterFetch::Exit);
        assert!(display.go_on().is_ok());
        display.interrupt = Some(Arc::default());
        assert!(display.go_on().is_ok());
        display.interrupt = Some(Arc::new(Interrupt { asked: true.into(), over: false.into() }));
        assert_eq!(display.go_on().unwrap_err().to_string(), "stopped");
    }
}
