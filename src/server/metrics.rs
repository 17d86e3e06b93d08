//! What the server counts, and how `GET /metrics` says it. Numbers only: no text of anybody's, no key, no path.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::prometheus::{Histogram, Page};
use crate::bill::{Bill, Tab};
use crate::engine::{EngineSnapshot, FinishReason, GenerationEvent, LaneState};

/// Seconds. Prompts of a few tokens on a fast machine to long ones behind a queue.
const TTFT_BOUNDS: &[f64] = &[0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];
/// Seconds.
const LATENCY_BOUNDS: &[f64] = &[0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0, 5.0];

#[derive(Debug, Default)]
pub struct Metrics {
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    /// By endpoint and HTTP status.
    requests: BTreeMap<(&'static str, u16), u64>,
    /// By how they ended.
    answers: BTreeMap<&'static str, u64>,
    /// By lane and kind.
    tokens: BTreeMap<(&'static str, &'static str), u64>,
    /// By lane.
    ttft: BTreeMap<&'static str, Histogram>,
    latency: BTreeMap<&'static str, Histogram>,
    /// Joules, by lane and by whether idle power is part of them.
    energy: BTreeMap<(String, &'static str), f64>,
    lane_changes: u64,
    connections: u64,
    waiting: u64,
    running: u64,
}

impl Counts {
    /// What an answer took; nothing where that is not known.
    fn charge(&mut self, bill: &Bill) {
        let energy = &bill.entry.energy;
        let above_idle = energy.joules.filter(|_| energy.idle_watts.is_some());
        for (kind, joules) in [("all", energy.joules_with_idle), ("above_idle", above_idle)] {
            if let Some(joules) = joules {
                *self.energy.entry((bill.entry.lane.clone(), kind)).or_default() += joules;
            }
        }
    }
}

/// How the server stands, besides what was counted.
pub struct Standing<'a> {
    pub engine: &'a EngineSnapshot,
    pub limit: usize,
    /// Of this process, in bytes.
    pub resident: Option<u64>,
    pub stopping: bool,
}

impl Metrics {
    /// An HTTP request was answered, by its headers at least.
    pub fn request(&self, endpoint: &'static str, status: u16) {
        *self.lock().requests.entry((endpoint, status)).or_default() += 1;
    }

    /// A connection is open as long as this is kept.
    pub fn connection(self: &Arc<Self>) -> OpenConnection {
        self.lock().connections += 1;
        OpenConnection(self.clone())
    }

    /// An answer was submitted; the observer is told what happens to it, and tells the tab.
    pub fn answer(self: &Arc<Self>, submitted: Instant, tab: Option<Tab>) -> Observer {
        self.lock().waiting += 1;
        Observer { metrics: self.clone(), submitted, tab, stage: Stage::Waiting, prompt: (0, 0), last: None }
    }

    pub fn page(&self, standing: &Standing<'_>) -> String {
        let mut page = Page::default();
        let counts = self.lock();
        page.counter("ortalk_http_requests_total", "HTTP requests by endpoint and status; 499 is a client that left.");
        for ((endpoint, status), count) in &counts.requests {
            let labels = [("endpoint", *endpoint), ("status", &status.to_string())];
            page.sample("ortalk_http_requests_total", &labels, *count as f64);
        }
        page.counter("ortalk_answers_total", "Answers by how they ended.");
        for (reason, count) in &counts.answers {
            page.sample("ortalk_answers_total", &[("finish_reason", reason)], *count as f64);
        }
        page.counter("ortalk_tokens_total", "Tokens by lane and kind; those of a prompt count with the first token.");
        for ((lane, kind), count) in &counts.tokens {
            page.sample("ortalk_tokens_total", &[("lane", lane), ("kind", kind)], *count as f64);
        }
        for (name, help, all) in [
            ("ortalk_time_to_first_token_seconds", "From submission to the first token.", &counts.ttft),
            ("ortalk_inter_token_latency_seconds", "Between each token and the one before it.", &counts.latency),
        ] {
            page.histograms(name, help, "lane", all.iter().map(|(lane, histogram)| (*lane, histogram)));
        }
        page.counter(
            "ortalk_energy_joules_total",
            "Energy of answers, where it is measured: all that the sensor saw, and above idle.",
        );
        for ((lane, kind), joules) in &counts.energy {
            page.sample("ortalk_energy_joules_total", &[("lane", lane), ("kind", kind)], *joules);
        }
        let changes = counts.lane_changes as f64;
        page.single("ortalk_lane_changes_total", "Answers that went on in another lane.", true, changes);
        for (name, help, value) in [
            ("ortalk_queue_length", "Answers that wait for a lane.", counts.waiting),
            ("ortalk_answers_running", "Answers that a lane works on.", counts.running),
            ("ortalk_queue_limit", "Answers that may wait or run.", standing.limit as u64),
            ("ortalk_connections", "Open connections.", counts.connections),
            ("ortalk_stopping", "The server is shutting down.", standing.stopping.into()),
        ] {
            page.single(name, help, false, value as f64);
        }
        drop(counts);
        lanes(&mut page, standing.engine);
        if let Some(resident) = standing.resident {
            page.single("process_resident_memory_bytes", "Memory of this process.", false, resident as f64);
        }
        page.gauge("ortalk_build_info", "This version.");
        page.sample("ortalk_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
        page.finish()
    }

    /// Counts stay meaningful when a thread panicked while it held them.
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lanes(page: &mut Page, engine: &EngineSnapshot) {
    page.gauge("ortalk_lane_state", "1 for the state that a lane is in.");
    for lane in &engine.lanes {
        for state in ["loading", "ready", "absent", "failed"] {
            let holds = f64::from(u8::from(lane.state.name() == state));
            page.sample("ortalk_lane_state", &[("lane", lane.id.name()), ("state", state)], holds);
        }
    }
    page.gauge("ortalk_lane_info", "What a lane is.");
    for lane in engine.lanes.iter().filter(|lane| !matches!(lane.state, LaneState::Absent { .. })) {
        let labels = [
            ("lane", lane.id.name()),
            ("execution_provider", &lane.execution_provider),
            ("emulated", if lane.emulated { "true" } else { "false" }),
            ("model", &engine.model),
        ];
        page.sample("ortalk_lane_info", &labels, 1.0);
    }
    page.gauge("ortalk_lane_answers", "Answers that a lane works on, and those that wait for it.");
    for lane in &engine.lanes {
        for (state, answers) in [("running", lane.running), ("waiting", lane.waiting)] {
            page.sample("ortalk_lane_answers", &[("lane", lane.id.name()), ("state", state)], answers as f64);
        }
    }
    page.gauge("ortalk_lane_tokens_per_second", "What a lane's last answers measured.");
    for lane in &engine.lanes {
        for (kind, rate) in [("prefill", lane.measured.prefill), ("decode", lane.measured.decode)] {
            if let Some(rate) = rate {
                page.sample("ortalk_lane_tokens_per_second", &[("lane", lane.id.name()), ("kind", kind)], rate);
            }
        }
    }
}

pub struct OpenConnection(Arc<Metrics>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.lock().connections -= 1;
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Waiting,
    Running,
    Ended,
}

/// Counts one answer by its events. Dropped before the last one, it counts it as cancelled.
pub struct Observer {
    metrics: Arc<Metrics>,
    submitted: Instant,
    /// `None` after the answer's end.
    tab: Option<Tab>,
    stage: Stage,
    /// Tokens of the prompt, and those among them that were cached.
    prompt: (usize, usize),
    last: Option<Instant>,
}

impl Observer {
    pub fn take(&mut self, event: &GenerationEvent) {
        if let Some(tab) = &mut self.tab {
            tab.note(event);
        }
        match event {
            GenerationEvent::PrefillProgress(progress) => {
                if self.last.is_none() {
                    self.prompt = (progress.total, progress.reused);
                }
                self.enter(Stage::Running);
            }
            GenerationEvent::Token(token) => {
                self.enter(Stage::Running);
                let lane = token.lane.name();
                let mut counts = self.metrics.lock();
                let mut count = |kind, tokens: usize| {
                    *counts.tokens.entry((lane, kind)).or_default() += tokens as u64;
                };
                count("completion", 1);
                if token.thinks {
                    count("thinking", 1);
                }
                let (histogram, since) = match self.last.replace(token.at) {
                    None => {
                        count("prompt", self.prompt.0);
                        count("cached", self.prompt.1);
                        let new = || Histogram::new(TTFT_BOUNDS);
                        (counts.ttft.entry(lane).or_insert_with(new), self.submitted)
                    }
                    Some(last) => (counts.latency.entry(lane).or_insert_with(|| Histogram::new(LATENCY_BOUNDS)), last),
                };
                histogram.observe(token.at.saturating_duration_since(since).as_secs_f64());
            }
            GenerationEvent::LaneChanged(_) => self.metrics.lock().lane_changes += 1,
            GenerationEvent::Finished(finished) => self.end(&finished.reason),
            GenerationEvent::Routed(_) | GenerationEvent::ContextTrimmed(_) | GenerationEvent::TrailingText { .. } => {}
        }
    }

    fn end(&mut self, reason: &FinishReason) {
        if self.enter(Stage::Ended) {
            let bill = self.tab.take().map(Tab::close);
            let mut counts = self.metrics.lock();
            *counts.answers.entry(reason.name()).or_default() += 1;
            bill.iter().for_each(|bill| counts.charge(bill));
        }
    }

    /// Whether this is another stage than before.
    fn enter(&mut self, stage: Stage) -> bool {
        if self.stage == stage || self.stage == Stage::Ended {
            return false;
        }
        let mut counts = self.metrics.lock();
        match self.stage {
            Stage::Waiting => counts.waiting -= 1,
            Stage::Running => counts.running -= 1,
            Stage::Ended => {}
        }
        if stage == Stage::Running {
            counts.running += 1;
        }
        self.stage = stage;
        true
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.end(&FinishReason::Cancelled);
    }
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
