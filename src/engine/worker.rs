//! A lane's own thread: opens the lane, then takes jobs in order and answers one at a time. ONNX Runtime's calls block, so
//! nothing else runs there.
//!
//! A lane that breaks, by an error or a panic, is out of service: its job goes on in another lane, and only a request
//! that names the lane opens it again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use std::time::Instant;

use super::event::FinishReason;
use super::generate::{LaneDecoder, Outcome, generate, panic_message};
use super::job::Job;
use super::lane::{LaneId, LaneOpener};
use super::lanes::{Hindrance, Lanes};
use crate::model::ModelFolder;

/// Why a lane is out of service, and since when.
struct Fault {
    reason: String,
    at: Instant,
}

pub struct Worker {
    pub id: LaneId,
    pub opener: LaneOpener,
    pub jobs: Receiver<Job>,
    pub folder: Arc<ModelFolder>,
    pub lanes: Arc<Lanes>,
    /// The engine ends.
    pub stopping: Arc<AtomicBool>,
}

impl Worker {
    pub fn start(mut self) -> std::io::Result<JoinHandle<()>> {
        std::thread::Builder::new().name(format!("lane-{}", self.id)).spawn(move || self.run())
    }

    fn run(&mut self) {
        let mut lane = self.open();
        // The channel ends when the engine does.
        while let Ok(job) = self.jobs.recv() {
            lane = self.answer(lane, job);
        }
    }

    /// Opens the lane and publishes how that went.
    fn open(&mut self) -> Result<LaneDecoder, Fault> {
        self.lanes.set_loading(self.id);
        let opened =
            catch_unwind(AssertUnwindSafe(|| (self.opener)())).unwrap_or_else(|panic| Err(panic_message(&*panic)));
        match opened {
            Ok(open) => {
                self.lanes.set_ready(self.id, &open);
                Ok(LaneDecoder::new(self.id, open.decoder))
            }
            Err(reason) => Err(self.fail(reason)),
        }
    }

    fn fail(&self, reason: String) -> Fault {
        self.lanes.set_failed(self.id, &reason);
        Fault { reason, at: Instant::now() }
    }

    fn answer(&mut self, lane: Result<LaneDecoder, Fault>, mut job: Job) -> Result<LaneDecoder, Fault> {
        let folder = self.folder.clone();
        if self.stopping.load(Ordering::Relaxed) || job.is_cancelled() {
            job.finish(FinishReason::Cancelled, &folder.tokenizer);
            return lane;
        }
        let lane = match lane {
            // It was asked for by name since it failed.
            Err(fault) if job.pinned && job.submitted > fault.at => self.open(),
            lane => lane,
        };
        let mut decoder = match lane {
            Ok(decoder) => decoder,
            Err(fault) => {
                let why = Hindrance::Broken(fault.reason.clone());
                self.lanes.hand_over(job, self.id, &why, &folder.tokenizer);
                return Err(fault);
            }
        };
        let stopping = || self.stopping.load(Ordering::Relaxed);
        // A decoder's panic is caught where it is called; any other one is a fault of ours that this request met.
        let answered = catch_unwind(AssertUnwindSafe(|| generate(&mut decoder, &folder, &mut job, &stopping)));
        let (outcome, measured) = match answered {
            Ok(answered) => answered,
            Err(panic) => {
                let message = format!("this request broke ortalk, which is a bug: {}", panic_message(&*panic));
                job.finish(FinishReason::Error(message), &folder.tokenizer);
                return Ok(decoder);
            }
        };
        self.lanes.record(&decoder, &measured);
        match outcome {
            Outcome::Finished(reason) => job.finish(reason, &folder.tokenizer),
            Outcome::ContextFull => {
                self.lanes.hand_over(job, self.id, &Hindrance::ContextFull, &folder.tokenizer);
            }
            Outcome::Refused(reason) => {
                self.lanes.hand_over(job, self.id, &Hindrance::Refused(reason), &folder.tokenizer);
            }
            Outcome::Broken(reason) => {
                let fault = self.fail(reason);
                // Before the job goes on: two lanes' worth of memory may be too much.
                drop(decoder);
                let why = Hindrance::Broken(fault.reason.clone());
                self.lanes.hand_over(job, self.id, &why, &folder.tokenizer);
                return Err(fault);
            }
        }
        Ok(decoder)
    }
}
