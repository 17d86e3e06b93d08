use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use tokio::sync::mpsc::unbounded_channel;

use super::verdict::{Measure, compare, sentences};
use super::*;
use crate::engine::{
    ChatMessage, FinishReason, Finished, GenerationEvent, GenerationStream, MeasuredRates, Privacy, RemotePlace,
    RemoteStatus, Role, ThinkingChoice, Timings, Token, Usage,
};
use crate::ledger::EntryEnergy;

const CPU: LaneId = LaneId::Cpu;
const NPU: LaneId = LaneId::Npu;

fn status(id: LaneId, emulated: bool, state: LaneState) -> LaneStatus {
    let provider = if id == NPU { "QNNExecutionProvider" } else { CPU_PROVIDER };
    let remote = (id == LaneId::Remote).then(|| RemoteStatus {
        url: "https://far.example/v1".into(),
        host: "far.example".into(),
        model: None,
        is_private: true,
        context_is_assumed: false,
        privacy: Privacy::Ask,
        place: RemotePlace::Outgrown,
        price: None,
    });
    LaneStatus {
        id,
        execution_provider: if remote.is_some() { "server".into() } else { provider.into() },
        device: None,
        emulated,
        state,
        context_limit: 1000,
        threads: None,
        memory: None,
        placement: Vec::new(),
        measured: MeasuredRates::default(),
        remote,
        running: 0,
        waiting: 0,
    }
}

fn engine(lanes: Vec<LaneStatus>) -> EngineSnapshot {
    let (model, architecture) = ("tiny".into(), "llama".into());
    EngineSnapshot { model, architecture, weight_bytes: 1, thinking: ThinkingChoice::Never, lanes }
}

fn both(npu_is_emulated: bool) -> EngineSnapshot {
    engine(vec![status(NPU, npu_is_emulated, LaneState::Ready), status(CPU, false, LaneState::Ready)])
}

fn request() -> ChatRequest {
    ChatRequest::new(vec![ChatMessage::new(Role::User, "Name three rivers.")])
}

fn wishes(lanes: &[LaneId]) -> Wishes {
    Wishes { lanes: lanes.to_vec(), rounds: 1, in_turn: false }
}

fn why(plan: &Plan) -> Option<&str> {
    match &plan.start.order {
        Order::SideBySide => None,
        Order::InTurn { why } => Some(why),
    }
}

#[test]
fn lanes_on_the_same_cores_run_one_after_the_other() {
    let plan = |engine: &EngineSnapshot, lanes: &[LaneId]| super::plan(request(), &wishes(lanes), engine).unwrap();
    let emulated = plan(&both(true), &[CPU, NPU]);
    assert_eq!(why(&emulated), Some("cpu and the emulated npu compute on the same cores"));
    assert_eq!(why(&plan(&both(false), &[CPU, NPU])), None);
    let mut three = both(true);
    three.lanes.push(status(LaneId::Remote, false, LaneState::Ready));
    assert_eq!(why(&plan(&three, &[NPU, LaneId::Remote])), None);
    three.lanes[2].remote.as_mut().unwrap().host = "localhost:8080".into();
    assert_eq!(
        why(&plan(&three, &[NPU, LaneId::Remote])),
        Some("the emulated npu and the server at localhost:8080 compute on the same cores")
    );
    let asked = Wishes { in_turn: true, ..wishes(&[CPU, NPU]) };
    assert_eq!(why(&super::plan(request(), &asked, &both(false)).unwrap()), Some("as asked"));
}

#[test]
fn this_machine_has_several_names() {
    for (host, here) in [
        ("localhost", true),
        ("localhost:8080", true),
        ("127.0.0.1:1", true),
        ("[::1]:8080", true),
        ("::1", false), // no host of a URL
        ("localhost.example", false),
        ("10.0.0.1", false),
    ] {
        assert_eq!(is_here(host), here, "{host}");
    }
}

#[test]
fn lanes_get_the_same_request() {
    let plan = super::plan(request(), &wishes(&[]), &both(false)).unwrap();
    assert!(plan.request.fresh);
    assert_eq!(plan.request.sampling.seed, Some(SEED));
    assert_eq!(plan.start.prompt, "Name three rivers.");
    let mut seeded = request();
    seeded.sampling.seed = Some(7);
    assert_eq!(super::plan(seeded, &wishes(&[]), &both(false)).unwrap().request.sampling.seed, Some(7));
}

#[test]
fn what_is_no_race_says_why() {
    let absent = || LaneState::Absent { reason: "no NPU here".into() };
    let mut one = both(false);
    one.lanes[0].state = absent();
    let said = |lanes: &[LaneId], engine: &EngineSnapshot| {
        super::plan(request(), &wishes(lanes), engine).unwrap_err().to_string()
    };
    assert_eq!(said(&[CPU], &one), "a race is between two lanes at least; cpu was named alone");
    assert_eq!(said(&[CPU, CPU], &one), "cpu was named twice; a race is between different lanes");
    assert_eq!(said(&[], &one), "a race is between two lanes at least, and only cpu can run (npu: no NPU here)");
    let mut served = one.clone();
    served.lanes.push(status(LaneId::Remote, false, LaneState::Ready));
    assert!(said(&[], &served).contains("; remote: races only where it is named"), "{}", said(&[], &served));
    assert_eq!(said(&[CPU, LaneId::Remote], &one), "none of the lanes can run: remote: the settings name no server");
    // One that was named and is not there is told; the other one runs.
    let plan = super::plan(request(), &wishes(&[NPU, CPU]), &one).unwrap();
    assert_eq!(plan.start.entrants[0].absent.as_deref(), Some("no NPU here"));
    assert_eq!(plan.start.order, Order::SideBySide);
    one.lanes[1].state = absent();
    assert_eq!(said(&[NPU, CPU], &one), "none of the lanes can run: npu: no NPU here; cpu: no NPU here");
}

fn start(rounds: usize, order: Order) -> Start {
    let entrant =
        |lane| Entrant { lane, execution_provider: "X".into(), device: None, emulated: lane == NPU, absent: None };
    Start { prompt: "hi".into(), model: "tiny".into(), entrants: vec![entrant(NPU), entrant(CPU)], rounds, order }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn token(lane: LaneId, text: &str, at: Instant) -> GenerationEvent {
    GenerationEvent::Token(Token {
        text: text.into(),
        thinking: String::new(),
        thinks: false,
        tool_calls: Vec::new(),
        id: 1,
        logprobs: None,
        at,
        lane,
    })
}

fn finished(reason: FinishReason) -> GenerationEvent {
    GenerationEvent::Finished(Finished { reason, usage: Usage::default(), timings: Timings::default() })
}

/// An answer of tokens at these milliseconds after its submission.
fn answer(race: &mut Race, lane: LaneId, round: usize, at: &[u64], joules: Option<f64>) {
    let began = Instant::now();
    race.note(&RaceEvent::Began { lane, round, at: began });
    for milliseconds in at {
        race.note(&RaceEvent::Answer { lane, event: token(lane, "x ", began + ms(*milliseconds)) });
    }
    race.note(&RaceEvent::Answer { lane, event: finished(FinishReason::Stop) });
    let reason = joules.is_none().then(|| "no sensor".into());
    race.note(&RaceEvent::Energy { lane, energy: EntryEnergy { joules, reason, ..EntryEnergy::default() } });
}

/// cpu: 40 ms, then 10 10 10 20 ms; npu: 100 ms, then 50 50 50 50 ms.
fn run_race() -> Race {
    let mut race = Race::new(start(1, Order::InTurn { why: "as asked".into() }));
    answer(&mut race, NPU, 0, &[100, 150, 200, 250, 300], Some(10.0));
    answer(&mut race, CPU, 0, &[40, 50, 60, 70, 90], Some(5.0));
    race.note(&RaceEvent::Over { cancelled: false });
    race
}

#[test]
fn figures_come_from_the_stamps() {
    let race = run_race();
    let figures = race.racers[1].figures();
    assert_eq!((figures.ttft, figures.total, figures.tokens), (Some(ms(40)), Some(ms(90)), 5));
    // Four tokens in 50 ms.
    assert!((figures.rate.unwrap() - 80.0).abs() < 1e-9);
    let latency = figures.latency.unwrap();
    assert_eq!((latency.p50, latency.p99), (ms(10), ms(20)));
    // The mean is 12.5: (3 * 2.5^2 + 7.5^2) / 4 = 18.75.
    assert!((latency.std_dev.as_secs_f64() * 1e3 - 18.75_f64.sqrt()).abs() < 1e-6);
    assert_eq!(figures.joules_per_token, Some(1.0));
}

#[test]
fn each_measure_has_its_winner() {
    let found: Vec<_> = compare(&run_race())
        .into_iter()
        .map(|one| (one.measure, one.winner, one.ratio.map(|ratio| (ratio * 100.0).round() / 100.0)))
        .collect();
    assert_eq!(
        found,
        [
            (Measure::FirstToken, CPU, Some(2.5)),
            (Measure::Rate, CPU, Some(4.0)),
            (Measure::P50, CPU, Some(5.0)),
            (Measure::P99, CPU, Some(2.5)),
            // A deviation of 0 is better, but no number of times.
            (Measure::Sigma, NPU, None),
            (Measure::Energy, CPU, Some(2.0)),
        ]
    );
    let lines = table::lines(&run_race());
    assert_eq!(lines[1].cells[1], table::Cell { text: Some("80.0".into()), best: true });
    assert_eq!((lines[1].state.as_str(), lines[1].lead.as_deref()), ("finished 90 ms", Some("4.0x")));
    assert_eq!((lines[0].lead.as_deref(), lines[0].cells[5].text.as_deref()), (None, Some("2.00 J/tok")));
}

#[test]
fn the_verdict_is_in_words_and_says_what_it_is_not() {
    assert_eq!(
        sentences(&run_race()),
        [
            "cpu gives 4.0x the tokens per second of npu: 80.0 and 20.0.",
            "cpu has its first token 2.5x sooner: 40 ms and 100 ms.",
            "npu is the steadier one: a standard deviation of 0.00 and 4.3 ms.",
            "cpu takes less energy: 1.00 and 2.00 J a token (2.0x).",
            "They said the same.",
            "npu is emulated: its times say nothing about an npu in hardware.",
            "The lanes ran one after the other: as asked.",
        ]
    );
}

#[test]
fn numbers_within_five_percent_have_no_winner() {
    let mut race = Race::new(start(1, Order::SideBySide));
    // 100 ms and 103 ms for each token, and first tokens at 100 and 104 ms.
    answer(&mut race, NPU, 0, &[104, 207, 310], None);
    answer(&mut race, CPU, 0, &[100, 200, 300], None);
    race.note(&RaceEvent::Over { cancelled: false });
    assert_eq!(compare(&race), []);
    assert!(table::lines(&race).iter().all(|line| line.lead.is_none() && line.cells.iter().all(|cell| !cell.best)));
    assert_eq!(
        sentences(&race)[..2],
        [
            "They give the same tokens per second, within 5 %: 10.0 and 9.71.",
            "They have their first token at the same time, within 5 %: 100 ms and 104 ms.",
        ]
    );
}

#[test]
fn medians_are_over_the_rounds_and_latencies_of_all_of_them() {
    let mut race = Race::new(start(3, Order::SideBySide));
    for (round, first) in [40, 90, 50].into_iter().enumerate() {
        answer(&mut race, CPU, round, &[first, first + 10, first + 20], None);
    }
    let figures = race.racers[1].figures();
    assert_eq!((figures.ttft, figures.total, figures.latency.unwrap().count), (Some(ms(50)), Some(ms(70)), 6));
    assert_eq!((figures.joules_per_token, figures.no_joules.as_deref()), (None, Some("no sensor")));
}

#[test]
fn a_lane_that_fails_has_no_part_in_the_verdict() {
    let mut race = Race::new(start(1, Order::SideBySide));
    answer(&mut race, CPU, 0, &[40, 50], None);
    race.note(&RaceEvent::Began { lane: NPU, round: 0, at: Instant::now() });
    race.note(&RaceEvent::Answer { lane: NPU, event: finished(FinishReason::Error("device lost".into())) });
    race.note(&RaceEvent::Over { cancelled: false });
    assert_eq!(race.racers[0].standing(race.over), Standing::Failed("device lost".into()));
    assert_eq!(
        sentences(&race),
        [
            "Fewer than two lanes came to their end, so there is nothing to compare.",
            "npu failed: device lost.",
            "npu is emulated: its times say nothing about an npu in hardware.",
            "Energy is not known: no sensor.",
        ]
    );
}

/// A stream of three tokens from a thread of its own, which is over when it says so.
fn scripted(lane: LaneId, active: &'static AtomicUsize, most: &'static AtomicUsize) -> GenerationStream {
    let (sender, stream) = unbounded_channel();
    most.fetch_max(active.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
    std::thread::spawn(move || {
        for _ in 0..3 {
            std::thread::sleep(ms(5));
            let _ = sender.send(token(lane, "x", Instant::now()));
        }
        active.fetch_sub(1, Ordering::SeqCst);
        let _ = sender.send(finished(FinishReason::Stop));
    });
    stream
}

fn events(order: Order, rounds: usize) -> (Vec<RaceEvent>, usize) {
    let active: &'static AtomicUsize = Box::leak(Box::default());
    let most: &'static AtomicUsize = Box::leak(Box::default());
    let plan = Plan { request: request(), start: start(rounds, order) };
    let mut events = Vec::new();
    let submit = |request: ChatRequest| scripted(request.lane.unwrap(), active, most);
    // The first two looks find one loading.
    let looks = AtomicUsize::new(0);
    let is_loading = |lane: LaneId| lane == NPU && looks.fetch_add(1, Ordering::SeqCst) < 2;
    let track = Track { submit: &submit, is_loading: &is_loading, books: None, stop: &AtomicBool::new(false) };
    run(&plan, &track, &mut |event| events.push(event));
    assert!(looks.load(Ordering::SeqCst) > 2);
    (events, most.load(Ordering::SeqCst))
}

fn began(events: &[RaceEvent]) -> Vec<(LaneId, usize)> {
    let lane = |event: &RaceEvent| match event {
        RaceEvent::Began { lane, round, .. } => Some((*lane, *round)),
        _ => None,
    };
    events.iter().filter_map(lane).collect()
}

#[test]
fn in_turn_means_never_two_at_once_and_the_order_turns_round() {
    let (events, most) = events(Order::InTurn { why: "as asked".into() }, 2);
    assert_eq!(most, 1);
    assert_eq!(began(&events), [(NPU, 0), (CPU, 0), (CPU, 1), (NPU, 1)]);
    assert_eq!(events.last(), Some(&RaceEvent::Over { cancelled: false }));
    let mut race = Race::new(start(2, Order::SideBySide));
    events.iter().for_each(|event| race.note(event));
    assert!(race.racers.iter().all(|racer| racer.done().count() == 2 && racer.figures().tokens == 3));
}

#[test]
fn side_by_side_means_both_at_once() {
    let (events, most) = events(Order::SideBySide, 1);
    assert_eq!((most, began(&events)), (2, vec![(NPU, 0), (CPU, 0)]));
}

#[test]
fn a_stop_ends_it_and_a_lost_stream_is_a_failure() {
    let plan = Plan { request: request(), start: start(1, Order::SideBySide) };
    let (sender, stream) = unbounded_channel();
    let streams = std::cell::RefCell::new(vec![stream, unbounded_channel().1]);
    let stop = AtomicBool::new(false);
    let mut seen = Vec::new();
    let submit = |_: ChatRequest| streams.borrow_mut().pop().unwrap();
    let track = Track { submit: &submit, is_loading: &|_| false, books: None, stop: &stop };
    run(&plan, &track, &mut |event| {
        // The one that was lost says so; then somebody has seen enough.
        stop.store(matches!(&event, RaceEvent::Answer { .. }) || stop.load(Ordering::Relaxed), Ordering::Relaxed);
        seen.push(event);
    });
    assert!(sender.is_closed());
    assert!(
        matches!(&seen[2], RaceEvent::Answer { event: GenerationEvent::Finished(finished), .. }
            if matches!(&finished.reason, FinishReason::Error(reason) if reason.contains("without a word"))),
        "{seen:?}"
    );
    assert_eq!(seen.last(), Some(&RaceEvent::Over { cancelled: true }));
}
