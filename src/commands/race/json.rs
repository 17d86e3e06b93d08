//! A race as one JSON object.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::engine::FinishReason;
use crate::race::verdict::{compare, sentences};
use crate::race::{Order, Race, Racer, Run, Standing};
use crate::telemetry::latency::LatencySummary;

pub fn as_json(race: &Race) -> Value {
    let (order, why) = match &race.start.order {
        Order::SideBySide => ("side by side", None),
        Order::InTurn { why } => ("in turn", Some(why)),
    };
    let measures: Map<String, Value> = compare(race)
        .into_iter()
        .map(|found| {
            let of = json!({
                "lane": found.winner.name(),
                "value": rounded(found.best),
                "next_lane": found.next.name(),
                "next_value": rounded(found.other),
                "ratio": found.ratio.map(rounded),
            });
            (found.measure.name().to_owned(), of)
        })
        .collect();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "model": race.start.model,
        "prompt": race.start.prompt,
        "rounds": race.start.rounds,
        "order": order,
        "order_reason": why,
        "lanes": race.racers.iter().map(|racer| lane(race, racer)).collect::<Vec<_>>(),
        "best": measures,
        "verdict": sentences(race),
    })
}

fn lane(race: &Race, racer: &Racer) -> Value {
    let figures = racer.figures();
    let standing = racer.standing(race.over);
    let (state, reason) = match &standing {
        Standing::Absent(reason) => ("absent", Some(reason)),
        Standing::Failed(reason) => ("failed", Some(reason)),
        Standing::Done => ("done", None),
        Standing::Cancelled | Standing::Waiting | Standing::Prefill(_) | Standing::Decode => ("cancelled", None),
    };
    json!({
        "lane": racer.entrant.lane.name(),
        "execution_provider": racer.entrant.execution_provider,
        "device": racer.entrant.device,
        "emulated": racer.entrant.emulated,
        "state": state,
        "reason": reason,
        "ttft_ms": figures.ttft.map(milliseconds),
        "tokens_per_second": figures.rate.map(rounded),
        "estimated": figures.is_estimate,
        "latency_ms": figures.latency.as_ref().map(latency),
        "total_ms": figures.total.map(milliseconds),
        "joules_per_token": figures.joules_per_token.map(rounded),
        "energy_reason": figures.no_joules,
        "text": racer.shown().map(|run| &run.text),
        "runs": racer.runs.iter().map(run).collect::<Vec<_>>(),
    })
}

fn run(run: &Run) -> Value {
    let finished = run.finished.as_ref();
    let failure = finished.and_then(|finished| match &finished.reason {
        FinishReason::Error(reason) => Some(reason),
        _ => None,
    });
    json!({
        "round": run.round + 1,
        "finish_reason": finished.map(|finished| finished.reason.name()),
        "reason": failure,
        "prompt_tokens": finished.map(|finished| finished.usage.prompt_tokens),
        "reused_tokens": finished.map(|finished| finished.usage.reused_tokens),
        "completion_tokens": run.tokens,
        "ttft_ms": run.ttft().map(milliseconds),
        "tokens_per_second": run.rate().map(rounded),
        "total_ms": run.total().map(milliseconds),
        "token_latencies_ms": run.latencies().iter().map(|latency| milliseconds(*latency)).collect::<Vec<_>>(),
        "energy": run.energy,
        "thinking": Some(&run.thinking).filter(|text| !text.is_empty()),
        "text": run.text,
    })
}

fn latency(summary: &LatencySummary) -> Value {
    json!({
        "count": summary.count,
        "mean": milliseconds(summary.mean),
        "std": milliseconds(summary.std_dev),
        "min": milliseconds(summary.min),
        "max": milliseconds(summary.max),
        "p50": milliseconds(summary.p50),
        "p95": milliseconds(summary.p95),
        "p99": milliseconds(summary.p99),
    })
}

fn milliseconds(duration: Duration) -> f64 {
    rounded(duration.as_secs_f64() * 1e3)
}

fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
