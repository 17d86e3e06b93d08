//! States for tests, made by sending events through `update`. All numbers are invented, and round so that it shows.

use std::time::{Duration, Instant};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::bill::Bill;
use crate::engine::{
    AnswerSettings, ChosenBy, EngineSnapshot, FinishReason, Finished, GenerationEvent, GraphPlacement, LaneChange,
    LaneId, LaneState, LaneStatus, MeasuredRates, Placement, Policy, PrefillProgress, Price, Privacy, PromptParts,
    Rejection, RemotePlace, RemoteStatus, RoutingDecision, Rule, Sampling, ThinkingChoice, Threads, Timings, Token,
    TokenPrice, Usage,
};
use crate::ledger::{Entry, EntryEnergy, Prices, TokenPrices, VERSION};
use crate::telemetry::Reading;
use crate::telemetry::device::DeviceSample;
use crate::telemetry::device::npu::{LoadOf, NpuLoad, NpuSample};

use super::conversation::Kind;
use super::event::{Effect, Event};
use super::record::ScreenRecorder;
use super::state::State;
use super::update::update;

/// A state with its own clock.
pub struct Desk {
    pub state: State,
    /// What the history was given, which most tests have nothing to do with.
    pub remembered: Vec<String>,
    pub now: Instant,
    /// What happens is recorded, as the driver does it.
    pub recorder: Option<ScreenRecorder>,
}

pub fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

impl Desk {
    pub fn loading() -> Self {
        let now = Instant::now();
        let settings = AnswerSettings {
            system: None,
            sampling: Sampling::GREEDY,
            max_tokens: 500,
            thinking: None,
            policy: Policy::Auto,
            lane: None,
            allow_remote: false,
        };
        let state = State::new(settings, "/example/ortalk.log".into(), now);
        Self { state, remembered: Vec::new(), now, recorder: None }
    }

    pub fn ready() -> Self {
        let mut desk = Self::loading();
        desk.event(Event::EngineLoaded(snapshot()));
        desk.event(Event::Device(Box::new(sample())));
        desk
    }

    pub fn event(&mut self, event: Event) -> Vec<Effect> {
        self.recorder.iter_mut().for_each(|recorder| recorder.note(&event, self.now));
        let mut effects = update(&mut self.state, event, self.now);
        self.recorder.iter_mut().for_each(|recorder| recorder.note_effects(&effects, &self.state, self.now));
        effects.retain(|effect| match effect {
            Effect::Remember(message) => {
                self.remembered.push(message.clone());
                false
            }
            _ => true,
        });
        effects
    }

    pub fn key(&mut self, code: KeyCode) -> Vec<Effect> {
        self.event(Event::Key(KeyEvent::new(code, KeyModifiers::NONE)))
    }

    pub fn ctrl(&mut self, c: char) -> Vec<Effect> {
        self.event(Event::Key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL)))
    }

    pub fn type_text(&mut self, text: &str) {
        for c in text.chars() {
            self.key(KeyCode::Char(c));
        }
    }

    pub fn send(&mut self, text: &str) -> Vec<Effect> {
        self.type_text(text);
        self.key(KeyCode::Enter)
    }

    pub fn wait(&mut self, milliseconds: u64) {
        self.now += ms(milliseconds);
    }

    pub fn generation(&mut self, event: GenerationEvent) -> Vec<Effect> {
        self.event(Event::Generation(event))
    }

    pub fn token(&mut self, text: &str) -> Vec<Effect> {
        self.token_on(LaneId::Cpu, text)
    }

    pub fn token_on(&mut self, lane: LaneId, text: &str) -> Vec<Effect> {
        self.generation(GenerationEvent::Token(Token {
            text: text.into(),
            thinking: String::new(),
            thinks: false,
            tool_calls: Vec::new(),
            logprobs: None,
            id: 7,
            at: self.now,
            lane,
        }))
    }

    pub fn thought(&mut self, thinking: &str) -> Vec<Effect> {
        let token = Token {
            text: String::new(),
            thinking: thinking.into(),
            thinks: true,
            tool_calls: Vec::new(),
            logprobs: None,
            id: 7,
            at: self.now,
            lane: LaneId::Cpu,
        };
        self.generation(GenerationEvent::Token(token))
    }

    fn thinking_tokens(&self) -> usize {
        let blocks = self.state.conversation.blocks();
        blocks.last().map_or(0, |block| match &block.kind {
            Kind::Answer(header) => header.thinking_tokens,
            Kind::User | Kind::Notice(_) => 0,
        })
    }

    pub fn route(&mut self) {
        self.generation(GenerationEvent::Routed(decision()));
    }

    pub fn prefill(&mut self, done: usize) {
        self.generation(GenerationEvent::PrefillProgress(PrefillProgress { done, total: 1000, reused: 100 }));
    }

    pub fn finish(&mut self, reason: FinishReason) -> Vec<Effect> {
        let latencies = self.state.answer.as_ref().unwrap().latencies().to_vec();
        self.generation(GenerationEvent::Finished(Finished {
            reason,
            usage: Usage {
                prompt_tokens: 1000,
                completion_tokens: latencies.len() + 1,
                thinking_tokens: self.thinking_tokens(),
                reused_tokens: 100,
                remote: None,
            },
            timings: Timings {
                ttft: Some(ms(2000)),
                model_ttft: Some(ms(1900)),
                prefill: ms(1800),
                prefill_tokens: 900,
                token_latencies: latencies,
            },
        }))
    }

    /// A question whose answer streams: a token every 10 ms, with one stall of 100 ms.
    pub fn stream(&mut self) {
        self.send("What is the capital of France, and why there?");
        self.route();
        self.prefill(1000);
        self.wait(2000);
        for (index, word) in ANSWER.split_inclusive(' ').enumerate() {
            self.token(word);
            self.wait(if index == 20 { 100 } else { 10 });
        }
    }
}

pub const ANSWER: &str = "The capital of France is Paris. Three things made it so:\n\n 1. the river crossing at the Île de la \
    Cité, where the road from the south met the boats of the Seine,\n 2. the court that settled there,\n 3. the roads and \
    later rails that meet in it.\n\nIn Japanese it is written パリ, and in Chinese 巴黎.";

pub fn snapshot() -> EngineSnapshot {
    let graph = |name: &str, provider: &str, nodes| GraphPlacement {
        graph: format!("{name}.onnx"),
        placement: Some(Placement { nodes_by_provider: vec![(provider.into(), nodes)] }),
        compiled_nodes: None,
    };
    let (cpu, npu) = ("CPUExecutionProvider", "QNNExecutionProvider");
    let lane = |id, provider: &str, context_limit, placement| LaneStatus {
        id,
        execution_provider: provider.into(),
        device: None,
        emulated: id == LaneId::Npu,
        state: LaneState::Ready,
        context_limit,
        threads: (id == LaneId::Cpu).then_some(Threads { count: 2, spinning: false, chosen_by: ChosenBy::Default }),
        memory: None,
        placement,
        measured: MeasuredRates::default(),
        remote: None,
        running: 0,
        waiting: 0,
    };
    let static_graphs = [("embeddings", cpu, 1), ("prefill", npu, 2000), ("decode", npu, 2000), ("lm_head", cpu, 3)];
    EngineSnapshot {
        model: "test-model".into(),
        thinking: ThinkingChoice::Switchable,
        architecture: "llama".into(),
        weight_bytes: 200 << 20,
        lanes: vec![
            lane(LaneId::Npu, npu, 500, static_graphs.map(|(name, ep, nodes)| graph(name, ep, nodes)).into()),
            lane(LaneId::Cpu, cpu, 8000, vec![graph("model", cpu, 300)]),
        ],
    }
}

/// With a server that wants to be asked about.
pub fn snapshot_with_server() -> EngineSnapshot {
    let mut snapshot = snapshot();
    let server = RemoteStatus {
        url: "https://api.example.com/v1".into(),
        host: "api.example.com".into(),
        model: Some("far-model".into()),
        is_private: true,
        context_is_assumed: false,
        privacy: Privacy::Ask,
        place: RemotePlace::Outgrown,
        price: Some(Price { per_million: TokenPrice { input: 0.5, output: 2.0 }, currency: Some("EUR".into()) }),
    };
    snapshot.lanes.push(LaneStatus {
        id: LaneId::Remote,
        execution_provider: "OpenAI-compatible server".into(),
        emulated: false,
        context_limit: 100_000,
        threads: None,
        placement: Vec::new(),
        remote: Some(server),
        ..snapshot.lanes[1].clone()
    });
    snapshot
}

/// A conversation that only the server holds.
pub fn outgrown_decision() -> RoutingDecision {
    let too_long = |lane, context_limit| Rejection {
        lane,
        reason: format!("20100 tokens, context of {context_limit}"),
        context_limit,
        predicted_total: None,
    };
    RoutingDecision {
        lane: LaneId::Remote,
        execution_provider: "OpenAI-compatible server".into(),
        rule: Rule::Outgrown,
        prompt_tokens: 20_000,
        parts: Some(PromptParts { system: 30, history: 19_870, message: 100 }),
        needed_tokens: 20_100,
        context_limit: 100_000,
        predicted_ttft: None,
        predicted_total: None,
        rejected: vec![too_long(LaneId::Npu, 500), too_long(LaneId::Cpu, 8000)],
        ..decision()
    }
}

/// With the NPU lane in this state.
pub fn snapshot_with(npu: LaneState) -> EngineSnapshot {
    let mut snapshot = snapshot();
    snapshot.lanes[0].state = npu;
    snapshot
}

pub fn decision() -> RoutingDecision {
    RoutingDecision {
        lane: LaneId::Cpu,
        execution_provider: "CPUExecutionProvider".into(),
        emulated: false,
        policy: Policy::Auto,
        rule: Rule::FirstThatFits,
        prompt_tokens: 1000,
        whole_prompt_tokens: None,
        parts: Some(PromptParts { system: 30, history: 870, message: 100 }),
        answer_tokens: 500,
        needed_tokens: 1100,
        context_limit: 8000,
        predicted_ttft: Some(ms(1900)),
        predicted_total: Some(ms(3900)),
        rejected: vec![Rejection {
            lane: LaneId::Npu,
            reason: "1100 tokens, context of 500".into(),
            context_limit: 500,
            predicted_total: None,
        }],
    }
}

/// A short question that the NPU takes.
pub fn short_decision() -> RoutingDecision {
    RoutingDecision {
        lane: LaneId::Npu,
        execution_provider: "QNNExecutionProvider".into(),
        emulated: true,
        prompt_tokens: 40,
        whole_prompt_tokens: None,
        parts: Some(PromptParts { system: 30, history: 0, message: 10 }),
        needed_tokens: 140,
        context_limit: 500,
        predicted_ttft: None,
        predicted_total: None,
        rejected: vec![Rejection {
            lane: LaneId::Cpu,
            reason: "npu comes first".into(),
            context_limit: 8000,
            predicted_total: Some(ms(3900)),
        }],
        ..decision()
    }
}

pub fn lane_change() -> LaneChange {
    LaneChange {
        from: LaneId::Npu,
        to: LaneId::Cpu,
        after_tokens: 12,
        context_limit: 8000,
        emulated: false,
        reason: "npu failed: QNN error 1100, device lost".into(),
    }
}

/// 1000 tokens in and 58 out; what was measured, if anything was.
pub fn bill(joules: Option<f64>) -> Bill {
    let energy = EntryEnergy {
        joules,
        joules_with_idle: joules.map(|joules| joules + 10.0),
        idle_watts: joules.map(|_| 4.0),
        reason: joules.is_none().then(|| "no readable sensor".into()),
        ..EntryEnergy::default()
    };
    let entry = Entry {
        v: VERSION,
        time: "2026-03-04T05:06:07Z".into(),
        via: "chat".into(),
        model: "test-model".into(),
        lane: "cpu".into(),
        emulated: false,
        finish: "stop".into(),
        tokens_in: 1000,
        tokens_reused: 100,
        tokens_out: 58,
        seconds: 2.5,
        energy,
        prices: Some(Prices {
            currency: "EUR".into(),
            electricity_per_kwh: Some(0.3),
            cloud_per_million: Some(TokenPrices { input: 0.5, output: 2.0 }),
        }),
        remote_cost: None,
    };
    Bill { entry, energy: Reading::Unavailable("not asked".into()), complaint: None }
}

pub fn sample() -> DeviceSample {
    DeviceSample {
        cpu_percent: Reading::Measured(80.0),
        cpu_mhz: Reading::Measured(2000),
        cpu_celsius: Reading::Unavailable("no sensor".into()),
        memory_used: Reading::Measured(3 << 29),
        memory_total: Reading::Measured(20 << 30),
        process_memory: Reading::Measured(300 << 20),
        process_cpu_percent: Reading::Measured(150.0),
        power: Reading::Unavailable("no readable sensor".into()),
        npu: NpuSample {
            load: Reading::Measured(NpuLoad { percent: 40.0, of: LoadOf::Device }),
            mhz: Reading::Measured(1400),
            celsius: Reading::Unavailable("no sensor".into()),
            watts: Reading::Unavailable("no sensor".into()),
        },
    }
}
