//! How far a pull is, and the way to stop it.

use std::ops::ControlFlow;

use super::error::Fault;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullStage {
    /// Asking the Hub what there is.
    Asking,
    /// Another program fetches the same file; this one goes on when that is done.
    Waiting,
    /// Reading what an earlier pull left, to go on from there.
    Verifying,
    Downloading,
}

/// How far a pull is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullProgress {
    /// What is being pulled, as a person calls it.
    pub what: String,
    pub stage: PullStage,
    pub done_bytes: u64,
    /// 0 where the stage has no size.
    pub total_bytes: u64,
    /// Something a person should know about now, such as "no data for 12 s".
    pub note: Option<String>,
}

/// Called several times a second; answering `Break` stops the pull.
pub type PullReport<'a> = &'a mut dyn FnMut(&PullProgress) -> ControlFlow<()>;

/// Passes progress on, and turns a wish to stop into the fault that ends the pull.
pub struct Meter<'a> {
    progress: PullProgress,
    report: PullReport<'a>,
}

impl<'a> Meter<'a> {
    pub fn new(what: String, report: PullReport<'a>) -> Self {
        let progress = PullProgress { what, stage: PullStage::Asking, done_bytes: 0, total_bytes: 0, note: None };
        Self { progress, report }
    }

    pub fn set_total(&mut self, bytes: u64) {
        self.progress.total_bytes = bytes;
    }

    pub fn at(&mut self, stage: PullStage, done_bytes: u64) -> Result<(), Fault> {
        (self.progress.stage, self.progress.done_bytes) = (stage, done_bytes);
        self.tick(None)
    }

    pub fn tick(&mut self, note: Option<String>) -> Result<(), Fault> {
        self.progress.note = note;
        match (self.report)(&self.progress) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Fault::Cancelled),
        }
    }
}
