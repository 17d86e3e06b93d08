//! A lane's own thread: takes jobs in order and answers one at a time. ONNX Runtime's calls block, so nothing else runs
//! there.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use super::event::{GenerationEvent, Timings};
use super::generate::{Job, LaneDecoder, generate};
use super::lane::{LaneId, LaneStatus};
use crate::model::ModelFolder;

/// Shorter prefills are mostly overhead; their rate would mislead the router's prediction.
const SHORTEST_MEASURED_PREFILL: usize = 16;

/// The lanes' states, shared between their threads and the engine.
pub type SharedLanes = Arc<Mutex<Vec<LaneStatus>>>;

pub struct Worker {
    pub lane: LaneId,
    pub jobs: Sender<Job>,
    pub thread: JoinHandle<()>,
}

impl Worker {
    pub fn start(
        mut lane: LaneDecoder,
        folder: Arc<ModelFolder>,
        lanes: SharedLanes,
        stopping: Arc<AtomicBool>,
    ) -> std::io::Result<Self> {
        let (jobs, received): (Sender<Job>, Receiver<Job>) = channel();
        let id = lane.id;
        let thread = std::thread::Builder::new().name(format!("lane-{id}")).spawn(move || {
            for job in received {
                let finished = generate(&mut lane, &folder, &job, &|| stopping.load(Ordering::Relaxed));
                record(&lanes, id, &finished.timings);
                let _ = job.events.send(GenerationEvent::Finished(finished));
            }
        })?;
        Ok(Self { lane: id, jobs, thread })
    }
}

/// Keeps the rates that this answer measured, for the router's predictions.
fn record(lanes: &SharedLanes, id: LaneId, timings: &Timings) {
    let mut lanes = super::lock(lanes);
    let Some(lane) = lanes.iter_mut().find(|lane| lane.id == id) else { return };
    if timings.prefill_tokens >= SHORTEST_MEASURED_PREFILL {
        lane.measured.prefill = timings.prefill_tokens_per_second().or(lane.measured.prefill);
    }
    lane.measured.decode = timings.decode_tokens_per_second().or(lane.measured.decode);
}
