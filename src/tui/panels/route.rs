//! Why there? The routing decision: the request's size, the lane taken with its rule, and why not the others.

use ratatui::text::Line;

use crate::engine::{LaneChange, LaneId, Policy, Rejection, RemoteUsage, RoutingDecision, Rule};

use super::super::answer::Answer;
use super::super::format;
use super::super::skin::{Skin, Text};
use super::super::state::State;
use super::super::text::sanitize::one_line;
use super::lane::name;

const NAME: usize = 7;

pub fn rows(state: &State) -> usize {
    let others = state.snapshot().map_or(1, |snapshot| snapshot.lanes.len().saturating_sub(1));
    3 + others + usize::from(has_server(state))
}

fn has_server(state: &State) -> bool {
    state.snapshot().is_some_and(|snapshot| snapshot.lanes.iter().any(|lane| lane.remote.is_some()))
}

pub fn lines(state: &State, skin: &Skin, _columns: usize) -> Vec<Text> {
    let Some((answer, decision)) = state.answer.as_ref().and_then(|a| a.decision.as_ref().map(|d| (a, d))) else {
        return vec![Line::from(vec![skin.absent(), skin.dim(" no request yet")])];
    };
    let mut lines = vec![needed(decision, skin), chosen(decision, skin), times(answer, decision, skin)];
    for rejection in &decision.rejected {
        let change = answer.change.as_ref().filter(|change| change.to == rejection.lane);
        lines.push(change.map_or_else(|| rejected(rejection, skin), |change| moved(change, skin)));
    }
    if let Some(usage) = answer.finished.as_ref().and_then(|finished| finished.usage.remote) {
        lines.insert(3, bill(state, usage, skin));
    }
    // Back to the lane that was chosen first.
    if let Some(change) = answer.change.as_ref().filter(|change| change.to == decision.lane) {
        lines.push(moved(change, skin));
    }
    lines
}

/// Tokens of the answer that counted.
pub fn room(decision: &RoutingDecision) -> usize {
    decision.needed_tokens.saturating_sub(decision.prompt_tokens)
}

/// `37 prompt + 128 of 1024 answer = 165 tokens`
fn needed(decision: &RoutingDecision, skin: &Skin) -> Text {
    let room = room(decision);
    let mut spans = vec![skin.number(decision.prompt_tokens.to_string()), skin.dim(" prompt + ")];
    spans.push(skin.number(room.to_string()));
    if room < decision.answer_tokens {
        spans.push(skin.dim(format!(" of {}", decision.answer_tokens)));
    }
    spans.push(skin.dim(" answer = "));
    spans.push(skin.number((decision.prompt_tokens + room).to_string()));
    spans.push(skin.dim(" tokens"));
    if decision.lane == LaneId::Remote {
        // Nobody here knows how the server's model cuts text.
        spans.insert(0, skin.dim("est. "));
    }
    Line::from(spans)
}

fn chosen(decision: &RoutingDecision, skin: &Skin) -> Text {
    let mut spans = vec![
        skin.styled(skin.theme.good, name(skin.glyphs.chosen, decision.lane)),
        skin.plain(decision.rule.explain()),
        skin.dot(),
        skin.dim(format!("context {}", decision.context_limit)),
    ];
    if decision.policy != Policy::Auto && decision.rule != Rule::Requested {
        spans.extend([skin.dot(), skin.dim(format!("policy {}", decision.policy.name()))]);
    }
    Line::from(spans)
}

/// What went to a server and came from it, and what it takes for that.
fn bill(state: &State, usage: RemoteUsage, skin: &Skin) -> Text {
    let lanes = state.snapshot().map(|snapshot| snapshot.lanes.as_slice()).unwrap_or_default();
    let price = lanes.iter().find_map(|lane| lane.remote.as_ref()?.price.as_ref());
    let estimate = if usage.is_estimate { "est. " } else { "" };
    let tokens = format!("{estimate}{} in, {} out", usage.prompt_tokens, usage.completion_tokens);
    let mut spans = vec![skin.plain(" ".repeat(NAME)), skin.dim(tokens), skin.dot()];
    match price {
        Some(price) => spans.push(skin.number(price.show(usage))),
        None => spans.push(skin.dim("no price in the settings")),
    }
    Line::from(spans)
}

fn rejected(rejection: &Rejection, skin: &Skin) -> Text {
    Line::from(vec![skin.dim(name(skin.glyphs.rejected, rejection.lane)), skin.dim(one_line(&rejection.reason))])
}

/// The lane that an answer moved to.
fn moved(change: &LaneChange, skin: &Skin) -> Text {
    Line::from(vec![
        skin.styled(skin.theme.warning, name(skin.glyphs.chosen, change.to)),
        skin.plain(format!("from token {}", change.after_tokens + 1)),
        skin.dot(),
        skin.dim(one_line(&change.reason)),
    ])
}

/// The first token's time as it was predicted and as it was.
fn times(answer: &Answer, decision: &RoutingDecision, skin: &Skin) -> Text {
    let mut spans = vec![skin.plain(" ".repeat(NAME)), skin.dim("first token est. ")];
    match decision.predicted_ttft {
        Some(predicted) => spans.push(skin.plain(format::duration(predicted))),
        None => spans.push(skin.absent()),
    }
    spans.push(skin.dim(", took "));
    spans.push(skin.figure(answer.ttft().map(format::duration), 0));
    Line::from(spans)
}
