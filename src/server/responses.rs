//! `POST /v1/responses`: text in, text out. Answers are not kept, so that a conversation is always sent whole.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use serde_json::{Map, Value, json};

use super::answers::{Answers, Ask, Collected, route_headers};
use super::app::{App, unix_seconds};
use super::body::{json_object, json_response};
use super::chat::trace;
use super::error::ApiError;
use super::fields::{Fields, wrong_type};
use super::id::unique;
use super::messages::{check_count, content, format, thinking};
use super::parameters::Common;
use super::sse::{self, Encoder, Frames};
use crate::engine::{ChatMessage, ChatRequest, FinishReason, GenerationEvent, Role, RoutingDecision, Usage};

pub async fn create(State(app): State<Arc<App>>, body: Bytes) -> Result<Response, ApiError> {
    let call = Call::read(json_object(&body)?, &app)?;
    let (answers, decision) = Answers::open(&app, vec![Ask::Chat(call.request.clone())]).await?;
    let stream = call.common.stream;
    let head = Head::new(&app, call, decision.clone());
    let mut response = if stream {
        sse::respond(answers, Events::new(head))
    } else {
        let mut all = answers.collect().await?;
        json_response(&head.complete(&all.pop().unwrap_or_default()))
    };
    route_headers(&decision, response.headers_mut());
    Ok(response)
}

struct Call {
    common: Common,
    request: ChatRequest,
    /// What the response says of the request.
    echoed: Map<String, Value>,
}

/// Fields of the API that ask for what is not here, and why not.
const UNSUPPORTED: [(&str, &str); 8] = [
    ("previous_response_id", "answers are not kept; send the whole conversation as 'input'"),
    ("conversation", "answers are not kept; send the whole conversation as 'input'"),
    ("tools", "use /v1/chat/completions for tools"),
    ("tool_choice", "use /v1/chat/completions for tools"),
    ("prompt", "no prompts are kept here"),
    ("max_tool_calls", "use /v1/chat/completions for tools"),
    ("top_logprobs", "use /v1/chat/completions for log probabilities"),
    ("n", "a response has one answer"),
];

impl Call {
    fn read(mut fields: Fields, app: &App) -> Result<Self, ApiError> {
        for (name, why) in UNSUPPORTED {
            let nothing = |value: &Value| {
                value.as_array().is_some_and(Vec::is_empty) || matches!(value.as_str(), Some("auto" | "none"))
            };
            if fields.take(name).is_some_and(|value| !nothing(&value)) {
                return Err(fields.unsupported(name, why));
            }
        }
        fields.only("background", &json!(false), "an answer is waited for")?;
        fields.only("include", &json!([]), "there is nothing to include")?;
        // Without tools it says nothing.
        fields.ignore(&["parallel_tool_calls", "stream_options"]);
        let metadata = fields.take("metadata").unwrap_or_else(|| json!({}));
        let common = Common::take(&mut fields, app)?;
        let instructions = fields.string("instructions")?;
        let max_tokens = fields.count("max_output_tokens", 1..=usize::MAX)?;
        let trims = fields.one_of("truncation", &[("disabled", false), ("auto", true)])?.unwrap_or(false);
        let (format, format_echo) = text(&mut fields)?;
        let effort = match fields.object("reasoning")? {
            Some(mut reasoning) => {
                let effort = thinking(&mut reasoning, "effort")?;
                reasoning.ignore(&["summary", "generate_summary"]);
                if let Some(objection) = effort.and_then(|wish| app.engine.snapshot().thinking.objection(wish)) {
                    return Err(reasoning.unsupported("effort", objection));
                }
                reasoning.finish()?;
                effort
            }
            None => None,
        };
        let system = instructions.iter().map(|text| ChatMessage::new(Role::System, text.as_str()));
        let messages = system.chain(input(&mut fields, app.limits.messages)?).collect();
        fields.finish()?;
        let request = ChatRequest {
            whole: !(common.extension.trim || trims),
            fresh: common.extension.fresh,
            format,
            sampling: common.sampling.clone(),
            max_tokens: max_tokens.unwrap_or(app.defaults.max_tokens),
            stop: common.stop.clone(),
            thinking: effort.or(common.thinking),
            policy: common.policy,
            lane: common.lane,
            allow_remote: app.defaults.allow_remote,
            ..ChatRequest::new(app.instructed(messages))
        };
        let echoed = json!({
            "instructions": instructions,
            "max_output_tokens": max_tokens,
            "metadata": metadata,
            "parallel_tool_calls": true,
            "previous_response_id": null,
            "reasoning": {"effort": null, "summary": null},
            "store": false,
            "temperature": common.sampling.temperature,
            "text": {"format": format_echo},
            "tool_choice": "auto",
            "tools": [],
            "top_p": common.sampling.top_p,
            "truncation": if trims { "auto" } else { "disabled" },
        });
        let Value::Object(echoed) = echoed else { return Err(ApiError::server("no object")) };
        Ok(Self { common, request, echoed })
    }
}

/// The field `text`, as it is read and as it is said back.
fn text(fields: &mut Fields) -> Result<(crate::engine::AnswerFormat, Value), ApiError> {
    let Some(mut text) = fields.object("text")? else { return Ok((format(None, true)?, json!({"type": "text"}))) };
    text.only("verbosity", &json!("medium"), "models here know no such choice")?;
    let said = text.object("format")?;
    let path = text.path_of("format");
    text.finish()?;
    let said = said.map(Fields::into_value);
    let echoed = said.clone().unwrap_or_else(|| json!({"type": "text"}));
    let fields = said.map(|value| Fields::of(value, path)).transpose()?;
    Ok((format(fields, true)?, echoed))
}

/// A text, or messages of text.
fn input(fields: &mut Fields, most: usize) -> Result<Vec<ChatMessage>, ApiError> {
    let path = fields.path_of("input");
    let list = match fields.take("input").ok_or_else(|| fields.missing("input"))? {
        Value::String(text) => return Ok(vec![ChatMessage::new(Role::User, text)]),
        Value::Array(list) => list,
        other => return Err(wrong_type(&path, &other, "a string or a list of messages")),
    };
    check_count(&path, list.len(), most)?;
    let each =
        list.into_iter().enumerate().filter_map(|(index, value)| item(value, format!("{path}[{index}]")).transpose());
    each.collect()
}

/// One item; `None` for past thinking, which models are not shown.
fn item(value: Value, path: String) -> Result<Option<ChatMessage>, ApiError> {
    let mut fields = Fields::of(value, path)?;
    let is_message = fields.one_of("type", &[("message", true), ("reasoning", false)])?.unwrap_or(true);
    if !is_message {
        return Ok(None);
    }
    let roles =
        [("system", Role::System), ("developer", Role::System), ("user", Role::User), ("assistant", Role::Assistant)];
    let role = fields.one_of("role", &roles)?.ok_or_else(|| fields.missing("role"))?;
    let content = content(&mut fields, &["input_text", "output_text", "text"])?;
    let content = content.ok_or_else(|| fields.missing("content"))?;
    fields.ignore(&["id", "status", "phase"]);
    fields.finish()?;
    Ok(Some(ChatMessage::new(role, content)))
}

/// What all states of a response have in common.
struct Head {
    id: String,
    item: String,
    created: u64,
    model: String,
    decision: RoutingDecision,
    route_trace: bool,
    echoed: Map<String, Value>,
}

impl Head {
    fn new(app: &App, call: Call, decision: RoutingDecision) -> Self {
        Self {
            id: unique("resp"),
            item: unique("msg"),
            created: unix_seconds(),
            model: app.model().to_owned(),
            decision,
            route_trace: call.common.extension.route_trace,
            echoed: call.echoed,
        }
    }

    fn response(&self, status: &str, more: Value) -> Value {
        let mut response = Map::new();
        let head = json!({
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "status": status,
            "model": self.model,
            "error": null,
            "incomplete_details": null,
            "output": [],
            "usage": null,
        });
        for part in [head, self.echoed.clone().into(), more] {
            if let Value::Object(part) = part {
                response.extend(part);
            }
        }
        if self.route_trace {
            response.insert("ortalk".into(), trace(&self.decision));
        }
        response.into()
    }

    fn message(&self, status: &str, content: Vec<Value>) -> Value {
        json!({"id": self.item, "type": "message", "role": "assistant", "status": status, "content": content})
    }

    /// The response at its end. Of a model that thinks, only the answer is its text.
    fn complete(&self, answer: &Collected) -> Value {
        let (status, _) = status(answer.reason.as_ref());
        let details = (status == "incomplete").then(|| json!({"reason": "max_output_tokens"}));
        let more = json!({
            "incomplete_details": details,
            "output": [self.message(status, vec![part(&answer.text)])],
            "usage": usage(&answer.usage),
        });
        self.response(status, more)
    }
}

fn part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

/// A response's status at its end, and the event that says so.
fn status(reason: Option<&FinishReason>) -> (&'static str, &'static str) {
    match reason {
        Some(FinishReason::Length | FinishReason::ContextFull) => ("incomplete", "response.incomplete"),
        _ => ("completed", "response.completed"),
    }
}

fn usage(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.reused_tokens},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.thinking_tokens},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    })
}

/// The stream's events, by the API's names.
struct Events {
    head: Head,
    answer: Collected,
    sequence: u64,
}

impl Events {
    fn new(head: Head) -> Self {
        Self { head, answer: Collected::default(), sequence: 0 }
    }

    fn send(&mut self, kind: &str, fields: Value, frames: &mut Frames) {
        let mut event =
            Map::from_iter([("type".to_owned(), kind.into()), ("sequence_number".to_owned(), self.sequence.into())]);
        if let Value::Object(fields) = fields {
            event.extend(fields);
        }
        self.sequence += 1;
        frames.named(kind, &event.into());
    }

    /// Fields that say where in the response something is.
    fn place(&self, more: Value) -> Value {
        let mut place = json!({"item_id": self.head.item, "output_index": 0, "content_index": 0});
        if let (Value::Object(place), Value::Object(more)) = (&mut place, more) {
            place.extend(more);
        }
        place
    }

    fn text(&mut self, text: &str, frames: &mut Frames) {
        if !text.is_empty() {
            let fields = self.place(json!({"delta": text, "logprobs": []}));
            self.send("response.output_text.delta", fields, frames);
        }
    }
}

impl Encoder for Events {
    fn open(&mut self, frames: &mut Frames) {
        for kind in ["response.created", "response.in_progress"] {
            let response = self.head.response("in_progress", Value::Null);
            self.send(kind, json!({"response": response}), frames);
        }
        let item = self.head.message("in_progress", Vec::new());
        self.send("response.output_item.added", json!({"output_index": 0, "item": item}), frames);
        let fields = self.place(json!({"part": part("")}));
        self.send("response.content_part.added", fields, frames);
    }

    fn event(&mut self, _index: usize, event: &GenerationEvent, frames: &mut Frames) {
        match event {
            GenerationEvent::Token(token) => self.text(&token.text, frames),
            GenerationEvent::TrailingText { text, .. } => self.text(text, frames),
            _ => {}
        }
        self.answer.take(event.clone());
    }

    fn done(&mut self, frames: &mut Frames) {
        let text = self.answer.text.clone();
        let fields = self.place(json!({"text": text, "logprobs": []}));
        self.send("response.output_text.done", fields, frames);
        let fields = self.place(json!({"part": part(&text)}));
        self.send("response.content_part.done", fields, frames);
        let (status, kind) = status(self.answer.reason.as_ref());
        let item = self.head.message(status, vec![part(&text)]);
        self.send("response.output_item.done", json!({"output_index": 0, "item": item}), frames);
        let response = self.head.complete(&self.answer);
        self.send(kind, json!({"response": response}), frames);
    }

    fn failed(&mut self, error: &ApiError, frames: &mut Frames) {
        let details = json!({"code": error.code.unwrap_or(error.kind), "message": error.message});
        let output = vec![self.head.message("incomplete", vec![part(&self.answer.text)])];
        let response = self.head.response("failed", json!({"error": details, "output": output}));
        self.send("response.failed", json!({"response": response}), frames);
    }
}
