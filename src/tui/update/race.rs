//! What `/race` does, what keys do while a race is on the screen, and what is left of it in the conversation.

use std::time::Instant;

use clap::ValueEnum;

use crate::engine::{ChatMessage, EngineSnapshot, GenerationEvent, LaneId, Role};
use crate::race::table::lines;
use crate::race::verdict::{caveats, compare, sentences};
use crate::race::{self, Order, Race, RaceEvent, Wishes};

use super::super::answer::Answer;
use super::super::composer::Draft;
use super::super::conversation::{Kind, Level};
use super::super::event::{Effect, Event};
use super::super::keys::Action;
use super::super::race::RaceScreen;
use super::super::state::{Overlay, State};
use super::super::text::sanitize::one_line;
use super::super::text::truncate;
use super::{chats, engine};

/// Races lanes with a new message, or with the last one; those that are named, or all on this machine.
pub(super) fn begin(state: &mut State, lanes: Option<&str>, text: &str, effects: &mut Vec<Effect>) {
    if state.busy() {
        state.hint = Some("an answer is running; Esc cancels it, and then there can be a race".to_owned());
        return;
    }
    let Some(snapshot) = state.snapshot().cloned() else {
        state.hint = Some("there is no engine to race with yet".to_owned());
        return;
    };
    let lanes = match lanes.map(|names| named(names, &snapshot)).transpose() {
        Ok(lanes) => lanes.unwrap_or_default(),
        Err(wrong) => {
            state.hint = Some(wrong);
            return;
        }
    };
    let mut turns = state.conversation.messages_above(usize::MAX);
    let asks = !text.is_empty();
    if asks {
        turns.push(ChatMessage::new(Role::User, text));
    } else if let Some(last) = turns.iter().rposition(|message| message.role == Role::User) {
        turns.truncate(last + 1);
    } else {
        state.hint = Some("there is no message to race with; /race TEXT asks one".to_owned());
        return;
    }
    let wishes = Wishes { lanes, rounds: 1, ..Wishes::default() };
    match race::plan(state.settings.request(turns), &wishes, &snapshot) {
        Ok(plan) => {
            state.composer.take();
            state.races += 1;
            state.race = Some(RaceScreen::new(state.races, plan.start.clone(), asks));
            state.overlay = Some(Overlay::Race);
            effects.push(Effect::Race { number: state.races, plan: Box::new(plan) });
        }
        Err(error) => {
            state.hint = Some(one_line(&error.to_string()));
        }
    }
}

/// The lanes of a list, or which of its names is none.
fn named(names: &str, engine: &EngineSnapshot) -> Result<Vec<LaneId>, String> {
    let lanes = names.split(',').map(|name| {
        LaneId::from_str(name, false).map_err(|_| {
            let known: Vec<&str> = engine.lanes.iter().map(|lane| lane.id.name()).collect();
            let name = truncate(&one_line(name), 20, "...");
            format!("'{name}' is no lane; there are {}, named as in /race {}", known.join(", "), known.join(","))
        })
    });
    lanes.collect()
}

/// A report of the race with this number.
pub(super) fn on_event(state: &mut State, number: u64, event: &RaceEvent, effects: &mut Vec<Effect>) {
    let Some(screen) = state.race.as_mut().filter(|screen| screen.number == number && !screen.is_over()) else {
        return;
    };
    screen.note(event);
    state.dirty = true;
    if matches!(event, RaceEvent::Over { .. }) {
        effects.push(Effect::RefreshSnapshot);
    }
}

/// Whether the race on the screen takes the action.
pub(super) fn act(state: &mut State, action: Action, now: Instant, effects: &mut Vec<Effect>) -> bool {
    if !matches!(state.overlay, Some(Overlay::Race)) {
        return false;
    }
    let page = isize::from(state.rows as i16 / 2).max(1);
    let Some(screen) = &mut state.race else { return false };
    match action {
        Action::Up | Action::ScrollUp => screen.scroll_by(-1),
        Action::Down | Action::ScrollDown => screen.scroll_by(1),
        Action::PageUp => screen.scroll_by(-page),
        Action::PageDown => screen.scroll_by(page),
        Action::NextPanel => screen.turn(1),
        Action::PreviousPanel => screen.turn(-1),
        // A race that is played again runs to its end.
        Action::Escape if !screen.is_over() && state.replay.is_some() => {}
        Action::Escape if !screen.is_over() => cancel(state, effects),
        Action::Escape | Action::Send if screen.is_over() => close(state, now, effects),
        Action::Suspend | Action::Repaint | Action::DeleteOrQuit | Action::Thinking | Action::Source => return false,
        _ => {}
    }
    true
}

/// Ends a running race; what came so far stays on the screen. False where none runs.
pub(super) fn cancel_running(state: &mut State, effects: &mut Vec<Effect>) -> bool {
    let runs = state.replay.is_none() && state.race.as_ref().is_some_and(|screen| !screen.is_over());
    if runs {
        cancel(state, effects);
    }
    runs
}

fn cancel(state: &mut State, effects: &mut Vec<Effect>) {
    let Some(screen) = &mut state.race else { return };
    screen.note(&RaceEvent::Over { cancelled: true });
    effects.extend([Effect::CancelRace, Effect::RefreshSnapshot]);
}

/// Leaves the race: what was asked and the answer of the lane that the reader looks at become part of the conversation,
/// with the numbers of all lanes below them.
pub(super) fn close(state: &mut State, now: Instant, effects: &mut Vec<Effect>) {
    state.overlay = None;
    let Some(screen) = state.race.take() else { return };
    let race = &screen.race;
    let kept = screen.focused().and_then(|racer| racer.done().last()).filter(|_| screen.asks);
    if let Some(run) = kept {
        // As if it had been asked for alone.
        state.chats.redo = None;
        let block = chats::begin(state, &Draft::from(race.start.prompt.as_str()), race.start.model.clone(), effects);
        state.answer = Some(Answer::raced(block, run.began));
        state.bill = None;
        for event in &run.events {
            engine::on_event(state, Event::Generation(as_raced(event, race)), now, effects);
        }
    }
    let level = if race.over == Some(false) { Level::Info } else { Level::Warning };
    state.conversation.add(Kind::Notice(level), &summary(&screen));
    state.conversation.follow();
}

/// A race asks each lane by its name; no other one was passed over.
fn as_raced(event: &GenerationEvent, race: &Race) -> GenerationEvent {
    let mut event = event.clone();
    if let GenerationEvent::Routed(decision) = &mut event {
        let raced = |id: LaneId| race.racers.iter().any(|racer| racer.entrant.lane == id && !racer.runs.is_empty());
        for other in decision.rejected.iter_mut().filter(|other| raced(other.lane)) {
            other.reason = "raced against it".to_owned();
        }
    }
    event
}

/// `Race: cpu 128.4 tokens/s, first token 41 ms; npu emulated ...`, and what the verdict begins with.
fn summary(screen: &RaceScreen) -> String {
    let race = &screen.race;
    let each = lines(race).into_iter().map(|line| {
        let name = format!("{}{}", line.lane, if line.emulated { " emulated" } else { "" });
        match (&line.cells[0].text, &line.cells[1].text) {
            (Some(first), Some(rate)) => format!("{name} {rate} tokens/s, first token {first}"),
            _ => format!("{name} {}", line.state),
        }
    });
    let numbers = each.collect::<Vec<_>>().join("; ");
    // What the numbers must not be taken for stood below them.
    let said = sentences(race).len() - caveats(race).len();
    let said = if compare(race).is_empty() { said } else { 1 };
    let verdict = sentences(race).iter().take(said).map(|sentence| one_line(sentence)).collect::<Vec<_>>().join(" ");
    let order = match &race.start.order {
        Order::InTurn { .. } => ", one after the other",
        Order::SideBySide => "",
    };
    format!("Race{order}: {numbers}.\n{verdict}")
}
