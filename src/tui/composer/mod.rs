//! The composer's text: a small multi-line editor with Emacs keys, vi keys where they are wanted, undo and a history.
//! Drawing is `composer_view`'s work, files and clocks are nobody's here.
//!
//! `draft` is the text with its pastes and files, `motion` says where motions lead, `vi` reads vi's commands.

mod draft;
mod folded;
mod history;
mod motion;
mod undo;
mod vi;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use unicode_segmentation::UnicodeSegmentation;

use super::text::{sanitize, width, wrap};
use history::History;
use undo::{Change, Undo};

pub use draft::{Draft, Inset, mention, roughly};
pub use motion::Motion;
pub use vi::{Mode, Vi};

#[derive(Debug, Clone, Default)]
pub struct Composer {
    draft: Draft,
    /// A byte offset on a grapheme's boundary, in no unit.
    cursor: usize,
    /// Counts every change of the text.
    revision: u64,
    /// What the last kill took, for yank, and whether it was whole lines.
    killed: Draft,
    killed_lines: bool,
    /// The column that Up and Down try to keep.
    wanted_column: Option<usize>,
    history: History,
    undo: Undo,
    /// Set where keys are vi's.
    vi: Option<Vi>,
    /// Tokens of the insets that were counted, by their ids.
    counts: HashMap<u64, usize>,
    insets: u64,
    /// Sent, and to be remembered beyond the session.
    unsaved: Vec<String>,
    wrapped: Option<Wrapped>,
}

#[derive(Debug, Clone)]
struct Wrapped {
    revision: u64,
    columns: usize,
    lines: Vec<wrap::Line>,
}

/// Pastes with more of either become a unit.
const LONG_PASTE: usize = 1000;
const LONG_PASTE_LINES: usize = 8;

impl Composer {
    pub fn text(&self) -> &str {
        self.draft.text()
    }

    pub fn draft(&self) -> &Draft {
        &self.draft
    }

    pub fn revision(&self) -> u64 {
        self.revision
    }

    pub fn is_empty(&self) -> bool {
        self.text().is_empty()
    }

    pub fn cursor(&self) -> usize {
        self.cursor
    }

    /// Inserts typed or pasted text at the cursor; what a terminal would obey is made visible instead.
    pub fn insert(&mut self, raw: &str) {
        let change = match raw.chars().next() {
            Some(c) if c.len_utf8() == raw.len() && c.is_whitespace() => Change::Space,
            Some(c) if c.len_utf8() == raw.len() => Change::Word,
            _ => Change::Whole,
        };
        let text = sanitize::sanitize(raw);
        self.note(change);
        self.draft.insert(self.cursor, &text);
        self.cursor += text.len();
        self.changed();
    }

    /// Inserts a paste. A long one becomes a unit, whose tokens are to be counted.
    pub fn paste(&mut self, raw: &str) -> Option<Arc<Inset>> {
        if raw.len() <= LONG_PASTE && raw.lines().count() <= LONG_PASTE_LINES {
            self.insert(raw);
            return None;
        }
        self.note(Change::Whole);
        let content = raw.replace("\r\n", "\n").replace('\r', "\n");
        let inset = self.inset(None, content);
        let label = inset.label(None);
        self.draft.insert_unit(self.cursor, inset.clone(), &label);
        self.cursor += label.len();
        self.changed();
        Some(inset)
    }

    /// Puts a file's text in the place of each `@path` that names it. `path` may be shorter than what was taken for one,
    /// by the punctuation behind it.
    pub fn attach(&mut self, mentioned: &str, path: &str, content: String) -> Option<Arc<Inset>> {
        let places: Vec<_> = self.mentions().into_iter().filter(|(_, found)| *found == mentioned).collect();
        let places: Vec<Range<usize>> = places
            .into_iter()
            .map(|(range, found)| range.start..range.end - (found.len() - path.len().min(found.len())))
            .collect();
        if places.is_empty() {
            return None;
        }
        self.note(Change::Whole);
        let inset = self.inset(Some(path.to_owned()), content);
        let label = inset.label(None);
        for place in places.into_iter().rev() {
            self.draft.remove(place.clone());
            self.draft.insert_unit(place.start, inset.clone(), &label);
            if self.cursor >= place.end {
                self.cursor = self.cursor - place.len() + label.len();
            } else if self.cursor > place.start {
                self.cursor = place.start + label.len();
            }
        }
        self.changed();
        Some(inset)
    }

    /// Puts text in the place of a part of it, the cursor behind it.
    pub fn exchange(&mut self, range: Range<usize>, text: &str) {
        self.note(Change::Whole);
        let at = self.draft.remove(range);
        self.draft.insert(at, text);
        self.cursor = at + text.len();
        self.changed();
    }

    /// Files that are named in the text and not attached.
    pub fn mentions(&self) -> Vec<(Range<usize>, &str)> {
        let mut found = draft::mentions(self.text());
        found.retain(|(range, _)| self.draft.snap(range.start + 1, true) == range.start + 1);
        found
    }

    fn inset(&mut self, file: Option<String>, content: String) -> Arc<Inset> {
        self.insets += 1;
        Arc::new(Inset { id: self.insets, file, content })
    }

    /// What the tokenizer says of an inset; it shows in its label.
    pub fn counted(&mut self, id: u64, tokens: usize) {
        self.counts.insert(id, tokens);
        self.relabel();
    }

    /// Another tokenizer counts from now on.
    pub fn forget_counts(&mut self) {
        self.counts.clear();
        self.relabel();
    }

    /// Those whose tokens nobody has counted yet.
    pub fn uncounted(&self) -> Vec<Arc<Inset>> {
        let insets = self.draft.units().iter().map(|unit| &unit.inset);
        insets.filter(|inset| !self.counts.contains_key(&inset.id)).cloned().collect()
    }

    /// Brings labels up to date with what was counted.
    fn relabel(&mut self) {
        for index in 0..self.draft.units().len() {
            let unit = &self.draft.units()[index];
            let (range, label) = (unit.range(), unit.inset.label(self.counts.get(&unit.inset.id).copied()));
            if self.text()[range.clone()] == *label {
                continue;
            }
            let moved = self.draft.relabel(index, &label);
            if self.cursor >= range.end {
                self.cursor = self.cursor.saturating_add_signed(moved);
            }
            self.vi.iter_mut().for_each(|vi| vi.text_moved(range.end, moved));
            self.revision += 1;
        }
    }

    pub fn move_cursor(&mut self, motion: Motion) {
        self.cursor = self.target(motion);
        self.wanted_column = None;
        self.undo.pause();
    }

    /// Removes what lies between the cursor and the motion's target; kills can be yanked back.
    pub fn delete(&mut self, motion: Motion, kill: bool) {
        let mut target = self.target(motion);
        // At a line's end, killing to the end takes the line break.
        if kill && motion == Motion::LineEnd && target == self.cursor {
            target = self.target(Motion::Right);
        }
        self.cut(self.cursor.min(target)..self.cursor.max(target), kill);
    }

    fn cut(&mut self, range: Range<usize>, kill: bool) {
        if range.is_empty() {
            return;
        }
        self.note(if kill { Change::Whole } else { Change::Erase });
        if kill {
            (self.killed, self.killed_lines) = (self.draft.slice(range.clone()), false);
        }
        self.cursor = self.draft.remove(range);
        self.changed();
    }

    pub fn yank(&mut self) {
        let killed = self.killed.clone();
        self.note(Change::Whole);
        self.draft.insert_draft(self.cursor, &killed);
        self.cursor += killed.text().len();
        self.changed();
    }

    pub fn clear(&mut self) {
        self.replace(Draft::default());
        self.history.leave();
    }

    /// Puts something in place of what is there, the cursor at its end.
    pub fn replace(&mut self, draft: impl Into<Draft>) {
        self.note(Change::Whole);
        self.draft = draft.into();
        self.cursor = self.text().len();
        self.relabel();
        self.changed();
    }

    /// Puts a draft of an earlier time in place of what is there; what stands in it is to be counted.
    pub fn bring_back(&mut self, mut draft: Draft) -> Vec<Arc<Inset>> {
        draft.renew(|inset| self.inset(inset.file.clone(), inset.content.clone()));
        self.replace(draft);
        self.uncounted()
    }

    /// Takes the draft out and remembers it in the history.
    pub fn take(&mut self) -> Draft {
        let draft = std::mem::take(&mut self.draft);
        if self.history.add(&draft) {
            self.unsaved.extend(draft.remembered());
        }
        self.clear();
        self.undo.forget();
        if let Some(vi) = &mut self.vi {
            vi.insert();
        }
        draft
    }

    /// What was sent since the last call, to be remembered beyond the session.
    pub fn take_unsaved(&mut self) -> Vec<String> {
        std::mem::take(&mut self.unsaved)
    }

    /// What earlier sessions sent, the oldest first.
    pub fn load_history(&mut self, earlier: Vec<String>) {
        self.history.load(earlier);
    }

    /// The oldest first.
    pub fn history(&self) -> &[Draft] {
        self.history.entries()
    }

    pub fn undo(&mut self) {
        let before = self.undo.back(&self.draft, self.cursor);
        self.restore(before);
    }

    pub fn redo(&mut self) {
        let after = self.undo.again(&self.draft, self.cursor);
        self.restore(after);
    }

    /// Something was taken back and nothing was changed since.
    pub fn can_redo(&self) -> bool {
        self.undo.has_future()
    }

    fn restore(&mut self, moment: Option<(Draft, usize)>) {
        if let Some((draft, cursor)) = moment {
            (self.draft, self.cursor) = (draft, cursor);
            self.relabel();
            self.changed();
        }
    }

    /// One line up on the screen; above the first line, the message sent before.
    pub fn up(&mut self, columns: usize) {
        if !self.move_line(columns, -1) {
            self.recall(-1);
        }
    }

    pub fn down(&mut self, columns: usize) {
        if !self.move_line(columns, 1) {
            self.recall(1);
        }
    }

    fn recall(&mut self, step: isize) {
        if let Some(draft) = self.history.recall(step, &self.draft) {
            self.replace(draft);
        }
    }

    /// The text wrapped to `columns`.
    pub fn lines(&mut self, columns: usize) -> &[wrap::Line] {
        let fresh = matches!(&self.wrapped, Some(w) if w.revision == self.revision && w.columns == columns);
        if !fresh {
            self.wrapped = None;
        }
        let (text, revision) = (self.draft.text(), self.revision);
        &self.wrapped.get_or_insert_with(|| Wrapped { revision, columns, lines: wrap::wrap(text, columns) }).lines
    }

    /// The cursor's line and column on the screen; behind a full line it stands at `columns`.
    pub fn cursor_position(&mut self, columns: usize) -> (usize, usize) {
        let cursor = self.cursor;
        let lines = self.lines(columns);
        let row = lines.partition_point(|line| line.start <= cursor).saturating_sub(1);
        let Some(&line) = lines.get(row) else { return (0, 0) };
        let column = line.indent + width(&self.text()[line.start..cursor.clamp(line.start, line.end)]);
        // Spaces that hang over the edge are counted too, as far as there is room.
        let hanging = cursor.saturating_sub(line.end);
        (row, (column + hanging).min(columns))
    }

    fn note(&mut self, change: Change) {
        self.undo.note(change, &self.draft, self.cursor);
    }

    fn changed(&mut self) {
        self.revision += 1;
        self.wanted_column = None;
        self.vi.iter_mut().for_each(Vi::text_changed);
    }

    fn target(&self, motion: Motion) -> usize {
        let target = motion::target(self.text(), self.cursor, motion);
        self.draft.snap(target, target > self.cursor)
    }

    fn move_line(&mut self, columns: usize, step: isize) -> bool {
        let (row, column) = self.cursor_position(columns);
        let wanted = self.wanted_column.unwrap_or(column);
        let Some(row) = row.checked_add_signed(step) else { return false };
        let Some(&line) = self.lines(columns).get(row) else { return false };
        let mut used = line.indent;
        let mut at = line.start;
        for grapheme in self.text()[line.start..line.end].graphemes(true) {
            let columns = width(grapheme);
            if used + columns > wanted {
                break;
            }
            used += columns;
            at += grapheme.len();
        }
        self.cursor = self.draft.snap(at, step > 0);
        self.wanted_column = Some(wanted);
        self.undo.pause();
        true
    }
}

#[cfg(test)]
mod tests;
