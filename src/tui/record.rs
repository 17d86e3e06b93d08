//! Writes what the screen shows into a recording: what comes from outside the reader, and what is sent.

use std::time::Instant;

use crate::engine::LaneId;
use crate::recording::{LaneClocks, Line, Recorder};
use crate::wire;

use super::conversation::Kind;
use super::event::{Effect, Event};
use super::state::State;

pub struct ScreenRecorder {
    recorder: Recorder,
    /// When the running answer was asked for.
    submitted: Option<Instant>,
    clocks: LaneClocks,
    was_empty: bool,
    /// The lane that is looked at in the race on the screen.
    race: Option<Option<LaneId>>,
}

impl ScreenRecorder {
    pub fn new(recorder: Recorder) -> Self {
        Self { recorder, submitted: None, clocks: LaneClocks::default(), was_empty: true, race: None }
    }

    /// Before `update` has it.
    pub fn note(&mut self, event: &Event, now: Instant) {
        let line = match event {
            Event::EngineLoaded(snapshot) | Event::Snapshot(snapshot) | Event::ModelOpened(snapshot, _) => {
                Line::Engine { snapshot: Box::new(wire::Snapshot::of(snapshot, now)) }
            }
            Event::EngineFailed(error) => Line::EngineFailed { error: error.clone() },
            Event::Device(sample) => Line::Device { sample: sample.clone() },
            Event::Generation(event) => {
                let event = Box::new(wire::Event::of(event, self.submitted.unwrap_or(now)));
                Line::Answer { event }
            }
            Event::GenerationLost => Line::Lost,
            Event::Billed(bill) => Line::Bill { entry: Box::new(bill.entry.clone()) },
            Event::Race { event, .. } => self.clocks.line(event, now),
            _ => return,
        };
        self.recorder.note(now, line);
    }

    /// What `update` made of it, and what it wants.
    pub fn note_effects(&mut self, effects: &[Effect], state: &State, now: Instant) {
        let is_empty = state.conversation.is_empty();
        let was_empty = std::mem::replace(&mut self.was_empty, is_empty);
        if is_empty && !was_empty {
            self.recorder.note(now, Line::Cleared);
        }
        let race = state.race.as_ref().map(|screen| screen.focused().map(|racer| racer.entrant.lane));
        if let (Some(lane), None) = (std::mem::replace(&mut self.race, race), race) {
            self.recorder.note(now, Line::RaceClosed { lane });
        }
        for effect in effects {
            match effect {
                Effect::Submit(request) => {
                    self.submitted = Some(now);
                    // As it is shown: what was attached to it is not.
                    let mut asked = state.conversation.blocks().iter().filter(|block| block.kind == Kind::User);
                    let questions = asked.clone().count().saturating_sub(1);
                    let text = asked.next_back().map(|block| block.shown().to_owned()).unwrap_or_default();
                    self.recorder.note(now, Line::Prompt { text, questions, continues: request.continue_last });
                }
                Effect::CancelGeneration => self.recorder.note(now, Line::Cancelled),
                Effect::Race { plan, .. } => {
                    let asks = state.race.as_ref().is_some_and(|screen| screen.asks);
                    self.recorder.note(now, Line::Race { start: Box::new(plan.start.clone()), asks });
                }
                Effect::CancelRace => self.recorder.note(now, Line::RaceOver { cancelled: true }),
                _ => {}
            }
        }
    }

    /// What went wrong, once.
    pub fn failure(&self) -> Option<String> {
        self.recorder.failure().map(|error| error.to_string())
    }
}
