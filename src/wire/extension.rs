//! The field `ortalk` of the server's requests and answers, which OpenAI's interface does not have.

use serde::{Deserialize, Serialize};

use super::event::{Event, Routing};
use crate::engine::{LaneId, Policy};

/// The request's field `ortalk`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RequestExtension {
    /// This lane answers, or nobody does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lane: Option<LaneId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// Whether the model thinks before it answers, where it can do both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<bool>,
    /// Leave out the oldest turns of a conversation that is too long, as the chat does; otherwise it is refused.
    pub trim: bool,
    /// Reuse nothing that a lane has in its cache, so that lanes can be compared.
    pub fresh: bool,
    /// The answer has the whole routing decision.
    pub route_trace: bool,
    /// Each chunk of a stream has the engine's events.
    pub events: bool,
}

/// The field `ortalk` of an answer, and of each chunk of a stream.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AnswerExtension {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<Routing>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
}
