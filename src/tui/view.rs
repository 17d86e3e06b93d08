//! Puts the screen together. Draws from the state alone; only caches of wrapped lines change in it.

use std::time::Instant;

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::keys::{Action, Context};
use super::layout::{Layout, Mode};
use super::panels::view::Split;
use super::panels::{self, Panel};
use super::skin::{Skin, Text, width};
use super::state::{EngineState, Overlay, State};
use super::{chats, composer_view, picker_view, race_view, strip, title, transcript};

pub fn draw(state: &mut State, skin: &Skin, now: Instant, frame: &mut Frame<'_>) {
    let area = frame.area();
    (state.columns, state.rows) = (area.width, area.height);
    if matches!(state.overlay, Some(Overlay::Race)) {
        return race_view::draw(state, skin, frame);
    }
    let layout = state.lay_out();
    let buffer = frame.buffer_mut();
    buffer.set_style(area, skin.theme.text);
    draw_rules(state, skin, &layout, buffer);
    draw_instruments(state, skin, &layout, now, buffer);
    let seconds = match state.engine {
        EngineState::Loading { since } => now.saturating_duration_since(since).as_secs(),
        EngineState::Ready(_) | EngineState::Failed(_) => 0,
    };
    match state.overlay {
        None => transcript::draw(state, skin, layout.text(), seconds, buffer),
        Some(Overlay::Page(_)) => draw_page(state, skin, page_area(&layout), buffer),
        Some(Overlay::Panel(panel)) => draw_open(state, skin, panel, &layout, seconds, buffer),
        Some(Overlay::List(_)) => draw_list(state, skin, &layout, seconds, buffer),
        Some(Overlay::Race) => {}
        Some(Overlay::Chats(_)) => draw_chats(state, skin, &layout, seconds, buffer),
    }
    draw_palette(state, skin, &layout, buffer);
    composer_view::draw_queue(state, skin, layout.queue, buffer);
    let cursor = composer_view::draw(state, skin, layout.composer, buffer);
    if !layout.footer.is_empty() && !draw_said(state, skin, layout.footer, buffer) {
        let line = composer_view::footer(state, skin, &layout, layout.footer.width.into());
        buffer.set_line(layout.footer.x, layout.footer.y, &line, layout.footer.width);
    }
    // Elsewhere the keys go to what has a sign of its own.
    let types = matches!(state.context(), Context::Compose | Context::List | Context::Replay) && state.page().is_none();
    if let Some(cursor) = cursor.filter(|_| types && !matches!(state.overlay, Some(Overlay::List(_)))) {
        frame.set_cursor_position(cursor);
    }
    state.dirty |= state.conversation.is_unread();
}

/// What has numbers that change with each token. At low pace they stand for a while.
fn draw_instruments(state: &mut State, skin: &Skin, layout: &Layout, now: Instant, buffer: &mut Buffer) {
    let hold = state.pace.hold().filter(|_| state.busy() && !covers_body(state));
    // A small screen says everything in its title, also what must be said at once.
    let title = if layout.mode == Mode::Small { Rect::ZERO } else { layout.title };
    let is_put = hold.is_some() && state.held.put(layout, &skin.theme, now, buffer);
    if !is_put || title.is_empty() {
        draw_title(state, skin, layout, buffer);
    }
    if is_put {
        return;
    }
    strip::draw(state, skin, layout.strip, buffer);
    if !covers_body(state) {
        panels::view::draw_column(state, skin, layout, buffer);
    }
    match hold {
        Some(hold) => {
            // The first panel's heading stands in the rule.
            let beside = layout.divider.union(layout.panels);
            let beside = Rect { y: layout.top_rule.y, height: beside.bottom() - layout.top_rule.y, ..beside };
            state.held.keep(&[title, layout.strip, beside], layout, &skin.theme, now + hold, buffer);
        }
        None => state.held.let_go(),
    }
}

fn draw_title(state: &State, skin: &Skin, layout: &Layout, buffer: &mut Buffer) {
    let area = layout.title;
    if area.is_empty() {
        return;
    }
    let columns = usize::from(area.width);
    let line = match layout.mode {
        Mode::Wide | Mode::Medium => title::line(state, skin, columns),
        // Without a footer, this is where something is said.
        Mode::Small if draw_said(state, skin, area, buffer) => return,
        Mode::Small => match composer_view::keys(state, skin).or_else(|| composer_view::small_preview(state, skin)) {
            Some(line) => skin.fit(line, columns),
            None => title::status(state, skin, columns),
        },
    };
    buffer.set_line(area.x, area.y, &line, area.width);
}

/// Whether there was something to say.
fn draw_said(state: &State, skin: &Skin, area: Rect, buffer: &mut Buffer) -> bool {
    let lines = composer_view::said(state, skin, area.width.into(), area.height.into());
    for (y, line) in (area.y..area.bottom()).zip(&lines) {
        buffer.set_line(area.x, y, line, area.width);
    }
    !lines.is_empty()
}

/// The thin lines: above and below the conversation, and between it and the panels.
fn draw_rules(state: &State, skin: &Skin, layout: &Layout, buffer: &mut Buffer) {
    let style = skin.theme.border;
    for rule in [layout.top_rule, layout.bottom_rule] {
        buffer.set_stringn(rule.x, rule.y, skin.glyphs.rule(rule.width.into()), rule.area() as usize, style);
    }
    let divider = if covers_body(state) { Rect::ZERO } else { layout.divider };
    for y in divider.top()..divider.bottom() {
        buffer.set_stringn(divider.x, y, skin.glyphs.vertical, divider.width.into(), style);
    }
    if !divider.is_empty() {
        buffer.set_stringn(divider.x, layout.top_rule.y, skin.glyphs.tee_down, 1, style);
        buffer.set_stringn(divider.x, layout.bottom_rule.y, skin.glyphs.tee_up, 1, style);
    }
    let marker = match covers_body(state) {
        true => page_marker(state, skin, layout),
        false => marker(state, skin),
    };
    if let Some(marker) = marker {
        let rule = layout.bottom_rule;
        let room = if covers_body(state) { rule.width } else { layout.conversation.width.min(rule.width) };
        let marker = skin.fit(marker, room.into());
        let x = rule.x + (room - width(&marker) as u16) / 2;
        if !rule.is_empty() {
            buffer.set_line(x, rule.y, &marker, room);
        }
    }
}

/// There is neither conversation nor column.
fn covers_body(state: &State) -> bool {
    state.page().is_some() || state.is_zoomed()
}

fn page_marker(state: &State, skin: &Skin, layout: &Layout) -> Option<Text> {
    let (page, area) = (state.page()?, page_area(layout));
    let height = usize::from(area.height).saturating_sub(1);
    let last = page.lines(&state.keys, skin, area.width.into()).len().saturating_sub(height);
    let above = page.top.min(last);
    let more = |sign: &str, rows: usize, action| {
        (rows > 0).then(|| format!(" {sign} {rows} more, {} ", state.keys.say(action)))
    };
    let above = more(skin.glyphs.up, above, Action::PageUp);
    let below = more(skin.glyphs.down, last - page.top.min(last), Action::PageDown);
    let text: String = [above, below].into_iter().flatten().collect();
    (!text.is_empty()).then(|| Line::from(skin.styled(skin.theme.accent, text)))
}

/// A page covers the panels too.
fn page_area(layout: &Layout) -> Rect {
    let text = layout.text();
    let body = layout.conversation.width + layout.divider.width + layout.panels.width;
    Rect { width: body.saturating_sub(text.x * 2), ..text }
}

/// Says that there is text below the view.
fn marker(state: &State, skin: &Skin) -> Option<Text> {
    let (below, new) = state.conversation.rows_below();
    let (count, word) = if new > 0 { (new, " new") } else { (below, "") };
    let lines = if count == 1 { "line" } else { "lines" };
    // For who looks at tokens or messages, the key means something else.
    let follows = match state.token().is_none() && state.chats.selected.is_none() {
        true => format!(", {} to follow", state.keys.say(Action::End)),
        false => String::new(),
    };
    let text = format!(" {} {count}{word} {lines}{follows} ", skin.glyphs.down);
    (below > 0).then(|| Line::from(skin.styled(skin.theme.accent, text)))
}

fn draw_page(state: &mut State, skin: &Skin, area: Rect, buffer: &mut Buffer) {
    let Some(Overlay::Page(page)) = &mut state.overlay else { return };
    let columns = usize::from(area.width);
    let lines = page.lines(&state.keys, skin, columns);
    let last = lines.len().saturating_sub(usize::from(area.height).saturating_sub(1));
    page.top = page.top.min(last);
    let shown = std::iter::once(page.heading(&state.keys, skin, columns)).chain(lines.into_iter().skip(page.top));
    for (y, line) in (area.y..area.bottom()).zip(shown) {
        buffer.set_line(area.x, y, &line, area.width);
    }
}

/// The open panel: in the column already, in the place of the conversation, or above it.
fn draw_open(state: &mut State, skin: &Skin, panel: Panel, layout: &Layout, seconds: u64, buffer: &mut Buffer) {
    if state.is_zoomed() {
        return panels::view::draw_zoomed(state, skin, panel, layout, buffer);
    }
    match panels::view::above(state, layout) {
        Some((panel, split)) => {
            draw_below(state, skin, &split, seconds, buffer);
            panels::view::draw_above(state, skin, panel, &split, buffer);
        }
        None => transcript::draw(state, skin, layout.text(), seconds, buffer),
    }
}

fn draw_palette(state: &State, skin: &Skin, layout: &Layout, buffer: &mut Buffer) {
    let area = layout.palette;
    let (columns, rows) = (area.width.into(), area.height.into());
    let lines = match &state.writing.offer {
        Some(offer) if !state.completion.is_open() => offer.lines(skin, columns, rows),
        _ => state.completion.lines(skin, columns, rows),
    };
    for (y, line) in (area.y..area.bottom()).zip(&lines) {
        buffer.set_line(area.x, y, line, area.width);
    }
    if !layout.divider.is_empty() && area.height > 0 {
        buffer.set_stringn(layout.divider.x, area.y, skin.glyphs.tee_left, 1, skin.theme.border);
    }
}

fn draw_list(state: &mut State, skin: &Skin, layout: &Layout, seconds: u64, buffer: &mut Buffer) {
    let area = layout.text();
    let Some(Overlay::List(picker)) = &state.overlay else { return };
    let lines = picker_view::lines(picker, skin, area.width.into(), area.height.into());
    let split = panels::view::split(layout, false, lines.len());
    draw_below(state, skin, &split, seconds, buffer);
    panels::view::draw_lines(skin, &lines, &split, buffer);
}

fn draw_chats(state: &mut State, skin: &Skin, layout: &Layout, seconds: u64, buffer: &mut Buffer) {
    let area = layout.text();
    let Some(Overlay::Chats(list)) = &state.overlay else { return };
    let lines = chats::view::lines(list, state.chats.id.as_deref(), skin, area.width.into(), area.height.into());
    let split = panels::view::split(layout, false, lines.len());
    draw_below(state, skin, &split, seconds, buffer);
    panels::view::draw_lines(skin, &lines, &split, buffer);
}

/// The conversation below something else.
fn draw_below(state: &mut State, skin: &Skin, split: &Split, seconds: u64, buffer: &mut Buffer) {
    let below = split.below;
    state.conversation.lay_out(below.width.into(), below.height.into());
    transcript::draw(state, skin, below, seconds, buffer);
}

#[cfg(test)]
#[path = "view_tests.rs"]
pub mod tests;
