//! Draws the conversation: the rows in view, and what stands there before the first message.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::engine::{EngineSnapshot, LaneState, Privacy};

use super::answer::Phase;
use super::chats::view as chats;
use super::conversation::{AnswerHeader, Block, Kind, Level, Row};
use super::format;
use super::layout::Mode;
use super::panels;
use super::skin::{Skin, Text, width};
use super::state::{EngineState, State};
use super::text::rows::{Piece, TextRow};
use super::text::sanitize::one_line;
use super::text::{truncate_middle, wrap};
use super::token_mark;

/// Columns of a model's name that are always shown.
const LEAST_NAME: usize = 8;

pub fn draw(state: &State, skin: &Skin, area: Rect, seconds_loading: u64, buffer: &mut Buffer) {
    if area.is_empty() {
        return;
    }
    if state.conversation.is_empty() {
        let wide = Mode::of(state.columns, state.rows) == Mode::Wide && !state.panels.hidden;
        let lines = opening(state, skin, seconds_loading, area.width.into(), wide);
        return draw_centred(&lines, skin, area, buffer);
    }
    let rows = state.conversation.visible();
    for (index, (number, row)) in rows.iter().enumerate() {
        let y = area.y + index as u16;
        let block = &state.conversation.blocks()[*number];
        let line = match (&block.kind, *row) {
            (_, Row::Gap) => continue,
            (Kind::User, Row::Header) => {
                let mut spans = vec![skin.styled(skin.theme.user, "You")];
                spans.extend(chats::place(state, block.message, skin));
                Line::from(spans)
            }
            (Kind::Answer(header), Row::Header) => {
                let place = chats::place(state, block.message, skin);
                header_line(state, header, place, skin, area.width.into())
            }
            (Kind::Notice(level), Row::Text(row)) => {
                let text: String = row.pieces.iter().map(|piece| piece.text(block.shown(), &skin.glyphs)).collect();
                notice_line(*level, &text, row.start == 0, 0, skin)
            }
            (Kind::Answer(_), row) => {
                let unfolded = state.conversation.is_unfolded();
                match answer_row(block, row, unfolded, skin, area.width.into()) {
                    Some(line) => line,
                    None => continue,
                }
            }
            (Kind::User, Row::Text(row)) => Line::from(text_spans(block, row, skin)),
            (_, Row::Header | Row::Thinking | Row::Thought(_) | Row::Mark(..) | Row::Ending(_)) => continue,
        };
        buffer.set_line(area.x, y, &line, area.width);
        if block.message.is_some() && block.message == state.chats.selected && area.x > 0 {
            buffer.set_stringn(area.x - 1, y, skin.glyphs.vertical, 1, skin.theme.accent);
        }
    }
    token_mark::draw(state, skin, &rows, area, buffer);
}

/// A row of an answer below its header.
pub fn answer_row(block: &Block, row: Row<'_>, unfolded: bool, skin: &Skin, columns: usize) -> Option<Text> {
    let Kind::Answer(header) = &block.kind else { return None };
    Some(match row {
        Row::Thinking => {
            let thinks = header.running && block.is_empty();
            thinking_line(header, thinks, !unfolded, skin, columns)
        }
        Row::Thought(line) => {
            let text = &block.thought()[line.start..line.end];
            Line::from(skin.dim(format!("{}{text}", " ".repeat(line.indent))))
        }
        Row::Text(row) => {
            let mut spans = text_spans(block, row, skin);
            if header.running && row.last {
                spans.push(skin.styled(skin.theme.accent, skin.glyphs.caret));
            }
            Line::from(spans)
        }
        Row::Mark(mark, line) => {
            let text = &block.mark(mark)[line.start..line.end];
            notice_line(Level::Info, text, line.start == 0, line.indent, skin)
        }
        Row::Ending(line) => {
            let (level, text) = header.ending.as_ref()?;
            notice_line(*level, &text[line.start..line.end], line.start == 0, line.indent, skin)
        }
        Row::Header | Row::Gap => return None,
    })
}

fn text_spans(block: &Block, row: TextRow<'_>, skin: &Skin) -> Vec<Span<'static>> {
    let pieces = block.pieces(row).into_iter();
    let span =
        |piece: Piece| Span::styled(piece.text(block.shown(), &skin.glyphs).into_owned(), skin.prose(piece.style));
    pieces.map(span).collect()
}

/// `smollm2 · cpu` and, once measured, `41 ms · 128 tok/s`.
fn header_line(state: &State, header: &AnswerHeader, place: Vec<Span<'static>>, skin: &Skin, columns: usize) -> Text {
    let model = if header.model.is_empty() { "model" } else { &header.model };
    let mut behind = Vec::new();
    if let Some(lane) = header.lane {
        behind.extend([skin.dot(), skin.dim(lane.name())]);
    }
    if header.emulated {
        behind.extend([skin.dim(" "), skin.styled(skin.theme.warning, "emulated")]);
    }
    behind.extend(place);
    let mut right: Vec<Span<'static>> = Vec::new();
    if header.running {
        right.extend(progress(state, skin));
    } else {
        right.extend(header.ttft.map(|ttft| skin.dim(format!("TTFT {}", format::duration(ttft)))));
        if let Some(speed) = header.tokens_per_second {
            if !right.is_empty() {
                right.push(skin.dot());
            }
            right.push(skin.dim(format!("{} tok/s", format::short_rate(speed))));
        }
    }
    // In a narrow column the speed is enough.
    if columns < 60 && right.len() > 1 {
        right.drain(..right.len() - 1);
    }
    // A long name gives way to the rest.
    let (behind, right) = (Line::from(behind), Line::from(right));
    let gap = if right.spans.is_empty() { 0 } else { 2 };
    let room = columns.saturating_sub(width(&behind) + gap + width(&right)).max(LEAST_NAME);
    let mut left = vec![skin.styled(skin.theme.strong, truncate_middle(model, room, skin.glyphs.ellipsis))];
    left.extend(behind.spans);
    skin.spread(Line::from(left), right, columns)
}

/// `· thought for 132 tokens, 3.20 s` and, where there is room, the key that shows it.
fn thinking_line(header: &AnswerHeader, thinks: bool, folded: bool, skin: &Skin, columns: usize) -> Text {
    let word = if thinks { "thinks" } else { "thought" };
    let tokens = header.thinking_tokens;
    let unit = if tokens == 1 { "token" } else { "tokens" };
    // Kept conversations of before have no times.
    let time = if tokens > 1 && !header.thinking_time.is_zero() {
        format!(", {}", format::duration(header.thinking_time))
    } else {
        String::new()
    };
    let left = Line::from(skin.dim(format!("{} {word} for {tokens} {unit}{time}", skin.glyphs.dot)));
    let key = if folded { "Ctrl-T shows it" } else { "Ctrl-T folds it" };
    let right = if columns < 60 { Line::default() } else { Line::from(skin.dim(key)) };
    skin.spread(left, right, columns)
}

/// What a running answer does before its first token.
fn progress(state: &State, skin: &Skin) -> Option<Span<'static>> {
    let answer = state.answer.as_ref()?;
    match (answer.phase(), answer.prefill) {
        (Phase::Waiting, _) => Some(skin.dim("waiting")),
        (Phase::Prefill, Some(progress)) => Some(skin.dim(format!("prefill {}/{}", progress.done, progress.total))),
        _ => None,
    }
}

fn notice_line(level: Level, text: &str, first: bool, indent: usize, skin: &Skin) -> Text {
    let (sign, style) = match level {
        Level::Info => (skin.glyphs.dot, skin.theme.dim),
        Level::Warning => (skin.glyphs.stall, skin.theme.warning),
        Level::Error => (skin.glyphs.rejected, skin.theme.error),
    };
    // Only the first line is loud: a long error must stay readable.
    let body = if level == Level::Error && !first { skin.theme.text } else { style };
    let lead = if first { format!("{sign} ") } else { "  ".to_string() };
    let text = format!("{}{text}", " ".repeat(indent));
    Line::from(vec![skin.styled(style, lead), skin.styled(body, text)])
}

/// What stands in the empty conversation.
fn opening(state: &State, skin: &Skin, seconds_loading: u64, columns: usize, wide: bool) -> Vec<Text> {
    let blank = Line::default;
    match &state.engine {
        EngineState::Loading { .. } => vec![
            Line::from(vec![
                skin.styled(skin.theme.strong, "loading the model"),
                skin.dot(),
                skin.dim(format!("{seconds_loading} s")),
            ]),
            blank(),
        ]
        .into_iter()
        .chain(wrapped("You can type; what you send waits for it.", skin, columns))
        .collect(),
        EngineState::Failed(_) => vec![Line::from(skin.styled(skin.theme.error, "the engine could not start"))],
        EngineState::Ready(snapshot) => {
            let mut lines = model_lines(snapshot, skin, columns);
            lines.push(blank());
            // Where there is a panel for the lanes, they are shown there and nowhere else.
            if !wide {
                let room = columns.saturating_sub(2);
                lines.extend(panels::lane::lines(state, skin, room, 0).into_iter().map(|line| skin.fit(line, room)));
                lines.push(blank());
            }
            lines.extend(wrapped(&invitation(state, snapshot), skin, columns));
            lines
        }
    }
}

/// Where what is said goes is said first.
fn invitation(state: &State, snapshot: &EngineSnapshot) -> String {
    if let Some(host) = &state.server {
        return format!("Ask something; {} answers.", one_line(host));
    }
    let lanes = snapshot.lanes.iter().filter(|lane| !matches!(lane.state, LaneState::Absent { .. }));
    match lanes.filter_map(|lane| lane.remote.as_ref()).next() {
        None => "Ask something; it stays on this machine.".to_owned(),
        Some(server) if server.privacy == Privacy::Ask && !state.settings.allow_remote => {
            format!("Ask something; it stays on this machine until you let {} have it.", server.host)
        }
        Some(server) => format!("Ask something; it may go to {}.", server.host),
    }
}

/// What it is called and what it is, on a line of its own where one has no room for both.
fn model_lines(snapshot: &EngineSnapshot, skin: &Skin, columns: usize) -> Vec<Text> {
    let name = skin.styled(skin.theme.strong, one_line(&snapshot.model));
    let weights = format!("{} of weights", format::bytes(snapshot.weight_bytes));
    let facts = [
        (!snapshot.architecture.is_empty()).then(|| one_line(&snapshot.architecture)),
        (snapshot.weight_bytes > 0).then_some(weights),
    ];
    let facts = facts.into_iter().flatten().map(|fact| vec![skin.dim(fact)]);
    let join =
        |parts: &mut dyn Iterator<Item = Vec<Span<'static>>>| Line::from(parts.collect::<Vec<_>>().join(&skin.dot()));
    let whole = join(&mut std::iter::once(vec![name.clone()]).chain(facts.clone()));
    match width(&whole) <= columns {
        true => vec![whole],
        false => vec![Line::from(name), join(&mut facts.into_iter())],
    }
}

fn wrapped(text: &str, skin: &Skin, columns: usize) -> Vec<Text> {
    let mut lines = Vec::new();
    wrap::wrap_flush(text, columns, &mut lines);
    lines.into_iter().map(|line| Line::from(skin.dim(&text[line.start..line.end]))).collect()
}

/// Lines of one left edge, in the middle of the area, a little above it.
fn draw_centred(lines: &[Text], skin: &Skin, area: Rect, buffer: &mut Buffer) {
    let widest = lines.iter().map(width).max().unwrap_or(0).min(area.width.into());
    let x = area.x + (area.width - widest as u16) / 2;
    let y = area.y + area.height.saturating_sub(lines.len() as u16) * 2 / 5;
    for (row, line) in (y..area.bottom()).zip(lines) {
        let room = area.right() - x;
        buffer.set_line(x, row, &skin.fit(line.clone(), room.into()), room);
    }
}
