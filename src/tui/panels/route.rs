//! Why there? The routing decision as it was made: the request's size, the rule, and lane by lane what was needed of how much
//! room, with the predictions beside what was measured. While something is typed, what would be decided about it.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::engine::{LaneChange, LaneId, Rejection, RemoteUsage, RoutingDecision, Rule};

use super::super::answer::Answer;
use super::super::format;
use super::super::skin::{Skin, Text, pad_left, pad_right, width};
use super::super::state::State;
use super::super::text;
use super::super::text::sanitize::one_line;

/// Columns of a line's label.
const NAME: usize = 7;
/// Columns of the bar of a lane's room, at least.
const BAR: usize = 8;
/// Columns of a value before its unit, and of the unit.
const VALUE: usize = 6;
const UNIT: usize = 5;

pub fn rows(state: &State) -> usize {
    let lanes = state.snapshot().map_or(2, |snapshot| snapshot.lanes.len().max(1));
    4 + lanes + usize::from(has_server(state))
}

fn has_server(state: &State) -> bool {
    state.snapshot().is_some_and(|snapshot| snapshot.lanes.iter().any(|lane| lane.remote.is_some()))
}

pub fn lines(state: &State, skin: &Skin, columns: usize) -> Vec<Text> {
    let Some((decision, answer)) = state.decision() else {
        return vec![Line::from(vec![skin.absent(), skin.dim(" no request yet")])];
    };
    let raced = answer.is_some_and(|answer| answer.raced);
    let mut lines = vec![needed(decision, skin, columns), rule(decision, raced, skin)];
    let order = order(state, decision);
    let room = Room::of(decision, &order, columns);
    for id in order {
        let change = answer.and_then(|answer| answer.change.as_ref()).filter(|change| change.to == id);
        let left = answer.and_then(|answer| answer.change.as_ref()).filter(|change| change.to != decision.lane);
        if id == decision.lane {
            lines.push(left.map_or_else(|| chosen(decision, room, skin), |left| gone(decision, left, room, skin)));
            // Back to the lane that was chosen first.
            lines.extend(change.map(|change| moved(change, room, skin, columns)));
        } else if let Some(rejection) = decision.rejected.iter().find(|rejection| rejection.lane == id) {
            let rejected = || rejected(decision, rejection, room, skin, columns);
            lines.push(change.map_or_else(rejected, |change| moved(change, room, skin, columns)));
        }
    }
    let measured = answer.and_then(Answer::ttft).map(format::duration);
    lines.push(compared("TTFT", decision.predicted_ttft.map(format::duration), "took", measured, skin));
    let rate = |rate: f64| format!("{} tok/s", format::rate(rate));
    let measured = answer.and_then(Answer::tokens_per_second).map(rate);
    lines.push(compared("rate", decision.predicted_rate().map(rate), "is", measured, skin));
    if let Some(usage) = answer.and_then(|answer| answer.finished.as_ref()?.usage.remote) {
        lines.push(bill(state, usage, skin));
    }
    lines
}

/// What is shown is not about an answer, but about what is typed.
pub fn legend(state: &State, skin: &Skin) -> Option<Text> {
    let (_, answer) = state.decision()?;
    answer.is_none().then(|| Line::from(skin.dim("if sent now")))
}

/// The lanes in the order in which the engine prefers them.
fn order(state: &State, decision: &RoutingDecision) -> Vec<LaneId> {
    let lanes = state.snapshot().map(|snapshot| snapshot.lanes.as_slice()).unwrap_or_default();
    let mut order: Vec<LaneId> = lanes.iter().map(|lane| lane.id).collect();
    let decided = std::iter::once(decision.lane).chain(decision.rejected.iter().map(|rejection| rejection.lane));
    for id in decided {
        if !order.contains(&id) {
            order.push(id);
        }
    }
    order
}

/// Columns that every lane's line has in common.
#[derive(Debug, Clone, Copy)]
struct Room {
    name: usize,
    /// Of `1100/8000`.
    numbers: usize,
    bar: usize,
}

impl Room {
    fn of(decision: &RoutingDecision, lanes: &[LaneId], columns: usize) -> Self {
        let name = lanes.iter().map(|id| id.name().len() + 3).max().unwrap_or(0).max(NAME);
        let limits = decision.rejected.iter().map(|rejection| rejection.context_limit);
        let limit = limits.chain([decision.context_limit]).max().unwrap_or(0);
        let bar = (columns / 3).saturating_sub(12).clamp(BAR, 24);
        Self { name, numbers: room_text(decision.needed_tokens, limit).len(), bar }
    }

    fn name(self, sign: &str, id: LaneId) -> String {
        pad_right(&format!("{sign} {id}"), self.name)
    }
}

fn room_text(needed: usize, limit: usize) -> String {
    format!("{needed}/{limit}")
}

/// Tokens of the answer that counted.
pub fn room(decision: &RoutingDecision) -> usize {
    decision.needed_tokens.saturating_sub(decision.prompt_tokens)
}

/// `tokens 37 prompt + 128 expected of 1024 = 165`; `37 of 512 prompt` where the oldest turns are left out.
fn needed(decision: &RoutingDecision, skin: &Skin, columns: usize) -> Text {
    let room = room(decision);
    let mut spans = vec![skin.dim(pad_right("tokens", NAME))];
    // Nobody here knows how a server's model cuts text.
    spans.extend((decision.lane == LaneId::Remote).then(|| skin.dim("est. ")));
    spans.push(skin.number(decision.prompt_tokens.to_string()));
    spans.extend(decision.whole_prompt_tokens.map(|whole| skin.dim(format!(" of {whole}"))));
    spans.extend([skin.dim(" prompt + "), skin.number(room.to_string())]);
    let is_all = room >= decision.answer_tokens;
    let sum = [skin.dim(" = "), skin.number((decision.prompt_tokens + room).to_string())];
    let has_room = width(&Line::from([spans.clone(), sum.to_vec()].concat())) + " expected".len() <= columns;
    spans.push(skin.dim(if is_all || !has_room { " answer" } else { " expected" }));
    let limit = skin.dim(format!(" of {}", decision.answer_tokens));
    let all = [spans.clone(), vec![limit.clone()], sum.to_vec()].concat();
    if !is_all && width(&Line::from(all)) <= columns {
        spans.push(limit);
    }
    spans.extend(sum);
    Line::from(spans)
}

/// `rule   first that fits · policy auto`
fn rule(decision: &RoutingDecision, raced: bool, skin: &Skin) -> Text {
    if raced {
        return Line::from(vec![skin.dim(pad_right("rule", NAME)), skin.plain("kept after a race")]);
    }
    let mut spans = vec![skin.dim(pad_right("rule", NAME)), skin.plain(decision.rule.explain())];
    match decision.rule {
        Rule::Requested => spans.extend([skin.dot(), skin.styled(skin.theme.warning, "override")]),
        _ => spans.extend([skin.dot(), skin.dim(format!("policy {}", decision.policy.name()))]),
    }
    Line::from(spans)
}

/// `━━━─────  1100/8000`
fn gauge(needed: usize, limit: usize, room: Room, skin: &Skin) -> Vec<Span<'static>> {
    let [full, empty] = skin.gauge(needed as f64 / limit.max(1) as f64, room.bar);
    let full = if needed <= limit { full } else { skin.styled(skin.theme.warning, full.content.into_owned()) };
    vec![full, empty, skin.plain(format!(" {}", pad_left(&room_text(needed, limit), room.numbers)))]
}

fn chosen(decision: &RoutingDecision, room: Room, skin: &Skin) -> Text {
    let is_sent = decision.excess().is_none();
    let fits = is_sent && decision.needed_tokens <= decision.context_limit;
    let (sign, style) = match (is_sent, fits) {
        (false, _) => (skin.glyphs.rejected, skin.theme.error),
        (true, false) => (skin.glyphs.stall, skin.theme.warning),
        (true, true) => (skin.glyphs.chosen, skin.theme.good),
    };
    let mut spans = vec![skin.styled(style, room.name(sign, decision.lane))];
    spans.extend(gauge(decision.needed_tokens, decision.context_limit, room, skin));
    spans.push(skin.dim("  "));
    match (decision.predicted_total, fits) {
        _ if !is_sent => spans.push(skin.styled(skin.theme.error, "not sent")),
        (_, false) => spans.push(skin.styled(skin.theme.warning, outgrown(decision))),
        (Some(total), true) => spans.push(skin.dim(format!("est. {}", format::duration(total)))),
        (None, true) => spans.push(skin.plain("fits")),
    }
    Line::from(spans)
}

/// What becomes of an answer that grows as long as was expected, on a lane that was taken although it has no room for it.
fn outgrown(decision: &RoutingDecision) -> &'static str {
    if decision.may_move() { "may move on" } else { "may be cut" }
}

/// The lane that was chosen, and that the answer left.
fn gone(decision: &RoutingDecision, change: &LaneChange, room: Room, skin: &Skin) -> Text {
    let mut spans = vec![skin.dim(room.name(skin.glyphs.rejected, decision.lane))];
    spans.extend(gauge(decision.needed_tokens, decision.context_limit, room, skin));
    spans.push(skin.dim(format!("  until token {}", change.after_tokens)));
    Line::from(spans)
}

fn rejected(decision: &RoutingDecision, rejection: &Rejection, room: Room, skin: &Skin, columns: usize) -> Text {
    let (needed, limit) = (decision.needed_tokens, rejection.context_limit);
    let mut reason = one_line(&rejection.reason);
    // The numbers stand beside the bar already.
    if reason == format!("{needed} tokens, context of {limit}") {
        reason = "too long".to_owned();
    }
    let mut spans = vec![skin.dim(room.name(skin.glyphs.rejected, rejection.lane))];
    let mut with_gauge = spans.clone();
    with_gauge.extend(gauge(needed, limit, room, skin));
    with_gauge.extend([skin.dim("  "), skin.dim(reason.clone())]);
    // A reason is said as a whole, if need be without the bar.
    if limit > 0 && width(&Line::from(with_gauge.clone())) <= columns {
        return Line::from(with_gauge);
    }
    // What is long is said of a lane that is not there or broke, whose reason the lane panel has as a whole.
    let is_short = width(&Line::from(spans.clone())) + text::width(&reason) <= columns;
    spans.push(skin.dim(if is_short { reason } else { "not there; the lane panel says why".to_owned() }));
    Line::from(spans)
}

/// What went to a server and came from it, and what it takes for that.
fn bill(state: &State, usage: RemoteUsage, skin: &Skin) -> Text {
    let lanes = state.snapshot().map(|snapshot| snapshot.lanes.as_slice()).unwrap_or_default();
    let price = lanes.iter().find_map(|lane| lane.remote.as_ref()?.price.as_ref());
    let estimate = if usage.is_estimate { "est. " } else { "" };
    let tokens = format!("{estimate}{} in, {} out", usage.prompt_tokens, usage.completion_tokens);
    let mut spans = vec![skin.dim(pad_right("bill", NAME)), skin.dim(tokens), skin.dot()];
    match price {
        Some(price) => spans.push(skin.number(price.show(usage))),
        None => spans.push(skin.dim("no price set")),
    }
    Line::from(spans)
}

/// The lane that an answer moved to, and why: as much of it as stands before the details, where there is no room for them.
fn moved(change: &LaneChange, room: Room, skin: &Skin, columns: usize) -> Text {
    let line = |reason: &str| {
        Line::from(vec![
            skin.styled(skin.theme.warning, room.name(skin.glyphs.chosen, change.to)),
            skin.plain(format!("from token {}", change.after_tokens + 1)),
            skin.dot(),
            skin.dim(reason),
        ])
    };
    let reason = one_line(&change.reason);
    let whole = line(&reason);
    match reason.split_once(": ") {
        Some((short, _)) if width(&whole) > columns => line(short),
        _ => whole,
    }
}

/// A value as it was predicted and as it was: numbers and units in columns of their own.
fn compared(label: &str, predicted: Option<String>, verb: &str, measured: Option<String>, skin: &Skin) -> Text {
    let value = |value: Option<String>, style: Style| {
        let value = value.unwrap_or_else(|| skin.glyphs.absent.to_owned());
        let (number, unit) = value.split_once(' ').unwrap_or((&value, ""));
        [
            skin.styled(style, pad_left(number, VALUE)),
            skin.styled(
                if style == skin.theme.number { skin.theme.dim } else { style },
                format!(" {}", pad_right(unit, UNIT)),
            ),
        ]
    };
    let style = if measured.is_some() { skin.theme.number } else { skin.theme.dim };
    let mut spans = vec![skin.dim(pad_right(label, NAME)), skin.dim("est. ")];
    spans.extend(value(predicted, skin.theme.text));
    spans.push(skin.dim(format!(" {} ", pad_right(verb, 4))));
    let [number, unit] = value(measured, style);
    spans.extend([number, skin.styled(unit.style, unit.content.trim_end().to_owned())]);
    Line::from(spans)
}
