//! What a lane is: one way to run the model, as the router and the front ends see it, and how one is made.

use std::fmt;
use std::time::Instant;

use serde::{Deserialize, Serialize};

pub use crate::config::{Privacy, RemotePlace};
pub use crate::decoder::GraphPlacement;
pub use crate::onnx_runtime::Placement;

use super::event::RemoteUsage;
use super::remote_lane::RemoteServer;
use crate::decoder::Decoder;

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaneId {
    Npu,
    Cpu,
    /// A server.
    Remote,
}

impl LaneId {
    pub fn name(self) -> &'static str {
        match self {
            Self::Npu => "npu",
            Self::Cpu => "cpu",
            Self::Remote => "remote",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        [Self::Npu, Self::Cpu, Self::Remote].into_iter().find(|lane| lane.name() == name)
    }
}

impl fmt::Display for LaneId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LaneState {
    /// It is being opened on its own thread.
    Loading {
        since: Instant,
    },
    Ready,
    /// It cannot run here: the plug-in, the device or the model for it is missing.
    Absent {
        reason: String,
    },
    /// It ran, or should have, and broke. Only a request that names it opens it again.
    Failed {
        reason: String,
    },
}

impl LaneState {
    /// Stable names, for JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Loading { .. } => "loading",
            Self::Ready => "ready",
            Self::Absent { .. } => "absent",
            Self::Failed { .. } => "failed",
        }
    }

    /// Why it cannot answer now; `None` where it can.
    pub fn hindrance(&self) -> Option<String> {
        match self {
            Self::Ready => None,
            Self::Loading { .. } => Some("still loading".to_string()),
            Self::Absent { reason } => Some(reason.clone()),
            Self::Failed { reason } => Some(format!("failed: {reason}")),
        }
    }
}

/// Rates measured by the last answers; absent until the first one.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct MeasuredRates {
    /// Tokens per second.
    pub prefill: Option<f64>,
    /// Tokens per second.
    pub decode: Option<f64>,
}

/// The threads of a lane on the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Threads {
    pub count: usize,
    /// They keep their cores busy while they wait for work.
    pub spinning: bool,
    pub chosen_by: ChosenBy,
}

/// Who said how the CPU lane runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChosenBy {
    /// Nobody.
    Default,
    /// `--threads` or the settings.
    User,
    /// `ortalk bench --tune`, on this machine with this model.
    Tuning,
}

impl ChosenBy {
    /// Stable names, for JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::User => "user",
            Self::Tuning => "tuning",
        }
    }
}

/// What a lane takes in memory, reckoned before it is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryPlan {
    /// With a full context.
    pub bytes: u64,
    /// Tokens whose keys and values are kept at most, in all conversations together; a full context's at least. What is
    /// beyond that one is not among the bytes.
    pub kept_tokens: usize,
    /// The model's own context, where there is no room for all of it.
    pub cut_from: Option<usize>,
}

/// A lane as it stands now.
#[derive(Debug, Clone, PartialEq)]
pub struct LaneStatus {
    pub id: LaneId,
    /// ONNX Runtime's name of it: `CPUExecutionProvider`, `QNNExecutionProvider`.
    pub execution_provider: String,
    /// The hardware's own name where it is known.
    pub device: Option<String>,
    /// The execution provider runs on a simulator.
    pub emulated: bool,
    pub state: LaneState,
    /// Prompt and answer together, in tokens; 0 where there is no model for the lane.
    pub context_limit: usize,
    pub threads: Option<Threads>,
    /// `None` where it was not reckoned.
    pub memory: Option<MemoryPlan>,
    /// What ONNX Runtime reported after the sessions were made, graph by graph; empty where it did not.
    pub placement: Vec<GraphPlacement>,
    pub measured: MeasuredRates,
    /// Of the lane that is a server.
    pub remote: Option<RemoteStatus>,
    /// Requests that it works on.
    pub running: usize,
    /// Requests that it was given and has not begun with.
    pub waiting: usize,
}

/// What there is to know of a server before it gets a conversation. Its key is not here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RemoteStatus {
    pub url: String,
    /// The host, and its port where that is not the usual one.
    pub host: String,
    /// By the server's own name; `None` until it was asked.
    pub model: Option<String>,
    /// What is sent cannot be read on the way, or does not leave this machine.
    pub is_private: bool,
    /// Neither the server nor the settings say how long its context is; the lane's limit is what most have.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub context_is_assumed: bool,
    pub privacy: Privacy,
    pub place: RemotePlace,
    pub price: Option<Price>,
}

/// What a server takes for its answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Price {
    pub per_million: TokenPrice,
    /// As it is to be shown; `None` where nobody said.
    pub currency: Option<String>,
}

/// Of a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TokenPrice {
    pub input: f64,
    pub output: f64,
}

impl TokenPrice {
    /// What so many tokens cost.
    pub fn of(self, input_tokens: usize, output_tokens: usize) -> f64 {
        (self.input * input_tokens as f64 + self.output * output_tokens as f64) / 1e6
    }
}

impl Price {
    /// What these tokens cost, in words: `0.0021 EUR`, with at least two digits that say something.
    pub fn show(&self, usage: RemoteUsage) -> String {
        let cost = usage.cost(self.per_million);
        let digits = if cost > 0.0 { (1.0 - cost.log10().floor()).clamp(2.0, 9.0) as usize } else { 2 };
        let estimate = if usage.is_estimate { "est. " } else { "" };
        let currency = self.currency.as_ref().map(|currency| format!(" {currency}")).unwrap_or_default();
        format!("{estimate}{cost:.digits$}{currency}")
    }
}

impl LaneStatus {
    /// Of the graphs that run on this lane's execution provider: nodes on it, and all nodes. `None` where ONNX Runtime did
    /// not report them.
    pub fn nodes(&self) -> Option<(usize, usize)> {
        let graphs = || self.placement.iter().filter_map(|graph| graph.nodes(&self.execution_provider));
        let own = |(on, _): &(usize, usize)| *on > 0;
        let sum = |(a, b): (usize, usize), (c, d): (usize, usize)| (a + c, b + d);
        graphs().filter(own).reduce(sum).or_else(|| graphs().next())
    }

    /// The execution providers of its graphs that run elsewhere as a whole, as a model's embeddings do on an NPU lane; one
    /// for each graph.
    pub fn graphs_elsewhere(&self) -> Vec<&str> {
        let graphs = self.placement.iter().filter_map(|graph| graph.placement.as_ref());
        graphs
            .filter(|placement| placement.nodes_on(&self.execution_provider) == 0)
            .filter_map(|placement| placement.nodes_by_provider.first().map(|(provider, _)| provider.as_str()))
            .collect()
    }
}

/// What a lane is to be: known before it is opened.
pub struct LaneSpec {
    pub id: LaneId,
    pub execution_provider: String,
    pub device: Option<String>,
    pub emulated: bool,
    /// Tokens; 0 where there is no model for the lane.
    pub context_limit: usize,
    pub threads: Option<Threads>,
    pub memory: Option<MemoryPlan>,
    /// What an earlier run measured.
    pub measured: MeasuredRates,
    pub remote: Option<RemoteStatus>,
    pub source: LaneSource,
}

/// How a lane comes to be.
pub enum LaneSource {
    /// Not at all; the reason is for people, and says what to do.
    Absent {
        reason: String,
    },
    Open(LaneOpener),
    Server(RemoteServer),
}

/// Opens a lane. Runs on the lane's own thread and may take its time; again, after the lane failed, when a request names
/// the lane. The error is for people.
pub type LaneOpener = Box<dyn FnMut() -> Result<OpenLane, String> + Send>;

/// A lane that can answer, and what was learnt while it was opened.
pub struct OpenLane {
    pub decoder: Box<dyn Decoder>,
    pub placement: Vec<GraphPlacement>,
    /// In place of what the spec said, where that is known only now.
    pub device: Option<String>,
    /// In place of what the spec said.
    pub emulated: bool,
}

impl LaneSpec {
    /// The lane as it stands before anything was opened, and how it comes to be.
    pub(super) fn into_status(self, now: Instant) -> (LaneStatus, LaneSource) {
        let state = match &self.source {
            LaneSource::Absent { reason } => LaneState::Absent { reason: reason.clone() },
            LaneSource::Open(_) => LaneState::Loading { since: now },
            LaneSource::Server(server) => server.first_state(now),
        };
        let status = LaneStatus {
            id: self.id,
            execution_provider: self.execution_provider,
            device: self.device,
            emulated: self.emulated,
            state,
            context_limit: self.context_limit,
            threads: self.threads,
            memory: self.memory,
            placement: Vec::new(),
            measured: self.measured,
            remote: self.remote,
            running: 0,
            waiting: 0,
        };
        (status, self.source)
    }
}
