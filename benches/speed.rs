//! Speed and memory as ratios within one run: the engine against the bare decoder, answers in a form against free ones, a second turn against a cold prompt,
//! start and memory against their limits, and the decoder against a peer on the same graph.
//!
//! `cargo bench --bench speed`. With `ORTALK_BENCH_PYTHON` set to a Python that has onnxruntime and numpy, the peer is
//! ONNX Runtime's own Python package (`benches/peer_onnxruntime.py`). Both sides take turns, and medians are compared,
//! so that other work on the machine hits both alike.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ortalk::commands::fetch::{AfterFetch, FetchDisplay};
use ortalk::commands::session;
use ortalk::config::Settings;
use ortalk::decoder::{Decoder, DecoderOptions, PlainDecoder};
use ortalk::engine::{
    AnswerFormat, ChatMessage, ChatRequest, ChosenBy, CpuSetting, Engine, EngineOptions, Finished, GenerationEvent,
    Policy, Role, Tool, cpu_lane,
};
use ortalk::model::ModelFolder;
use ortalk::onnx_runtime::{CpuSessionOptions, OnnxRuntime};
use ortalk::paths::Paths;
use serde_json::json;

const THREADS: usize = 2;
/// Many short turns: a disturbance then hits both sides alike.
const ROUNDS: usize = 31;
const DECODED: usize = 24;
const DEPTH: usize = 16;
/// Decoded again and again: which token it is makes no difference to a pass.
const TOKEN: u32 = 500;

fn main() {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("home");
    let paths = Paths::below(&home);
    let mut display = FetchDisplay::new(AfterFetch::Exit);
    let library = session::library(&Settings::default(), &paths, &mut display).unwrap().path;
    let model = session::model(None, &Settings::default(), &paths, &mut display).unwrap();
    display.finish();

    // In processes of their own, before this one has loaded anything.
    start_and_memory(&home, &model);

    let runtime = OnnxRuntime::load(&library, std::sync::Arc::new(|_| ())).unwrap();
    let folder = ModelFolder::open(&model).unwrap();
    decoder_against_peer(&runtime, &folder);
    engine_against_decoder(&runtime, &folder);
}

/// The same work for both: a prompt of fixed tokens into an empty cache, and tokens after it.
struct Bare(PlainDecoder);

impl Bare {
    fn new(runtime: &OnnxRuntime, folder: &ModelFolder) -> Self {
        let session = CpuSessionOptions { threads: THREADS, spinning: false };
        let context = folder.config.model.context_length;
        Self(PlainDecoder::new(runtime, folder, DecoderOptions { session, context }).unwrap())
    }

    fn prefill(&mut self, count: usize) -> f64 {
        self.0.rewind(0);
        let tokens: Vec<u32> = (0..count as u32).map(|i| 1000 + i).collect();
        let started = Instant::now();
        self.0.forward(&tokens).unwrap();
        count as f64 / started.elapsed().as_secs_f64()
    }

    fn decode(&mut self, count: usize, depth: usize) -> f64 {
        self.prefill(depth);
        let started = Instant::now();
        for _ in 0..count {
            self.0.forward(&[TOKEN]).unwrap();
        }
        count as f64 / started.elapsed().as_secs_f64()
    }
}

fn decoder_against_peer(runtime: &OnnxRuntime, folder: &ModelFolder) {
    let mut bare = Bare::new(runtime, folder);
    let mut peer = Peer::start(&folder.path);
    type Task = (&'static str, &'static str, fn(&mut Bare) -> f64);
    let tasks: [Task; 3] = [
        ("prefill of 128", "prefill 128", |bare| bare.prefill(128)),
        ("prefill of 512", "prefill 512", |bare| bare.prefill(512)),
        ("decode of 24 after 16", "decode 24 16", |bare| bare.decode(DECODED, DEPTH)),
    ];
    println!(
        "\ndecoder, {THREADS} threads, tokens/s of {ROUNDS} rounds       ortalk      peer     ratio   ratio of the best"
    );
    for (name, command, run) in tasks {
        run(&mut bare);
        if let Some(peer) = &mut peer {
            peer.ask(command);
        }
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            ours.push(run(&mut bare));
            theirs.extend(peer.as_mut().map(|peer| peer.ask(command)));
        }
        let (our_best, their_best) = (best(&ours), best(&theirs));
        let ours = median(ours);
        match (!theirs.is_empty()).then(|| median(theirs)) {
            Some(theirs) => println!(
                "  {name:<40} {ours:>10.1} {theirs:>9.1} {:>9.3} {:>12.3}",
                ours / theirs,
                our_best / their_best
            ),
            None => println!("  {name:<40} {ours:>10.1}   no peer (set ORTALK_BENCH_PYTHON)"),
        }
    }
}

fn engine_against_decoder(runtime: &OnnxRuntime, folder: &ModelFolder) {
    let mut bare = Bare::new(runtime, folder);
    let model = Arc::new(ModelFolder::open(&folder.path).unwrap());
    let cpu = cpu_lane(runtime.clone(), model.clone(), (CpuSetting::with_threads(THREADS), ChosenBy::Default), None, 0);
    let options = EngineOptions { model, lanes: vec![cpu], emulation: false, listener: None };
    let engine = Engine::load(options).unwrap();
    let short = vec![ChatMessage::new(Role::User, "Tell me a long story about the sea.")];
    answer(&engine, short.clone(), 8);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        theirs.push(bare.decode(DECODED, 40));
        ours.push(answer(&engine, short.clone(), DECODED + 1).1.timings.decode_tokens_per_second().unwrap());
    }
    let best_ratio = best(&ours) / best(&theirs);
    let (ours, theirs) = (median(ours), median(theirs));
    println!("\nengine against the bare decoder                      engine      bare     ratio   ratio of the best");
    println!(
        "  decode of 24, tokens/s                   {ours:>10.1} {theirs:>9.1} {:>9.3} {best_ratio:>12.3}",
        ours / theirs
    );

    // Answers that must keep to a form, each of as many tokens: what a form costs is a mask of the vocabulary a token.
    let string = json!({"type": "object", "properties": {"story": {"type": "string", "minLength": 4000}},
                        "required": ["story"]});
    let story = Tool { name: "story".into(), description: None, parameters: Some(string.clone()) };
    let formed = |format: AnswerFormat, tools: &[Tool]| {
        let tools = tools.to_vec();
        let request = ChatRequest { format, tools, max_tokens: DECODED + 1, ..ChatRequest::new(short.clone()) };
        follow(&engine, request).1.timings.decode_tokens_per_second().unwrap()
    };
    println!("\nan answer's form against free text                     formed      free     ratio");
    for (name, format, tools) in [
        ("a string by a schema, tokens/s", AnswerFormat::JsonSchema(string), vec![]),
        ("free text that may call tools, tokens/s", AnswerFormat::Text, vec![story]),
    ] {
        let (mut with, mut without) = (Vec::new(), Vec::new());
        formed(format.clone(), &tools);
        for _ in 0..ROUNDS {
            without.push(formed(AnswerFormat::Text, &[]));
            with.push(formed(format.clone(), &tools));
        }
        let (with, without) = (median(with), median(without));
        println!("  {name:<40} {with:>10.1} {without:>9.1} {:>9.3}", with / without);
    }

    // A long conversation: the first prompt is all new, the second turn adds a question to it.
    let (mut cold, mut second) = (Vec::new(), Vec::new());
    for round in 0..3 {
        let story = "The lighthouse keeper climbed the stairs twice a day. ".repeat(150);
        let mut messages = vec![ChatMessage::new(Role::User, format!("{round}: {story} What does he do?"))];
        let (text, first) = answer(&engine, messages.clone(), 24);
        messages.push(ChatMessage::new(Role::Assistant, text));
        messages.push(ChatMessage::new(Role::User, "And why twice?"));
        let (_, after) = answer(&engine, messages, 24);
        cold.push(first.timings.ttft.unwrap().as_secs_f64() * 1e3);
        second.push(after.timings.ttft.unwrap().as_secs_f64() * 1e3);
        if round == 0 {
            println!(
                "\nsecond turn: {} prompt tokens, {} of them reused; the first had {}",
                after.usage.prompt_tokens, after.usage.reused_tokens, first.usage.prompt_tokens
            );
        }
    }
    let (cold, second) = (median(cold), median(second));
    println!(
        "  TTFT, ms                    cold {cold:>8.1}   second turn {second:>8.1}   ratio {:>6.3} (limit 0.200)",
        second / cold
    );
}

fn answer(engine: &Engine, messages: Vec<ChatMessage>, max_tokens: usize) -> (String, Finished) {
    follow(engine, ChatRequest { max_tokens, policy: Policy::Auto, ..ChatRequest::new(messages) })
}

fn follow(engine: &Engine, request: ChatRequest) -> (String, Finished) {
    let mut events = engine.submit(request);
    let mut text = String::new();
    loop {
        match events.blocking_recv().unwrap() {
            GenerationEvent::Token(token) => text.push_str(&token.text),
            GenerationEvent::Finished(finished) => return (text, finished),
            _ => {}
        }
    }
}

/// The whole program, from its start to its end, for one token; and the most memory a longer answer needed.
fn start_and_memory(home: &Path, model: &Path) {
    let mut starts = Vec::new();
    for _ in 0..5 {
        let started = Instant::now();
        run(home, &["run", "Hi", "-n", "1"]);
        starts.push(started.elapsed().as_secs_f64());
    }
    let start = median(starts);
    println!("start to first token and end: {start:.2} s, of the limit of 2 s {:.3}", start / 2.0);

    let folder = ModelFolder::open(model).unwrap();
    let tokens = 600;
    let peak = run(home, &["run", "Tell me a very long story.", "-n", "600", "--temperature", "0"]);
    let decoder = &folder.config.model.decoder;
    let cache = 2 * 4 * decoder.num_hidden_layers * decoder.num_key_value_heads * decoder.head_size * tokens;
    let limit = 2.5 * folder.weight_bytes() as f64 + cache as f64;
    match peak {
        Some(peak) => println!(
            "peak memory: {:.0} MB; weights {:.0} MB, KV cache of {tokens} tokens {:.0} MB; of the limit {:.3}",
            peak as f64 / 1e6,
            folder.weight_bytes() as f64 / 1e6,
            cache as f64 / 1e6,
            peak as f64 / limit
        ),
        None => println!("peak memory: not readable on this system"),
    }
}

/// Runs the binary and returns the largest resident memory it was seen with, in bytes.
fn run(home: &Path, arguments: &[&str]) -> Option<u64> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_ortalk"))
        .args(arguments)
        .env("ORTALK_HOME", home)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let status = PathBuf::from(format!("/proc/{}/status", child.id()));
    let mut peak = None;
    while child.try_wait().unwrap().is_none() {
        // The kernel keeps the high-water mark; the last reading before the end is the peak.
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let mark =
            text.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse::<u64>().ok());
        peak = peak.max(mark.map(|kilobytes| kilobytes * 1024));
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(child.wait().unwrap().success(), "{arguments:?}");
    peak
}

struct Peer {
    child: Child,
    output: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Peer {
    fn start(folder: &Path) -> Option<Self> {
        let python = std::env::var_os("ORTALK_BENCH_PYTHON")?;
        let mut child = Command::new(python)
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peer_onnxruntime.py"))
            .arg(folder)
            .arg(THREADS.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("ORTALK_BENCH_PYTHON names a Python");
        let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(output.next().expect("a peer that starts").unwrap(), "ready");
        Some(Self { child, output })
    }

    fn ask(&mut self, command: &str) -> f64 {
        writeln!(self.child.stdin.as_mut().unwrap(), "{command}").unwrap();
        self.output.next().expect("a peer that answers").unwrap().parse().unwrap()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the machine does when nothing else runs on it.
fn best(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
