use std::time::Duration;

use super::*;
use crate::engine::{Finished, LaneId, PrefillProgress, ThinkingChoice, Timings, Token, Usage};
use crate::ledger::{Entry, EntryEnergy};
use crate::telemetry::Reading;

fn token(at: Instant, thinks: bool) -> GenerationEvent {
    GenerationEvent::Token(Token {
        text: "a".into(),
        thinking: String::new(),
        thinks,
        tool_calls: Vec::new(),
        id: 1,
        logprobs: None,
        at,
        lane: LaneId::Cpu,
    })
}

fn page(metrics: &Metrics) -> String {
    let engine = EngineSnapshot {
        model: "m".into(),
        architecture: "llama".into(),
        weight_bytes: 1,
        thinking: ThinkingChoice::Never,
        lanes: Vec::new(),
    };
    metrics.page(&Standing { engine: &engine, limit: 9, resident: None, stopping: false })
}

fn has(page: &str, lines: &[&str]) {
    for line in lines {
        assert!(page.lines().any(|found| found == *line), "{line}\n{page}");
    }
}

#[test]
fn an_answer_is_counted_by_its_events() {
    let metrics = Arc::<Metrics>::default();
    let submitted = Instant::now();
    let at = |ms| submitted + Duration::from_millis(ms);
    let mut observer = metrics.answer(submitted, None);
    has(&page(&metrics), &["ortalk_queue_length 1", "ortalk_answers_running 0", "ortalk_queue_limit 9"]);
    observer.take(&GenerationEvent::PrefillProgress(PrefillProgress { done: 8, total: 20, reused: 8 }));
    has(&page(&metrics), &["ortalk_queue_length 0", "ortalk_answers_running 1"]);
    observer.take(&token(at(30), true));
    observer.take(&token(at(36), false));
    observer.take(&token(at(76), false));
    let finished = Finished { reason: FinishReason::Length, usage: Usage::default(), timings: Timings::default() };
    observer.take(&GenerationEvent::Finished(finished));
    drop(observer);
    has(
        &page(&metrics),
        &[
            "ortalk_queue_length 0",
            "ortalk_answers_running 0",
            "ortalk_answers_total{finish_reason=\"length\"} 1",
            "ortalk_tokens_total{lane=\"cpu\",kind=\"prompt\"} 20",
            "ortalk_tokens_total{lane=\"cpu\",kind=\"cached\"} 8",
            "ortalk_tokens_total{lane=\"cpu\",kind=\"completion\"} 3",
            "ortalk_tokens_total{lane=\"cpu\",kind=\"thinking\"} 1",
            "ortalk_time_to_first_token_seconds_bucket{lane=\"cpu\",le=\"0.025\"} 0",
            "ortalk_time_to_first_token_seconds_bucket{lane=\"cpu\",le=\"0.05\"} 1",
            "ortalk_inter_token_latency_seconds_bucket{lane=\"cpu\",le=\"0.01\"} 1",
            "ortalk_inter_token_latency_seconds_bucket{lane=\"cpu\",le=\"0.05\"} 2",
            "ortalk_inter_token_latency_seconds_sum{lane=\"cpu\"} 0.046",
        ],
    );
}

#[test]
fn one_that_is_dropped_was_cancelled_wherever_it_was() {
    let metrics = Arc::<Metrics>::default();
    let submitted = Instant::now();
    drop(metrics.answer(submitted, None));
    let mut running = metrics.answer(submitted, None);
    running.take(&token(submitted, false));
    drop(running);
    has(
        &page(&metrics),
        &["ortalk_answers_total{finish_reason=\"cancelled\"} 2", "ortalk_queue_length 0", "ortalk_answers_running 0"],
    );
}

#[test]
fn energy_is_there_where_it_was_measured() {
    let metrics = Metrics::default();
    let bill = |energy| Bill {
        entry: Entry {
            v: 1,
            time: String::new(),
            via: "serve".into(),
            model: "m".into(),
            lane: "npu+cpu".into(),
            emulated: false,
            finish: "stop".into(),
            tokens_in: 1,
            tokens_reused: 0,
            tokens_out: 1,
            seconds: 1.0,
            energy,
            prices: None,
            remote_cost: None,
        },
        energy: Reading::Unavailable("a test".into()),
        complaint: None,
    };
    metrics.lock().charge(&bill(EntryEnergy::default()));
    assert!(!page(&metrics).contains("ortalk_energy_joules_total{"));
    let measured =
        EntryEnergy { joules: Some(1.5), joules_with_idle: Some(4.0), idle_watts: Some(3.0), ..EntryEnergy::default() };
    metrics.lock().charge(&bill(measured.clone()));
    // Idle power was not known, so it is part of the joules.
    metrics.lock().charge(&bill(EntryEnergy { joules: Some(4.0), idle_watts: None, ..measured }));
    has(
        &page(&metrics),
        &[
            "ortalk_energy_joules_total{lane=\"npu+cpu\",kind=\"all\"} 8",
            "ortalk_energy_joules_total{lane=\"npu+cpu\",kind=\"above_idle\"} 1.5",
        ],
    );
}
