//! What the engine reports while it answers. Every front end gets the same events.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::lane::{LaneId, TokenPrice};
use super::route::RoutingDecision;
use super::tools::ToolCallDelta;
use crate::telemetry::latency::tokens_per_second;

#[derive(Debug, Clone, PartialEq)]
pub enum GenerationEvent {
    /// A lane was chosen; always the first event, unless the request was refused.
    Routed(RoutingDecision),
    /// The conversation was longer than the lane's context: its oldest turns were left out of this prompt.
    ContextTrimmed(ContextTrim),
    /// Sent after each chunk of the prompt, the first time before any work was done. After a change of the lane the
    /// answer so far counts as prompt.
    PrefillProgress(PrefillProgress),
    Token(Token),
    /// Text that was held back, as a possible stop text or an incomplete character, until the answer ended. It belongs
    /// to tokens that were reported already.
    TrailingText {
        thinking: String,
        text: String,
        tool_calls: Vec<ToolCallDelta>,
    },
    /// The answer goes on in another lane, which runs prompt and answer so far again: more `PrefillProgress` follows.
    LaneChanged(LaneChange),
    /// Always the last event.
    Finished(Finished),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneChange {
    pub from: LaneId,
    pub to: LaneId,
    /// Tokens of the answer before the change.
    pub after_tokens: usize,
    /// Of the new lane, in tokens.
    pub context_limit: usize,
    /// The new lane runs on a simulator.
    pub emulated: bool,
    /// For people: "its context of 512 tokens is full", "it failed: ...".
    pub reason: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextTrim {
    pub dropped_messages: usize,
    /// Prompt tokens before and after.
    pub tokens_before: usize,
    pub tokens_after: usize,
    /// The lane's context, in tokens.
    pub context_limit: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefillProgress {
    /// Tokens of the prompt whose keys and values are in the cache, the reused ones included.
    pub done: usize,
    pub total: usize,
    /// Tokens that an earlier turn had left in the cache.
    pub reused: usize,
}

/// One token. A server gives text alone, in pieces as it likes; each of them counts as one until the server has said how
/// many there were.
#[derive(Debug, Clone, PartialEq)]
pub struct Token {
    /// What it adds to the answer. Empty while a character or a possible stop text is not complete, and while the model
    /// thinks.
    pub text: String,
    /// What it adds to the thinking, which comes before the answer.
    pub thinking: String,
    /// It is part of the thinking, whose markers are not among its text.
    pub thinks: bool,
    /// What it adds to calls of tools, whose text is not part of the answer.
    pub tool_calls: Vec<ToolCallDelta>,
    /// [`Token::NO_ID`] for a server's piece.
    pub id: u32,
    /// Where they were asked for.
    pub logprobs: Option<TokenLogprobs>,
    /// When the token was chosen, on the lane's own thread.
    pub at: Instant,
    pub lane: LaneId,
}

impl Token {
    /// No model has so many tokens.
    pub const NO_ID: u32 = u32::MAX;
}

/// How likely a token was among all that the model has: the log softmax of its logits, before anything that is asked of
/// the sampling changes them.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenLogprobs {
    pub chosen: TokenLogprob,
    /// The most likely ones, the most likely first.
    pub top: Vec<TokenLogprob>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct TokenLogprob {
    pub id: u32,
    /// What the token stands for: text, or part of a character.
    pub bytes: Vec<u8>,
    /// Natural logarithm.
    pub logprob: f32,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    pub reason: FinishReason,
    pub usage: Usage,
    pub timings: Timings,
}

impl Finished {
    /// The end of an answer that nothing was measured of.
    pub fn error(reason: String) -> Self {
        Self { reason: FinishReason::Error(reason), usage: Usage::default(), timings: Timings::default() }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FinishReason {
    /// The model ended its answer, or a stop text was met.
    Stop,
    /// The answer ends with calls of tools, whose results the model wants.
    ToolCalls,
    /// `max_tokens` was reached.
    Length,
    /// The context has no room for another token.
    ContextFull,
    Cancelled,
    Error(String),
}

impl FinishReason {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::ToolCalls => "tool_calls",
            Self::Length | Self::ContextFull => "length",
            Self::Cancelled => "cancelled",
            Self::Error(_) => "error",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// All tokens of the prompt, the reused ones included.
    pub prompt_tokens: usize,
    pub completion_tokens: usize,
    /// Those among them that are thinking, with its markers.
    pub thinking_tokens: usize,
    /// Prompt tokens whose keys and values an earlier turn had left in the cache.
    pub reused_tokens: usize,
    /// What a server had to do with it, and is paid for.
    pub remote: Option<RemoteUsage>,
}

/// The tokens that went to a server and came from it, all of its tries for one answer together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RemoteUsage {
    pub prompt_tokens: usize,
    pub completion_tokens: usize,
    /// The server did not say: they were counted with the tokenizer of the local model, or by pieces.
    pub is_estimate: bool,
}

impl RemoteUsage {
    /// Of two parts.
    pub fn sum(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        let (Some(one), Some(other)) = (one, other) else { return one.or(other) };
        Some(Self {
            prompt_tokens: one.prompt_tokens + other.prompt_tokens,
            completion_tokens: one.completion_tokens + other.completion_tokens,
            is_estimate: one.is_estimate || other.is_estimate,
        })
    }

    pub fn cost(self, price: TokenPrice) -> f64 {
        price.of(self.prompt_tokens, self.completion_tokens)
    }
}

/// All times are from the monotonic clock of the lanes' threads.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Timings {
    /// From the request's submission to the first token.
    pub ttft: Option<Duration>,
    /// From the start of the first pass over the prompt to the first token: what is left of `ttft` without template,
    /// tokenizer, routing and waiting for the lane.
    pub model_ttft: Option<Duration>,
    /// The forward passes over the new part of the prompt, on the lane that gave the first token.
    pub prefill: Duration,
    pub prefill_tokens: usize,
    /// Time between each token and the one before it; the first token has none. A change of the lane is one long one.
    pub token_latencies: Vec<Duration>,
}

impl Timings {
    /// New prompt tokens per second of prefill.
    pub fn prefill_tokens_per_second(&self) -> Option<f64> {
        let seconds = self.prefill.as_secs_f64();
        (self.prefill_tokens > 0 && seconds > 0.0).then(|| self.prefill_tokens as f64 / seconds)
    }

    /// Tokens after the first per second of decode.
    pub fn decode_tokens_per_second(&self) -> Option<f64> {
        tokens_per_second(&self.token_latencies)
    }
}
