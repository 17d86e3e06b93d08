//! `POST /v1/completions`: text that is gone on with as it is, without a chat template.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use serde_json::{Map, Value, json};

use super::answers::{Answers, Ask, Collected, route_headers};
use super::app::App;
use super::body::{json_object, json_response};
use super::chat::{Head, fingerprint, sum, trace, usage_as_json};
use super::error::ApiError;
use super::fields::{Fields, wrong_type, wrong_value};
use super::parameters::{Common, stream_options};
use super::sse::{self, Encoder, Frames};
use crate::engine::{
    CompletionRequest, FinishReason, GenerationEvent, RawPrompt, RemoteUsage, RoutingDecision, TokenLogprobs, Usage,
};
use crate::wire::{AnswerExtension, Event};

/// OpenAI's default.
const DEFAULT_MAX_TOKENS: usize = 16;
/// As OpenAI limits it.
const MOST_LOGPROBS: usize = 5;
/// Prompts in one request.
const MOST_PROMPTS: usize = 128;

pub async fn create(State(app): State<Arc<App>>, body: Bytes) -> Result<Response, ApiError> {
    let call = Call::read(json_object(&body)?, &app)?;
    let (answers, decision) = Answers::open(&app, call.asks()).await?;
    let head = Head::new(&app, "cmpl");
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

struct Call {
    common: Common,
    prompts: Vec<RawPrompt>,
    max_tokens: usize,
    logprobs: Option<usize>,
    /// What comes before each answer, by its prompt; empty where nothing does.
    echo: Vec<String>,
    include_usage: bool,
}

impl Call {
    fn read(mut fields: Fields, app: &App) -> Result<Self, ApiError> {
        let common = Common::take(&mut fields, app)?;
        let prompts = prompts(&mut fields)?;
        let logprobs = fields.count("logprobs", 0..=MOST_LOGPROBS)?;
        let include_usage = stream_options(&mut fields, common.stream)?;
        let max_tokens = fields.count("max_tokens", 1..=usize::MAX)?.unwrap_or(DEFAULT_MAX_TOKENS);
        let echo = fields.boolean("echo")?.unwrap_or(false);
        if echo && logprobs.is_some() {
            return Err(fields.unsupported("echo", "not together with 'logprobs', as a prompt's are not computed"));
        }
        let echo = prompts.iter().map(|prompt| match prompt {
            RawPrompt::Text(text) if echo => Ok(text.clone()),
            RawPrompt::Tokens(_) if echo => Err(fields.unsupported("echo", "not for a prompt of tokens")),
            _ => Ok(String::new()),
        });
        let echo = echo.collect::<Result<_, _>>()?;
        if fields.take("suffix").is_some_and(|suffix| suffix != json!("")) {
            return Err(fields.unsupported("suffix", "models here write on from the end alone"));
        }
        let why = "as many are made as are sent back; ask for more by 'n'";
        fields.only("best_of", &json!(common.choices), why)?;
        fields.finish()?;
        Ok(Self { common, prompts, max_tokens, logprobs, echo, include_usage })
    }

    /// The answers of the first prompt, then those of the next one.
    fn asks(&self) -> Vec<Ask> {
        let of = |prompt: &RawPrompt, choice| {
            Ask::Complete(CompletionRequest {
                prompt: prompt.clone(),
                sampling: self.common.sampling_of(choice),
                max_tokens: self.max_tokens,
                stop: self.common.stop.clone(),
                logprobs: self.logprobs,
                policy: self.common.policy,
                lane: self.common.lane,
            })
        };
        let choices = 0..self.common.choices;
        self.prompts.iter().flat_map(|prompt| choices.clone().map(move |choice| of(prompt, choice))).collect()
    }

    fn echo(&self, index: usize) -> &str {
        self.echo.get(index / self.common.choices).map_or("", String::as_str)
    }
}

/// A text, several, tokens, or several lists of them.
fn prompts(fields: &mut Fields) -> Result<Vec<RawPrompt>, ApiError> {
    let path = fields.path_of("prompt");
    let expected = "a string, a list of strings, a list of tokens, or a list of those";
    let value = fields.take("prompt").ok_or_else(|| fields.missing("prompt"))?;
    let token = |value: &Value, at: &str| {
        let token = value.as_u64().and_then(|token| u32::try_from(token).ok());
        token.ok_or_else(|| wrong_value(at, value, "a token's number"))
    };
    let tokens = |list: &[Value], at: &str| {
        let each = list.iter().enumerate().map(|(index, value)| token(value, &format!("{at}[{index}]")));
        each.collect::<Result<Vec<u32>, _>>().map(RawPrompt::Tokens)
    };
    let list = match value {
        Value::String(text) => return Ok(vec![RawPrompt::Text(text)]),
        Value::Array(list) if list.first().is_some_and(Value::is_number) => return Ok(vec![tokens(&list, &path)?]),
        Value::Array(list) => list,
        other => return Err(wrong_type(&path, &other, expected)),
    };
    super::messages::check_count(&path, list.len(), MOST_PROMPTS)?;
    let each = list.into_iter().enumerate().map(|(index, value)| match value {
        Value::String(text) => Ok(RawPrompt::Text(text)),
        Value::Array(list) => tokens(&list, &format!("{path}[{index}]")),
        other => Err(wrong_type(&format!("{path}[{index}]"), &other, "a string or a list of tokens")),
    });
    each.collect()
}

fn complete(head: &Head, call: &Call, all: &[Collected], decision: &RoutingDecision) -> Value {
    let choice = |(index, answer): (usize, &Collected)| {
        let mut logprobs = Logprobs::default();
        answer.logprobs.iter().for_each(|found| logprobs.push(found));
        let text = format!("{}{}", call.echo(index), answer.text);
        json!({
            "index": index,
            "text": text,
            "logprobs": call.logprobs.map(|_| logprobs.take()),
            "finish_reason": answer.reason.as_ref().map(FinishReason::name),
        })
    };
    let mut object = head.object("text_completion", all.iter().enumerate().map(choice).collect());
    let usages: Vec<Usage> = all.iter().map(|answer| answer.usage).collect();
    object.insert("usage".into(), usage_as_json(&total(&usages, call.common.choices)));
    object.insert("system_fingerprint".into(), fingerprint());
    if call.common.extension.route_trace {
        object.insert("ortalk".into(), trace(decision));
    }
    object.into()
}

/// Of all prompts, each counted once.
fn total(usages: &[Usage], choices: usize) -> Usage {
    let each = usages.chunks(choices.max(1)).map(|usages| sum(usages.iter()));
    each.fold(Usage::default(), |sum, usage| Usage {
        prompt_tokens: sum.prompt_tokens + usage.prompt_tokens,
        completion_tokens: sum.completion_tokens + usage.completion_tokens,
        thinking_tokens: sum.thinking_tokens + usage.thinking_tokens,
        reused_tokens: sum.reused_tokens + usage.reused_tokens,
        remote: RemoteUsage::sum(sum.remote, usage.remote),
    })
}

/// Log probabilities as the older API has them: one list for each property.
#[derive(Debug, Default)]
struct Logprobs {
    tokens: Vec<String>,
    logprobs: Vec<f32>,
    top: Vec<Value>,
    offsets: Vec<usize>,
    /// Characters of the answer so far.
    offset: usize,
}

impl Logprobs {
    fn push(&mut self, found: &TokenLogprobs) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let chosen = text(&found.chosen.bytes);
        self.offsets.push(self.offset);
        self.offset += chosen.chars().count();
        self.tokens.push(chosen);
        self.logprobs.push(found.chosen.logprob.max(f32::MIN));
        let top: Map<String, Value> =
            found.top.iter().map(|other| (text(&other.bytes), other.logprob.max(f32::MIN).into())).collect();
        self.top.push(top.into());
    }

    /// What came since it was taken the last time.
    fn take(&mut self) -> Value {
        let Self { tokens, logprobs, top, offsets, .. } = self;
        json!({
            "tokens": std::mem::take(tokens),
            "token_logprobs": std::mem::take(logprobs),
            "top_logprobs": std::mem::take(top),
            "text_offset": std::mem::take(offsets),
        })
    }
}

struct Chunks {
    head: Head,
    decision: RoutingDecision,
    choices: usize,
    usages: Vec<Usage>,
    submitted: Vec<Instant>,
    echo: Vec<String>,
    logprobs: Option<Vec<Logprobs>>,
    include_usage: bool,
    route_trace: bool,
    events: bool,
}

impl Chunks {
    fn new(head: Head, call: &Call, answers: &Answers, decision: RoutingDecision) -> Self {
        let count = answers.count();
        Self {
            head,
            decision,
            choices: call.common.choices,
            usages: vec![Usage::default(); count],
            submitted: (0..count).map(|index| answers.submitted(index)).collect(),
            echo: (0..count).map(|index| call.echo(index).to_owned()).collect(),
            logprobs: call.logprobs.map(|_| (0..count).map(|_| Logprobs::default()).collect()),
            include_usage: call.include_usage,
            route_trace: call.common.extension.route_trace,
            events: call.common.extension.events,
        }
    }

    fn chunk(&self, choices: Vec<Value>) -> Map<String, Value> {
        let mut chunk = self.head.object("text_completion", choices);
        chunk.insert("system_fingerprint".into(), fingerprint());
        if self.include_usage {
            chunk.insert("usage".into(), Value::Null);
        }
        chunk
    }

    fn choice(&mut self, index: usize, text: &str, found: Option<&TokenLogprobs>, end: Option<&str>) -> Value {
        let logprobs = found.and_then(|found| {
            let logprobs = self.logprobs.as_mut()?.get_mut(index)?;
            logprobs.push(found);
            Some(logprobs.take())
        });
        json!({"index": index, "text": text, "logprobs": logprobs, "finish_reason": end})
    }
}

impl Encoder for Chunks {
    fn open(&mut self, frames: &mut Frames) {
        let echo = std::mem::take(&mut self.echo);
        let choices: Vec<Value> = echo
            .iter()
            .enumerate()
            .filter(|(_, text)| !text.is_empty())
            .map(|(index, text)| self.choice(index, text, None, None))
            .collect();
        if choices.is_empty() && !self.route_trace {
            return;
        }
        let mut chunk = self.chunk(choices);
        if self.route_trace {
            chunk.insert("ortalk".into(), trace(&self.decision));
        }
        frames.data(&chunk.into());
    }

    fn event(&mut self, index: usize, event: &GenerationEvent, frames: &mut Frames) {
        let choice = match event {
            GenerationEvent::Token(token) if !token.text.is_empty() || token.logprobs.is_some() => {
                Some(self.choice(index, &token.text, token.logprobs.as_ref(), None))
            }
            GenerationEvent::TrailingText { text, .. } if !text.is_empty() => {
                Some(self.choice(index, text, None, None))
            }
            GenerationEvent::Finished(finished) => {
                self.usages[index] = finished.usage;
                Some(self.choice(index, "", None, Some(finished.reason.name())))
            }
            _ => None,
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
            chunk.insert("usage".into(), usage_as_json(&total(&self.usages, self.choices)));
            frames.data(&chunk.into());
        }
        frames.end();
    }

    fn failed(&mut self, error: &ApiError, frames: &mut Frames) {
        frames.data(&error.body());
        frames.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_texts_or_tokens() {
        let read = |value: Value| prompts(&mut Fields::of(json!({"prompt": value}), "").unwrap());
        let text = |text: &str| RawPrompt::Text(text.to_owned());
        for (value, expected) in [
            (json!("a"), vec![text("a")]),
            (json!(["a", "b"]), vec![text("a"), text("b")]),
            (json!([1, 2]), vec![RawPrompt::Tokens(vec![1, 2])]),
            (json!([[1], [2, 3]]), vec![RawPrompt::Tokens(vec![1]), RawPrompt::Tokens(vec![2, 3])]),
        ] {
            assert_eq!(read(value).unwrap(), expected);
        }
        for (value, param) in [
            (json!(3), "prompt"),
            (json!([]), "prompt"),
            (json!([1, "a"]), "prompt[1]"),
            (json!([1, -2]), "prompt[1]"),
            (json!(["a", 2]), "prompt[1]"),
            (json!([[1], [0.5]]), "prompt[1][0]"),
        ] {
            assert_eq!(read(value.clone()).unwrap_err().param.as_deref(), Some(param), "{value}");
        }
    }
}
