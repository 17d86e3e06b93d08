//! A lane's own thread: takes jobs in order and answers one at a time. ONNX Runtime's calls block, so nothing else runs
//! there.
//!
//! Code that panics here takes its lane out of service, and nothing else: the job that it broke and those that wait end
//! with an error, and the router has the reason.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use super::event::{Finished, GenerationEvent, Timings};
use super::generate::{Job, LaneDecoder, generate};
use super::lane::{LaneId, LaneState, LaneStatus};
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
            let mut broken: Option<String> = None;
            for job in received {
                let stopping = || stopping.load(Ordering::Relaxed);
                let answer = match &broken {
                    None => catch_unwind(AssertUnwindSafe(|| generate(&mut lane, &folder, &job, &stopping)))
                        .map_err(|panic| super::panic_message(&*panic)),
                    Some(reason) => Err(reason.clone()),
                };
                let finished = match answer {
                    Ok(finished) => {
                        record(&lanes, &lane, &finished.timings);
                        finished
                    }
                    Err(reason) => {
                        fail(&lanes, id, &reason);
                        let finished = Finished::error(format!("the {id} lane broke: {reason}"));
                        broken = Some(reason);
                        finished
                    }
                };
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

/// Takes a lane out of service.
fn fail(lanes: &SharedLanes, id: LaneId, reason: &str) {
    if let Some(lane) = super::lock(lanes).iter_mut().find(|lane| lane.status.id == id) {
        lane.status.state = LaneState::Failed { reason: reason.to_owned() };
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    use super::super::event::FinishReason;
    use super::super::lane::MeasuredRates;
    use super::super::request::Sampling;
    use super::super::testing::{ScriptedDecoder, byte_model};
    use super::*;

    fn job() -> (Job, UnboundedReceiver<GenerationEvent>) {
        let (events, received) = unbounded_channel();
        let (prompt, sampling, submitted) = (vec![1, 2, 3], Sampling::GREEDY, Instant::now());
        (Job { prompt, sampling, max_tokens: 4, stop: Vec::new(), submitted, events }, received)
    }

    fn ending(mut received: UnboundedReceiver<GenerationEvent>) -> FinishReason {
        while let Some(event) = received.blocking_recv() {
            if let GenerationEvent::Finished(finished) = event {
                return finished.reason;
            }
        }
        panic!("the stream ended without `Finished`");
    }

    #[test]
    fn a_panic_ends_every_job_with_an_error_and_takes_the_lane_out_of_service() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Arc::new(byte_model(dir.path()));
        let status = LaneStatus {
            id: LaneId::Cpu,
            execution_provider: String::new(),
            device: None,
            emulated: false,
            state: LaneState::Ready,
            context_limit: 64,
            threads: None,
            placement: None,
            measured: MeasuredRates::default(),
        };
        let lanes: SharedLanes = Arc::new(Mutex::new(vec![Lane { status, cached: Vec::new() }]));
        let mut decoder = ScriptedDecoder::new(b"answer".map(u32::from).as_slice(), 64);
        decoder.panic_at = Some(2);
        let lane = LaneDecoder::new(LaneId::Cpu, Box::new(decoder));
        let worker = Worker::start(lane, folder, lanes.clone(), Arc::default()).unwrap();
        let ((broken, first), (waiting, second)) = (job(), job());
        worker.jobs.send(broken).unwrap();
        worker.jobs.send(waiting).unwrap();
        let error = FinishReason::Error("the cpu lane broke: injected panic".into());
        assert_eq!((ending(first), ending(second)), (error.clone(), error));
        let state = super::super::lock(&lanes)[0].status.state.clone();
        assert_eq!(state, LaneState::Failed { reason: "injected panic".into() });
        drop(worker.jobs);
        worker.thread.join().unwrap();
    }
}
