//! Which silicon? The lane that runs, its proof of placement, and what became of the other lanes.

use std::time::Instant;

use ratatui::text::Line;

use crate::engine::{
    ChosenBy, EngineSnapshot, LaneId, LaneState, LaneStatus, Placement, Privacy, RemoteStatus, Threads,
};
use crate::model::memory::gb;

use super::super::format;
use super::super::skin::{Skin, Text, pad_left, pad_right};
use super::super::state::{EngineState, State};
use super::super::text::{self, sanitize::one_line, wrap::wrap};

/// Columns of a lane's sign and name, where the name is short.
const NAME: usize = 7;

/// A lane's sign and name.
pub fn name(sign: &str, id: LaneId) -> String {
    pad_right(&format!("{sign} {id} "), NAME)
}

pub fn rows(state: &State) -> usize {
    let others = state.snapshot().map_or(1, |snapshot| snapshot.lanes.len().saturating_sub(1));
    2 + others
}

/// Rows that reasons and offers need besides.
pub fn more_rows(state: &State, columns: usize) -> usize {
    let Some(snapshot) = state.snapshot() else { return 0 };
    let active = state.active_lane().map(|lane| lane.id);
    let text = |lane: &LaneStatus| match (&lane.state, &lane.remote) {
        (LaneState::Absent { reason }, _) => one_line(reason),
        (LaneState::Failed { reason }, _) => one_line(&format!("failed: {reason}")),
        (LaneState::Ready, Some(server)) if active == Some(lane.id) => offer(server),
        (LaneState::Ready, Some(server)) => format!("{} . {}", server.host, offer(server)),
        (LaneState::Ready | LaneState::Loading { .. }, _) => String::new(),
    };
    let room = |lane: &LaneStatus| columns.saturating_sub(name("x", lane.id).len());
    snapshot.lanes.iter().map(|lane| wrap(&text(lane), room(lane)).len() - 1).sum()
}

/// Where there are more rows than the column has, each graph's placement follows.
pub fn lines(state: &State, skin: &Skin, rows: usize) -> Vec<Text> {
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
            skin.dim(offer(server))
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
        second.extend(lane.device.iter().flat_map(|name| [skin.dot(), skin.dim(one_line(name))]));
        lines.push(Line::from(second));
    }
    for lane in snapshot.lanes.iter().filter(|lane| active.is_none_or(|active| active.id != lane.id)) {
        lines.push(other(lane, skin, now));
    }
    let graphs = graphs(snapshot, skin);
    if !graphs.is_empty() && rows > lines.len() + graphs.len() {
        lines.push(Line::default());
        lines.extend(graphs);
    }
    if rows > lines.len() + 2 {
        let label = std::iter::once(skin.dim(pad_right("model", NAME)));
        lines.push(Line::default());
        lines.push(Line::from(label.chain(model(snapshot, skin).spans).collect::<Vec<_>>()));
    }
    if snapshot.lanes.is_empty() {
        lines.push(Line::from(vec![skin.styled(skin.theme.error, format!("{} no lane", skin.glyphs.rejected))]));
    }
    lines
}

/// `SmolLM2-135M-Instruct · llama · 151 MiB of weights`
pub fn model(snapshot: &EngineSnapshot, skin: &Skin) -> Text {
    let mut spans = vec![skin.styled(skin.theme.strong, one_line(&snapshot.model))];
    if !snapshot.architecture.is_empty() {
        spans.extend([skin.dot(), skin.dim(one_line(&snapshot.architecture))]);
    }
    if snapshot.weight_bytes > 0 {
        spans.extend([skin.dot(), skin.dim(format!("{} of weights", format::bytes(snapshot.weight_bytes)))]);
    }
    Line::from(spans)
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

fn placement(lane: &LaneStatus, skin: &Skin) -> ratatui::text::Span<'static> {
    match lane.nodes() {
        Some((on, total)) => {
            let style = if on == total { skin.theme.number } else { skin.theme.warning };
            skin.styled(style, format!("{on} of {total} nodes"))
        }
        None => skin.dim("nodes not reported"),
    }
}

/// A server's price and model, and whether it is asked about.
fn offer(server: &RemoteStatus) -> String {
    let price = server.price.as_ref().map(|price| {
        let currency = price.currency.as_ref().map(|currency| format!(" {currency}")).unwrap_or_default();
        format!("{}/{}{currency} a million", price.per_million.input, price.per_million.output)
    });
    let asks = (server.privacy == Privacy::Ask).then(|| "asks first".to_owned());
    let known: Vec<String> = [asks, price, server.model.as_deref().map(one_line)].into_iter().flatten().collect();
    if known.is_empty() { "no price in the settings".to_owned() } else { known.join(", ") }
}

/// For how long, and how much memory it will take.
fn loading_for(lane: &LaneStatus, time: std::time::Duration) -> String {
    let memory = lane.memory.map_or_else(String::new, |memory| format!(", {}", gb(memory.bytes)));
    format!("loading, {} s{memory}", time.as_secs())
}

fn other(lane: &LaneStatus, skin: &Skin, now: Instant) -> Text {
    let head = |sign: &str| name(sign, lane.id);
    let reason = match &lane.state {
        LaneState::Ready => {
            let mut spans = vec![skin.styled(skin.theme.good, head(skin.glyphs.ready))];
            if let Some(server) = &lane.remote {
                spans.extend([skin.dim(server.host.clone()), skin.dot(), skin.dim(offer(server))]);
                return Line::from(spans);
            }
            spans.push(skin.dim(short_provider(&lane.execution_provider)));
            if lane.emulated {
                spans.extend([skin.dot(), skin.styled(skin.theme.warning, "emulated")]);
            }
            spans.extend([skin.dot(), placement(lane, skin)]);
            return Line::from(spans);
        }
        LaneState::Loading { since } => {
            let head = skin.dim(head(skin.glyphs.absent));
            return Line::from(vec![head, skin.dim(loading_for(lane, now.saturating_duration_since(*since)))]);
        }
        LaneState::Absent { reason } => (skin.theme.dim, reason.clone()),
        LaneState::Failed { reason } => (skin.theme.error, format!("failed: {reason}")),
    };
    Line::from(vec![skin.styled(reason.0, head(skin.glyphs.rejected)), skin.dim(one_line(&reason.1))])
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
    use super::super::super::fixtures::{Desk, snapshot_with};
    use super::super::super::skin::test_skin;
    use super::*;
    use crate::engine::LaneId;

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
            let first = lines(&desk.state, &test_skin(), 3)[0].to_string();
            assert!(first.ends_with(expected), "{first}");
        }
    }
}
