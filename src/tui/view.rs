//! Puts the screen together. Draws from the state alone; only caches of wrapped lines change in it.

use std::time::Instant;

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::keys::Action;
use super::layout::{Layout, Mode};
use super::panels::{self, Panel};
use super::skin::{Skin, Text, width};
use super::state::{EngineState, Overlay, State};
use super::{chats, composer_view, picker_view, strip, title, transcript};

pub fn draw(state: &mut State, skin: &Skin, now: Instant, frame: &mut Frame<'_>) {
    let area = frame.area();
    (state.columns, state.rows) = (area.width, area.height);
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
        Some(Overlay::Panel(panel)) => draw_panel(state, skin, panel, &layout, seconds, buffer),
        Some(Overlay::List(_)) => draw_list(state, skin, &layout, seconds, buffer),
        Some(Overlay::Chats(_)) => draw_chats(state, skin, &layout, seconds, buffer),
    }
    draw_palette(state, skin, &layout, buffer);
    composer_view::draw_queue(state, skin, layout.queue, buffer);
    let cursor = composer_view::draw(state, skin, layout.composer, buffer);
    if !layout.footer.is_empty() {
        let line = composer_view::footer(state, skin, &layout, layout.footer.width.into());
        buffer.set_line(layout.footer.x, layout.footer.y, &line, layout.footer.width);
    }
    if let Some(cursor) = cursor {
        frame.set_cursor_position(cursor);
    }
}

/// What has numbers that change with each token. At low pace they stand for a while.
fn draw_instruments(state: &mut State, skin: &Skin, layout: &Layout, now: Instant, buffer: &mut Buffer) {
    let hold = state.pace.hold().filter(|_| state.busy() && state.page().is_none());
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
    draw_panels(state, skin, layout, buffer);
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
        Mode::Small => match composer_view::message(state, skin) {
            Some(message) => skin.fit(message, columns),
            None => title::status(state, skin, columns),
        },
    };
    buffer.set_line(area.x, area.y, &line, area.width);
}

/// The thin lines: above and below the conversation, and between it and the panels.
fn draw_rules(state: &State, skin: &Skin, layout: &Layout, buffer: &mut Buffer) {
    let style = skin.theme.border;
    for rule in [layout.top_rule, layout.bottom_rule] {
        buffer.set_stringn(rule.x, rule.y, skin.glyphs.rule(rule.width.into()), rule.area() as usize, style);
    }
    let divider = if state.page().is_some() { Rect::ZERO } else { layout.divider };
    for y in divider.top()..divider.bottom() {
        buffer.set_stringn(divider.x, y, skin.glyphs.vertical, divider.width.into(), style);
    }
    if !divider.is_empty() {
        buffer.set_stringn(divider.x, layout.top_rule.y, skin.glyphs.tee_down, 1, style);
        buffer.set_stringn(divider.x, layout.bottom_rule.y, skin.glyphs.tee_up, 1, style);
    }
    let marker = if state.page().is_some() { page_marker(state, skin, layout) } else { marker(state, skin) };
    if let Some(marker) = marker {
        let rule = layout.bottom_rule;
        let room = layout.conversation.width.min(rule.width);
        let marker = skin.fit(marker, room.into());
        let x = rule.x + (room - width(&marker) as u16) / 2;
        if !rule.is_empty() {
            buffer.set_line(x, rule.y, &marker, room);
        }
    }
}

fn page_marker(state: &State, skin: &Skin, layout: &Layout) -> Option<Text> {
    let (page, area) = (state.page()?, page_area(layout));
    let height = usize::from(area.height).saturating_sub(1);
    let below = page.lines(&state.keys, skin, area.width.into()).len().saturating_sub(page.top.saturating_add(height));
    let key = state.keys.say(Action::PageDown);
    let text = format!(" {} {below} more, {key} ", skin.glyphs.down);
    (below > 0).then(|| Line::from(skin.styled(skin.theme.accent, text)))
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
    let text = format!(" {} {count}{word} {lines}, {} to follow ", skin.glyphs.down, state.keys.say(Action::End));
    (below > 0).then(|| Line::from(skin.styled(skin.theme.accent, text)))
}

fn draw_panels(state: &State, skin: &Skin, layout: &Layout, buffer: &mut Buffer) {
    let column = layout.panels;
    if column.is_empty() || state.page().is_some() {
        return;
    }
    let columns = usize::from(column.width).saturating_sub(2);
    for place in panels::arrange(state, column) {
        let tee = if place.y < column.y { skin.glyphs.tee_down } else { skin.glyphs.tee_right };
        buffer.set_stringn(layout.divider.x, place.y, tee, 1, skin.theme.border);
        let area = Rect { y: place.y, height: 1, ..column };
        buffer.set_line(area.x, area.y, &heading(state, skin, place.panel, area.width.into()), area.width);
        let lines = place.panel.lines(state, skin, columns, place.chart_rows);
        for (y, line) in (place.y + 1..).take(place.rows.into()).zip(&lines) {
            buffer.set_line(column.x + 1, y, line, columns as u16);
        }
    }
}

/// `─ speed ─────────`, and what the panel has to explain at the right.
fn heading(state: &State, skin: &Skin, panel: Panel, columns: usize) -> Text {
    let border = |count: usize| skin.styled(skin.theme.border, skin.glyphs.rule(count));
    let title = skin.styled(skin.theme.accent, format!(" {} ", panel.title()));
    let mut left = vec![border(1), title];
    let mut right = Vec::new();
    if panel == Panel::Latency
        && let Some(legend) = panels::latency::legend(state, skin, columns.saturating_sub(2))
    {
        right.push(skin.plain(" "));
        right.extend(legend.spans);
        right.push(skin.plain(" "));
        right.push(border(1));
    }
    let used = width(&Line::from(left.clone())) + width(&Line::from(right.clone()));
    left.push(border(columns.saturating_sub(used)));
    left.extend(right);
    Line::from(left)
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

/// A panel that has no room beside the conversation, above it.
fn draw_panel(state: &mut State, skin: &Skin, panel: Panel, layout: &Layout, seconds: u64, buffer: &mut Buffer) {
    let area = layout.text();
    let chart_rows = usize::from(area.height).saturating_sub(4).clamp(1, 8);
    let lines = panel.lines(state, skin, area.width.into(), chart_rows);
    let heading = heading(state, skin, panel, layout.conversation.width.into());
    draw_above(state, skin, Some(heading), &lines, layout, seconds, buffer);
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
    draw_above(state, skin, None, &lines, layout, seconds, buffer);
}

fn draw_chats(state: &mut State, skin: &Skin, layout: &Layout, seconds: u64, buffer: &mut Buffer) {
    let area = layout.text();
    let Some(Overlay::Chats(list)) = &state.overlay else { return };
    let lines = chats::view::lines(list, skin, area.width.into(), area.height.into());
    draw_above(state, skin, None, &lines, layout, seconds, buffer);
}

/// These lines at the top, below a heading and above a rule; the conversation goes on below them.
fn draw_above(
    state: &mut State,
    skin: &Skin,
    heading: Option<Text>,
    lines: &[Text],
    layout: &Layout,
    seconds: u64,
    buffer: &mut Buffer,
) {
    let area = layout.text();
    if area.is_empty() {
        return;
    }
    let height = usize::from(area.height);
    // What a low screen has no room for: the rule below first, then the heading, the lines never.
    let heading_rows = usize::from(heading.is_some() && height > 1);
    let body = lines.len().min(height - heading_rows);
    let rule_rows = usize::from(height > heading_rows + body);
    let shown = (heading_rows + body + rule_rows) as u16;
    let top = Rect { height: shown, ..layout.conversation };
    let below = Rect { y: area.y + shown, height: area.height - shown, ..area };
    state.conversation.lay_out(area.width.into(), below.height.into());
    transcript::draw(state, skin, below, seconds, buffer);
    if let Some(heading) = heading.filter(|_| heading_rows > 0) {
        buffer.set_line(top.x, top.y, &heading, top.width);
    }
    for (y, line) in (top.y + heading_rows as u16..).zip(lines.iter().take(body)) {
        buffer.set_line(area.x, y, line, area.width);
    }
    if rule_rows > 0 {
        let rule = skin.glyphs.rule(top.width.into());
        buffer.set_stringn(top.x, top.bottom() - 1, rule, top.width.into(), skin.theme.border);
    }
}

#[cfg(test)]
#[path = "view_tests.rs"]
pub mod tests;
