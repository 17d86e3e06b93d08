//! Puts panels on the screen: in the column, above the conversation, or in its place.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::super::keys::{Action, Context, Step};
use super::super::layout::Layout;
use super::super::skin::{Skin, Text, width};
use super::super::state::State;
use super::{Panel, arrange, cost};

/// Where an open panel that has no place in the column stands: above the conversation, which goes on below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split {
    /// With a heading where there is room for it, and a rule below.
    pub top: Rect,
    pub heading_rows: u16,
    pub lines: u16,
    pub rule_rows: u16,
    /// Of the conversation's text.
    pub below: Rect,
}

/// These lines above the conversation. What a low screen has no room for: the rule below first, then the heading, the lines
/// never.
pub fn split(layout: &Layout, has_heading: bool, lines: usize) -> Split {
    let area = layout.text();
    let heading_rows = u16::from(has_heading && area.height > 1);
    let lines = u16::try_from(lines).unwrap_or(u16::MAX).min(area.height - heading_rows);
    let rule_rows = u16::from(area.height > heading_rows + lines);
    let shown = heading_rows + lines + rule_rows;
    Split {
        top: Rect { height: shown, ..layout.conversation },
        heading_rows,
        lines,
        rule_rows,
        below: Rect { y: area.y + shown, height: area.height - shown, ..area },
    }
}

/// The open panel above the conversation; `None` where it has a place in the column or takes that of the conversation.
pub fn above(state: &State, layout: &Layout) -> Option<(Panel, Split)> {
    let panel = state.open_panel()?;
    let in_column = arrange(state, layout.panels).iter().any(|place| place.panel == panel);
    if in_column || state.is_zoomed() {
        return None;
    }
    let height = usize::from(layout.text().height);
    let rows = match panel {
        // Half of the screen is left to the words that the tokens gave.
        // A few rows have room for the token alone.
        Panel::Latency if state.token().is_some() && height < 4 => 1,
        Panel::Latency if state.token().is_some() => (height / 2).clamp(4, 9),
        Panel::Latency => height.saturating_sub(3).clamp(2, 9),
        panel => panel.wanted(state),
    };
    Some((panel, split(layout, rows > 1, rows)))
}

/// The rows of the conversation's text that are in view.
pub fn conversation_rows(state: &State, layout: &Layout) -> u16 {
    above(state, layout).map_or(layout.text().height, |(_, split)| split.below.height)
}

pub fn draw_column(state: &State, skin: &Skin, layout: &Layout, buffer: &mut Buffer) {
    let column = layout.panels;
    if column.is_empty() {
        return;
    }
    let columns = usize::from(column.width).saturating_sub(2);
    let places = arrange(state, column);
    let has_cost = places.iter().any(|place| place.panel == Panel::Cost);
    for place in places {
        let tee = if place.y < column.y { skin.glyphs.tee_down } else { skin.glyphs.tee_right };
        buffer.set_stringn(layout.divider.x, place.y, tee, 1, skin.theme.border);
        let area = Rect { y: place.y, height: 1, ..column };
        let legend = match place.panel {
            Panel::Device if !has_cost => cost::in_short(state, skin),
            panel => panel.legend(state, skin),
        };
        buffer.set_line(area.x, area.y, &titled(state, skin, place.panel, legend, area.width.into()), area.width);
        let lines = place.panel.lines(state, skin, columns, place.rows.into());
        for (y, line) in (place.y + 1..).take(place.rows.into()).zip(&lines) {
            buffer.set_line(column.x + 1, y, line, columns as u16);
        }
    }
}

/// Heading, lines and rule of a panel above the conversation.
pub fn draw_above(state: &State, skin: &Skin, panel: Panel, split: &Split, buffer: &mut Buffer) {
    let top = split.top;
    let lines = panel.lines(state, skin, usize::from(split.below.width), split.lines.into());
    if split.heading_rows > 0 {
        buffer.set_line(top.x, top.y, &heading(state, skin, panel, top.width.into()), top.width);
    }
    draw_lines(skin, &lines, split, buffer);
}

/// Lines above the conversation, and the rule below them.
pub fn draw_lines(skin: &Skin, lines: &[Text], split: &Split, buffer: &mut Buffer) {
    let top = split.top;
    for (y, line) in (top.y + split.heading_rows..).zip(lines.iter().take(split.lines.into())) {
        buffer.set_line(split.below.x, y, line, split.below.width);
    }
    if split.rule_rows > 0 {
        let rule = skin.glyphs.rule(top.width.into());
        buffer.set_stringn(top.x, top.bottom() - 1, rule, top.width.into(), skin.theme.border);
    }
}

/// The panel in the place of conversation and column.
pub fn draw_zoomed(state: &State, skin: &Skin, panel: Panel, layout: &Layout, buffer: &mut Buffer) {
    let (body, text) = (layout.conversation, layout.text());
    let body = Rect { width: body.width + layout.divider.width + layout.panels.width, ..body };
    // Its heading stands in the rule above, where there is one.
    let heading_y = if layout.top_rule.is_empty() { body.y } else { layout.top_rule.y };
    let first = body.y + u16::from(heading_y == body.y && body.height > 1);
    let area = Rect { y: first, height: body.bottom().saturating_sub(first), ..body };
    let columns = usize::from(area.width).saturating_sub(2 * usize::from(text.x));
    let lines = panel.lines(state, skin, columns, area.height.into());
    for (y, line) in (area.y..area.bottom()).zip(&lines) {
        buffer.set_line(text.x, y, line, columns as u16);
    }
    if first > heading_y {
        buffer.set_line(body.x, heading_y, &heading(state, skin, panel, body.width.into()), body.width);
    }
}

/// The keys that count for the open panel or the token that is looked at, as many as there is room for.
pub fn footer(state: &State, skin: &Skin, columns: usize) -> Option<Text> {
    let token = |step| state.keys.key(Context::Token, Action::Token(step));
    let chat = |action| state.keys.key(Context::Compose, action);
    let pair = |(one, other): (Option<String>, Option<String>)| Some(format!("{}/{}", one?, other?));
    let keys = match (state.context(), state.open_panel()) {
        (Context::Token, _) => vec![
            (pair((token(Step::Back), token(Step::On))), "token"),
            (token(Step::StallAfter), "stall"),
            (chat(Action::Escape), "back"),
            (pair((token(Step::AnswerBefore), token(Step::AnswerAfter))), "answer"),
            (pair((token(Step::First), token(Step::Last))), "ends"),
            (chat(Action::ZoomPanel), if state.is_zoomed() { "beside the text" } else { "zoom" }),
        ],
        (Context::Compose, Some(_)) if state.composer.text().is_empty() && !state.busy() => vec![
            (chat(Action::ZoomPanel), if state.is_zoomed() { "beside the text" } else { "zoom" }),
            (chat(Action::NextPanel), "next panel"),
            (chat(Action::Escape), "close"),
        ],
        _ => return None,
    };
    let mut line = Line::default();
    for (key, what) in keys.into_iter().filter_map(|(key, what)| Some((key?, what))) {
        if width(&line) + key.len() + what.len() + 4 <= columns {
            line.spans.extend([skin.plain(format!("   {key}")), skin.dim(format!(" {what}"))]);
        }
    }
    Some(line)
}

/// `─ speed ─────────`, and what the panel has to explain at the right. The open panel has a sign and its keys.
fn heading(state: &State, skin: &Skin, panel: Panel, columns: usize) -> Text {
    titled(state, skin, panel, panel.legend(state, skin), columns)
}

fn titled(state: &State, skin: &Skin, panel: Panel, legend: Option<Text>, columns: usize) -> Text {
    let border = |count: usize| skin.styled(skin.theme.border, skin.glyphs.rule(count));
    let open = state.open_panel() == Some(panel);
    let title = match open {
        true => skin.styled(skin.theme.strong, format!(" {} {} ", skin.glyphs.open, panel.title())),
        false => skin.styled(skin.theme.accent, format!(" {} ", panel.title())),
    };
    let mut line = vec![border(1), title];
    let left = width(&Line::from(line.clone()));
    let right = legend.map(|legend| {
        let mut spans = vec![skin.plain(" ")];
        spans.extend(legend.spans);
        spans.extend([skin.plain(" "), border(1)]);
        spans
    });
    let right = right.filter(|right| left + width(&Line::from(right.clone())) <= columns).unwrap_or_default();
    line.push(border(columns.saturating_sub(left + width(&Line::from(right.clone())))));
    line.extend(right);
    Line::from(line)
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
