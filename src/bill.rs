//! What an answer took: every front end opens a [`Tab`] when it asks, shows it the answer's events, and closes it; that
//! measures the energy, reckons the price and writes the ledger's line, in this one place.
//!
//! ```text
//! let mut tab = books.open(&snapshot.model);      // before the request is submitted
//! tab.note(&event);                               // each event, as it comes
//! let bill = tab.close();                         // after `Finished`; a tab that is dropped closes itself
//! ```

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::config::CostSettings;
use crate::engine::{FinishReason, Finished, GenerationEvent, LaneId, LaneState, LaneStatus, TokenPrice, Usage};
use crate::ledger::{Entry, EntryEnergy, Ledger, Prices, VERSION};
use crate::telemetry::Reading;
use crate::telemetry::energy::{AnswerEnergy, EnergyMeter, Span};

/// Between looks at the idle power that somebody waits for.
const IDLE_STEP: Duration = Duration::from_millis(100);

/// The lane of other machines, whose energy is not measured here.
const REMOTE: &str = "remote";

/// Told of what went wrong while answers were made: where, and what.
pub type FaultListener = Box<dyn Fn(&str, &str) + Send + Sync>;

/// The meter, the prices and the ledger. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Books {
    inner: Arc<Inner>,
}

struct Inner {
    /// Or why there is none.
    meter: Result<EnergyMeter, String>,
    ledger: Ledger,
    /// `chat`, `run`, `serve`.
    via: &'static str,
    currency: String,
    prices: Option<Prices>,
    /// Of the remote lane's server.
    server_price: Mutex<Option<TokenPrice>>,
    /// That the ledger cannot be written was said.
    complained: AtomicBool,
    faults: Mutex<Faults>,
}

#[derive(Default)]
struct Faults {
    listener: Option<FaultListener>,
    last: Option<String>,
}

/// An answer that is being made. One that is dropped, as when a client goes away, is written down as cancelled.
pub struct Tab {
    books: Books,
    span: Option<Span>,
    began: Instant,
    model: String,
    lanes: Vec<LaneId>,
    emulated: bool,
    usage: Usage,
    finished: Option<Finished>,
    closed: bool,
}

/// What an answer took.
#[derive(Debug, Clone, PartialEq)]
pub struct Bill {
    /// As it was written into the ledger.
    pub entry: Entry,
    pub energy: Reading<AnswerEnergy>,
    /// Why the ledger could not be written; the first time only.
    pub complaint: Option<String>,
}

impl Books {
    /// Reads sensors below `sensors` (`/sys`). `via` names what asks: `chat`, `run`, `serve`.
    pub fn new(sensors: &Path, ledger: Ledger, cost: &CostSettings, via: &'static str) -> Self {
        let inner = Inner {
            meter: EnergyMeter::start(sensors).map_err(|error| format!("nothing measures it: {error}")),
            ledger,
            via,
            currency: cost.currency.clone().unwrap_or_default(),
            prices: Prices::of(cost),
            server_price: Mutex::default(),
            complained: AtomicBool::new(false),
            faults: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Has what goes wrong in answers told to somebody.
    pub fn tell_faults(self, listener: FaultListener) -> Self {
        self.inner.faults.lock().unwrap_or_else(PoisonError::into_inner).listener = Some(listener);
        self
    }

    /// How the lanes stand, whenever somebody looks. While one is loading, no idle power is learnt; one that failed is a
    /// fault; one that is a server may have prices.
    pub fn observe(&self, lanes: &[LaneStatus]) {
        if let Ok(meter) = &self.inner.meter {
            meter.set_resting(!lanes.iter().any(|lane| matches!(lane.state, LaneState::Loading { .. })));
        }
        let prices = lanes.iter().filter_map(|lane| lane.remote.as_ref()?.price.as_ref());
        if let Some(price) = prices.map(|price| price.per_million).next() {
            *self.inner.server_price.lock().unwrap_or_else(PoisonError::into_inner) = Some(price);
        }
        for lane in lanes {
            if let LaneState::Failed { reason } = &lane.state {
                self.tell(format!("the {} lane failed: {reason}", lane.id));
            }
        }
    }

    /// The prices in force.
    pub fn prices(&self) -> Option<&Prices> {
        self.inner.prices.as_ref()
    }

    /// A request is about to be submitted.
    pub fn open(&self, model: &str) -> Tab {
        Tab {
            books: self.clone(),
            span: self.inner.meter.as_ref().ok().map(EnergyMeter::begin),
            began: Instant::now(),
            model: model.to_owned(),
            lanes: Vec::new(),
            emulated: false,
            usage: Usage::default(),
            finished: None,
            closed: false,
        }
    }

    /// The same fault again is not told again.
    fn tell(&self, fault: String) {
        let mut faults = self.inner.faults.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(listener) = &faults.listener
            && faults.last.as_ref() != Some(&fault)
        {
            listener(self.inner.via, &fault);
            faults.last = Some(fault);
        }
    }

    /// `None` where it could be written, or where that it could not was said before.
    fn write(&self, entry: &Entry) -> Option<String> {
        let error = self.inner.ledger.append(entry).err()?;
        let is_first = !self.inner.complained.swap(true, Ordering::Relaxed);
        is_first.then(|| format!("{error}; what answers take from now on may be missing there"))
    }
}

impl Tab {
    pub fn note(&mut self, event: &GenerationEvent) {
        match event {
            GenerationEvent::Routed(decision) => {
                self.emulated |= decision.emulated;
                self.usage.prompt_tokens = decision.prompt_tokens;
                self.on(decision.lane);
            }
            GenerationEvent::ContextTrimmed(trim) => self.usage.prompt_tokens = trim.tokens_after,
            GenerationEvent::PrefillProgress(progress) => {
                // After a change of the lane, the answer so far is part of it.
                if self.lanes.len() <= 1 {
                    self.usage.reused_tokens = progress.reused;
                }
            }
            GenerationEvent::Token(_) => {
                self.usage.completion_tokens += 1;
                self.span.iter().for_each(Span::token);
            }
            GenerationEvent::LaneChanged(change) => {
                self.emulated |= change.emulated;
                self.on(change.to);
            }
            GenerationEvent::Finished(finished) => self.finished = Some(finished.clone()),
            GenerationEvent::TrailingText { .. } => {}
        }
    }

    /// The answer is over, finished or not. Writes its line.
    pub fn close(self) -> Bill {
        self.close_after(Duration::ZERO)
    }

    /// The same. Where power is measured and idle power is not known yet, waits so long to learn it.
    pub fn close_after(mut self, patience: Duration) -> Bill {
        self.write(patience)
    }

    fn write(&mut self, patience: Duration) -> Bill {
        self.closed = true;
        let seconds = self.began.elapsed().as_secs_f64();
        let energy = self.energy(patience);
        // What the engine counted, unless nobody heard the end.
        let usage = match &self.finished {
            Some(finished) if finished.usage != Usage::default() => finished.usage,
            Some(_) | None => self.usage,
        };
        let finish = self.finished.as_ref().map_or("cancelled", |finished| finished.reason.name());
        let inner = &self.books.inner;
        if let Some(Finished { reason: FinishReason::Error(reason), .. }) = &self.finished {
            self.books.tell(reason.clone());
        }
        let price = *inner.server_price.lock().unwrap_or_else(PoisonError::into_inner);
        let remote_cost = usage.remote.zip(price).map(|(usage, price)| usage.cost(price));
        let unpriced = || Prices { currency: inner.currency.clone(), ..Prices::default() };
        let names: Vec<&str> = self.lanes.iter().map(|lane| lane.name()).collect();
        let entry = Entry {
            v: VERSION,
            time: Entry::timestamp(chrono::Utc::now()),
            via: inner.via.to_owned(),
            model: std::mem::take(&mut self.model),
            lane: names.join("+"),
            emulated: self.emulated,
            finish: finish.to_owned(),
            tokens_in: usage.prompt_tokens as u64,
            tokens_reused: usage.reused_tokens as u64,
            tokens_out: usage.completion_tokens as u64,
            seconds: thousandths(seconds),
            energy: written(&energy),
            prices: inner.prices.clone().or_else(|| remote_cost.map(|_| unpriced())),
            remote_cost,
        };
        let complaint = self.books.write(&entry);
        Bill { entry, energy, complaint }
    }

    fn energy(&mut self, patience: Duration) -> Reading<AnswerEnergy> {
        let meter = match &self.books.inner.meter {
            Ok(meter) => meter,
            Err(reason) => return Reading::Unavailable(reason.clone()),
        };
        if self.lanes.last().is_some() && self.lanes.iter().all(|lane| lane.name() == REMOTE) {
            return Reading::Unavailable("another machine answered".into());
        }
        if !patience.is_zero() {
            meter.set_resting(true);
        }
        match self.span.take().map(Span::end) {
            Some(Reading::Measured(span)) => {
                let until = Instant::now() + patience;
                let mut idle = meter.idle_watts();
                // Each look tells the power since the look before.
                while idle.measured().is_none() && Instant::now() < until {
                    std::thread::sleep(IDLE_STEP);
                    idle = meter.idle_watts();
                }
                Reading::Measured(AnswerEnergy::new(span, idle))
            }
            Some(Reading::Unavailable(reason)) => Reading::Unavailable(reason),
            None => Reading::Unavailable("nothing measured it".into()),
        }
    }

    fn on(&mut self, lane: LaneId) {
        if self.lanes.last() != Some(&lane) {
            self.lanes.push(lane);
        }
    }
}

impl Drop for Tab {
    fn drop(&mut self) {
        if !self.closed {
            self.write(Duration::ZERO);
        }
    }
}

/// As the ledger has it.
fn written(energy: &Reading<AnswerEnergy>) -> EntryEnergy {
    let energy = match energy {
        Reading::Unavailable(reason) => {
            return EntryEnergy { reason: Some(reason.clone()), ..EntryEnergy::default() };
        }
        Reading::Measured(energy) => energy,
    };
    let reason = match &energy.above_idle {
        Reading::Measured(_) => None,
        Reading::Unavailable(reason) => Some(reason.clone()),
    };
    EntryEnergy {
        joules: energy.joules().map(thousandths),
        joules_with_idle: Some(thousandths(energy.span.joules)),
        idle_watts: energy.idle_watts.measured().copied().map(thousandths),
        source: Some(energy.span.source.to_string()),
        shared: energy.span.shared,
        reason,
    }
}

/// No sensor and no clock here is better.
fn thousandths(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

#[cfg(test)]
#[path = "bill_tests.rs"]
mod tests;
