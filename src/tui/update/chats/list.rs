//! The list of conversations: searched while one types, renamed, deleted, opened.

use std::time::Instant;

use crate::store::Record;

use super::super::super::chats::{ChatList, Mode, Wish};
use super::super::super::event::Effect;
use super::super::super::keys::Action;
use super::super::super::state::{Overlay, State};
use super::super::send::cancel;
use super::{needs_store, record};

pub(super) fn open_list(state: &mut State, words: &str, effects: &mut Vec<Effect>) {
    if let Err(hint) = needs_store(state) {
        state.hint = Some(hint);
        return;
    }
    state.chats.selected = None;
    state.overlay = Some(Overlay::Chats(ChatList::new(words)));
    look(state, effects);
}

/// Searches for what is typed, unless a search is under way; its end begins the next one.
pub(super) fn look(state: &mut State, effects: &mut Vec<Effect>) {
    if let Some(Overlay::Chats(list)) = &mut state.overlay
        && list.asked.is_none()
    {
        list.asked = Some(list.words.clone());
        effects.push(Effect::Chats(Wish::Find(list.words.clone())));
    }
}

/// Text typed or pasted into the list.
pub(in super::super) fn type_into_list(state: &mut State, text: &str, effects: &mut Vec<Effect>) {
    if let Some(Overlay::Chats(list)) = &mut state.overlay {
        list.type_text(text);
        if list.mode == Mode::Search {
            look(state, effects);
        }
    }
}

pub(super) fn act_on_list(state: &mut State, action: Action, now: Instant, effects: &mut Vec<Effect>) -> bool {
    let page = isize::from(state.rows as i16 / 2).max(1);
    let own = state.chats.id.clone();
    let Some(Overlay::Chats(list)) = &mut state.overlay else { return false };
    let chosen = list.chosen().map(|row| (row.found.id.clone(), row.found.title.clone()));
    match (&list.mode, action) {
        (_, Action::Up | Action::ScrollUp | Action::SelectPrevious) => list.move_by(-1),
        (_, Action::Down | Action::ScrollDown | Action::SelectNext) => list.move_by(1),
        (_, Action::PageUp) => list.move_by(-page),
        (_, Action::PageDown) => list.move_by(page),
        (_, Action::Delete(_)) => {
            list.erase();
            look(state, effects);
        }
        (Mode::Rename { .. }, Action::Escape) => list.mode = Mode::Search,
        (Mode::Rename { id, title }, Action::Send) => {
            let (id, title) = (id.clone(), title.clone());
            list.mode = Mode::Search;
            if own.as_ref() == Some(&id) {
                record(state, Record::Title(title), effects);
                look(state, effects);
            } else {
                effects.push(Effect::Chats(Wish::Rename { id, title }));
            }
        }
        (Mode::Search, Action::Send) => {
            if let Some((id, _)) = chosen {
                open(state, id, now, effects);
            }
        }
        (Mode::Search, Action::RenameChat) => {
            if let Some((id, title)) = chosen {
                list.mode = Mode::Rename { id, title };
            }
        }
        (Mode::Search, Action::DeleteChat) => {
            let Some((id, _)) = chosen else { return true };
            if list.gone.contains(&id) {
                effects.push(Effect::Chats(Wish::Undelete(id)));
            } else if own.as_ref() == Some(&id) {
                state.hint = Some("this conversation is open; /delete deletes it".to_owned());
            } else {
                effects.push(Effect::Chats(Wish::Delete(id)));
            }
        }
        (_, Action::OpenChats) => state.overlay = None,
        (_, Action::RenameChat | Action::DeleteChat) => {}
        _ => return false,
    }
    true
}

/// Leaves this conversation for another one.
pub(super) fn open(state: &mut State, id: String, now: Instant, effects: &mut Vec<Effect>) {
    state.overlay = None;
    if state.chats.id.as_ref() == Some(&id) {
        return;
    }
    if state.busy() {
        cancel(state, now, effects);
    }
    state.chats.is_opening = true;
    effects.push(Effect::Chats(Wish::Open { id, writes: state.chats.saves }));
}
