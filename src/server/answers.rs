//! The answers of one request, from admission to the last event. Dropping them cancels what is still running: that is what
//! happens when a client goes away.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::Poll;
use std::time::{Duration, Instant};

use axum::http::HeaderMap;
use tokio::sync::watch;

use super::admission::Places;
use super::app::{App, Phase};
use super::error::ApiError;
use super::log::Log;
use super::metrics::Observer;
use crate::engine::{
    ChatRequest, CompletionRequest, EXPECTED_ANSWER, EngineSnapshot, FinishReason, GenerationEvent, GenerationStream,
    LaneId, LaneState, RoutingDecision, TokenLogprobs, ToolCall, ToolCallDelta, Usage,
};

/// What the engine is asked.
#[derive(Debug, Clone)]
pub enum Ask {
    Chat(ChatRequest),
    Complete(CompletionRequest),
}

impl Ask {
    /// The field that has the text.
    fn param(&self) -> &'static str {
        match self {
            Self::Chat(_) => "messages",
            Self::Complete(_) => "prompt",
        }
    }
}

pub struct Answers {
    answers: Vec<Answer>,
    /// Events that were read ahead.
    pending: VecDeque<(usize, GenerationEvent)>,
    places: Places,
    phase: watch::Receiver<Phase>,
    log: Log,
    limit: Duration,
    deadline: tokio::time::Instant,
    /// Where the next look for an event begins, so that no answer waits for another's.
    turn: usize,
}

struct Answer {
    /// `None` after its last event.
    events: Option<GenerationStream>,
    observer: Observer,
    submitted: Instant,
    /// Of the last token.
    lane: Option<LaneId>,
}

impl Answers {
    /// Submits the requests and waits until the first is routed.
    pub async fn open(app: &App, asks: Vec<Ask>) -> Result<(Self, RoutingDecision), ApiError> {
        if *app.phase.borrow() != Phase::Running {
            return Err(ApiError::stopping());
        }
        let engine = app.engine.snapshot();
        app.books.iter().for_each(|books| books.observe(&engine.lanes));
        let places = app.admission.enter(asks.len(), predicted_answer(&engine))?;
        let first = asks.first().cloned();
        let submit = |ask| {
            let tab = app.books.as_ref().map(|books| books.open(app.model()));
            let submitted = Instant::now();
            let events = match ask {
                Ask::Chat(request) => app.engine.submit(request),
                Ask::Complete(request) => app.engine.complete(request),
            };
            Answer { events: Some(events), observer: app.metrics.answer(submitted, tab), submitted, lane: None }
        };
        let mut answers = Self {
            answers: asks.into_iter().map(submit).collect(),
            pending: VecDeque::new(),
            places,
            phase: app.phase.clone(),
            log: app.log.clone(),
            limit: app.limits.answer_time,
            deadline: tokio::time::Instant::now() + app.limits.answer_time,
            turn: 0,
        };
        loop {
            let event = match answers.receive().await {
                Ok(event) => event,
                Err(error) => return Err(refusal(app, first, error).await),
            };
            let Some((index, event)) = event else {
                return Err(ApiError::server("the engine gave no answer"));
            };
            let decision = match &event {
                GenerationEvent::Routed(decision) if index == 0 => Some(decision.clone()),
                _ => None,
            };
            answers.pending.push_back((index, event));
            if let Some(decision) = decision {
                return Ok((answers, decision));
            }
        }
    }

    /// The next event of any of them and its answer's number; `None` after all have finished. An answer that fails is an
    /// error, and nothing comes after it. A call that is dropped loses no event.
    pub async fn next(&mut self) -> Result<Option<(usize, GenerationEvent)>, ApiError> {
        match self.pending.pop_front() {
            Some(event) => Ok(Some(event)),
            None => self.receive().await,
        }
    }

    async fn receive(&mut self) -> Result<Option<(usize, GenerationEvent)>, ApiError> {
        if self.answers.iter().all(|answer| answer.events.is_none()) {
            return Ok(None);
        }
        let mut phase = self.phase.clone();
        let (limit, deadline) = (self.limit, self.deadline);
        let (index, event) = tokio::select! {
            biased;
            received = poll_fn(|context| self.poll(context)) => received,
            _ = phase.wait_for(|phase| *phase == Phase::Cut) => return Err(ApiError::stopping()),
            () = tokio::time::sleep_until(deadline) => return Err(ApiError::timeout(limit.as_secs())),
        };
        let Some(event) = event else {
            return Err(ApiError::server("the engine stopped without finishing the answer"));
        };
        let answer = &mut self.answers[index];
        answer.observer.take(&event);
        if let GenerationEvent::Token(token) = &event {
            answer.lane = Some(token.lane);
        }
        if let GenerationEvent::Finished(finished) = &event {
            answer.events = None;
            self.places.leave();
            self.log.answer(answer.lane, finished, answer.submitted.elapsed());
            match &finished.reason {
                FinishReason::Error(message) => return Err(ApiError::server(message.as_str())),
                FinishReason::Cancelled => return Err(ApiError::stopping()),
                FinishReason::Stop | FinishReason::ToolCalls | FinishReason::Length | FinishReason::ContextFull => {}
            }
        }
        Ok(Some((index, event)))
    }

    fn poll(&mut self, context: &mut std::task::Context<'_>) -> Poll<(usize, Option<GenerationEvent>)> {
        let count = self.answers.len();
        for step in 0..count {
            let index = (self.turn + step) % count;
            let Some(events) = &mut self.answers[index].events else { continue };
            if let Poll::Ready(event) = events.poll_recv(context) {
                self.turn = index + 1;
                return Poll::Ready((index, event));
            }
        }
        Poll::Pending
    }

    pub fn count(&self) -> usize {
        self.answers.len()
    }

    /// When an answer was submitted.
    pub fn submitted(&self, index: usize) -> Instant {
        self.answers.get(index).map_or_else(Instant::now, |answer| answer.submitted)
    }

    /// Reads all answers to their ends.
    pub async fn collect(mut self) -> Result<Vec<Collected>, ApiError> {
        let mut all: Vec<Collected> = (0..self.count()).map(|_| Collected::default()).collect();
        while let Some((index, event)) = self.next().await? {
            all[index].take(event);
        }
        Ok(all)
    }
}

/// What an answer is predicted to take on the first lane that was measured.
fn predicted_answer(engine: &EngineSnapshot) -> Option<Duration> {
    let ready = engine.lanes.iter().filter(|lane| lane.state == LaneState::Ready);
    let rate = ready.filter_map(|lane| lane.measured.decode).find(|rate| *rate > 0.0)?;
    Duration::try_from_secs_f64(EXPECTED_ANSWER as f64 / rate).ok()
}

/// Why the engine would not take a request, as it says itself when it is asked again without running anything.
async fn refusal(app: &App, ask: Option<Ask>, error: ApiError) -> ApiError {
    let Some(ask) = ask else { return error };
    // What else went wrong was no refusal.
    if error.status != axum::http::StatusCode::INTERNAL_SERVER_ERROR {
        return error;
    }
    let (engine, param) = (app.engine.clone(), ask.param());
    let looked = tokio::task::spawn_blocking(move || match &ask {
        Ask::Chat(request) => engine.preview(request),
        Ask::Complete(request) => engine.preview_completion(request),
    });
    match looked.await {
        Ok(Err(refused)) => ApiError::refused(&refused, param),
        _ => error,
    }
}

/// The lane and the rule that chose it, as headers.
pub fn route_headers(decision: &RoutingDecision, headers: &mut HeaderMap) {
    for (name, value) in [
        ("x-ortalk-lane", decision.lane.name()),
        ("x-ortalk-route", decision.rule.name()),
        ("x-ortalk-emulated", if decision.emulated { "true" } else { "false" }),
    ] {
        headers.insert(name, axum::http::HeaderValue::from_static(value));
    }
}

/// A whole answer.
#[derive(Debug, Default)]
pub struct Collected {
    pub text: String,
    pub thinking: String,
    pub tool_calls: Vec<ToolCall>,
    /// Of the answer's tokens, without thinking.
    pub logprobs: Vec<TokenLogprobs>,
    pub reason: Option<FinishReason>,
    pub usage: Usage,
    pub routing: Option<RoutingDecision>,
}

impl Collected {
    pub fn take(&mut self, event: GenerationEvent) {
        match event {
            GenerationEvent::Routed(decision) => self.routing = Some(decision),
            GenerationEvent::Token(token) => {
                self.add(&token.thinking, &token.text, token.tool_calls);
                if !token.thinks {
                    self.logprobs.extend(token.logprobs);
                }
            }
            GenerationEvent::TrailingText { thinking, text, tool_calls } => self.add(&thinking, &text, tool_calls),
            GenerationEvent::Finished(finished) => {
                self.reason = Some(finished.reason);
                self.usage = finished.usage;
            }
            GenerationEvent::ContextTrimmed(_)
            | GenerationEvent::PrefillProgress(_)
            | GenerationEvent::LaneChanged(_) => {}
        }
    }

    fn add(&mut self, thinking: &str, text: &str, deltas: Vec<ToolCallDelta>) {
        self.thinking.push_str(thinking);
        self.text.push_str(text);
        for delta in deltas {
            match delta {
                ToolCallDelta::Start { id, name, .. } => {
                    self.tool_calls.push(ToolCall { id, name, arguments: String::new() });
                }
                ToolCallDelta::Arguments { index, text } => {
                    if let Some(call) = self.tool_calls.get_mut(index) {
                        call.arguments.push_str(&text);
                    }
                }
            }
        }
    }
}
