//! vi's keys: its modes, what is selected, and what a change needs to be done again.
//!
//! The keys of a command are gathered and read as a whole each time (`command`), so that there is no state but the keys;
//! `obey` does what they say. Left to other editors: registers, marks, searching, selecting blocks.

mod command;
mod obey;

use std::ops::Range;

use super::motion::{self, Motion};
use super::{Composer, Draft};
use command::{Parsed, Verb, parse};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    #[default]
    Insert,
    Normal,
    /// From here to the cursor text is selected, or whole lines are.
    Select {
        from: usize,
        lines: bool,
    },
}

#[derive(Debug, Clone, Default)]
pub struct Vi {
    mode: Mode,
    /// Of a command that is not complete.
    keys: String,
    /// What `f`, `F`, `t` or `T` looked for last.
    found: Option<Motion>,
    last: Option<Last>,
    /// What an insertion that was begun by a command is held against when it ends.
    begun: Option<Begun>,
}

/// The last change, for `.`.
#[derive(Debug, Clone)]
struct Last {
    count: Option<usize>,
    verb: Verb,
    /// What was typed behind it.
    typed: Option<Draft>,
}

#[derive(Debug, Clone)]
struct Begun {
    before: Draft,
    at: usize,
    /// Steps that can be taken back, before the command.
    steps: usize,
}

impl Vi {
    pub fn keys(&self) -> &str {
        &self.keys
    }

    pub fn mode(&self) -> Mode {
        self.mode
    }

    pub(super) fn insert(&mut self) {
        (self.mode, self.begun) = (Mode::Insert, None);
        self.keys.clear();
    }

    /// The text is another one: places in the one before mean nothing.
    pub(super) fn text_changed(&mut self) {
        if let Mode::Select { .. } = self.mode {
            self.mode = Mode::Normal;
        }
    }

    /// Text behind this place has moved.
    pub(super) fn text_moved(&mut self, behind: usize, by: isize) {
        if let Mode::Select { from, .. } = &mut self.mode
            && *from >= behind
        {
            *from = from.saturating_add_signed(by);
        }
    }
}

impl Composer {
    /// Keys are vi's from now on, or they are not.
    pub fn use_vi(&mut self, on: bool) {
        self.vi = on.then(Vi::default);
    }

    pub fn vi(&self) -> Option<&Vi> {
        self.vi.as_ref()
    }

    /// Letters are commands.
    pub fn is_normal(&self) -> bool {
        self.vi.as_ref().is_some_and(|vi| vi.mode != Mode::Insert)
    }

    /// What is selected.
    pub fn selection(&self) -> Option<Range<usize>> {
        let Mode::Select { from, lines } = self.vi.as_ref()?.mode else { return None };
        let (start, end) = (self.cursor.min(from), self.cursor.max(from));
        Some(if lines {
            motion::line_start(self.text(), start)..motion::line_end(self.text(), end)
        } else {
            start..self.draft.snap(motion::next(self.text(), end), true)
        })
    }

    /// Whether it was in another mode than the normal one, or within a command, and has left it.
    pub fn vi_escape(&mut self) -> bool {
        let Some(vi) = &mut self.vi else { return false };
        let left = vi.mode != Mode::Normal || !vi.keys.is_empty();
        if vi.mode == Mode::Insert {
            self.note_typed();
            if self.cursor > motion::line_start(self.draft.text(), self.cursor) {
                self.cursor = self.draft.snap(motion::previous(self.draft.text(), self.cursor), false);
            }
        }
        if let Some(vi) = &mut self.vi {
            vi.mode = Mode::Normal;
            vi.keys.clear();
        }
        self.undo.pause();
        self.stay_on_a_character();
        left
    }

    pub fn vi_insert(&mut self) {
        self.vi.iter_mut().for_each(Vi::insert);
    }

    /// A letter in the normal mode, or while something is selected. `columns` is the width that lines are wrapped to.
    pub fn vi_key(&mut self, key: char, columns: usize) {
        let Some(vi) = &mut self.vi else { return };
        vi.keys.push(key);
        match parse(&vi.keys, matches!(vi.mode, Mode::Select { .. })) {
            Parsed::More => return,
            Parsed::Unknown => vi.keys.clear(),
            Parsed::Command { count, verb: Verb::Repeat } => {
                vi.keys.clear();
                self.repeat(count, columns);
            }
            Parsed::Command { count, verb } => {
                vi.keys.clear();
                self.obey_and_note(count, verb, columns);
            }
        }
        if self.is_normal() {
            self.stay_on_a_character();
        }
    }

    /// Does what a command says, and remembers a change.
    fn obey_and_note(&mut self, count: Option<usize>, verb: Verb, columns: usize) {
        let (steps, again) = (self.undo.depth(), self.again(count, verb));
        self.obey(count, verb, columns);
        let begun = Begun { before: self.draft.clone(), at: self.cursor, steps };
        let Some(vi) = self.vi.as_mut().filter(|_| verb.changes()) else { return };
        vi.begun = (vi.mode == Mode::Insert).then_some(begun);
        vi.last = Some(again);
    }

    fn repeat(&mut self, count: Option<usize>, columns: usize) {
        let Some(last) = self.vi.as_ref().and_then(|vi| vi.last.clone()) else { return };
        self.obey_and_note(count.or(last.count), last.verb, columns);
        if self.is_normal() {
            return;
        }
        if let Some(typed) = &last.typed {
            self.draft.insert_draft(self.cursor, typed);
            self.cursor += typed.text().len();
            self.changed();
        }
        self.vi_escape();
    }

    /// What was typed since a command began to insert goes with it: it is taken back with it, and done again with it.
    fn note_typed(&mut self) {
        let Some(vi) = &mut self.vi else { return };
        let Some(Begun { before, at, steps }) = vi.begun.take() else { return };
        self.undo.join(steps);
        let (old, new) = (before.text(), self.draft.text());
        // Who went elsewhere and typed there does not mean it to be repeated.
        let end = (new.len() + at).checked_sub(old.len()).filter(|end| *end >= at);
        let typed = end.filter(|end| new.get(..at) == old.get(..at) && new.get(*end..) == old.get(at..));
        if let Some(last) = &mut vi.last {
            last.typed = typed.map(|end| self.draft.slice(at..end));
        }
    }

    /// In the normal mode the cursor is on a character, where its line has any.
    fn stay_on_a_character(&mut self) {
        let text = self.draft.text();
        let end = motion::line_end(text, self.cursor);
        if self.cursor == end && self.cursor > motion::line_start(text, self.cursor) {
            self.cursor = self.draft.snap(motion::previous(text, self.cursor), false);
        }
    }
}

#[cfg(test)]
mod tests;
