//! The engine as it stands, as `GET /ortalk/snapshot` gives it.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::Milliseconds;
use crate::engine::{
    self, EngineSnapshot, LaneId, LaneState, LaneStatus, MeasuredRates, MemoryPlan, Placement, RemoteStatus,
    ThinkingChoice, Threads,
};

/// `EngineSnapshot`, what `GET /ortalk/snapshot` gives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    pub model: String,
    pub architecture: String,
    pub weight_bytes: u64,
    pub thinking: Thinking,
    pub lanes: Vec<Lane>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Thinking {
    Never,
    ByItself,
    Switchable,
}

/// `LaneStatus`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lane {
    pub lane: LaneId,
    pub execution_provider: String,
    pub device: Option<String>,
    pub emulated: bool,
    #[serde(flatten)]
    pub state: State,
    pub context_limit: usize,
    pub threads: Option<Threads>,
    pub memory: Option<Memory>,
    pub placement: Vec<Graph>,
    /// Tokens per second.
    pub prefill_rate: Option<f64>,
    pub decode_rate: Option<f64>,
    /// Of a server behind this one; its key is not here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<RemoteStatus>,
    /// Requests.
    pub running: usize,
    pub waiting: usize,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum State {
    Loading { for_ms: Milliseconds },
    Ready,
    Absent { reason: String },
    Failed { reason: String },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    pub bytes: u64,
    pub kept_tokens: usize,
    pub cut_from: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Graph {
    pub graph: String,
    /// Execution providers with their nodes; absent where ONNX Runtime did not report them.
    pub nodes: Option<Vec<(String, usize)>>,
    pub compiled_nodes: Option<usize>,
}

impl Snapshot {
    pub fn of(snapshot: &EngineSnapshot, now: Instant) -> Self {
        Self {
            model: snapshot.model.clone(),
            architecture: snapshot.architecture.clone(),
            weight_bytes: snapshot.weight_bytes,
            thinking: match snapshot.thinking {
                ThinkingChoice::Never => Thinking::Never,
                ThinkingChoice::ByItself => Thinking::ByItself,
                ThinkingChoice::Switchable => Thinking::Switchable,
            },
            lanes: snapshot.lanes.iter().map(|lane| Lane::of(lane, now)).collect(),
        }
    }

    pub fn into_engine(self, now: Instant) -> EngineSnapshot {
        EngineSnapshot {
            model: self.model,
            architecture: self.architecture,
            weight_bytes: self.weight_bytes,
            thinking: match self.thinking {
                Thinking::Never => ThinkingChoice::Never,
                Thinking::ByItself => ThinkingChoice::ByItself,
                Thinking::Switchable => ThinkingChoice::Switchable,
            },
            lanes: self.lanes.into_iter().map(|lane| lane.into_engine(now)).collect(),
        }
    }
}

impl Lane {
    fn of(status: &LaneStatus, now: Instant) -> Self {
        let graphs = status.placement.iter().map(|graph| Graph {
            graph: graph.graph.clone(),
            nodes: graph.placement.as_ref().map(|placement| placement.nodes_by_provider.clone()),
            compiled_nodes: graph.compiled_nodes,
        });
        Self {
            lane: status.id,
            execution_provider: status.execution_provider.clone(),
            device: status.device.clone(),
            emulated: status.emulated,
            state: match &status.state {
                LaneState::Loading { since } => State::Loading { for_ms: now.saturating_duration_since(*since).into() },
                LaneState::Ready => State::Ready,
                LaneState::Absent { reason } => State::Absent { reason: reason.clone() },
                LaneState::Failed { reason } => State::Failed { reason: reason.clone() },
            },
            context_limit: status.context_limit,
            threads: status.threads,
            memory: status.memory.map(|memory| Memory {
                bytes: memory.bytes,
                kept_tokens: memory.kept_tokens,
                cut_from: memory.cut_from,
            }),
            placement: graphs.collect(),
            prefill_rate: status.measured.prefill,
            decode_rate: status.measured.decode,
            remote: status.remote.clone(),
            running: status.running,
            waiting: status.waiting,
        }
    }

    fn into_engine(self, now: Instant) -> LaneStatus {
        let graphs = self.placement.into_iter().map(|graph| engine::GraphPlacement {
            graph: graph.graph,
            placement: graph.nodes.map(|nodes_by_provider| Placement { nodes_by_provider }),
            compiled_nodes: graph.compiled_nodes,
        });
        LaneStatus {
            id: self.lane,
            execution_provider: self.execution_provider,
            device: self.device,
            emulated: self.emulated,
            state: match self.state {
                State::Loading { for_ms } => {
                    LaneState::Loading { since: now.checked_sub(for_ms.into()).unwrap_or(now) }
                }
                State::Ready => LaneState::Ready,
                State::Absent { reason } => LaneState::Absent { reason },
                State::Failed { reason } => LaneState::Failed { reason },
            },
            context_limit: self.context_limit,
            threads: self.threads,
            memory: self.memory.map(|memory| MemoryPlan {
                bytes: memory.bytes,
                kept_tokens: memory.kept_tokens,
                cut_from: memory.cut_from,
            }),
            placement: graphs.collect(),
            measured: MeasuredRates { prefill: self.prefill_rate, decode: self.decode_rate },
            remote: self.remote,
            running: self.running,
            waiting: self.waiting,
        }
    }
}
