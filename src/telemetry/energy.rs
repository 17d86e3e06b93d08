//! Energy: power over time, and what of it an answer took.
//!
//! [`PowerOverTime`] is what the benchmark's watch and the meter have in common: each look gives the joules since the look
//! before. [`EnergyMeter`] looks twice a second on a thread of its own, and when an answer begins and ends. What the sensor
//! says is of all that it covers, not of ortalk alone; so while nothing is answered the meter learns the idle power, which is
//! subtracted from an answer's joules ([`AnswerEnergy`] says both).
//!
//! Several answers at once share what is used while they run, by the tokens that each of them got in that time, equally
//! where nobody got any.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::Reading;
use super::device::power::{PowerProbe, PowerSource};

/// How it is measured, for people.
pub const METHOD: &str = "power when the answer began and ended and twice a second between, by time; above idle: minus the \
    mean power while nothing was answered";

/// Between two looks of the meter.
const INTERVAL: Duration = Duration::from_millis(500);
/// Nobody knows what was used while nobody looked for longer than this: the machine may have slept.
const LONGEST_STRETCH: Duration = Duration::from_secs(5);
/// A sensor gives no new value sooner than this after the last one; so much of an answer's end is reckoned with the power
/// that was seen last.
const LONGEST_TAIL: Duration = Duration::from_millis(100);
/// Less idle time tells nothing.
const SHORTEST_IDLE: Duration = Duration::from_millis(400);
/// After this time of idling, older idle power counts a third: fans, screens and other programs come and go.
const IDLE_MEMORY: Duration = Duration::from_secs(60);

/// What was used between two looks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stretch {
    pub from: Instant,
    pub to: Instant,
    pub joules: f64,
    pub source: PowerSource,
}

impl Stretch {
    fn seconds(&self) -> f64 {
        self.to.saturating_duration_since(self.from).as_secs_f64()
    }
}

/// A sensor's power, summed up.
pub struct PowerOverTime {
    probe: PowerProbe,
    /// Up to here it is known what was used.
    seen: Instant,
}

impl PowerOverTime {
    /// Reads the sensors below `root`.
    pub fn new(root: &Path, now: Instant) -> Self {
        Self { probe: PowerProbe::new(root, now), seen: now }
    }

    /// What was used since the last look that saw anything, or why that is not known. What a look could not read is filled
    /// by the next one's mean, unless it was too long ago.
    pub fn look(&mut self, now: Instant) -> Reading<Stretch> {
        let (from, gap) = (self.seen, now.saturating_duration_since(self.seen));
        match self.probe.read(now) {
            Reading::Unavailable(reason) => Reading::Unavailable(reason),
            Reading::Measured(_) if gap > LONGEST_STRETCH => {
                self.seen = now;
                Reading::Unavailable(format!("the sensor said nothing for {} s", gap.as_secs()))
            }
            Reading::Measured(power) => {
                self.seen = now;
                let joules = f64::from(power.watts) * gap.as_secs_f64();
                Reading::Measured(Stretch { from, to: now, joules, source: power.source })
            }
        }
    }
}

/// What was used while an answer was made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpanEnergy {
    /// The answer's share of all that the source used.
    pub joules: f64,
    /// The same share of the time, in seconds.
    pub share_seconds: f64,
    /// From the answer's start to its end.
    pub seconds: f64,
    pub source: PowerSource,
    /// Other answers ran at the same time.
    pub shared: bool,
}

/// The same beside the idle power.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerEnergy {
    pub span: SpanEnergy,
    /// Mean power while nothing was answered.
    pub idle_watts: Reading<f64>,
    /// What the answer took above that, in joules.
    pub above_idle: Reading<f64>,
}

impl AnswerEnergy {
    pub fn new(span: SpanEnergy, idle_watts: Reading<f64>) -> Self {
        let above_idle = match &idle_watts {
            Reading::Unavailable(reason) => Reading::Unavailable(reason.clone()),
            Reading::Measured(idle) => match span.joules - idle * span.share_seconds {
                above if above > 0.0 => Reading::Measured(above),
                _ => Reading::Unavailable(format!("no more than the idle power of {idle:.1} W")),
            },
        };
        Self { span, idle_watts, above_idle }
    }

    /// What counts as the answer's: above idle where the idle power is known, else all of it.
    pub fn joules(&self) -> Option<f64> {
        match (&self.above_idle, &self.idle_watts) {
            (Reading::Measured(joules), _) => Some(*joules),
            // That it was not above idle is known.
            (Reading::Unavailable(_), Reading::Measured(_)) => None,
            (Reading::Unavailable(_), Reading::Unavailable(_)) => Some(self.span.joules),
        }
    }
}

/// Looks at power in the background. Dropping it ends its thread.
pub struct EnergyMeter {
    shared: Arc<Mutex<State>>,
    /// `None` only while it is dropped.
    alive: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// An answer that is being made; it ends when it is dropped, too.
pub struct Span {
    shared: Arc<Mutex<State>>,
    id: u64,
    tokens: Arc<AtomicU64>,
}

impl EnergyMeter {
    /// Reads the sensors below `root` (`/sys`).
    pub fn start(root: &Path) -> std::io::Result<Self> {
        let shared = Arc::new(Mutex::new(State::new(root, Instant::now())));
        let (alive, ended) = channel();
        let looked_at = shared.clone();
        let thread = std::thread::Builder::new().name("energy".into()).spawn(move || {
            while ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                lock(&looked_at).look(Instant::now());
            }
        })?;
        Ok(Self { shared, alive: Some(alive), thread: Some(thread) })
    }

    /// Whether ortalk does nothing besides answering; it does while models are loaded, and then no idle power is learnt. At
    /// first it does.
    pub fn set_resting(&self, resting: bool) {
        lock(&self.shared).set_resting(resting, Instant::now());
    }

    /// An answer begins.
    pub fn begin(&self) -> Span {
        let (id, tokens) = lock(&self.shared).begin(Instant::now());
        Span { shared: self.shared.clone(), id, tokens }
    }

    /// Mean power while nothing was answered, in watts; what was seen last counts most.
    pub fn idle_watts(&self) -> Reading<f64> {
        let mut state = lock(&self.shared);
        state.look(Instant::now());
        state.idle.watts()
    }
}

impl Drop for EnergyMeter {
    fn drop(&mut self) {
        self.alive = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Span {
    /// Another token of the answer.
    pub fn token(&self) {
        self.tokens.fetch_add(1, Ordering::Relaxed);
    }

    /// The answer is over. What was used meanwhile, or why that is not known.
    pub fn end(self) -> Reading<SpanEnergy> {
        lock(&self.shared).end(self.id, Instant::now())
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        lock(&self.shared).forget(self.id, Instant::now());
    }
}

fn lock(shared: &Mutex<State>) -> MutexGuard<'_, State> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

struct State {
    power: PowerOverTime,
    answers: BTreeMap<u64, Running>,
    next: u64,
    resting: bool,
    /// Since when nothing was answered and nothing else done.
    quiet_since: Option<Instant>,
    idle: Idle,
    last_watts: f64,
    /// Why the last look saw nothing.
    reason: String,
}

/// What is known of an answer that is being made.
struct Running {
    began: Instant,
    tokens: Arc<AtomicU64>,
    /// Those of them that earlier looks counted.
    counted: u64,
    joules: f64,
    share_seconds: f64,
    /// Seconds of its time in which power was seen.
    covered: f64,
    source: Option<PowerSource>,
    changed: Option<PowerSource>,
    shared: bool,
}

impl State {
    fn new(root: &Path, now: Instant) -> Self {
        Self {
            power: PowerOverTime::new(root, now),
            answers: BTreeMap::new(),
            next: 0,
            resting: false,
            quiet_since: None,
            idle: Idle::default(),
            last_watts: 0.0,
            reason: "measuring".into(),
        }
    }

    fn look(&mut self, now: Instant) {
        match self.power.look(now) {
            Reading::Measured(stretch) if stretch.seconds() > 0.0 => self.take(&stretch),
            Reading::Measured(_) => {}
            Reading::Unavailable(reason) => self.reason = reason,
        }
    }

    fn take(&mut self, stretch: &Stretch) {
        self.last_watts = stretch.joules / stretch.seconds();
        if self.answers.is_empty() {
            if self.quiet_since.is_some_and(|since| since <= stretch.from) {
                self.idle.add(stretch);
            }
            return;
        }
        let overlap =
            |answer: &Running| stretch.to.saturating_duration_since(answer.began.max(stretch.from)).as_secs_f64();
        let counts: Vec<u64> = self.answers.values().map(|answer| answer.tokens.load(Ordering::Relaxed)).collect();
        let new: Vec<u64> =
            self.answers.values().zip(&counts).map(|(answer, count)| count.saturating_sub(answer.counted)).collect();
        let overlaps: Vec<f64> = self.answers.values().map(overlap).collect();
        let weight = |at: usize| if new.iter().any(|tokens| *tokens > 0) { new[at] as f64 } else { overlaps[at] };
        let all: f64 = (0..new.len()).map(weight).sum();
        // Of the stretch, as much as somebody answered.
        let busy = overlaps.iter().copied().fold(0.0, f64::max) / stretch.seconds();
        let together = overlaps.iter().filter(|seconds| **seconds > 0.0).count() > 1;
        let shares: Vec<f64> = (0..new.len()).map(|at| if all > 0.0 { busy * weight(at) / all } else { 0.0 }).collect();
        for (at, answer) in self.answers.values_mut().enumerate() {
            answer.counted = counts[at];
            answer.joules += stretch.joules * shares[at];
            answer.share_seconds += stretch.seconds() * shares[at];
            answer.covered += overlaps[at];
            answer.shared |= together;
            match answer.source {
                Some(source) if source != stretch.source => answer.changed = Some(stretch.source),
                Some(_) => {}
                None => answer.source = Some(stretch.source),
            }
        }
    }

    fn begin(&mut self, now: Instant) -> (u64, Arc<AtomicU64>) {
        self.look(now);
        self.quiet_since = None;
        let (id, tokens) = (self.next, Arc::new(AtomicU64::new(0)));
        self.next += 1;
        let answer = Running {
            began: now,
            tokens: tokens.clone(),
            counted: 0,
            joules: 0.0,
            share_seconds: 0.0,
            covered: 0.0,
            source: None,
            changed: None,
            shared: false,
        };
        self.answers.insert(id, answer);
        (id, tokens)
    }

    fn end(&mut self, id: u64, now: Instant) -> Reading<SpanEnergy> {
        self.look(now);
        let beside = self.answers.len().max(1) as f64;
        let Some(answer) = self.forget(id, now) else { return Reading::Unavailable(self.reason.clone()) };
        let seconds = now.saturating_duration_since(answer.began).as_secs_f64();
        let tail = (seconds - answer.covered).max(0.0);
        let Some(source) = answer.source else {
            let short = seconds <= LONGEST_TAIL.as_secs_f64() && self.reason == "measuring";
            let reason = if short { "the answer was too short to measure" } else { &self.reason };
            return Reading::Unavailable(reason.into());
        };
        if let Some(changed) = answer.changed {
            return Reading::Unavailable(format!("the sensor changed meanwhile: {source}, then {changed}"));
        }
        if tail > LONGEST_TAIL.as_secs_f64() {
            return Reading::Unavailable(format!("not all of it was measured: {}", self.reason));
        }
        Reading::Measured(SpanEnergy {
            joules: answer.joules + self.last_watts * tail / beside,
            share_seconds: answer.share_seconds + tail / beside,
            seconds,
            source,
            shared: answer.shared,
        })
    }

    fn forget(&mut self, id: u64, now: Instant) -> Option<Running> {
        let answer = self.answers.remove(&id);
        if answer.is_some() && self.answers.is_empty() && self.resting {
            self.quiet_since = Some(now);
        }
        answer
    }

    fn set_resting(&mut self, resting: bool, now: Instant) {
        if resting == self.resting {
            return;
        }
        self.look(now);
        self.resting = resting;
        self.quiet_since = (resting && self.answers.is_empty()).then_some(now);
    }
}

/// Power while nothing was answered: a mean in which what was seen long ago fades.
#[derive(Debug, Default)]
struct Idle {
    joules: f64,
    seconds: f64,
}

impl Idle {
    fn add(&mut self, stretch: &Stretch) {
        let kept = (-stretch.seconds() / IDLE_MEMORY.as_secs_f64()).exp();
        self.joules = self.joules * kept + stretch.joules;
        self.seconds = self.seconds * kept + stretch.seconds();
    }

    fn watts(&self) -> Reading<f64> {
        match self.seconds >= SHORTEST_IDLE.as_secs_f64() {
            true => Reading::Measured(self.joules / self.seconds),
            false => Reading::Unavailable("no idle time was seen".into()),
        }
    }
}

#[cfg(test)]
#[path = "energy_tests.rs"]
mod tests;
