//! What each slash command does.

use std::time::Instant;

use crate::engine::{LaneId, LaneState};
use crate::ledger::Total;

use super::super::command::{self, Typed};
use super::super::consent;
use super::super::event::{Effect, Exit};
use super::super::keys::{Action, Context};
use super::super::page::Page;
use super::super::state::{Overlay, State};
use super::super::text;
use super::send::cancel;
use super::{chats, copy, looks, models, mouse, race, replay, settings};

/// Neither the conversation nor the answers that follow are changed by it.
pub(super) fn is_for_the_screen(command: &Typed<'_>) -> bool {
    matches!(
        command,
        Typed::Quit
            | Typed::Help
            | Typed::Log
            | Typed::Markdown(_)
            | Typed::Copy(_)
            | Typed::Mouse(_)
            | Typed::Theme(_)
    )
}

pub(super) fn run_command(state: &mut State, now: Instant, effects: &mut Vec<Effect>) {
    let typed = state.composer.text().to_string();
    let command = command::parse(&typed);
    if state.replay.is_some() && !is_for_the_screen(&command) {
        return replay::say_that_nobody_answers(state);
    }
    match command {
        Typed::Quit => effects.push(Effect::Quit(Exit::Quit)),
        Typed::Help => {
            state.composer.take();
            state.overlay = Some(Overlay::Page(Page::help(Context::Compose)));
        }
        Typed::Log => {
            state.composer.take();
            effects.push(Effect::ReadLog);
        }
        Typed::Clear => {
            state.composer.take();
            if state.busy() {
                cancel(state, now, effects);
            }
            chats::close(state, effects);
            clear(state);
        }
        Typed::Race { lanes, text } => {
            let (lanes, text) = (lanes.map(str::to_owned), text.to_owned());
            race::begin(state, lanes.as_deref(), &text, effects);
        }
        Typed::Lane(lane) => settings::set_lane(state, lane),
        Typed::Policy(policy) => settings::set_policy(state, policy, now),
        Typed::System(text) => settings::set_system(state, text),
        Typed::Set { name, value } => settings::set_parameter(state, name, value),
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
        Typed::Markdown(on) => {
            state.composer.take();
            show_source(state, !on);
        }
        Typed::Chats(command) => chats::command(state, command, now, effects),
        Typed::Model(name) => {
            let name = name.to_owned();
            state.composer.take();
            models::model(state, &name, effects);
        }
        Typed::Copy(what) => {
            state.composer.take();
            copy::copy(state, what, effects);
        }
        Typed::Mouse(on) => {
            state.composer.take();
            mouse::switch(state, on, effects);
        }
        Typed::Theme(name) => {
            state.composer.take();
            looks::theme(state, name);
        }
        Typed::Unknown(word) => {
            let word = text::truncate(word, 20, "...");
            let lists = state.keys.key(Context::Compose, Action::Help).map(|key| format!(", {key} lists them"));
            let lists = lists.unwrap_or_default();
            state.hint = Some(format!("'{word}' is no command{lists}; a space in front sends it"));
        }
        Typed::Misused { word, takes } => {
            state.hint = Some(format!("{word} takes {takes}; a space in front sends it"));
        }
        Typed::Message(_) => {}
    }
}

pub(super) fn show_source(state: &mut State, source: bool) {
    state.conversation.show_source(source);
    let shown =
        if source { "answers are shown as written; F5 shows what the markdown means" } else { "markdown is shown" };
    state.hint = Some(shown.to_string());
}

/// Begins a new conversation.
pub(super) fn clear(state: &mut State) {
    state.conversation.clear();
    state.queue.clear();
    consent::forget(state);
    state.answer = None;
    (state.bill, state.spent) = (None, Total::default());
    state.overlay = None;
}

/// Why there is no such lane; `None` too while that is not known.
pub(super) fn absence(state: &State, id: LaneId) -> Option<String> {
    let Some(lane) = state.snapshot()?.lanes.iter().find(|lane| lane.id == id) else {
        return (id == LaneId::Remote).then(|| "the settings name no server".to_owned());
    };
    match &lane.state {
        LaneState::Absent { reason } => Some(text::sanitize::one_line(reason)),
        LaneState::Ready | LaneState::Loading { .. } | LaneState::Failed { .. } => None,
    }
}
