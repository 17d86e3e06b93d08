//! How steady? A bar for each of the newest tokens, stalls marked, and the percentiles of the whole answer.
//!
//! A stall is a token that took more than three times the median of the tokens in view.

use std::time::Duration;

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::telemetry::latency::{LatencySummary, summarize};

use super::super::answer::Answer;
use super::super::format::milliseconds;
use super::super::skin::{Skin, Text, pad_left};
use super::super::state::State;

/// How many medians a stall takes, at least.
pub const STALL: u32 = 3;
/// Columns left of the bars: the scale and the axis.
const AXIS: usize = 6;

pub fn lines(state: &State, skin: &Skin, columns: usize, chart_rows: usize) -> Vec<Text> {
    let latencies = state.answer.as_ref().map_or(&[][..], Answer::latencies);
    let mut lines = chart(latencies, skin, columns.saturating_sub(AXIS), chart_rows);
    lines.push(summary_line(latencies, skin, &["p50", "p95", "p99", "sd"]));
    lines
}

/// The right side of the heading: the sign's meaning, where there is one to explain.
pub fn legend(state: &State, skin: &Skin, columns: usize) -> Option<Text> {
    let latencies = state.answer.as_ref().map_or(&[][..], Answer::latencies);
    let window = newest(latencies, columns.saturating_sub(AXIS));
    let stalls = stalls(window).iter().filter(|stall| **stall).count();
    (stalls > 0).then(|| {
        Line::from(vec![
            skin.styled(skin.theme.stall, skin.glyphs.stall),
            skin.dim(format!(" {stalls} over {STALL}x the median")),
        ])
    })
}

pub fn newest(latencies: &[Duration], count: usize) -> &[Duration] {
    &latencies[latencies.len().saturating_sub(count)..]
}

/// Which of these stalled; fewer than four tell nothing about a median.
pub fn stalls(window: &[Duration]) -> Vec<bool> {
    match summarize(window).filter(|summary| summary.count >= 4) {
        Some(summary) => window.iter().map(|latency| *latency > summary.p50 * STALL).collect(),
        None => vec![false; window.len()],
    }
}

fn chart(latencies: &[Duration], skin: &Skin, columns: usize, rows: usize) -> Vec<Text> {
    let window = newest(latencies, columns);
    let stalled = stalls(window);
    let scale = scale(window, &stalled);
    let mut lines = Vec::new();
    for row in (0..rows).rev() {
        let label = match row {
            0 => "0".to_string(),
            row if row + 1 == rows && scale > 0.0 => scale_label(scale),
            row if row + 1 == rows => skin.glyphs.absent.to_string(),
            _ => String::new(),
        };
        let mut spans = vec![
            skin.dim(pad_left(&label, AXIS - 2)),
            skin.styled(skin.theme.border, skin.glyphs.vertical),
            skin.dim(" "),
        ];
        let mut bars = Bars::default();
        for (latency, stall) in window.iter().zip(&stalled) {
            let height = latency.as_secs_f64() * 1e3 / scale.max(f64::MIN_POSITIVE) * rows as f64 - row as f64;
            match (stall, row + 1 == rows) {
                (true, true) => bars.push(skin.glyphs.stall, skin.theme.stall),
                (true, false) => bars.push(skin.glyphs.level(1.0), skin.theme.stall),
                (false, _) => bars.push(skin.glyphs.level(height), skin.theme.chart),
            }
        }
        spans.extend(bars.spans);
        lines.push(Line::from(spans));
    }
    lines
}

/// The milliseconds at the top of the chart: room for everything but stalls, which are cut off there, and for twice the
/// median, so that an even stream stands at half height.
pub fn scale(window: &[Duration], stalled: &[bool]) -> f64 {
    let highest = window.iter().zip(stalled).filter(|(_, stall)| !**stall).map(|(latency, _)| *latency).max();
    let median = summarize(window).map(|summary| summary.p50 * 2);
    round_up(highest.max(median).unwrap_or_default().as_secs_f64() * 1e3)
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
    fn a_stall_takes_more_than_three_medians() {
        assert_eq!(stalls(&ms(&[10, 10, 10, 30, 31])), [false, false, false, false, true]);
        assert_eq!(stalls(&ms(&[10, 100])), [false, false]);
        assert!(stalls(&[]).is_empty());
    }

    #[test]
    fn the_scale_takes_round_steps() {
        assert_eq!([0.0, 7.6, 8.0, 8.1, 12.1, 0.03].map(round_up), [0.0, 8.0, 8.0, 10.0, 15.0, 0.03]);
        assert_eq!([8.0, 0.5, 15.0].map(scale_label), ["8", "0.5", "15"]);
    }
}
