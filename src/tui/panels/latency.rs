//! How steady? A bar for each of the newest tokens, stalls marked, and the percentiles of the whole answer; or the tokens
//! around one that a reader has chosen, and all that is known of that one.

use std::ops::Range;
use std::time::Duration;

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::telemetry::latency::{LatencySummary, median, summarize};

use super::super::answer::Answer;
use super::super::block::Block;
use super::super::format::milliseconds;
use super::super::skin::{Skin, Text, pad_left, width};
use super::super::state::State;
use super::super::text;
use super::super::trace::{STALL, TracedToken, stall_threshold};

/// Columns left of the bars: the scale and the axis.
const AXIS: usize = 6;
/// Columns below which a token's line leaves out its lane.
const NARROW: usize = 30;
/// The statistics of a panel's line.
const SUMMARY: [&str; 4] = ["p50", "p95", "p99", "sd"];

/// A token in the chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bar {
    /// An answer's first token has none.
    pub latency: Option<Duration>,
    pub stall: bool,
}

pub fn lines(state: &State, skin: &Skin, columns: usize, rows: usize) -> Vec<Text> {
    if let Some((block, index)) = state.token() {
        return around(block, index, state.is_zoomed(), skin, columns, rows);
    }
    let latencies = latencies(state);
    let bars = newest(latencies, columns.saturating_sub(AXIS));
    let mut lines = chart(&bars, skin, rows.saturating_sub(1).max(1), None);
    lines.push(summary_that_fits(latencies, skin, &SUMMARY, columns));
    lines
}

fn latencies(state: &State) -> &[Duration] {
    state.answer.as_ref().map_or(&[][..], Answer::latencies)
}

/// The right side of the heading: the sign's meaning, where there is one to explain.
pub fn legend(state: &State, skin: &Skin) -> Option<Text> {
    let of_block = state.token().map(|(block, _)| block.trace().latencies());
    let latencies = of_block.as_deref().unwrap_or_else(|| latencies(state));
    let stalls = newest(latencies, latencies.len()).iter().filter(|bar| bar.stall).count();
    (stalls > 0).then(|| {
        Line::from(vec![
            skin.styled(skin.theme.stall, skin.glyphs.stall),
            skin.dim(format!(" {stalls} over {STALL}x the median")),
        ])
    })
}

/// The newest tokens.
pub fn newest(latencies: &[Duration], count: usize) -> Vec<Bar> {
    let threshold = stall_threshold(latencies);
    let bar = |latency: &Duration| Bar {
        latency: Some(*latency),
        stall: threshold.is_some_and(|threshold| *latency > threshold),
    };
    latencies[latencies.len().saturating_sub(count)..].iter().map(bar).collect()
}

/// The chart around a chosen token of a block, and what is known of it.
fn around(block: &Block, index: usize, zoomed: bool, skin: &Skin, columns: usize, rows: usize) -> Vec<Text> {
    let tokens = block.trace().tokens();
    let latencies = block.trace().latencies();
    let threshold = stall_threshold(&latencies);
    let stalled = |token: &TracedToken| !token.first && threshold.is_some_and(|threshold| token.took > threshold);
    let window = window(tokens.len(), index, columns.saturating_sub(AXIS));
    let bar = |token: &TracedToken| Bar { latency: (!token.first).then_some(token.took), stall: stalled(token) };
    let bars: Vec<Bar> = tokens[window.clone()].iter().map(bar).collect();

    let mut below = vec![Line::from(
        skin.styled(skin.theme.accent, format!("{}{}", " ".repeat(AXIS + index - window.start), skin.glyphs.up)),
    )];
    let token = token_line(block, index, stalled(&tokens[index]), median(&latencies), skin, columns);
    if rows == 1 {
        return vec![token];
    }
    below.push(token);
    if zoomed && rows > 8 {
        below.push(sentence(block, &tokens[index], skin, columns));
    }
    // On a low screen the token says more than the percentiles.
    if rows > below.len() + 2 {
        below.push(summary_that_fits(&latencies, skin, &SUMMARY, columns));
    }
    let mut lines = chart(&bars, skin, rows.saturating_sub(below.len()).max(1), Some(index - window.start));
    lines.extend(below);
    lines
}

/// The tokens that the chart has room for, this one in the middle.
fn window(tokens: usize, index: usize, columns: usize) -> Range<usize> {
    let columns = columns.clamp(1, tokens.max(1));
    let start = index.saturating_sub(columns / 2).min(tokens.saturating_sub(columns));
    start..(start + columns).min(tokens)
}

/// `37/128   8.4 ms  cpu  ▲ stall  " Paris"`
fn token_line(
    block: &Block,
    index: usize,
    stalled: bool,
    median: Option<Duration>,
    skin: &Skin,
    columns: usize,
) -> Text {
    let tokens = block.trace().tokens();
    let token = tokens[index];
    let total = tokens.len().to_string();
    let mut spans = vec![
        skin.number(pad_left(&(index + 1).to_string(), total.len())),
        skin.dim(format!("/{total} ")),
        skin.number(pad_left(&milliseconds(token.took), 5)),
        skin.dim(if token.first { " ms, first  " } else { " ms  " }),
    ];
    match index.checked_sub(1).map(|before| tokens[before].lane) {
        Some(before) if before != token.lane && !token.first => {
            spans.push(skin.styled(skin.theme.warning, format!("{before} to {}  ", token.lane)));
        }
        // The header has it, too.
        _ if columns < NARROW => {}
        _ => spans.push(skin.plain(format!("{}  ", token.lane))),
    }
    if stalled {
        // How much longer, where there is room to say it.
        let times = median
            .filter(|_| columns >= 60)
            .map(|median| token.took.as_secs_f64() / median.as_secs_f64())
            .filter(|t| t.is_finite());
        let times = times.map_or_else(String::new, |times| format!(" {times:.1}x"));
        spans.push(skin.styled(skin.theme.stall, format!("{} stall{times}  ", skin.glyphs.stall)));
    }
    if token.thinks {
        spans.push(skin.dim("thinks  "));
    }
    let text = text_of(block, &token);
    if text.is_empty() {
        spans.push(skin.dim("its text came later"));
    } else {
        let room = columns.saturating_sub(width(&Line::from(spans.clone())) + 2);
        let quoted = format!("\"{}\"", text::truncate(&escaped(text), room, skin.glyphs.ellipsis));
        spans.push(skin.styled(skin.theme.strong, quoted));
    }
    Line::from(spans)
}

fn text_of<'a>(block: &'a Block, token: &TracedToken) -> &'a str {
    let whole = if token.thinks { block.thought() } else { block.shown() };
    whole.get(token.text()).unwrap_or_default()
}

fn escaped(text: &str) -> String {
    text.replace('\n', "\\n").replace('\t', "\\t")
}

/// The token within the words around it, for want of the conversation.
fn sentence(block: &Block, token: &TracedToken, skin: &Skin, columns: usize) -> Text {
    let whole = if token.thinks { block.thought() } else { block.shown() };
    let (before, after) = (whole.get(..token.text().start), whole.get(token.text().end..));
    // In the middle, but near the ends: there the row would be half empty.
    let behind = after.map_or(0, text::width);
    let room = (columns / 2).max(columns.saturating_sub(behind + text::width(text_of(block, token)) + 1));
    let mut taken = 0;
    let mut lead: Vec<char> = Vec::new();
    for c in before.unwrap_or_default().chars().rev().map(|c| if c == '\n' { ' ' } else { c }) {
        taken += text::width(c.encode_utf8(&mut [0; 4]));
        if taken > room {
            break;
        }
        lead.push(c);
    }
    let lead: String = lead.into_iter().rev().collect();
    let rest: String = after.unwrap_or_default().chars().take(columns).collect();
    Line::from(vec![
        skin.dim(lead),
        skin.styled(skin.theme.selection, escaped(text_of(block, token))),
        skin.dim(rest.replace('\n', " ")),
    ])
}

fn chart(bars: &[Bar], skin: &Skin, rows: usize, chosen: Option<usize>) -> Vec<Text> {
    let scale = scale(bars);
    let mut lines = Vec::new();
    for row in (0..rows).rev() {
        let label = match row {
            0 if rows > 1 => "0".to_string(),
            row if row + 1 == rows && scale > 0.0 => scale_label(scale),
            row if row + 1 == rows => skin.glyphs.absent.to_string(),
            _ => String::new(),
        };
        let mut spans = vec![
            skin.dim(pad_left(&label, AXIS - 2)),
            skin.styled(skin.theme.border, skin.glyphs.vertical),
            skin.dim(" "),
        ];
        let mut drawn = Bars::default();
        for (index, bar) in bars.iter().enumerate() {
            let style = match (chosen == Some(index), bar.stall) {
                (true, _) => skin.theme.strong,
                (false, true) => skin.theme.stall,
                (false, false) => skin.theme.chart,
            };
            let glyph = match (bar.latency, bar.stall) {
                (None, _) if row == 0 => skin.glyphs.dot,
                (None, _) => " ",
                (Some(_), true) if row + 1 == rows => skin.glyphs.stall,
                (Some(_), true) => skin.glyphs.level(1.0),
                (Some(latency), false) => {
                    let height = latency.as_secs_f64() * 1e3 / scale.max(f64::MIN_POSITIVE);
                    skin.glyphs.level(height * rows as f64 - row as f64)
                }
            };
            drawn.push(glyph, style);
        }
        spans.extend(drawn.spans);
        lines.push(Line::from(spans));
    }
    lines
}

/// The milliseconds at the top of the chart: room for everything but stalls, which are cut off there, and for twice the
/// median, so that an even stream stands at half height.
pub fn scale(bars: &[Bar]) -> f64 {
    let latencies: Vec<Duration> = bars.iter().filter_map(|bar| bar.latency).collect();
    let highest = bars.iter().filter(|bar| !bar.stall).filter_map(|bar| bar.latency).max();
    round_up(highest.max(median(&latencies).map(|median| median * 2)).unwrap_or_default().as_secs_f64() * 1e3)
}

/// Neighbours of one style become one span.
#[derive(Default)]
struct Bars {
    spans: Vec<Span<'static>>,
}

impl Bars {
    fn push(&mut self, glyph: &str, style: Style) {
        match self.spans.last_mut() {
            Some(last) if last.style == style => last.content.to_mut().push_str(glyph),
            _ => self.spans.push(Span::styled(glyph.to_string(), style)),
        }
    }
}

/// The next of 1, 2, 3, 4, 5, 6, 8, 10 times a power of ten: a scale that seldom changes.
fn round_up(value: f64) -> f64 {
    if !value.is_finite() || value <= 0.0 {
        return 0.0;
    }
    let power = 10f64.powf(value.log10().floor());
    let steps = [1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    steps.iter().map(|step| step * power).find(|step| *step >= value).unwrap_or(10.0 * power)
}

fn scale_label(ms: f64) -> String {
    if ms >= 1e4 {
        milliseconds(Duration::from_secs_f64(ms / 1e3))
    } else if ms >= 1.0 && ms.fract() < 1e-9 {
        format!("{ms:.0}")
    } else {
        format!("{ms:.2}").trim_end_matches('0').to_string()
    }
}

/// As many of the statistics, from the first on, as there is room for.
pub fn summary_that_fits(latencies: &[Duration], skin: &Skin, names: &[&str], columns: usize) -> Text {
    let lines = (1..=names.len()).rev().map(|count| summary_line(latencies, skin, &names[..count]));
    lines.into_iter().find(|line| width(line) <= columns).unwrap_or_default()
}

/// The statistics named, of all these tokens, in milliseconds.
pub fn summary_line(latencies: &[Duration], skin: &Skin, names: &[&str]) -> Text {
    let summary = summarize(latencies);
    let value = |name: &str, summary: &LatencySummary| match name {
        "p50" => summary.p50,
        "p95" => summary.p95,
        "p99" => summary.p99,
        _ => summary.std_dev,
    };
    let mut spans = Vec::new();
    for name in names {
        spans.push(skin.dim(if *name == "sd" { skin.glyphs.sigma } else { name }));
        spans.push(skin.figure(summary.as_ref().map(|summary| milliseconds(value(name, summary))), 5));
        spans.push(skin.dim("  "));
    }
    if let Some(last) = spans.last_mut() {
        *last = skin.dim(" ms");
    }
    Line::from(spans)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(values: &[u64]) -> Vec<Duration> {
        values.iter().map(|v| Duration::from_millis(*v)).collect()
    }

    #[test]
    fn what_stalled_does_not_hang_on_what_is_in_view() {
        let stalls = |count| newest(&ms(&[10, 10, 10, 30, 31]), count).iter().map(|bar| bar.stall).collect::<Vec<_>>();
        assert_eq!(stalls(9), [false, false, false, false, true]);
        assert_eq!(stalls(2), [false, true]);
    }

    #[test]
    fn a_stall_does_not_flatten_the_others() {
        assert_eq!(scale(&newest(&ms(&[10, 10, 10, 12, 500]), 5)), 20.0);
    }

    #[test]
    fn the_chosen_token_stays_in_the_middle_where_there_are_more() {
        assert_eq!([window(5, 2, 40), window(100, 0, 40), window(100, 50, 40)], [0..5, 0..40, 30..70]);
        assert_eq!([window(100, 99, 40), window(3, 1, 0), window(0, 0, 9)], [60..100, 1..2, 0..0]);
    }

    #[test]
    fn the_scale_takes_round_steps() {
        assert_eq!([0.0, 7.6, 8.0, 8.1, 12.1, 0.03].map(round_up), [0.0, 8.0, 8.0, 10.0, 15.0, 0.03]);
        assert_eq!([8.0, 0.5, 15.0].map(scale_label), ["8", "0.5", "15"]);
    }
}
