//! Several lanes in one engine: answers that move from one to another, lanes that load, break and hang.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;

use super::testing::{Fault, SequenceDecoder, byte_model};
use super::*;

/// Context of the NPU lane, and of the CPU lane, in tokens. The prompt `<user>Hello<assistant>` has 22.
const CONTEXTS: (usize, usize) = (40, 400);
const PROMPT: usize = 22;

fn spec(
    id: LaneId,
    context: usize,
    mut open: impl FnMut() -> Result<SequenceDecoder, String> + Send + 'static,
) -> LaneSpec {
    LaneSpec {
        id,
        execution_provider: format!("{id} provider"),
        device: None,
        emulated: false,
        context_limit: context,
        threads: None,
        memory: None,
        measured: MeasuredRates::default(),
        remote: None,
        source: LaneSource::Open(Box::new(move || {
            let decoder: Box<dyn crate::decoder::Decoder> = Box::new(open()?);
            Ok(OpenLane { decoder, placement: Vec::new(), device: None, emulated: false })
        })),
    }
}

fn lane(id: LaneId, fault: Fault) -> LaneSpec {
    let context = if id == LaneId::Npu { CONTEXTS.0 } else { CONTEXTS.1 };
    spec(id, context, move || Ok(SequenceDecoder::new(context, fault)))
}

/// All of them open, or failed.
fn engine(lanes: Vec<LaneSpec>) -> Engine {
    let dir = tempfile::tempdir().unwrap();
    let options = EngineOptions { model: Arc::new(byte_model(dir.path())), lanes, emulation: false, listener: None };
    let engine = Engine::load(options).unwrap();
    engine.wait_for_lanes(None);
    engine
}

fn request(lane: Option<LaneId>) -> ChatRequest {
    ChatRequest {
        max_tokens: 60,
        policy: Policy::Npu,
        lane,
        ..ChatRequest::new(vec![ChatMessage::new(Role::User, "Hello")])
    }
}

struct Answer {
    tokens: Vec<(u32, LaneId)>,
    text: String,
    routed: Option<RoutingDecision>,
    changes: Vec<LaneChange>,
    progress: Vec<PrefillProgress>,
    finished: Finished,
}

impl Answer {
    fn ids(&self) -> Vec<u32> {
        self.tokens.iter().map(|(id, _)| *id).collect()
    }

    fn on(&self, lane: LaneId) -> usize {
        self.tokens.iter().filter(|(_, of)| *of == lane).count()
    }
}

fn follow(mut stream: GenerationStream) -> Answer {
    let (mut tokens, mut text, mut routed, mut changes, mut progress) = Default::default();
    loop {
        match stream.blocking_recv().expect("the stream ends with `Finished`") {
            GenerationEvent::Routed(decision) => routed = Some(decision),
            GenerationEvent::Token(token) => {
                Vec::push(&mut tokens, (token.id, token.lane));
                String::push_str(&mut text, &token.text);
            }
            GenerationEvent::TrailingText { text: piece, .. } => text.push_str(&piece),
            GenerationEvent::LaneChanged(change) => Vec::push(&mut changes, change),
            GenerationEvent::PrefillProgress(done) => Vec::push(&mut progress, done),
            GenerationEvent::ContextTrimmed(_) => {}
            GenerationEvent::Finished(finished) => return Answer { tokens, text, routed, changes, progress, finished },
        }
    }
}

fn ask(engine: &Engine, request: ChatRequest) -> Answer {
    follow(engine.submit(request))
}

fn samplings() -> [Sampling; 2] {
    let drawn = Sampling { temperature: 0.9, top_p: 0.9, repetition_penalty: 1.2, seed: Some(7), ..Sampling::GREEDY };
    [Sampling::GREEDY, drawn]
}

fn state(engine: &Engine, id: LaneId) -> LaneState {
    engine.snapshot().lanes.into_iter().find(|lane| lane.id == id).unwrap().state
}

#[test]
fn an_answer_that_outgrows_its_lane_goes_on_as_if_in_one() {
    for sampling in samplings() {
        let request = ChatRequest { sampling, ..request(None) };
        let whole = ask(&engine(vec![lane(LaneId::Cpu, Fault::Never)]), request.clone());
        let moved = ask(&engine(vec![lane(LaneId::Npu, Fault::Never), lane(LaneId::Cpu, Fault::Never)]), request);
        assert_eq!(moved.ids(), whole.ids());
        assert_eq!(moved.text, whole.text);
        assert_eq!(moved.finished.reason, FinishReason::Length);
        // 18 tokens fill the context of 40; the next one was chosen by then.
        assert_eq!((moved.on(LaneId::Npu), moved.on(LaneId::Cpu)), (CONTEXTS.0 - PROMPT + 1, 60 - 19));
        assert_eq!(
            moved.changes,
            [LaneChange {
                from: LaneId::Npu,
                to: LaneId::Cpu,
                after_tokens: 19,
                context_limit: CONTEXTS.1,
                emulated: false,
                reason: "the context of 40 is full".into(),
            }]
        );
        // The new lane runs prompt and answer so far.
        assert_eq!(moved.progress.last(), Some(&PrefillProgress { done: 41, total: 41, reused: 0 }));
        let Finished { usage, timings, .. } = moved.finished;
        assert_eq!(usage, Usage { prompt_tokens: PROMPT, completion_tokens: 60, ..Usage::default() });
        assert_eq!((timings.prefill_tokens, timings.token_latencies.len()), (PROMPT, 59));
        assert!(timings.ttft.is_some());
    }
}

#[test]
fn a_stop_text_is_found_across_the_change() {
    let whole = ask(&engine(vec![lane(LaneId::Cpu, Fault::Never)]), request(None));
    // The two characters whose second one only the new lane gives; found in the whole text to be the first of their kind.
    let ids = whole.ids();
    let dir = tempfile::tempdir().unwrap();
    let folder = byte_model(dir.path());
    let before = folder.tokenizer.decode(&ids[..19]).unwrap();
    let stop: String = before
        .chars()
        .skip(before.chars().count() - 1)
        .chain(whole.text.chars().skip(before.chars().count()).take(1))
        .collect();
    let request = ChatRequest { stop: vec![stop], ..request(None) };
    let alone = ask(&engine(vec![lane(LaneId::Cpu, Fault::Never)]), request.clone());
    let moved = ask(&engine(vec![lane(LaneId::Npu, Fault::Never), lane(LaneId::Cpu, Fault::Never)]), request);
    assert_eq!((moved.text, moved.finished.reason), (alone.text, alone.finished.reason));
}

/// At every place of prompt and answer, by an error and by a panic.
#[test]
fn a_lane_that_breaks_loses_and_repeats_nothing() {
    for sampling in samplings() {
        let request = ChatRequest { sampling, max_tokens: 10, ..request(None) };
        let whole = ask(&engine(vec![lane(LaneId::Cpu, Fault::Never)]), request.clone());
        for at in (1..PROMPT + 10).step_by(3) {
            for fault in [Fault::Error(at), Fault::Panic(at)] {
                let engine = engine(vec![lane(LaneId::Npu, fault), lane(LaneId::Cpu, Fault::Never)]);
                let moved = ask(&engine, request.clone());
                assert_eq!((moved.ids(), &moved.text), (whole.ids(), &whole.text), "{fault:?}");
                assert_eq!(moved.on(LaneId::Npu), (at + 1).saturating_sub(PROMPT + 1), "{fault:?}");
                let reason = if fault == Fault::Error(at) {
                    "the forward pass failed: injected fault"
                } else {
                    "injected panic"
                };
                assert_eq!(moved.changes[0].reason, format!("npu failed: {reason}"));
                assert_eq!(state(&engine, LaneId::Npu), LaneState::Failed { reason: reason.into() });
                // The timings are those of the lane that gave the first token.
                assert_eq!(moved.finished.timings.prefill_tokens, PROMPT);
            }
        }
    }
}

#[test]
fn a_lane_that_failed_is_opened_again_only_when_it_is_asked_for() {
    let opened = Arc::new(AtomicUsize::new(0));
    let counted = opened.clone();
    let npu = spec(LaneId::Npu, CONTEXTS.0, move || {
        let fault = if counted.fetch_add(1, Ordering::SeqCst) == 0 { Fault::Error(25) } else { Fault::Never };
        Ok(SequenceDecoder::new(CONTEXTS.0, fault))
    });
    let engine = engine(vec![npu, lane(LaneId::Cpu, Fault::Never)]);
    assert_eq!(ask(&engine, request(None)).changes.len(), 1);
    let answer = ask(&engine, request(None));
    assert_eq!((answer.on(LaneId::Npu), answer.routed.unwrap().rule), (0, Rule::OnlyReady));
    assert_eq!(opened.load(Ordering::SeqCst), 1);
    let answer = ask(&engine, ChatRequest { max_tokens: 5, ..request(Some(LaneId::Npu)) });
    assert_eq!((answer.on(LaneId::Npu), answer.finished.reason), (5, FinishReason::Length));
    assert_eq!((opened.load(Ordering::SeqCst), state(&engine, LaneId::Npu)), (2, LaneState::Ready));
}

#[test]
fn a_request_that_names_its_lane_stays_there() {
    let engine = engine(vec![lane(LaneId::Npu, Fault::Error(35)), lane(LaneId::Cpu, Fault::Never)]);
    let broken = ask(&engine, request(Some(LaneId::Npu)));
    assert_eq!((broken.on(LaneId::Npu), broken.on(LaneId::Cpu), broken.changes.len()), (13, 0, 0));
    let FinishReason::Error(message) = broken.finished.reason else { panic!("{:?}", broken.finished) };
    assert!(
        message.contains("the npu lane was asked for, and failed") && message.contains("injected fault"),
        "{message}"
    );

    let engine = self::engine(vec![lane(LaneId::Npu, Fault::Never), lane(LaneId::Cpu, Fault::Never)]);
    let full = ask(&engine, request(Some(LaneId::Npu)));
    assert_eq!((full.on(LaneId::Npu), full.on(LaneId::Cpu), full.changes.len()), (19, 0, 0));
    assert_eq!(full.finished.reason, FinishReason::ContextFull);
}

#[test]
fn a_lane_that_cannot_run_a_request_is_none_the_worse() {
    let engine = engine(vec![lane(LaneId::Npu, Fault::Refuse), lane(LaneId::Cpu, Fault::Never)]);
    let moved = ask(&engine, request(None));
    assert_eq!((moved.on(LaneId::Cpu), moved.changes.len()), (60, 1));
    assert!(
        moved.changes[0].reason.starts_with("npu cannot run this: the sequence starts with token"),
        "{:?}",
        moved.changes
    );
    assert_eq!(state(&engine, LaneId::Npu), LaneState::Ready);
}

#[test]
fn when_all_lanes_broke_every_request_is_told() {
    let engine = engine(vec![lane(LaneId::Npu, Fault::Error(30)), lane(LaneId::Cpu, Fault::Panic(35))]);
    let answer = ask(&engine, request(None));
    assert_eq!(answer.tokens.len(), 13);
    let FinishReason::Error(message) = answer.finished.reason else { panic!("{:?}", answer.finished) };
    assert!(message.contains("the cpu lane failed, and no other can go on with it: injected panic"), "{message}");
    let FinishReason::Error(message) = ask(&engine, request(None)).finished.reason else { panic!("no error") };
    assert!(
        message.starts_with("no lane is ready: npu: failed: the forward pass failed: injected fault; cpu:"),
        "{message}"
    );
}

#[test]
fn a_cancelled_answer_does_not_move() {
    let engine = engine(vec![lane(LaneId::Npu, Fault::Never), lane(LaneId::Cpu, Fault::Never)]);
    let mut stream = engine.submit(request(None));
    while !matches!(stream.blocking_recv(), Some(GenerationEvent::Token(_))) {}
    drop(stream);
    // The lanes are free for the next one, whose prompt is in the NPU's cache.
    let next = ask(&engine, ChatRequest { max_tokens: 3, ..request(None) });
    assert_eq!((next.on(LaneId::Npu), next.finished.usage.reused_tokens), (3, PROMPT - 1));
}

/// A lane that opens when it is let.
fn waiting(open: mpsc::Receiver<Result<(), String>>) -> LaneSpec {
    spec(LaneId::Npu, CONTEXTS.0, move || {
        open.recv().unwrap()?;
        Ok(SequenceDecoder::new(CONTEXTS.0, Fault::Never))
    })
}

fn load(lanes: Vec<LaneSpec>) -> Result<Engine, EngineError> {
    let dir = tempfile::tempdir().unwrap();
    Engine::load(EngineOptions { model: Arc::new(byte_model(dir.path())), lanes, emulation: false, listener: None })
}

#[test]
fn a_lane_that_loads_keeps_nobody_waiting_but_who_asked_for_it() {
    let (open, opened) = mpsc::channel();
    let engine = load(vec![waiting(opened), lane(LaneId::Cpu, Fault::Never)]).unwrap();
    assert!(matches!(state(&engine, LaneId::Npu), LaneState::Loading { .. }));
    let meanwhile = ask(&engine, request(None));
    let decision = meanwhile.routed.unwrap();
    assert_eq!((decision.lane, decision.rejected[0].reason.as_str()), (LaneId::Cpu, "still loading"));
    let mut asked = engine.submit(ChatRequest { max_tokens: 2, ..request(Some(LaneId::Npu)) });
    assert!(matches!(asked.blocking_recv(), Some(GenerationEvent::Routed(_))));
    std::thread::sleep(Duration::from_millis(20));
    assert!(asked.try_recv().is_err());
    open.send(Ok(())).unwrap();
    assert_eq!(follow(asked).on(LaneId::Npu), 2);
    assert_eq!(ask(&engine, request(None)).routed.unwrap().lane, LaneId::Npu);
}

#[test]
fn a_lane_that_does_not_open_says_so_to_who_waits_for_it() {
    let (open, opened) = mpsc::channel();
    let engine = load(vec![waiting(opened), lane(LaneId::Cpu, Fault::Never)]).unwrap();
    let asked = engine.submit(request(Some(LaneId::Npu)));
    open.send(Err("no DSP".into())).unwrap();
    let FinishReason::Error(message) = follow(asked).finished.reason else { panic!("no error") };
    assert!(message.contains("no DSP"), "{message}");
    assert_eq!(state(&engine, LaneId::Npu), LaneState::Failed { reason: "no DSP".into() });
    assert_eq!(ask(&engine, request(None)).on(LaneId::Cpu), 60);
}

#[test]
fn an_engine_without_a_lane_says_why() {
    let broken = |id, reason: &'static str| spec(id, 10, move || Err(reason.to_string()));
    let absent =
        LaneSpec { source: LaneSource::Absent { reason: "none here".into() }, ..lane(LaneId::Npu, Fault::Never) };
    let error = |lanes| load(lanes).err().unwrap().to_string();
    let one = error(vec![absent, broken(LaneId::Cpu, "no such graph")]);
    assert_eq!(one, "the cpu lane failed: no such graph");
    let both = error(vec![broken(LaneId::Npu, "no DSP"), broken(LaneId::Cpu, "no such graph")]);
    assert_eq!(both, "no lane could be opened\nnpu: no DSP\ncpu: no such graph");
}

#[test]
fn a_lane_that_hangs_does_not_keep_the_program() {
    let engine = engine(vec![lane(LaneId::Npu, Fault::Hang(25)), lane(LaneId::Cpu, Fault::Never)]);
    let mut stream = engine.submit(request(None));
    for _ in 0..3 {
        while !matches!(stream.blocking_recv(), Some(GenerationEvent::Token(_))) {}
    }
    // It hangs by then.
    std::thread::sleep(Duration::from_millis(100));
    let start = Instant::now();
    drop((stream, engine));
    assert!(start.elapsed() >= PATIENCE, "nothing hung");
    assert!(start.elapsed() < PATIENCE + Duration::from_secs(2), "{:?}", start.elapsed());
}
