//! `GenerationEvent` and all it is made of, both ways.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::Milliseconds;
use crate::engine::{
    self, ContextTrim, FinishReason, GenerationEvent, LaneChange, LaneId, Policy, PrefillProgress, PromptParts,
    RemoteUsage, RoutingDecision, Rule, TokenLogprob, TokenLogprobs,
};

/// `GenerationEvent`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    Routed(Routing),
    ContextTrimmed {
        dropped_messages: usize,
        tokens_before: usize,
        tokens_after: usize,
        context_limit: usize,
    },
    PrefillProgress {
        done: usize,
        total: usize,
        reused: usize,
    },
    Token(Token),
    TrailingText {
        thinking: String,
        text: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCallDelta>,
    },
    LaneChanged {
        from: LaneId,
        to: LaneId,
        after_tokens: usize,
        context_limit: usize,
        emulated: bool,
        reason: String,
    },
    Finished(Finished),
    /// Of a later version.
    #[serde(other)]
    Unknown,
}

/// `RoutingDecision`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Routing {
    pub lane: LaneId,
    pub execution_provider: String,
    pub emulated: bool,
    pub policy: Policy,
    pub rule: Rule,
    pub prompt_tokens: usize,
    /// Those of the whole conversation, where its oldest turns are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole_prompt_tokens: Option<usize>,
    /// What these are of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<PromptParts>,
    /// The longest answer that was asked for.
    pub max_tokens: usize,
    pub needed_tokens: usize,
    pub context_limit: usize,
    /// Estimates.
    pub predicted_ttft_ms: Option<Milliseconds>,
    pub predicted_total_ms: Option<Milliseconds>,
    pub rejected: Vec<Rejection>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rejection {
    pub lane: LaneId,
    pub reason: String,
    pub context_limit: usize,
    pub predicted_total_ms: Option<Milliseconds>,
}

/// `engine::Token`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Token {
    pub text: String,
    pub thinking: String,
    pub thinks: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCallDelta>,
    pub id: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logprobs: Option<Logprobs>,
    /// When it was chosen.
    pub at_ms: Milliseconds,
    pub lane: LaneId,
}

/// `engine::ToolCallDelta`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToolCallDelta {
    Start { index: usize, id: String, name: String },
    Arguments { index: usize, text: String },
}

/// `TokenLogprobs`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Logprobs {
    pub chosen: Logprob,
    pub top: Vec<Logprob>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Logprob {
    pub id: u32,
    pub bytes: Vec<u8>,
    /// JSON has no infinity: what has no chance at all is the least finite number.
    pub logprob: f32,
}

/// `engine::Finished`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    pub reason: Reason,
    /// Of an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    pub usage: Usage,
    pub timings: Timings,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    Stop,
    ToolCalls,
    Length,
    ContextFull,
    Cancelled,
    Error,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    pub prompt_tokens: usize,
    pub completion_tokens: usize,
    pub thinking_tokens: usize,
    pub reused_tokens: usize,
    /// What a server behind this one did of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<RemoteUsage>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Timings {
    pub ttft_ms: Option<Milliseconds>,
    pub model_ttft_ms: Option<Milliseconds>,
    pub prefill_ms: Milliseconds,
    pub prefill_tokens: usize,
    pub token_latencies_ms: Vec<Milliseconds>,
}

impl Event {
    pub fn of(event: &GenerationEvent, submitted: Instant) -> Self {
        match event {
            GenerationEvent::Routed(decision) => Self::Routed(decision.into()),
            GenerationEvent::ContextTrimmed(trim) => {
                let ContextTrim { dropped_messages, tokens_before, tokens_after, context_limit } = *trim;
                Self::ContextTrimmed { dropped_messages, tokens_before, tokens_after, context_limit }
            }
            GenerationEvent::PrefillProgress(PrefillProgress { done, total, reused }) => {
                Self::PrefillProgress { done: *done, total: *total, reused: *reused }
            }
            GenerationEvent::Token(token) => Self::Token(Token {
                text: token.text.clone(),
                thinking: token.thinking.clone(),
                thinks: token.thinks,
                tool_calls: token.tool_calls.iter().cloned().map(Into::into).collect(),
                id: token.id,
                logprobs: token.logprobs.as_ref().map(Into::into),
                at_ms: token.at.saturating_duration_since(submitted).into(),
                lane: token.lane,
            }),
            GenerationEvent::TrailingText { thinking, text, tool_calls } => Self::TrailingText {
                thinking: thinking.clone(),
                text: text.clone(),
                tool_calls: tool_calls.iter().cloned().map(Into::into).collect(),
            },
            GenerationEvent::LaneChanged(change) => {
                let LaneChange { from, to, after_tokens, context_limit, emulated, reason } = change.clone();
                Self::LaneChanged { from, to, after_tokens, context_limit, emulated, reason }
            }
            GenerationEvent::Finished(finished) => Self::Finished(finished.into()),
        }
    }

    /// The engine's event, as if it had been submitted here at that time; `None` for one that is not known here.
    pub fn into_engine(self, submitted: Instant) -> Option<GenerationEvent> {
        Some(match self {
            Self::Routed(routing) => GenerationEvent::Routed(routing.into()),
            Self::ContextTrimmed { dropped_messages, tokens_before, tokens_after, context_limit } => {
                let trim = ContextTrim { dropped_messages, tokens_before, tokens_after, context_limit };
                GenerationEvent::ContextTrimmed(trim)
            }
            Self::PrefillProgress { done, total, reused } => {
                GenerationEvent::PrefillProgress(PrefillProgress { done, total, reused })
            }
            Self::Token(token) => GenerationEvent::Token(engine::Token {
                text: token.text,
                thinking: token.thinking,
                thinks: token.thinks,
                tool_calls: token.tool_calls.into_iter().map(Into::into).collect(),
                id: token.id,
                logprobs: token.logprobs.map(Into::into),
                at: submitted.checked_add(token.at_ms.into()).unwrap_or(submitted),
                lane: token.lane,
            }),
            Self::TrailingText { thinking, text, tool_calls } => {
                let tool_calls = tool_calls.into_iter().map(Into::into).collect();
                GenerationEvent::TrailingText { thinking, text, tool_calls }
            }
            Self::LaneChanged { from, to, after_tokens, context_limit, emulated, reason } => {
                let change = LaneChange { from, to, after_tokens, context_limit, emulated, reason };
                GenerationEvent::LaneChanged(change)
            }
            Self::Finished(finished) => GenerationEvent::Finished(finished.into()),
            Self::Unknown => return None,
        })
    }
}

impl From<engine::ToolCallDelta> for ToolCallDelta {
    fn from(delta: engine::ToolCallDelta) -> Self {
        match delta {
            engine::ToolCallDelta::Start { index, id, name } => Self::Start { index, id, name },
            engine::ToolCallDelta::Arguments { index, text } => Self::Arguments { index, text },
        }
    }
}

impl From<ToolCallDelta> for engine::ToolCallDelta {
    fn from(delta: ToolCallDelta) -> Self {
        match delta {
            ToolCallDelta::Start { index, id, name } => Self::Start { index, id, name },
            ToolCallDelta::Arguments { index, text } => Self::Arguments { index, text },
        }
    }
}

impl From<&TokenLogprobs> for Logprobs {
    fn from(logprobs: &TokenLogprobs) -> Self {
        let of = |token: &TokenLogprob| Logprob {
            id: token.id,
            bytes: token.bytes.clone(),
            logprob: token.logprob.max(f32::MIN),
        };
        Self { chosen: of(&logprobs.chosen), top: logprobs.top.iter().map(of).collect() }
    }
}

impl From<Logprobs> for TokenLogprobs {
    fn from(logprobs: Logprobs) -> Self {
        let of = |token: Logprob| TokenLogprob { id: token.id, bytes: token.bytes, logprob: token.logprob };
        Self { chosen: of(logprobs.chosen), top: logprobs.top.into_iter().map(of).collect() }
    }
}

impl From<&RoutingDecision> for Routing {
    fn from(decision: &RoutingDecision) -> Self {
        let rejected = decision.rejected.iter().map(|other| Rejection {
            lane: other.lane,
            reason: other.reason.clone(),
            context_limit: other.context_limit,
            predicted_total_ms: other.predicted_total.map(Into::into),
        });
        Self {
            lane: decision.lane,
            execution_provider: decision.execution_provider.clone(),
            emulated: decision.emulated,
            policy: decision.policy,
            rule: decision.rule,
            prompt_tokens: decision.prompt_tokens,
            whole_prompt_tokens: decision.whole_prompt_tokens,
            parts: decision.parts,
            max_tokens: decision.answer_tokens,
            needed_tokens: decision.needed_tokens,
            context_limit: decision.context_limit,
            predicted_ttft_ms: decision.predicted_ttft.map(Into::into),
            predicted_total_ms: decision.predicted_total.map(Into::into),
            rejected: rejected.collect(),
        }
    }
}

impl From<Routing> for RoutingDecision {
    fn from(routing: Routing) -> Self {
        let rejected = routing.rejected.into_iter().map(|other| engine::Rejection {
            lane: other.lane,
            reason: other.reason,
            context_limit: other.context_limit,
            predicted_total: other.predicted_total_ms.map(Into::into),
        });
        Self {
            lane: routing.lane,
            execution_provider: routing.execution_provider,
            emulated: routing.emulated,
            policy: routing.policy,
            rule: routing.rule,
            prompt_tokens: routing.prompt_tokens,
            whole_prompt_tokens: routing.whole_prompt_tokens,
            parts: routing.parts,
            answer_tokens: routing.max_tokens,
            needed_tokens: routing.needed_tokens,
            context_limit: routing.context_limit,
            predicted_ttft: routing.predicted_ttft_ms.map(Into::into),
            predicted_total: routing.predicted_total_ms.map(Into::into),
            rejected: rejected.collect(),
        }
    }
}

impl From<&engine::Finished> for Finished {
    fn from(finished: &engine::Finished) -> Self {
        let engine::Finished { reason, usage, timings } = finished;
        let (reason, message) = match reason {
            FinishReason::Stop => (Reason::Stop, None),
            FinishReason::ToolCalls => (Reason::ToolCalls, None),
            FinishReason::Length => (Reason::Length, None),
            FinishReason::ContextFull => (Reason::ContextFull, None),
            FinishReason::Cancelled => (Reason::Cancelled, None),
            FinishReason::Error(message) => (Reason::Error, Some(message.clone())),
        };
        Self {
            reason,
            message,
            usage: Usage {
                prompt_tokens: usage.prompt_tokens,
                completion_tokens: usage.completion_tokens,
                thinking_tokens: usage.thinking_tokens,
                reused_tokens: usage.reused_tokens,
                remote: usage.remote,
            },
            timings: Timings {
                ttft_ms: timings.ttft.map(Into::into),
                model_ttft_ms: timings.model_ttft.map(Into::into),
                prefill_ms: timings.prefill.into(),
                prefill_tokens: timings.prefill_tokens,
                token_latencies_ms: timings.token_latencies.iter().map(|latency| (*latency).into()).collect(),
            },
        }
    }
}

impl From<Finished> for engine::Finished {
    fn from(finished: Finished) -> Self {
        let Finished { reason, message, usage, timings } = finished;
        let reason = match reason {
            Reason::Stop => FinishReason::Stop,
            Reason::ToolCalls => FinishReason::ToolCalls,
            Reason::Length => FinishReason::Length,
            Reason::ContextFull => FinishReason::ContextFull,
            Reason::Cancelled => FinishReason::Cancelled,
            Reason::Error => FinishReason::Error(message.unwrap_or_else(|| "the server gave no reason".to_owned())),
        };
        Self {
            reason,
            usage: engine::Usage {
                prompt_tokens: usage.prompt_tokens,
                completion_tokens: usage.completion_tokens,
                thinking_tokens: usage.thinking_tokens,
                reused_tokens: usage.reused_tokens,
                remote: usage.remote,
            },
            timings: engine::Timings {
                ttft: timings.ttft_ms.map(Into::into),
                model_ttft: timings.model_ttft_ms.map(Into::into),
                prefill: timings.prefill_ms.into(),
                prefill_tokens: timings.prefill_tokens,
                token_latencies: timings.token_latencies_ms.into_iter().map(Into::into).collect(),
            },
        }
    }
}
