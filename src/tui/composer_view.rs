//! Draws what is typed, what waits to be sent, and the footer below.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::text::Line;

use super::chats;
use super::consent::{self, Gate};
use super::keys::{Action, Context};
use super::layout::{COMPOSER_MARGIN, Layout, Mode};
use super::panels;
use super::skin::{Skin, Text, width};
use super::state::{EngineState, State};
use super::text::sanitize::one_line;

/// Draws the typed lines around the cursor and returns where the cursor stands.
pub fn draw(state: &mut State, skin: &Skin, area: Rect, buffer: &mut Buffer) -> Option<Position> {
    if area.is_empty() {
        return None;
    }
    let columns = state.composer_columns();
    let (row, column) = state.composer.cursor_position(columns);
    let height = usize::from(area.height);
    let all = state.composer.lines(columns);
    let first = (row + 1).saturating_sub(height).min(all.len().saturating_sub(height));
    let lines: Vec<_> = all.iter().skip(first).take(height).copied().collect();
    let margin = COMPOSER_MARGIN - 1;
    // On a screen too narrow for a margin the text takes all of it.
    let margin = if area.width > COMPOSER_MARGIN { margin } else { 0 };
    if margin > 0 {
        buffer.set_line(area.x + 1, area.y, &Line::from(skin.styled(skin.theme.accent, skin.glyphs.prompt)), 1);
    }
    let room = area.width - margin;
    if state.composer.is_empty() {
        let placeholder = Line::from(skin.dim(placeholder(state)));
        buffer.set_line(area.x + margin, area.y, &skin.fit(placeholder, room.into()), room);
    }
    for (y, line) in (area.y..area.bottom()).zip(&lines) {
        let text = format!("{}{}", " ".repeat(line.indent), &state.composer.text()[line.start..line.end]);
        buffer.set_line(area.x + margin, y, &Line::from(skin.plain(text)), room);
    }
    let x = (area.x + margin).saturating_add(column as u16).min(area.right() - 1);
    Some(Position::new(x, area.y + (row - first) as u16))
}

fn placeholder(state: &State) -> String {
    if state.replay.is_some() {
        return "A replay; Space stops it and goes on".to_owned();
    }
    if let (EngineState::Ready(_), Some(lane), false) = (&state.engine, state.settings.lane, state.busy()) {
        return format!("Message to {lane}; /auto lets ortalk choose");
    }
    if let (EngineState::Ready(_), Some(name)) = (&state.engine, &state.models.opening) {
        return format!("Message; {} is being loaded", one_line(name));
    }
    let key = |action| state.keys.say(action);
    match state.engine {
        EngineState::Loading { .. } => "Type while the model loads".to_owned(),
        EngineState::Failed(_) => format!("{} twice, or /quit, to leave", key(Action::Interrupt)),
        EngineState::Ready(_) if state.busy() => format!("Type while it answers; {} cancels", key(Action::Escape)),
        EngineState::Ready(_) => "Message".to_owned(),
    }
}

pub fn draw_queue(state: &State, skin: &Skin, area: Rect, buffer: &mut Buffer) {
    for (y, message) in (area.y..area.bottom()).zip(&state.queue) {
        let start: String = message.text().chars().take(400).collect();
        let line = Line::from(vec![skin.dim("   queued  "), skin.plain(one_line(&start))]);
        buffer.set_line(area.x, y, &skin.fit(line, area.width.into()), area.width);
    }
}

/// Keys at the left, what the router would do at the right.
pub fn footer(state: &State, skin: &Skin, layout: &Layout, columns: usize) -> Text {
    if let Some(message) = message(state, skin) {
        return skin.fit(message, columns);
    }
    let right = preview(state, skin);
    let left = hints(state, skin, layout, columns.saturating_sub(width(&right)));
    skin.spread(left, right, columns)
}

/// As many keys as there is room for.
fn hints(state: &State, skin: &Skin, layout: &Layout, columns: usize) -> Text {
    let key = |context, action, what| Some((state.keys.key(context, action)?, what));
    let chat = |action, what| key(Context::Compose, action, what);
    let keys = if let Some(replay) = &state.replay {
        [
            key(Context::Replay, Action::Pause, if replay.paused { "go on" } else { "stop" }),
            chat(Action::PageUp, "scroll"),
            chat(Action::Interrupt, "twice: leave"),
            chat(Action::Help, "help"),
        ]
    } else if state.completion.is_open() {
        [
            key(Context::List, Action::Choose, "run"),
            key(Context::List, Action::Complete, "complete"),
            chat(Action::Escape, "close"),
            None,
        ]
    } else {
        [
            chat(Action::Send, if state.busy() { "queue" } else { "send" }),
            if state.busy() { chat(Action::Escape, "cancel") } else { chat(Action::NewLine, "new line") },
            match layout.mode {
                Mode::Medium => chat(Action::NextPanel, "panels"),
                Mode::Wide | Mode::Small => Some(("/".to_owned(), "commands")),
            },
            chat(Action::Help, "help"),
        ]
    };
    let mut line = Line::default();
    for (key, what) in keys.into_iter().flatten() {
        if width(&line) + key.len() + what.len() + 6 <= columns {
            line.spans.extend([skin.plain(format!("   {key}")), skin.dim(format!(" {what}"))]);
        }
    }
    line
}

/// What must be said now, in place of the keys.
pub fn message(state: &State, skin: &Skin) -> Option<Text> {
    if state.quit_armed.is_some() {
        let key = state.keys.say(Action::Interrupt);
        return Some(Line::from(skin.styled(skin.theme.warning, format!("   press {key} again to quit"))));
    }
    if state.gate == Gate::Asking {
        return Some(Line::from(skin.styled(skin.theme.warning, format!("   {}", consent::keys(state)))));
    }
    let Some(hint) = &state.hint else {
        let columns = usize::from(state.columns);
        return chats::view::footer(state, skin, columns).or_else(|| panels::view::footer(state, skin, columns));
    };
    Some(Line::from(skin.styled(skin.theme.warning, format!("   {hint}"))))
}

fn preview(state: &State, skin: &Skin) -> Text {
    let spans = match &state.preview.shown {
        Some(Ok(decision)) if !state.busy() => {
            let mut spans = vec![
                skin.number(decision.prompt_tokens.to_string()),
                skin.dim(if decision.prompt_tokens == 1 { " token, would run on " } else { " tokens, would run on " }),
                skin.styled(skin.theme.lane, decision.lane.name()),
            ];
            if decision.emulated {
                spans.push(skin.styled(skin.theme.warning, " emulated"));
            }
            spans.push(skin.plain(" "));
            spans
        }
        Some(Err(error)) if !state.busy() => {
            vec![skin.styled(skin.theme.warning, format!("{} {} ", skin.glyphs.rejected, one_line(error)))]
        }
        _ => Vec::new(),
    };
    Line::from(spans)
}
