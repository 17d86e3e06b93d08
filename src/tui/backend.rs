//! What the screen needs of an engine. `Engine` is the one that ships; tests bring a scripted one.

use std::sync::Arc;

use crate::engine::{AnswerSettings, ChatRequest, Engine, EngineSnapshot, GenerationStream, RoutingDecision};

pub trait Backend: Send + Sync {
    /// Called between two frames: must not wait for a running answer.
    fn snapshot(&self) -> EngineSnapshot;
    /// Whether the router can be asked what it would do.
    fn previews(&self) -> bool {
        true
    }
    /// Called on a thread of its own; may take as long as the tokenizer needs.
    fn preview(&self, request: &ChatRequest) -> Result<RoutingDecision, String>;
    /// Tokens of a text, where this side has the tokenizer. Called as `preview` is.
    fn count_tokens(&self, _text: &str) -> Option<usize> {
        None
    }
    /// Returns at once. Dropping the stream cancels the answer.
    fn submit(&self, request: ChatRequest) -> GenerationStream;
}

/// Where the words go that say how far something is that takes its time.
pub type Tell = Arc<dyn Fn(String) + Send + Sync>;

/// The models that can answer in place of the one that does. Called on threads of their own; may take their time.
pub trait Models: Send + Sync {
    /// An error is for people.
    fn list(&self) -> Result<Vec<ModelEntry>, String>;
    /// `tell` is told what takes its time, in a few words. `release` gives up the engine that answers now; it is called
    /// where there is no room for both, before anything is loaded.
    fn open(&self, name: &str, tell: &Tell, release: &dyn Fn()) -> Result<OpenedModel, RefusedModel>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelEntry {
    /// What `open` takes.
    pub name: String,
    pub about: String,
    /// It is the one that answers.
    pub is_open: bool,
}

pub struct OpenedModel {
    pub backend: Arc<dyn Backend>,
    /// With the numbers that this model suggests.
    pub answers: AnswerSettings,
}

/// A model that cannot answer.
pub struct RefusedModel {
    /// For people.
    pub error: String,
    /// The one before it, loaded again where it had been given up.
    pub instead: Option<Arc<dyn Backend>>,
}

impl Backend for Engine {
    fn snapshot(&self) -> EngineSnapshot {
        Self::snapshot(self)
    }

    fn preview(&self, request: &ChatRequest) -> Result<RoutingDecision, String> {
        Self::preview(self, request).map_err(|error| error.to_string())
    }

    fn count_tokens(&self, text: &str) -> Option<usize> {
        Self::count_tokens(self, text).ok()
    }

    fn submit(&self, request: ChatRequest) -> GenerationStream {
        Self::submit(self, request)
    }
}
