//! An answer as one JSON object: the text, what it took, and where it was computed and why.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::bill_json;
use super::run::CompleteAnswer;
use crate::bill::Bill;
use crate::engine::{EngineSnapshot, Finished, LaneState, LaneStatus, Rejection, RemoteUsage, RoutingDecision};

pub fn as_json(answer: &CompleteAnswer, finished: &Finished, bill: &Bill, engine: &EngineSnapshot) -> Value {
    let Finished { reason, usage, timings } = finished;
    let by_lane: Map<String, Value> =
        answer.tokens_by_lane.iter().map(|(lane, tokens)| (lane.name().to_string(), (*tokens).into())).collect();
    let changes = answer.changes.iter().map(|change| {
        json!({
            "from": change.from.name(),
            "to": change.to.name(),
            "after_tokens": change.after_tokens,
            "reason": change.reason,
        })
    });
    json!({
        "text": answer.text,
        "thinking": (usage.thinking_tokens > 0).then_some(&answer.thinking),
        "finish_reason": reason.name(),
        "usage": {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "thinking_tokens": usage.thinking_tokens,
            "reused_tokens": usage.reused_tokens,
            "completion_tokens_by_lane": by_lane,
            "remote": usage.remote.map(|remote| remote_usage(remote, engine)),
        },
        "timings": {
            "ttft_ms": milliseconds(timings.ttft),
            "prefill_tokens_per_second": timings.prefill_tokens_per_second().map(rounded),
            "decode_tokens_per_second": timings.decode_tokens_per_second().map(rounded),
            "token_latencies_ms": timings.token_latencies.iter().map(|d| milliseconds(Some(*d))).collect::<Vec<_>>(),
        },
        "energy": bill_json::energy(bill),
        "cost": bill_json::cost(bill),
        "routing": answer.routing.as_ref().map(routing),
        "lane_changes": changes.collect::<Vec<_>>(),
        "lanes": engine.lanes.iter().map(lane).collect::<Vec<_>>(),
        "model": engine.model,
    })
}

/// What a server did of it, and its price.
fn remote_usage(usage: RemoteUsage, engine: &EngineSnapshot) -> Value {
    let server = engine.lanes.iter().find_map(|lane| lane.remote.as_ref());
    let price = server.and_then(|server| server.price.as_ref());
    json!({
        "host": server.map(|server| &server.host),
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "estimated": usage.is_estimate,
        "cost": price.map(|price| usage.cost(price.per_million)),
        "currency": price.and_then(|price| price.currency.as_ref()),
    })
}

fn routing(decision: &RoutingDecision) -> Value {
    let rejected = |rejection: &Rejection| {
        json!({
            "lane": rejection.lane.name(),
            "reason": rejection.reason,
            "context_limit": limit(rejection.context_limit),
            "predicted_total_ms": milliseconds(rejection.predicted_total),
        })
    };
    json!({
        "lane": decision.lane.name(),
        "execution_provider": decision.execution_provider,
        "emulated": decision.emulated,
        "policy": decision.policy.name(),
        "rule": decision.rule.name(),
        "prompt_tokens": decision.prompt_tokens,
        "parts": decision.parts,
        "max_tokens": decision.answer_tokens,
        "needed_tokens": decision.needed_tokens,
        "context_limit": decision.context_limit,
        "predicted_ttft_ms": milliseconds(decision.predicted_ttft),
        "predicted_total_ms": milliseconds(decision.predicted_total),
        "rejected": decision.rejected.iter().map(rejected).collect::<Vec<_>>(),
    })
}

pub fn lane(lane: &LaneStatus) -> Value {
    let reason = match &lane.state {
        LaneState::Absent { reason } | LaneState::Failed { reason } => Some(reason),
        LaneState::Ready | LaneState::Loading { .. } => None,
    };
    let placement = lane.placement.iter().map(|graph| {
        let nodes = graph.placement.as_ref().map(|placement| {
            let nodes = &placement.nodes_by_provider;
            nodes.iter().map(|(provider, nodes)| (provider.clone(), (*nodes).into())).collect::<Map<String, Value>>()
        });
        json!({"graph": graph.name(), "nodes": nodes, "compiled_nodes": graph.compiled_nodes})
    });
    json!({
        "lane": lane.id.name(),
        "execution_provider": lane.execution_provider,
        "device": lane.device,
        "emulated": lane.emulated,
        "state": lane.state.name(),
        "reason": reason,
        "context_limit": limit(lane.context_limit),
        "threads": lane.threads.map(|threads| threads.count),
        "spinning": lane.threads.map(|threads| threads.spinning),
        "threads_chosen_by": lane.threads.map(|threads| threads.chosen_by.name()),
        "memory_bytes": lane.memory.map(|memory| memory.bytes),
        "placement": placement.collect::<Vec<_>>(),
        "remote": lane.remote.as_ref().map(|server| json!({
            "url": server.url,
            "host": server.host,
            "model": server.model,
            "privacy": server.privacy.name(),
            "when": server.place.name(),
            "price_per_million": server.price.as_ref().map(|price| &price.per_million),
            "currency": server.price.as_ref().and_then(|price| price.currency.as_ref()),
        })),
    })
}

/// `null` where there is no model for the lane.
fn limit(tokens: usize) -> Option<usize> {
    (tokens > 0).then_some(tokens)
}

fn milliseconds(duration: Option<Duration>) -> Option<f64> {
    duration.map(|duration| rounded(duration.as_secs_f64() * 1e3))
}

/// To a thousandth: no more digits than a clock read around a kernel call is good for.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
