//! Several answers at once on the CPU lane against the same answers one after the other, and how long one waits beside
//! another's long prompt; as ratios within one run.
//!
//! `cargo bench --bench load`. Both sides take turns, and medians are compared, so that other work on the machine hits
//! both alike. It fails where an answer at once is not the answer alone.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ortalk::commands::fetch::{AfterFetch, FetchDisplay};
use ortalk::commands::session;
use ortalk::config::Settings;
use ortalk::engine::{
    ChatMessage, ChatRequest, ChosenBy, CpuSetting, Engine, EngineOptions, GenerationEvent, GenerationStream, LaneId,
    MeasureRequest, MeasuredPrompt, Role, cpu_lane,
};
use ortalk::model::ModelFolder;
use ortalk::onnx_runtime::OnnxRuntime;
use ortalk::paths::Paths;

const THREADS: usize = 2;
const ROUNDS: usize = 3;
const ANSWER: usize = 48;
const CLIENTS: [usize; 6] = [1, 2, 4, 8, 16, 32];

fn main() {
    let paths = Paths::below(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("home"));
    let mut display = FetchDisplay::new(AfterFetch::Exit);
    let library = session::library(&Settings::default(), &paths, &mut display).unwrap().path;
    let model = session::model(None, &Settings::default(), &paths, &mut display).unwrap();
    display.finish();
    let runtime = OnnxRuntime::load(&library, Arc::new(|_| ())).unwrap();
    let model = Arc::new(ModelFolder::open(&model).unwrap());
    let setting = (CpuSetting::with_threads(THREADS), ChosenBy::Default);
    let lane = cpu_lane(runtime, model.clone(), setting, Some(2048), 16 * 2048);
    let engine = Engine::load(EngineOptions { model, lanes: vec![lane], emulation: false, listener: None }).unwrap();
    throughput(&engine);
    latency(&engine);
}

fn throughput(engine: &Engine) {
    println!("{THREADS} threads, answers of {ANSWER} tokens, medians of {ROUNDS} rounds");
    println!("  clients   one by one, tokens/s   at once, tokens/s     ratio");
    for clients in CLIENTS {
        let (mut apart, mut together) = (Vec::new(), Vec::new());
        // The first round only tries which passes may be shared.
        for round in 0..=ROUNDS {
            let started = Instant::now();
            let alone: Vec<Answer> = (0..clients).map(|client| follow(ask(engine, client, round), started)).collect();
            let one_by_one = tokens(&alone) / started.elapsed().as_secs_f64();
            let started = Instant::now();
            let streams: Vec<_> = (0..clients).map(|client| ask(engine, client, round)).collect();
            let beside: Vec<Answer> = streams.into_iter().map(|stream| follow(stream, started)).collect();
            let at_once = tokens(&beside) / started.elapsed().as_secs_f64();
            for (alone, beside) in alone.iter().zip(&beside) {
                assert_eq!(alone.ids, beside.ids, "an answer beside others is another one");
            }
            if round > 0 {
                apart.push(one_by_one);
                together.push(at_once);
            }
        }
        let (apart, together) = (median(apart), median(together));
        println!("  {clients:>7} {apart:>22.1} {together:>19.1} {:>9.2}", together / apart);
    }
}

/// An answer alone, and beside a prompt of some 1500 tokens that comes in its middle.
fn latency(engine: &Engine) {
    let (mut alone, mut beside, mut first, mut cold) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let long = |turn: usize| {
            let story = format!("{round}.{turn}. ") + &"The keeper climbed the stairs twice a day. ".repeat(150);
            engine.submit(ChatRequest { max_tokens: 2, ..ChatRequest::new(vec![ChatMessage::new(Role::User, story)]) })
        };
        let started = Instant::now();
        cold.push(follow(long(0), started).at[0]);
        alone.extend(gaps(&follow(ask(engine, 0, round), Instant::now())));
        let started = Instant::now();
        let answer = ask(engine, 0, round);
        std::thread::sleep(Duration::from_millis(150));
        let submitted = Instant::now();
        let long = long(1);
        beside.extend(gaps(&follow(answer, started)));
        first.push(follow(long, submitted).at[0]);
    }
    let milliseconds = |mut values: Vec<Duration>, share: f64| {
        values.sort();
        values[((values.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3
    };
    println!("\nbetween two tokens, ms           median     99 %");
    for (name, gaps) in [("alone", alone), ("beside a long prompt", beside)] {
        println!("  {name:<27} {:>9.1} {:>8.1}", milliseconds(gaps.clone(), 0.5), milliseconds(gaps, 0.99));
    }
    let (cold, first) = (milliseconds(cold, 0.5), milliseconds(first, 0.5));
    println!(
        "the long prompt's first token: alone {cold:.0} ms, beside an answer {first:.0} ms, ratio {:.2}",
        first / cold
    );
}

struct Answer {
    ids: Vec<u32>,
    /// When each token came.
    at: Vec<Duration>,
}

fn ask(engine: &Engine, client: usize, round: usize) -> GenerationStream {
    let question = format!("Story {client} of round {round}: tell it at length.");
    // Into an empty cache, and of exactly so many tokens: the same work on both sides.
    let prompt = MeasuredPrompt::Conversation(vec![ChatMessage::new(Role::User, question)]);
    engine.measure(MeasureRequest { prompt, tokens: ANSWER, lane: LaneId::Cpu })
}

fn follow(mut stream: GenerationStream, started: Instant) -> Answer {
    let mut answer = Answer { ids: Vec::new(), at: Vec::new() };
    loop {
        match stream.blocking_recv().unwrap() {
            GenerationEvent::Token(token) => {
                answer.ids.push(token.id);
                answer.at.push(token.at.saturating_duration_since(started));
            }
            GenerationEvent::Finished(_) => return answer,
            _ => {}
        }
    }
}

fn gaps(answer: &Answer) -> Vec<Duration> {
    answer.at.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

fn tokens(answers: &[Answer]) -> f64 {
    answers.iter().map(|answer| answer.ids.len()).sum::<usize>() as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
