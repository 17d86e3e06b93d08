//! The race on the screen: how it stands, which lane the reader looks at, and the thread that runs it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crate::bill::Books;
use crate::engine::LaneId;
use crate::race::verdict::{Measure, compare};
use crate::race::{self, Plan, Race, Racer, Start, Track, is_loading};

use super::backend::Backend;
use super::event::Event;

#[derive(Debug, Clone)]
pub struct RaceScreen {
    /// Reports of an earlier race have another number.
    pub number: u64,
    pub race: Race,
    /// Of the racers: the one whose text scrolls, and whose answer is kept.
    pub focus: usize,
    /// The reader chose it.
    chosen: bool,
    /// Rows above the end of the focused text, or above its beginning where it is over.
    pub scroll: usize,
    /// It asks something new, which becomes part of the conversation.
    pub asks: bool,
}

impl RaceScreen {
    pub fn new(number: u64, start: Start, asks: bool) -> Self {
        Self { number, race: Race::new(start), focus: 0, chosen: false, scroll: 0, asks }
    }

    pub fn is_over(&self) -> bool {
        self.race.over.is_some()
    }

    pub fn focused(&self) -> Option<&Racer> {
        self.race.racers.get(self.focus)
    }

    /// Follows the lane that runs, and in the end the one that won, until the reader has chosen one.
    pub fn follow(&mut self) {
        if self.chosen {
            return;
        }
        let compared = if self.is_over() { compare(&self.race) } else { Vec::new() };
        let won = |measure: Measure| compared.iter().find(|found| found.measure == measure).map(|found| found.winner);
        let done = || self.race.racers.iter().find(|racer| racer.done().next().is_some());
        let ended = || done().filter(|_| self.is_over()).map(|racer| racer.entrant.lane);
        let lane = won(Measure::Rate).or_else(ended).or_else(|| self.race.running());
        self.look_at(lane);
    }

    pub fn look_at(&mut self, lane: Option<LaneId>) {
        let at = self.race.racers.iter().position(|racer| Some(racer.entrant.lane) == lane);
        if let Some(at) = at.filter(|at| *at != self.focus) {
            (self.focus, self.scroll) = (at, 0);
        }
    }

    /// The reader looks at the next lane, or at the one before.
    pub fn turn(&mut self, step: isize) {
        let count = self.race.racers.len() as isize;
        if count > 0 {
            self.focus = (self.focus as isize + step).rem_euclid(count) as usize;
            (self.chosen, self.scroll) = (true, 0);
        }
    }
}

/// A race that runs; it ends when this is dropped.
pub struct RunningRace {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl RunningRace {
    /// Ends it, and gives the thread that does.
    pub fn stop(mut self) -> Option<JoinHandle<()>> {
        self.thread.take()
    }
}

impl Drop for RunningRace {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Runs a race on a thread of its own, which sends what happens.
pub fn spawn(
    backend: Arc<dyn Backend>,
    books: Option<Books>,
    plan: Plan,
    number: u64,
    send: impl Fn(Event) + Send + 'static,
) -> std::io::Result<RunningRace> {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let thread = std::thread::Builder::new().name("race".into()).spawn(move || {
        let track = Track {
            submit: &|request| backend.submit(request),
            is_loading: &|lane| is_loading(&backend.snapshot(), lane),
            books: books.as_ref(),
            stop: &stopped,
        };
        race::run(&plan, &track, &mut |event| {
            send(Event::Race { number, event: Box::new(event) });
        });
    })?;
    Ok(RunningRace { stop, thread: Some(thread) })
}
