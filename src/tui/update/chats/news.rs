//! What the disk says of conversations: found, opened, renamed, deleted, lost.

use std::time::Instant;

use crate::store::Tree;
use crate::store::keeper::{Opened, Report};

use super::super::super::answer::Answer;
use super::super::super::chats::{Deleted, News};
use super::super::super::conversation::{Kind, Level};
use super::super::super::event::Effect;
use super::super::super::state::{Overlay, State};
use super::super::super::text;
use super::super::send::typed;
use super::list::{look, open};
use super::{forget, own, put_away, refresh};

pub(in super::super) fn on_news(state: &mut State, news: News, now: Instant, effects: &mut Vec<Effect>) {
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
                state.hint = Some("the conversation is back".to_owned());
                open(state, id, now, effects);
            } else {
                state.hint = Some("the conversation is back; Ctrl-O lists them".to_owned());
            }
        }
    }
}

fn opened_conversation(state: &mut State, opened: Opened, now: Instant, effects: &mut Vec<Effect>) {
    let Opened { stored, is_copy } = opened;
    let given = std::mem::take(&mut state.chats.given);
    show_opened(state, stored.tree, now, effects);
    state.chats.id = Some(stored.id);
    own::bring(state, &given);
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

/// Another conversation takes the place of the one that is shown.
pub(in super::super) fn show_opened(state: &mut State, tree: Tree, now: Instant, effects: &mut Vec<Effect>) {
    forget(state, now, effects);
    put_away(state, effects);
    state.chats.begin_anew();
    state.chats.tree = tree;
    refresh(state);
    state.panels.forget_trend();
    for message in state.chats.tree.path() {
        if let Some(answer) = Answer::kept(0, message, now) {
            state.panels.note(&answer);
        }
    }
    state.conversation.follow();
}
