//! How full? The context as one bar: system message, earlier turns, question, answer, what is free, and where the NPU's
//! ends.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::engine::{LaneId, LaneState, RoutingDecision};

use super::super::format;
use super::super::skin::{Skin, Text, pad_left, pad_right, width};
use super::super::state::State;

/// The bar, and two lines that say what its segments are.
pub const ROWS: usize = 3;
/// Columns of a segment's sign, name and number.
const CELL: [usize; 3] = [13, 14, 13];

/// What the context holds, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fill {
    /// System message, earlier turns, question; unknown where the engine does not tell them apart.
    parts: [Option<usize>; 3],
    prompt: usize,
    answer: usize,
    limit: usize,
}

impl Fill {
    /// Of what is typed, where that was weighed; else of the running or last answer, or of the conversation that was opened.
    fn of(state: &State) -> Option<Self> {
        let Some((decision, answer)) = state.decision() else { return state.standing.counted().map(Self::standing) };
        let parts = decision.parts;
        let limit = answer.and_then(|answer| answer.context()).map_or(decision.context_limit, |(_, limit)| limit);
        Some(Self {
            parts: [parts.map(|p| p.system), parts.map(|p| p.history), parts.map(|p| p.message)],
            prompt: decision.prompt_tokens,
            answer: answer.map_or(0, |answer| answer.tokens),
            limit,
        })
    }

    /// All that was said is history.
    fn standing(counted: &RoutingDecision) -> Self {
        let (prompt, limit) = (counted.prompt_tokens, counted.context_limit);
        let system = counted.parts.map(|parts| parts.system);
        let history = prompt - system.unwrap_or(0).min(prompt);
        Self { parts: [system, Some(history), Some(0)], prompt, answer: 0, limit }
    }

    fn free(&self) -> usize {
        self.limit.saturating_sub(self.prompt + self.answer)
    }

    /// The segments in their order; a prompt whose parts are not known is one.
    fn segments(&self) -> [usize; 4] {
        let [system, history, message] = self.parts.map(|part| part.unwrap_or(0));
        let message = if self.parts[2].is_none() { self.prompt } else { message };
        [system, history, message, self.answer]
    }
}

pub fn lines(state: &State, skin: &Skin, columns: usize, rows: usize) -> Vec<Text> {
    let fill = Fill::of(state);
    let limit = fill.map(|fill| fill.limit).or_else(|| state.active_lane().map(|lane| lane.context_limit));
    let signs = skin.glyphs.parts;
    let known = |part: usize| fill.and_then(|fill| fill.parts[part]);
    let npu = state.snapshot().and_then(|snapshot| {
        let there = |state: &LaneState| !matches!(state, LaneState::Absent { .. } | LaneState::Failed { .. });
        let npu = snapshot.lanes.iter().find(|lane| lane.id == LaneId::Npu && there(&lane.state));
        npu.map(|lane| lane.context_limit).filter(|limit| *limit > 0)
    });
    // A lane that holds no more than the NPU needs no mark.
    let npu = npu.filter(|npu| limit.is_none_or(|limit| *npu < limit));
    let free = fill.map(|fill| fill.free()).or(limit);
    let styles = styles(skin);
    let cell = |sign: &str, style: Style, name: &str, tokens: Option<usize>, at: usize| {
        let sign = skin.styled(style, sign.to_owned());
        // A number of five columns has room behind a short name.
        let room = CELL[at] - 3 - name.len();
        let name = skin.dim(format!(" {name} "));
        let number = match tokens {
            Some(tokens) => skin.number(pad_left(&short_count(tokens, room), room)),
            None => skin.dim(pad_left(skin.glyphs.absent, room)),
        };
        vec![sign, name, number]
    };
    let gap = || vec![skin.plain(if columns >= 46 { "   " } else { " " })];
    let prompt = if fill.is_some_and(|fill| fill.parts[2].is_none()) { fill.map(|fill| fill.prompt) } else { known(2) };
    let first = [
        cell(signs[0], styles[0], "system", known(0), 0),
        gap(),
        cell(signs[1], styles[1], "history", known(1), 1),
        gap(),
        cell(signs[2], styles[2], "prompt", prompt, 2),
    ];
    let second = [
        cell(signs[3], styles[3], "answer", fill.map(|fill| fill.answer), 0),
        gap(),
        cell(skin.glyphs.gauge_empty, skin.theme.border, "free", free, 1),
        gap(),
        match npu {
            Some(npu) => cell(skin.glyphs.limit, skin.theme.warning, "npu", Some(npu), 2),
            None => Vec::new(),
        },
    ];
    let bar = bar(fill, limit.unwrap_or(0), npu, skin, columns);
    let mut lines = vec![bar, Line::from(first.concat()), Line::from(second.concat())];
    if let Some(fill) = fill.filter(|fill| fill.limit > 0 && rows > ROWS + TABLE) {
        lines.push(Line::default());
        lines.extend(table(fill, npu, skin, columns));
    }
    lines
}

/// Rows of the table: its heading, the parts, what is free, the limit and the NPU's.
const TABLE: usize = 9;
/// Columns before a row's bar.
const BEFORE_BAR: usize = 34;

/// Each part in full numbers, with its share of the whole context: zoomed there is room for it.
fn table(fill: Fill, npu: Option<usize>, skin: &Skin, columns: usize) -> Vec<Text> {
    let names = ["system", "history", "prompt", "answer"];
    let room = columns.saturating_sub(BEFORE_BAR).min(50);
    let row = |sign: &str, style: Style, name: &str, tokens: Option<usize>| {
        let share = tokens.map(|tokens| tokens as f64 / fill.limit as f64);
        let mut spans = vec![
            skin.styled(style, sign.to_owned()),
            skin.dim(format!(" {}", pad_right(name, 9))),
            skin.figure(tokens.map(format::grouped), 9),
            skin.figure(share.map(|share| format!("{:.1} %", share * 100.0)), 10),
        ];
        spans.push(skin.plain(" ".repeat(BEFORE_BAR.saturating_sub(width(&Line::from(spans.clone()))))));
        spans.extend(skin.gauge(share.unwrap_or(0.0), room));
        Line::from(spans)
    };
    let known = |part: usize| match part {
        3 => Some(fill.answer),
        // One prompt, whose parts nobody knows.
        2 if fill.parts[2].is_none() => Some(fill.prompt),
        _ => fill.parts[part],
    };
    let mut lines = vec![Line::from(skin.dim("              tokens     share"))];
    let parts = skin.glyphs.parts.into_iter().zip(styles(skin)).zip(names).enumerate();
    lines.extend(parts.map(|(part, ((sign, style), name))| row(sign, style, name, known(part))));
    lines.push(row(skin.glyphs.gauge_empty, skin.theme.border, "free", Some(fill.free())));
    lines.push(row(" ", skin.theme.dim, "limit", Some(fill.limit)));
    lines.extend(npu.map(|npu| row(skin.glyphs.limit, skin.theme.warning, "npu", Some(npu))));
    lines
}

fn styles(skin: &Skin) -> [Style; 4] {
    [skin.theme.dim, skin.theme.chart, skin.theme.user, skin.theme.good]
}

fn bar(fill: Option<Fill>, limit: usize, npu: Option<usize>, skin: &Skin, columns: usize) -> Text {
    let counts = cells(fill.map_or([0; 4], |fill| fill.segments()), limit, columns);
    let mut cells: Vec<(&str, Style)> = Vec::with_capacity(columns);
    for ((count, sign), style) in counts.iter().zip(skin.glyphs.parts).zip(styles(skin)) {
        cells.extend(std::iter::repeat_n((sign, style), *count));
    }
    cells.resize(columns, (skin.glyphs.gauge_empty, skin.theme.border));
    if let Some(npu) = npu
        && limit > 0
        && let Some(cell) = cells.get_mut(npu * columns / limit)
    {
        *cell = (skin.glyphs.limit, skin.theme.warning);
    }
    let mut spans: Vec<Span<'static>> = Vec::new();
    for (sign, style) in cells {
        match spans.last_mut() {
            Some(last) if last.style == style => last.content.to_mut().push_str(sign),
            _ => spans.push(Span::styled(sign.to_owned(), style)),
        }
    }
    Line::from(spans)
}

/// How many of `columns` each segment of so many tokens takes: where there is anything, at least one; together never more
/// than there are.
fn cells(segments: [usize; 4], limit: usize, columns: usize) -> [usize; 4] {
    let (mut tokens, mut taken) = (0, 0);
    // Cells that are kept for the segments that follow.
    let mut kept = segments.iter().filter(|segment| **segment > 0).count();
    segments.map(|segment| {
        if segment == 0 {
            return 0;
        }
        tokens += segment;
        kept -= 1;
        let end = if limit == 0 { 0 } else { (tokens * columns).div_ceil(limit) };
        let room = (columns - taken).saturating_sub(kept);
        let count = end.saturating_sub(taken).max(1).min(room);
        taken += count;
        count
    })
}

/// In four columns, or in five where there are as many: `9999`, `128k`, `32.5k`, `1.0M`. Never more than there is.
fn short_count(count: usize, columns: usize) -> String {
    match count {
        0..=9999 => count.to_string(),
        10_000..=99_999 if columns > 4 => format!("{}.{}k", count / 1000, count % 1000 / 100),
        10_000..=999_999 => format!("{}k", count / 1000),
        _ => format!("{}.{}M", count / 1_000_000, count % 1_000_000 / 100_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_segment_is_seen_and_none_leaves_the_bar() {
        assert_eq!(cells([25, 25, 25, 25], 100, 40), [10, 10, 10, 10]);
        assert_eq!(cells([1, 0, 1, 1], 8192, 42), [1, 0, 1, 1]);
        assert_eq!(cells([30, 8130, 20, 12], 8192, 42), [1, 39, 1, 1]);
        assert_eq!(cells([900, 900, 900, 900], 100, 10), [7, 1, 1, 1]);
        assert_eq!(cells([5, 0, 0, 0], 0, 10), [1, 0, 0, 0]);
        assert_eq!(cells([5, 0, 0, 0], 10, 0), [0; 4]);
    }

    #[test]
    fn a_count_takes_four_columns() {
        let counts = [0, 9999, 10_000, 131_072, 999_500, 1_048_576].map(|count| short_count(count, 4));
        assert_eq!(counts, ["0", "9999", "10k", "131k", "999k", "1.0M"]);
        assert_eq!([32_768, 32_599, 131_072].map(|count| short_count(count, 5)), ["32.7k", "32.5k", "131k"]);
    }
}
