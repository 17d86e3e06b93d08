//! Plays a recording into the screen: a thread sends its lines when their time has come, and can be paused.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::recording::{LaneClocks, Recording, Timed};

use super::event::Event;

/// How the screen sees the recording that it plays.
#[derive(Debug, Clone)]
pub struct Replay {
    pub speed: f64,
    pub length: Duration,
    /// Of the line that was played last.
    pub at: Duration,
    pub paused: bool,
    pub over: bool,
    /// When the running answer was asked for.
    pub submitted: Option<Instant>,
    pub clocks: LaneClocks,
}

impl Replay {
    pub fn new(recording: &Recording, speed: f64) -> Self {
        Self {
            speed,
            length: recording.length(),
            at: Duration::ZERO,
            paused: false,
            over: false,
            submitted: None,
            clocks: LaneClocks::default(),
        }
    }

    /// `replay 0:12/1:30`, and how it stands.
    pub fn label(&self) -> String {
        let clock = |time: Duration| format!("{}:{:02}", time.as_secs() / 60, time.as_secs() % 60);
        let speed = if (self.speed - 1.0).abs() < 1e-9 { String::new() } else { format!(" {}x", self.speed) };
        let state = match (self.over, self.paused) {
            (true, _) => " ended",
            (false, true) => " paused",
            (false, false) => "",
        };
        format!("replay {}/{}{speed}{state}", clock(self.at), clock(self.length))
    }
}

#[derive(Debug, Default)]
struct Control {
    paused: bool,
    stopped: bool,
}

/// The thread that plays; it ends when this is dropped.
pub struct Player(Arc<(Mutex<Control>, Condvar)>);

impl Player {
    pub fn start(recording: Recording, speed: f64, send: impl Fn(Event) + Send + 'static) -> std::io::Result<Self> {
        let shared = Arc::new((Mutex::new(Control::default()), Condvar::new()));
        let control = shared.clone();
        std::thread::Builder::new().name("replay".into()).spawn(move || {
            let mut pace = Pace { now: Instant::now(), speed, played: Duration::ZERO };
            for timed in recording.lines {
                if !pace.wait_for(&timed, &control) {
                    return;
                }
                send(Event::Played(Box::new(timed)));
            }
            send(Event::PlayedAll);
        })?;
        Ok(Self(shared))
    }

    pub fn pause(&self, paused: bool) {
        self.change(|control| control.paused = paused);
    }

    fn change(&self, change: impl FnOnce(&mut Control)) {
        let (control, changed) = &*self.0;
        change(&mut control.lock().unwrap_or_else(PoisonError::into_inner));
        changed.notify_all();
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        self.change(|control| control.stopped = true);
    }
}

/// How far the recording is: `played` of it at `now`.
struct Pace {
    now: Instant,
    speed: f64,
    played: Duration,
}

impl Pace {
    /// False where it was stopped.
    fn wait_for(&mut self, timed: &Timed, control: &(Mutex<Control>, Condvar)) -> bool {
        let at: Duration = timed.at_ms.into();
        let (control, changed) = control;
        let mut control = control.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if control.stopped {
                return false;
            }
            if control.paused {
                self.advance();
                control = changed.wait(control).unwrap_or_else(PoisonError::into_inner);
                // The pause is no part of it.
                self.now = Instant::now();
                continue;
            }
            self.advance();
            let left = at.saturating_sub(self.played).div_f64(self.speed);
            if left.is_zero() {
                return true;
            }
            control = changed.wait_timeout(control, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn advance(&mut self) {
        let now = Instant::now();
        self.played += now.duration_since(self.now).mul_f64(self.speed);
        self.now = now;
    }
}
