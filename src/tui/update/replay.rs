//! What the lines of a recording do to the screen: the same as what they were made of did.

use std::time::Instant;

use crate::bill::Bill;
use crate::recording::{Line, Timed};
use crate::store::Tree;
use crate::telemetry::Reading;

use super::super::answer::Answer;
use super::super::chats::Redo;
use super::super::composer::Draft;
use super::super::conversation::{Kind, Level};
use super::super::event::{Effect, Event};
use super::super::keys::Action;
use super::super::race::RaceScreen;
use super::super::state::{Overlay, State};
use super::commands::clear;
use super::{chats, engine, models, race};

/// A line whose time has come.
pub(super) fn played(state: &mut State, timed: Timed, now: Instant) {
    let Some(replay) = &mut state.replay else { return };
    replay.at = timed.at_ms.into();
    let submitted = replay.submitted.unwrap_or(now);
    let race_event = replay.clocks.event(&timed.line, now);
    // Nothing answers here, so what the screen would ask for is asked of nobody.
    let effects = &mut Vec::new();
    state.dirty = true;
    let event = match timed.line {
        Line::Engine { snapshot } => {
            let snapshot = snapshot.into_engine(now);
            if state.snapshot().is_some() { Event::Snapshot(snapshot) } else { Event::EngineLoaded(snapshot) }
        }
        Line::EngineFailed { error } => Event::EngineFailed(error),
        Line::Device { sample } => Event::Device(sample),
        Line::Answer { event } => match event.into_engine(submitted) {
            Some(event) => Event::Generation(event),
            None => return,
        },
        Line::Lost => Event::GenerationLost,
        Line::Bill { entry } => {
            let energy = Reading::Unavailable("it is a replay".to_owned());
            Event::Billed(Box::new(Bill { entry: *entry, energy, complaint: None }))
        }
        Line::Prompt { text, questions, continues, again } => {
            state.chats.redo = redo(state, &text, questions, continues, again);
            return ask(state, &text, now);
        }
        Line::Cancelled => {
            let ending = Some((Level::Warning, "cancelled".to_owned()));
            return engine::close_answer(state, "cancelled", ending, effects);
        }
        Line::Cleared => {
            chats::close(state, effects);
            return clear(state);
        }
        Line::Conversation { opened: true, records } => {
            let mut tree = Tree::default();
            records.0.iter().for_each(|record| tree.apply(record));
            return chats::show_opened(state, tree, now, effects);
        }
        Line::Conversation { opened: false, records } => return chats::follow_records(state, records.0, effects),
        Line::Notice { level, text } => {
            state.conversation.add(Kind::Notice(level.into()), &text);
            return;
        }
        Line::EngineReleased => return models::on_event(state, Event::EngineReleased, now, effects),
        Line::Race { start, asks } => {
            state.races += 1;
            state.race = Some(RaceScreen::new(state.races, *start, asks));
            state.overlay = Some(Overlay::Race);
            return;
        }
        Line::LaneBegan { .. } | Line::Lane { .. } | Line::LaneEnergy { .. } | Line::RaceOver { .. } => {
            if let Some(event) = race_event {
                race::on_event(state, state.races, &event, effects);
            }
            return;
        }
        Line::RaceClosed { lane } => {
            if let Some(screen) = &mut state.race {
                screen.look_at(lane);
                race::close(state, now, effects);
            }
            return;
        }
        Line::End | Line::Unknown => return,
    };
    engine::on_event(state, event, now, effects);
    // Lanes that load are told of by the next line.
    (state.refresh, state.preview.due) = (None, None);
}

pub(super) fn over(state: &mut State) {
    if let Some(replay) = &mut state.replay {
        (replay.over, replay.at) = (true, replay.length);
        state.dirty = true;
    }
}

fn ask(state: &mut State, text: &str, now: Instant) {
    let model = state.snapshot().map(|snapshot| snapshot.model.clone()).unwrap_or_default();
    let block = chats::begin(state, &Draft::from(text), model, &mut Vec::new());
    state.answer = Some(Answer::new(block, now));
    state.bill = None;
    if let Some(replay) = &mut state.replay {
        replay.submitted = Some(now);
    }
}

/// What of the conversation gives way to a question with so many above it.
fn redo(state: &State, text: &str, questions: usize, continues: bool, again: Option<bool>) -> Option<Redo> {
    let blocks = state.conversation.blocks();
    if continues {
        let answer = blocks.iter().rev().find(|block| matches!(block.kind, Kind::Answer(_)))?;
        return answer.message.map(Redo::Continue);
    }
    let old = blocks.iter().filter(|block| block.kind == Kind::User).nth(questions)?;
    let again = again.unwrap_or_else(|| old.shown() == text);
    old.message.map(|id| if again { Redo::Again(id) } else { Redo::Edit(id) })
}

/// Whether a replay takes the action: nothing can be asked there.
pub(super) fn act(state: &mut State, action: Action) -> bool {
    if state.replay.is_none() {
        return false;
    }
    match action {
        // What is played is not cancelled.
        Action::Escape if state.overlay.is_none() => {
            state.conversation.follow();
            true
        }
        Action::Send | Action::NewLine | Action::Editor | Action::History | Action::Yank if state.overlay.is_none() => {
            say_that_nobody_answers(state);
            true
        }
        _ => false,
    }
}

pub(super) fn say_that_nobody_answers(state: &mut State) {
    let key = state.keys.say(Action::Interrupt);
    state.hint = Some(format!("this is a replay: nobody answers; {key} twice leaves"));
}

/// Space: stops and goes on.
pub(super) fn pause(state: &mut State, effects: &mut Vec<Effect>) {
    if let Some(replay) = state.replay.as_mut().filter(|replay| !replay.over) {
        replay.paused = !replay.paused;
        effects.push(Effect::PauseReplay(replay.paused));
    }
}
