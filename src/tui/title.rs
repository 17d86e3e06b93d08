//! The title bar: model and conversation at the left, lane, speed, first token and context at the right. On a small
//! screen the right side alone, as a status line.

use ratatui::text::Line;

use crate::engine::LaneState;
use crate::telemetry::latency::summarize;

use super::answer::Answer;
use super::format;
use super::skin::{Skin, Text, pad_left, width};
use super::state::{EngineState, State};
use super::text::truncate;

/// Columns of the conversation's title, at least.
const LEAST_TITLE: usize = 8;

pub fn line(state: &State, skin: &Skin, columns: usize) -> Text {
    let mut left = vec![skin.styled(skin.theme.accent, " ortalk")];
    left.extend(state.replay.as_ref().map(|replay| skin.styled(skin.theme.warning, format!("  {}", replay.label()))));
    if let Some(snapshot) = state.snapshot() {
        let model = skin.styled(skin.theme.strong, format!("  {}", snapshot.model));
        // Beside a replay's own words there may be no room for more than the numbers.
        if state.replay.is_none() || columns >= 100 {
            left.push(model);
        }
    }
    let gap = if columns >= 100 { "   " } else { "  " };
    let right = figures(state, skin, gap, columns.saturating_sub(24), true);
    if let Some(title) = state.title().filter(|_| state.replay.is_none() || columns >= 100) {
        let dot = skin.dot();
        let used = [&Line::from(left.clone()), &Line::from(dot.clone()), &right].map(width).iter().sum::<usize>() + 2;
        let room = columns.saturating_sub(used).min(60);
        // A few letters say nothing.
        if room >= LEAST_TITLE || super::text::width(&title) <= room {
            left.extend([dot, skin.dim(truncate(&title, room, skin.glyphs.ellipsis))]);
        }
    }
    skin.spread(Line::from(left), right, columns)
}

/// The whole line of a small screen.
pub fn status(state: &State, skin: &Skin, columns: usize) -> Text {
    let mut spans = vec![skin.plain(" ")];
    if let Some(replay) = &state.replay {
        spans.extend([skin.styled(skin.theme.warning, replay.label()), skin.dot()]);
    }
    let room = columns.saturating_sub(width(&Line::from(spans.clone())));
    spans.extend(figures(state, skin, &format!(" {} ", skin.glyphs.dot), room, false).spans);
    skin.fit(Line::from(spans), columns)
}

/// Lane, speed, first token, context; the last ones are left out where there is no room.
fn figures(state: &State, skin: &Skin, gap: &str, columns: usize, labels: bool) -> Text {
    let mut parts: Vec<Text> = vec![Line::from(lane(state, skin))];
    if state.snapshot().is_some() {
        let answer = state.own_answer();
        let speed = answer.and_then(Answer::tokens_per_second).map(format::short_rate);
        let speed = [skin.figure(speed, 4), skin.dim(" tok/s")];
        if labels {
            parts.push(Line::from(speed.to_vec()));
        } else if let Some(lane) = parts.first_mut() {
            lane.spans.extend(speed);
        }
        let ttft = answer.and_then(Answer::ttft).map(format::duration);
        let mut first = Vec::new();
        if labels {
            first.push(skin.dim("TTFT "));
        }
        first.push(skin.figure(ttft, 6));
        parts.push(Line::from(first));
        if !labels && let Some(summary) = answer.and_then(|answer| summarize(answer.latencies())) {
            parts.push(Line::from(vec![skin.dim("p95 "), skin.number(format::duration(summary.p95))]));
        }
        let context = answer.and_then(Answer::context);
        let counted = state.standing.counted().map(|counted| (counted.prompt_tokens, counted.context_limit));
        let context = context.or(counted);
        let limit = context.map(|(_, limit)| limit).or(state.active_lane().map(|lane| lane.context_limit));
        if let Some(limit) = limit {
            let is_empty = state.chats.tree.head().is_none();
            let used = context.map(|(used, _)| used).or(is_empty.then_some(0));
            let used = used.map_or_else(|| skin.glyphs.absent.to_owned(), |used| used.to_string());
            let limit = limit.to_string();
            let used = pad_left(&used, if labels { limit.len() } else { 0 });
            let assumed = if state.assumes_context() { " est." } else { "" };
            parts.push(Line::from(vec![skin.number(used), skin.dim(format!("/{limit}{assumed}"))]));
        }
    }
    let mut out: Vec<ratatui::text::Span<'static>> = Vec::new();
    let mut used = 0;
    for part in parts {
        let gap_width = if out.is_empty() { 0 } else { super::text::width(gap) };
        let part_width = width(&part);
        if used + gap_width + part_width > columns && !out.is_empty() {
            break;
        }
        if gap_width > 0 {
            out.push(skin.dim(gap));
        }
        used += gap_width + part_width;
        out.extend(part.spans);
    }
    if labels {
        out.push(skin.plain(" "));
    }
    Line::from(out)
}

fn lane(state: &State, skin: &Skin) -> Vec<ratatui::text::Span<'static>> {
    let sign = &skin.glyphs;
    match (&state.engine, state.active_lane()) {
        (EngineState::Loading { .. }, _) => vec![skin.dim(format!("{} loading", sign.ready))],
        (EngineState::Failed(_), _) => vec![skin.styled(skin.theme.error, format!("{} no engine", sign.rejected))],
        (EngineState::Ready(_), None) => vec![skin.styled(skin.theme.error, format!("{} no lane", sign.rejected))],
        (EngineState::Ready(_), Some(lane)) => {
            let (mark, style) = match (&lane.state, state.busy()) {
                (LaneState::Loading { .. }, _) => {
                    return vec![skin.dim(format!("{} {} loading", sign.absent, lane.id))];
                }
                (_, true) => (sign.running, skin.theme.lane),
                (_, false) => (sign.ready, skin.theme.good),
            };
            let mut spans = vec![skin.styled(style, format!("{mark} {}", lane.id))];
            if lane.emulated {
                spans.push(skin.styled(skin.theme.warning, " emulated"));
            }
            spans
        }
    }
}
