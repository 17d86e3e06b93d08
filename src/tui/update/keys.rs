//! What keys do: the one place where an action of the table of keys becomes a change of the state.

use std::time::Instant;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::super::composer::Motion;
use super::super::consent::{self, Gate};
use super::super::conversation::Conversation;
use super::super::event::{Effect, Exit, SuspendedBy};
use super::super::keymap::Meaning;
use super::super::keys::{Action, Context};
use super::super::state::{QUIT_WINDOW, State};
use super::commands;
use super::completion;
use super::send::{cancel, return_queue, send, typed};
use super::{chats, list, panels, race, replay, writing};

pub(super) fn on_key(state: &mut State, key: KeyEvent, now: Instant, effects: &mut Vec<Effect>) {
    state.dirty = true;
    state.hint = None;
    let meaning = match state.keys.meaning(key, state.context()) {
        // A replay can be stopped whatever is looked at.
        Meaning::Nothing if state.replay.is_some() => state.keys.meaning(key, Context::Replay),
        meaning => meaning,
    };
    let armed = state.quit_armed.take();
    // Whoever goes on typing did not mean it to be sent yet.
    state.writing.sending = false;
    let revision = state.composer.revision();
    let pieces = state.composer.draft().units().len();
    match meaning {
        Meaning::Type(c) if state.gate == Gate::Asking => consent::answer(state, c, now, effects),
        Meaning::Type(c) if state.context() == Context::Chats => {
            chats::type_into_list(state, c.encode_utf8(&mut [0; 4]), effects);
        }
        Meaning::Type(c) => {
            if !list::filter(state, c.encode_utf8(&mut [0; 4])) {
                type_letter(state, c, now, effects);
            }
        }
        Meaning::Nothing => say_that_nothing_is_bound(state, key),
        Meaning::Do(Action::Interrupt) => interrupt(state, armed, now, effects),
        Meaning::Do(action) => {
            state.held.let_go();
            act(state, action, now, effects);
        }
    }
    if state.composer.revision() != revision {
        completion::follow(state, meaning);
        writing::forget_preview(state, state.composer.draft().units().len() != pieces);
    }
    writing::follow(state, meaning, state.composer.revision() != revision, effects);
}

/// Letters act where they are not typed; one that does not says so.
fn say_that_nothing_is_bound(state: &mut State, key: KeyEvent) {
    let of = match state.context() {
        Context::Message => "the message",
        Context::Token => "the token",
        _ => return,
    };
    if let KeyCode::Char(letter) = key.code
        && !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT)
    {
        let key = state.keys.say(Action::Escape);
        state.hint = Some(format!("'{letter}' does nothing here; {key} leaves {of}"));
    }
}

fn type_letter(state: &mut State, letter: char, now: Instant, effects: &mut Vec<Effect>) {
    let begins_command = state.composer.is_empty() && matches!(letter, '/' | ':');
    if state.composer.is_normal() && !begins_command {
        state.composer.vi_key(letter, state.composer_columns());
        return typed(state, now);
    }
    // vi's own sign for a command is taken, too.
    let letter = if state.composer.is_normal() { '/' } else { letter };
    state.composer.vi_insert();
    state.composer.insert(letter.encode_utf8(&mut [0; 4]));
    if letter.is_whitespace() {
        writing::attach_before_cursor(state, effects);
    }
    typed(state, now);
}

pub(super) fn act(state: &mut State, action: Action, now: Instant, effects: &mut Vec<Effect>) {
    let taken = race::act(state, action, now, effects)
        || completion::act(state, action, now, effects)
        || list::act(state, action, now, effects)
        || chats::act(state, action, now, effects)
        || writing::act(state, action, now, effects)
        || panels::act(state, action)
        || replay::act(state, action);
    if taken {
        return;
    }
    let columns = state.composer_columns();
    match action {
        Action::Send => send(state, now, effects),
        Action::NewLine => {
            state.composer.insert("\n");
            typed(state, now);
        }
        Action::Escape => {
            if state.overlay.take().is_none() && !state.composer.vi_escape() {
                if state.busy() {
                    cancel(state, now, effects);
                } else if !state.queue.is_empty() {
                    return_queue(state, now);
                } else if !state.conversation.is_following() {
                    state.conversation.follow();
                }
            }
        }
        Action::Interrupt
        | Action::Choose
        | Action::Complete
        | Action::OpenChats
        | Action::RenameChat
        | Action::DeleteChat
        | Action::SelectPrevious
        | Action::SelectNext
        | Action::MessageUp
        | Action::MessageDown
        | Action::CopyMessage
        | Action::EditMessage
        | Action::AnswerAgain
        | Action::GoOn
        | Action::Branch
        | Action::DeleteMessage
        | Action::UndoDelete
        | Action::PreviousVersion
        | Action::NextVersion
        | Action::LeaveMessage => {}
        Action::DeleteOrQuit if state.composer.is_empty() => effects.push(Effect::Quit(Exit::Quit)),
        Action::DeleteOrQuit => {
            state.composer.delete(Motion::Right, false);
            typed(state, now);
        }
        Action::Suspend => effects.push(Effect::Suspend { by: SuspendedBy::Key }),
        Action::Repaint => effects.push(Effect::Repaint),
        Action::Help => list::open_help(state),
        Action::Commands => completion::open_commands(state),
        Action::Thinking => state.conversation.toggle_thinking(),
        // Done above.
        Action::NextPanel
        | Action::PreviousPanel
        | Action::ZoomPanel
        | Action::HidePanels
        | Action::Tokens
        | Action::Token(_) => {}
        Action::Source => commands::show_source(state, !state.conversation.shows_source()),
        Action::PageUp => scroll(state, |c| c.page(-1)),
        Action::PageDown => scroll(state, |c| c.page(1)),
        Action::ScrollUp => scroll(state, |c| c.scroll_by(-1)),
        Action::ScrollDown => scroll(state, |c| c.scroll_by(1)),
        Action::Top => scroll(state, |c| c.scroll_to(0)),
        Action::Follow => state.conversation.follow(),
        Action::Home if state.composer.is_empty() => scroll(state, |c| c.scroll_to(0)),
        Action::Home => state.composer.move_cursor(Motion::LineStart),
        Action::End if state.composer.is_empty() || !state.conversation.is_following() => state.conversation.follow(),
        Action::End => state.composer.move_cursor(Motion::LineEnd),
        Action::Up => {
            state.composer.up(columns);
            typed(state, now);
        }
        Action::Down => {
            state.composer.down(columns);
            typed(state, now);
        }
        Action::Undo => {
            state.composer.undo();
            typed(state, now);
        }
        Action::Redo => {
            state.composer.redo();
            typed(state, now);
        }
        // What vi calls so.
        Action::History if state.composer.is_normal() && state.composer.can_redo() => {
            state.composer.redo();
            typed(state, now);
        }
        Action::History => writing::open_history(state),
        Action::Editor => effects.push(Effect::Edit(state.composer.text().to_owned())),
        // As in vi, what is deleted there is what the cursor stands on.
        Action::Delete(Motion::Left) if state.composer.is_normal() => state.composer.move_cursor(Motion::Left),
        Action::Move(motion) => state.composer.move_cursor(motion),
        Action::Delete(motion) => {
            state.composer.delete(motion, false);
            typed(state, now);
        }
        Action::Kill(motion) => {
            state.composer.delete(motion, true);
            typed(state, now);
        }
        Action::Yank => {
            state.composer.yank();
            typed(state, now);
        }
        Action::Pause => replay::pause(state, effects),
    }
}

pub(super) fn scroll(state: &mut State, by: impl FnOnce(&mut Conversation)) {
    state.lay_out();
    by(&mut state.conversation);
}

pub(super) fn interrupt(state: &mut State, armed: Option<Instant>, now: Instant, effects: &mut Vec<Effect>) {
    if armed.is_some_and(|at| now < at + QUIT_WINDOW) {
        effects.push(Effect::Quit(Exit::Quit));
        return;
    }
    if state.replay.is_some() || race::cancel_running(state, effects) {
        state.quit_armed = Some(now);
        return;
    }
    state.overlay = None;
    state.chats.selected = None;
    state.chats.redo = None;
    if state.busy() {
        cancel(state, now, effects);
    } else if !state.composer.is_empty() || !state.queue.is_empty() {
        state.queue.clear();
        state.gate = Gate::Open;
        state.composer.clear();
        typed(state, now);
    }
    state.quit_armed = Some(now);
}
