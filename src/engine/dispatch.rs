//! The dispatcher's thread: makes a request's prompt, asks the router, fits the prompt into the chosen lane and hands it
//! over. A long prompt is tokenized here, so that neither a front end nor a lane waits for it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;

use tokio::sync::mpsc::UnboundedSender;

use super::EngineError;
use super::constraint::Grammars;
use super::event::{ContextTrim, FinishReason, Finished, GenerationEvent};
use super::generate::panic_message;
use super::job::{Job, Measure, Request};
use super::lane::LaneId;
use super::lanes::Lanes;
use super::prompt::{self, PromptError, PromptOptions};
use super::prompt_parts::{PromptParts, parts};
use super::request::{
    AnswerFormat, ChatMessage, ChatRequest, CompletionRequest, MeasureRequest, MeasuredPrompt, Role, Sampling,
};
use super::route::{Policy, RemoteUse, RoutingDecision, Rule};
use super::thinking::ThinkingSplitter;
use super::tool_calls::CallFinder;
use crate::model::ModelFolder;

pub struct Submission {
    pub request: Asked,
    pub submitted: Instant,
    pub events: UnboundedSender<GenerationEvent>,
}

pub enum Asked {
    Chat(ChatRequest),
    Complete(CompletionRequest),
    Measure(MeasureRequest),
}

pub fn start(
    folder: Arc<ModelFolder>,
    grammars: Arc<Grammars>,
    lanes: Arc<Lanes>,
) -> std::io::Result<(Sender<Submission>, JoinHandle<()>)> {
    let (sender, received) = channel::<Submission>();
    let thread = std::thread::Builder::new().name("dispatcher".into()).spawn(move || {
        for submission in received {
            let events = submission.events.clone();
            // A request that breaks the tokenizer or the template must not end the engine: nothing here outlives it.
            let done = catch_unwind(AssertUnwindSafe(|| {
                let Submission { request, submitted, events } = submission;
                let request = match request {
                    Asked::Chat(request) => prepare(&folder, &grammars, &lanes, request, submitted, events)?,
                    Asked::Complete(request) => prepare_completion(&folder, &lanes, request, submitted, events)?,
                    Asked::Measure(request) => prepare_measured(&folder, &lanes, request, submitted, events)?,
                };
                send(&folder, &lanes, request);
                Ok(())
            }))
            .unwrap_or_else(|panic| Err(EngineError::Panic(panic_message(&*panic))));
            if let Err(error) = done {
                let _ = events.send(GenerationEvent::Finished(Finished::error(error.to_string())));
            }
        }
    })?;
    Ok((sender, thread))
}

/// A request that was routed, and its lane.
type Routed = (LaneId, Request);

/// The prompt of a chat, for the lane that the router chooses; it is fitted into that lane.
fn prepare(
    folder: &ModelFolder,
    grammars: &Grammars,
    lanes: &Lanes,
    request: ChatRequest,
    submitted: Instant,
    events: UnboundedSender<GenerationEvent>,
) -> Result<Routed, EngineError> {
    let Placed { decision, tokens, messages, trim } = place(folder, lanes, &request)?;
    let lane = decision.lane;
    let remote = remote_use(&request);
    let thinking = ThinkingSplitter::after(folder, &tokens).map_err(PromptError::from)?;
    let constraint = grammars.constraint(&request, thinking.is_thinking())?;
    let calls = CallFinder::new(
        &folder.tools,
        PromptOptions::of(&request).tools.iter().map(|tool| tool.name.clone()).collect(),
    );
    let chat = ChatRequest { messages, ..request.clone() };
    let _ = events.send(GenerationEvent::Routed(decision));
    if let Some(trim) = trim {
        let _ = events.send(GenerationEvent::ContextTrimmed(trim));
    }
    let request = Request {
        thinking,
        calls,
        constraint,
        prompt: tokens,
        sampling: request.sampling,
        max_tokens: request.max_tokens,
        stop: request.stop,
        logprobs: request.logprobs,
        pinned: request.lane.is_some(),
        measure: None,
        fresh: request.fresh,
        chat: Some(Box::new(chat)),
        remote,
        submitted,
        events,
    };
    Ok((lane, request))
}

/// A conversation in the lane that the router chooses.
struct Placed {
    decision: RoutingDecision,
    /// The prompt, and the messages that it is of: all, or without the oldest turns.
    tokens: Vec<u32>,
    messages: Vec<ChatMessage>,
    trim: Option<ContextTrim>,
}

/// What would be decided about a request. Where its last message alone is too long to be sent, the decision is about that
/// and the system message, which nothing can be left out of.
pub fn preview(folder: &ModelFolder, lanes: &Lanes, request: &ChatRequest) -> Result<RoutingDecision, EngineError> {
    let too_long = match place(folder, lanes, request) {
        Err(error) if !request.whole && error.is_too_long() => error,
        placed => return placed.map(|placed| placed.decision),
    };
    let (mut decision, full) = choose(folder, lanes, request)?;
    let options = PromptOptions::of(request);
    let Some(all) = parts(folder, &request.messages, options, full.len()) else { return Err(too_long) };
    let answer = decision.needed_tokens.saturating_sub(decision.prompt_tokens);
    decision.parts = Some(PromptParts { history: 0, ..all });
    decision.whole_prompt_tokens = (all.history > 0).then_some(full.len());
    decision.prompt_tokens = all.system + all.message;
    decision.needed_tokens = decision.prompt_tokens + answer;
    (decision.predicted_ttft, decision.predicted_total) = (None, None);
    Ok(decision)
}

/// The lane for the whole conversation, and the prompt.
fn choose(
    folder: &ModelFolder,
    lanes: &Lanes,
    request: &ChatRequest,
) -> Result<(RoutingDecision, Vec<u32>), EngineError> {
    let full = prompt::tokenize(folder, &request.messages, PromptOptions::of(request))?;
    let decision = lanes.decide(&full, request.max_tokens, request.policy, request.lane, remote_use(request))?;
    Ok((decision, full))
}

/// Chooses a lane and fits the conversation into it.
fn place(folder: &ModelFolder, lanes: &Lanes, request: &ChatRequest) -> Result<Placed, EngineError> {
    let options = PromptOptions::of(request);
    let remote = remote_use(request);
    let (mut decision, full) = choose(folder, lanes, request)?;
    let (lane, limit) = (decision.lane, decision.context_limit);

    let mut trim = None;
    let mut tokens = full;
    // A prompt that was chosen for because it fits stays whole: an answer that outgrows the lane moves to a longer one.
    let longer = lanes.can_outgrow(lane, limit, remote);
    let moves = longer && !matches!(decision.rule, Rule::Requested | Rule::OnlyReady | Rule::LongestContext);
    if request.whole {
        prompt::check_room(tokens.len(), limit)?;
    } else if !moves {
        let tokenize = |messages: &[_]| prompt::tokenize(folder, messages, options);
        let fitted = prompt::fit(&request.messages, tokens, limit, request.max_tokens, tokenize);
        let fitted = fitted.map_err(|error| match (error, request.lane) {
            (error @ PromptError::TooLong { .. }, Some(lane)) => EngineError::RequestedTooShort { lane, error },
            (error, _) => error.into(),
        })?;
        (tokens, trim) = (fitted.tokens, fitted.trim);
    }
    if trim.is_some() {
        // The rule was about the whole conversation; what the lane gets, and how long it takes, is about what is left.
        let left = lanes.decide(&tokens, request.max_tokens, request.policy, Some(lane), remote)?;
        (decision.prompt_tokens, decision.needed_tokens) = (left.prompt_tokens, left.needed_tokens);
        (decision.predicted_ttft, decision.predicted_total) = (left.predicted_ttft, left.predicted_total);
    }
    let mut messages = request.messages.clone();
    if let Some(trim) = trim {
        let first = usize::from(messages.first().is_some_and(|message| message.role == Role::System));
        messages.drain(first..(first + trim.dropped_messages).min(messages.len()));
        decision.whole_prompt_tokens = Some(trim.tokens_before);
    }
    decision.parts = parts(folder, &messages, options, tokens.len());
    Ok(Placed { decision, tokens, messages, trim })
}

/// Why raw text is not for a server.
pub const RAW_TEXT: &str = "raw text stays on this machine";

/// What a chat allows of a server. Answers in a fixed form and calls of tools stay on this machine, where they are checked.
pub fn remote_use(request: &ChatRequest) -> RemoteUse {
    let has_tools = !request.tools.is_empty() || request.messages.iter().any(|message| message.role == Role::Tool);
    let unsuited = if has_tools {
        Some("tools stay on this machine")
    } else if request.format != AnswerFormat::Text {
        Some("answers in a fixed form stay on this machine")
    } else if request.logprobs.is_some() {
        Some("log probabilities are of a model on this machine")
    } else if request.continue_last {
        Some("beginnings of answers stay on this machine")
    } else {
        None
    };
    RemoteUse { consent: request.allow_remote, unsuited }
}

/// Text as it is, for the lane that the router chooses.
fn prepare_completion(
    folder: &ModelFolder,
    lanes: &Lanes,
    request: CompletionRequest,
    submitted: Instant,
    events: UnboundedSender<GenerationEvent>,
) -> Result<Routed, EngineError> {
    let prompt = prompt::tokenize_raw(folder, &request.prompt)?;
    let remote = RemoteUse::never(RAW_TEXT);
    let decision = lanes.decide(&prompt, request.max_tokens, request.policy, request.lane, remote)?;
    let lane = decision.lane;
    prompt::check_room(prompt.len(), decision.context_limit)?;
    let _ = events.send(GenerationEvent::Routed(decision));
    let request = Request {
        prompt,
        sampling: request.sampling,
        max_tokens: request.max_tokens,
        stop: request.stop,
        logprobs: request.logprobs,
        thinking: ThinkingSplitter::off(),
        calls: CallFinder::new(&folder.tools, Vec::new()),
        constraint: None,
        pinned: request.lane.is_some(),
        measure: None,
        fresh: false,
        chat: None,
        remote,
        submitted,
        events,
    };
    Ok((lane, request))
}

fn prepare_measured(
    folder: &ModelFolder,
    lanes: &Lanes,
    request: MeasureRequest,
    submitted: Instant,
    events: UnboundedSender<GenerationEvent>,
) -> Result<Routed, EngineError> {
    let (tokens, one_pass) = match request.prompt {
        MeasuredPrompt::Conversation(messages) => {
            (prompt::tokenize(folder, &messages, PromptOptions::default())?, false)
        }
        MeasuredPrompt::Pass(tokens) => (tokens, true),
    };
    if tokens.is_empty() {
        return Err(PromptError::NoMessage.into());
    }
    let remote = RemoteUse::never("a server is measured by `ortalk bench --server`");
    let decision = lanes.decide(&tokens, request.tokens, Policy::default(), Some(request.lane), remote)?;
    if tokens.len() > decision.context_limit {
        let limit = decision.context_limit;
        return Err(PromptError::TooLong { tokens: tokens.len(), limit, room: limit }.into());
    }
    let _ = events.send(GenerationEvent::Routed(decision));
    let measured = Request {
        prompt: tokens,
        sampling: Sampling::GREEDY,
        max_tokens: request.tokens,
        stop: Vec::new(),
        logprobs: None,
        thinking: ThinkingSplitter::off(),
        calls: CallFinder::new(&folder.tools, Vec::new()),
        constraint: None,
        pinned: true,
        measure: Some(Measure { one_pass }),
        fresh: true,
        chat: None,
        remote,
        submitted,
        events,
    };
    Ok((request.lane, measured))
}

fn send(folder: &ModelFolder, lanes: &Lanes, (lane, request): Routed) {
    if let Err(job) = lanes.send(lane, Job::new(request)) {
        // The engine is ending.
        job.finish(FinishReason::Cancelled, &folder.tokenizer);
    }
}
