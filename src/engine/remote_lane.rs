//! The lane that is a server: a conversation goes there as text and an answer comes back as text.
//!
//! It has a thread of its own as the others have, and one conversation at a time. A server that fails is out of service: its
//! answer goes on in a lane of this machine, from what was said so far. Where the fault may pass, the server is asked again
//! after a rest whether it is there; else only a request that names the lane tries it again.
//!
//! Before a person has allowed a conversation, or the settings all of them, the server is not spoken to at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use super::event::{FinishReason, GenerationEvent, PrefillProgress, RemoteUsage};
use super::generate::Measured;
use super::job::Job;
use super::lane::{LaneId, LaneSource, LaneSpec, LaneState, MeasuredRates, Price, Privacy, RemotePlace, RemoteStatus};
use super::lanes::{Hindrance, Lanes};
use super::request::{ChatMessage, ChatRequest};
use super::thinking::ThinkingSplitter;
use crate::model::ModelFolder;
use crate::remote::{ChatBody, ChatStream, Client, Endpoint, ModelEntry, RemoteError, ServerUsage, Timeouts};

/// In place of an execution provider's name.
pub const REMOTE_PROVIDER: &str = "OpenAI-compatible server";

/// The context of a server that says nothing of it, in tokens: less than most have.
pub const ASSUMED_CONTEXT: usize = 32_768;

/// Until a server that failed is asked whether it is there again, where it did not say itself.
const REST: Duration = Duration::from_secs(30);

/// To say which models it has takes a server no longer.
const INTRODUCTION: Duration = Duration::from_secs(10);

/// Fields that a server may refuse, one after the other, before it is given up.
const MOST_REFUSALS: usize = 6;

/// OpenAI's interface takes no more texts that end an answer; all of them are searched for here, too.
const MOST_STOPS: usize = 4;

/// What is asked of a model whose server would begin a new answer instead of going on with one.
/// What a server is asked that has no field for it.
pub const GO_ON: &str = "Your answer was interrupted. Go on exactly where it ended, without repeating anything of it.";

pub struct RemoteOptions {
    pub endpoint: Endpoint,
    pub timeouts: Timeouts,
    /// `None` takes the first one that the server lists.
    pub model: Option<String>,
    /// `None` asks the server.
    pub context: Option<usize>,
    pub privacy: Privacy,
    pub place: RemotePlace,
    pub price: Option<Price>,
}

/// The lane of a server. With `Privacy::Never` there is none, and the reason says so.
pub fn remote_lane(options: RemoteOptions) -> LaneSpec {
    let RemoteOptions { endpoint, timeouts, model, context, privacy, place, price } = options;
    let status = RemoteStatus {
        url: endpoint.url().to_owned(),
        host: endpoint.host().to_owned(),
        model: model.clone(),
        is_private: endpoint.is_encrypted() || endpoint.is_loopback(),
        context_is_assumed: context.is_none(),
        privacy,
        place,
        price,
    };
    let source = match privacy {
        Privacy::Never => {
            LaneSource::Absent { reason: "privacy is 'never' in the settings: nothing is sent".to_owned() }
        }
        Privacy::Ask | Privacy::Allow => LaneSource::Server(RemoteServer {
            client: Client::new(endpoint, timeouts),
            model,
            context,
            asks: privacy == Privacy::Ask,
        }),
    };
    LaneSpec {
        id: LaneId::Remote,
        execution_provider: REMOTE_PROVIDER.to_owned(),
        device: None,
        emulated: false,
        context_limit: context.unwrap_or(ASSUMED_CONTEXT),
        threads: None,
        memory: None,
        measured: MeasuredRates::default(),
        remote: Some(status),
        source,
    }
}

/// A server, not yet spoken to.
pub struct RemoteServer {
    client: Client,
    model: Option<String>,
    context: Option<usize>,
    /// Nothing is sent before a person allowed something.
    asks: bool,
}

impl RemoteServer {
    /// A server that may be asked at once is asked what it has; any other one is taken at its word later.
    pub(super) fn first_state(&self, now: Instant) -> LaneState {
        if self.asks { LaneState::Ready } else { LaneState::Loading { since: now } }
    }
}

/// What a server said of itself.
struct Introduced {
    model: String,
    continuation: Continuation,
    /// Fields that it does not take.
    refused: Vec<String>,
}

/// How a server is made to go on with an answer that another lane began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Continuation {
    /// It goes on with a last message of the assistant's by itself, as llama-server does.
    ByItself,
    /// vLLM's fields.
    Vllm,
    /// The first of them alone.
    Ortalk,
    /// It is asked to.
    Asked,
}

enum Standing {
    Unknown,
    Introduced(Introduced),
    Failed { reason: String, at: Instant, again: Option<Instant> },
}

pub struct RemoteWorker {
    pub server: RemoteServer,
    pub jobs: Receiver<Job>,
    pub folder: Arc<ModelFolder>,
    pub lanes: Arc<Lanes>,
    /// The engine ends.
    pub stopping: Arc<AtomicBool>,
}

/// How a server's part of an answer ended.
enum Ending {
    Finished(FinishReason),
    Failed(RemoteError),
}

impl RemoteWorker {
    pub fn start(mut self) -> std::io::Result<JoinHandle<()>> {
        std::thread::Builder::new().name("lane-remote".into()).spawn(move || self.run())
    }

    fn run(&mut self) {
        let mut standing = if self.server.asks { Standing::Unknown } else { self.introduce() };
        loop {
            let rest = match &standing {
                Standing::Failed { again: Some(again), .. } => again.saturating_duration_since(Instant::now()),
                _ => Duration::MAX,
            };
            match self.jobs.recv_timeout(rest) {
                Ok(job) => {
                    self.lanes.count(LaneId::Remote, -1, 1);
                    standing = self.answer(standing, job);
                    self.lanes.count(LaneId::Remote, 0, -1);
                }
                Err(RecvTimeoutError::Timeout) => standing = self.introduce(),
                // The engine ends.
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Asks the server which models it has, and publishes how that went.
    fn introduce(&self) -> Standing {
        let asked = Instant::now();
        let stop = || self.stopping.load(Ordering::Relaxed) || asked.elapsed() >= INTRODUCTION;
        let models = match self.server.client.models(&stop) {
            Ok(models) => models,
            Err(RemoteError::Stopped) => {
                let host = self.server.client.endpoint().host().to_owned();
                return self.fail(&RemoteError::Silent { host, waited: INTRODUCTION });
            }
            // Some servers list nothing; a model that was named may be there all the same.
            Err(RemoteError::NotFound { .. }) if self.server.model.is_some() => Vec::new(),
            Err(error) => return self.fail(&error),
        };
        let listed = match &self.server.model {
            Some(named) => models.iter().find(|entry| entry.id == *named),
            None => models.first(),
        };
        let Some(model) = self.server.model.clone().or(listed.map(|entry| entry.id.clone())) else {
            return self.out_of_service("it has no model".to_owned(), None);
        };
        let said = listed.and_then(|entry| entry.context);
        let context = self.server.context.or(said);
        self.lanes.set_server_ready(LaneId::Remote, context, &model);
        let continuation = continuation(models.first().or(listed));
        Standing::Introduced(Introduced { model, continuation, refused: Vec::new() })
    }

    fn fail(&self, error: &RemoteError) -> Standing {
        let again = error.is_passing().then(|| Instant::now() + error.wait().unwrap_or(REST));
        self.out_of_service(error.to_string(), again)
    }

    fn out_of_service(&self, reason: String, again: Option<Instant>) -> Standing {
        self.lanes.set_failed(LaneId::Remote, &reason);
        Standing::Failed { reason, at: Instant::now(), again }
    }

    fn answer(&self, standing: Standing, mut job: Job) -> Standing {
        let tokenizer = &self.folder.tokenizer;
        let events = job.events.clone();
        let stop = || self.stopping.load(Ordering::Relaxed) || events.is_closed();
        if stop() {
            job.finish(FinishReason::Cancelled, tokenizer);
            return standing;
        }
        let standing = match standing {
            Standing::Unknown => self.introduce(),
            // It was asked for by name since it failed.
            Standing::Failed { at, .. } if job.pinned && job.submitted > at => self.introduce(),
            standing => standing,
        };
        let mut introduced = match standing {
            Standing::Introduced(introduced) => introduced,
            Standing::Failed { ref reason, .. } => {
                self.lanes.hand_over(job, LaneId::Remote, &Hindrance::Broken(reason.clone()), tokenizer);
                return standing;
            }
            Standing::Unknown => return standing,
        };
        let (ending, measured) = self.converse(&mut introduced, &mut job, &stop);
        self.lanes.record_rates(LaneId::Remote, &measured);
        match ending {
            Ending::Finished(reason) => job.finish(reason, tokenizer),
            Ending::Failed(RemoteError::Stopped) => job.finish(FinishReason::Cancelled, tokenizer),
            // The request's fault, or that of this server and this request: others may be answered.
            Ending::Failed(error @ (RemoteError::Refused { .. } | RemoteError::Forbidden { .. })) => {
                self.lanes.hand_over(job, LaneId::Remote, &Hindrance::Refused(error.to_string()), tokenizer);
            }
            Ending::Failed(error) => {
                let failed = self.fail(&error);
                self.lanes.hand_over(job, LaneId::Remote, &Hindrance::Broken(error.to_string()), tokenizer);
                return failed;
            }
        }
        Standing::Introduced(introduced)
    }

    /// The server's part of an answer. What it costs is counted, whatever becomes of it.
    fn converse(&self, introduced: &mut Introduced, job: &mut Job, stop: &dyn Fn() -> bool) -> (Ending, Measured) {
        let Some(chat) = job.chat.clone() else {
            return (
                Ending::Finished(FinishReason::Error("only conversations can be sent to a server".into())),
                Measured::default(),
            );
        };
        let total = job.sequence().len();
        job.send(GenerationEvent::PrefillProgress(PrefillProgress { done: 0, total, reused: 0 }));
        let began = Instant::now();
        let mut stream = match self.ask(introduced, &chat, job, stop) {
            Ok(stream) => stream,
            Err(error) => return (Ending::Failed(error), Measured::default()),
        };
        let before = (job.usage.completion_tokens, job.answer().len());
        let mut part = Part { began, first: None, last: began, pieces: 0, said: String::new() };
        let ending = part.read(&mut stream, job, total, stop);
        let counted = self.count(stream.summary().usage, job, total, before.1, &part.said);
        let first_answer = before == (0, 0);
        job.usage.completion_tokens = before.0 + counted.completion_tokens;
        if first_answer {
            job.usage.prompt_tokens = counted.prompt_tokens;
            job.usage.reused_tokens = stream.summary().usage.and_then(|usage| usage.cached_tokens).unwrap_or(0);
        }
        job.usage.remote = RemoteUsage::sum(job.usage.remote, Some(counted));
        (ending, part.measured(counted))
    }

    /// Sends the conversation; fields that the server does not know are left out, and not sent again.
    fn ask(
        &self,
        introduced: &mut Introduced,
        chat: &ChatRequest,
        job: &Job,
        stop: &dyn Fn() -> bool,
    ) -> Result<ChatStream, RemoteError> {
        let mut body = body(introduced, chat, job.answer(), job.usage.completion_tokens);
        introduced.refused.iter().for_each(|field| {
            body.give_up(field);
        });
        for _ in 0..MOST_REFUSALS {
            match self.server.client.chat(&body, stop) {
                Err(RemoteError::Refused { param: Some(field), .. }) if body.give_up(&field) => {
                    introduced.refused.push(field);
                }
                answer => return answer,
            }
        }
        self.server.client.chat(&body, stop)
    }

    /// What the server counted; else an estimate with the local model's tokenizer. `before` bytes of the answer were there
    /// already, `thought` was thinking.
    fn count(&self, usage: Option<ServerUsage>, job: &Job, total: usize, before: usize, thought: &str) -> RemoteUsage {
        if let Some(ServerUsage { prompt_tokens, completion_tokens, .. }) = usage {
            return RemoteUsage { prompt_tokens, completion_tokens, is_estimate: false };
        }
        let text = format!("{thought}{}", job.answer().get(before..).unwrap_or_default());
        let completion_tokens = self.folder.tokenizer.encode(&text).map_or(0, |tokens| tokens.len());
        RemoteUsage { prompt_tokens: total, completion_tokens, is_estimate: true }
    }
}

/// What was measured of a server's part of an answer.
struct Part {
    began: Instant,
    first: Option<Instant>,
    last: Instant,
    pieces: usize,
    /// The thinking's text.
    said: String,
}

impl Part {
    fn read(&mut self, stream: &mut ChatStream, job: &mut Job, total: usize, stop: &dyn Fn() -> bool) -> Ending {
        let goes_on = !job.answer().is_empty();
        let mut thinking = if goes_on { ThinkingSplitter::off() } else { ThinkingSplitter::usual() };
        loop {
            let piece = match stream.next(stop) {
                Ok(Some(piece)) => piece,
                Ok(None) => break,
                Err(error) => {
                    // What was held back was said.
                    self.take(job, thinking.finish(), self.last);
                    return Ending::Failed(error);
                }
            };
            if piece.text.is_empty() && piece.thinking.is_empty() {
                continue;
            }
            if self.first.is_none() {
                job.send(GenerationEvent::PrefillProgress(PrefillProgress { done: total, total, reused: 0 }));
                self.first = Some(piece.at);
            }
            (self.last, self.pieces) = (piece.at, self.pieces + 1);
            let mut parts = thinking.push(&piece.text);
            parts.thinking.insert_str(0, &piece.thinking);
            if self.take(job, parts, piece.at) {
                return Ending::Finished(FinishReason::Stop);
            }
        }
        if self.take(job, thinking.finish(), self.last) {
            return Ending::Finished(FinishReason::Stop);
        }
        Ending::Finished(match stream.summary().finish_reason.as_deref() {
            Some("length") => FinishReason::Length,
            Some("content_filter") => FinishReason::Error("the server's filter cut the answer".to_owned()),
            _ => FinishReason::Stop,
        })
    }

    /// True where a stop text was met.
    fn take(&mut self, job: &mut Job, parts: super::thinking::Parts, at: Instant) -> bool {
        if parts.thinking.is_empty() && parts.answer.is_empty() {
            return false;
        }
        self.said.push_str(&parts.thinking);
        job.push_text(parts.thinking, &parts.answer, at, LaneId::Remote)
    }

    /// Rates for the router: the prompt's includes the way there and back.
    fn measured(&self, counted: RemoteUsage) -> Measured {
        let Some(first) = self.first else { return Measured::default() };
        let gaps = counted.completion_tokens.saturating_sub(1).min(u32::MAX as usize) as u32;
        let decode = self.last.saturating_duration_since(first);
        let even = if gaps > 0 && self.pieces > 1 { vec![decode / gaps; gaps as usize] } else { Vec::new() };
        Measured {
            prefill_tokens: counted.prompt_tokens,
            prefill: first.saturating_duration_since(self.began),
            token_latencies: even,
            shared: false,
        }
    }
}

fn continuation(entry: Option<&ModelEntry>) -> Continuation {
    match entry.and_then(|entry| entry.owned_by.as_deref()) {
        Some("vllm") => Continuation::Vllm,
        Some("ortalk") => Continuation::Ortalk,
        Some("llamacpp") => Continuation::ByItself,
        _ => Continuation::Asked,
    }
}

/// `begun` is what was said of the answer already, in `tokens` tokens.
fn body(introduced: &Introduced, chat: &ChatRequest, begun: &str, tokens: usize) -> ChatBody {
    let mut messages: Vec<Json> = chat.messages.iter().map(message).collect();
    if !begun.is_empty() {
        messages.push(json!({"role": "assistant", "content": begun}));
        if introduced.continuation == Continuation::Asked {
            messages.push(json!({"role": "user", "content": GO_ON}));
        }
    }
    let goes_on = |by: &[Continuation]| !begun.is_empty() && by.contains(&introduced.continuation);
    let sampling = &chat.sampling;
    let stops: Vec<&str> =
        chat.stop.iter().map(String::as_str).filter(|stop| !stop.is_empty()).take(MOST_STOPS).collect();
    // An answer of any length has no field.
    let left = (chat.max_tokens < u32::MAX as usize).then(|| chat.max_tokens.saturating_sub(tokens).max(1));
    // A float32 in decimal as it was typed, not as its neighbour in float64.
    let decimal = |value: f32| value.to_string().parse::<f64>().ok();
    ChatBody::new(&introduced.model, messages)
        .with("max_tokens", left)
        .with("temperature", decimal(sampling.temperature))
        .with("top_p", decimal(sampling.top_p).filter(|p| *p < 1.0))
        .with("seed", sampling.seed)
        .with("frequency_penalty", decimal(sampling.frequency_penalty).filter(|penalty| *penalty != 0.0))
        .with("presence_penalty", decimal(sampling.presence_penalty).filter(|penalty| *penalty != 0.0))
        .with("stop", (!stops.is_empty()).then(|| json!(stops)))
        .with("continue_final_message", goes_on(&[Continuation::Vllm, Continuation::Ortalk]).then_some(true))
        .with("add_generation_prompt", goes_on(&[Continuation::Vllm]).then_some(false))
}

fn message(message: &ChatMessage) -> Json {
    let mut json = json!({"role": message.role.name(), "content": message.content});
    if let Some(name) = &message.name {
        json["name"] = name.as_str().into();
    }
    json
}
