//! What the mouse does: the wheel scrolls what has the keys, a click opens the panel or selects the message that it
//! meets. Dragging with Shift stays the terminal's own, for its selection.

use std::time::Instant;

use ratatui::layout::Position;

use super::super::event::{Effect, Mouse};
use super::super::keys::Action;
use super::super::layout::{Layout, Mode};
use super::super::panels::{self, Panel};
use super::super::state::{Overlay, State};
use super::keys::scroll;
use super::{chats, list};

/// Rows of one notch of the wheel.
const NOTCH: usize = 3;

pub fn on_mouse(state: &mut State, mouse: Mouse, now: Instant, effects: &mut Vec<Effect>) {
    state.dirty = true;
    state.held.let_go();
    match mouse {
        Mouse::WheelUp => wheel(state, Action::ScrollUp, -1, now, effects),
        Mouse::WheelDown => wheel(state, Action::ScrollDown, 1, now, effects),
        Mouse::Click { column, row } => click(state, Position::new(column, row)),
    }
}

/// A list goes by one row, all else by several.
fn wheel(state: &mut State, action: Action, direction: isize, now: Instant, effects: &mut Vec<Effect>) {
    match &state.overlay {
        Some(Overlay::List(_)) => {
            list::act(state, action, now, effects);
        }
        Some(Overlay::Chats(_)) => {
            chats::act(state, action, now, effects);
        }
        Some(Overlay::Page(_)) => {
            for _ in 0..NOTCH {
                list::act(state, action, now, effects);
            }
        }
        Some(Overlay::Race) => {
            state.race.iter_mut().for_each(|screen| screen.scroll_by(direction * NOTCH as isize));
        }
        _ => scroll(state, |conversation| conversation.scroll_by(direction * NOTCH as isize)),
    }
}

fn click(state: &mut State, at: Position) {
    if matches!(state.overlay, Some(Overlay::List(_) | Overlay::Page(_) | Overlay::Chats(_))) {
        return;
    }
    if matches!(state.overlay, Some(Overlay::Race)) {
        state.race.iter_mut().for_each(|screen| screen.point_at(at));
        return;
    }
    if state.is_zoomed() {
        state.panels.zoomed = false;
        return;
    }
    let layout = state.layout();
    if let Some(panel) = panel_at(state, &layout, at) {
        let is_open = state.overlay.as_ref().and_then(Overlay::panel) == Some(panel);
        state.overlay = (!is_open).then_some(Overlay::Panel(panel));
    } else if layout.bottom_rule.contains(at) {
        // The marker that there is text below stands here.
        state.conversation.follow();
    } else if layout.conversation.contains(at)
        && let Some(id) = message_at(state, &layout, at)
    {
        chats::select(state, id);
    }
}

/// The message whose rows are met. An open panel leaves the conversation the rows below it.
fn message_at(state: &State, layout: &Layout, at: Position) -> Option<u32> {
    let top = usize::from(layout.conversation.bottom()).checked_sub(state.conversation.height())?;
    let row = usize::from(at.y).checked_sub(top)?;
    let (block, _) = *state.conversation.visible().get(row)?;
    state.conversation.blocks().get(block)?.message
}

/// The panel beside the conversation, or the line of the strip that stands for it.
fn panel_at(state: &State, layout: &Layout, at: Position) -> Option<Panel> {
    match layout.mode {
        Mode::Wide if at.x >= layout.panels.x => {
            let places = panels::arrange(state, layout.panels);
            let place = places.iter().find(|place| (place.y..=place.y + place.rows).contains(&at.y));
            place.map(|place| place.panel)
        }
        Mode::Medium if layout.strip.contains(at) => {
            let is_left = at.x < layout.strip.width / 2;
            Some(match at.y - layout.strip.y {
                0 if is_left => Panel::Lane,
                0 => Panel::Route,
                1 if layout.strip.height > 2 => Panel::Speed,
                _ => Panel::Latency,
            })
        }
        _ => None,
    }
}

/// `/mouse`: takes the mouse, or leaves it to the terminal.
pub fn switch(state: &mut State, on: Option<bool>, effects: &mut Vec<Effect>) {
    state.mouse = on.unwrap_or(!state.mouse);
    effects.push(Effect::TakeMouse(state.mouse));
    let hint = if state.mouse {
        "the wheel scrolls; Shift and the mouse select text"
    } else {
        "the mouse is the terminal's; /mouse takes it again"
    };
    state.hint = Some(hint.to_owned());
}

#[cfg(test)]
mod tests {
    use super::super::super::event::Event;
    use super::super::super::fixtures::Desk;
    use super::*;
    use crate::engine::FinishReason;

    fn desk(columns: u16, rows: u16) -> Desk {
        let mut desk = Desk::ready();
        desk.event(Event::Resize { columns, rows });
        for _ in 0..4 {
            desk.stream();
            desk.finish(FinishReason::Stop);
        }
        desk.state.lay_out();
        desk
    }

    fn open(desk: &Desk) -> Option<Panel> {
        desk.state.overlay.as_ref().and_then(Overlay::panel)
    }

    fn click(desk: &mut Desk, column: u16, row: u16) {
        desk.event(Event::Mouse(Mouse::Click { column, row }));
    }

    #[test]
    fn the_wheel_scrolls_and_a_click_on_the_marker_follows_again() {
        let mut desk = desk(80, 24);
        let bottom = desk.state.conversation.top_row();
        desk.event(Event::Mouse(Mouse::WheelUp));
        desk.event(Event::Mouse(Mouse::WheelUp));
        desk.event(Event::Mouse(Mouse::WheelDown));
        assert_eq!(desk.state.conversation.top_row(), bottom - 3);
        assert_eq!(desk.state.conversation.rows_below(), (3, 0));
        let rule = desk.state.layout().bottom_rule;
        click(&mut desk, 40, rule.y);
        assert!(desk.state.conversation.is_following());
    }

    #[test]
    fn a_click_on_a_panel_opens_it_and_another_closes_it() {
        let mut desk = desk(120, 36);
        let layout = desk.state.layout();
        for place in panels::arrange(&desk.state, layout.panels) {
            // Its heading, and its last row.
            for row in [place.y, place.y + place.rows] {
                click(&mut desk, layout.panels.x + 5, row);
                assert_eq!(open(&desk), Some(place.panel), "{row}");
                click(&mut desk, layout.panels.x + 5, row);
                assert_eq!(open(&desk), None);
            }
        }
        click(&mut desk, 5, layout.panels.y + 1);
        assert_eq!(open(&desk), None);
    }

    #[test]
    fn a_click_selects_a_message() {
        let mut desk = desk(80, 24);
        let layout = desk.state.layout();
        // The rows at the end of the view are the last answer's, and far above them is its question.
        click(&mut desk, 10, layout.conversation.bottom() - 2);
        let last = desk.state.conversation.blocks().iter().rev().find_map(|block| block.message);
        assert!(last.is_some());
        assert_eq!(desk.state.chats.selected, last);
        let (number, _) = desk.state.conversation.visible()[0];
        let first = desk.state.conversation.blocks()[number].message;
        click(&mut desk, 10, layout.conversation.y);
        assert_eq!(desk.state.chats.selected, first);
    }

    #[test]
    fn a_click_on_the_strip_opens_what_stands_there() {
        let mut desk = desk(80, 24);
        let strip = desk.state.layout().strip;
        for (column, row, panel) in
            [(5, 0, Panel::Lane), (70, 0, Panel::Route), (5, 1, Panel::Speed), (70, 2, Panel::Latency)]
        {
            click(&mut desk, column, strip.y + row);
            assert_eq!(open(&desk), Some(panel));
        }
    }

    #[test]
    fn the_wheel_goes_through_a_list() {
        let mut desk = desk(80, 24);
        desk.send("/theme");
        desk.event(Event::Mouse(Mouse::WheelDown));
        desk.event(Event::Mouse(Mouse::Click { column: 1, row: 1 }));
        let Some(Overlay::List(picker)) = &desk.state.overlay else { panic!() };
        assert_eq!(picker.chosen().unwrap().id, "light");
    }

    #[test]
    fn the_mouse_can_be_left_to_the_terminal() {
        let mut desk = desk(80, 24);
        assert_eq!(desk.send("/mouse off"), [Effect::TakeMouse(false)]);
        assert_eq!(desk.send("/mouse off"), [Effect::TakeMouse(false)]);
        assert_eq!(desk.send("/mouse"), [Effect::TakeMouse(true)]);
        assert_eq!(desk.state.hint.as_deref(), Some("the wheel scrolls; Shift and the mouse select text"));
    }
}
