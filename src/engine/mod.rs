//! The engine: a request in, events out. It routes, templates, tokenizes, generates, samples and detokenizes; it knows
//! no terminal and no HTTP.

pub mod event;
pub mod lane;
pub mod request;
pub mod route;

use std::sync::Arc;

pub use event::{ContextTrim, FinishReason, Finished, GenerationEvent, PrefillProgress, Timings, Token, Usage};
pub use lane::{LaneId, LaneState, LaneStatus, MeasuredRates, Placement};
pub use request::{ChatMessage, ChatRequest, Role, Sampling};
pub use route::{Rejection, RoutingDecision, Rule};

/// The events of one answer. Dropping it cancels the answer within one token.
pub type GenerationStream = tokio::sync::mpsc::UnboundedReceiver<GenerationEvent>;

/// A loaded model with its lanes. Cheap to clone; all clones share the lanes.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<()>,
}

/// The engine as it stands now; what every front end draws its panels from.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineSnapshot {
    /// The model's short name, as in the title bar.
    pub model: String,
    pub architecture: String,
    /// Size of the weights on disk, in bytes.
    pub weight_bytes: u64,
    pub lanes: Vec<LaneStatus>,
}

#[derive(Debug, thiserror::Error)]
pub enum EngineError {}

impl Engine {
    pub fn snapshot(&self) -> EngineSnapshot {
        let _ = &self.inner;
        EngineSnapshot { model: String::new(), architecture: String::new(), weight_bytes: 0, lanes: Vec::new() }
    }

    /// What the router would decide for this conversation now, without running anything.
    pub fn preview(&self, request: &ChatRequest) -> Result<RoutingDecision, EngineError> {
        let _ = request;
        std::process::abort()
    }

    /// Queues the request and returns at once.
    pub fn submit(&self, request: ChatRequest) -> GenerationStream {
        let _ = request;
        tokio::sync::mpsc::unbounded_channel().1
    }
}
