//! An engine that follows a script, and the program that shows it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ortalk::engine::*;
use ortalk::telemetry::Reading;
use ortalk::telemetry::device::DeviceSample;
use ortalk::tui::{Backend, TuiOptions};
use tokio::sync::mpsc::UnboundedSender;

pub const SCENARIO: &str = "ORTALK_TUI_SCENARIO";
pub const LOG: &str = "ORTALK_TUI_LOG";

const ANSWER: &str = "The capital of France is Paris. Three things made it so:\n\n 1. the river crossing at the Île de la \
    Cité, where the road from the south met the boats of the Seine,\n 2. the court that settled there,\n 3. the roads and \
    later rails that meet in it.\n\nIn Japanese it is written パリ, and in Chinese 巴黎.";

/// Becomes the program under test; does not return.
pub fn run(scenario: &str) {
    let name = scenario.to_string();
    let load = Box::new(move || {
        std::thread::sleep(Duration::from_millis(if name == "slow" { 4000 } else { 300 }));
        if name == "fail" {
            return Err(FAILURE.to_string());
        }
        Ok(Arc::new(Scripted { scenario: name, ran: AtomicBool::new(false) }) as Arc<dyn Backend>)
    });
    let options = TuiOptions {
        load,
        sample: (scenario != "quiet").then(|| Box::new(sample) as ortalk::tui::Sample),
        answers: AnswerSettings { system: None, sampling: Sampling::GREEDY, max_tokens: 512, lane: None },
        theme: std::env::var("ORTALK_TUI_THEME").ok(),
        log_file: std::env::var_os(LOG).map_or_else(|| std::env::temp_dir().join("ortalk-test.log"), Into::into),
    };
    match ortalk::tui::run(options) {
        Ok(exit) => std::process::exit(exit.code().into()),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    }
}

const FAILURE: &str = "ONNX Runtime could not be loaded from '/opt/example/lib/libonnxruntime.so':\n\
    libonnxruntime.so: wrong ELF class: ELFCLASS32\n\n\
    The file is a library for another kind of processor. Set ORT_DYLIB_PATH to a 64-bit one, or run 'ortalk setup' to \
    fetch the one that this program was tested with.";

struct Scripted {
    scenario: String,
    ran: AtomicBool,
}

fn lanes() -> Vec<LaneStatus> {
    let placement = |provider: &str, nodes| Some(Placement { nodes_by_provider: vec![(provider.into(), nodes)] });
    vec![
        LaneStatus {
            id: LaneId::Npu,
            execution_provider: "QNNExecutionProvider".into(),
            device: None,
            emulated: true,
            state: LaneState::Ready,
            context_limit: 512,
            threads: None,
            placement: placement("QNNExecutionProvider", 4504),
            measured: MeasuredRates::default(),
        },
        LaneStatus {
            id: LaneId::Cpu,
            execution_provider: "CPUExecutionProvider".into(),
            device: Some("Scripted Processor".into()),
            emulated: false,
            state: LaneState::Ready,
            context_limit: 8192,
            threads: Some(2),
            placement: placement("CPUExecutionProvider", 365),
            measured: MeasuredRates { prefill: Some(800.0), decode: None },
        },
    ]
}

impl Backend for Scripted {
    fn snapshot(&self) -> EngineSnapshot {
        assert!(self.scenario != "panic" || !self.ran.load(Ordering::SeqCst), "scripted panic");
        EngineSnapshot {
            model: "smollm2-135m".into(),
            architecture: "llama".into(),
            weight_bytes: 269_060_552,
            lanes: lanes(),
        }
    }

    fn preview(&self, request: &ChatRequest) -> Result<RoutingDecision, String> {
        let characters: usize = request.messages.iter().map(|m| m.content.chars().count()).sum();
        Ok(RoutingDecision {
            lane: LaneId::Cpu,
            execution_provider: "CPUExecutionProvider".into(),
            emulated: false,
            rule: Rule::FirstThatFits,
            prompt_tokens: characters / 4 + 12,
            answer_tokens: request.max_tokens,
            context_limit: 8192,
            predicted_ttft: Some(Duration::from_millis(44)),
            rejected: vec![Rejection { lane: LaneId::Npu, reason: "639 tokens, context of 512".into() }],
        })
    }

    fn submit(&self, request: ChatRequest) -> GenerationStream {
        let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
        let decision = self.preview(&request).unwrap();
        let noisy = self.scenario == "noisy";
        self.ran.store(true, Ordering::SeqCst);
        std::thread::spawn(move || {
            let _ = answer(&request, decision, noisy, &sender);
        });
        receiver
    }
}

fn answer(
    request: &ChatRequest,
    decision: RoutingDecision,
    noisy: bool,
    sender: &UnboundedSender<GenerationEvent>,
) -> Result<(), tokio::sync::mpsc::error::SendError<GenerationEvent>> {
    let question = request.messages.last().unwrap().content.clone();
    let start = Instant::now();
    let total = decision.prompt_tokens;
    let reused = if request.messages.len() > 1 { total * 2 / 3 } else { 0 };
    sender.send(GenerationEvent::Routed(decision))?;
    if noisy {
        // Through the descriptors, as a native library does; `println!` would be caught by the test harness.
        rustix::io::write(rustix::stdio::stdout(), b"native noise on 1\n").unwrap();
        rustix::io::write(rustix::stdio::stderr(), b"native noise on 2\n").unwrap();
    }
    let pause = Duration::from_millis(if question.contains("slow") { 600 } else { 10 });
    for part in 0..=4 {
        let done = reused + (total - reused) * part / 4;
        sender.send(GenerationEvent::PrefillProgress(PrefillProgress { done, total, reused }))?;
        std::thread::sleep(pause);
    }
    let prefill = start.elapsed();
    let text = if question.contains("story") { ANSWER.repeat(20) } else { ANSWER.to_string() };
    let pieces: Vec<&str> = text.split_inclusive(' ').collect();
    let (mut last, mut latencies, mut ttft) = (None, Vec::new(), None);
    for (index, piece) in pieces.iter().enumerate() {
        let jitter = (index * 7919) % 5;
        let stall = if index % 37 == 21 { 60 } else { 0 };
        std::thread::sleep(Duration::from_millis(12 + jitter as u64 + stall));
        let at = Instant::now();
        match last.replace(at) {
            Some(last) => latencies.push(at - last),
            None => ttft = Some(at - start),
        }
        sender.send(GenerationEvent::Token(Token {
            text: (*piece).into(),
            id: index as u32,
            at,
            lane: LaneId::Cpu,
        }))?;
    }
    let reason = match question.as_str() {
        q if q.contains("length") => FinishReason::Length,
        q if q.contains("error") => FinishReason::Error("the lane broke: QNN error 1100, device lost".into()),
        _ => FinishReason::Stop,
    };
    sender.send(GenerationEvent::Finished(Finished {
        reason,
        usage: Usage { prompt_tokens: total, completion_tokens: pieces.len(), reused_tokens: reused },
        timings: Timings { ttft, prefill, prefill_tokens: total - reused, token_latencies: latencies },
    }))
}

fn sample() -> DeviceSample {
    DeviceSample {
        cpu_percent: Reading::Measured(82.0),
        cpu_mhz: Reading::Measured(2600),
        cpu_celsius: Reading::Measured(54.0),
        memory_used: Reading::Measured(1_288_490_189),
        memory_total: Reading::Measured(25_769_803_776),
        process_memory: Reading::Measured(327_155_712),
        process_cpu_percent: Reading::Measured(173.0),
        power: Reading::Unavailable("no readable sensor".into()),
    }
}
