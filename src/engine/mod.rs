//! The engine: a request in, events out. It routes, templates, tokenizes, generates, samples and detokenizes; it knows
//! no terminal and no HTTP.
//!
//! A request's walk: `submit` hands it to the dispatcher thread, which makes the prompt's tokens, asks the router and
//! passes the job to the chosen lane's own thread (`worker`, `generate`). Events go straight from there to the front end.
//! A lane that cannot finish an answer passes the job on to another (`lanes`).

mod constraint;
mod cpu_lane;
mod described_tools;
mod dispatch;
mod event;
mod generate;
mod grammar;
#[cfg(test)]
mod hand_over_tests;
mod job;
mod lane;
mod lanes;
#[cfg(test)]
mod load_tests;
mod logprobs;
#[cfg(test)]
#[path = "../../tests/support/openai.rs"]
#[allow(dead_code, reason = "the client's own tests use more of it")]
mod openai;
mod parameters;
mod prompt;
mod prompt_parts;
mod remote_lane;
#[cfg(test)]
mod remote_tests;
mod request;
mod route;
mod sampler;
mod slots;
#[cfg(test)]
pub(crate) mod testing;
mod text;
mod thinking;
mod tool_calls;
mod tools;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::unbounded_channel;

use crate::model::{ModelError, ModelFolder};

pub use cpu_lane::{CpuSetting, cpu_lane};
pub use event::{
    ContextTrim, FinishReason, Finished, GenerationEvent, LaneChange, PrefillProgress, RemoteUsage, Timings, Token,
    TokenLogprob, TokenLogprobs, Usage,
};
pub use grammar::InvalidRequest;
pub use lane::{
    ChosenBy, GraphPlacement, LaneId, LaneOpener, LaneSource, LaneSpec, LaneState, LaneStatus, MeasuredRates,
    MemoryPlan, OpenLane, Placement, Price, Privacy, RemotePlace, RemoteStatus, Threads, TokenPrice,
};
pub use lanes::RatesListener;
pub use parameters::{Parameter, ParameterError};
pub use prompt::{PromptError, room as prompt_room};
pub use prompt_parts::PromptParts;
pub use remote_lane::{ASSUMED_CONTEXT, GO_ON, REMOTE_PROVIDER, RemoteOptions, RemoteServer, remote_lane};
pub use request::{
    AnswerFormat, AnswerSettings, ChatMessage, ChatRequest, CompletionRequest, MeasureRequest, MeasuredPrompt,
    RawPrompt, Role, Sampling,
};
pub use route::{EXPECTED_ANSWER, Policy, Rejection, RouteError, RoutingDecision, Rule};
pub use thinking::{Parts, ThinkingSplitter};
pub use tools::{Tool, ToolCall, ToolCallDelta, ToolChoice};

use constraint::Grammars;
use dispatch::{Asked, Submission};
use lanes::Lanes;
use prompt::PromptOptions;
use remote_lane::RemoteWorker;
use route::{RemoteUse, is_last_resort};
use worker::Worker;

/// How long the end of the engine waits for its lanes. A forward pass takes less on any machine that is fit to chat; a
/// device that hangs is not waited for.
const PATIENCE: Duration = Duration::from_secs(3);

/// The events of one answer. Dropping it cancels the answer within one token.
pub type GenerationStream = tokio::sync::mpsc::UnboundedReceiver<GenerationEvent>;

/// A loaded model with its lanes. Cheap to clone; all clones share the lanes. When the last clone goes, running answers
/// are cut and the lanes' threads end.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

struct Inner {
    folder: Arc<ModelFolder>,
    grammars: Arc<Grammars>,
    weight_bytes: u64,
    lanes: Arc<Lanes>,
    stopping: Arc<AtomicBool>,
    /// `None` only while the engine is dropped.
    submissions: Option<Sender<Submission>>,
    threads: Vec<JoinHandle<()>>,
}

pub struct EngineOptions {
    /// Gives the tokenizer, the chat template and the end of an answer, whatever lane answers.
    pub model: Arc<ModelFolder>,
    /// In the order in which the router prefers them.
    pub lanes: Vec<LaneSpec>,
    /// Lanes on a simulator may be chosen without being named.
    pub emulation: bool,
    pub listener: Option<RatesListener>,
}

/// The engine as it stands now; what every front end draws its panels from.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineSnapshot {
    /// The model's short name, as in the title bar.
    pub model: String,
    pub architecture: String,
    /// Size of the weights on disk, in bytes.
    pub weight_bytes: u64,
    pub thinking: ThinkingChoice,
    pub lanes: Vec<LaneStatus>,
}

/// What there is to choose of a model's thinking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThinkingChoice {
    /// It does not think before it answers.
    Never,
    /// It does, or decides for itself; nobody can tell it to.
    ByItself,
    /// As it is told.
    Switchable,
}

impl ThinkingChoice {
    /// What to tell people whose wish changes nothing.
    pub fn objection(self, wish: bool) -> Option<&'static str> {
        match (self, wish) {
            (Self::Never, true) => Some("this model does not think before it answers"),
            (Self::ByItself, _) => Some("this model decides for itself whether it thinks"),
            (Self::Never, false) | (Self::Switchable, _) => None,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error("{}", no_lane(.0))]
    NoLane(Vec<(LaneId, String)>),
    #[error(transparent)]
    Prompt(#[from] PromptError),
    #[error("the {lane} lane was asked for, but {error}; where none is asked for, another one may answer")]
    RequestedTooShort { lane: LaneId, error: PromptError },
    #[error(transparent)]
    Route(#[from] RouteError),
    #[error(transparent)]
    Invalid(#[from] InvalidRequest),
    #[error("a thread could not be started: {0}")]
    Thread(#[from] std::io::Error),
    #[error("this request broke ortalk, which is a bug: {0}")]
    Panic(String),
}

impl EngineError {
    /// The lane has no room for the last message, whatever else is left out.
    fn is_too_long(&self) -> bool {
        matches!(
            self,
            Self::Prompt(PromptError::TooLong { .. })
                | Self::RequestedTooShort { error: PromptError::TooLong { .. }, .. }
        )
    }
}

impl Engine {
    /// Starts to open the lanes, each on its own thread, and returns when the first of them is ready, or when none can be.
    pub fn load(options: EngineOptions) -> Result<Self, EngineError> {
        let folder = options.model;
        let grammars = Arc::new(Grammars::new(folder.clone()));
        let lanes = Arc::new(Lanes::new(options.emulation, options.listener));
        let stopping = Arc::new(AtomicBool::new(false));
        let (mut workers, mut servers) = (Vec::new(), Vec::new());
        for spec in options.lanes {
            let (status, source) = spec.into_status(Instant::now());
            let id = status.id;
            let (sender, jobs) = channel();
            let (folder, lanes_too, stopping) = (folder.clone(), lanes.clone(), stopping.clone());
            let jobs = match source {
                LaneSource::Absent { .. } => None,
                LaneSource::Open(opener) => {
                    workers.push(Worker { id, opener, jobs, folder, lanes: lanes_too, stopping });
                    Some(sender)
                }
                LaneSource::Server(server) => {
                    servers.push(RemoteWorker { server, jobs, folder, lanes: lanes_too, stopping });
                    Some(sender)
                }
            };
            lanes.add(status, jobs);
        }
        let (submissions, dispatcher) = dispatch::start(folder.clone(), grammars.clone(), lanes.clone())?;
        let mut inner = Inner {
            weight_bytes: folder.weight_bytes(),
            folder,
            grammars,
            lanes,
            stopping,
            submissions: Some(submissions),
            threads: vec![dispatcher],
        };
        for worker in workers {
            inner.threads.push(worker.start()?);
        }
        for server in servers {
            inner.threads.push(server.start()?);
        }
        let statuses = inner.lanes.wait(None, |lanes| {
            // A server that waits for the others to be outgrown is no reason not to wait for them.
            let own = || lanes.iter().map(|lane| &lane.status).filter(|lane| !is_last_resort(lane));
            let any = |state: fn(&LaneState) -> bool| own().any(|lane| state(&lane.state));
            let is_done =
                any(|state| *state == LaneState::Ready) || !any(|state| matches!(state, LaneState::Loading { .. }));
            let server_loads = lanes.iter().any(|lane| matches!(lane.status.state, LaneState::Loading { .. }));
            is_done && (any(|state| *state == LaneState::Ready) || !server_loads)
        });
        if statuses.iter().any(|lane| lane.state == LaneState::Ready) {
            return Ok(Self { inner: Arc::new(inner) });
        }
        // What was tried says more than what is not there.
        let failed = |lane: &LaneStatus| match &lane.state {
            LaneState::Failed { reason } => Some((lane.id, reason.clone())),
            LaneState::Absent { .. } | LaneState::Loading { .. } | LaneState::Ready => None,
        };
        let mut reasons: Vec<_> = statuses.iter().filter_map(failed).collect();
        if reasons.is_empty() {
            reasons = statuses.iter().filter_map(|lane| Some((lane.id, lane.state.hindrance()?))).collect();
        }
        Err(EngineError::NoLane(reasons))
    }

    /// Waits until no lane is loading any more; with a name, until that one is not.
    pub fn wait_for_lanes(&self, lane: Option<LaneId>) {
        self.inner.lanes.wait(None, |lanes| {
            let counts = |id: LaneId| lane.is_none_or(|wanted| wanted == id);
            !lanes.iter().any(|l| counts(l.status.id) && matches!(l.status.state, LaneState::Loading { .. }))
        });
    }

    pub fn snapshot(&self) -> EngineSnapshot {
        EngineSnapshot {
            model: self.inner.folder.name.clone(),
            architecture: self.inner.folder.config.model.architecture.clone(),
            weight_bytes: self.inner.weight_bytes,
            thinking: match &self.inner.folder.thinking {
                None => ThinkingChoice::Never,
                Some(thinking) if thinking.switchable => ThinkingChoice::Switchable,
                Some(_) => ThinkingChoice::ByItself,
            },
            lanes: self.inner.lanes.statuses(),
        }
    }

    /// What the router would decide for this conversation now, without running anything.
    pub fn preview(&self, request: &ChatRequest) -> Result<RoutingDecision, EngineError> {
        dispatch::preview(&self.inner.folder, &self.inner.lanes, request)
    }

    /// As `preview`, for text that is to be gone on with.
    pub fn preview_completion(&self, request: &CompletionRequest) -> Result<RoutingDecision, EngineError> {
        let prompt = prompt::tokenize_raw(&self.inner.folder, &request.prompt)?;
        let remote = RemoteUse::never(dispatch::RAW_TEXT);
        let decision = self.inner.lanes.decide(&prompt, request.max_tokens, request.policy, request.lane, remote)?;
        prompt::check_room(prompt.len(), decision.context_limit)?;
        Ok(decision)
    }

    /// Whether the answer's form can be kept to, and with which parameter it cannot. Who does not ask is told by the
    /// answer's end.
    pub fn check(&self, request: &ChatRequest) -> Result<(), InvalidRequest> {
        self.inner.grammars.constraint(request, false).map(|_| ())
    }

    /// Queues the request and returns at once. The last event is `Finished`, also when the request is refused.
    pub fn submit(&self, request: ChatRequest) -> GenerationStream {
        self.ask(Asked::Chat(request))
    }

    /// Queues text to be gone on with, as `submit` queues a conversation.
    pub fn complete(&self, request: CompletionRequest) -> GenerationStream {
        self.ask(Asked::Complete(request))
    }

    /// Queues work to be measured, and goes on as `submit` does. Submission is what its TTFT counts from.
    pub fn measure(&self, request: MeasureRequest) -> GenerationStream {
        self.ask(Asked::Measure(request))
    }

    /// The conversation as a prompt's tokens, ending where the answer begins.
    pub fn tokenize(&self, messages: &[ChatMessage]) -> Result<Vec<u32>, EngineError> {
        Ok(prompt::tokenize(&self.inner.folder, messages, PromptOptions::default())?)
    }

    /// Tokens of a text by itself, with no template around it.
    pub fn count_tokens(&self, text: &str) -> Result<usize, EngineError> {
        let tokens = self.inner.folder.tokenizer.encode(text).map_err(PromptError::from)?;
        Ok(tokens.len())
    }

    fn ask(&self, request: Asked) -> GenerationStream {
        let (events, stream) = unbounded_channel();
        if let Some(submissions) = &self.inner.submissions {
            // The dispatcher's thread ends after the engine only.
            let _ = submissions.send(Submission { request, submitted: Instant::now(), events });
        }
        stream
    }
}

impl Drop for Inner {
    /// ONNX Runtime should not be running when the process ends, so the threads are waited for: a token, mostly.
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.submissions = None;
        self.lanes.close();
        let until = Instant::now() + PATIENCE;
        for thread in self.threads.drain(..) {
            while !thread.is_finished() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(2));
            }
            if thread.is_finished() {
                let _ = thread.join();
            }
        }
    }
}

fn no_lane(reasons: &[(LaneId, String)]) -> String {
    match reasons {
        [] => "there is no lane to answer on".to_string(),
        [(id, reason)] => format!("the {id} lane failed: {reason}"),
        reasons => {
            let each: Vec<String> = reasons.iter().map(|(id, reason)| format!("{id}: {reason}")).collect();
            format!("no lane could be opened\n{}", each.join("\n"))
        }
    }
}
