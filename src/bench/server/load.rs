//! The clients.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use super::prompts::prompt;
use super::report::{Failure, Level, ServerPlan, Shot};
use crate::remote::{ChatBody, Client, Endpoint, RemoteError, Timeouts};

/// After a failure, where the server does not say how long to wait: else one that refuses would be asked without a pause.
const PAUSE: Duration = Duration::from_millis(100);
/// However long the server wants to be left alone.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Fields that a server may not know.
const MOST_FIELDS: usize = 4;

#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error(transparent)]
    Remote(#[from] RemoteError),
    #[error("{host} has no model; name one with --model")]
    NoModel { host: String },
    #[error("the answer of {host} to the first request has no text")]
    Empty { host: String },
}

/// Fields of a request that every one of them has.
#[derive(Clone)]
struct Asking {
    model: String,
    max_tokens: usize,
    /// The server does not know them.
    given_up: Vec<String>,
}

impl Asking {
    fn body(&self, index: usize) -> ChatBody {
        let messages = vec![json!({"role": "user", "content": prompt(index)})];
        let body = ChatBody::new(&self.model, messages);
        let mut body = body.with("max_tokens", Some(self.max_tokens)).with("temperature", Some(0));
        for field in &self.given_up {
            body.give_up(field);
        }
        body
    }
}

/// Does what the plan says. `model` is the server's first one where nobody names one. `say` hears of each level before it
/// starts. An error is one of the first request: what comes later is counted.
pub fn load(
    endpoint: &Endpoint,
    model: Option<String>,
    plan: &ServerPlan,
    say: &mut dyn FnMut(usize),
) -> Result<(String, Vec<Level>), ServerError> {
    let client = Client::new(endpoint.clone(), Timeouts::default());
    let model = match model {
        Some(model) => model,
        None => {
            let first = client.models(&|| false)?.into_iter().next();
            first.ok_or_else(|| ServerError::NoModel { host: endpoint.host().to_owned() })?.id
        }
    };
    let mut asking = Asking { model, max_tokens: plan.max_tokens, given_up: Vec::new() };
    let next = AtomicUsize::new(0);
    // The first request finds out what the server takes.
    agree(&client, &mut asking, next.fetch_add(1, Ordering::Relaxed))?;
    for _ in 1..plan.warmup {
        let _ = shoot(&client, &asking, next.fetch_add(1, Ordering::Relaxed));
    }
    let mut levels: Vec<Level> = Vec::new();
    for &concurrency in &plan.concurrency {
        say(concurrency);
        let mut level = run(endpoint, &asking, concurrency, plan.requests, &next);
        let first = levels.first().map_or(level.tokens_per_second, |first| first.tokens_per_second);
        level.scaling = level.tokens_per_second.zip(first).map(|(rate, first)| rate / first);
        levels.push(level);
    }
    Ok((asking.model, levels))
}

/// Leaves out, one after the other, the fields that the server does not know.
fn agree(client: &Client, asking: &mut Asking, index: usize) -> Result<(), ServerError> {
    for _ in 0..=MOST_FIELDS {
        match shoot(client, asking, index) {
            Ok(Some(_)) => return Ok(()),
            Ok(None) => return Err(ServerError::Empty { host: client.endpoint().host().to_owned() }),
            Err(RemoteError::Refused { param: Some(field), .. }) if asking.body(index).give_up(&field) => {
                asking.given_up.push(field);
            }
            Err(error) => return Err(error.into()),
        }
    }
    shoot(client, asking, index)?;
    Ok(())
}

/// So many clients, until the requests are used up.
fn run(endpoint: &Endpoint, asking: &Asking, concurrency: usize, requests: usize, next: &AtomicUsize) -> Level {
    let left = AtomicUsize::new(requests);
    let results: Mutex<(Vec<Shot>, Vec<Failure>)> = Mutex::default();
    let ask = || {
        let client = Client::new(endpoint.clone(), Timeouts::default());
        while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
            let result = shoot(&client, asking, next.fetch_add(1, Ordering::Relaxed));
            let mut pause = None;
            let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
            match result {
                Ok(Some(shot)) => results.0.push(shot),
                Ok(None) => results.1.push(Failure::empty()),
                Err(error) => {
                    results.1.push(Failure::of(&error));
                    pause = Some(error.wait().unwrap_or(PAUSE).min(LONGEST_PAUSE));
                }
            }
            drop(results);
            // The last ones wait for nothing.
            if let Some(pause) = pause.filter(|_| left.load(Ordering::Relaxed) > 0) {
                std::thread::sleep(pause);
            }
        }
    };
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..concurrency.min(requests) {
            scope.spawn(ask);
        }
    });
    let duration = began.elapsed();
    let (shots, failures) = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    Level::of(concurrency, duration, &shots, &failures)
}

/// One request. `None` is an answer without text.
fn shoot(client: &Client, asking: &Asking, index: usize) -> Result<Option<Shot>, RemoteError> {
    let body = asking.body(index);
    let went_on = || false;
    let began = Instant::now();
    let mut stream = client.chat(&body, &went_on)?;
    let (mut first, mut last, mut gaps) = (None, began, Vec::new());
    while let Some(piece) = stream.next(&went_on)? {
        if piece.text.is_empty() && piece.thinking.is_empty() {
            continue;
        }
        match first {
            None => first = Some(piece.at),
            Some(_) => gaps.push(piece.at.saturating_duration_since(last)),
        }
        last = piece.at;
    }
    let took = began.elapsed();
    let usage = stream.summary().usage;
    Ok(first.map(|first| Shot {
        ttft: first.saturating_duration_since(began),
        gaps,
        took,
        prompt_tokens: usage.map(|usage| usage.prompt_tokens),
        completion_tokens: usage.map(|usage| usage.completion_tokens).filter(|tokens| *tokens > 0),
    }))
}
