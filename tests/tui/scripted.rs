//! An engine that follows a script, and the program that shows it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ortalk::config::{Editing, ScreenSettings};
use ortalk::engine::*;
use ortalk::telemetry::Reading;
use ortalk::telemetry::device::DeviceSample;
use ortalk::telemetry::device::npu::{LoadOf, NpuLoad, NpuSample};
use ortalk::tui::{Backend, ModelEntry, Models, OpenedModel, RefusedModel, Tell, TuiOptions};
use tokio::sync::mpsc::UnboundedSender;

pub const SCENARIO: &str = "ORTALK_TUI_SCENARIO";
pub const HISTORY: &str = "ORTALK_TUI_HISTORY";
pub const LOG: &str = "ORTALK_TUI_LOG";
/// A file to record into.
pub const RECORD: &str = "ORTALK_TUI_RECORD";
/// The table `[keys]` of the settings.
pub const KEYS: &str = "ORTALK_TUI_KEYS";

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
        Ok(Arc::new(Scripted { scenario: name, ran: AtomicBool::new(false), broke: Arc::default() })
            as Arc<dyn Backend>)
    });
    let keys = std::env::var(KEYS).map(|keys| toml::from_str(&keys).unwrap()).unwrap_or_default();
    let options = TuiOptions {
        load,
        models: Some(Arc::new(TwoModels)),
        server: None,
        sample: (scenario != "quiet").then(|| Box::new(sample) as ortalk::tui::Sample),
        books: None,
        answers: answers(),
        editing: if scenario == "vim" { Editing::Vim } else { Editing::Emacs },
        history: std::env::var_os(HISTORY).map(Into::into),
        theme: std::env::var("ORTALK_TUI_THEME").ok(),
        keys,
        themes: std::env::temp_dir().join("no-such-folder"),
        screen: ScreenSettings::default(),
        record: std::env::var_os(RECORD).map(Into::into),
        replay: None,
        chats: None,
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

/// One beside the one that answers; what else is asked for fails, after it has cost the old one its place.
struct TwoModels;

impl Models for TwoModels {
    fn list(&self) -> Result<Vec<ModelEntry>, String> {
        let entry = |name: &str, is_open| ModelEntry { name: name.into(), about: "scripted".into(), is_open };
        Ok(vec![entry("smollm2-135m", true), entry("other-model", false), entry("broken-model", false)])
    }

    fn open(&self, name: &str, _tell: &Tell, release: &dyn Fn()) -> Result<OpenedModel, RefusedModel> {
        std::thread::sleep(Duration::from_millis(300));
        let backend = |scenario: &str| -> Arc<dyn Backend> {
            Arc::new(Scripted { scenario: scenario.into(), ran: AtomicBool::new(false), broke: Arc::default() })
        };
        if name == "other-model" {
            return Ok(OpenedModel { backend: backend(OTHER), answers: answers() });
        }
        release();
        Err(RefusedModel { error: "its graph is torn".into(), instead: Some(backend("demo")) })
    }
}

/// The scenario in which the engine has another model.
const OTHER: &str = "other-model";

fn answers() -> AnswerSettings {
    AnswerSettings {
        system: None,
        sampling: Sampling::GREEDY,
        max_tokens: 512,
        thinking: None,
        policy: Policy::Auto,
        lane: None,
        allow_remote: false,
    }
}

const FAILURE: &str = "ONNX Runtime could not be loaded from '/opt/example/lib/libonnxruntime.so':\n\
    libonnxruntime.so: wrong ELF class: ELFCLASS32\n\n\
    The file is a library for another kind of processor. Set ORT_DYLIB_PATH to a 64-bit one, or run 'ortalk setup' to \
    fetch the one that this program was tested with.";

struct Scripted {
    scenario: String,
    ran: AtomicBool,
    /// The NPU lane is out of service.
    broke: Arc<AtomicBool>,
}

const CONTEXT: (usize, usize) = (512, 8192);

/// `broken` is the NPU lane's fault, once it has one.
fn lanes(broken: Option<&str>) -> Vec<LaneStatus> {
    let graph = |name: &str, provider: &str, nodes| GraphPlacement {
        graph: format!("{name}.onnx"),
        placement: Some(Placement { nodes_by_provider: vec![(provider.into(), nodes)] }),
        compiled_nodes: None,
    };
    let (cpu, npu) = ("CPUExecutionProvider", "QNNExecutionProvider");
    vec![
        LaneStatus {
            id: LaneId::Npu,
            execution_provider: npu.into(),
            device: None,
            emulated: true,
            state: broken.map_or(LaneState::Ready, |reason| LaneState::Failed { reason: reason.into() }),
            context_limit: CONTEXT.0,
            threads: None,
            memory: None,
            placement: vec![graph("prefill", npu, 4954), graph("decode", npu, 4504), graph("lm_head", cpu, 3)],
            measured: MeasuredRates::default(),
            remote: None,
            running: 0,
            waiting: 0,
        },
        LaneStatus {
            id: LaneId::Cpu,
            execution_provider: cpu.into(),
            device: Some("Scripted Processor".into()),
            emulated: false,
            state: LaneState::Ready,
            context_limit: CONTEXT.1,
            threads: Some(Threads { count: 2, spinning: false, chosen_by: ChosenBy::Default }),
            memory: None,
            placement: vec![graph("model", cpu, 365)],
            measured: MeasuredRates { prefill: Some(800.0), decode: None },
            remote: None,
            running: 0,
            waiting: 0,
        },
    ]
}

impl Scripted {
    fn broken(&self) -> Option<&'static str> {
        self.broke.load(Ordering::SeqCst).then_some(FAULT)
    }
}

impl Backend for Scripted {
    fn snapshot(&self) -> EngineSnapshot {
        assert!(self.scenario != "panic" || !self.ran.load(Ordering::SeqCst), "scripted panic");
        EngineSnapshot {
            model: if self.scenario == OTHER { OTHER } else { "smollm2-135m" }.into(),
            architecture: "llama".into(),
            weight_bytes: 269_060_552,
            thinking: ThinkingChoice::Never,
            lanes: lanes(self.broken()),
        }
    }

    /// Four characters a token; short conversations on the NPU, as with `--emulate-npu`.
    fn preview(&self, request: &ChatRequest) -> Result<RoutingDecision, String> {
        let characters: usize = request.messages.iter().map(|m| m.content.chars().count()).sum();
        let prompt_tokens = characters / 4 + 12;
        let message = request.messages.last().map_or(0, |m| m.content.chars().count() / 4);
        let parts = PromptParts { system: 12, history: prompt_tokens - 12 - message, message };
        let needed_tokens = prompt_tokens + EXPECTED_ANSWER;
        let fits = needed_tokens <= CONTEXT.0 && self.broken().is_none() && self.scenario == "lanes";
        let lane = request.lane.unwrap_or(if fits { LaneId::Npu } else { LaneId::Cpu });
        let (other, reason) = match (lane, request.lane, self.broken()) {
            (LaneId::Npu, ..) => (LaneId::Cpu, "npu comes first".to_string()),
            (LaneId::Cpu | LaneId::Remote, Some(_), _) => (LaneId::Npu, "you asked for cpu".to_string()),
            (LaneId::Cpu | LaneId::Remote, None, Some(fault)) => (LaneId::Npu, format!("failed: {fault}")),
            (LaneId::Cpu | LaneId::Remote, None, None) => {
                (LaneId::Npu, format!("{needed_tokens} tokens, context of {}", CONTEXT.0))
            }
        };
        let npu = lane == LaneId::Npu;
        Ok(RoutingDecision {
            lane,
            execution_provider: if npu { "QNNExecutionProvider" } else { "CPUExecutionProvider" }.into(),
            emulated: npu,
            policy: request.policy,
            rule: if request.lane.is_some() { Rule::Requested } else { Rule::FirstThatFits },
            prompt_tokens,
            whole_prompt_tokens: None,
            parts: Some(parts),
            answer_tokens: request.max_tokens,
            needed_tokens,
            context_limit: if npu { CONTEXT.0 } else { CONTEXT.1 },
            predicted_ttft: (!npu).then_some(Duration::from_millis(44)),
            predicted_total: None,
            rejected: vec![Rejection { lane: other, reason, context_limit: CONTEXT.0, predicted_total: None }],
        })
    }

    fn count_tokens(&self, text: &str) -> Option<usize> {
        Some(text.chars().count() / 4)
    }

    fn submit(&self, request: ChatRequest) -> GenerationStream {
        let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
        let decision = self.preview(&request).unwrap();
        self.ran.store(true, Ordering::SeqCst);
        let question = request.messages.last().unwrap().content.clone();
        let script = Script {
            reused: request.messages.len() > 1,
            noisy: self.scenario == "noisy",
            breaks: (question.contains("break") && decision.lane == LaneId::Npu).then(|| self.broke.clone()),
            question,
            sender,
        };
        std::thread::spawn(move || {
            let _ = script.play(decision);
        });
        receiver
    }
}

const FAULT: &str = "QNN error 1100, device lost";
/// Tokens that an NPU lane gives before it breaks.
const BEFORE_FAULT: usize = 5;

/// One answer.
struct Script {
    question: String,
    reused: bool,
    noisy: bool,
    /// Set where the NPU lane breaks on the way.
    breaks: Option<Arc<AtomicBool>>,
    sender: UnboundedSender<GenerationEvent>,
}

type Played = Result<(), Box<tokio::sync::mpsc::error::SendError<GenerationEvent>>>;

impl Script {
    fn play(&self, decision: RoutingDecision) -> Played {
        let start = Instant::now();
        let (total, mut lane) = (decision.prompt_tokens, decision.lane);
        let reused = if self.reused { total * 2 / 3 } else { 0 };
        self.sender.send(GenerationEvent::Routed(decision))?;
        if self.noisy {
            // Through the descriptors, as a native library does; `println!` would be caught by the test harness.
            rustix::io::write(rustix::stdio::stdout(), b"native noise on 1\n").unwrap();
            rustix::io::write(rustix::stdio::stderr(), b"native noise on 2\n").unwrap();
        }
        self.prefill(total, reused)?;
        let prefill = start.elapsed();
        let text = if self.question.contains("story") { ANSWER.repeat(20) } else { ANSWER.to_string() };
        let pieces: Vec<&str> = text.split_inclusive(' ').collect();
        let (mut last, mut latencies, mut ttft) = (None, Vec::new(), None);
        for (index, piece) in pieces.iter().enumerate() {
            if let Some(broke) = self.breaks.as_ref().filter(|_| index == BEFORE_FAULT) {
                broke.store(true, Ordering::SeqCst);
                lane = LaneId::Cpu;
                self.sender.send(GenerationEvent::LaneChanged(LaneChange {
                    from: LaneId::Npu,
                    to: lane,
                    after_tokens: index,
                    context_limit: CONTEXT.1,
                    emulated: false,
                    reason: format!("npu failed: {FAULT}"),
                }))?;
                self.prefill(total + index, 0)?;
            }
            let jitter = (index * 7919) % 5;
            let stall = if index % 37 == 21 { 60 } else { 0 };
            std::thread::sleep(Duration::from_millis(12 + jitter as u64 + stall));
            let at = Instant::now();
            match last.replace(at) {
                Some(last) => latencies.push(at - last),
                None => ttft = Some(at - start),
            }
            self.sender.send(GenerationEvent::Token(Token {
                text: (*piece).into(),
                thinking: String::new(),
                thinks: false,
                tool_calls: Vec::new(),
                logprobs: None,
                id: index as u32,
                at,
                lane,
            }))?;
        }
        let reason = match self.question.as_str() {
            q if q.contains("length") => FinishReason::Length,
            q if q.contains("error") => FinishReason::Error("the lane broke: QNN error 1100, device lost".into()),
            _ => FinishReason::Stop,
        };
        self.sender.send(GenerationEvent::Finished(Finished {
            reason,
            usage: Usage {
                prompt_tokens: total,
                completion_tokens: pieces.len(),
                reused_tokens: reused,
                ..Usage::default()
            },
            timings: Timings {
                ttft,
                model_ttft: ttft,
                prefill,
                prefill_tokens: total - reused,
                token_latencies: latencies,
            },
        }))?;
        Ok(())
    }

    fn prefill(&self, total: usize, reused: usize) -> Played {
        let pause = Duration::from_millis(if self.question.contains("slow") { 600 } else { 10 });
        for part in 0..=4 {
            let done = reused + (total - reused) * part / 4;
            self.sender.send(GenerationEvent::PrefillProgress(PrefillProgress { done, total, reused }))?;
            std::thread::sleep(pause);
        }
        Ok(())
    }
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
        npu: NpuSample {
            load: Reading::Measured(NpuLoad { percent: 40.0, of: LoadOf::Device }),
            mhz: Reading::Measured(1400),
            celsius: Reading::Unavailable("no sensor".into()),
            watts: Reading::Unavailable("no sensor".into()),
        },
    }
}
