//! Draws what is typed, what waits to be sent, and the footer below.

use std::ops::Range;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};

use super::answer::Answer;
use super::chats;
use super::composer::{self, Vi, roughly};
use super::consent::{self, Gate};
use super::keys::{Action, Context};
use super::layout::{COMPOSER_MARGIN, Layout, Mode};
use super::panels;
use super::skin::{Skin, Text, width};
use super::state::{EngineState, Overlay, State};
use super::text::sanitize::one_line;
use super::text::wrap;
use crate::engine::RoutingDecision;

/// Columns beside what is said in the footer.
const MARGIN: usize = 3;
/// Columns of `queued` and the space around it.
const QUEUE_MARGIN: usize = 11;

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
        // A small screen has no other place to say which mode it is.
        let sign = match state.composer.vi().map(Vi::mode) {
            None | Some(composer::Mode::Insert) => skin.glyphs.prompt,
            Some(composer::Mode::Normal) => ":",
            Some(composer::Mode::Select { lines: false, .. }) => "v",
            Some(composer::Mode::Select { lines: true, .. }) => "V",
        };
        buffer.set_line(area.x + 1, area.y, &Line::from(skin.styled(skin.theme.accent, sign)), 1);
    }
    let room = area.width - margin;
    if state.composer.is_empty() {
        let placeholder = Line::from(skin.dim(placeholder(state, skin)));
        buffer.set_line(area.x + margin, area.y, &skin.fit(placeholder, room.into()), room);
    }
    for (y, line) in (area.y..area.bottom()).zip(&lines) {
        buffer.set_line(area.x + margin, y, &typed_line(state, skin, *line), room);
    }
    let x = (area.x + margin).saturating_add(column as u16).min(area.right() - 1);
    Some(Position::new(x, area.y + (row - first) as u16))
}

/// A line of what is typed; labels of pastes and files stand out.
fn typed_line(state: &State, skin: &Skin, line: wrap::Line) -> Text {
    let text = state.composer.text();
    let mut spans = vec![Span::raw(" ".repeat(line.indent))];
    let mut at = line.start;
    for unit in state.composer.draft().units() {
        let range = unit.range();
        let (start, end) = (range.start.clamp(at, line.end), range.end.clamp(at, line.end));
        spans.extend([skin.plain(&text[at..start]), skin.styled(skin.theme.accent, &text[start..end])]);
        at = end;
    }
    spans.push(skin.plain(&text[at..line.end]));
    spans.retain(|span| !span.content.is_empty());
    match state.composer.selection() {
        // What is not on the line is before or behind it.
        Some(range) if range.start <= line.end && range.end > line.start => {
            let place = |at: usize| line.indent + at.clamp(line.start, line.end) - line.start;
            Line::from(reversed(spans, place(range.start)..place(range.end)))
        }
        _ => Line::from(spans),
    }
}

/// The spans with these bytes of them selected; an empty line that is selected shows it by a space.
fn reversed(spans: Vec<Span<'static>>, selected: Range<usize>) -> Vec<Span<'static>> {
    let mut out = Vec::new();
    let mut start = 0;
    for span in spans {
        let end = start + span.content.len();
        let (from, to) = (selected.start.clamp(start, end) - start, selected.end.clamp(start, end) - start);
        let (text, style) = (span.content, span.style);
        out.extend([
            Span::styled(text[..from].to_owned(), style),
            Span::styled(text[from..to].to_owned(), style.add_modifier(Modifier::REVERSED)),
            Span::styled(text[to..].to_owned(), style),
        ]);
        start = end;
    }
    out.retain(|span| !span.content.is_empty());
    if out.is_empty() {
        out.push(Span::styled(" ", Modifier::REVERSED));
    }
    out
}

fn placeholder(state: &State, skin: &Skin) -> String {
    match &state.replay {
        Some(replay) if replay.over => return "The replay has ended".to_owned(),
        Some(_) => return "A replay; Space stops it and goes on".to_owned(),
        None => {}
    }
    if let (EngineState::Ready(_), Some(lane), false) = (&state.engine, state.settings.lane, state.busy()) {
        return format!("Message to {lane}; /auto lets ortalk choose");
    }
    if let Some(progress) = state.models.progress(skin.glyphs.dot, state.now) {
        return format!("Message; {progress}");
    }
    let key = |action| state.keys.say(action);
    match state.engine {
        EngineState::Loading { .. } => "Type while the model loads".to_owned(),
        EngineState::Failed(_) => format!("{} twice, or /quit, to leave", key(Action::Interrupt)),
        EngineState::Ready(_) if state.busy() => format!("Type while it answers; {} cancels", key(Action::Escape)),
        EngineState::Ready(_) => "Message".to_owned(),
    }
}

/// Each message that waits, over as many rows as it needs where there is room for them.
pub fn draw_queue(state: &State, skin: &Skin, area: Rect, buffer: &mut Buffer) {
    let columns = usize::from(area.width);
    let mut rows = queue_lines(state, columns).into_iter().peekable();
    for y in area.y..area.bottom() {
        let Some((label, text)) = rows.next() else { break };
        let text = if y + 1 == area.bottom() && rows.peek().is_some() {
            format!("{text} {}", skin.glyphs.ellipsis)
        } else {
            text
        };
        let line = Line::from(vec![skin.dim(format!("   {label:6}  ")), skin.plain(text)]);
        buffer.set_line(area.x, y, &skin.fit(line, columns), area.width);
    }
}

pub fn queue_rows(state: &State) -> usize {
    queue_lines(state, state.columns.into()).len()
}

/// `queued` before the first line of each message. Of a long one the beginning is enough.
fn queue_lines(state: &State, columns: usize) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    for message in &state.queue {
        let start = one_line(&message.text().chars().take(400).collect::<String>());
        let mut lines = Vec::new();
        wrap::wrap_flush(&start, columns.saturating_sub(QUEUE_MARGIN + MARGIN), &mut lines);
        let text = |line: &wrap::Line| start[line.start..line.end].to_owned();
        rows.extend(lines.iter().enumerate().map(|(row, line)| (if row == 0 { "queued" } else { "" }, text(line))));
    }
    rows
}

/// Keys at the left, what the router would do at the right.
pub fn footer(state: &State, skin: &Skin, layout: &Layout, columns: usize) -> Text {
    if let Some(keys) = keys(state, skin) {
        return skin.fit(keys, columns);
    }
    let right = preview(state, skin);
    let left = hints(state, skin, layout, columns.saturating_sub(width(&right)));
    skin.spread(left, right, columns)
}

/// As many keys as there is room for.
fn hints(state: &State, skin: &Skin, layout: &Layout, columns: usize) -> Text {
    let key = |context, action, what| Some((state.keys.key(context, action)?, what));
    let chat = |action, what| key(Context::Compose, action, what);
    let keys = if let Some(Overlay::List(picker)) = &state.overlay {
        let has_rows = !picker.rows().0.is_empty();
        [key(Context::List, Action::Choose, "choose").filter(|_| has_rows), chat(Action::Escape, "back"), None, None]
    } else if let Some(Overlay::Page(_)) = state.overlay {
        [chat(Action::PageUp, "scroll"), chat(Action::Escape, "close"), None, None]
    } else if let Some(replay) = &state.replay {
        [
            key(Context::Replay, Action::Pause, if replay.paused { "go on" } else { "stop" }).filter(|_| !replay.over),
            chat(Action::PageUp, "scroll"),
            chat(Action::Interrupt, "twice: leave"),
            chat(Action::Help, "help"),
        ]
    } else if state.completion.is_open() || state.writing.offers() {
        [
            key(Context::List, Action::Choose, if state.writing.offers() { "attach" } else { "run" }),
            key(Context::List, Action::Complete, "complete"),
            chat(Action::Escape, "close"),
            None,
        ]
    } else if matches!(state.engine, EngineState::Failed(_)) {
        let commands = Some(("/".to_owned(), "commands"));
        [commands, chat(Action::Help, "help"), chat(Action::Interrupt, "twice: leave"), None]
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
    let mut line = vi_mode(state, skin);
    for (key, what) in keys.into_iter().flatten() {
        if width(&line) + key.len() + what.len() + 6 <= columns {
            line.spans.extend([skin.plain(format!("   {key}")), skin.dim(format!(" {what}"))]);
        }
    }
    line
}

/// vi's mode, and what was typed of a command.
fn vi_mode(state: &State, skin: &Skin) -> Text {
    let Some(vi) = state.composer.vi() else { return Line::default() };
    let mode = match vi.mode() {
        composer::Mode::Insert => "insert",
        composer::Mode::Normal => "normal",
        composer::Mode::Select { lines: false, .. } => "visual",
        composer::Mode::Select { lines: true, .. } => "visual line",
    };
    let mut line = Line::from(skin.styled(skin.theme.strong, format!("   {mode}")));
    if !vi.keys().is_empty() {
        line.push_span(skin.plain(format!(" {}", one_line(vi.keys()))));
    }
    line
}

/// What must be said now, in place of the keys.
fn urgent(state: &State) -> Option<String> {
    if state.quit_armed.is_some() {
        return Some(format!("press {} again to quit", state.keys.say(Action::Interrupt)));
    }
    if state.gate == Gate::Asking {
        return Some(consent::keys(state));
    }
    state.hint.clone()
}

/// The same as lines, as many as it needs where there is room for them.
pub fn said(state: &State, skin: &Skin, columns: usize, rows: usize) -> Vec<Text> {
    let Some(text) = urgent(state) else { return Vec::new() };
    let (margin, lines) = wrapped(&text, columns);
    let line = |(row, line): (usize, &wrap::Line)| {
        let is_cut = row + 1 == rows && lines.len() > rows;
        let text = if is_cut { one_line(&text[line.start..]) } else { text[line.start..line.end].to_owned() };
        let line = Line::from(skin.styled(skin.theme.warning, format!("{}{text}", " ".repeat(margin))));
        skin.fit(line, columns)
    };
    lines.iter().take(rows).enumerate().map(line).collect()
}

/// How many rows that takes.
pub fn said_rows(state: &State) -> usize {
    urgent(state).map_or(0, |text| wrapped(&text, state.columns.into()).1.len())
}

fn wrapped(text: &str, columns: usize) -> (usize, Vec<wrap::Line>) {
    let margin = if columns < 60 { 1 } else { MARGIN };
    let mut lines = Vec::new();
    wrap::wrap_flush(text, columns.saturating_sub(2 * margin), &mut lines);
    (margin, lines)
}

/// The keys of what is open, or of the message or token that the reader looks at.
pub fn keys(state: &State, skin: &Skin) -> Option<Text> {
    let columns = usize::from(state.columns);
    chats::view::footer(state, skin, columns).or_else(|| panels::view::footer(state, skin, columns))
}

/// Both in one line, for a screen that has no more room.
pub fn message(state: &State, skin: &Skin) -> Option<Text> {
    said(state, skin, state.columns.into(), 1).into_iter().next().or_else(|| keys(state, skin))
}

fn preview(state: &State, skin: &Skin) -> Text {
    let spans = match &state.preview.shown {
        Some(Ok(decision)) if !state.busy() => {
            let mut spans = match too_long(decision, false, skin) {
                Some(spans) => spans,
                None => {
                    let mut spans = count(decision, state.columns < 100, skin);
                    spans.insert(1, skin.dim(format!(" of {} tokens", decision.context_limit)));
                    spans.extend([skin.dim(", would run on "), skin.styled(skin.theme.lane, decision.lane.name())]);
                    spans
                }
            };
            if decision.emulated {
                spans.push(skin.styled(skin.theme.warning, " emulated"));
            }
            spans.push(skin.plain(" "));
            spans
        }
        Some(Err(error)) if !state.busy() => {
            vec![skin.styled(skin.theme.warning, format!("{} {} ", skin.glyphs.rejected, one_line(error)))]
        }
        _ => estimate(state, skin).unwrap_or_default(),
    };
    Line::from(spans)
}

/// Tokens that the conversation would take, where a server counts them and does not say: those that it counted last, and
/// the size of what is typed.
fn estimate(state: &State, skin: &Skin) -> Option<Vec<Span<'static>>> {
    if state.server.is_none() || state.busy() || state.composer.text().trim().is_empty() {
        return None;
    }
    let counted = state.answer.as_ref().and_then(Answer::context).map_or(0, |(used, _)| used);
    let tokens = roughly(counted + state.composer.draft().estimated_tokens());
    let limit = state.active_lane().map(|lane| lane.context_limit).filter(|limit| *limit > 0);
    let style = match limit {
        Some(limit) if tokens >= limit => skin.theme.error,
        Some(limit) if limit - tokens < limit / 10 => skin.theme.warning,
        _ => skin.theme.number,
    };
    let assumed = if state.assumes_context() { "est. " } else { "" };
    let of = limit.map(|limit| format!(" of {assumed}{limit}")).unwrap_or_default();
    Some(vec![skin.dim("est. "), skin.styled(style, tokens.to_string()), skin.dim(format!("{of} tokens "))])
}

/// `8734 tokens, 1234 over the 7500 that cpu has beside an answer`, of a message that it can never hold.
fn too_long(decision: &RoutingDecision, brief: bool, skin: &Skin) -> Option<Vec<Span<'static>>> {
    let (excess, room) = (decision.excess()?, decision.prompt_room());
    let (before, behind) = if brief { ("of", "") } else { ("that", " has beside an answer") };
    Some(vec![
        skin.styled(skin.theme.error, decision.prompt_tokens.to_string()),
        skin.dim(" tokens, "),
        skin.styled(skin.theme.error, format!("{excess} over")),
        skin.dim(format!(" the {room} {before} ")),
        skin.styled(skin.theme.lane, decision.lane.name()),
        skin.dim(behind),
    ])
}

/// The prompt's tokens, and what must be said of them.
fn count(decision: &RoutingDecision, brief: bool, skin: &Skin) -> Vec<Span<'static>> {
    let room = Room::of(decision);
    let style = match room {
        Room::Enough => skin.theme.number,
        Room::Little => skin.theme.warning,
        Room::None => skin.theme.error,
    };
    let whole = decision.whole_prompt_tokens.unwrap_or(decision.prompt_tokens);
    let count = skin.styled(style, whole.to_string());
    std::iter::once(count).chain(room.word(brief).map(|word| skin.styled(style, format!(", {word}")))).collect()
}

/// What the router would do, as the whole line of a small screen: `npu 470/500 tokens, nearly full`.
pub fn small_preview(state: &State, skin: &Skin) -> Option<Text> {
    let Some(Ok(decision)) = state.preview.shown.as_ref().filter(|_| !state.busy()) else {
        let mut spans = estimate(state, skin)?;
        spans.insert(0, skin.plain(" "));
        return Some(Line::from(spans));
    };
    if let Some(mut spans) = too_long(decision, true, skin) {
        spans.insert(0, skin.plain(" "));
        return Some(Line::from(spans));
    }
    let mut spans = vec![skin.styled(skin.theme.lane, format!(" {}", decision.lane))];
    if decision.emulated {
        spans.push(skin.styled(skin.theme.warning, " emulated"));
    }
    spans.push(skin.dot());
    let mut count = count(decision, true, skin);
    count.insert(1, skin.dim(format!("/{} tokens", decision.context_limit)));
    spans.extend(count);
    Some(Line::from(spans))
}

/// How much of the lane's context is left for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    Enough,
    Little,
    /// Old turns are left out.
    None,
}

impl Room {
    fn of(decision: &RoutingDecision) -> Self {
        let (count, limit) = (decision.prompt_tokens, decision.context_limit);
        match limit {
            0 => Self::Enough, // not known
            _ if decision.whole_prompt_tokens.is_some() => Self::None,
            _ if count >= limit => Self::None,
            // Less than a tenth, or less than the answer is expected to take.
            _ if decision.needed_tokens > limit || limit - count < limit / 10 => Self::Little,
            _ => Self::Enough,
        }
    }

    /// In one line beside others, where that is `brief`.
    fn word(self, brief: bool) -> Option<&'static str> {
        match self {
            Self::Enough => None,
            Self::Little => Some("nearly full"),
            Self::None if brief => Some("oldest turns go"),
            Self::None => Some("the oldest turns will be left out"),
        }
    }
}

#[cfg(test)]
mod tests {
    use crossterm::event::KeyCode;

    use super::super::event::Event;
    use super::super::fixtures::{Desk, decision};
    use super::super::skin::test_skin;
    use super::super::state::Preview;
    use super::super::view::tests::screens;
    use super::*;
    use crate::engine::{FinishReason, LaneId, PromptParts, Rejection, Rule};

    /// The text with what is selected in brackets.
    fn selected(text: &str, keys: &str, columns: usize) -> Vec<String> {
        let mut desk = Desk::ready();
        desk.state.composer.use_vi(true);
        desk.state.composer.insert(text);
        desk.state.composer.vi_escape();
        keys.chars().for_each(|key| desk.state.composer.vi_key(key, columns));
        let lines = desk.state.composer.lines(columns).to_vec();
        let shown = |line| {
            let spans = typed_line(&desk.state, &test_skin(), line).spans.into_iter();
            let mark = |span: Span<'_>| match span.style.add_modifier.contains(Modifier::REVERSED) {
                true => format!("[{}]", span.content),
                false => span.content.into_owned(),
            };
            spans.map(mark).collect()
        };
        lines.into_iter().map(shown).collect()
    }

    #[test]
    fn what_is_selected_stands_out() {
        assert_eq!(selected("one two three", "0wve", 40), ["one [two] three"]);
        assert_eq!(selected("one two three", "0wv$", 8), ["one [two]", "[three]"]);
        assert_eq!(selected("one\n\ntwo\nthree", "ggVjj", 40), ["[one]", "[ ]", "[two]", "three"]);
        assert_eq!(selected("日本語", "0lv", 40), ["日[本]語"]);
        assert_eq!(selected("one", "0", 40), ["one"]);
    }

    fn long_decision() -> RoutingDecision {
        let parts = PromptParts { system: 30, history: 0, message: 8704 };
        RoutingDecision {
            prompt_tokens: 8734,
            needed_tokens: 8834,
            parts: Some(parts),
            rule: Rule::LongestContext,
            predicted_ttft: None,
            predicted_total: None,
            rejected: vec![Rejection {
                lane: LaneId::Npu,
                reason: "8834 tokens, context of 500".into(),
                context_limit: 500,
                predicted_total: None,
            }],
            ..decision()
        }
    }

    #[test]
    fn a_message_that_no_lane_can_hold() {
        screens("too_long", || {
            let mut desk = Desk::ready();
            desk.type_text("Say it all again.");
            desk.state.preview = Preview { shown: Some(Ok(long_decision())), ..Preview::default() };
            desk
        });
        screens("too_long_not_sent", || {
            let mut desk = Desk::ready();
            desk.event(Event::Paste("word ".repeat(2000)));
            desk.key(KeyCode::Enter);
            desk.event(Event::Weighed(Ok(long_decision())));
            desk
        });
    }

    #[test]
    fn over_a_server_tokens_are_estimated() {
        screens("server_tokens", || {
            let mut desk = Desk::ready();
            desk.state.server = Some("example.com".to_owned());
            desk.stream();
            desk.finish(FinishReason::Stop);
            desk.type_text("And of Italy, and why there?");
            desk
        });
    }

    #[test]
    fn a_warning_comes_before_the_context_is_full() {
        let room = |prompt_tokens, context_limit| {
            Room::of(&RoutingDecision {
                prompt_tokens,
                needed_tokens: prompt_tokens + 100,
                context_limit,
                ..decision()
            })
        };
        assert_eq!(room(100, 500), Room::Enough);
        assert_eq!(room(400, 500), Room::Enough);
        assert_eq!(room(401, 500), Room::Little);
        assert_eq!(room(7201, 8000), Room::Little);
        assert_eq!(room(7200, 8000), Room::Enough);
        assert_eq!(room(500, 500), Room::None);
        assert_eq!(room(500, 0), Room::Enough);
    }
}
