//! A lane's own thread: opens the lane, takes jobs in the order in which they come, as many at a time as there is room for,
//! and lets them take turns. ONNX Runtime's calls block, so nothing else runs there.
//!
//! A lane that breaks, by an error or a panic, is out of service: its jobs go on in another lane, and only a request
//! that names the lane opens it again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use std::time::Instant;

use super::event::FinishReason;
use super::generate::{Ended, LaneDecoder, Outcome, panic_message};
use super::job::Job;
use super::lane::{LaneId, LaneOpener};
use super::lanes::{Hindrance, Lanes};
use crate::model::ModelFolder;

/// Why a lane is out of service, and since when.
struct Fault {
    reason: String,
    at: Instant,
}

/// A job that the lane has not begun with, or has to begin with again.
struct Waiting {
    job: Job,
    displaced: bool,
}

impl Waiting {
    fn new(job: Job) -> Self {
        Self { job, displaced: false }
    }
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
        let mut waiting = Vec::new();
        loop {
            if waiting.is_empty() && lane.as_ref().map_or(true, LaneDecoder::is_idle) {
                // The channel ends when the engine does.
                let Ok(job) = self.jobs.recv() else { return };
                waiting.push(Waiting::new(job));
            }
            waiting.extend(self.jobs.try_iter().map(Waiting::new));
            lane = self.admit(lane, &mut waiting);
            lane = self.turn(lane, &mut waiting);
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

    /// Begins with those that wait, in their order, until one has to wait for the end of another.
    fn admit(
        &mut self,
        mut lane: Result<LaneDecoder, Fault>,
        waiting: &mut Vec<Waiting>,
    ) -> Result<LaneDecoder, Fault> {
        let stopping = self.stopping.load(Ordering::Relaxed);
        let given_up = |waiting: &mut Waiting| stopping || waiting.job.is_cancelled();
        for Waiting { job, .. } in waiting.extract_if(.., given_up) {
            self.lanes.count(self.id, -1, 0);
            job.finish(FinishReason::Cancelled, &self.folder.tokenizer);
        }
        while !waiting.is_empty() {
            let Waiting { job, displaced } = waiting.remove(0);
            lane = match lane {
                // It was asked for by name since it failed.
                Err(fault) if job.pinned && job.submitted > fault.at => self.open(),
                lane => lane,
            };
            match &mut lane {
                Ok(decoder) => {
                    if let Err(job) = decoder.admit(job, displaced) {
                        waiting.insert(0, Waiting { job: *job, displaced });
                        break;
                    }
                    self.lanes.count(self.id, -1, 1);
                }
                Err(fault) => {
                    self.lanes.count(self.id, -1, 0);
                    let why = Hindrance::Broken(fault.reason.clone());
                    self.lanes.hand_over(job, self.id, &why, &self.folder.tokenizer);
                }
            }
        }
        lane
    }

    fn turn(&mut self, lane: Result<LaneDecoder, Fault>, waiting: &mut Vec<Waiting>) -> Result<LaneDecoder, Fault> {
        let mut decoder = lane?;
        let stopping = || self.stopping.load(Ordering::Relaxed);
        let ended = decoder.turn(&self.folder, &stopping);
        let broken = ended.iter().find_map(|ended| match &ended.outcome {
            Outcome::Broken(reason) => Some(reason.clone()),
            _ => None,
        });
        for ended in &ended {
            self.lanes.record(&decoder, ended);
            self.lanes.count(self.id, 0, -1);
        }
        let lane = match broken {
            Some(reason) => {
                let fault = self.fail(reason);
                // Before the jobs go on: two lanes' worth of memory may be too much.
                drop(decoder);
                Err(fault)
            }
            None => Ok(decoder),
        };
        for Ended { job, outcome, .. } in ended {
            let why = match outcome {
                Outcome::Finished(reason) => {
                    job.finish(reason, &self.folder.tokenizer);
                    continue;
                }
                Outcome::Displaced => {
                    self.lanes.count(self.id, 1, 0);
                    waiting.insert(0, Waiting { job, displaced: true });
                    continue;
                }
                Outcome::ContextFull => Hindrance::ContextFull,
                Outcome::Refused(reason) => Hindrance::Refused(reason),
                Outcome::Broken(reason) => Hindrance::Broken(reason),
            };
            self.lanes.hand_over(job, self.id, &why, &self.folder.tokenizer);
        }
        lane
    }
}
