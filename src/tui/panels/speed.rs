//! How fast? Tokens per second, time to the first token, how much of the prompt had to be computed, and how the last
//! answers were.

use ratatui::text::{Line, Span};

use crate::telemetry::latency::tokens_per_second;

use super::super::answer::{Answer, Phase};
use super::super::format;
use super::super::skin::{Skin, Text, pad_left, pad_right, width};
use super::super::state::State;
use super::Past;

/// Tokens that one bar of the sparkline stands for.
const TOKENS_PER_BAR: usize = 4;
/// Columns of a number after its label.
const NUMBER: usize = 8;
/// Columns before the prefill's rate.
const PREFILL: usize = 21;

/// Rows of the panel in the column.
pub const ROWS: usize = 4;

pub fn lines(state: &State, skin: &Skin, columns: usize, rows: usize) -> Vec<Text> {
    let answer = state.answer.as_ref();
    let speed = answer.and_then(Answer::tokens_per_second);
    let mut first = vec![skin.dim("decode"), skin.figure(speed.map(format::rate), NUMBER), skin.dim(" tok/s")];
    if answer.is_some_and(Answer::is_estimate) {
        first.push(skin.dim(" est."));
    }
    let used = width(&Line::from(first.clone()));
    if let Some(answer) = answer {
        let room = columns.saturating_sub(used + 2);
        let bars = sparkline(answer, skin, room.min(28));
        first.push(Span::raw(" ".repeat(room.saturating_sub(bars.chars().count()) + 2)));
        first.push(skin.styled(skin.theme.chart, bars));
    }
    let ttft = answer.and_then(Answer::ttft);
    let mut second = vec![skin.dim("TTFT  ")];
    match ttft {
        Some(ttft) => second.extend(skin.measure(&format::duration(ttft), NUMBER)),
        None => second.extend([skin.figure(None, NUMBER), skin.dim(" ms")]),
    }
    second.push(Span::raw(" ".repeat(PREFILL.saturating_sub(width(&Line::from(second.clone()))))));
    let measured = answer.and_then(Answer::prefill_tokens_per_second);
    let estimate = [skin.dim(" est.")];
    let has_room = PREFILL + 20 + width(&Line::from(estimate.to_vec())) <= columns;
    let least = answer.and_then(Answer::least_prefill_rate).filter(|_| measured.is_none() && has_room);
    second.extend([skin.dim("prefill "), skin.figure(measured.or(least).map(format::rate), 6), skin.dim(" tok/s")]);
    second.extend(estimate.into_iter().filter(|_| least.is_some()));
    let mut third = vec![skin.dim("prompt  ")];
    third.extend(prompt_line(state, skin, columns.saturating_sub(8)).spans);
    let past = state.panels.trend();
    let mut lines = vec![Line::from(first), Line::from(second), Line::from(third), trend(past, skin, columns)];
    // Zoomed there is room for the numbers.
    if rows > ROWS + 2 && !past.is_empty() {
        lines.push(Line::default());
        lines.push(Line::from(skin.dim(COLUMNS)));
        let count = past.len();
        let newest = past.iter().rev().take(rows - ROWS - 2);
        lines.extend(newest.enumerate().map(|(index, past)| past_line(count - index, past, skin)));
    }
    lines
}

/// During prefill a gauge, after it what was new and what was reused.
pub fn prompt_line(state: &State, skin: &Skin, columns: usize) -> Text {
    let Some(answer) = &state.answer else {
        let is_new = state.chats.tree.head().is_none();
        return Line::from(skin.dim(if is_new { "no answer yet" } else { "not known of this answer" }));
    };
    match (answer.phase(), answer.prefill) {
        (Phase::Waiting, _) => Line::from(skin.dim("waiting for a lane")),
        (Phase::Prefill, Some(progress)) => {
            let text = format!("prefill {} of {} tokens ", progress.done, progress.total);
            let room = columns.saturating_sub(text.len()).min(16);
            let [full, empty] = skin.gauge(progress.done as f64 / progress.total.max(1) as f64, room);
            Line::from(vec![skin.plain(text), full, empty])
        }
        _ => match answer.new_and_reused() {
            Some((new, reused)) => {
                let line = |unit: &str| {
                    Line::from(vec![
                        skin.number(new.to_string()),
                        skin.dim(format!(" new{unit}, ")),
                        skin.number(reused.to_string()),
                        skin.dim(" reused"),
                    ])
                };
                let full = line(if new == 1 { " token" } else { " tokens" });
                if width(&full) <= columns { full } else { line("") }
            }
            None if answer.is_kept() => {
                let words = ["not known of this answer", "none since it was opened"];
                let words = words.into_iter().find(|words| words.len() <= columns);
                Line::from(skin.dim(words.unwrap_or_default()))
            }
            None => Line::from(skin.absent()),
        },
    }
}

/// The last answers side by side: how fast they were, and how soon they began.
fn trend(past: &[Past], skin: &Skin, columns: usize) -> Text {
    let mut spans = vec![skin.dim("trend   ")];
    if past.is_empty() {
        spans.extend([skin.absent(), skin.dim(" no answer yet")]);
        return Line::from(spans);
    }
    let label = width(&Line::from(spans.clone()));
    // The words stand still while the bars grow.
    let words = ["tok/s ", "  TTFT "];
    let bars = (columns.saturating_sub(label + words[0].len() + words[1].len()) / 2).clamp(1, 24);
    let newest = &past[past.len().saturating_sub(bars)..];
    let rates: Vec<_> = newest.iter().map(|past| past.tokens_per_second).collect();
    let ttfts: Vec<_> = newest.iter().map(|past| past.ttft.map(|ttft| ttft.as_secs_f64())).collect();
    for (values, word) in [(rates, words[0]), (ttfts, words[1])] {
        spans.push(skin.dim(word));
        spans.push(skin.styled(skin.theme.chart, pad_right(&levels(&values, skin), bars)));
    }
    Line::from(spans)
}

/// A bar for each value, the highest of them three quarters high: a full block would be louder than anything else on the
/// screen. A value that is not known is a dot.
fn levels(values: &[Option<f64>], skin: &Skin) -> String {
    let highest = values.iter().flatten().copied().fold(0.0, f64::max);
    let level = |value: &Option<f64>| value.map_or(skin.glyphs.dot, |value| skin.glyphs.level(value / highest * 0.75));
    values.iter().map(level).collect()
}

/// Over the numbers of the last answers.
const COLUMNS: &str = "answer  lane              tok/s       TTFT    prefill   tokens";

fn past_line(number: usize, past: &Past, skin: &Skin) -> Text {
    let lane = if past.emulated { format!("{} emulated", past.lane) } else { past.lane.to_string() };
    Line::from(vec![
        skin.dim(pad_left(&number.to_string(), 6)),
        skin.plain(format!("  {}", pad_right(&lane, 14))),
        skin.figure(past.tokens_per_second.map(format::rate), 9),
        skin.figure(past.ttft.map(format::duration), 11),
        skin.figure(past.prefill_tokens_per_second.map(format::rate), 11),
        skin.number(pad_left(&past.tokens.to_string(), 9)),
    ])
}

/// Speed over the newest tokens, a bar for every few of them.
pub fn sparkline(answer: &Answer, skin: &Skin, columns: usize) -> String {
    let chunks = answer.latencies().chunks_exact(TOKENS_PER_BAR).map(tokens_per_second);
    let chunks: Vec<Option<f64>> = chunks.filter(Option::is_some).collect();
    levels(&chunks[chunks.len().saturating_sub(columns)..], skin)
}
