//! The panels of a screen of middling width: two or three lines under the title.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use crate::engine::LaneState;

use super::answer::Answer;
use super::format;
use super::panels::lane::short_provider;
use super::panels::{self, latency, speed};
use super::skin::{Skin, Text, width};
use super::state::State;
use super::text::{self, sanitize::one_line};

const LABEL: usize = 7;

pub fn draw(state: &State, skin: &Skin, area: Rect, buffer: &mut Buffer) {
    let columns = usize::from(area.width).saturating_sub(2);
    let left = columns * 23 / 40;
    let right = columns.saturating_sub(left);
    let lines = [lane_and_route, speed_and_prompt, latency_and_percentiles].map(|half| half(state, skin, left, right));
    // With two lines, the speed is left to the title bar.
    let rows: Vec<&Text> = if area.height >= 3 { lines.iter().collect() } else { vec![&lines[0], &lines[2]] };
    for (y, line) in (area.y..area.bottom()).zip(rows) {
        buffer.set_line(area.x + 1, y, line, area.width.saturating_sub(1));
    }
}

fn halves(skin: &Skin, left: Text, right: Text, columns: (usize, usize)) -> Text {
    let left = skin.fit(left, columns.0.saturating_sub(2));
    let gap = columns.0 - width(&left);
    let mut spans = left.spans;
    spans.push(skin.plain(" ".repeat(gap)));
    spans.extend(skin.fit(right, columns.1).spans);
    Line::from(spans)
}

fn lane_and_route(state: &State, skin: &Skin, left: usize, right: usize) -> Text {
    let mut lane = vec![skin.dim("lane   ")];
    match state.active_lane() {
        Some(status) => {
            let sign = match (&status.state, state.busy()) {
                (LaneState::Loading { .. }, _) => skin.glyphs.absent,
                (_, true) => skin.glyphs.running,
                (_, false) => skin.glyphs.ready,
            };
            lane.push(skin.styled(skin.theme.lane, format!("{sign} {}", status.id)));
            lane.push(skin.plain(format!(" {}", short_provider(&status.execution_provider))));
            if status.emulated {
                lane.push(skin.styled(skin.theme.warning, " emulated"));
            }
            match (&status.state, status.nodes()) {
                (LaneState::Loading { .. }, _) => lane.push(skin.dim(" loading")),
                (_, Some((on, total))) => {
                    let nodes = [skin.plain(format!(" {on}/{total}")), skin.dim(" nodes")];
                    // A number is whole or not there.
                    let whole = [lane.clone(), nodes.to_vec()].concat();
                    if width(&Line::from(whole)) + 2 <= left {
                        lane.extend(nodes);
                    }
                }
                (_, None) => {}
            }
        }
        None => lane.push(skin.absent()),
    }
    let route = route(state, skin, right);
    halves(skin, Line::from(lane), route, (left, right))
}

/// `1000+100 tok, npu too long`: the panel has the reasons in full.
fn route(state: &State, skin: &Skin, columns: usize) -> Text {
    let label = || vec![skin.dim("route  ")];
    let Some((decision, answer)) = state.decision() else { return Line::from([label(), vec![skin.absent()]].concat()) };
    let change = answer.and_then(|answer| answer.change.as_ref());
    let mut spans = label();
    spans.push(skin.number(format!("{}+{}", decision.prompt_tokens, panels::route::room(decision))));
    spans.push(skin.dim(" tok"));
    // From what says most to what is short.
    let words = match (change, decision.rejected.first()) {
        (Some(change), _) => {
            vec![format!("{} from token {}", change.to, change.after_tokens + 1), format!("to {}", change.to)]
        }
        (None, Some(rejection)) => {
            let (lane, reason) = (rejection.lane, one_line(&rejection.reason));
            let is_long = decision.needed_tokens > rejection.context_limit && rejection.context_limit > 0;
            let full = if is_long { format!("{lane} too long") } else { format!("not {lane}: {reason}") };
            vec![full, format!("not {lane}")]
        }
        (None, None) => vec![decision.rule.explain().to_owned()],
    };
    let used = width(&Line::from(spans.clone())) + 2;
    let fitting = words.into_iter().find(|words| used + text::width(words) <= columns);
    spans.extend(fitting.map(|words| skin.dim(format!(", {words}"))));
    Line::from(spans)
}

fn speed_and_prompt(state: &State, skin: &Skin, left: usize, right: usize) -> Text {
    let answer = state.answer.as_ref();
    let mut line = vec![skin.dim("speed  ")];
    line.push(skin.figure(answer.and_then(Answer::tokens_per_second).map(format::rate), 5));
    line.push(skin.dim(" tok/s  "));
    if let Some(answer) = answer {
        let bars = speed::sparkline(answer, skin, left.saturating_sub(LABEL + 15));
        line.push(skin.styled(skin.theme.chart, bars));
    }
    let mut prompt = vec![skin.dim("prompt ")];
    prompt.extend(speed::prompt_line(state, skin, right.saturating_sub(LABEL)).spans);
    halves(skin, Line::from(line), Line::from(prompt), (left, right))
}

fn latency_and_percentiles(state: &State, skin: &Skin, left: usize, right: usize) -> Text {
    let latencies = state.answer.as_ref().map_or(&[][..], Answer::latencies);
    let window = latency::newest(latencies, left.saturating_sub(LABEL + 2));
    let scale = latency::scale(&window);
    let mut line = vec![skin.dim("token  ")];
    if window.is_empty() {
        line.push(skin.absent());
    }
    for bar in &window {
        let latency = bar.latency.unwrap_or_default();
        line.push(match bar.stall {
            true => skin.styled(skin.theme.stall, skin.glyphs.stall),
            false => skin.styled(skin.theme.chart, skin.glyphs.level(latency.as_secs_f64() * 1e3 / scale)),
        });
    }
    let percentiles = latency::summary_that_fits(latencies, skin, &["p50", "p95", "sd"], right);
    halves(skin, Line::from(line), percentiles, (left, right))
}
