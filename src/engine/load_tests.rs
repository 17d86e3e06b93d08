//! Several answers at once on one lane: who gets what when, and that each is what it would be alone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use tokio::sync::mpsc::UnboundedReceiver;

use super::generate::{Ended, LaneDecoder, Outcome};
use super::job::Job;
use super::testing::{Fault, Passes, SequenceDecoder, SlotDecoder, byte_model, job};
use super::*;
use crate::decoder::Decoder;

/// Longer than any answer here.
const CONTEXT: usize = 4000;

type Events = UnboundedReceiver<GenerationEvent>;

fn folder() -> ModelFolder {
    byte_model(tempfile::tempdir().unwrap().path())
}

fn lane(slots: usize, budget: usize) -> (LaneDecoder, Passes) {
    let decoder = SlotDecoder::new(slots, CONTEXT, budget);
    let passes = decoder.passes();
    (LaneDecoder::new(LaneId::Cpu, Box::new(decoder)), passes)
}

/// The tokens that came so far.
fn ids(events: &mut Events) -> Vec<u32> {
    let mut ids = Vec::new();
    while let Ok(event) = events.try_recv() {
        if let GenerationEvent::Token(token) = event {
            ids.push(token.id);
        }
    }
    ids
}

/// What a decoder that nobody shares answers.
fn alone(folder: &ModelFolder, prompt: &str, tokens: usize) -> Vec<u32> {
    let decoder = SequenceDecoder::new(CONTEXT, Fault::Never);
    let mut lane = LaneDecoder::new(LaneId::Cpu, Box::new(decoder));
    let (job, mut events) = job(prompt, tokens, &[]);
    assert!(lane.admit(job, false).is_ok());
    while !lane.is_idle() {
        lane.turn(folder, &|| false);
    }
    ids(&mut events)
}

#[test]
fn a_long_prompt_comes_in_pieces_between_the_tokens_of_others() {
    let (folder, (mut lane, passes)) = (folder(), lane(4, 8 * CONTEXT));
    let (first, mut first_events) = job("short", 100, &[]);
    assert!(lane.admit(first, false).is_ok());
    lane.turn(&folder, &|| false);
    let (long, _long_events) = job(&"a long prompt ".repeat(40), 100, &[]);
    assert!(lane.admit(long, false).is_ok());
    ids(&mut first_events);
    // 560 tokens in pieces of 32.
    for turn in 1..=18 {
        lane.turn(&folder, &|| false);
        assert_eq!(ids(&mut first_events).len(), 1, "turn {turn}");
    }
    let pieces: Vec<usize> =
        passes.lock().unwrap().iter().flatten().filter(|(slot, _)| *slot == 1).map(|p| p.1).collect();
    assert_eq!(pieces, [vec![32; 17], vec![16, 1]].concat());
}

#[test]
fn prompts_take_turns_and_the_short_one_answers_first() {
    let (folder, (mut lane, passes)) = (folder(), lane(4, 8 * CONTEXT));
    let (long, mut long_events) = job(&"long ".repeat(100), 5, &[]);
    let (short, mut short_events) = job("hi", 5, &[]);
    assert!(lane.admit(long, false).is_ok() && lane.admit(short, false).is_ok());
    lane.turn(&folder, &|| false);
    // While nobody answers, a chunk is as long as the decoder likes it.
    assert_eq!(passes.lock().unwrap()[0], [(0, 64)]);
    lane.turn(&folder, &|| false);
    assert_eq!((ids(&mut short_events).len(), ids(&mut long_events).len()), (2, 0));
}

#[test]
fn answers_that_have_begun_share_passes() {
    let (folder, (mut lane, passes)) = (folder(), lane(3, 8 * CONTEXT));
    let mut all = Vec::new();
    for prompt in ["one", "two", "three"] {
        let (job, events) = job(prompt, 20, &[]);
        assert!(lane.admit(job, false).is_ok());
        all.push((prompt, events));
    }
    while !lane.is_idle() {
        lane.turn(&folder, &|| false);
    }
    for (prompt, mut events) in all {
        assert_eq!(ids(&mut events), alone(&folder, prompt, 20), "{prompt}");
    }
    assert!(passes.lock().unwrap().contains(&vec![(0, 1), (1, 1), (2, 1)]));
}

#[test]
fn a_dropped_receiver_frees_its_slot_within_one_token() {
    let (folder, (mut lane, passes)) = (folder(), lane(2, 8 * CONTEXT));
    let (first, first_events) = job("first", 1000, &[]);
    let (second, mut second_events) = job("second", 1000, &[]);
    let (third, mut third_events) = job("third", 10, &[]);
    assert!(lane.admit(first, false).is_ok() && lane.admit(second, false).is_ok());
    (0..5).for_each(|_| drop(lane.turn(&folder, &|| false)));
    let Err(third) = lane.admit(third, false) else { panic!("there are two slots") };
    drop(first_events);
    ids(&mut second_events);
    passes.lock().unwrap().clear();
    let ended = lane.turn(&folder, &|| false);
    let outcomes: Vec<&Outcome> = ended.iter().map(|ended| &ended.outcome).collect();
    assert_eq!(outcomes, [&Outcome::Finished(FinishReason::Cancelled)]);
    assert_eq!(*passes.lock().unwrap(), [[(1, 1)]]);
    assert!(lane.admit(*third, false).is_ok());
    lane.turn(&folder, &|| false);
    assert_eq!((ids(&mut second_events).len(), ids(&mut third_events).len()), (2, 2));
}

/// Answers that together outgrow the memory pause, and the newest begins again; what they say stays the same.
#[test]
fn answers_that_outgrow_the_memory_are_what_they_would_be_alone() {
    let (folder, (mut lane, passes)) = (folder(), lane(4, CONTEXT));
    let prompts = ["one", "two", "three"];
    let mut displaced = 0;
    let mut all: Vec<_> = prompts.iter().map(|prompt| job(prompt, 1900, &[])).collect();
    let mut events: Vec<Events> = Vec::new();
    for (job, received) in all.drain(..) {
        assert!(lane.admit(job, false).is_ok());
        events.push(received);
    }
    let mut waiting: Vec<Ended> = Vec::new();
    while !lane.is_idle() || !waiting.is_empty() {
        if let Some(Ended { job, slot, measured, outcome }) = waiting.pop()
            && let Err(job) = lane.admit(job, true)
        {
            waiting.push(Ended { job: *job, slot, measured, outcome });
        }
        for ended in lane.turn(&folder, &|| false) {
            if ended.outcome == Outcome::Displaced {
                displaced += 1;
                waiting.push(ended);
            }
        }
    }
    assert!(displaced > 0);
    for (prompt, events) in prompts.iter().zip(&mut events) {
        assert_eq!(ids(events), alone(&folder, prompt, 1900), "{prompt}");
    }
    // No prompt was longer than a prompt: what was said before was run again as it was.
    assert!(passes.lock().unwrap().iter().flatten().all(|(_, tokens)| *tokens <= 5));
}

fn spec(decoder: impl Fn() -> Box<dyn Decoder> + Send + 'static, id: LaneId) -> LaneSpec {
    LaneSpec {
        id,
        execution_provider: "test".into(),
        device: None,
        emulated: false,
        context_limit: CONTEXT,
        threads: None,
        memory: None,
        measured: MeasuredRates::default(),
        remote: None,
        source: LaneSource::Open(Box::new(move || {
            Ok(OpenLane { decoder: decoder(), placement: Vec::new(), device: None, emulated: false })
        })),
    }
}

fn engine(lanes: Vec<LaneSpec>) -> Engine {
    let options = EngineOptions { model: Arc::new(folder()), lanes, emulation: false, listener: None };
    let engine = Engine::load(options).unwrap();
    engine.wait_for_lanes(None);
    engine
}

fn request(text: &str, max_tokens: usize) -> ChatRequest {
    ChatRequest { max_tokens, ..ChatRequest::new(vec![ChatMessage::new(Role::User, text)]) }
}

fn follow(mut stream: GenerationStream) -> (Vec<u32>, FinishReason) {
    let mut ids = Vec::new();
    loop {
        match stream.blocking_recv().expect("the stream ends with `Finished`") {
            GenerationEvent::Token(token) => ids.push(token.id),
            GenerationEvent::Finished(finished) => return (ids, finished.reason),
            _ => {}
        }
    }
}

/// Waits until the lane runs so many, and so many wait.
fn reaches(engine: &Engine, running: usize, waiting: usize) {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let lane = &engine.snapshot().lanes[0];
        if (lane.running, lane.waiting) == (running, waiting) {
            return;
        }
        assert!(Instant::now() < until, "{} run and {} wait", lane.running, lane.waiting);
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn the_lane_says_how_many_run_and_how_many_wait() {
    let engine = engine(vec![spec(|| Box::new(SlotDecoder::new(2, 100_000, 1_000_000)), LaneId::Cpu)]);
    reaches(&engine, 0, 0);
    let mut streams: Vec<_> = (0..5).map(|n| engine.submit(request(&format!("{n}"), 90_000))).collect();
    reaches(&engine, 2, 3);
    // One that waits and one that runs.
    streams.remove(4);
    streams.remove(0);
    reaches(&engine, 2, 1);
    drop(streams);
    reaches(&engine, 0, 0);
}

#[test]
fn all_answers_of_a_lane_that_breaks_go_on_in_another() {
    for fault in [Fault::Error(60), Fault::Panic(60)] {
        let broken = move || -> Box<dyn Decoder> { Box::new(SlotDecoder::new(4, CONTEXT, 20_000).with_fault(fault)) };
        let whole = || -> Box<dyn Decoder> { Box::new(SlotDecoder::new(4, CONTEXT, 20_000)) };
        let engine = engine(vec![spec(broken, LaneId::Npu), spec(whole, LaneId::Cpu)]);
        let alone = self::engine(vec![spec(whole, LaneId::Cpu)]);
        let texts = ["one", "two", "three", "four"];
        let streams: Vec<_> = texts.iter().map(|text| engine.submit(request(text, 80))).collect();
        for (text, stream) in texts.iter().zip(streams) {
            assert_eq!(follow(stream), follow(alone.submit(request(text, 80))), "{text}");
        }
        let lanes = engine.snapshot().lanes;
        assert!(matches!(lanes[0].state, LaneState::Failed { .. }));
        assert!(lanes.iter().all(|lane| (lane.running, lane.waiting) == (0, 0)));
    }
}

#[test]
fn more_requests_than_slots_are_all_answered_as_alone() {
    let slots = || -> Box<dyn Decoder> { Box::new(SlotDecoder::new(4, CONTEXT, 2 * CONTEXT)) };
    let engine = engine(vec![spec(slots, LaneId::Cpu)]);
    let lonely = || -> Box<dyn Decoder> { Box::new(SequenceDecoder::new(CONTEXT, Fault::Never)) };
    let alone = self::engine(vec![spec(lonely, LaneId::Cpu)]);
    // Some have their beginning in common, as with the same instructions.
    let texts: Vec<String> = (0..24).map(|n| format!("{}{n}", "instructions ".repeat(n % 3))).collect();
    let streams: Vec<_> = texts.iter().map(|text| engine.submit(request(text, 300))).collect();
    for (text, stream) in texts.iter().zip(streams) {
        assert_eq!(follow(stream), follow(alone.submit(request(text, 300))), "{text}");
    }
}

#[derive(Debug, Clone)]
enum Action {
    Ask { prompt: usize, tokens: usize },
    Drop(usize),
    Turns(usize),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        (0..6_usize, 1..400_usize).prop_map(|(prompt, tokens)| Action::Ask { prompt, tokens }),
        any::<usize>().prop_map(Action::Drop),
        (1..40_usize).prop_map(Action::Turns),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Whoever comes and goes when, the memory is kept to (which the decoder checks), no slot is lost, and each answer is
    /// its own.
    #[test]
    fn random_clients_leave_nothing_behind(actions in prop::collection::vec(action(), 1..60)) {
        let (folder, (mut lane, _)) = (folder(), lane(3, 900));
        let prompts = ["a", "ab", "abcdef", "abcdef and more", "another", "another one"];
        let mut clients: Vec<(usize, Vec<u32>, Option<Events>)> = Vec::new();
        let mut waiting: Vec<(Job, bool)> = Vec::new();
        let mut turn = |clients: &mut Vec<(usize, Vec<u32>, Option<Events>)>,
                        waiting: &mut Vec<(Job, bool)>| {
            while !waiting.is_empty() {
                let (job, displaced) = waiting.remove(0);
                if let Err(job) = lane.admit(job, displaced) {
                    waiting.insert(0, (*job, displaced));
                    break;
                }
            }
            for ended in lane.turn(&folder, &|| false) {
                if ended.outcome == Outcome::Displaced {
                    waiting.insert(0, (ended.job, true));
                }
            }
            for (_, had, events) in clients {
                had.extend(events.iter_mut().flat_map(ids));
            }
            lane.is_idle() && waiting.is_empty()
        };
        for action in actions {
            match action {
                Action::Ask { prompt, tokens } => {
                    let (job, events) = job(prompts[prompt], tokens, &[]);
                    waiting.push((job, false));
                    clients.push((prompt, Vec::new(), Some(events)));
                }
                Action::Drop(which) if !clients.is_empty() => {
                    let which = which % clients.len();
                    clients[which].2 = None;
                }
                Action::Drop(_) => {}
                Action::Turns(count) => {
                    for _ in 0..count {
                        turn(&mut clients, &mut waiting);
                    }
                }
            }
        }
        let mut turns = 0;
        while !turn(&mut clients, &mut waiting) {
            turns += 1;
            prop_assert!(turns < 60_000, "an answer does not end");
        }
        for (prompt, had, _) in &clients {
            let whole = alone(&folder, prompts[*prompt], 400);
            prop_assert_eq!(had.as_slice(), &whole[..had.len()]);
        }
    }
}
