//! Writes what the screen shows into a recording: what comes from outside the reader, and what is sent.

use std::time::Instant;

use crate::engine::{ChatRequest, GenerationEvent, LaneId};
use crate::recording::{LaneClocks, Line, NoticeLevel, Recorder, Records};
use crate::store::Outline;
use crate::store::keeper::Report;
use crate::wire;

use super::chats::News;
use super::conversation::{Block, Kind, Level};
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
    /// What the event that was noted last does to the conversation, but for asking and answering.
    does: Does,
    /// The reader of its line says the same notice.
    tells: bool,
    /// The conversation as the recording has it.
    outline: Outline,
    /// Notices in it.
    notices: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Does {
    Nothing,
    /// Another conversation is shown.
    Open,
    /// What the state says.
    Changes,
}

impl ScreenRecorder {
    pub fn new(recorder: Recorder) -> Self {
        Self {
            recorder,
            submitted: None,
            clocks: LaneClocks::default(),
            was_empty: true,
            race: None,
            does: Does::Nothing,
            tells: false,
            outline: Outline::default(),
            notices: 0,
        }
    }

    /// Before `update` has it.
    pub fn note(&mut self, event: &Event, now: Instant) {
        self.does = match event {
            Event::Chats(News::Kept(Report::Opened(_))) => Does::Open,
            Event::EngineLoaded(_)
            | Event::EngineFailed(_)
            | Event::EngineReleased
            | Event::Snapshot(_)
            | Event::Device(_)
            | Event::Generation(_)
            | Event::GenerationLost
            | Event::Race { .. } => Does::Nothing,
            _ => Does::Changes,
        };
        self.tells = matches!(event, Event::EngineFailed(_) | Event::Generation(GenerationEvent::ContextTrimmed(_)));
        let line = match event {
            Event::EngineLoaded(snapshot) | Event::Snapshot(snapshot) | Event::ModelOpened(snapshot, _) => {
                Line::Engine { snapshot: Box::new(wire::Snapshot::of(snapshot, now)) }
            }
            Event::EngineReleased => Line::EngineReleased,
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
            (self.outline, self.notices) = (Outline::of(&state.chats.tree), 0);
        }
        let race = state.race.as_ref().map(|screen| screen.focused().map(|racer| racer.entrant.lane));
        if let (Some(lane), None) = (std::mem::replace(&mut self.race, race), race) {
            self.recorder.note(now, Line::RaceClosed { lane });
            self.tells = true;
            self.outline = Outline::of(&state.chats.tree);
        }
        for effect in effects {
            match effect {
                Effect::Submit(request) => self.note_prompt(request, state, now),
                Effect::CancelGeneration => self.recorder.note(now, Line::Cancelled),
                Effect::Race { plan, .. } => {
                    let asks = state.race.as_ref().is_some_and(|screen| screen.asks);
                    self.recorder.note(now, Line::Race { start: Box::new(plan.start.clone()), asks });
                }
                Effect::CancelRace => self.recorder.note(now, Line::RaceOver { cancelled: true }),
                _ => {}
            }
        }
        self.note_conversation(state, now);
        self.note_notices(state, now);
    }

    fn note_prompt(&mut self, request: &ChatRequest, state: &State, now: Instant) {
        self.submitted = Some(now);
        // As it is shown: what was attached to it is not.
        let mut asked = state.conversation.blocks().iter().filter(|block| block.kind == Kind::User);
        let questions = asked.clone().count().saturating_sub(1);
        let asked = asked.next_back();
        let text = asked.map(|block| block.shown().to_owned()).unwrap_or_default();
        // A new question and its answer come together.
        let answers = asked.and_then(|block| block.message).zip(state.chats.answering);
        let again = answers.map(|(question, answer)| question + 1 != answer).filter(|_| !request.continue_last);
        self.recorder.note(now, Line::Prompt { text, questions, continues: request.continue_last, again });
        self.outline = Outline::of(&state.chats.tree);
    }

    /// What was done to the conversation but for asking and answering.
    fn note_conversation(&mut self, state: &State, now: Instant) {
        let tree = &state.chats.tree;
        match self.does {
            Does::Nothing => return,
            Does::Open => {
                self.recorder.note(now, Line::Conversation { opened: true, records: Records::shown(tree) });
                self.notices = 0;
            }
            Does::Changes => {
                let changes = self.outline.changes(tree);
                if changes.is_empty() {
                    return;
                }
                self.recorder.note(now, Line::Conversation { opened: false, records: Records::of(tree, changes) });
            }
        }
        self.outline = Outline::of(tree);
    }

    /// What ortalk has said of its own, unless the reader of the recording says it, too.
    fn note_notices(&mut self, state: &State, now: Instant) {
        let notice = |block: &Block| match block.kind {
            Kind::Notice(level) => Some((level, block.shown().to_owned())),
            Kind::User | Kind::Answer(_) => None,
        };
        let blocks = state.conversation.blocks().iter();
        let count = blocks.clone().filter(|block| matches!(block.kind, Kind::Notice(_))).count();
        let new = count.saturating_sub(self.notices);
        self.notices = count;
        if self.tells || new == 0 {
            return;
        }
        let mut notices: Vec<_> = blocks.rev().filter_map(notice).take(new).collect();
        notices.reverse();
        for (level, text) in notices {
            self.recorder.note(now, Line::Notice { level: level.into(), text });
        }
    }

    /// What went wrong, once.
    pub fn failure(&self) -> Option<String> {
        self.recorder.failure().map(|error| error.to_string())
    }
}

impl From<Level> for NoticeLevel {
    fn from(level: Level) -> Self {
        match level {
            Level::Info => Self::Info,
            Level::Warning => Self::Warning,
            Level::Error => Self::Error,
        }
    }
}

impl From<NoticeLevel> for Level {
    fn from(level: NoticeLevel) -> Self {
        match level {
            NoticeLevel::Info => Self::Info,
            NoticeLevel::Warning => Self::Warning,
            NoticeLevel::Error => Self::Error,
        }
    }
}
