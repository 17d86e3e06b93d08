//! What the engine's reports do to the state: loading, the events of an answer, previews, samples of the machine.

use std::time::Instant;

use crate::engine::{EngineSnapshot, FinishReason, GenerationEvent, LaneChange, LaneState, Usage};

use crate::store::TokenTime;

use super::super::chats::EDITED_BY_YOU;
use super::super::consent;
use super::super::conversation::{Block, Kind, Level, Words};
use super::super::event::{Effect, Event};
use super::super::state::{EngineState, REFRESH_PERIOD, State};
use super::chats;
use super::send::{return_queue, submit};
use super::writing;

pub fn on_event(state: &mut State, event: Event, now: Instant, effects: &mut Vec<Effect>) {
    state.dirty = true;
    match event {
        Event::EngineLoaded(snapshot) => {
            // A recording has what was said.
            let is_said = state.replay.is_some();
            if let Some(text) = chats::other_model(state, &snapshot).filter(|_| !is_said) {
                state.conversation.add(Kind::Notice(Level::Info), &text);
            }
            ready(state, snapshot, now, effects);
        }
        Event::EngineFailed(error) => {
            state.conversation.add(Kind::Notice(Level::Error), &format!("The engine could not start.\n{error}"));
            let log = format!("What the libraries reported is in {}", state.log_file.display());
            state.conversation.add(Kind::Notice(Level::Info), &log);
            state.engine = EngineState::Failed(error);
            return_queue(state, now);
            // The beginning of a long error says what is wrong.
            state.lay_out();
            state.conversation.scroll_to(0);
        }
        Event::Snapshot(snapshot) => {
            if let EngineState::Ready(current) = &mut state.engine {
                state.refresh = next_refresh(&snapshot, now);
                let changed = current.lanes.iter().map(|lane| &lane.state).ne(snapshot.lanes.iter().map(|l| &l.state));
                *current = snapshot;
                // Another lane may be chosen now.
                if changed && !state.composer.is_empty() && state.preview.due.is_none() {
                    state.preview.due = Some(now);
                }
            }
        }
        Event::Generation(event) => on_generation(state, event, now, effects),
        Event::GenerationLost if state.busy() => {
            let ending = (Level::Error, "error: the lane ended without a word".to_string());
            close_answer(state, "error", Some(ending), effects);
            after_answer(state, false, now, effects);
        }
        Event::Previewed { revision, result } => {
            state.preview.asked = None;
            if revision == state.composer.revision() && !state.composer.is_empty() {
                state.preview.shown = Some(result);
            } else if state.preview.due.is_none() && !state.composer.is_empty() {
                state.preview.due = Some(now);
            }
        }
        Event::ConversationCounted { number, result } => state.standing.note(number, result),
        Event::Billed(bill) => {
            if let Some(complaint) = &bill.complaint {
                state.conversation.add(Kind::Notice(Level::Warning), complaint);
            }
            state.spent.add(&bill.entry, None);
            state.panels.note_bill(&bill.entry);
            state.bill = Some(bill);
        }
        Event::Weighed(result) => consent::weighed(state, result, now, effects),
        Event::Device(sample) => {
            state.panels.note_sample(&sample);
            state.device = Some(*sample);
        }
        // All others are not the engine's.
        _ => {}
    }
}

/// An engine can answer; what waited for it is sent.
pub fn ready(state: &mut State, snapshot: EngineSnapshot, now: Instant, effects: &mut Vec<Effect>) {
    state.refresh = next_refresh(&snapshot, now);
    let objection = state.settings.thinking.and_then(|wish| snapshot.thinking.objection(wish));
    state.hint = objection.map(str::to_string).or(state.hint.take());
    state.engine = EngineState::Ready(snapshot);
    state.preview.due = Some(now);
    writing::count_anew(state, effects);
    if !state.busy() {
        send_next(state, now, effects);
    }
}

/// When to look again: a lane that loads says nothing when it is ready.
fn next_refresh(snapshot: &EngineSnapshot, now: Instant) -> Option<Instant> {
    let loading = snapshot.lanes.iter().any(|lane| matches!(lane.state, LaneState::Loading { .. }));
    loading.then_some(now + REFRESH_PERIOD)
}

fn on_generation(state: &mut State, event: GenerationEvent, now: Instant, effects: &mut Vec<Effect>) {
    let Some(answer) = state.answer.as_mut().filter(|answer| !answer.over) else { return };
    let block = answer.block;
    answer.note(&event);
    match event {
        GenerationEvent::Routed(decision) => {
            if let Some(header) = state.conversation.header_mut(block) {
                header.lane = Some(decision.lane);
                header.emulated = decision.emulated;
            }
            chats::on_lane(state, decision.lane, decision.emulated, None, effects);
            // A lane that failed is opened again for whoever names it.
            let lanes = state.snapshot().map(|snapshot| snapshot.lanes.as_slice()).unwrap_or_default();
            if !lanes.iter().any(|lane| lane.id == decision.lane && lane.state == LaneState::Ready) {
                state.refresh = Some(now + REFRESH_PERIOD);
            }
        }
        GenerationEvent::ContextTrimmed(trim) => {
            let messages = if trim.dropped_messages == 1 { "message was" } else { "messages were" };
            let text = format!(
                "The oldest {} {messages} left out of the prompt, which has {} of {} tokens now; the context holds {}.",
                trim.dropped_messages, trim.tokens_after, trim.tokens_before, trim.context_limit
            );
            answer.block += 1;
            state.conversation.notice_above(block, Level::Warning, &text);
        }
        GenerationEvent::PrefillProgress(_) => {}
        GenerationEvent::Token(token) => {
            let (tokens, took) = (answer.tokens, answer.newest());
            let since_last = answer.latencies().last().copied().unwrap_or_default();
            if let Some(header) = state.conversation.header_mut(block).filter(|_| token.thinks) {
                header.thinking_tokens = tokens;
                header.thinking_time += since_last;
            }
            // As it is kept.
            let thinks = token.thinks || !token.thinking.is_empty();
            let words = Words { text: &token.text, thinking: &token.thinking, thinks };
            state.conversation.add_token(block, words, took, token.lane);
            // New text does not carry away what is looked at.
            super::panels::show_token(state);
            chats::said(state, &token.text, &token.thinking, Some(TokenTime::new(took.time, thinks)), effects);
        }
        GenerationEvent::TrailingText { thinking, text, .. } => {
            state.conversation.add_trailing(block, &thinking, &text);
            chats::said(state, &text, &thinking, None, effects);
        }
        GenerationEvent::LaneChanged(change) => {
            if let Some(header) = state.conversation.header_mut(block) {
                header.lane = Some(change.to);
                header.emulated = change.emulated;
            }
            let LaneChange { from, to, after_tokens, emulated, reason, .. } = change;
            let tokens = if after_tokens == 1 { "token" } else { "tokens" };
            let reason = super::super::text::sanitize::one_line(&reason);
            let mark = format!("{from} to {to} after {after_tokens} {tokens}: {reason}");
            state.conversation.add_mark(block, mark.clone());
            chats::on_lane(state, to, emulated, Some(mark), effects);
            effects.push(Effect::RefreshSnapshot);
        }
        GenerationEvent::Finished(finished) => {
            let failed = matches!(finished.reason, FinishReason::Error(_));
            close_answer(state, finished.reason.name(), ending(&finished.reason, finished.usage), effects);
            after_answer(state, !failed, now, effects);
        }
    }
}

/// How an answer ended, where that was not the model's own end.
fn ending(reason: &FinishReason, usage: Usage) -> Option<(Level, String)> {
    match reason {
        FinishReason::Stop | FinishReason::ToolCalls => None,
        FinishReason::Length => {
            let text = format!("cut off after {} tokens, it may not be complete", usage.completion_tokens);
            Some((Level::Warning, text))
        }
        FinishReason::ContextFull => {
            let text = format!("the context was full after {} tokens, it may not be complete", usage.completion_tokens);
            Some((Level::Warning, text))
        }
        FinishReason::Cancelled => Some((Level::Warning, "cancelled".to_string())),
        FinishReason::Error(message) => {
            Some((Level::Error, format!("error: {}", super::super::text::sanitize::sanitize(message))))
        }
    }
}

/// Marks the running answer as over and writes its measured numbers into its header.
pub fn close_answer(state: &mut State, finish: &str, ending: Option<(Level, String)>, effects: &mut Vec<Effect>) {
    let Some(answer) = state.answer.as_mut() else { return };
    answer.over = true;
    state.panels.note(answer);
    let speed = answer.tokens_per_second();
    // What was said is kept with its question; a question without a word of an answer is not asked again.
    let left_out = state.conversation.blocks().get(answer.block).is_none_or(Block::is_empty);
    let ending = ending.map(|(level, text)| match left_out {
        true => (level, format!("{text}; what follows leaves this question out")),
        false => (level, text),
    });
    let is_silent = answer.tokens == 0 && ending.is_none();
    // What a person wrote stays a person's, also where the model went on from it.
    let ending = match (chats::is_rewritten(&state.chats), ending) {
        (false, ending) => ending,
        (true, None) => Some((Level::Info, EDITED_BY_YOU.to_owned())),
        (true, Some((level, text))) => Some((level, format!("{EDITED_BY_YOU}; {text}"))),
    };
    if is_silent && chats::goes_on(&state.chats) {
        state.hint = Some("the model had nothing to add".to_owned());
    }
    if let Some(header) = state.conversation.header_mut(answer.block) {
        header.running = false;
        header.ttft = answer.ttft();
        header.tokens_per_second = speed;
        header.ending = ending;
    }
    chats::ended(state, finish, effects);
}

fn after_answer(state: &mut State, go_on: bool, now: Instant, effects: &mut Vec<Effect>) {
    effects.push(Effect::RefreshSnapshot);
    if go_on {
        send_next(state, now, effects);
    } else {
        return_queue(state, now);
    }
    if !state.composer.is_empty() {
        state.preview.due = Some(now);
    }
}

fn send_next(state: &mut State, now: Instant, effects: &mut Vec<Effect>) {
    if !state.queue.is_empty() {
        let message = state.queue.remove(0);
        submit(state, &message, now, effects);
    }
}
