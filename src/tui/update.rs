//! What each event does: `update(&mut State, Event, now) -> Vec<Effect>`. Pure: no I/O and no clock of its own.
//!
//! Keys are here; what the engine reports is in `update_engine`.

use std::time::Instant;

use crossterm::event::KeyEvent;

use crate::engine::{ChatRequest, LaneId, LaneState};
use crate::ledger::Total;

use super::answer::Answer;
use super::command::{self, Typed};
use super::consent::{self, Gate};
use super::conversation::{AnswerHeader, Kind, Level};
use super::event::{Effect, Event, Exit, Signal, SuspendedBy};
use super::keys::{self, Action, Meaning};
use super::layout::Mode;
use super::panels;
use super::state::{EngineState, Overlay, PREVIEW_DELAY, QUIT_WINDOW, State};
use super::update_engine;

pub fn update(state: &mut State, event: Event, now: Instant) -> Vec<Effect> {
    let mut effects = Vec::new();
    state.now = now;
    match event {
        Event::Key(key) => on_key(state, key, now, &mut effects),
        Event::Paste(text) => {
            state.composer.insert(&text);
            state.overlay = None;
            typed(state, now);
        }
        Event::Resize { columns, rows } => {
            (state.columns, state.rows) = (columns, rows);
            state.dirty = true;
        }
        Event::Signal(Signal::Terminate(number)) => effects.push(Effect::Quit(Exit::Signal(number))),
        Event::Signal(Signal::Stop) => effects.push(Effect::Suspend { by: SuspendedBy::Signal }),
        Event::Signal(Signal::Continue) => effects.push(Effect::Repaint),
        Event::InputLost => effects.push(Effect::Quit(Exit::TerminalLost)),
        Event::Tick => on_tick(state, now, &mut effects),
        Event::EngineLoaded(_)
        | Event::EngineFailed(_)
        | Event::Snapshot(_)
        | Event::Generation(_)
        | Event::GenerationLost
        | Event::Previewed { .. }
        | Event::Billed(_)
        | Event::Weighed(_)
        | Event::Device(_) => update_engine::on_event(state, event, now, &mut effects),
    }
    effects
}

fn on_tick(state: &mut State, now: Instant, effects: &mut Vec<Effect>) {
    if state.quit_armed.is_some_and(|at| now >= at + QUIT_WINDOW) {
        state.quit_armed = None;
        state.dirty = true;
    }
    if matches!(state.engine, EngineState::Loading { .. }) {
        state.dirty = true; // it shows how long it takes
    }
    if state.refresh.is_some_and(|due| now >= due) {
        state.refresh = None;
        effects.push(Effect::RefreshSnapshot);
    }
    if state.preview.due.is_some_and(|due| now >= due) {
        ask_router(state, effects);
    }
}

/// Asks the router about what is typed, unless it is busy or was asked already.
fn ask_router(state: &mut State, effects: &mut Vec<Effect>) {
    state.preview.due = None;
    if state.preview.asked.is_some() || state.busy() || state.snapshot().is_none() || nothing_to_send(state) {
        return;
    }
    let revision = state.composer.revision();
    state.preview.asked = Some(revision);
    let request = state.request(state.composer.text());
    // Where a person would be asked, the router speaks of what follows a yes.
    let allow_remote = request.allow_remote || consent::is_undecided(state);
    effects.push(Effect::Preview { revision, request: ChatRequest { allow_remote, ..request } });
}

fn nothing_to_send(state: &State) -> bool {
    match command::parse(state.composer.text()) {
        Typed::Message(message) => message.text.trim().is_empty(),
        _ => true,
    }
}

fn on_key(state: &mut State, key: KeyEvent, now: Instant, effects: &mut Vec<Effect>) {
    state.dirty = true;
    state.hint = None;
    let meaning = keys::meaning(key);
    let armed = state.quit_armed.take();
    match meaning {
        Meaning::Type(c) if state.gate == Gate::Asking => consent::answer(state, c, now, effects),
        Meaning::Type(c) => {
            close_help(state);
            state.composer.insert(c.encode_utf8(&mut [0; 4]));
            typed(state, now);
        }
        Meaning::Nothing => {}
        Meaning::Do(Action::Interrupt) => interrupt(state, armed, now, effects),
        Meaning::Do(action) => act(state, action, now, effects),
    }
}

fn act(state: &mut State, action: Action, now: Instant, effects: &mut Vec<Effect>) {
    if state.overlay == Some(Overlay::Help) && scroll_help(state, action) {
        return;
    }
    let columns = state.composer_columns();
    match action {
        Action::Send => {
            close_help(state);
            send(state, now, effects);
        }
        Action::NewLine => {
            state.composer.insert("\n");
            typed(state, now);
        }
        Action::Escape => {
            if state.overlay.take().is_none() {
                if state.busy() {
                    cancel(state, now, effects);
                } else if !state.queue.is_empty() {
                    return_queue(state, now);
                } else if !state.conversation.is_following() {
                    state.conversation.follow();
                }
            }
        }
        Action::Interrupt => {}
        Action::DeleteOrQuit if state.composer.is_empty() => effects.push(Effect::Quit(Exit::Quit)),
        Action::DeleteOrQuit => {
            state.composer.delete(super::composer::Motion::Right, false);
            typed(state, now);
        }
        Action::Suspend => effects.push(Effect::Suspend { by: SuspendedBy::Key }),
        Action::Repaint => effects.push(Effect::Repaint),
        Action::Help => {
            state.help_top = 0;
            state.overlay = if state.overlay == Some(Overlay::Help) { None } else { Some(Overlay::Help) };
        }
        Action::Thinking => state.conversation.toggle_thinking(),
        Action::NextPanel => cycle_panel(state, 1),
        Action::PreviousPanel => cycle_panel(state, -1),
        Action::PageUp => scroll(state, |c| c.page(-1)),
        Action::PageDown => scroll(state, |c| c.page(1)),
        Action::ScrollUp => scroll(state, |c| c.scroll_by(-1)),
        Action::ScrollDown => scroll(state, |c| c.scroll_by(1)),
        Action::Top => scroll(state, |c| c.scroll_to(0)),
        Action::Follow => state.conversation.follow(),
        Action::Home if state.composer.is_empty() => scroll(state, |c| c.scroll_to(0)),
        Action::Home => state.composer.move_cursor(super::composer::Motion::LineStart),
        Action::End if state.composer.is_empty() || !state.conversation.is_following() => state.conversation.follow(),
        Action::End => state.composer.move_cursor(super::composer::Motion::LineEnd),
        Action::Up => {
            state.composer.up(columns);
            typed(state, now);
        }
        Action::Down => {
            state.composer.down(columns);
            typed(state, now);
        }
        Action::Move(motion) => state.composer.move_cursor(motion),
        Action::Delete(motion) => {
            state.composer.delete(motion, false);
            typed(state, now);
        }
        Action::Kill(motion) => {
            state.composer.delete(motion, true);
            typed(state, now);
        }
        Action::Yank => {
            state.composer.yank();
            typed(state, now);
        }
    }
}

/// The keys that scroll, while the help is open. The drawing keeps it within the text.
fn scroll_help(state: &mut State, action: Action) -> bool {
    let page = isize::from(state.rows as i16 / 2).max(1);
    let step = match action {
        Action::Up | Action::ScrollUp => -1,
        Action::Down | Action::ScrollDown => 1,
        Action::PageUp => -page,
        Action::PageDown => page,
        _ => return false,
    };
    state.help_top = state.help_top.saturating_add_signed(step);
    true
}

fn scroll(state: &mut State, by: impl FnOnce(&mut super::conversation::Conversation)) {
    state.lay_out();
    by(&mut state.conversation);
}

fn close_help(state: &mut State) {
    if state.overlay == Some(Overlay::Help) {
        state.overlay = None;
    }
}

/// The composer's text may have changed.
fn typed(state: &mut State, now: Instant) {
    state.dirty = true;
    if nothing_to_send(state) {
        state.preview.due = None;
        state.preview.shown = None;
    } else {
        state.preview.due = Some(now + PREVIEW_DELAY);
    }
}

/// Opens the next of the panels that the layout has no room for, and after the last one none.
fn cycle_panel(state: &mut State, step: isize) {
    let layout = state.layout();
    let hidden = if layout.mode == Mode::Wide { panels::folded(state, layout.panels) } else { panels::ALL.to_vec() };
    if hidden.is_empty() {
        state.overlay = None;
        return;
    }
    let current = match state.overlay {
        Some(Overlay::Panel(panel)) => hidden.iter().position(|p| *p == panel).map(|at| at as isize),
        Some(Overlay::Help) | None => None,
    };
    let next = match current {
        Some(at) => at + step,
        None if step > 0 => 0,
        None => hidden.len() as isize - 1,
    };
    state.overlay = usize::try_from(next).ok().and_then(|at| hidden.get(at)).map(|panel| Overlay::Panel(*panel));
}

fn interrupt(state: &mut State, armed: Option<Instant>, now: Instant, effects: &mut Vec<Effect>) {
    if armed.is_some_and(|at| now < at + QUIT_WINDOW) {
        effects.push(Effect::Quit(Exit::Quit));
        return;
    }
    state.overlay = None;
    if state.busy() {
        cancel(state, now, effects);
    } else if !state.composer.is_empty() || !state.queue.is_empty() {
        state.queue.clear();
        state.gate = Gate::Open;
        state.composer.clear();
        typed(state, now);
    }
    state.quit_armed = Some(now);
}

/// Ends the running answer and keeps what it has said.
fn cancel(state: &mut State, now: Instant, effects: &mut Vec<Effect>) {
    effects.push(Effect::CancelGeneration);
    update_engine::close_answer(state, Some((Level::Warning, "cancelled".to_string())));
    return_queue(state, now);
    effects.push(Effect::RefreshSnapshot);
}

/// Gives messages that were not sent back to the composer: after a cancel nobody may want them any more.
pub fn return_queue(state: &mut State, now: Instant) {
    state.gate = Gate::Open;
    if state.queue.is_empty() {
        return;
    }
    let mut text = std::mem::take(&mut state.queue).join("\n");
    if !state.composer.is_empty() {
        text = format!("{text}\n{}", state.composer.text());
    }
    state.composer.replace(text);
    typed(state, now);
}

fn send(state: &mut State, now: Instant, effects: &mut Vec<Effect>) {
    if state.composer.text().trim().is_empty() {
        return;
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
    let message = state.composer.take();
    state.preview.shown = None;
    state.preview.due = None;
    state.conversation.follow();
    if state.busy() || state.snapshot().is_none() || state.gate != Gate::Open {
        state.queue.push(message);
    } else {
        submit(state, &message, now, effects);
    }
}

/// Sends what was typed, unless a person has to be asked; there must be an engine and no running answer.
pub fn submit(state: &mut State, typed: &str, now: Instant, effects: &mut Vec<Effect>) {
    if !consent::hold(state, typed, effects) {
        submit_now(state, typed, now, effects);
    }
}

pub fn submit_now(state: &mut State, typed: &str, now: Instant, effects: &mut Vec<Effect>) {
    let request = state.request(typed);
    let model = state.snapshot().map(|snapshot| snapshot.model.clone()).unwrap_or_default();
    state.conversation.add(Kind::User, command::message(typed).text);
    let header = AnswerHeader { model, running: true, ..AnswerHeader::default() };
    let block = state.conversation.add(Kind::Answer(header), "");
    state.answer = Some(Answer::new(block, now));
    state.bill = None;
    effects.push(Effect::Submit(request));
}

fn run_command(state: &mut State, now: Instant, effects: &mut Vec<Effect>) {
    let typed = state.composer.text().to_string();
    match command::parse(&typed) {
        Typed::Quit => effects.push(Effect::Quit(Exit::Quit)),
        Typed::Help => {
            state.composer.take();
            state.overlay = Some(Overlay::Help);
        }
        Typed::Clear => {
            state.composer.take();
            if state.busy() {
                cancel(state, now, effects);
            }
            state.conversation.clear();
            state.queue.clear();
            consent::forget(state);
            state.answer = None;
            (state.bill, state.spent) = (None, Total::default());
            state.overlay = None;
        }
        Typed::Lane(lane) => {
            let absent = lane.and_then(|id| absence(state, id));
            state.hint = Some(match (lane, absent) {
                (Some(id), Some(reason)) => format!("no {id} lane: {reason}"),
                (Some(id), None) => format!("{id} answers from now on; /auto lets ortalk choose again"),
                (None, _) => "ortalk chooses where to answer".to_string(),
            });
            if lane.is_none_or(|id| absence(state, id).is_none()) {
                state.composer.take();
                state.settings.lane = lane;
            }
        }
        Typed::Think(on) => {
            state.composer.take();
            let objection = state.snapshot().and_then(|snapshot| snapshot.thinking.objection(on));
            state.settings.thinking = Some(on);
            state.hint = Some(match (objection, on) {
                (Some(objection), _) => objection.to_string(),
                (None, true) => "thinks before it answers from now on".to_string(),
                (None, false) => "answers without thinking from now on".to_string(),
            });
        }
        Typed::Unknown(word) => {
            let word = super::text::truncate(word, 20, "...");
            state.hint = Some(format!("'{word}' is no command, F1 lists them; a space in front sends it"));
        }
        Typed::Misused { word, takes } => {
            state.hint = Some(format!("{word} takes {takes}; a space in front sends it"));
        }
        Typed::Message(_) => {}
    }
}

/// Why there is no such lane; `None` too while that is not known.
fn absence(state: &State, id: LaneId) -> Option<String> {
    let Some(lane) = state.snapshot()?.lanes.iter().find(|lane| lane.id == id) else {
        return (id == LaneId::Remote).then(|| "the settings name no server".to_owned());
    };
    match &lane.state {
        LaneState::Absent { reason } => Some(super::text::sanitize::one_line(reason)),
        LaneState::Ready | LaneState::Loading { .. } | LaneState::Failed { .. } => None,
    }
}

#[cfg(test)]
#[path = "update_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "update_thinking_tests.rs"]
mod thinking_tests;
