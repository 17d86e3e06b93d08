//! What is done to the conversation as a tree, and to the other conversations: messages are recorded, selected, edited,
//! answered again, deleted; conversations are opened, renamed, deleted, written to files.

mod list;
mod message;
mod news;
mod own;

use std::time::Instant;

use crate::engine::LaneId;
use crate::store::{End, Made, Message, Record, TokenTime, export};

use super::super::answer::Answer;
use super::super::chats::{self, Chats, Deleted, Redo, Wish};
use super::super::command::ChatCommand;
use super::super::composer::Draft;
use super::super::consent::Gate;
use super::super::conversation::{AnswerHeader, Kind};
use super::super::event::Effect;
use super::super::keys::{Action, Context};
use super::super::state::State;
use super::super::text;
use super::commands;
use super::send::{cancel, typed};
use list::{act_on_list, open_list};
use message::{act_on_message, answer_again, go_on};

pub(super) use list::type_into_list;
pub(super) use message::keep_rewritten;
pub(super) use news::{on_news, show_opened};
pub(super) use own::other_model;

/// Something happened to the conversation.
fn record(state: &mut State, record: Record, effects: &mut Vec<Effect>) {
    state.chats.tree.apply(&record);
    if state.chats.saves {
        effects.push(Effect::Chats(Wish::Keep(record)));
    }
}

/// What was done to the conversation elsewhere, where this screen follows.
pub(super) fn follow_records(state: &mut State, records: Vec<Record>, effects: &mut Vec<Effect>) {
    records.into_iter().for_each(|change| record(state, change, effects));
    refresh(state);
}

/// A question and the answer that begins; returns the answer's block.
pub(super) fn begin(state: &mut State, question: &Draft, model: String, effects: &mut Vec<Effect>) -> usize {
    for change in own::changes(state) {
        record(state, change, effects);
    }
    let time = state.chats.wall;
    let redo = state.chats.redo.take();
    state.chats.selected = None;
    if let Some(Redo::Continue(id)) = redo
        && let Some(block) = state.conversation.block_of(id)
    {
        state.conversation.go_on(block);
        record(state, Record::Continue { id }, effects);
        state.chats.answering = Some(id);
        return block;
    }
    let parent = match redo {
        Some(Redo::Edit(id) | Redo::Rewrite(id)) => state.chats.tree.message(id).and_then(|message| message.parent),
        Some(Redo::Again(id)) => Some(id),
        Some(Redo::Continue(_)) | None => state.chats.tree.head(),
    };
    let asked = match redo {
        Some(Redo::Again(id)) => id,
        _ => {
            let id = state.chats.tree.next_id();
            let (text, shown) = question.kept();
            record(state, Record::Question { id, parent, time, text, shown }, effects);
            id
        }
    };
    let id = state.chats.tree.next_id();
    record(state, Record::Answer { id, parent: Some(asked), time, model: model.clone() }, effects);
    state.chats.answering = Some(id);
    chats::show(&mut state.conversation, &state.chats.tree);
    let block = state.conversation.block_of(id).unwrap_or_default();
    if let Some(header) = state.conversation.header_mut(block) {
        *header = AnswerHeader { model, running: true, ..AnswerHeader::default() };
    }
    block
}

/// The running answer's next piece.
pub(super) fn said(state: &mut State, text: &str, thinking: &str, token: Option<TokenTime>, effects: &mut Vec<Effect>) {
    if let Some(id) = state.chats.answering
        && !(text.is_empty() && thinking.is_empty() && token.is_none())
    {
        record(state, Record::Text { id, text: text.to_owned(), thinking: thinking.to_owned(), token }, effects);
    }
}

/// Why a message cannot be sent just now.
pub(super) fn objection(state: &State) -> Option<&'static str> {
    if state.chats.is_opening {
        return Some("the other conversation is being opened");
    }
    let waits = state.busy() || state.snapshot().is_none() || state.gate != Gate::Open;
    (state.chats.redo.is_some() && waits).then_some("an edited message cannot wait; send it when nothing is running")
}

/// What waited is not sent. A question that was to be answered again was never typed.
pub(super) fn take_back(state: &mut State) {
    if matches!(state.chats.redo, Some(Redo::Again(_) | Redo::Continue(_))) {
        state.chats.redo = None;
        if !state.queue.is_empty() {
            state.queue.remove(0);
        }
    }
}

/// A lane took the running answer.
pub(super) fn on_lane(state: &mut State, lane: LaneId, emulated: bool, why: Option<String>, effects: &mut Vec<Effect>) {
    if let Some(id) = state.chats.answering {
        record(state, Record::Lane { id, lane: lane.name().to_owned(), emulated, why }, effects);
    }
}

/// The running answer goes on from what a person wrote.
pub(super) fn is_rewritten(chats: &Chats) -> bool {
    let message = chats.answering.and_then(|id| chats.tree.message(id));
    // Such text has no token, and stands before any lane.
    message.and_then(|message| message.pieces().next()).is_some_and(|piece| *piece.made == Made::Text)
}

/// It goes on from what was said.
pub(super) fn goes_on(chats: &Chats) -> bool {
    let message = chats.answering.and_then(|id| chats.tree.message(id));
    message.is_some_and(|message| message.pieces().any(|piece| *piece.made == Made::GoesOn))
}

/// The running answer is over.
pub(super) fn ended(state: &mut State, finish: &str, effects: &mut Vec<Effect>) {
    let (Some(id), Some(answer)) = (state.chats.answering.take(), &state.answer) else { return };
    state.chats.answered = Some(id);
    let header = match state.conversation.blocks().get(answer.block).map(|block| &block.kind) {
        Some(Kind::Answer(header)) => header.clone(),
        _ => AnswerHeader::default(),
    };
    let end = End {
        finish: finish.to_owned(),
        note: header.ending.map(|(_, note)| note),
        tokens: answer.tokens,
        thinking_tokens: header.thinking_tokens,
        ttft: header.ttft,
        tokens_per_second: header.tokens_per_second,
    };
    record(state, Record::End { id, end }, effects);
}

/// The conversation is left; the next message begins another one.
pub(super) fn close(state: &mut State, effects: &mut Vec<Effect>) {
    own::give_back(state);
    if state.chats.saves {
        effects.push(Effect::Chats(Wish::Close));
    }
    put_away(state, effects);
    state.chats.begin_anew();
}

/// A conversation that is left without a message is deleted; that can be undone as any other.
fn put_away(state: &State, effects: &mut Vec<Effect>) {
    if state.chats.saves
        && state.chats.tree.is_emptied()
        && let Some(id) = &state.chats.id
    {
        effects.push(Effect::Chats(Wish::Delete(id.clone())));
    }
}

/// The program ends.
pub(super) fn quit(state: &State, effects: &mut Vec<Effect>) {
    if let Some(at) = effects.iter().position(|effect| matches!(effect, Effect::Quit(_))) {
        let mut last = Vec::new();
        put_away(state, &mut last);
        effects.splice(at..at, last);
    }
}

/// Everything that belongs to the conversation that is shown.
fn forget(state: &mut State, now: Instant, effects: &mut Vec<Effect>) {
    if state.busy() {
        cancel(state, now, effects);
    }
    own::give_back(state);
    commands::clear(state);
}

pub(super) fn command(state: &mut State, command: ChatCommand<'_>, now: Instant, effects: &mut Vec<Effect>) {
    let done = match command {
        ChatCommand::Open(words) => {
            let words = words.to_owned();
            state.composer.take();
            open_list(state, &words, effects);
            return;
        }
        ChatCommand::Rename(title) => rename(state, title, effects),
        ChatCommand::Delete => delete_conversation(state, now, effects),
        ChatCommand::Undo => undo(state, effects),
        ChatCommand::Export(file) => export(state, file, effects),
        ChatCommand::Save => save(state, effects),
        ChatCommand::Regenerate | ChatCommand::Continue => {
            let Some(last) = state.chats.tree.head() else {
                state.hint = Some("nothing was said yet".to_owned());
                return;
            };
            state.composer.take();
            return match command {
                ChatCommand::Regenerate => answer_again(state, last, now, effects),
                _ => go_on(state, last, now, effects),
            };
        }
    };
    match done {
        // What was typed stays, to be put right.
        Err(hint) => state.hint = Some(hint),
        Ok(hint) => {
            state.composer.take();
            state.hint = hint.or(state.hint.take());
        }
    }
}

/// What to say when it is done at once, or why it cannot be.
type Done = Result<Option<String>, String>;

fn needs_store(state: &State) -> Result<(), String> {
    state.chats.has_store.then_some(()).ok_or_else(|| "conversations are not kept here".to_owned())
}

fn rename(state: &mut State, title: &str, effects: &mut Vec<Effect>) -> Done {
    if state.chats.tree.is_empty() {
        return Err("there is no conversation yet".to_owned());
    }
    record(state, Record::Title(title.to_owned()), effects);
    Ok(Some("renamed".to_owned()))
}

fn delete_conversation(state: &mut State, now: Instant, effects: &mut Vec<Effect>) -> Done {
    needs_store(state)?;
    let Some(id) = state.chats.id.clone() else {
        return Err("this conversation is not saved; /clear begins a new one".to_owned());
    };
    forget(state, now, effects);
    state.chats.begin_anew();
    state.chats.deleted.push(Deleted::Conversation(id.clone()));
    effects.push(Effect::Chats(Wish::Delete(id)));
    Ok(None)
}

/// Takes the last deletion back.
fn undo(state: &mut State, effects: &mut Vec<Effect>) -> Done {
    match state.chats.deleted.pop() {
        None => Err("nothing was deleted".to_owned()),
        Some(_) if state.busy() => Err(busy(state)),
        Some(Deleted::Conversation(id)) => {
            effects.push(Effect::Chats(Wish::Undelete(id)));
            Ok(None)
        }
        Some(Deleted::Message(id)) => {
            record(state, Record::Restore(id), effects);
            refresh(state);
            select(state, id);
            Ok(Some("the message is back".to_owned()))
        }
    }
}

fn export(state: &State, file: &str, effects: &mut Vec<Effect>) -> Done {
    if state.chats.tree.is_empty() {
        return Err("there is no conversation yet".to_owned());
    }
    let file = match file {
        "" => format!("{}.md", export::file_name(&state.chats.tree)),
        file => file.to_owned(),
    };
    let Some(format) = export::Format::of(&file) else {
        return Err(format!("'{}' says no format; end it in .md or .json", text::truncate(&file, 40, "...")));
    };
    let id = state.chats.id.as_deref();
    let text = match state.chats.answering {
        None => format.write(&state.chats.tree, id),
        Some(running) => {
            let mut tree = state.chats.tree.clone();
            tree.apply(&Record::End { id: running, end: End::unfinished("unfinished: the answer was still running") });
            format.write(&tree, id)
        }
    };
    effects.push(Effect::Chats(Wish::Export { file, text }));
    Ok(None)
}

/// From now on, and what was said so far.
fn save(state: &mut State, effects: &mut Vec<Effect>) -> Done {
    needs_store(state)?;
    if state.chats.saves {
        return Ok(Some("conversations are saved as they go; /export FILE writes a copy".to_owned()));
    }
    state.chats.saves = true;
    state.chats.id = None;
    effects.push(Effect::Chats(Wish::Close));
    if !state.chats.tree.is_empty() {
        effects.extend(state.chats.tree.records().into_iter().map(|record| Effect::Chats(Wish::Keep(record))));
    }
    Ok(Some("saved from now on, with what was said so far".to_owned()))
}

/// What is typed stands in the place of another message.
fn is_editing(state: &State) -> bool {
    matches!(state.chats.redo, Some(Redo::Edit(_) | Redo::Rewrite(_)))
}

/// An answer is being edited: what is typed is no message and no command.
pub(super) fn is_rewriting(state: &State) -> bool {
    matches!(state.chats.redo, Some(Redo::Rewrite(_)))
}

/// Esc leaves the selected message before it cancels.
fn busy(state: &State) -> String {
    let key = state.keys.say(Action::Escape);
    let twice = if state.chats.selected.is_some() { " twice" } else { "" };
    format!("an answer is running; {key}{twice} cancels it")
}

/// The blocks follow the tree.
fn refresh(state: &mut State) {
    chats::show(&mut state.conversation, &state.chats.tree);
    // The numbers on the screen are of the answer that was given last, as long as it is there; else of the last one here.
    match state.chats.answered.and_then(|id| state.conversation.block_of(id)) {
        Some(block) => state.answer.iter_mut().for_each(|answer| answer.block = block),
        None => {
            let kept = |message: &Message| {
                let block = state.conversation.block_of(message.id)?;
                Some((message.id, Answer::kept(block, message, state.now)?))
            };
            let last = state.chats.tree.path().into_iter().rev().find_map(kept);
            (state.chats.answered, state.answer) = last.unzip();
            state.bill = None;
        }
    }
    state.lay_out();
}

/// Chooses a message of the conversation and brings it into view.
pub(super) fn select(state: &mut State, id: u32) {
    if let Some(block) = state.conversation.block_of(id) {
        state.overlay = None;
        state.chats.selected = Some(id);
        state.lay_out();
        state.conversation.reveal(block);
    }
}

fn select_by(state: &mut State, step: isize) {
    let messages: Vec<u32> = state.conversation.blocks().iter().filter_map(|block| block.message).collect();
    let at = state.chats.selected.and_then(|id| messages.iter().position(|message| *message == id));
    let next = match at {
        Some(at) => at.saturating_add_signed(step).min(messages.len().saturating_sub(1)),
        None => messages.len().saturating_sub(1),
    };
    if let Some(id) = messages.get(next) {
        select(state, *id);
    } else {
        state.hint = Some("nothing was said yet".to_owned());
    }
}

/// Whether the list of conversations or the selected message takes the action.
pub(super) fn act(state: &mut State, action: Action, now: Instant, effects: &mut Vec<Effect>) -> bool {
    match state.context() {
        Context::Chats => return act_on_list(state, action, now, effects),
        Context::Message => {
            if let Some(id) = state.chats.selected
                && act_on_message(state, id, action, now, effects)
            {
                return true;
            }
        }
        _ => {}
    }
    match action {
        Action::OpenChats => open_list(state, "", effects),
        Action::SelectPrevious => select_by(state, -1),
        Action::SelectNext => select_by(state, 1),
        // Esc gives up what was to be edited, after what covers it.
        Action::Escape if state.overlay.is_none() && is_editing(state) => {
            state.chats.redo = None;
            state.composer.clear();
            typed(state, now);
        }
        _ => return false,
    }
    true
}
