//! What a conversation takes that was opened or changed: no answer that was given here has counted its tokens, so the
//! engine is asked to.

use crate::engine::{ChatRequest, Role, RoutingDecision};

use super::event::Effect;
use super::state::State;

#[derive(Debug, Default)]
pub struct Standing {
    /// What was counted last, or is being counted.
    of: Option<Of>,
    number: u64,
    counted: Option<RoutingDecision>,
}

/// What the count depends on.
#[derive(Debug, PartialEq, Eq)]
struct Of {
    conversation: Option<String>,
    head: Option<u32>,
    system: Option<String>,
    model: String,
}

impl Standing {
    /// The conversation as the lane would get it; `None` while that is not known.
    pub fn counted(&self) -> Option<&RoutingDecision> {
        self.counted.as_ref()
    }

    pub fn note(&mut self, number: u64, result: Result<RoutingDecision, String>) {
        if number == self.number {
            self.counted = result.ok();
        }
    }
}

/// Has the conversation counted where nobody knows what it takes.
pub fn follow(state: &mut State, effects: &mut Vec<Effect>) {
    if state.answer.as_ref().is_some_and(|answer| !answer.is_kept()) || state.replay.is_some() {
        state.standing = Standing { number: state.standing.number, ..Standing::default() };
        return;
    }
    let Some(snapshot) = state.snapshot() else { return };
    let of = Of {
        conversation: state.chats.id.clone(),
        head: state.chats.tree.head(),
        system: state.settings.system.clone(),
        model: snapshot.model.clone(),
    };
    if state.standing.of.as_ref() == Some(&of) {
        return;
    }
    let turns = state.conversation.messages();
    let number = state.standing.number + 1;
    // An answer is counted as it stands, without what would lead to the next.
    let continue_last = turns.last().is_some_and(|turn| turn.role == Role::Assistant);
    if continue_last {
        let request = ChatRequest { continue_last, ..state.settings.request(turns) };
        effects.push(Effect::CountConversation { number, request });
    }
    state.standing = Standing { of: Some(of), number, counted: None };
}
