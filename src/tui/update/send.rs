//! The way of a message: typed, weighed by the router, queued, submitted, taken back.

use std::time::Instant;

use crate::engine::ChatRequest;

use super::super::answer::Answer;
use super::super::command::{self, Typed};
use super::super::composer::Draft;
use super::super::consent::{self, Gate};
use super::super::conversation::Level;
use super::super::event::Effect;
use super::super::state::{EngineState, PREVIEW_DELAY, State};
use super::super::writing::Writing;
use super::chats;
use super::commands::run_command;
use super::engine;
use super::room;
use super::writing;

/// The composer's text may have changed.
pub(super) fn typed(state: &mut State, now: Instant) {
    state.dirty = true;
    if nothing_to_send(state) {
        state.preview.due = None;
        state.preview.shown = None;
    } else {
        state.preview.due = Some(now + PREVIEW_DELAY);
    }
}

/// Asks the router about what is typed, unless it is busy or was asked already.
pub(super) fn ask_router(state: &mut State, effects: &mut Vec<Effect>) {
    state.preview.due = None;
    if state.preview.asked.is_some() || state.busy() || state.snapshot().is_none() || nothing_to_send(state) {
        return;
    }
    let revision = state.composer.revision();
    state.preview.asked = Some(revision);
    let request = state.request(state.composer.draft());
    // Where a person would be asked, the router speaks of what follows a yes.
    let allow_remote = request.allow_remote || consent::is_undecided(state);
    effects.push(Effect::Preview { revision, request: ChatRequest { allow_remote, ..request } });
}

pub(super) fn nothing_to_send(state: &State) -> bool {
    if chats::is_rewriting(state) {
        return true;
    }
    match command::parse(state.composer.text()) {
        Typed::Message(message) => message.text.trim().is_empty(),
        _ => true,
    }
}

pub(super) fn send(state: &mut State, now: Instant, effects: &mut Vec<Effect>) {
    if state.composer.text().trim().is_empty() {
        return;
    }
    if chats::is_rewriting(state) {
        return chats::keep_rewritten(state, now, effects);
    }
    if !matches!(command::parse(state.composer.text()), Typed::Message(_)) {
        return run_command(state, now, effects);
    }
    if matches!(state.engine, EngineState::Failed(_)) {
        state.hint = Some("there is no engine to answer".to_string());
        return;
    }
    if state.gate == Gate::Asking {
        return;
    }
    if let Some(reason) = chats::objection(state) {
        state.hint = Some(reason.to_owned());
        return;
    }
    if writing::waits_for_files(state, effects) {
        return;
    }
    let weighed = room::weighed_already(state);
    if let Some(objection) = weighed.and_then(room::objection) {
        state.hint = Some(objection);
        return;
    }
    let fits = weighed.is_some();
    let message = state.composer.take();
    state.writing = Writing::default();
    state.preview.shown = None;
    state.preview.due = None;
    state.conversation.follow();
    if state.busy() || state.snapshot().is_none() || state.gate != Gate::Open {
        state.queue.push(message);
    } else if !consent::hold(state, &message, effects) && (fits || !room::hold(state, &message, effects)) {
        submit_now(state, &message, now, effects);
    }
}

/// Sends what was typed, unless a person has to be asked; there must be an engine and no running answer.
pub(super) fn submit(state: &mut State, typed: &Draft, now: Instant, effects: &mut Vec<Effect>) {
    if !consent::hold(state, typed, effects) && !room::hold(state, typed, effects) {
        submit_now(state, typed, now, effects);
    }
}

pub fn submit_now(state: &mut State, typed: &Draft, now: Instant, effects: &mut Vec<Effect>) {
    let request = state.request(typed);
    let model = state.snapshot().map(|snapshot| snapshot.model.clone()).unwrap_or_default();
    let (message, _) = command::message(typed);
    let block = chats::begin(state, &message, model, effects);
    state.answer = Some(Answer::new(block, now));
    state.bill = None;
    effects.push(Effect::Submit(request));
}

/// Ends the running answer and keeps what it has said.
pub(super) fn cancel(state: &mut State, now: Instant, effects: &mut Vec<Effect>) {
    effects.push(Effect::CancelGeneration);
    engine::close_answer(state, "cancelled", Some((Level::Warning, "cancelled".to_string())), effects);
    return_queue(state, now);
    effects.push(Effect::RefreshSnapshot);
}

/// Gives messages that were not sent back to the composer: after a cancel nobody may want them any more.
pub fn return_queue(state: &mut State, now: Instant) {
    state.gate = Gate::Open;
    chats::take_back(state);
    if state.queue.is_empty() {
        return;
    }
    let mut drafts = std::mem::take(&mut state.queue);
    if !state.composer.is_empty() {
        drafts.push(state.composer.draft().clone());
    }
    state.composer.replace(Draft::join(drafts));
    typed(state, now);
}
