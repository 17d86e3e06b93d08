//! How fast? Tokens per second, time to the first token, and how much of the prompt had to be computed.

use ratatui::text::{Line, Span};

use crate::telemetry::latency::tokens_per_second;

use super::super::answer::{Answer, Phase};
use super::super::format;
use super::super::skin::{Skin, Text, width};
use super::super::state::State;

/// Tokens that one bar of the sparkline stands for.
const TOKENS_PER_BAR: usize = 4;
/// Columns of a number after its label.
const NUMBER: usize = 8;

pub fn lines(state: &State, skin: &Skin, columns: usize) -> Vec<Text> {
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
    second.push(Span::raw(" ".repeat(22usize.saturating_sub(width(&Line::from(second.clone()))))));
    second.extend([
        skin.dim("prefill "),
        skin.figure(answer.and_then(Answer::prefill_tokens_per_second).map(format::rate), 6),
        skin.dim(" tok/s"),
    ]);
    let mut third = vec![skin.dim("prompt  ")];
    third.extend(prompt_line(answer, skin, columns.saturating_sub(8)).spans);
    vec![Line::from(first), Line::from(second), Line::from(third)]
}

/// During prefill a gauge, after it what was new and what was reused.
pub fn prompt_line(answer: Option<&Answer>, skin: &Skin, columns: usize) -> Text {
    let Some(answer) = answer else { return Line::from(skin.dim("no answer yet")) };
    match (answer.phase(), answer.prefill) {
        (Phase::Waiting, _) => Line::from(skin.dim("waiting for a lane")),
        (Phase::Prefill, Some(progress)) => {
            let text = format!("prefill {} of {} tokens ", progress.done, progress.total);
            let room = columns.saturating_sub(text.len()).min(16);
            let [full, empty] = skin.gauge(progress.done as f64 / progress.total.max(1) as f64, room);
            Line::from(vec![skin.plain(text), full, empty])
        }
        _ => match answer.new_and_reused() {
            Some((new, reused)) => Line::from(vec![
                skin.number(new.to_string()),
                skin.dim(if new == 1 { " new token, " } else { " new tokens, " }),
                skin.number(reused.to_string()),
                skin.dim(" reused"),
            ]),
            None => Line::from(skin.absent()),
        },
    }
}

/// Speed over the newest tokens, a bar for every few of them. The fastest in view takes three quarters of the height:
/// a full block would be louder than anything else on the screen.
pub fn sparkline(answer: &Answer, skin: &Skin, columns: usize) -> String {
    let chunks: Vec<f64> = answer.latencies().chunks_exact(TOKENS_PER_BAR).filter_map(tokens_per_second).collect();
    let newest = &chunks[chunks.len().saturating_sub(columns)..];
    let fastest = newest.iter().copied().fold(0.0, f64::max);
    newest.iter().map(|rate| skin.glyphs.level(rate / fastest * 0.75)).collect()
}
