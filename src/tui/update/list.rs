//! What keys do in a list to choose from and in a page to read, and what a choice means.

use std::time::Instant;

use super::super::event::Effect;
use super::super::keys::Action;
use super::super::page::Page;
use super::super::picker::{Item, Purpose};
use super::super::state::{Overlay, State};
use super::{completion, looks, models, writing};

/// A text typed or pasted into the open list or page. False where none is open.
pub fn filter(state: &mut State, text: &str) -> bool {
    match &mut state.overlay {
        Some(Overlay::List(picker)) => {
            picker.type_text(text);
        }
        Some(Overlay::Page(page)) => page.search(text),
        _ => return false,
    }
    true
}

/// Whether the open list or page takes the action.
pub fn act(state: &mut State, action: Action, now: Instant, effects: &mut Vec<Effect>) -> bool {
    // A row of what was there stays.
    let page_rows = match state.overlay {
        Some(Overlay::Page(_)) => isize::try_from(state.layout().text().height).unwrap_or(isize::MAX) - 2,
        _ => isize::from(state.rows as i16 / 2),
    };
    let page_rows = page_rows.max(1);
    match &mut state.overlay {
        Some(Overlay::List(picker)) => match picker_step(action, page_rows) {
            Some(step) => {
                picker.move_by(step);
            }
            None => match action {
                Action::Delete(_) => {
                    picker.erase();
                }
                Action::Kill(_) => {
                    picker.clear();
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

pub fn open_help(state: &mut State) {
    let is_open = state.page().is_some_and(Page::is_help);
    let place = state.context();
    state.overlay = (!is_open).then(|| Overlay::Page(Page::help(place)));
}

pub fn show_log(state: &mut State, result: Result<String, String>) {
    state.dirty = true;
    match result {
        Ok(text) => state.overlay = Some(Overlay::Page(Page::log(&text))),
        Err(error) => state.hint = Some(format!("the log '{}' cannot be read: {error}", state.log_file.display())),
    }
}

fn choose(state: &mut State, purpose: Purpose, item: Item, now: Instant, effects: &mut Vec<Effect>) {
    match purpose {
        Purpose::Command => completion::choose(state, &item.id, now, effects),
        Purpose::Model => models::open(state, item.id, effects),
        Purpose::Theme => looks::choose(state, &item.id),
        Purpose::History => writing::recall(state, &item.id, now, effects),
    }
}
