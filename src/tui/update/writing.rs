//! What comes around the composer: pastes and their tokens, files that are offered and attached, the history, the editor.

use std::time::Instant;

use super::super::attach::{AttachError, FileText};
use super::super::composer::Draft;
use super::super::event::{Effect, Event};
use super::super::keymap::Meaning;
use super::super::keys::Action;
use super::super::offer::Offer;
use super::super::picker::{Item, Picker, Purpose};
use super::super::state::{Overlay, State};
use super::super::text::sanitize::one_line;
use super::chats;
use super::send::{send, typed};

pub fn on_event(state: &mut State, event: Event, now: Instant, effects: &mut Vec<Effect>) {
    state.dirty = true;
    match event {
        Event::Counted { id, tokens } => state.composer.counted(id, tokens),
        Event::FolderListed { folder, paths } => {
            if let Some(offer) = &mut state.writing.offer {
                offer.list(&folder, paths);
            }
        }
        Event::FileRead { mentioned, result } => file_read(state, &mentioned, result, now, effects),
        Event::HistoryLoaded(earlier) => state.composer.load_history(earlier),
        Event::HistoryLost(error) => state.hint = Some(one_line(&error)),
        Event::Edited(Ok(text)) => edited(state, &text, now, effects),
        Event::Edited(Err(error)) => state.hint = Some(one_line(&error)),
        _ => {}
    }
}

pub fn paste(state: &mut State, text: &str, now: Instant, effects: &mut Vec<Effect>) {
    state.writing.sending = false;
    state.composer.vi_insert();
    let inset = state.composer.paste(text);
    forget_preview(state, inset.is_some());
    effects.extend(inset.map(Effect::CountTokens));
    typed(state, now);
}

/// What the router said of the text before is far from true of one with a long piece more, and the router takes its time.
pub fn forget_preview(state: &mut State, is_far: bool) {
    if is_far {
        state.preview.shown = None;
    }
}

/// There is a tokenizer, perhaps another one than before.
pub fn count_anew(state: &mut State, effects: &mut Vec<Effect>) {
    state.composer.forget_counts();
    effects.extend(state.composer.uncounted().into_iter().map(Effect::CountTokens));
}

/// A key has done its work: what was typed opens the offer, or changes it; other keys close it.
pub fn follow(state: &mut State, meaning: Meaning, changed: bool, effects: &mut Vec<Effect>) {
    match meaning {
        Meaning::Type(_) | Meaning::Do(Action::Delete(_)) if changed => offer(state, effects),
        // They have looked themselves.
        Meaning::Do(Action::Choose | Action::Complete | Action::Send | Action::Up | Action::Down) => {}
        Meaning::Do(Action::PageUp | Action::PageDown) => {}
        _ => state.writing.offer = None,
    }
}

/// Offers what fits to the `@path` at the cursor. To be called when the text has changed there.
pub fn offer(state: &mut State, effects: &mut Vec<Effect>) {
    let before = state.writing.offer.take();
    // An answer that is edited attaches nothing.
    if state.composer.is_normal() || chats::is_rewriting(state) {
        return;
    }
    let Some(offer) = Offer::at_cursor(&state.composer, before) else {
        state.writing.dismissed = None;
        return;
    };
    if state.writing.dismissed == Some(offer.range.start) {
        return;
    }
    state.writing.dismissed = None;
    if !offer.is_listed() {
        effects.push(Effect::ListFolder(offer.folder.clone()));
    }
    state.writing.offer = Some(offer);
}

/// The file that was named just before the cursor, behind which a space was typed.
pub fn attach_before_cursor(state: &mut State, effects: &mut Vec<Effect>) {
    if chats::is_rewriting(state) {
        return;
    }
    let cursor = state.composer.cursor();
    let mentions = state.composer.mentions();
    let named = mentions.into_iter().find(|(range, _)| range.end + 1 == cursor).map(|(_, path)| path.to_owned());
    read(state, named, effects);
}

fn read(state: &mut State, files: impl IntoIterator<Item = String>, effects: &mut Vec<Effect>) {
    for file in files {
        if !state.writing.reading.contains(&file) {
            effects.push(Effect::ReadFile(file.clone()));
            state.writing.reading.push(file);
        }
    }
}

/// Whether a message has to wait for files that it names. It is sent when they are read.
pub fn waits_for_files(state: &mut State, effects: &mut Vec<Effect>) -> bool {
    state.writing.offer = None;
    let named = state.composer.mentions().into_iter().map(|(_, path)| path.to_owned());
    let named: Vec<String> = named.filter(|path| !state.writing.literal.contains(path)).collect();
    state.writing.sending = !named.is_empty();
    state.writing.refused.clear();
    read(state, named, effects);
    state.writing.sending
}

fn file_read(
    state: &mut State,
    mentioned: &str,
    result: Result<FileText, AttachError>,
    now: Instant,
    effects: &mut Vec<Effect>,
) {
    state.writing.reading.retain(|file| file != mentioned);
    match result {
        Ok(FileText { path, content }) => {
            let inset = state.composer.attach(mentioned, &path, content);
            forget_preview(state, inset.is_some());
            effects.extend(inset.map(Effect::CountTokens));
            typed(state, now);
        }
        // A word behind an @ may be anything. What looks like a path was meant as one.
        Err(AttachError::Missing(_)) if !state.writing.sending => {}
        Err(AttachError::Missing(_)) if !mentioned.contains(['/', '\\', '.', '~']) => {
            state.writing.literal.push(mentioned.to_owned());
        }
        Err(error) if !state.writing.sending => state.hint = Some(one_line(&error.to_string())),
        Err(error) => {
            state.writing.literal.push(mentioned.to_owned());
            state.writing.refused.push(error.to_string());
        }
    }
    if state.writing.sending && state.writing.reading.is_empty() {
        state.writing.sending = false;
        match std::mem::take(&mut state.writing.refused).as_slice() {
            [] => send(state, now, effects),
            [error] => state.hint = Some(one_line(&format!("{error}; sent again, it goes as typed"))),
            [error, more @ ..] => {
                let count = more.len();
                state.hint = Some(one_line(&format!("{error}, and {count} more; sent again, it goes as typed")));
            }
        }
    }
}

/// Whether the paths that are offered take the action.
pub fn act(state: &mut State, action: Action, now: Instant, effects: &mut Vec<Effect>) -> bool {
    let Some(list) = state.writing.offer.as_mut().filter(|offer| offer.offers()) else {
        return false;
    };
    match action {
        Action::Up | Action::PreviousPanel => list.move_by(-1),
        Action::Down => list.move_by(1),
        Action::PageUp => list.move_by(-8),
        Action::PageDown => list.move_by(8),
        Action::Escape => {
            state.writing.dismissed = Some(list.range.start);
            state.writing.offer = None;
        }
        Action::Choose | Action::Complete | Action::Send => {
            let range = list.range.clone();
            let Some((text, is_folder)) = list.chosen() else { return false };
            if is_folder {
                state.composer.exchange(range, &text);
                offer(state, effects);
            } else {
                let path = text.trim_matches(['@', '"']).to_owned();
                state.composer.exchange(range, &format!("{text} "));
                state.writing.offer = None;
                read(state, [path], effects);
            }
            typed(state, now);
        }
        _ => return false,
    }
    true
}

/// The messages sent before, the newest first, to choose one.
pub fn open_history(state: &mut State) {
    if let Some(Overlay::List(picker)) = &mut state.overlay
        && picker.purpose == Purpose::History
    {
        return picker.move_by(1);
    }
    let mut seen = std::collections::HashSet::new();
    let entries = state.composer.history().iter().enumerate().rev();
    let items: Vec<Item> = entries
        .filter(|(_, draft)| seen.insert(draft.text()))
        .map(|(index, draft)| {
            let start: String = draft.text().chars().take(400).collect();
            Item { id: index.to_string(), label: one_line(&start), detail: String::new() }
        })
        .collect();
    if items.is_empty() {
        state.hint = Some("nothing was sent yet".to_owned());
        return;
    }
    state.overlay = Some(Overlay::List(Picker::new(Purpose::History, "history", items)));
}

/// One of them was chosen.
pub fn recall(state: &mut State, id: &str, now: Instant, effects: &mut Vec<Effect>) {
    let draft = id.parse().ok().and_then(|index: usize| state.composer.history().get(index).cloned());
    if let Some(draft) = draft {
        state.composer.vi_insert();
        state.composer.replace(draft);
        effects.extend(state.composer.uncounted().into_iter().map(Effect::CountTokens));
        typed(state, now);
    }
}

/// What a person left in their editor. Labels that are still there stand for what they stood for.
fn edited(state: &mut State, text: &str, now: Instant, effects: &mut Vec<Effect>) {
    let draft = Draft::relabelled(text, state.composer.draft());
    if draft.text() != state.composer.text() {
        state.composer.replace(draft);
        effects.extend(state.composer.uncounted().into_iter().map(Effect::CountTokens));
    }
    typed(state, now);
}
