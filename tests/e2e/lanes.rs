//! Several lanes over the real model: two CPU lanes with the same weights, the first one with little context, so that what
//! differs is the lane alone.

use std::sync::Arc;

use ortalk::decoder::{Decoder, DecoderOptions, PlainDecoder};
use ortalk::engine::*;
use ortalk::model::{ModelFolder, TemplateMessage};
use ortalk::onnx_runtime::CpuSessionOptions;

use crate::support::{model, runtime};

/// The first lane's context: the prompt below has 37 tokens.
const SHORT: usize = 64;
const LONG: usize = 1024;

fn engine(contexts: &[(LaneId, usize)]) -> Engine {
    let model = Arc::new(ModelFolder::open(model()).unwrap());
    let lane = |(id, context): &(LaneId, usize)| LaneSpec {
        id: *id,
        ..cpu_lane(runtime(), model.clone(), (CpuSetting::with_threads(2), ChosenBy::Default), Some(*context), 0)
    };
    let lanes = contexts.iter().map(lane).collect();
    let engine = Engine::load(EngineOptions { model, lanes, emulation: false, listener: None }).unwrap();
    engine.wait_for_lanes(None);
    engine
}

struct Answer {
    text: String,
    tokens: Vec<(u32, LaneId)>,
    changes: Vec<LaneChange>,
    finished: Finished,
}

fn ask(engine: &Engine, question: &str, sampling: Sampling, policy: Policy) -> Answer {
    let mut stream = engine.submit(ChatRequest {
        sampling,
        max_tokens: 80,
        policy,
        ..ChatRequest::new(vec![ChatMessage::new(Role::User, question)])
    });
    let (mut text, mut tokens, mut changes) = (String::new(), Vec::new(), Vec::new());
    loop {
        match stream.blocking_recv().unwrap() {
            GenerationEvent::Token(token) => {
                text.push_str(&token.text);
                tokens.push((token.id, token.lane));
            }
            GenerationEvent::TrailingText { text: piece, .. } => text.push_str(&piece),
            GenerationEvent::LaneChanged(change) => changes.push(change),
            GenerationEvent::Finished(finished) => return Answer { text, tokens, changes, finished },
            GenerationEvent::Routed(_) | GenerationEvent::ContextTrimmed(_) | GenerationEvent::PrefillProgress(_) => {}
        }
    }
}

fn ids(answer: &Answer) -> Vec<u32> {
    answer.tokens.iter().map(|(id, _)| *id).collect()
}

/// Answers whose every word is as good as certain. Elsewhere two lanes may part at a near tie: the second one runs many
/// tokens at once that the first one ran one by one, and ONNX Runtime rounds differently there.
#[test]
fn an_answer_that_outgrows_its_lane_is_the_one_lane_answer() {
    let drawn = Sampling { temperature: 0.4, top_p: 0.9, seed: Some(1), ..Sampling::GREEDY };
    let one = engine(&[(LaneId::Cpu, LONG)]);
    for (question, context) in [
        ("What is the capital of France?", 40),
        ("Repeat exactly: one two three four five six seven eight nine ten eleven twelve", 50),
    ] {
        for sampling in [Sampling::GREEDY, drawn.clone()] {
            let two = engine(&[(LaneId::Npu, context), (LaneId::Cpu, LONG)]);
            let whole = ask(&one, question, sampling.clone(), Policy::Npu);
            let moved = ask(&two, question, sampling, Policy::Npu);
            // The tokens that fill the context, and the one that was chosen by then.
            let first = moved.tokens.iter().filter(|(_, lane)| *lane == LaneId::Npu).count();
            assert_eq!(
                (moved.changes.len(), first),
                (1, context - moved.finished.usage.prompt_tokens + 1),
                "{question}"
            );
            assert_eq!(ids(&moved), ids(&whole), "{question}\n{}\n{}", moved.text, whole.text);
            assert_eq!((&moved.text, &moved.finished.reason), (&whole.text, &whole.finished.reason));
            assert_eq!(moved.finished.timings.token_latencies.len() + 1, moved.tokens.len());
        }
    }
}

/// To the last bit, with the decoder alone: what comes after a change is what the model says after prompt and answer so far.
#[test]
fn an_answer_that_moved_goes_on_from_all_that_was_said() {
    let folder = ModelFolder::open(model()).unwrap();
    let options = DecoderOptions { session: CpuSessionOptions { threads: 2, spinning: false }, context: LONG };
    let mut bare = PlainDecoder::new(&runtime(), &folder, options).unwrap();
    let two = engine(&[(LaneId::Npu, SHORT), (LaneId::Cpu, LONG)]);
    for question in ["Tell me a long story about the sea.", "Write about Japanese poetry, with examples in Japanese."] {
        let moved = ask(&two, question, Sampling::GREEDY, Policy::Npu);
        let before = moved.changes[0].after_tokens;
        let message = TemplateMessage { role: "user", content: question };
        let mut sequence = folder.tokenizer.encode(&folder.template.render(&[message], true).unwrap()).unwrap();
        sequence.extend(&ids(&moved)[..before]);
        bare.rewind(0);
        let mut expected = Vec::new();
        while before + expected.len() < moved.tokens.len() {
            bare.forward(&sequence).unwrap();
            let logits = bare.logits();
            let next = (0..logits.len()).reduce(|best, at| if logits[at] > logits[best] { at } else { best }).unwrap();
            expected.push(next as u32);
            sequence = vec![next as u32];
        }
        assert_eq!(ids(&moved)[before..], expected, "{}", moved.text);
    }
}

#[test]
fn what_does_not_fit_goes_to_the_lane_where_it_does() {
    let engine = engine(&[(LaneId::Npu, 200), (LaneId::Cpu, LONG)]);
    let lanes = |answer: Answer| answer.tokens.iter().map(|(_, lane)| *lane).collect::<Vec<_>>();
    // About 35 tokens, and room for 80 more.
    assert!(lanes(ask(&engine, "Name a colour.", Sampling::GREEDY, Policy::Auto)).iter().all(|l| *l == LaneId::Npu));
    let long = format!("Which word comes most often? {}", "sea ship sea wind ".repeat(30));
    assert!(lanes(ask(&engine, &long, Sampling::GREEDY, Policy::Auto)).iter().all(|l| *l == LaneId::Cpu));
}
