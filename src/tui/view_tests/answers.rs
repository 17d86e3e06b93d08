//! From loading the model to an answer that is over, on each lane, and what can go wrong on the way.

use crossterm::event::KeyCode;

use super::super::super::event::Event;
use super::super::super::fixtures::{
    ANSWER, Desk, decision, lane_change, ms, outgrown_decision, short_decision, snapshot_with, snapshot_with_server,
};
use super::screens;
use crate::engine::{
    FinishReason, Finished, GenerationEvent, LaneId, LaneState, PrefillProgress, RemoteUsage, RoutingDecision, Rule,
    Timings, Usage,
};

#[test]
fn loading() {
    screens("loading", || {
        let mut desk = Desk::loading();
        desk.wait(2500);
        desk
    });
}

#[test]
fn ready() {
    screens("ready", || {
        let mut desk = Desk::ready();
        desk.type_text("What is the capital of France?");
        desk.state.preview.shown = Some(Ok(decision()));
        desk
    });
}

#[test]
fn prefilling() {
    screens("prefilling", || {
        let mut desk = Desk::ready();
        desk.send("What is the capital of France, and why there?");
        desk.route();
        desk.prefill(500);
        desk.send("And of Italy?");
        desk
    });
}

#[test]
fn streaming() {
    screens("streaming", || {
        let mut desk = Desk::ready();
        desk.stream();
        desk
    });
}

#[test]
fn short_question_on_the_npu() {
    screens("short_question_on_the_npu", || {
        let mut desk = Desk::ready();
        desk.send("What is the capital of France?");
        desk.generation(GenerationEvent::Routed(short_decision()));
        desk.generation(GenerationEvent::PrefillProgress(PrefillProgress { done: 40, total: 40, reused: 0 }));
        desk.wait(800);
        for word in "The capital of France is".split_inclusive(' ') {
            desk.token_on(LaneId::Npu, word);
            desk.wait(100);
        }
        desk
    });
}

#[test]
fn a_lane_that_fails_mid_answer() {
    screens("a_lane_that_fails_mid_answer", || {
        let mut desk = Desk::ready();
        desk.send("What is the capital of France, and why there?");
        desk.generation(GenerationEvent::Routed(short_decision()));
        desk.generation(GenerationEvent::PrefillProgress(PrefillProgress { done: 40, total: 40, reused: 0 }));
        desk.wait(800);
        for (index, word) in ANSWER.split_inclusive(' ').enumerate() {
            if index == 12 {
                desk.generation(GenerationEvent::LaneChanged(lane_change()));
                let reason = "QNN error 1100, device lost".to_string();
                desk.event(Event::Snapshot(snapshot_with(LaneState::Failed { reason })));
                desk.generation(GenerationEvent::PrefillProgress(PrefillProgress { done: 52, total: 52, reused: 0 }));
                desk.wait(300);
            }
            let lane = if index < 12 { LaneId::Npu } else { LaneId::Cpu };
            desk.token_on(lane, word);
            desk.wait(20);
        }
        desk
    });
}

/// A long conversation that only a server holds, before a person has said what may become of it.
fn asking() -> Desk {
    let mut desk = Desk::ready();
    desk.event(Event::EngineLoaded(snapshot_with_server()));
    desk.send("What do these three reports have in common?");
    desk.event(Event::Weighed(Ok(outgrown_decision())));
    desk
}

#[test]
fn a_server_is_asked_about() {
    screens("a_server_is_asked_about", asking);
}

#[test]
fn a_server_answers() {
    screens("a_server_answers", || {
        let mut desk = asking();
        desk.key(KeyCode::Char('y'));
        desk.generation(GenerationEvent::Routed(outgrown_decision()));
        desk.generation(GenerationEvent::PrefillProgress(PrefillProgress { done: 20_000, total: 20_000, reused: 0 }));
        desk.wait(800);
        for word in ["All three ", "ask for ", "more time."] {
            desk.token_on(LaneId::Remote, word);
            desk.wait(100);
        }
        let remote = RemoteUsage { prompt_tokens: 20_000, completion_tokens: 9, is_estimate: false };
        let latencies = desk.state.answer.as_ref().unwrap().latencies().to_vec();
        desk.generation(GenerationEvent::Finished(Finished {
            reason: FinishReason::Stop,
            usage: Usage { prompt_tokens: 20_000, completion_tokens: 9, remote: Some(remote), ..Usage::default() },
            timings: Timings { ttft: Some(ms(800)), token_latencies: latencies, ..Timings::default() },
        }));
        desk
    });
}

#[test]
fn a_lane_that_loads_and_is_waited_for() {
    screens("a_lane_that_loads_and_is_waited_for", || {
        let mut desk = Desk::ready();
        desk.event(Event::Snapshot(snapshot_with(LaneState::Loading { since: desk.now })));
        desk.send("/npu");
        desk.send("What is the capital of France?");
        let asked = RoutingDecision { rule: Rule::Requested, ..short_decision() };
        desk.generation(GenerationEvent::Routed(asked));
        desk.wait(12_300);
        desk.event(Event::Snapshot(snapshot_with(LaneState::Loading { since: desk.now - ms(12_300) })));
        desk
    });
}

#[test]
fn messages_go_to_one_lane() {
    screens("messages_go_to_one_lane", || {
        let mut desk = Desk::ready();
        desk.send("/npu");
        desk.key(KeyCode::Esc);
        desk
    });
}

fn thoughtful() -> Desk {
    let mut desk = Desk::ready();
    desk.send("What is the capital of France?");
    desk.route();
    desk.prefill(1000);
    desk.wait(2000);
    for word in "The user asks for a capital, and France has one only: Paris.".split_inclusive(' ') {
        desk.thought(word);
        desk.wait(10);
    }
    desk
}

#[test]
fn thinking() {
    screens("thinking", thoughtful);
}

#[test]
fn thinking_unfolded() {
    screens("thinking_unfolded", || {
        let mut desk = thoughtful();
        desk.token("The capital of France is ");
        desk.token("Paris.");
        desk.finish(FinishReason::Stop);
        desk.ctrl('t');
        desk
    });
}

#[test]
fn finished() {
    screens("finished", || {
        let mut desk = Desk::ready();
        desk.stream();
        desk.finish(FinishReason::Length);
        desk
    });
}

#[test]
fn failed() {
    screens("failed", || {
        let mut desk = Desk::loading();
        desk.event(Event::EngineFailed(
            "ONNX Runtime could not be loaded from '/example/libonnxruntime.so': wrong ELF class.\nSet ORT_DYLIB_PATH \
             to a 64-bit library, or run 'ortalk setup' to fetch the one that this program was tested with."
                .into(),
        ));
        desk
    });
}

#[test]
fn scrolled_up() {
    screens("scrolled_up", || {
        let mut desk = Desk::ready();
        desk.stream();
        desk.finish(FinishReason::Stop);
        desk.stream();
        desk.finish(FinishReason::Cancelled);
        desk.stream();
        desk.key(KeyCode::PageUp);
        for _ in 0..3 {
            desk.token("\nmore");
        }
        desk
    });
}
