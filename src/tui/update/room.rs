//! Messages that their lane can never hold, whatever is left out of the conversation: they are not sent, and the draft
//! stays with who wrote it.

use std::time::Instant;

use crate::engine::{ChatRequest, LaneState, Role, RoutingDecision, prompt_room};

use super::super::composer::Draft;
use super::super::consent::{self, Gate};
use super::super::event::Effect;
use super::super::format::grouped;
use super::super::state::State;
use super::send::return_queue;

/// More than what a template puts around a message, in tokens.
const TEMPLATE: usize = 256;

/// What the router said of what is typed, if it has not changed since.
pub fn weighed_already(state: &State) -> Option<&RoutingDecision> {
    let preview = &state.preview;
    let is_fresh = preview.due.is_none() && preview.asked.is_none();
    preview.shown.as_ref().filter(|_| is_fresh)?.as_ref().ok()
}

/// Why it is not sent.
pub fn objection(decision: &RoutingDecision) -> Option<String> {
    let excess = decision.excess()?;
    let (room, lane) = (grouped(decision.prompt_room()), decision.lane);
    Some(format!("not sent: {} tokens over the {room} of {lane}", grouped(excess)))
}

/// Keeps a message back that may be too long, until the router has counted. False where it can go.
pub fn hold(state: &mut State, typed: &Draft, effects: &mut Vec<Effect>) -> bool {
    let request = state.request(typed);
    if !may_be_too_long(state, &request) {
        return false;
    }
    state.queue.insert(0, typed.clone());
    state.gate = Gate::Weighing;
    let allow_remote = request.allow_remote || consent::is_undecided(state);
    effects.push(Effect::Weigh(ChatRequest { allow_remote, ..request }));
    true
}

/// A token is a byte at least, so what is short in bytes need not be counted.
fn may_be_too_long(state: &State, request: &ChatRequest) -> bool {
    let Some(snapshot) = state.snapshot() else { return false };
    let lanes = snapshot.lanes.iter().filter(|lane| request.lane.is_none_or(|id| id == lane.id));
    let lanes = lanes.filter(|lane| matches!(lane.state, LaneState::Ready | LaneState::Loading { .. }));
    let Some(limit) = lanes.map(|lane| lane.context_limit).max() else { return false };
    let system = request.messages.iter().filter(|message| message.role == Role::System);
    let alone = system.chain(request.messages.last()).map(|message| message.content.len()).sum::<usize>();
    limit > 0 && alone + TEMPLATE > prompt_room(limit, request.max_tokens)
}

/// Gives back the message at the head of the queue.
pub fn refuse(state: &mut State, objection: String, now: Instant) {
    return_queue(state, now);
    state.hint = Some(objection);
}
