//! The dispatcher's thread: makes a request's prompt, asks the router, fits the prompt into the chosen lane and hands it
//! over. A long prompt is tokenized here, so that neither a front end nor a lane waits for it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;

use tokio::sync::mpsc::UnboundedSender;

use super::event::{Finished, GenerationEvent};
use super::generate::{Job, reusable};
use super::lane::LaneId;
use super::prompt;
use super::request::ChatRequest;
use super::route::{LaneFacts, RouteError, RoutingDecision, RoutingFacts, route};
use super::worker::{Lane, SharedLanes};
use super::{EngineError, lock, panic_message};
use crate::model::ModelFolder;

pub struct Submission {
    pub request: ChatRequest,
    pub submitted: Instant,
    pub events: UnboundedSender<GenerationEvent>,
}

pub fn start(
    folder: Arc<ModelFolder>,
    lanes: SharedLanes,
    workers: Vec<(LaneId, Sender<Job>)>,
) -> std::io::Result<(Sender<Submission>, JoinHandle<()>)> {
    let (sender, received) = channel::<Submission>();
    let thread = std::thread::Builder::new().name("dispatcher".into()).spawn(move || {
        for submission in received {
            let events = submission.events.clone();
            // A request that breaks the tokenizer or the template must not end the engine: nothing here outlives it.
            let done = catch_unwind(AssertUnwindSafe(|| dispatch(&folder, &lanes, &workers, submission)))
                .unwrap_or_else(|panic| Err(EngineError::Panic(panic_message(&*panic))));
            if let Err(error) = done {
                let _ = events.send(GenerationEvent::Finished(Finished::error(error.to_string())));
            }
        }
    })?;
    Ok((sender, thread))
}

fn dispatch(
    folder: &ModelFolder,
    lanes: &SharedLanes,
    workers: &[(LaneId, Sender<Job>)],
    submission: Submission,
) -> Result<(), EngineError> {
    let Submission { request, submitted, events } = submission;
    let full = prompt::tokenize(folder, &request.messages)?;
    let mut decision = decide(&lock(lanes), &request, &full)?;
    let (lane, limit) = (decision.lane, decision.context_limit);

    let tokenize = |messages: &[_]| prompt::tokenize(folder, messages);
    let fitted = prompt::fit(&request.messages, full, limit, request.max_tokens, tokenize)?;
    if fitted.trim.is_some() {
        // The rule was about the whole conversation; what the lane gets, and how long it takes, is about what is left.
        let left = decide(&lock(lanes), &request, &fitted.tokens)?;
        (decision.prompt_tokens, decision.predicted_ttft) = (left.prompt_tokens, left.predicted_ttft);
    }
    let _ = events.send(GenerationEvent::Routed(decision));
    if let Some(trim) = fitted.trim {
        let _ = events.send(GenerationEvent::ContextTrimmed(trim));
    }
    let job = Job {
        prompt: fitted.tokens,
        sampling: request.sampling,
        max_tokens: request.max_tokens,
        stop: request.stop,
        submitted,
        events,
    };
    if let Some((_, jobs)) = workers.iter().find(|(id, _)| *id == lane) {
        // Lanes' threads take jobs until this one ends.
        let _ = jobs.send(job);
    }
    Ok(())
}

/// Asks the router about a conversation whose prompt is `prompt`.
pub fn decide(lanes: &[Lane], request: &ChatRequest, prompt: &[u32]) -> Result<RoutingDecision, RouteError> {
    let lanes: Vec<LaneFacts<'_>> = lanes
        .iter()
        .map(|lane| LaneFacts { status: &lane.status, reusable_tokens: reusable(&lane.cached, prompt) })
        .collect();
    route(&RoutingFacts {
        prompt_tokens: prompt.len(),
        answer_tokens: request.max_tokens,
        lanes: &lanes,
        requested: request.lane,
    })
}
