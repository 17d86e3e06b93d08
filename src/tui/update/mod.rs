//! What each event does: `update(&mut State, Event, now) -> Vec<Effect>`. Pure: no I/O and no clock of its own.
//!
//! Keys are in `keys`, commands in `commands`, the way of a message in `send`, what the engine reports in `engine`,
//! lists to choose from and pages to read in `list`, the palette of commands in `completion`, what is said of the answers
//! that follow in `settings`, themes in `looks`, another model in `models`, what is said and kept as a tree in `chats`,
//! races in `race`, recordings in `replay`, the mouse in `mouse`, copying in `copy`, panels in `panels`, what comes
//! around the composer in `writing`.

mod chats;
mod commands;
mod completion;
mod copy;
mod engine;
mod keys;
mod list;
mod looks;
mod models;
mod mouse;
mod panels;
mod race;
mod replay;
mod room;
mod send;
mod settings;
mod writing;

use std::time::Instant;

use super::completion::Completion;
use super::event::{Effect, Event, Exit, Signal, SuspendedBy};
use super::keys::Context;
use super::standing;
use super::state::{EngineState, QUIT_WINDOW, State};

pub use room::{objection as too_long, refuse};
pub use send::{return_queue, submit_now};

pub fn update(state: &mut State, event: Event, now: Instant) -> Vec<Effect> {
    let mut effects = Vec::new();
    state.now = now;
    match event {
        Event::Key(key) => keys::on_key(state, key, now, &mut effects),
        Event::Paste(text) if state.context() == Context::Chats => {
            chats::type_into_list(state, &text, &mut effects);
            state.dirty = true;
        }
        Event::Paste(_) if !state.context().types() && state.context() != Context::Message => {}
        Event::Paste(text) => {
            if !list::filter(state, &text) {
                state.chats.selected = None;
                state.overlay = None;
                state.completion = Completion::default();
                writing::paste(state, &text, now, &mut effects);
            }
            state.dirty = true;
        }
        Event::Resize { columns, rows } => {
            (state.columns, state.rows) = (columns, rows);
            state.dirty = true;
        }
        Event::Signal(Signal::Terminate(number)) => effects.push(Effect::Quit(Exit::Signal(number))),
        Event::Signal(Signal::Stop) => effects.push(Effect::Suspend { by: SuspendedBy::Signal }),
        Event::Signal(Signal::Continue) => effects.push(Effect::Repaint),
        Event::InputLost => effects.push(Effect::Quit(Exit::TerminalLost)),
        Event::Chats(news) => chats::on_news(state, news, now, &mut effects),
        Event::ModelsListed(_)
        | Event::ModelStage(_)
        | Event::EngineReleased
        | Event::ModelOpened(..)
        | Event::ModelRefused(_) => {
            models::on_event(state, event, now, &mut effects);
        }
        Event::LogRead(result) => list::show_log(state, result),
        Event::Tick => on_tick(state, now, &mut effects),
        Event::Race { number, event } => race::on_event(state, number, &event, &mut effects),
        Event::Played(timed) => replay::played(state, *timed, now),
        Event::PlayedAll => replay::over(state),
        Event::Counted { .. }
        | Event::FolderListed { .. }
        | Event::FileRead { .. }
        | Event::HistoryLoaded(_)
        | Event::HistoryLost(_)
        | Event::Edited(_) => writing::on_event(state, event, now, &mut effects),
        Event::Mouse(mouse) => mouse::on_mouse(state, mouse, now, &mut effects),
        Event::Clipboard(outcome) => copy::on_outcome(state, outcome, &mut effects),
        Event::EngineLoaded(_)
        | Event::EngineFailed(_)
        | Event::Snapshot(_)
        | Event::Generation(_)
        | Event::GenerationLost
        | Event::Previewed { .. }
        | Event::ConversationCounted { .. }
        | Event::Billed(_)
        | Event::Weighed(_)
        | Event::Device(_) => engine::on_event(state, event, now, &mut effects),
    }
    effects.extend(state.composer.take_unsaved().into_iter().map(Effect::Remember));
    looks::follow(state);
    standing::follow(state, &mut effects);
    chats::quit(state, &mut effects);
    effects
}

fn on_tick(state: &mut State, now: Instant, effects: &mut Vec<Effect>) {
    if state.quit_armed.is_some_and(|at| now >= at + QUIT_WINDOW) {
        state.quit_armed = None;
        state.dirty = true;
    }
    if matches!(state.engine, EngineState::Loading { .. }) || state.models.opening.is_some() {
        state.dirty = true; // it shows how long it takes
    }
    if state.held.has_come(now) {
        state.dirty = true;
    }
    if state.refresh.is_some_and(|due| now >= due) {
        state.refresh = None;
        effects.push(Effect::RefreshSnapshot);
    }
    if state.preview.due.is_some_and(|due| now >= due) {
        send::ask_router(state, effects);
    }
}

#[cfg(test)]
mod chats_tests;

#[cfg(test)]
mod tests;

#[cfg(test)]
mod thinking_tests;

#[cfg(test)]
mod panels_tests;

#[cfg(test)]
mod writing_tests;
