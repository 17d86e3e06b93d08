//! The lanes as their threads, the dispatcher and the engine share them: how each stands, and where its jobs go.

use std::sync::mpsc::Sender;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::event::{FinishReason, GenerationEvent, LaneChange};
use super::generate::{Ended, LaneDecoder, Measured};
use super::job::Job;
use super::lane::{LaneId, LaneState, LaneStatus, OpenLane};
use super::remote_lane::ASSUMED_CONTEXT;
use super::route::{LaneFacts, Policy, RemoteUse, RouteError, RoutingDecision, RoutingFacts, is_only_named, route};
use super::slots::reusable;
use crate::model::Tokenizer;
use crate::telemetry::latency::tokens_per_second;

/// Shorter prefills are mostly overhead; their rate would mislead the router's prediction.
const SHORTEST_MEASURED_PREFILL: usize = 16;

pub struct Lanes {
    list: Mutex<Vec<Lane>>,
    changed: Condvar,
    /// Lanes on a simulator may be chosen without being named.
    emulation: bool,
    /// Is told what answers measure.
    listener: Option<RatesListener>,
}

/// Hears of a lane whose rates were measured anew; called on the lane's thread.
pub type RatesListener = Box<dyn Fn(&LaneStatus) + Send + Sync>;

/// Why a lane does not go on with a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hindrance {
    ContextFull,
    /// It is made for other sequences.
    Refused(String),
    /// It is out of service.
    Broken(String),
}

pub struct Lane {
    pub status: LaneStatus,
    /// Where its thread takes jobs from; `None` for a lane that is absent, and for all of them when the engine ends.
    pub jobs: Option<Sender<Job>>,
    /// The tokens whose keys and values the last answers left in its cache, slot by slot.
    cached: Vec<Vec<u32>>,
    /// `Decoder::shortest_prefill`.
    shortest_prefill: usize,
}

impl Lanes {
    /// In the order in which the router prefers them.
    pub fn new(emulation: bool, listener: Option<RatesListener>) -> Self {
        Self { list: Mutex::default(), changed: Condvar::new(), emulation, listener }
    }

    pub fn add(&self, status: LaneStatus, jobs: Option<Sender<Job>>) {
        self.lock().push(Lane { status, jobs, cached: Vec::new(), shortest_prefill: 1 });
    }

    pub fn statuses(&self) -> Vec<LaneStatus> {
        self.lock().iter().map(|lane| lane.status.clone()).collect()
    }

    /// Waits until `done` says so, at most for so long (`None`: for ever), and returns how the lanes stand then.
    pub fn wait(&self, patience: Option<Duration>, done: impl Fn(&[Lane]) -> bool) -> Vec<LaneStatus> {
        let until = patience.map(|patience| Instant::now() + patience);
        let mut lanes = self.lock();
        while !done(&lanes) {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            lanes = match left {
                Some(left) if left.is_zero() => break,
                Some(left) => self.changed.wait_timeout(lanes, left).unwrap_or_else(PoisonError::into_inner).0,
                None => self.changed.wait(lanes).unwrap_or_else(PoisonError::into_inner),
            };
        }
        lanes.iter().map(|lane| lane.status.clone()).collect()
    }

    /// Takes no more jobs, so that the lanes' threads end.
    pub fn close(&self) {
        for lane in self.lock().iter_mut() {
            lane.jobs = None;
        }
    }

    /// Asks the router about a conversation whose prompt is `prompt`.
    pub fn decide(
        &self,
        prompt: &[u32],
        answer_tokens: usize,
        policy: Policy,
        requested: Option<LaneId>,
        remote: RemoteUse,
    ) -> Result<RoutingDecision, RouteError> {
        let lanes = self.lock();
        let lanes: Vec<LaneFacts<'_>> = lanes
            .iter()
            .map(|lane| {
                let reusable = lane.cached.iter().map(|cached| reusable(cached, prompt, lane.shortest_prefill));
                LaneFacts { status: &lane.status, reusable_tokens: reusable.max().unwrap_or(0) }
            })
            .collect();
        route(&RoutingFacts {
            prompt_tokens: prompt.len(),
            answer_tokens,
            lanes: &lanes,
            policy,
            requested,
            emulation: self.emulation,
            remote,
        })
    }

    /// Whether an answer that outgrows this lane can go on in another one.
    pub fn can_outgrow(&self, id: LaneId, limit: usize, remote: RemoteUse) -> bool {
        self.next(id, limit + 1, remote).is_some()
    }

    /// Gives a job to a lane's thread; gives it back where there is none any more.
    pub fn send(&self, id: LaneId, job: Job) -> Result<(), Box<Job>> {
        let mut lanes = self.lock();
        let Some(lane) = lanes.iter_mut().find(|lane| lane.status.id == id) else { return Err(Box::new(job)) };
        match &lane.jobs {
            Some(jobs) => {
                jobs.send(job).map_err(|error| Box::new(error.0))?;
                lane.status.waiting += 1;
                Ok(())
            }
            None => Err(Box::new(job)),
        }
    }

    /// Jobs of a lane began or ended: so many more of them wait, and so many more run.
    pub fn count(&self, id: LaneId, waiting: isize, running: isize) {
        self.change(id, |lane| {
            let status = &mut lane.status;
            status.waiting = status.waiting.saturating_add_signed(waiting);
            status.running = status.running.saturating_add_signed(running);
        });
    }

    pub fn set_loading(&self, id: LaneId) {
        self.change(id, |lane| {
            lane.status.state = LaneState::Loading { since: Instant::now() };
            lane.status.placement.clear();
        });
    }

    pub fn set_ready(&self, id: LaneId, open: &OpenLane) {
        self.change(id, |lane| {
            lane.shortest_prefill = open.decoder.shortest_prefill();
            lane.cached.clear();
            let status = &mut lane.status;
            status.state = LaneState::Ready;
            status.context_limit = open.decoder.context_limit();
            status.placement = open.placement.clone();
            status.emulated = open.emulated;
            if open.device.is_some() {
                status.device = open.device.clone();
            }
        });
    }

    /// A server can be asked. `context_limit` is `None` where nobody says it.
    pub fn set_server_ready(&self, id: LaneId, context_limit: Option<usize>, model: &str) {
        self.change(id, |lane| {
            lane.status.state = LaneState::Ready;
            lane.status.context_limit = context_limit.unwrap_or(ASSUMED_CONTEXT);
            if let Some(remote) = &mut lane.status.remote {
                remote.model = Some(model.to_owned());
                remote.context_is_assumed = context_limit.is_none();
            }
        });
    }

    /// Takes a lane out of service.
    pub fn set_failed(&self, id: LaneId, reason: &str) {
        self.change(id, |lane| {
            lane.cached.clear();
            lane.status.state = LaneState::Failed { reason: reason.to_owned() };
        });
    }

    /// Publishes the rates that an answer measured and what it left in the cache, for the router's predictions. An answer
    /// that others ran beside says nothing about a lane's rates.
    pub fn record(&self, decoder: &LaneDecoder, ended: &Ended) {
        self.change(decoder.id, |lane| {
            if lane.cached.len() <= ended.slot {
                lane.cached.resize(ended.slot + 1, Vec::new());
            }
            lane.cached[ended.slot] = decoder.cached(ended.slot).to_vec();
        });
        if !ended.measured.shared {
            self.record_rates(decoder.id, &ended.measured);
        }
    }

    /// Publishes the rates alone.
    pub fn record_rates(&self, id: LaneId, measured: &Measured) {
        let mut status = None;
        self.change(id, |lane| {
            let rates = &mut lane.status.measured;
            let seconds = measured.prefill.as_secs_f64();
            if measured.prefill_tokens >= SHORTEST_MEASURED_PREFILL && seconds > 0.0 {
                rates.prefill = Some(measured.prefill_tokens as f64 / seconds);
            }
            rates.decode = tokens_per_second(&measured.token_latencies).or(rates.decode);
            status = Some(lane.status.clone());
        });
        if let (Some(listener), Some(status)) = (&self.listener, status) {
            listener(&status);
        }
    }

    /// Goes on with a job that its lane cannot finish: in the first other lane that is ready and has room, unless the
    /// request named its lane.
    pub fn hand_over(&self, mut job: Job, from: LaneId, why: &Hindrance, tokenizer: &Tokenizer) {
        if let Err(error) = job.adopt_text(tokenizer) {
            return job.finish(FinishReason::Error(error.to_string()), tokenizer);
        }
        let needed = job.prompt.len() + job.answered().len() + 1;
        let next = if job.pinned { None } else { self.next(from, needed, job.remote) };
        let Some(next) = next else {
            let reason = match (why, job.pinned) {
                (Hindrance::ContextFull, _) => FinishReason::ContextFull,
                (Hindrance::Refused(why) | Hindrance::Broken(why), true) => FinishReason::Error(format!(
                    "the {from} lane was asked for, and failed: {why}; where none is asked for, another one may go on"
                )),
                (Hindrance::Refused(why) | Hindrance::Broken(why), false) => {
                    FinishReason::Error(format!("the {from} lane failed, and no other can go on with it: {why}"))
                }
            };
            return job.finish(reason, tokenizer);
        };
        let reason = match why {
            Hindrance::ContextFull => format!("the context of {} is full", self.limit(from)),
            Hindrance::Refused(why) => format!("{from} cannot run this: {}", headline(why)),
            Hindrance::Broken(why) => format!("{from} failed: {}", headline(why)),
        };
        job.send(GenerationEvent::LaneChanged(LaneChange {
            from,
            to: next.id,
            after_tokens: job.answered().len(),
            context_limit: next.context_limit,
            emulated: next.emulated,
            reason,
        }));
        if let Err(job) = self.send(next.id, job) {
            // The engine is ending.
            job.finish(FinishReason::Cancelled, tokenizer);
        }
    }

    fn next(&self, from: LaneId, needed: usize, remote: RemoteUse) -> Option<LaneStatus> {
        let lanes = self.lock();
        let can = |lane: &LaneStatus| {
            lane.id != from
                && lane.context_limit >= needed
                && (self.emulation || !lane.emulated)
                && remote.objection(lane).is_none()
                && !is_only_named(lane)
        };
        let usable = || lanes.iter().map(|lane| &lane.status).filter(|lane| can(lane));
        let ready = usable().find(|lane| lane.state == LaneState::Ready);
        // One that loads is waited for where there is no other.
        ready.or_else(|| usable().find(|lane| matches!(lane.state, LaneState::Loading { .. }))).cloned()
    }

    fn limit(&self, id: LaneId) -> usize {
        self.lock().iter().find(|lane| lane.status.id == id).map_or(0, |lane| lane.status.context_limit)
    }

    fn change(&self, id: LaneId, change: impl FnOnce(&mut Lane)) {
        if let Some(lane) = self.lock().iter_mut().find(|lane| lane.status.id == id) {
            change(lane);
        }
        self.changed.notify_all();
    }

    /// The lanes' states stay meaningful when a thread panicked while it held them: each is written in one step.
    fn lock(&self) -> MutexGuard<'_, Vec<Lane>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What comes before the details, such as the lines that a process printed last; the lane's state has it all.
fn headline(reason: &str) -> &str {
    match reason.split_once('\n') {
        Some((first, _)) => first.rsplit_once("; ").map_or(first, |(what, _)| what),
        None => reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_stay_out_of_the_headline() {
        for (reason, expected) in [
            ("injected fault", "injected fault"),
            ("it hung; it was ended", "it hung; it was ended"),
            ("it ended with signal: 9; it printed last:\n  a; b\n  c", "it ended with signal: 9"),
            ("2 of its 5 nodes would run elsewhere\n  a on CPU", "2 of its 5 nodes would run elsewhere"),
        ] {
            assert_eq!(headline(reason), expected);
        }
    }
}
