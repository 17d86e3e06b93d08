//! The race on the screen: how it stands, which lane the reader looks at, and the thread that runs it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use ratatui::layout::{Position, Rect};

use crate::bill::Books;
use crate::engine::LaneId;
use crate::race::verdict::{Measure, compare};
use crate::race::{self, Plan, Race, RaceEvent, Racer, Start, Track, is_loading};

use super::backend::Backend;
use super::block::Reading;
use super::event::Event;
use super::race_text::RaceText;

#[derive(Debug, Clone)]
pub struct RaceScreen {
    /// Reports of an earlier race have another number.
    pub number: u64,
    pub race: Race,
    /// What each of the racers says.
    pub texts: Vec<RaceText>,
    /// Of the racers: the one whose text scrolls, and whose answer is kept.
    pub focus: usize,
    /// The reader chose it.
    chosen: bool,
    /// The page stands in the place of the texts.
    pub reads_page: bool,
    page: Page,
    /// It asks something new, which becomes part of the conversation.
    pub asks: bool,
}

/// What is cut elsewhere on the screen, to be read as a whole, as it was laid out last.
#[derive(Debug, Clone, Copy, Default)]
struct Page {
    has_rows: bool,
    /// The first row in view, and the last one that may be.
    top: usize,
    last_top: usize,
}

impl RaceScreen {
    pub fn new(number: u64, start: Start, asks: bool) -> Self {
        let texts = start.entrants.iter().map(RaceText::new).collect();
        Self {
            number,
            race: Race::new(start),
            texts,
            focus: 0,
            chosen: false,
            reads_page: false,
            page: Page::default(),
            asks,
        }
    }

    pub fn note(&mut self, event: &RaceEvent) {
        self.race.note(event);
        let at = |lane: &LaneId| self.race.racers.iter().position(|racer| racer.entrant.lane == *lane);
        match event {
            RaceEvent::Began { lane, .. } => {
                if let Some(text) = at(lane).and_then(|at| self.texts.get_mut(at)) {
                    text.begin();
                }
            }
            RaceEvent::Answer { lane, event } => {
                if let Some(at) = at(lane)
                    && let (Some(text), Some(run)) = (self.texts.get_mut(at), self.race.racers[at].shown())
                {
                    text.note(event, run);
                }
            }
            RaceEvent::Energy { .. } => {}
            // One begins to read it.
            RaceEvent::Over { .. } => self.texts.iter_mut().for_each(|text| {
                text.end();
                text.follows = false;
            }),
        }
        self.follow();
    }

    pub fn is_over(&self) -> bool {
        self.race.over.is_some()
    }

    pub fn focused(&self) -> Option<&Racer> {
        self.race.racers.get(self.focus)
    }

    /// Follows the lane that runs, and in the end the one that won, until the reader has chosen one.
    fn follow(&mut self) {
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
        self.focus = at.unwrap_or(self.focus);
    }

    /// The reader looks at the next lane, or at the one before; behind the last one at the page, where there is one.
    pub fn turn(&mut self, step: isize) {
        let lanes = self.race.racers.len();
        let stops = (lanes + usize::from(self.page.has_rows)) as isize;
        if stops > 0 {
            let at = if self.reads_page { lanes } else { self.focus };
            let next = (at as isize + step).rem_euclid(stops) as usize;
            self.reads_page = next == lanes;
            self.page.top = 0;
            if !self.reads_page {
                (self.focus, self.chosen) = (next, true);
            }
        }
    }

    /// Whether the reader comes to the page next.
    pub fn turns_to_page(&self) -> bool {
        self.page.has_rows && !self.reads_page && self.focus + 1 == self.race.racers.len()
    }

    /// The page has so many rows, and there is room for `height` of them.
    pub fn lay_out_page(&mut self, rows: usize, height: usize) {
        self.page.has_rows = rows > 0;
        self.reads_page &= rows > 0;
        self.page.last_top = rows.saturating_sub(height);
        self.page.top = self.page.top.min(self.page.last_top);
    }

    /// The first row of the page that is in view.
    pub fn page_top(&self) -> usize {
        self.page.top
    }

    /// The reader looks at the lane whose text stands there, if one does.
    pub fn point_at(&mut self, place: Position) {
        if let Some(at) = self.texts.iter().position(|text| text.area.contains(place)) {
            (self.focus, self.chosen) = (at, true);
        }
    }

    /// Scrolls what the reader looks at.
    pub fn scroll_by(&mut self, rows: isize) {
        if self.reads_page {
            self.page.top = self.page.top.saturating_add_signed(rows).min(self.page.last_top);
        } else if let Some(text) = self.texts.get_mut(self.focus) {
            text.scroll_by(rows);
        }
    }

    /// Wraps what is new for these places, each with its racer; says whether there is more code to read.
    pub fn lay_out(&mut self, places: &[(usize, Rect)], unfolded: bool, source: bool) -> bool {
        let mut unread = false;
        for (index, text) in self.texts.iter_mut().enumerate() {
            let area = places.iter().find(|(racer, _)| *racer == index).map_or(Rect::ZERO, |(_, area)| *area);
            if !area.is_empty() {
                unread |= text.lay_out(area, Reading { columns: area.width.into(), unfolded, source });
            } else {
                text.area = area;
            }
        }
        unread
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
