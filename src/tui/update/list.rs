//! What keys do in a list to choose from, and what a choice means.

use std::time::Instant;

use super::super::command::{COMMANDS, Command};
use super::super::event::Effect;
use super::super::keys::Action;
use super::super::picker::{Item, Picker, Purpose};
use super::super::state::{Overlay, State};
use super::send::typed;
use super::writing;

pub fn open_commands(state: &mut State) {
    let listed = COMMANDS.iter().filter(|command| !command.help.is_empty());
    let item = |command: &Command| Item {
        id: command.name.to_owned(),
        label: command.name.to_owned(),
        detail: command.help.to_owned(),
    };
    let picker = Picker::new(Purpose::Command, "command", listed.map(item).collect());
    state.overlay = Some(Overlay::List(picker));
}

/// A text typed or pasted into the open list.
pub fn filter(state: &mut State, text: &str) {
    if let Some(Overlay::List(picker)) = &mut state.overlay {
        picker.type_text(text);
    }
}

/// Whether the open list takes the action.
pub fn act(state: &mut State, action: Action, now: Instant, effects: &mut Vec<Effect>) -> bool {
    let page = isize::from(state.rows as i16 / 2).max(1);
    let Some(Overlay::List(picker)) = &mut state.overlay else { return false };
    match action {
        Action::Up | Action::ScrollUp | Action::PreviousPanel => picker.move_by(-1),
        Action::Down | Action::ScrollDown | Action::NextPanel => picker.move_by(1),
        Action::PageUp => picker.move_by(-page),
        Action::PageDown => picker.move_by(page),
        Action::Delete(_) => picker.erase(),
        Action::Send => {
            if let Some(item) = picker.chosen().cloned() {
                let purpose = picker.purpose;
                state.overlay = None;
                choose(state, purpose, item, now, effects);
            }
        }
        _ => return false,
    }
    true
}

fn choose(state: &mut State, purpose: Purpose, item: Item, now: Instant, effects: &mut Vec<Effect>) {
    match purpose {
        Purpose::Command => {
            state.composer.replace(format!("{} ", item.id));
            typed(state, now);
        }
        Purpose::History => writing::recall(state, &item.id, now, effects),
    }
}
