//! What is done to the conversation as a tree, and to the other conversations: messages are recorded, selected, edited,
//! answered again, deleted; conversations are opened, renamed, deleted, written to files.

use std::time::Instant;

use crate::engine::LaneId;
use crate::store::keeper::{Opened, Report};
use crate::store::{End, Record, export};

use super::super::chats::{self, ChatList, Deleted, Mode, News, Redo, Wish};
use super::super::clipboard::harmless;
use super::super::command::ChatCommand;
use super::super::composer::Draft;
use super::super::consent::{self, Gate};
use super::super::conversation::{AnswerHeader, Kind, Level};
use super::super::event::Effect;
use super::super::keys::{Action, Context};
use super::super::state::{Overlay, State};
use super::super::text;
use super::replay;
use super::send::{cancel, submit, typed};
use crate::ledger::Total;

/// Something happened to the conversation.
fn record(state: &mut State, record: Record, effects: &mut Vec<Effect>) {
    state.chats.tree.apply(&record);
    if state.chats.saves {
        effects.push(Effect::Chats(Wish::Keep(record)));
    }
}

/// A question and the answer that begins; returns the answer's block.
pub(super) fn begin(state: &mut State, question: &Draft, model: String, effects: &mut Vec<Effect>) -> usize {
    if let Some(system) = chats::changed_system(&state.chats.tree, &state.settings) {
        record(state, system, effects);
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
        Some(Redo::Edit(id)) => state.chats.tree.message(id).and_then(|message| message.parent),
        Some(Redo::Again(id)) => Some(id),
        Some(Redo::Continue(_)) | None => state.chats.tree.head(),
    };
    let asked = match redo {
        Some(Redo::Again(id)) => id,
        _ => {
            let id = state.chats.tree.next_id();
            let (text, shown) = (question.sent(), question.text().to_owned());
            let shown = (shown != text).then_some(shown);
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
pub(super) fn said(state: &mut State, text: &str, thinking: &str, effects: &mut Vec<Effect>) {
    if let Some(id) = state.chats.answering
        && !(text.is_empty() && thinking.is_empty())
    {
        record(state, Record::Text { id, text: text.to_owned(), thinking: thinking.to_owned() }, effects);
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
    give_instructions_back(state);
    if state.chats.saves {
        effects.push(Effect::Chats(Wish::Close));
    }
    state.chats.begin_anew();
}

/// Those that an opened conversation brought along are of that one only, unless a person changed them.
fn give_instructions_back(state: &mut State) {
    if let Some((own, theirs)) = state.chats.exchanged.take()
        && state.settings.system == theirs
    {
        state.settings.system = own;
    }
}

/// Everything that belongs to the conversation that is shown.
fn forget(state: &mut State, now: Instant, effects: &mut Vec<Effect>) {
    if state.busy() {
        cancel(state, now, effects);
    }
    give_instructions_back(state);
    state.conversation.clear();
    state.queue.clear();
    consent::forget(state);
    state.answer = None;
    (state.bill, state.spent) = (None, Total::default());
    state.overlay = None;
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
        Some(_) if state.busy() => Err(BUSY.to_owned()),
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
    let text = format.write(&state.chats.tree, state.chats.id.as_deref());
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

const BUSY: &str = "an answer is running; Ctrl-C cancels it";

/// The blocks follow the tree.
fn refresh(state: &mut State) {
    chats::show(&mut state.conversation, &state.chats.tree);
    // The numbers on the screen are of the last answer, as long as it is there.
    match state.chats.answered.and_then(|id| state.conversation.block_of(id)) {
        Some(block) => state.answer.iter_mut().for_each(|answer| answer.block = block),
        None => (state.answer, state.bill) = (None, None),
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
        Action::Escape if state.overlay.is_none() && matches!(state.chats.redo, Some(Redo::Edit(_))) => {
            state.chats.redo = None;
            state.composer.clear();
            typed(state, now);
        }
        _ => return false,
    }
    true
}

fn act_on_message(state: &mut State, id: u32, action: Action, now: Instant, effects: &mut Vec<Effect>) -> bool {
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
        Action::EditMessage
        | Action::AnswerAgain
        | Action::GoOn
        | Action::Branch
        | Action::DeleteMessage
        | Action::UndoDelete
        | Action::PreviousVersion
        | Action::NextVersion
            if state.replay.is_some() =>
        {
            replay::say_that_nobody_answers(state);
        }
        Action::EditMessage
        | Action::AnswerAgain
        | Action::GoOn
        | Action::Branch
        | Action::DeleteMessage
        | Action::UndoDelete
        | Action::PreviousVersion
        | Action::NextVersion
            if state.busy() || state.snapshot().is_none() || !state.queue.is_empty() =>
        {
            let reason = if state.busy() { BUSY } else { "the model is not ready yet" };
            state.hint = Some(reason.to_owned());
        }
        Action::EditMessage => edit(state, id, now),
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

/// The message comes into the composer; what is sent stands beside it.
fn edit(state: &mut State, id: u32, now: Instant) {
    let Some(message) = state.chats.tree.message(id).filter(|message| message.answer.is_none()) else {
        state.hint = Some("an answer is not edited; r answers again".to_owned());
        return;
    };
    let text = message.text.clone();
    state.composer.clear();
    // What was a file or a long paste is one again.
    if message_is_long(&text) {
        state.composer.paste(&text);
    } else {
        state.composer.insert(&text);
    }
    state.chats.redo = Some(Redo::Edit(id));
    state.chats.selected = None;
    typed(state, now);
}

/// Longer messages are edited as one unit, in bytes.
fn message_is_long(text: &str) -> bool {
    text.len() > 16 << 10
}

/// Another answer to the question of this answer, or to this question.
fn answer_again(state: &mut State, id: u32, now: Instant, effects: &mut Vec<Effect>) {
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
fn go_on(state: &mut State, id: u32, now: Instant, effects: &mut Vec<Effect>) {
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
        state.hint = Some(if state.busy() { BUSY } else { "the model is not ready yet" }.to_owned());
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
        0 => "deleted".to_owned(),
        1 => "deleted with the message below".to_owned(),
        below => format!("deleted with {below} messages below"),
    };
    let key = state.keys.key(Context::Message, Action::UndoDelete).filter(|_| state.chats.selected.is_some());
    let key = key.unwrap_or_else(|| "/undo".to_owned());
    state.hint = Some(format!("{what}; {key} takes it back"));
}

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

fn open_list(state: &mut State, words: &str, effects: &mut Vec<Effect>) {
    if let Err(hint) = needs_store(state) {
        state.hint = Some(hint);
        return;
    }
    state.chats.selected = None;
    state.overlay = Some(Overlay::Chats(ChatList::new(words)));
    look(state, effects);
}

/// Searches for what is typed, unless a search is under way; its end begins the next one.
fn look(state: &mut State, effects: &mut Vec<Effect>) {
    if let Some(Overlay::Chats(list)) = &mut state.overlay
        && list.asked.is_none()
    {
        list.asked = Some(list.words.clone());
        effects.push(Effect::Chats(Wish::Find(list.words.clone())));
    }
}

/// Text typed or pasted into the list.
pub(super) fn type_into_list(state: &mut State, text: &str, effects: &mut Vec<Effect>) {
    if let Some(Overlay::Chats(list)) = &mut state.overlay {
        list.type_text(text);
        if list.mode == Mode::Search {
            look(state, effects);
        }
    }
}

fn act_on_list(state: &mut State, action: Action, now: Instant, effects: &mut Vec<Effect>) -> bool {
    let page = isize::from(state.rows as i16 / 2).max(1);
    let own = state.chats.id.clone();
    let Some(Overlay::Chats(list)) = &mut state.overlay else { return false };
    let chosen = list.chosen().map(|row| (row.found.id.clone(), row.found.title.clone()));
    match (&list.mode, action) {
        (_, Action::Up | Action::ScrollUp | Action::SelectPrevious) => list.move_by(-1),
        (_, Action::Down | Action::ScrollDown | Action::SelectNext) => list.move_by(1),
        (_, Action::PageUp) => list.move_by(-page),
        (_, Action::PageDown) => list.move_by(page),
        (_, Action::Delete(_)) => {
            list.erase();
            look(state, effects);
        }
        (Mode::Rename { .. }, Action::Escape) => list.mode = Mode::Search,
        (Mode::Rename { id, title }, Action::Send) => {
            let (id, title) = (id.clone(), title.clone());
            list.mode = Mode::Search;
            if own.as_ref() == Some(&id) {
                record(state, Record::Title(title), effects);
                look(state, effects);
            } else {
                effects.push(Effect::Chats(Wish::Rename { id, title }));
            }
        }
        (Mode::Search, Action::Send) => {
            if let Some((id, _)) = chosen {
                open(state, id, now, effects);
            }
        }
        (Mode::Search, Action::RenameChat) => {
            if let Some((id, title)) = chosen {
                list.mode = Mode::Rename { id, title };
            }
        }
        (Mode::Search, Action::DeleteChat) => {
            let Some((id, _)) = chosen else { return true };
            if list.gone.contains(&id) {
                effects.push(Effect::Chats(Wish::Undelete(id)));
            } else if own.as_ref() == Some(&id) {
                state.hint = Some("this conversation is open; /delete deletes it".to_owned());
            } else {
                effects.push(Effect::Chats(Wish::Delete(id)));
            }
        }
        (_, Action::OpenChats) => state.overlay = None,
        (_, Action::RenameChat | Action::DeleteChat) => {}
        _ => return false,
    }
    true
}

/// Leaves this conversation for another one.
fn open(state: &mut State, id: String, now: Instant, effects: &mut Vec<Effect>) {
    state.overlay = None;
    if state.chats.id.as_ref() == Some(&id) {
        return;
    }
    if state.busy() {
        cancel(state, now, effects);
    }
    state.chats.is_opening = true;
    effects.push(Effect::Chats(Wish::Open { id, writes: state.chats.saves }));
}

pub(super) fn on_news(state: &mut State, news: News, now: Instant, effects: &mut Vec<Effect>) {
    state.dirty = true;
    match news {
        News::Found { words, rows } => {
            if let Some(Overlay::Chats(list)) = &mut state.overlay {
                list.asked = None;
                let is_late = list.words != words;
                list.fill(rows);
                if is_late {
                    look(state, effects);
                }
            }
        }
        News::Exported(Ok(file)) => state.hint = Some(format!("written to {}", text::sanitize::one_line(&file))),
        News::Exported(Err(error)) => state.hint = Some(text::sanitize::one_line(&error)),
        News::Kept(Report::Begun(id)) => state.chats.id = Some(id),
        News::Kept(Report::NotKept(error)) => {
            let text = format!(
                "This conversation is not saved: {error}. The chat goes on, and what is missing is tried again."
            );
            state.conversation.add(Kind::Notice(Level::Warning), &text);
        }
        News::Kept(Report::Opened(opened)) => opened_conversation(state, *opened, now, effects),
        News::Kept(Report::NotOpened(error)) => {
            state.chats.is_opening = false;
            state.conversation.add(Kind::Notice(Level::Error), &error);
            state.conversation.follow();
        }
        News::Kept(Report::Failed(error)) => state.hint = Some(text::sanitize::one_line(&error)),
        News::Kept(Report::Renamed { .. }) => {
            state.hint = Some("renamed".to_owned());
            look(state, effects);
        }
        News::Kept(Report::Deleted { id }) => {
            if !state.chats.deleted.contains(&Deleted::Conversation(id.clone())) {
                state.chats.deleted.push(Deleted::Conversation(id.clone()));
            }
            if let Some(Overlay::Chats(list)) = &mut state.overlay {
                list.gone.insert(id);
            } else {
                state.hint = Some("the conversation is deleted; /undo takes it back".to_owned());
            }
        }
        News::Kept(Report::Undeleted { id }) => {
            state.chats.deleted.retain(|deleted| *deleted != Deleted::Conversation(id.clone()));
            if let Some(Overlay::Chats(list)) = &mut state.overlay {
                list.gone.remove(&id);
                state.hint = Some("the conversation is back".to_owned());
            } else if state.chats.tree.is_empty() {
                open(state, id, now, effects);
            } else {
                state.hint = Some("the conversation is back; Ctrl-O lists them".to_owned());
            }
        }
    }
}

fn opened_conversation(state: &mut State, opened: Opened, now: Instant, effects: &mut Vec<Effect>) {
    let Opened { stored, is_copy } = opened;
    let keep_system = state.chats.keep_system;
    forget(state, now, effects);
    state.chats.begin_anew();
    state.chats.tree = stored.tree;
    state.chats.id = Some(stored.id);
    if !keep_system && let Some(system) = state.chats.tree.system() {
        let theirs = Some(system.to_owned());
        let own = std::mem::replace(&mut state.settings.system, theirs.clone());
        state.chats.exchanged = Some((own, theirs));
    }
    refresh(state);
    state.conversation.follow();
    let mut notes = Vec::new();
    if is_copy {
        notes.push("Another ortalk writes to this conversation: this is a copy of it.".to_owned());
    }
    if !state.chats.saves {
        notes.push("What is said now is not saved; /save changes that.".to_owned());
    }
    if stored.left_out.damaged > 0 {
        let lines = if stored.left_out.damaged == 1 { "line" } else { "lines" };
        notes.push(format!("{} damaged {lines} of its file could not be read.", stored.left_out.damaged));
    }
    if !notes.is_empty() {
        state.conversation.add(Kind::Notice(Level::Warning), &notes.join("\n"));
    }
    typed(state, now);
}
