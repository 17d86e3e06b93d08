//! `POST /v1/chat/completions`.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use serde_json::{Map, Value, json};

use super::answers::{Answers, Ask, Collected, route_headers};
use super::app::{App, unix_seconds};
use super::body::{json_object, json_response};
use super::error::ApiError;
use super::fields::Fields;
use super::id::unique;
use super::messages::{calls_as_json, format, messages, thinking, tools};
use super::parameters::{Common, stream_options};
use super::sse::{self, Encoder, Frames};
use crate::engine::{
    ChatRequest, FinishReason, GenerationEvent, RemoteUsage, RoutingDecision, TokenLogprob, TokenLogprobs,
    ToolCallDelta, Usage,
};
use crate::wire::{AnswerExtension, Event};

/// As OpenAI limits it.
const MOST_TOP_LOGPROBS: usize = 20;

pub async fn create(State(app): State<Arc<App>>, body: Bytes) -> Result<Response, ApiError> {
    let call = Call::read(json_object(&body)?, &app)?;
    let (answers, decision) = Answers::open(&app, call.asks()).await?;
    let head = Head::new(&app, "chatcmpl");
    let mut response = if call.common.stream {
        let chunks = Chunks::new(head, &call, &answers, decision.clone());
        sse::respond(answers, chunks)
    } else {
        let all = answers.collect().await?;
        json_response(&complete(&head, &call, &all, &decision))
    };
    route_headers(&decision, response.headers_mut());
    Ok(response)
}

/// A request, checked.
struct Call {
    common: Common,
    request: ChatRequest,
    include_usage: bool,
}

impl Call {
    fn read(mut fields: Fields, app: &App) -> Result<Self, ApiError> {
        let common = Common::take(&mut fields, app)?;
        let messages = messages(&mut fields, app.limits.messages)?;
        let (tools, tool_choice, parallel_tool_calls) = tools(&mut fields)?;
        let format_field = fields.object("response_format")?;
        let effort = thinking(&mut fields, "reasoning_effort")?;
        let include_usage = stream_options(&mut fields, common.stream)?;
        let request = ChatRequest {
            continue_last: fields.boolean("continue_final_message")?.unwrap_or(false),
            whole: !common.extension.trim,
            fresh: common.extension.fresh,
            tools,
            tool_choice,
            parallel_tool_calls,
            format: format(format_field, false)?,
            max_tokens: max_tokens(&mut fields)?.unwrap_or(app.defaults.max_tokens),
            stop: common.stop.clone(),
            logprobs: logprobs(&mut fields)?,
            thinking: effort.or(common.thinking),
            policy: common.policy,
            lane: common.lane,
            // Whoever started the server says what it may send on.
            allow_remote: app.defaults.allow_remote,
            ..ChatRequest::new(app.instructed(messages))
        };
        if let Some(objection) = effort.and_then(|wish| app.engine.snapshot().thinking.objection(wish)) {
            return Err(fields.unsupported("reasoning_effort", objection));
        }
        fields.only("modalities", &json!(["text"]), "this server answers with text alone")?;
        fields.only("verbosity", &json!("medium"), "models here know no such choice")?;
        for (name, why) in [
            ("audio", "this server answers with text alone"),
            ("prediction", "there is no speculative decoding"),
            ("web_search_options", "this server searches nothing"),
        ] {
            if fields.take(name).is_some() {
                return Err(fields.unsupported(name, why));
            }
        }
        fields.finish()?;
        Ok(Self { common, request, include_usage })
    }

    fn asks(&self) -> Vec<Ask> {
        let of = |choice| Ask::Chat(ChatRequest { sampling: self.common.sampling_of(choice), ..self.request.clone() });
        (0..self.common.choices).map(of).collect()
    }
}

/// Either name of the longest answer.
fn max_tokens(fields: &mut Fields) -> Result<Option<usize>, ApiError> {
    let new = fields.count("max_completion_tokens", 1..=usize::MAX)?;
    let old = fields.count("max_tokens", 1..=usize::MAX)?;
    match (new, old) {
        (Some(new), Some(old)) if new != old => {
            let message = format!("'max_tokens' is {old} and 'max_completion_tokens' {new}; they mean the same");
            Err(ApiError::param("max_tokens", "invalid_value", message))
        }
        (new, old) => Ok(new.or(old)),
    }
}

fn logprobs(fields: &mut Fields) -> Result<Option<usize>, ApiError> {
    let wanted = fields.boolean("logprobs")?.unwrap_or(false);
    let top = fields.count("top_logprobs", 0..=MOST_TOP_LOGPROBS)?;
    match (wanted, top) {
        (false, Some(1..)) => {
            let message = "'top_logprobs' needs 'logprobs' to be true";
            Err(ApiError::param("top_logprobs", "invalid_value", message))
        }
        (false, _) => Ok(None),
        (true, top) => Ok(Some(top.unwrap_or(0))),
    }
}

/// What all parts of a response have in common.
pub struct Head {
    pub id: String,
    pub created: u64,
    pub model: String,
}

impl Head {
    pub fn new(app: &App, prefix: &str) -> Self {
        Self { id: unique(prefix), created: unix_seconds(), model: app.model().to_owned() }
    }

    pub fn object(&self, kind: &str, choices: Vec<Value>) -> Map<String, Value> {
        let head = json!({
            "id": self.id, "object": kind, "created": self.created, "model": self.model, "choices": choices
        });
        match head {
            Value::Object(map) => map,
            _ => Map::new(),
        }
    }
}

fn complete(head: &Head, call: &Call, all: &[Collected], decision: &RoutingDecision) -> Value {
    let choice = |(index, answer): (usize, &Collected)| {
        let has_calls = !answer.tool_calls.is_empty();
        let content = if has_calls && answer.text.is_empty() { Value::Null } else { answer.text.as_str().into() };
        let mut message = json!({"role": "assistant", "content": content, "refusal": null});
        if !answer.thinking.is_empty() {
            message["reasoning_content"] = answer.thinking.as_str().into();
        }
        if has_calls {
            message["tool_calls"] = calls_as_json(&answer.tool_calls).into();
        }
        json!({
            "index": index,
            "message": message,
            "logprobs": call.request.logprobs.map(|_| logprobs_as_json(&answer.logprobs)),
            "finish_reason": answer.reason.as_ref().map(FinishReason::name),
        })
    };
    let mut object = head.object("chat.completion", all.iter().enumerate().map(choice).collect());
    object.insert("usage".into(), usage_as_json(&sum(all.iter().map(|answer| &answer.usage))));
    object.insert("system_fingerprint".into(), fingerprint());
    if call.common.extension.route_trace {
        object.insert("ortalk".into(), trace(decision));
    }
    object.into()
}

/// The whole routing decision.
pub fn trace(decision: &RoutingDecision) -> Value {
    json!(AnswerExtension { route: Some(decision.into()), events: Vec::new() })
}

/// What decides, besides the seed, whether the same request gives the same text.
pub fn fingerprint() -> Value {
    concat!("ortalk-", env!("CARGO_PKG_VERSION")).into()
}

/// The prompt counts once, however many answers there are.
pub fn sum<'a>(usages: impl Iterator<Item = &'a Usage>) -> Usage {
    usages.fold(Usage::default(), |sum, usage| Usage {
        prompt_tokens: usage.prompt_tokens,
        completion_tokens: sum.completion_tokens + usage.completion_tokens,
        thinking_tokens: sum.thinking_tokens + usage.thinking_tokens,
        reused_tokens: usage.reused_tokens.max(sum.reused_tokens),
        remote: RemoteUsage::sum(sum.remote, usage.remote),
    })
}

pub fn usage_as_json(usage: &Usage) -> Value {
    json!({
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.reused_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.thinking_tokens},
    })
}

fn logprobs_as_json(logprobs: &[TokenLogprobs]) -> Value {
    let token = |token: &TokenLogprob| {
        json!({
            "token": String::from_utf8_lossy(&token.bytes),
            "logprob": token.logprob.max(f32::MIN),
            "bytes": token.bytes,
        })
    };
    let each = logprobs.iter().map(|found| {
        let mut chosen = token(&found.chosen);
        chosen["top_logprobs"] = found.top.iter().map(token).collect();
        chosen
    });
    json!({"content": each.collect::<Vec<_>>(), "refusal": null})
}

/// The answers as chunks of a stream.
struct Chunks {
    head: Head,
    decision: RoutingDecision,
    usages: Vec<Usage>,
    submitted: Vec<Instant>,
    logprobs: bool,
    include_usage: bool,
    route_trace: bool,
    events: bool,
}

impl Chunks {
    fn new(head: Head, call: &Call, answers: &Answers, decision: RoutingDecision) -> Self {
        Self {
            head,
            decision,
            usages: vec![Usage::default(); call.common.choices],
            submitted: (0..answers.count()).map(|index| answers.submitted(index)).collect(),
            logprobs: call.request.logprobs.is_some(),
            include_usage: call.include_usage,
            route_trace: call.common.extension.route_trace,
            events: call.common.extension.events,
        }
    }

    fn chunk(&self, choices: Vec<Value>) -> Map<String, Value> {
        let mut chunk = self.head.object("chat.completion.chunk", choices);
        chunk.insert("system_fingerprint".into(), fingerprint());
        if self.include_usage {
            chunk.insert("usage".into(), Value::Null);
        }
        chunk
    }

    fn choice(&self, index: usize, delta: Value, logprobs: Option<&TokenLogprobs>, end: Option<&str>) -> Value {
        let logprobs = logprobs.filter(|_| self.logprobs);
        json!({
            "index": index,
            "delta": delta,
            "logprobs": logprobs.map(|found| logprobs_as_json(std::slice::from_ref(found))),
            "finish_reason": end,
        })
    }
}

impl Encoder for Chunks {
    fn open(&mut self, frames: &mut Frames) {
        let choice = |index| self.choice(index, json!({"role": "assistant", "content": ""}), None, None);
        let mut chunk = self.chunk((0..self.usages.len()).map(choice).collect());
        if self.route_trace {
            chunk.insert("ortalk".into(), trace(&self.decision));
        }
        frames.data(&chunk.into());
    }

    fn event(&mut self, index: usize, event: &GenerationEvent, frames: &mut Frames) {
        let choice = match event {
            GenerationEvent::Token(token) => {
                let delta = delta(&token.thinking, &token.text, &token.tool_calls);
                let logprobs = token.logprobs.as_ref().filter(|_| !token.thinks);
                (delta.is_some() || logprobs.is_some())
                    .then(|| self.choice(index, delta.unwrap_or_else(|| json!({"content": ""})), logprobs, None))
            }
            GenerationEvent::TrailingText { thinking, text, tool_calls } => {
                delta(thinking, text, tool_calls).map(|delta| self.choice(index, delta, None, None))
            }
            GenerationEvent::Finished(finished) => {
                self.usages[index] = finished.usage;
                Some(self.choice(index, json!({}), None, Some(finished.reason.name())))
            }
            GenerationEvent::Routed(_)
            | GenerationEvent::ContextTrimmed(_)
            | GenerationEvent::PrefillProgress(_)
            | GenerationEvent::LaneChanged(_) => None,
        };
        if choice.is_none() && !self.events {
            return;
        }
        let mut chunk = self.chunk(choice.into_iter().collect());
        if self.events {
            let events = vec![Event::of(event, self.submitted[index])];
            chunk.insert("ortalk".into(), json!(AnswerExtension { route: None, events }));
        }
        frames.data(&chunk.into());
    }

    fn done(&mut self, frames: &mut Frames) {
        if self.include_usage {
            let mut chunk = self.chunk(Vec::new());
            chunk.insert("usage".into(), usage_as_json(&sum(self.usages.iter())));
            frames.data(&chunk.into());
        }
        frames.end();
    }

    fn failed(&mut self, error: &ApiError, frames: &mut Frames) {
        frames.data(&error.body());
        frames.end();
    }
}

/// What an event adds to an answer; `None` where that is nothing.
fn delta(thinking: &str, text: &str, calls: &[ToolCallDelta]) -> Option<Value> {
    let mut delta = Map::new();
    if !thinking.is_empty() {
        delta.insert("reasoning_content".into(), thinking.into());
    }
    if !text.is_empty() {
        delta.insert("content".into(), text.into());
    }
    if !calls.is_empty() {
        let call = |call: &ToolCallDelta| match call {
            ToolCallDelta::Start { index, id, name } => json!({
                "index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}
            }),
            ToolCallDelta::Arguments { index, text } => json!({"index": index, "function": {"arguments": text}}),
        };
        delta.insert("tool_calls".into(), calls.iter().map(call).collect());
    }
    (!delta.is_empty()).then(|| delta.into())
}
