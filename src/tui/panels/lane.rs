//! Which silicon? The lane that runs, its proof of placement, and what became of the other lanes.

use std::time::Instant;

use ratatui::text::{Line, Span};

use crate::engine::{
    ChosenBy, EngineSnapshot, LaneId, LaneState, LaneStatus, Placement, Privacy, RemoteStatus, Threads,
};
use crate::model::memory::gb;

use super::super::layout::Layout;
use super::super::skin::{Skin, Text, pad_left, pad_right, rows_of, width};
use super::super::state::{EngineState, State};
use super::super::text::{self, sanitize::one_line};

/// Columns of a lane's sign and name, where the name is short.
const NAME: usize = 7;

/// A lane's sign and name.
pub fn name(sign: &str, id: LaneId) -> String {
    pad_right(&format!("{sign} {id} "), NAME)
}

pub fn rows(state: &State) -> usize {
    let lanes = state.snapshot().map_or(&[][..], |snapshot| snapshot.lanes.as_slice());
    let active = state.active_lane().map(|lane| lane.id);
    let columns = Layout::panel_columns(state.columns, state.rows);
    let of_other = |lane: &LaneStatus| match &lane.state {
        LaneState::Absent { reason } => why(reason, columns).len(),
        LaneState::Failed { reason } => why(&failed(reason), columns).len(),
        LaneState::Ready | LaneState::Loading { .. } if lane.remote.is_some() => 2,
        LaneState::Ready | LaneState::Loading { .. } => 1,
    };
    let others = lanes.iter().filter(|lane| active != Some(lane.id)).map(of_other).sum::<usize>();
    if lanes.is_empty() { 3 } else { usize::from(active.is_some()) * 2 + others }
}

/// Why a lane is not there, in three rows at most.
fn why(reason: &str, columns: usize) -> Vec<String> {
    let mut rows = rows_of(&one_line(reason), columns.saturating_sub(NAME));
    if rows.len() > 3 {
        let rest = rows.split_off(2);
        rows.push(rest.join(" "));
    }
    rows
}

fn failed(reason: &str) -> String {
    format!("failed: {reason}")
}

/// Where there are more rows than the column has, each graph's placement follows.
pub fn lines(state: &State, skin: &Skin, columns: usize, rows: usize) -> Vec<Text> {
    let Some(snapshot) = state.snapshot() else {
        let text = match state.engine {
            EngineState::Failed(_) => "no lane: the engine could not start",
            EngineState::Loading { .. } | EngineState::Ready(_) => "loading the model",
        };
        return vec![Line::from(vec![skin.absent(), skin.dim(format!(" {text}"))])];
    };
    let (active, now) = (state.active_lane(), state.now);
    let mut lines = Vec::new();
    if let Some(lane) = active {
        let loading = matches!(lane.state, LaneState::Loading { .. });
        let (sign, style) = match (loading, state.busy()) {
            (true, _) => (skin.glyphs.absent, skin.theme.dim),
            (false, true) => (skin.glyphs.running, skin.theme.lane),
            (false, false) => (skin.glyphs.ready, skin.theme.good),
        };
        let mut first = vec![skin.styled(style, name(sign, lane.id))];
        first.push(skin.plain(lane.remote.as_ref().map_or(&lane.execution_provider, |server| &server.host).clone()));
        first.extend(lane.remote.as_ref().and_then(|server| consent(state, server, skin)).into_iter().flatten());
        if lane.emulated {
            first.push(skin.dot());
            first.push(skin.styled(skin.theme.warning, "emulated"));
        }
        if let Some(Threads { count, chosen_by, .. }) = lane.threads {
            first.extend([skin.dot(), skin.plain(plural(count, "thread"))]);
            first.extend((chosen_by == ChosenBy::Tuning).then(|| skin.dim(", tuned")));
        }
        lines.push(Line::from(first));
        let what = if let LaneState::Loading { since } = lane.state {
            skin.dim(loading_for(lane, now.saturating_duration_since(since)))
        } else if let Some(server) = &lane.remote {
            skin.dim(offer(server, skin, columns.saturating_sub(NAME)))
        } else {
            placement(lane, skin)
        };
        let mut second = vec![skin.plain(" ".repeat(name(sign, lane.id).chars().count())), what];
        if let [first, ..] = lane.graphs_elsewhere()[..] {
            let count = plural(lane.graphs_elsewhere().len(), "graph");
            second.push(skin.dim(format!(", {count} on {}", short_provider(first))));
        }
        if let Some(longest) = lane.memory.and_then(|memory| memory.cut_from) {
            let cut = format!("{} of {longest} tokens: memory", lane.context_limit);
            second.extend([skin.dot(), skin.styled(skin.theme.warning, cut)]);
        }
        if let Some(name) = &lane.device {
            let room = columns.saturating_sub(width(&Line::from(second.clone())) + 3);
            second.extend([skin.dot(), skin.dim(device(name, room))]);
        }
        lines.push(Line::from(second));
    }
    for lane in snapshot.lanes.iter().filter(|lane| active.is_none_or(|active| active.id != lane.id)) {
        lines.extend(other(lane, state, skin, columns, now));
    }
    let graphs = graphs(snapshot, skin);
    if !graphs.is_empty() && rows > lines.len() + graphs.len() {
        lines.push(Line::default());
        lines.extend(graphs);
    }
    if snapshot.lanes.is_empty() {
        lines.push(Line::from(vec![skin.styled(skin.theme.error, format!("{} no lane", skin.glyphs.rejected))]));
    }
    lines
}

/// `cpu    model     300 nodes: 300 CPU`, a line a graph.
fn graphs(snapshot: &EngineSnapshot, skin: &Skin) -> Vec<Text> {
    let named = snapshot.lanes.iter().flat_map(|lane| lane.placement.iter().map(move |graph| (lane, graph)));
    let widest = named.clone().map(|(_, graph)| text::width(graph.name())).max().unwrap_or(0);
    named
        .map(|(lane, graph)| {
            let mut spans = vec![skin.dim(pad_right(lane.id.name(), NAME))];
            spans.push(skin.plain(format!("{}  ", pad_right(&one_line(graph.name()), widest))));
            match &graph.placement {
                None => spans.push(skin.dim("nodes not reported")),
                Some(Placement { nodes_by_provider }) => {
                    for (index, (provider, nodes)) in nodes_by_provider.iter().enumerate() {
                        spans.extend((index > 0).then(|| skin.dot()));
                        spans.push(skin.number(pad_left(&nodes.to_string(), 5)));
                        spans.push(skin.dim(format!(" {}", one_line(short_provider(provider)))));
                    }
                }
            }
            if let Some(compiled) = graph.compiled_nodes {
                spans.push(skin.dim(format!(", {compiled} compiled into them")));
            }
            Line::from(spans)
        })
        .collect()
}

fn placement(lane: &LaneStatus, skin: &Skin) -> Span<'static> {
    match lane.nodes() {
        Some((on, total)) => {
            let style = if on == total { skin.theme.number } else { skin.theme.warning };
            skin.styled(style, format!("{on} of {total} nodes"))
        }
        None => skin.dim("nodes not reported"),
    }
}

/// `simulator on AMD processor` is a simulator, where there is no room to say on what.
fn device(name: &str, columns: usize) -> String {
    let name = one_line(name);
    match name.split_once(" on ") {
        Some((kind, _)) if text::width(&name) > columns => kind.to_owned(),
        _ => name,
    }
}

/// Whether the server is asked about, or may have this conversation.
fn consent(state: &State, server: &RemoteStatus, skin: &Skin) -> Option<[Span<'static>; 2]> {
    let stands = match (server.privacy == Privacy::Ask, state.settings.allow_remote, state.consent.always) {
        (false, ..) | (_, true, true) => return None,
        (true, true, false) => "may until /clear",
        (true, false, _) => "asks first",
    };
    Some([skin.dot(), skin.dim(stands)])
}

/// A server's model and price. The model stands alone where there is no room for both: the price is in the bill, too. Of a
/// long name both ends are told.
fn offer(server: &RemoteStatus, skin: &Skin, columns: usize) -> String {
    let price = server.price.as_ref().map(|price| {
        let currency = price.currency.as_ref().map(|currency| format!(" {currency}")).unwrap_or_default();
        format!("{}/{}{currency} a million", price.per_million.input, price.per_million.output)
    });
    match (server.model.as_deref().map(one_line), price) {
        (None, None) => "no price set".to_owned(),
        (None, Some(price)) => price,
        (Some(model), None) => text::truncate_middle(&model, columns, skin.glyphs.ellipsis),
        (Some(model), Some(price)) => {
            let both = format!("{model}, {price}");
            if text::width(&both) <= columns {
                both
            } else {
                text::truncate_middle(&model, columns, skin.glyphs.ellipsis)
            }
        }
    }
}

/// For how long, and how much memory it will take.
fn loading_for(lane: &LaneStatus, time: std::time::Duration) -> String {
    let memory = lane.memory.map_or_else(String::new, |memory| format!(", {}", gb(memory.bytes)));
    format!("loading, {} s{memory}", time.as_secs())
}

fn other(lane: &LaneStatus, state: &State, skin: &Skin, columns: usize, now: Instant) -> Vec<Text> {
    let head = |sign: &str| name(sign, lane.id);
    let reason = match &lane.state {
        LaneState::Ready => {
            let mut spans = vec![skin.styled(skin.theme.good, head(skin.glyphs.ready))];
            if let Some(server) = &lane.remote {
                spans.push(skin.dim(server.host.clone()));
                spans.extend(consent(state, server, skin).into_iter().flatten());
                let indent = head(skin.glyphs.ready).chars().count();
                let offer =
                    skin.dim(format!("{}{}", " ".repeat(indent), offer(server, skin, columns.saturating_sub(indent))));
                return vec![Line::from(spans), Line::from(offer)];
            }
            spans.push(skin.dim(short_provider(&lane.execution_provider)));
            if lane.emulated {
                spans.extend([skin.dot(), skin.styled(skin.theme.warning, "emulated")]);
            }
            spans.extend([skin.dot(), placement(lane, skin)]);
            return vec![Line::from(spans)];
        }
        LaneState::Loading { since } => {
            let head = skin.dim(head(skin.glyphs.absent));
            return vec![Line::from(vec![head, skin.dim(loading_for(lane, now.saturating_duration_since(*since)))])];
        }
        LaneState::Absent { reason } => (skin.theme.dim, reason.clone()),
        LaneState::Failed { reason } => (skin.theme.error, failed(reason)),
    };
    let head = head(skin.glyphs.rejected);
    let mut rows = why(&reason.1, columns).into_iter();
    let first = vec![skin.styled(reason.0, head.clone()), skin.dim(rows.next().unwrap_or_default())];
    let more = rows.map(|row| Line::from(skin.dim(format!("{}{row}", " ".repeat(head.chars().count())))));
    std::iter::once(Line::from(first)).chain(more).collect()
}

/// `QNN` for `QNNExecutionProvider`, where there is little room.
pub fn short_provider(name: &str) -> &str {
    name.strip_suffix("ExecutionProvider").unwrap_or(name)
}

fn plural(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::super::super::event::Event;
    use super::super::super::fixtures::{Desk, snapshot_with, snapshot_with_server};
    use super::super::super::skin::test_skin;
    use super::*;
    use crate::engine::LaneId;

    #[test]
    fn a_server_s_long_name_is_told_with_both_ends() {
        let server = |model: &str| RemoteStatus {
            model: Some(model.into()),
            ..snapshot_with_server().lanes.into_iter().find_map(|lane| lane.remote).unwrap()
        };
        let skin = test_skin();
        assert_eq!(offer(&server("far-model"), &skin, 39), "far-model, 0.5/2 EUR a million");
        assert_eq!(offer(&server("far-model"), &skin, 20), "far-model");
        assert_eq!(offer(&server("a-model-with-a-long-name-7b-q4"), &skin, 20), "a-model-wi…ame-7b-q4");
    }

    #[test]
    fn threads_that_were_tuned_say_so() {
        for (chosen_by, expected) in
            [(ChosenBy::Default, "2 threads"), (ChosenBy::User, "2 threads"), (ChosenBy::Tuning, "2 threads, tuned")]
        {
            let mut desk = Desk::loading();
            let mut snapshot = snapshot_with(LaneState::Absent { reason: "none".into() });
            for lane in snapshot.lanes.iter_mut().filter(|lane| lane.id == LaneId::Cpu) {
                lane.threads = Some(Threads { count: 2, spinning: true, chosen_by });
            }
            desk.event(Event::EngineLoaded(snapshot));
            let first = lines(&desk.state, &test_skin(), 46, 3)[0].to_string();
            assert!(first.ends_with(expected), "{first}");
        }
    }
}
