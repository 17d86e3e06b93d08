use std::time::Instant;

use serde_json::json;

use super::*;
use crate::engine::{
    self, ContextTrim, EngineSnapshot, FinishReason, GenerationEvent, LaneChange, LaneId, LaneState, LaneStatus,
    MeasuredRates, MemoryPlan, Placement, Policy, PrefillProgress, PromptParts, RemoteStatus, RoutingDecision, Rule,
    ThinkingChoice, TokenLogprob, TokenLogprobs,
};

fn decision() -> RoutingDecision {
    RoutingDecision {
        lane: LaneId::Cpu,
        execution_provider: "CPUExecutionProvider".into(),
        emulated: false,
        policy: Policy::Fastest,
        rule: Rule::FirstThatFits,
        prompt_tokens: 40,
        whole_prompt_tokens: None,
        parts: Some(PromptParts { system: 10, history: 22, message: 8 }),
        answer_tokens: 1024,
        needed_tokens: 168,
        context_limit: 8192,
        predicted_ttft: Some(Duration::from_micros(12_345)),
        predicted_total: None,
        rejected: vec![engine::Rejection {
            lane: LaneId::Npu,
            reason: "still loading".into(),
            context_limit: 512,
            predicted_total: Some(Duration::from_millis(7)),
        }],
    }
}

fn finished(reason: FinishReason) -> GenerationEvent {
    GenerationEvent::Finished(engine::Finished {
        reason,
        usage: engine::Usage {
            prompt_tokens: 40,
            completion_tokens: 3,
            thinking_tokens: 1,
            reused_tokens: 20,
            remote: None,
        },
        timings: engine::Timings {
            ttft: Some(Duration::from_millis(31)),
            model_ttft: None,
            prefill: Duration::from_micros(29_001),
            prefill_tokens: 20,
            token_latencies: vec![Duration::from_millis(8), Duration::from_micros(8_500)],
        },
    })
}

/// Of each kind one.
fn events(submitted: Instant) -> Vec<GenerationEvent> {
    vec![
        GenerationEvent::Routed(decision()),
        GenerationEvent::ContextTrimmed(ContextTrim {
            dropped_messages: 2,
            tokens_before: 900,
            tokens_after: 400,
            context_limit: 512,
        }),
        GenerationEvent::PrefillProgress(PrefillProgress { done: 20, total: 40, reused: 20 }),
        GenerationEvent::Token(engine::Token {
            text: "Paris \u{1f5fc}\n".into(),
            thinking: String::new(),
            thinks: false,
            tool_calls: Vec::new(),
            id: 7,
            logprobs: None,
            at: submitted + Duration::from_micros(31_250),
            lane: LaneId::Npu,
        }),
        GenerationEvent::Token(engine::Token {
            text: String::new(),
            thinking: "hm".into(),
            thinks: true,
            tool_calls: vec![
                engine::ToolCallDelta::Start { index: 0, id: "call_1".into(), name: "weather".into() },
                engine::ToolCallDelta::Arguments { index: 0, text: "{\"city\":".into() },
            ],
            id: 8,
            logprobs: Some(TokenLogprobs {
                chosen: TokenLogprob { id: 8, bytes: vec![0xf0, 0x9f], logprob: -0.25 },
                top: vec![TokenLogprob { id: 9, bytes: b" a".to_vec(), logprob: -1.5 }],
            }),
            at: submitted,
            lane: LaneId::Cpu,
        }),
        GenerationEvent::TrailingText {
            thinking: "hm".into(),
            text: "!".into(),
            tool_calls: vec![engine::ToolCallDelta::Arguments { index: 0, text: "}".into() }],
        },
        finished(FinishReason::ToolCalls),
        GenerationEvent::LaneChanged(LaneChange {
            from: LaneId::Npu,
            to: LaneId::Cpu,
            after_tokens: 12,
            context_limit: 8192,
            emulated: false,
            reason: "npu failed: \"quoted\"".into(),
        }),
        finished(FinishReason::Stop),
        finished(FinishReason::Length),
        finished(FinishReason::ContextFull),
        finished(FinishReason::Cancelled),
        finished(FinishReason::Error("the cpu lane failed".into())),
    ]
}

#[test]
fn events_survive_the_wire() {
    let submitted = Instant::now();
    for event in events(submitted) {
        let text = serde_json::to_string(&Event::of(&event, submitted)).unwrap();
        let read: Event = serde_json::from_str(&text).unwrap();
        assert_eq!(read.into_engine(submitted), Some(event), "{text}");
    }
}

#[test]
fn a_token_s_time_counts_from_the_submission() {
    let submitted = Instant::now();
    let event = &events(submitted)[3];
    let expected = json!({"type": "token", "text": "Paris \u{1f5fc}\n", "thinking": "", "thinks": false, "id": 7,
                          "at_ms": 31.25, "lane": "npu"});
    assert_eq!(serde_json::to_value(Event::of(event, submitted)).unwrap(), expected);
    // The reader's clock is another one.
    let here = submitted + Duration::from_secs(100);
    let read: Event = serde_json::from_value(expected).unwrap();
    let Some(GenerationEvent::Token(token)) = read.into_engine(here) else { panic!() };
    assert_eq!(token.at, here + Duration::from_micros(31_250));
}

#[test]
fn names_are_the_ones_that_people_type() {
    let routing = serde_json::to_value(Routing::from(&decision())).unwrap();
    for (field, expected) in
        [("lane", LaneId::Cpu.name()), ("policy", Policy::Fastest.name()), ("rule", Rule::FirstThatFits.name())]
    {
        assert_eq!(routing[field], expected, "{field}");
    }
    assert_eq!(routing["predicted_ttft_ms"], 12.345);
}

#[test]
fn what_a_later_version_says_is_passed_over() {
    let submitted = Instant::now();
    let unknown: Event = serde_json::from_value(json!({"type": "tea_is_ready", "cups": 2})).unwrap();
    assert_eq!(unknown.into_engine(submitted), None);
    let more: Event =
        serde_json::from_value(json!({"type": "prefill_progress", "done": 1, "total": 2, "reused": 0, "cups": 2}))
            .unwrap();
    assert_eq!(more, Event::PrefillProgress { done: 1, total: 2, reused: 0 });
}

#[test]
fn times_that_are_none_do_no_harm() {
    let submitted = Instant::now();
    for at in [-1.0, 1e300] {
        let token = json!({"type": "token", "text": "", "thinking": "", "thinks": false, "id": 1, "at_ms": at,
                           "lane": "cpu"});
        let read: Event = serde_json::from_value(token).unwrap();
        let Some(GenerationEvent::Token(token)) = read.into_engine(submitted) else { panic!() };
        assert_eq!(token.at, submitted);
    }
}

#[test]
fn the_snapshot_survives_the_wire() {
    let now = Instant::now();
    let lane = |id, state, placement| LaneStatus {
        id,
        execution_provider: "CPUExecutionProvider".into(),
        device: Some("A CPU".into()),
        emulated: true,
        state,
        context_limit: 8192,
        threads: Some(engine::Threads { count: 4, spinning: false, chosen_by: engine::ChosenBy::User }),
        memory: Some(MemoryPlan { bytes: 1 << 40, kept_tokens: 65_536, cut_from: Some(32_768) }),
        placement,
        measured: MeasuredRates { prefill: Some(812.5), decode: None },
        remote: Some(RemoteStatus {
            url: "https://h.example/v1".into(),
            host: "h.example".into(),
            model: Some("far-model".into()),
            is_private: true,
            context_is_assumed: false,
            privacy: engine::Privacy::Ask,
            place: engine::RemotePlace::Outgrown,
            price: Some(engine::Price {
                per_million: engine::TokenPrice { input: 0.5, output: 2.0 },
                currency: Some("EUR".into()),
            }),
        }),
        running: 2,
        waiting: 1,
    };
    let graphs = vec![
        engine::GraphPlacement {
            graph: "model.onnx".into(),
            placement: Some(Placement { nodes_by_provider: vec![("CPUExecutionProvider".into(), 311)] }),
            compiled_nodes: Some(5296),
        },
        engine::GraphPlacement { graph: "other.onnx".into(), placement: None, compiled_nodes: None },
    ];
    let states = [
        LaneState::Ready,
        LaneState::Loading { since: now - Duration::from_millis(250) },
        LaneState::Absent { reason: "no model for it".into() },
        LaneState::Failed { reason: "it hung".into() },
    ];
    for thinking in [ThinkingChoice::Never, ThinkingChoice::ByItself, ThinkingChoice::Switchable] {
        let snapshot = EngineSnapshot {
            model: "SmolLM2".into(),
            architecture: "llama".into(),
            weight_bytes: 150_000_000,
            thinking,
            lanes: states.iter().map(|state| lane(LaneId::Cpu, state.clone(), graphs.clone())).collect(),
        };
        let text = serde_json::to_string(&Snapshot::of(&snapshot, now)).unwrap();
        let read: Snapshot = serde_json::from_str(&text).unwrap();
        assert_eq!(read.into_engine(now), snapshot, "{text}");
    }
}

#[test]
fn a_token_without_any_chance_has_a_number() {
    let logprobs =
        TokenLogprobs { chosen: TokenLogprob { id: 1, bytes: vec![], logprob: f32::NEG_INFINITY }, top: vec![] };
    let text = serde_json::to_string(&Logprobs::from(&logprobs)).unwrap();
    assert_eq!(serde_json::from_str::<Logprobs>(&text).unwrap().chosen.logprob, f32::MIN);
}

#[test]
fn a_request_s_field_may_be_short_and_not_wrong() {
    let read = |value| serde_json::from_value::<RequestExtension>(value);
    let expected = RequestExtension { lane: Some(LaneId::Cpu), events: true, ..RequestExtension::default() };
    assert_eq!(read(json!({"lane": "cpu", "events": true})).unwrap(), expected);
    assert!(read(json!({"lanes": "cpu"})).unwrap_err().to_string().contains("lanes"));
    assert_eq!(
        serde_json::to_value(RequestExtension::default()).unwrap(),
        json!({
            "trim": false, "fresh": false, "route_trace": false, "events": false
        })
    );
}
