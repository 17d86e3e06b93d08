//! What the screen needs of an engine. `Engine` is the one that ships; tests bring a scripted one.

use crate::engine::{ChatRequest, Engine, EngineSnapshot, GenerationStream, RoutingDecision};

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
