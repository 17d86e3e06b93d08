//! Runs a race: submits, listens to all streams at once, and reports what comes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use super::{Order, Plan};
use crate::bill::{Books, Tab};
use crate::engine::{ChatRequest, Finished, GenerationEvent, GenerationStream, LaneId};
use crate::ledger::EntryEnergy;

/// So often it is looked whether somebody wants an end.
const LOOK: Duration = Duration::from_millis(50);

/// For so long the power without an answer is looked at, behind an answer that ran alone.
const IDLE_LOOK: Duration = Duration::from_millis(800);

/// Where a race is run.
pub struct Track<'a> {
    /// Submits a request and returns its stream at once.
    pub submit: &'a dyn Fn(ChatRequest) -> GenerationStream,
    /// Whether a lane is still being opened, which is no part of a race.
    pub is_loading: &'a dyn Fn(LaneId) -> bool,
    pub books: Option<&'a Books>,
    /// Ends the race when it is set.
    pub stop: &'a AtomicBool,
}

#[derive(Debug, Clone, PartialEq)]
pub enum RaceEvent {
    /// A lane's request is submitted now; rounds count from 0.
    Began { lane: LaneId, round: usize, at: Instant },
    /// From the stream of the lane's request; the last one is `Finished`.
    Answer { lane: LaneId, event: GenerationEvent },
    /// What the lane's answer took, or why that is not known.
    Energy { lane: LaneId, energy: EntryEnergy },
    /// Always the last one.
    Over { cancelled: bool },
}

/// Runs all rounds, on this thread; waits first until no lane is loading.
pub fn run(plan: &Plan, track: &Track<'_>, sink: &mut dyn FnMut(RaceEvent)) {
    let mut lanes: Vec<LaneId> =
        plan.start.entrants.iter().filter(|entrant| entrant.absent.is_none()).map(|entrant| entrant.lane).collect();
    while !track.is_stopped() && lanes.iter().any(|lane| (track.is_loading)(*lane)) {
        std::thread::sleep(LOOK);
    }
    for round in 0..plan.start.rounds {
        let groups = match plan.start.order {
            Order::SideBySide => vec![lanes.clone()],
            Order::InTurn { .. } => lanes.iter().map(|lane| vec![*lane]).collect(),
        };
        for group in groups {
            if track.is_stopped() || !run_at_once(plan, &group, round, track, sink) {
                return sink(RaceEvent::Over { cancelled: true });
            }
        }
        // Who is first in one round is last in the next: a machine gets warm.
        lanes.reverse();
    }
    sink(RaceEvent::Over { cancelled: false });
}

impl Track<'_> {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

struct Running {
    lane: LaneId,
    stream: GenerationStream,
    tab: Option<Tab>,
}

/// These lanes at the same time; false where it was stopped.
fn run_at_once(
    plan: &Plan,
    lanes: &[LaneId],
    round: usize,
    track: &Track<'_>,
    sink: &mut dyn FnMut(RaceEvent),
) -> bool {
    let mut running: Vec<Running> = Vec::with_capacity(lanes.len());
    for lane in lanes {
        let request = ChatRequest { lane: Some(*lane), ..plan.request.clone() };
        let tab = track.books.map(|books| books.open(&plan.start.model));
        sink(RaceEvent::Began { lane: *lane, round, at: Instant::now() });
        running.push(Running { lane: *lane, stream: (track.submit)(request), tab });
    }
    let alone = lanes.len() == 1;
    while !running.is_empty() {
        if track.is_stopped() {
            return false;
        }
        for (lane, event) in next(&mut running) {
            let finished = matches!(event, GenerationEvent::Finished(_));
            let Some(at) = running.iter().position(|one| one.lane == lane) else { continue };
            running[at].tab.iter_mut().for_each(|tab| tab.note(&event));
            sink(RaceEvent::Answer { lane, event });
            if finished && let Some(tab) = running.remove(at).tab {
                let patience = if alone { IDLE_LOOK } else { Duration::ZERO };
                let energy = of_one_lane(tab.close_after(patience).entry.energy, alone);
                sink(RaceEvent::Energy { lane, energy });
            }
        }
    }
    true
}

/// A sensor covers all lanes that run, so what one of them took is known only of one that ran alone.
fn of_one_lane(energy: EntryEnergy, alone: bool) -> EntryEnergy {
    if alone || energy.joules.is_none() {
        return energy;
    }
    let reason = Some("the lanes ran at once, and a sensor covers both".to_owned());
    EntryEnergy { reason, source: energy.source, ..EntryEnergy::default() }
}

/// Waits for an event of any stream, for a moment at the most.
fn next(running: &mut [Running]) -> Vec<(LaneId, GenerationEvent)> {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut events = Vec::new();
    for one in running {
        match one.stream.poll_recv(&mut context) {
            Poll::Ready(Some(event)) => events.push((one.lane, event)),
            Poll::Ready(None) => {
                let lost = Finished::error("the lane ended without a word".to_owned());
                events.push((one.lane, GenerationEvent::Finished(lost)));
            }
            Poll::Pending => {}
        }
    }
    if events.is_empty() {
        std::thread::park_timeout(LOOK);
    }
    events
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
