//! What is done to the message that is selected: edited, answered again, gone on with, left for another version, deleted.

use std::time::Instant;

use crate::store::{End, Record};

use super::super::super::chats::{Deleted, EDITED, EDITED_BY_YOU, Redo};
use super::super::super::clipboard::harmless;
use super::super::super::composer::{Draft, Motion};
use super::super::super::event::Effect;
use super::super::super::keys::{Action, Context};
use super::super::super::state::State;
use super::super::super::text::sanitize::one_line;
use super::super::super::text::truncate;
use super::super::replay;
use super::super::send::{submit, typed};
use super::{busy, record, refresh, select, select_by, undo};

pub(super) fn act_on_message(
    state: &mut State,
    id: u32,
    action: Action,
    now: Instant,
    effects: &mut Vec<Effect>,
) -> bool {
    match action {
        Action::MessageUp => select_by(state, -1),
        Action::MessageDown => select_by(state, 1),
        Action::CopyMessage => {
            let text = state.chats.tree.message(id).map(|message| message.text.clone()).unwrap_or_default();
            effects.push(Effect::Copy(harmless(&text)));
        }
        Action::LeaveMessage | Action::Escape => {
            state.chats.selected = None;
            state.conversation.follow();
        }
        _ if changes(action) && state.replay.is_some() => replay::say_that_nobody_answers(state),
        _ if changes(action) && (state.busy() || state.snapshot().is_none() || !state.queue.is_empty()) => {
            state.hint = Some(if state.busy() { busy(state) } else { "the model is not ready yet".to_owned() });
        }
        Action::EditMessage => edit(state, id, now, effects),
        Action::AnswerAgain => answer_again(state, id, now, effects),
        Action::GoOn => go_on(state, id, now, effects),
        Action::Branch => branch(state, id, effects),
        Action::DeleteMessage => delete_message(state, id, effects),
        Action::UndoDelete => state.hint = undo(state, effects).unwrap_or_else(Some),
        Action::PreviousVersion => switch(state, id, -1, effects),
        Action::NextVersion => switch(state, id, 1, effects),
        _ => return false,
    }
    true
}

/// The conversation is another one afterwards.
fn changes(action: Action) -> bool {
    matches!(
        action,
        Action::EditMessage
            | Action::AnswerAgain
            | Action::GoOn
            | Action::Branch
            | Action::DeleteMessage
            | Action::UndoDelete
            | Action::PreviousVersion
            | Action::NextVersion
    )
}

/// The message comes into the composer; what becomes of it stands beside it.
fn edit(state: &mut State, id: u32, now: Instant, effects: &mut Vec<Effect>) {
    let Some(message) = state.chats.tree.message(id) else { return };
    let is_answer = message.answer.is_some();
    let as_typed = match &message.shown {
        None => Some(Draft::from(message.text.as_str())),
        Some(shown) => Draft::brought_back(&message.text, shown),
    };
    let insets = match as_typed {
        Some(draft) => state.composer.bring_back(draft),
        // Of before: what the files and pastes were is not known any more.
        None => {
            state.composer.clear();
            state.composer.paste(&message.text).into_iter().collect()
        }
    };
    effects.extend(insets.into_iter().map(Effect::CountTokens));
    // What was sent is no command.
    if !is_answer && state.composer.text().starts_with('/') {
        state.composer.move_cursor(Motion::Start);
        state.composer.insert(" ");
        state.composer.move_cursor(Motion::End);
    }
    state.chats.redo = Some(if is_answer { Redo::Rewrite(id) } else { Redo::Edit(id) });
    state.chats.selected = None;
    typed(state, now);
}

/// What is typed is another version of the answer.
pub(in super::super) fn keep_rewritten(state: &mut State, now: Instant, effects: &mut Vec<Effect>) {
    let Some(Redo::Rewrite(id)) = state.chats.redo else { return };
    let old = state.chats.tree.message(id).and_then(|message| Some((message, message.answer.as_ref()?)));
    let Some((old, answer)) = old else { return };
    let (text, parent, model) = (state.composer.draft().sent(), old.parent, answer.model.clone());
    if text == Draft::from(old.text.as_str()).text() {
        state.hint = Some("nothing of the answer was changed; Esc leaves it as it is".to_owned());
        return;
    }
    if state.busy() {
        state.hint = Some(busy(state));
        return;
    }
    let id = state.chats.tree.next_id();
    record(state, Record::Answer { id, parent, time: state.chats.wall, model }, effects);
    record(state, Record::Text { id, text, thinking: String::new(), token: None }, effects);
    let end = End { finish: EDITED.to_owned(), note: Some(EDITED_BY_YOU.to_owned()), ..End::default() };
    record(state, Record::End { id, end }, effects);
    state.chats.redo = None;
    state.composer.clear();
    typed(state, now);
    refresh(state);
    select(state, id);
    let key = |action| state.keys.key(Context::Message, action).unwrap_or_default();
    let (more, older) = (key(Action::GoOn), key(Action::PreviousVersion));
    state.hint = Some(format!("kept beside the old; {more} goes on, {older} goes back"));
}

/// Another answer to the question of this answer, or to this question.
pub(super) fn answer_again(state: &mut State, id: u32, now: Instant, effects: &mut Vec<Effect>) {
    let question = state.chats.tree.message(id).and_then(|message| match message.answer {
        Some(_) => state.chats.tree.message(message.parent?),
        None => Some(message),
    });
    let Some(question) = question.filter(|message| message.answer.is_none()) else {
        state.hint = Some("this answer has no question".to_owned());
        return;
    };
    let (id, text) = (question.id, question.text.clone());
    submit_as(state, Redo::Again(id), &text, now, effects);
}

/// A cut answer goes on.
pub(super) fn go_on(state: &mut State, id: u32, now: Instant, effects: &mut Vec<Effect>) {
    let Some(message) = state.chats.tree.message(id).filter(|message| message.answer.is_some()) else {
        return answer_again(state, id, now, effects);
    };
    if message.text.is_empty() {
        return answer_again(state, id, now, effects);
    }
    if state.chats.tree.head() != Some(id) {
        state.hint = Some("only the last answer can go on; b branches here".to_owned());
        return;
    }
    let question = message.parent.and_then(|parent| state.chats.tree.message(parent));
    let text = question.map(|question| question.text.clone()).unwrap_or_default();
    submit_as(state, Redo::Continue(id), &text, now, effects);
}

fn submit_as(state: &mut State, redo: Redo, text: &str, now: Instant, effects: &mut Vec<Effect>) {
    if state.busy() || state.snapshot().is_none() || !state.queue.is_empty() {
        state.hint = Some(if state.busy() { busy(state) } else { "the model is not ready yet".to_owned() });
        return;
    }
    state.chats.redo = Some(redo);
    state.chats.selected = None;
    state.conversation.follow();
    submit(state, &Draft::verbatim(text), now, effects);
}

/// What is sent next follows this answer, or stands in the place of this question.
fn branch(state: &mut State, id: u32, effects: &mut Vec<Effect>) {
    let Some(message) = state.chats.tree.message(id) else { return };
    let head = if message.answer.is_some() { Some(id) } else { message.parent };
    record(state, Record::Head(head), effects);
    state.chats.selected = None;
    refresh(state);
    state.conversation.follow();
    state.hint = Some("the next message begins a branch here; what came after is kept".to_owned());
}

fn delete_message(state: &mut State, id: u32, effects: &mut Vec<Effect>) {
    let shown: Vec<u32> = state.conversation.blocks().iter().filter_map(|block| block.message).collect();
    let below = shown.iter().skip_while(|message| **message != id).count().saturating_sub(1);
    record(state, Record::Delete(id), effects);
    state.chats.deleted.push(Deleted::Message(id));
    refresh(state);
    // Where it stood, or what is last now.
    let messages: Vec<u32> = state.conversation.blocks().iter().filter_map(|block| block.message).collect();
    let at = shown.iter().position(|message| *message == id).unwrap_or(0).min(messages.len().saturating_sub(1));
    state.chats.selected = None;
    if let Some(id) = messages.get(at) {
        select(state, *id);
    }
    let what = match below {
        0 => "is deleted".to_owned(),
        1 => "and the one below are deleted".to_owned(),
        below => format!("and {below} below are deleted"),
    };
    let key = state.keys.key(Context::Message, Action::UndoDelete).filter(|_| state.chats.selected.is_some());
    let key = key.unwrap_or_else(|| "/undo".to_owned());
    let rest = format!("{what}; {key} takes it back");
    // As many words of it as there is room for; the way back is more important.
    let words =
        state.chats.tree.message(id).map(|message| one_line(&message.shown().chars().take(200).collect::<String>()));
    let room = usize::from(state.columns).saturating_sub(rest.len() + HINT_MARGIN + 3).min(60);
    let name = match words.as_deref() {
        Some(words) if !words.is_empty() && room >= FEWEST_WORDS => format!("'{}'", truncate(words, room, "...")),
        _ => "it".to_owned(),
    };
    state.hint = Some(format!("{name} {rest}"));
}

/// Columns of the line below the composer that a hint does not have.
const HINT_MARGIN: usize = 6;
/// Columns that are worth the words of a message.
const FEWEST_WORDS: usize = 10;

/// Another message in the same place, with the newest that follows it.
fn switch(state: &mut State, id: u32, step: isize, effects: &mut Vec<Effect>) {
    let siblings = state.chats.tree.siblings(id);
    let at = siblings.iter().position(|sibling| *sibling == id);
    let next = at.and_then(|at| siblings.get(at.checked_add_signed(step)?)).copied();
    let Some(next) = next else {
        state.hint = Some(
            if siblings.len() > 1 { "there is no other version that way" } else { "there is no other version" }
                .to_owned(),
        );
        return;
    };
    let head = state.chats.tree.newest(Some(next));
    record(state, Record::Head(head), effects);
    refresh(state);
    select(state, next);
}
