//! Servers that are no ortalk: what the engine would have reported, as far as it can be told from texts and counts.

use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedSender;

use super::backend::failed;
use crate::engine::{
    ASSUMED_CONTEXT, ChatRequest, EXPECTED_ANSWER, EngineSnapshot, FinishReason, Finished, GenerationEvent, LaneId,
    LaneState, LaneStatus, MeasuredRates, Parts, PrefillProgress, Privacy, REMOTE_PROVIDER, RemotePlace, RemoteStatus,
    RemoteUsage, RoutingDecision, Rule, ThinkingChoice, ThinkingSplitter, Timings, Token, Usage,
};
use crate::remote::{ChatStream, Client, ModelEntry, RemoteError};

/// Letters to a token of English text, and tokens that a template puts around a message: estimates.
const LETTERS: usize = 4;
const AROUND: usize = 4;

/// The server as an engine with one lane.
pub fn snapshot(client: &Client, model: Option<&str>, stop: &dyn Fn() -> bool) -> Result<EngineSnapshot, RemoteError> {
    let models = match client.models(stop) {
        Err(RemoteError::NotFound { .. }) if model.is_some() => Vec::new(),
        models => models?,
    };
    let listed = match model {
        Some(named) => models.iter().find(|entry| entry.id == named),
        None => models.first(),
    };
    let endpoint = client.endpoint();
    let Some(name) = model.map(str::to_owned).or(listed.map(|entry| entry.id.clone())) else {
        let problem = "it lists no model; name one with --model".to_owned();
        return Err(RemoteError::Garbage { host: endpoint.host().to_owned(), problem });
    };
    let server = RemoteStatus {
        url: endpoint.url().to_owned(),
        host: endpoint.host().to_owned(),
        model: Some(name.clone()),
        is_private: endpoint.is_encrypted() || endpoint.is_loopback(),
        context_is_assumed: listed.and_then(|entry| entry.context).is_none(),
        // Whoever connects to it has allowed it.
        privacy: Privacy::Allow,
        place: RemotePlace::First,
        price: None,
    };
    let owner = listed.and_then(|entry: &ModelEntry| entry.owned_by.clone());
    Ok(EngineSnapshot {
        model: name,
        architecture: owner.unwrap_or_else(|| "a server's model".to_owned()),
        weight_bytes: 0,
        thinking: ThinkingChoice::ByItself,
        lanes: vec![LaneStatus {
            id: LaneId::Remote,
            execution_provider: REMOTE_PROVIDER.to_owned(),
            device: None,
            emulated: false,
            state: LaneState::Ready,
            context_limit: listed.and_then(|entry| entry.context).unwrap_or(ASSUMED_CONTEXT),
            threads: None,
            memory: None,
            placement: Vec::new(),
            measured: MeasuredRates::default(),
            remote: Some(server),
            running: 0,
            waiting: 0,
        }],
    })
}

/// Passes on what comes as the engine's events, and returns the last one.
pub fn answer(
    mut stream: ChatStream,
    request: &ChatRequest,
    snapshot: &EngineSnapshot,
    submitted: Instant,
    events: &UnboundedSender<GenerationEvent>,
    stop: &dyn Fn() -> bool,
) -> Finished {
    let send = |event| {
        let _ = events.send(event);
    };
    let prompt = tokens_of(request);
    send(GenerationEvent::Routed(decision(request, snapshot, prompt)));
    send(GenerationEvent::PrefillProgress(PrefillProgress { done: 0, total: prompt, reused: 0 }));
    let mut seen = Seen::default();
    // Some servers name the thinking, and some leave its markers in the text.
    let mut splitter = if request.continue_last { ThinkingSplitter::off() } else { ThinkingSplitter::usual() };
    let reason = loop {
        match stream.next(stop) {
            Ok(Some(piece)) if piece.text.is_empty() && piece.thinking.is_empty() => {}
            Ok(Some(piece)) => {
                if seen.last.is_none() {
                    send(GenerationEvent::PrefillProgress(PrefillProgress { done: prompt, total: prompt, reused: 0 }));
                }
                let parts = splitter.push(&piece.text);
                let thinking = piece.thinking + &parts.thinking;
                let thinks = parts.answer.is_empty() && (!thinking.is_empty() || splitter.is_thinking());
                seen.note(thinks, piece.at, submitted);
                send(GenerationEvent::Token(token(parts.answer, thinking, thinks, piece.at)));
            }
            Ok(None) => break reason(stream.summary().finish_reason.as_deref()),
            Err(error) => break failed(&error).reason,
        }
    };
    // What was held back, since it could have been a marker, was said with the last piece.
    let Parts { thinking, answer } = splitter.finish();
    if let Some(at) = seen.last.filter(|_| !(thinking.is_empty() && answer.is_empty())) {
        let thinks = answer.is_empty();
        send(GenerationEvent::Token(token(answer, thinking, thinks, at)));
    }
    let remote = match stream.summary().usage {
        Some(usage) => RemoteUsage {
            prompt_tokens: usage.prompt_tokens,
            completion_tokens: usage.completion_tokens,
            is_estimate: false,
        },
        None => RemoteUsage { prompt_tokens: prompt, completion_tokens: seen.pieces, is_estimate: true },
    };
    Finished {
        reason,
        usage: Usage {
            prompt_tokens: remote.prompt_tokens,
            completion_tokens: remote.completion_tokens,
            thinking_tokens: seen.thinking,
            reused_tokens: stream.summary().usage.and_then(|usage| usage.cached_tokens).unwrap_or(0),
            remote: Some(remote),
        },
        timings: Timings { ttft: seen.ttft, token_latencies: seen.latencies, ..Timings::default() },
    }
}

fn token(text: String, thinking: String, thinks: bool, at: Instant) -> Token {
    Token { text, thinking, thinks, tool_calls: Vec::new(), id: Token::NO_ID, logprobs: None, at, lane: LaneId::Remote }
}

/// By OpenAI's names.
pub fn reason(name: Option<&str>) -> FinishReason {
    match name {
        Some("length") => FinishReason::Length,
        Some("content_filter") => FinishReason::Error("the server's filter cut the answer".to_owned()),
        _ => FinishReason::Stop,
    }
}

#[derive(Default)]
struct Seen {
    pieces: usize,
    thinking: usize,
    ttft: Option<Duration>,
    last: Option<Instant>,
    latencies: Vec<Duration>,
}

impl Seen {
    fn note(&mut self, thinks: bool, at: Instant, submitted: Instant) {
        self.pieces += 1;
        if thinks {
            self.thinking = self.pieces;
        }
        match self.last.replace(at) {
            None => self.ttft = Some(at.saturating_duration_since(submitted)),
            Some(last) => self.latencies.push(at.saturating_duration_since(last)),
        }
    }
}

fn tokens_of(request: &ChatRequest) -> usize {
    request.messages.iter().map(|message| message.content.chars().count() / LETTERS + AROUND).sum()
}

/// There is nothing to choose.
fn decision(request: &ChatRequest, snapshot: &EngineSnapshot, prompt_tokens: usize) -> RoutingDecision {
    RoutingDecision {
        lane: LaneId::Remote,
        execution_provider: REMOTE_PROVIDER.to_owned(),
        emulated: false,
        policy: request.policy,
        rule: Rule::OnlyReady,
        prompt_tokens,
        whole_prompt_tokens: None,
        parts: None,
        answer_tokens: request.max_tokens,
        needed_tokens: prompt_tokens + request.max_tokens.min(EXPECTED_ANSWER),
        context_limit: snapshot.lanes.first().map_or(ASSUMED_CONTEXT, |lane| lane.context_limit),
        predicted_ttft: None,
        predicted_total: None,
        rejected: Vec::new(),
    }
}
