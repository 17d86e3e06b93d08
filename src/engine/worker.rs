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

/// A lane's state as its thread publishes it.
pub struct Lane {
    pub status: LaneStatus,
    /// The tokens whose keys and values the last answer left in its cache.
    pub cached: Vec<u32>,
}

/// The lanes, shared between their threads and the engine, in the order in which the router prefers them.
pub type SharedLanes = Arc<Mutex<Vec<Lane>>>;

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
                record(&lanes, &lane, &finished.timings);
                let _ = job.events.send(GenerationEvent::Finished(finished));
            }
        })?;
        Ok(Self { lane: id, jobs, thread })
    }
}

/// Publishes the rates that this answer measured and what it left in the cache, for the router's predictions.
fn record(lanes: &SharedLanes, decoder: &LaneDecoder, timings: &Timings) {
    let mut lanes = super::lock(lanes);
    let Some(lane) = lanes.iter_mut().find(|lane| lane.status.id == decoder.id) else { return };
    lane.cached = decoder.cached().to_vec();
    let measured = &mut lane.status.measured;
    if timings.prefill_tokens >= SHORTEST_MEASURED_PREFILL {
        measured.prefill = timings.prefill_tokens_per_second().or(measured.prefill);
    }
    measured.decode = timings.decode_tokens_per_second().or(measured.decode);
}
