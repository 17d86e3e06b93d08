//! How a race stands: what its events add up to. Pure; times are the tokens' own stamps, counted from the moment at which
//! the lane's request was submitted.

use std::time::{Duration, Instant};

use super::{Entrant, RaceEvent, Start};
use crate::engine::{FinishReason, Finished, GenerationEvent, LaneId, PrefillProgress};
use crate::ledger::EntryEnergy;
use crate::telemetry::latency::{LatencySummary, summarize, tokens_per_second};
use crate::telemetry::statistics::median;

#[derive(Debug, Clone)]
pub struct Race {
    pub start: Start,
    /// In the order of the entrants.
    pub racers: Vec<Racer>,
    /// That it is over, and whether it was cancelled.
    pub over: Option<bool>,
}

#[derive(Debug, Clone)]
pub struct Racer {
    pub entrant: Entrant,
    /// One for each round that has begun.
    pub runs: Vec<Run>,
}

/// One answer.
#[derive(Debug, Clone)]
pub struct Run {
    pub round: usize,
    pub began: Instant,
    first: Option<Instant>,
    last: Option<Instant>,
    latencies: Vec<Duration>,
    /// As the model said it.
    pub text: String,
    pub thinking: String,
    pub tokens: usize,
    pub prefill: Option<PrefillProgress>,
    pub finished: Option<Finished>,
    pub energy: Option<EntryEnergy>,
    /// All that its stream gave.
    pub events: Vec<GenerationEvent>,
}

/// How a lane stands.
#[derive(Debug, Clone, PartialEq)]
pub enum Standing {
    Absent(String),
    /// Its turn has not come.
    Waiting,
    Prefill(Option<PrefillProgress>),
    Decode,
    Done,
    Failed(String),
    Cancelled,
}

/// A lane's numbers: medians over the rounds that it has finished, latencies of all of them together; before the first
/// end, those of the answer that runs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Figures {
    pub ttft: Option<Duration>,
    /// Tokens after the first per second since the first.
    pub rate: Option<f64>,
    pub latency: Option<LatencySummary>,
    /// Joules a token, above idle power where that is known.
    pub joules_per_token: Option<f64>,
    /// Why there are none.
    pub no_joules: Option<String>,
    /// From the submission to the last token.
    pub total: Option<Duration>,
    /// Of the answer that is shown.
    pub tokens: usize,
    /// Tokens are a server's pieces.
    pub is_estimate: bool,
}

impl Race {
    pub fn new(start: Start) -> Self {
        let racers =
            start.entrants.iter().map(|entrant| Racer { entrant: entrant.clone(), runs: Vec::new() }).collect();
        Self { start, racers, over: None }
    }

    pub fn note(&mut self, event: &RaceEvent) {
        let at = |lane: &LaneId, racers: &[Racer]| racers.iter().position(|racer| racer.entrant.lane == *lane);
        match event {
            RaceEvent::Began { lane, round, at: began } => {
                if let Some(racer) = at(lane, &self.racers).map(|at| &mut self.racers[at]) {
                    racer.runs.push(Run::new(*round, *began));
                }
            }
            RaceEvent::Answer { lane, event } => {
                let Some(racer) = at(lane, &self.racers).map(|at| &mut self.racers[at]) else { return };
                if let GenerationEvent::Routed(decision) = event {
                    racer.entrant.emulated = decision.emulated;
                }
                racer.runs.iter_mut().last().into_iter().for_each(|run| run.note(event));
            }
            RaceEvent::Energy { lane, energy } => {
                let racer = at(lane, &self.racers).map(|at| &mut self.racers[at]);
                if let Some(run) = racer.and_then(|racer| racer.runs.last_mut()) {
                    run.energy = Some(energy.clone());
                }
            }
            RaceEvent::Over { cancelled } => self.over = Some(*cancelled),
        }
    }

    /// The lane whose answer runs, or the last one that ran.
    pub fn running(&self) -> Option<LaneId> {
        let runs = self.racers.iter().filter_map(|racer| Some((racer.runs.last()?, racer.entrant.lane)));
        let (mut running, mut latest) = (None, None::<(Instant, LaneId)>);
        for (run, lane) in runs {
            if run.finished.is_none() {
                running = running.or(Some(lane));
            }
            latest = latest.filter(|(began, _)| *began >= run.began).or(Some((run.began, lane)));
        }
        running.or(latest.map(|(_, lane)| lane))
    }
}

impl Racer {
    pub fn standing(&self, over: Option<bool>) -> Standing {
        if let Some(reason) = &self.entrant.absent {
            return Standing::Absent(reason.clone());
        }
        let Some(run) = self.runs.last() else {
            return if over.is_some() { Standing::Cancelled } else { Standing::Waiting };
        };
        match &run.finished {
            Some(Finished { reason: FinishReason::Error(reason), .. }) => Standing::Failed(reason.clone()),
            Some(Finished { reason: FinishReason::Cancelled, .. }) => Standing::Cancelled,
            Some(_) => Standing::Done,
            None if over.is_some() => Standing::Cancelled,
            None if run.first.is_some() => Standing::Decode,
            None => Standing::Prefill(run.prefill),
        }
    }

    /// The answer that is shown: the one that runs, or the last one.
    pub fn shown(&self) -> Option<&Run> {
        self.runs.last()
    }

    /// Rounds that came to their end.
    pub fn done(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(|run| run.is_done())
    }

    pub fn figures(&self) -> Figures {
        let mut runs: Vec<&Run> = self.done().collect();
        if runs.is_empty() {
            runs = self.runs.last().into_iter().collect();
        }
        let middle =
            |value: &dyn Fn(&Run) -> Option<f64>| median(&runs.iter().filter_map(|run| value(run)).collect::<Vec<_>>());
        let seconds = |value: Option<f64>| value.and_then(|value| Duration::try_from_secs_f64(value).ok());
        let latencies: Vec<Duration> = runs.iter().flat_map(|run| run.latencies.iter().copied()).collect();
        let joules_per_token = middle(&|run| {
            let joules = run.energy.as_ref()?.joules?;
            (run.tokens > 0).then(|| joules / run.tokens as f64)
        });
        let told = runs.iter().rev().filter_map(|run| run.energy.as_ref()).find_map(|energy| energy.reason.clone());
        let last = runs.last();
        Figures {
            ttft: seconds(middle(&|run| Some(run.ttft()?.as_secs_f64()))),
            rate: middle(&Run::rate),
            latency: summarize(&latencies),
            no_joules: if joules_per_token.is_some() { None } else { told },
            joules_per_token,
            total: seconds(middle(&|run| run.total().filter(|_| run.is_done()).map(|total| total.as_secs_f64()))),
            tokens: last.map_or(0, |run| run.tokens),
            is_estimate: last.is_some_and(|run| run.is_estimate(self.entrant.lane)),
        }
    }
}

impl Run {
    fn new(round: usize, began: Instant) -> Self {
        Self {
            round,
            began,
            first: None,
            last: None,
            latencies: Vec::new(),
            text: String::new(),
            thinking: String::new(),
            tokens: 0,
            prefill: None,
            finished: None,
            energy: None,
            events: Vec::new(),
        }
    }

    fn note(&mut self, event: &GenerationEvent) {
        self.events.push(event.clone());
        match event {
            GenerationEvent::PrefillProgress(progress) => self.prefill = Some(*progress),
            GenerationEvent::Token(token) => {
                self.tokens += 1;
                self.text.push_str(&token.text);
                self.thinking.push_str(&token.thinking);
                match self.last.replace(token.at) {
                    Some(last) => self.latencies.push(token.at.saturating_duration_since(last)),
                    None => self.first = Some(token.at),
                }
            }
            GenerationEvent::TrailingText { thinking, text, .. } => {
                self.text.push_str(text);
                self.thinking.push_str(thinking);
            }
            GenerationEvent::Finished(finished) => self.finished = Some(finished.clone()),
            // A request that names its lane stays there.
            GenerationEvent::Routed(_) | GenerationEvent::ContextTrimmed(_) | GenerationEvent::LaneChanged(_) => {}
        }
    }

    /// It came to an end of its own.
    pub fn is_done(&self) -> bool {
        let ended = |reason: &FinishReason| !matches!(reason, FinishReason::Error(_) | FinishReason::Cancelled);
        self.finished.as_ref().is_some_and(|finished| ended(&finished.reason))
    }

    pub fn ttft(&self) -> Option<Duration> {
        Some(self.first?.saturating_duration_since(self.began))
    }

    pub fn total(&self) -> Option<Duration> {
        Some(self.last?.saturating_duration_since(self.began))
    }

    /// Time between each token and the one before it.
    pub fn latencies(&self) -> &[Duration] {
        &self.latencies
    }

    pub fn rate(&self) -> Option<f64> {
        tokens_per_second(&self.latencies)
    }

    /// A server gives text in pieces of any size.
    fn is_estimate(&self, lane: LaneId) -> bool {
        lane == LaneId::Remote
    }
}
