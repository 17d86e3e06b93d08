//! Why there? The routing decision: the request's size, the lane taken with its rule, and why not the others.

use ratatui::text::Line;

use crate::engine::RoutingDecision;

use super::super::answer::Answer;
use super::super::format;
use super::super::skin::{Skin, Text, pad_right};
use super::super::state::State;
use super::super::text::sanitize::one_line;

const NAME: usize = 7;

pub fn rows(state: &State) -> usize {
    let others = state.snapshot().map_or(1, |snapshot| snapshot.lanes.len().saturating_sub(1));
    3 + others
}

pub fn lines(state: &State, skin: &Skin, _columns: usize) -> Vec<Text> {
    let Some((answer, decision)) = state.answer.as_ref().and_then(|a| a.decision.as_ref().map(|d| (a, d))) else {
        return vec![Line::from(vec![skin.absent(), skin.dim(" no request yet")])];
    };
    let mut lines = vec![
        Line::from(vec![
            skin.number(decision.prompt_tokens.to_string()),
            skin.dim(" prompt + "),
            skin.number(decision.answer_tokens.to_string()),
            skin.dim(" answer tokens"),
        ]),
        Line::from(vec![
            skin.styled(skin.theme.good, pad_right(&format!("{} {}", skin.glyphs.chosen, decision.lane), NAME)),
            skin.plain(decision.rule.explain()),
            skin.dot(),
            skin.dim(format!("context {}", decision.context_limit)),
        ]),
        times(answer, decision, skin),
    ];
    for rejection in &decision.rejected {
        lines.push(Line::from(vec![
            skin.dim(pad_right(&format!("{} {}", skin.glyphs.rejected, rejection.lane), NAME)),
            skin.dim(one_line(&rejection.reason)),
        ]));
    }
    lines
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
