//! What keys do in a list to choose from and in a page to read, and what a choice means.

use std::time::Instant;

use super::super::event::Effect;
use super::super::keys::Action;
use super::super::page::Page;
use super::super::picker::{Item, Purpose};
use super::super::state::{Overlay, State};
use super::palette;

/// A text typed or pasted into the open list or page. False where none is open.
pub fn filter(state: &mut State, text: &str, effects: &mut Vec<Effect>) -> bool {
    match &mut state.overlay {
        Some(Overlay::List(picker)) => {
            picker.type_text(text);
            browse(state, effects);
        }
        Some(Overlay::Page(page)) => page.search(text),
        _ => return false,
    }
    true
}

/// Closes what covers the conversation. A list that was showing what a choice would do takes it back.
pub fn close(state: &mut State, effects: &mut Vec<Effect>) -> bool {
    let Some(overlay) = state.overlay.take() else { return false };
    if let Overlay::List(picker) = overlay {
        leave(state, picker.purpose, effects);
    }
    true
}

/// Whether the open list or page takes the action.
pub fn act(state: &mut State, action: Action, now: Instant, effects: &mut Vec<Effect>) -> bool {
    let page_rows = isize::from(state.rows as i16 / 2).max(1);
    match &mut state.overlay {
        Some(Overlay::List(picker)) => match picker_step(action, page_rows) {
            Some(step) => {
                picker.move_by(step);
                browse(state, effects);
            }
            None => match action {
                Action::Delete(_) => {
                    picker.erase();
                    browse(state, effects);
                }
                Action::Kill(_) => {
                    picker.clear();
                    browse(state, effects);
                }
                Action::Choose | Action::Complete | Action::Send => {
                    if let Some(item) = picker.chosen().cloned() {
                        let purpose = picker.purpose;
                        state.overlay = None;
                        choose(state, purpose, item, now, effects);
                    }
                }
                _ => return false,
            },
        },
        Some(Overlay::Page(page)) => match picker_step(action, page_rows) {
            Some(step) => page.scroll_by(step),
            None => return act_on_page(state, action),
        },
        _ => return false,
    }
    true
}

/// How far an action moves in rows, if it does.
fn picker_step(action: Action, page: isize) -> Option<isize> {
    Some(match action {
        Action::Up | Action::ScrollUp | Action::PreviousPanel => -1,
        Action::Down | Action::ScrollDown => 1,
        Action::PageUp => -page,
        Action::PageDown => page,
        Action::Home | Action::Top => isize::MIN,
        Action::End | Action::Follow => isize::MAX,
        _ => return None,
    })
}

fn act_on_page(state: &mut State, action: Action) -> bool {
    let Some(Overlay::Page(page)) = &mut state.overlay else { return false };
    match action {
        Action::Delete(_) => page.erase(),
        Action::Kill(_) => page.clear(),
        Action::Choose | Action::Send => state.overlay = None,
        Action::Complete => {}
        _ => return false,
    }
    true
}

pub fn open_help(state: &mut State, effects: &mut Vec<Effect>) {
    let was_open = state.page().is_some_and(Page::is_help);
    close(state, effects);
    if !was_open {
        state.overlay = Some(Overlay::Page(Page::help()));
    }
}

pub fn show_log(state: &mut State, result: Result<String, String>) {
    state.dirty = true;
    match result {
        Ok(text) => state.overlay = Some(Overlay::Page(Page::log(&text))),
        Err(error) => state.hint = Some(format!("the log '{}' cannot be read: {error}", state.log_file.display())),
    }
}

/// Another row is chosen for now, by moving or by typing: what a choice would do may be shown.
fn browse(state: &mut State, _effects: &mut [Effect]) {
    let Some(Overlay::List(picker)) = &state.overlay else { return };
    match picker.purpose {
        Purpose::Command => {}
    }
}

/// The list was closed without a choice: what `browse` has shown is taken back.
fn leave(_state: &mut State, purpose: Purpose, _effects: &mut [Effect]) {
    match purpose {
        Purpose::Command => {}
    }
}

fn choose(state: &mut State, purpose: Purpose, item: Item, now: Instant, effects: &mut Vec<Effect>) {
    match purpose {
        Purpose::Command => palette::choose(state, &item.id, now, effects),
    }
}
