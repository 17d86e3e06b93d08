//! `ortalk race`: one prompt down two lanes with one clock, as a table with a verdict or as one JSON object.

mod json;
mod text;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::bail;

use super::fetch::AfterFetch;
use super::run::{print_now, prompt};
use super::session;
use crate::cli::RaceArgs;
use crate::engine::{ChatMessage, Role};
use crate::race::{self, Order, Race, RaceEvent, Standing, Track, Wishes, is_loading};
use crate::recording::{Header, LaneClocks, Line, Recorder};
use crate::wire::Snapshot;

pub fn run(args: RaceArgs) -> anyhow::Result<ExitCode> {
    if args.chat.lane.is_some() || args.chat.policy.is_some() {
        bail!("a race takes its lanes from --lanes, as in --lanes cpu,npu; --lane and --policy are for one answer");
    }
    let prompt = prompt(args.prompt.as_deref())?;
    args.recording.record.as_deref().map(Recorder::check).transpose()?;
    let prepared = session::prepare(&args.chat, AfterFetch::Exit)?;
    let books = prepared.books("race");
    let engine = prepared.load(None)?;
    engine.wait_for_lanes(None);
    let snapshot = engine.snapshot();
    books.observe(&snapshot.lanes);
    let request = prepared.answers.request([ChatMessage::new(Role::User, prompt)]);
    let wishes = Wishes { lanes: args.lanes, rounds: args.rounds as usize, in_turn: args.in_turn };
    let plan = race::plan(request, &wishes, &snapshot)?;
    engine.check(&plan.request)?;

    let header = Header::now(books.prices().cloned());
    let recorder = args.recording.record.as_deref().map(|path| Recorder::create(path, &header)).transpose()?;
    let mut race = Race::new(plan.start.clone());
    if let Some(recorder) = &recorder {
        let now = Instant::now();
        recorder.note(now, Line::Engine { snapshot: Box::new(Snapshot::of(&snapshot, now)) });
        recorder.note(now, Line::Race { start: Box::new(plan.start.clone()), asks: true });
    }
    if let (Order::InTurn { why }, false) = (&plan.start.order, args.json) {
        eprintln!("ortalk: the lanes run one after the other: {why}");
    }
    let mut progress = Progress::new();
    let mut clocks = LaneClocks::default();
    let track = Track {
        submit: &|request| engine.submit(request),
        is_loading: &|lane| is_loading(&engine.snapshot(), lane),
        books: Some(&books),
        stop: &AtomicBool::new(false),
    };
    race::run(&plan, &track, &mut |event| {
        if let Some(recorder) = &recorder {
            let now = Instant::now();
            recorder.note(now, clocks.line(&event, now));
        }
        race.note(&event);
        progress.show(&race, &event);
    });
    progress.clear();
    books.observe(&engine.snapshot().lanes);
    if let Some(error) = recorder.and_then(Recorder::finish) {
        eprintln!("ortalk: {error}");
    }
    let shown = if args.json { format!("{}\n", json::as_json(&race)) } else { text::as_text(&race) };
    print_now(&shown)?;
    let all_done = race.racers.iter().all(|racer| racer.standing(race.over) == Standing::Done);
    Ok(if all_done { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// One line on standard error that says how far it is, for who watches.
struct Progress {
    watched: bool,
    shown: usize,
    last: Option<Instant>,
}

/// No person reads faster.
const STEP: std::time::Duration = std::time::Duration::from_millis(100);

impl Progress {
    fn new() -> Self {
        Self { watched: std::io::stderr().is_terminal(), shown: 0, last: None }
    }

    fn show(&mut self, race: &Race, event: &RaceEvent) {
        let is_due = self.last.is_none_or(|last| last.elapsed() >= STEP);
        if !self.watched || !(is_due || matches!(event, RaceEvent::Began { .. })) {
            return;
        }
        self.last = Some(Instant::now());
        let line = text::progress(race);
        let mut stderr = std::io::stderr().lock();
        let _ = write!(stderr, "\r{line:<width$}", width = self.shown);
        let _ = stderr.flush();
        self.shown = line.chars().count();
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.shown) > 0 {
            eprint!("\r{:79}\r", "");
        }
    }
}
