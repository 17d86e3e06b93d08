//! A server as the screen's backend.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::other;
use crate::engine::{
    ChatMessage, ChatRequest, EngineSnapshot, FinishReason, Finished, GO_ON, GenerationEvent, GenerationStream,
    LaneState, Policy, Role, RoutingDecision, Sampling, Usage,
};
use crate::remote::{ChatBody, ChatStream, Client, RemoteError};
use crate::tui::Backend;
use crate::wire::{AnswerExtension, RequestExtension, Snapshot};

/// How a server stands is said by it within this time, or the last word holds.
const PATIENCE: Duration = Duration::from_secs(2);

/// Longer at the start: the server may be loading.
const FIRST_PATIENCE: Duration = Duration::from_secs(20);

/// What was said of answers here; all else is the server's to choose.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Asked {
    pub model: Option<String>,
    /// The numbers of the chat's first request. What differs from them later was said in the chat.
    pub first: Option<(Sampling, usize)>,
    pub temperature: Option<f32>,
    pub top_p: Option<f32>,
    pub seed: Option<u64>,
    pub max_tokens: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It sends events and snapshots.
    Ortalk,
    /// It sends text.
    Other,
}

struct Server {
    kind: Kind,
    /// Answers have connections of their own, so that stopping one closes no other.
    answers: Client,
    looks: Client,
    asked: Asked,
    /// The model that is asked for.
    model: String,
    snapshot: Mutex<EngineSnapshot>,
    looked: Mutex<Instant>,
}

pub struct ServerBackend {
    server: Arc<Server>,
}

impl ServerBackend {
    /// Asks the server what it is.
    pub fn connect(answers: Client, looks: Client, asked: Asked) -> Result<Self, RemoteError> {
        let started = Instant::now();
        let stop = || started.elapsed() >= FIRST_PATIENCE;
        let (kind, snapshot) = match look(&looks, &stop) {
            Ok(snapshot) => (Kind::Ortalk, snapshot),
            Err(RemoteError::NotFound { .. } | RemoteError::Garbage { .. } | RemoteError::Refused { .. }) => {
                (Kind::Other, other::snapshot(&looks, asked.model.as_deref(), &stop)?)
            }
            Err(error) => return Err(error),
        };
        let model = asked.model.clone().unwrap_or_else(|| snapshot.model.clone());
        let (snapshot, looked) = (Mutex::new(snapshot), Mutex::new(Instant::now()));
        Ok(Self { server: Arc::new(Server { kind, answers, looks, asked, model, snapshot, looked }) })
    }

    /// The model that is asked for.
    pub fn model(&self) -> &str {
        &self.server.model
    }
}

/// An ortalk's own word on how it stands.
fn look(client: &Client, stop: &dyn Fn() -> bool) -> Result<EngineSnapshot, RemoteError> {
    let text = client.document("/ortalk/snapshot", stop)?;
    let snapshot: Snapshot = serde_json::from_slice(&text).map_err(|error| RemoteError::Garbage {
        host: client.endpoint().host().to_owned(),
        problem: format!("its snapshot is none: {error}"),
    })?;
    Ok(snapshot.into_engine(Instant::now()))
}

impl Backend for ServerBackend {
    fn snapshot(&self) -> EngineSnapshot {
        let server = self.server.clone();
        let mut looked = server.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if server.kind == Kind::Ortalk && looked.elapsed() >= PATIENCE / 4 {
            *looked = Instant::now();
            let server = self.server.clone();
            // What it says is there the next time.
            let _ = std::thread::Builder::new().name("look".into()).spawn(move || server.refresh());
        }
        self.server.current()
    }

    fn previews(&self) -> bool {
        false
    }

    fn preview(&self, _request: &ChatRequest) -> Result<RoutingDecision, String> {
        Err("the server decides it".to_owned())
    }

    fn submit(&self, request: ChatRequest) -> GenerationStream {
        let (events, stream) = unbounded_channel();
        let server = self.server.clone();
        let sender = events.clone();
        let started = std::thread::Builder::new().name("answer".into()).spawn(move || server.answer(&request, &sender));
        if let Err(error) = started {
            let message = format!("a thread could not be started: {error}");
            let _ = events.send(GenerationEvent::Finished(Finished::error(message)));
        }
        stream
    }
}

impl Server {
    fn current(&self) -> EngineSnapshot {
        self.snapshot.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn refresh(&self) {
        let started = Instant::now();
        let looked = look(&self.looks, &|| started.elapsed() >= PATIENCE);
        let mut snapshot = self.snapshot.lock().unwrap_or_else(PoisonError::into_inner);
        match looked {
            Ok(new) => *snapshot = new,
            // A server that takes its time is no worse for that.
            Err(RemoteError::Stopped) => {}
            Err(error) => {
                for lane in &mut snapshot.lanes {
                    lane.state = LaneState::Failed { reason: error.to_string() };
                }
            }
        }
    }

    fn answer(&self, request: &ChatRequest, events: &UnboundedSender<GenerationEvent>) {
        let submitted = Instant::now();
        let stop = || events.is_closed();
        let finished = match self.answers.chat(&self.body(request), &stop) {
            Ok(stream) => match self.kind {
                Kind::Ortalk => relay(stream, submitted, events, &stop),
                Kind::Other => {
                    let snapshot = self.current();
                    other::answer(stream, request, &snapshot, submitted, events, &stop)
                }
            },
            Err(error) => failed(&error),
        };
        if self.kind == Kind::Ortalk && !stop() {
            self.refresh();
        }
        let _ = events.send(GenerationEvent::Finished(finished));
    }

    fn body(&self, request: &ChatRequest) -> ChatBody {
        let messages = messages(request, self.kind);
        let decimal = |value: Option<f32>| value.and_then(|value| value.to_string().parse::<f64>().ok());
        let (asked, sampling) = (&self.asked, &request.sampling);
        let (first, max_tokens) = asked.first.clone().unwrap_or((sampling.clone(), request.max_tokens));
        let body = ChatBody::new(&self.model, messages)
            .with("max_tokens", said(request.max_tokens, max_tokens, asked.max_tokens))
            .with("temperature", decimal(said(sampling.temperature, first.temperature, asked.temperature)))
            .with("top_p", decimal(said(sampling.top_p, first.top_p, asked.top_p)))
            .with("seed", said(sampling.seed, first.seed, None).unwrap_or(asked.seed));
        match self.kind {
            Kind::Other => body,
            Kind::Ortalk => {
                let extension = RequestExtension {
                    lane: request.lane,
                    policy: (request.policy != Policy::default()).then_some(request.policy),
                    thinking: request.thinking,
                    trim: true,
                    fresh: request.fresh,
                    events: true,
                    ..RequestExtension::default()
                };
                body.with("ortalk", serde_json::to_value(extension).ok())
                    .with("continue_final_message", request.continue_last.then_some(true))
            }
        }
    }
}

/// The conversation. Who has no field for going on with an answer is asked to.
fn messages(request: &ChatRequest, kind: Kind) -> Vec<Json> {
    let message = |message: &ChatMessage| json!({"role": message.role.name(), "content": message.content});
    let asked = (request.continue_last && kind == Kind::Other).then(|| ChatMessage::new(Role::User, GO_ON));
    request.messages.iter().chain(&asked).map(message).collect()
}

/// What is sent: what was said in the chat, else before it.
fn said<T: PartialEq>(now: T, first: T, before: Option<T>) -> Option<T> {
    if now == first { before } else { Some(now) }
}

/// Passes on what the engine behind the server reports, and returns its last word.
fn relay(
    mut stream: ChatStream,
    submitted: Instant,
    events: &UnboundedSender<GenerationEvent>,
    stop: &dyn Fn() -> bool,
) -> Finished {
    let mut finished = None;
    loop {
        let piece = match stream.next(stop) {
            Ok(Some(piece)) => piece,
            Ok(None) => break,
            Err(error) => return finished.unwrap_or_else(|| failed(&error)),
        };
        let Some(extension) = piece.extension else { continue };
        let Ok(extension) = serde_json::from_value::<AnswerExtension>(extension) else { continue };
        for event in extension.events {
            match event.into_engine(submitted) {
                Some(GenerationEvent::Finished(last)) => finished = Some(last),
                Some(event) => {
                    let _ = events.send(event);
                }
                None => {}
            }
        }
    }
    finished.unwrap_or_else(|| {
        let usage = stream.summary().usage.unwrap_or_default();
        let (prompt_tokens, completion_tokens) = (usage.prompt_tokens, usage.completion_tokens);
        let reason = other::reason(stream.summary().finish_reason.as_deref());
        let usage = Usage { prompt_tokens, completion_tokens, ..Usage::default() };
        Finished { reason, usage, ..Finished::error(String::new()) }
    })
}

pub fn failed(error: &RemoteError) -> Finished {
    match error {
        RemoteError::Stopped => Finished { reason: FinishReason::Cancelled, ..Finished::error(String::new()) },
        error => Finished::error(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_in_the_chat_is_sent_and_else_what_was_said_before_it() {
        assert_eq!(said(0.7, 0.7, None), None);
        assert_eq!(said(0.5, 0.7, None), Some(0.5));
        assert_eq!(said(0.7, 0.7, Some(0.3)), Some(0.3));
        assert_eq!(said(0.5, 0.7, Some(0.3)), Some(0.5));
    }

    #[test]
    fn a_server_that_has_no_field_for_it_is_asked_to_go_on() {
        let turns = [ChatMessage::new(Role::User, "q"), ChatMessage::new(Role::Assistant, "begun")];
        let request = ChatRequest { continue_last: true, ..ChatRequest::new(turns.to_vec()) };
        let whole = json!([{"role": "user", "content": "q"}, {"role": "assistant", "content": "begun"}]);
        assert_eq!(json!(messages(&request, Kind::Ortalk)), whole);
        let asked = messages(&request, Kind::Other);
        assert_eq!((asked.len(), &asked[2]["role"], &asked[2]["content"]), (3, &json!("user"), &json!(GO_ON)));
        let request = ChatRequest { continue_last: false, ..request };
        assert_eq!(json!(messages(&request, Kind::Other)), whole);
    }
}
