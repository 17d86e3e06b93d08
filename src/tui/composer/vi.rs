//! vi's keys: its modes, and the commands of the normal one.
//!
//! The keys of a command are gathered and read as a whole each time (`parse`), so that there is no state but the keys.
//! Left to other editors: visual mode, registers, marks, repeating with `.`, searching.

use std::ops::Range;

use super::motion::{self, Motion};
use super::undo::Change;
use super::{Composer, Draft};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    #[default]
    Insert,
    Normal,
}

#[derive(Debug, Clone, Default)]
pub struct Vi {
    mode: Mode,
    /// Of a command that is not complete.
    keys: String,
}

impl Vi {
    pub fn keys(&self) -> &str {
        &self.keys
    }

    pub(super) fn insert(&mut self) {
        *self = Self::default();
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Delete,
    Change,
    Yank,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    To(Motion),
    Lines,
    /// `iw`, or `aw` with the spaces behind it.
    Word {
        spaces: bool,
    },
}

/// Where `i`, `I`, `a`, `A`, `o` and `O` begin to insert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Here,
    Behind,
    FirstOfLine,
    LineEnd,
    NewLine { above: bool },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Move(Motion),
    Operate(Operator, Target),
    Insert(Place),
    Put { before: bool },
    Replace(char),
    Join,
    Undo,
}

#[derive(Debug, PartialEq, Eq)]
enum Parsed {
    /// The command goes on.
    More,
    /// No command.
    Unknown,
    Command {
        count: Option<usize>,
        verb: Verb,
    },
}

/// Higher counts are typing mistakes.
const MOST: usize = 999;

fn parse(keys: &str) -> Parsed {
    let mut keys = keys.chars().peekable();
    let first = count(&mut keys);
    let Some(key) = keys.next() else { return Parsed::More };
    let operate = |operator, motion| Ok(Verb::Operate(operator, Target::To(motion)));
    let mut second = None;
    let verb = match key {
        'd' | 'c' | 'y' => {
            let operator = match key {
                'd' => Operator::Delete,
                'c' => Operator::Change,
                _ => Operator::Yank,
            };
            second = count(&mut keys);
            match keys.next() {
                Some(again) if again == key => Ok(Verb::Operate(operator, Target::Lines)),
                Some(object @ ('i' | 'a')) => match keys.next() {
                    Some('w') => Ok(Verb::Operate(operator, Target::Word { spaces: object == 'a' })),
                    Some(_) => Err(Parsed::Unknown),
                    None => Err(Parsed::More),
                },
                Some(key) => parse_motion(key, &mut keys).map(|motion| Verb::Operate(operator, Target::To(motion))),
                None => Err(Parsed::More),
            }
        }
        'x' => operate(Operator::Delete, Motion::Right),
        'X' => operate(Operator::Delete, Motion::Left),
        'D' => operate(Operator::Delete, Motion::LineEnd),
        'C' => operate(Operator::Change, Motion::LineEnd),
        's' => operate(Operator::Change, Motion::Right),
        'S' => Ok(Verb::Operate(Operator::Change, Target::Lines)),
        'Y' => Ok(Verb::Operate(Operator::Yank, Target::Lines)),
        'i' => Ok(Verb::Insert(Place::Here)),
        'a' => Ok(Verb::Insert(Place::Behind)),
        'I' => Ok(Verb::Insert(Place::FirstOfLine)),
        'A' => Ok(Verb::Insert(Place::LineEnd)),
        'o' => Ok(Verb::Insert(Place::NewLine { above: false })),
        'O' => Ok(Verb::Insert(Place::NewLine { above: true })),
        'p' => Ok(Verb::Put { before: false }),
        'P' => Ok(Verb::Put { before: true }),
        'J' => Ok(Verb::Join),
        'u' => Ok(Verb::Undo),
        'r' => keys.next().map(Verb::Replace).ok_or(Parsed::More),
        key => parse_motion(key, &mut keys).map(Verb::Move),
    };
    match verb {
        Ok(verb) => {
            let count = match (first, second) {
                (Some(first), Some(second)) => Some((first * second).min(MOST)),
                (first, second) => first.or(second),
            };
            Parsed::Command { count, verb }
        }
        Err(parsed) => parsed,
    }
}

fn count(keys: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<usize> {
    let mut count = None;
    while let Some(digit) = keys.peek().and_then(|key| key.to_digit(10)) {
        // A zero in front is the line's beginning.
        if digit == 0 && count.is_none() {
            break;
        }
        count = Some((count.unwrap_or(0) * 10 + digit as usize).min(MOST));
        keys.next();
    }
    count
}

fn parse_motion(key: char, keys: &mut impl Iterator<Item = char>) -> Result<Motion, Parsed> {
    let mut find = |forward, before| keys.next().map(|what| Motion::Find { what, forward, before }).ok_or(Parsed::More);
    Ok(match key {
        'h' => Motion::Left,
        'l' | ' ' => Motion::Right,
        'j' => Motion::LineDown,
        'k' => Motion::LineUp,
        'w' => Motion::NextWord,
        'b' => Motion::PreviousWord,
        'e' => Motion::WordEnd,
        '0' => Motion::LineStart,
        '^' => Motion::FirstOfLine,
        '$' => Motion::LineEnd,
        'G' => Motion::End,
        'g' => match keys.next() {
            Some('g') => Motion::Start,
            Some(_) => return Err(Parsed::Unknown),
            None => return Err(Parsed::More),
        },
        'f' => find(true, false)?,
        't' => find(true, true)?,
        'F' => find(false, false)?,
        'T' => find(false, true)?,
        _ => return Err(Parsed::Unknown),
    })
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
        self.vi.as_ref().is_some_and(|vi| vi.mode == Mode::Normal)
    }

    /// Whether it was in the insert mode, or within a command, and has left it.
    pub fn vi_escape(&mut self) -> bool {
        let Some(vi) = &mut self.vi else { return false };
        let left = vi.mode == Mode::Insert || !vi.keys.is_empty();
        if vi.mode == Mode::Insert && self.cursor > motion::line_start(self.draft.text(), self.cursor) {
            self.cursor = self.draft.snap(motion::previous(self.draft.text(), self.cursor), false);
        }
        vi.mode = Mode::Normal;
        vi.keys.clear();
        self.undo.pause();
        self.stay_on_a_character();
        left
    }

    pub fn vi_insert(&mut self) {
        self.vi.iter_mut().for_each(Vi::insert);
    }

    /// A letter in the normal mode. `columns` is the width that lines are wrapped to.
    pub fn vi_key(&mut self, key: char, columns: usize) {
        let Some(vi) = &mut self.vi else { return };
        vi.keys.push(key);
        match parse(&vi.keys) {
            Parsed::More => return,
            Parsed::Unknown => vi.keys.clear(),
            Parsed::Command { count, verb } => {
                vi.keys.clear();
                self.obey(count, verb, columns);
            }
        }
        if self.is_normal() {
            self.stay_on_a_character();
        }
    }

    fn obey(&mut self, count: Option<usize>, verb: Verb, columns: usize) {
        let times = count.unwrap_or(1);
        match verb {
            Verb::Move(Motion::LineDown) => (0..times).for_each(|_| self.down(columns)),
            Verb::Move(Motion::LineUp) => (0..times).for_each(|_| self.up(columns)),
            Verb::Move(motion) => {
                self.cursor = self.reach(motion, count);
                self.wanted_column = None;
                self.undo.pause();
            }
            Verb::Operate(operator, Target::Lines) => {
                let last = (1..times).fold(self.cursor, |at, _| motion::target(self.text(), at, Motion::LineDown));
                self.operate_on_lines(operator, self.cursor..last);
            }
            Verb::Operate(operator, Target::To(motion)) => {
                let to = self.reach(motion, count);
                let range = self.cursor.min(to)..self.cursor.max(to);
                match motion {
                    Motion::LineDown | Motion::LineUp | Motion::Start | Motion::End => {
                        self.operate_on_lines(operator, range);
                    }
                    Motion::NextWord => {
                        let end = self.end_of_words(operator == Operator::Change, times);
                        self.operate(operator, range.start..end);
                    }
                    // They reach the character that they lead to.
                    Motion::WordEnd | Motion::Find { forward: true, .. } if !range.is_empty() => {
                        self.operate(operator, range.start..motion::next(self.text(), range.end));
                    }
                    _ => self.operate(operator, range),
                }
            }
            Verb::Operate(operator, Target::Word { spaces }) => self.operate(operator, self.word(spaces)),
            Verb::Insert(place) => self.begin_insert(place),
            Verb::Put { before } => self.put(before, times),
            Verb::Replace(what) => self.overwrite(what, times),
            Verb::Join => (1..times.max(2)).for_each(|_| self.join_lines()),
            Verb::Undo => (0..times).for_each(|_| self.undo()),
        }
    }

    /// Where the motion leads when it is done `count` times.
    fn reach(&self, motion: Motion, count: Option<usize>) -> usize {
        let text = self.text();
        match (motion, count) {
            (Motion::Start | Motion::End, Some(line)) => {
                let last = text.matches('\n').count();
                let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1));
                starts.into_iter().nth((line - 1).min(last)).unwrap_or(0)
            }
            (Motion::LineEnd, Some(line)) => {
                let at = (1..line).fold(self.cursor, |at, _| motion::target(text, at, Motion::LineDown));
                motion::line_end(text, at)
            }
            _ => {
                let line = motion::line_start(text, self.cursor)..motion::line_end(text, self.cursor);
                let mut at = self.cursor;
                for _ in 0..count.unwrap_or(1) {
                    let to = motion::target(text, at, motion);
                    let to = self.draft.snap(to, to > at);
                    at = match motion {
                        Motion::Left | Motion::Right => to.clamp(line.start, line.end),
                        _ => to,
                    };
                }
                at
            }
        }
    }

    /// `w` behind an operator stops where the last word's line ends; a change leaves the spaces, too.
    fn end_of_words(&self, change: bool, times: usize) -> usize {
        let text = self.text();
        let last = (1..times).fold(self.cursor, |at, _| motion::target(text, at, Motion::NextWord));
        let end = motion::target(text, last, Motion::NextWord).min(motion::line_end(text, last).max(last));
        let word = text[last..end].trim_end();
        let end = if change && !word.is_empty() { last + word.len() } else { end };
        self.draft.snap(end, true)
    }

    fn word(&self, spaces: bool) -> Range<usize> {
        let text = self.text();
        let at = self.cursor;
        let here = motion::next(text, at);
        let start = motion::target(text, here, Motion::PreviousWord);
        // On spaces, they are the word.
        if text[at..].starts_with(' ') {
            let start = text[..at].trim_end_matches(' ').len();
            return start..at + text[at..].len() - text[at..].trim_start_matches(' ').len();
        }
        let line_end = motion::line_end(text, at);
        let next = motion::target(text, at, Motion::NextWord).min(line_end);
        let end = if spaces { next } else { at + text[at..next].trim_end().len() };
        start.min(at)..end.max(at)
    }

    fn operate(&mut self, operator: Operator, range: Range<usize>) {
        if operator == Operator::Yank {
            (self.killed, self.killed_lines) = (self.draft.slice(range.clone()), false);
            self.cursor = self.draft.snap(range.start, false);
            return;
        }
        self.cut(range, true);
        if operator == Operator::Change {
            self.vi_insert();
        }
    }

    /// On all lines that the range touches.
    fn operate_on_lines(&mut self, operator: Operator, range: Range<usize>) {
        let text = self.text();
        let mut lines = motion::line_start(text, range.start)..motion::line_end(text, range.end);
        let taken = self.draft.slice(lines.clone());
        match operator {
            Operator::Yank => self.cursor = lines.start.min(self.cursor),
            Operator::Change => {
                self.cut(lines, true);
                self.vi_insert();
            }
            Operator::Delete => {
                if lines.end < text.len() {
                    lines.end += 1;
                } else if lines.start > 0 {
                    lines.start -= 1;
                }
                self.cut(lines, true);
                self.cursor = motion::target(self.text(), self.cursor, Motion::FirstOfLine);
            }
        }
        (self.killed, self.killed_lines) = (taken, true);
    }

    fn begin_insert(&mut self, place: Place) {
        let text = self.text();
        self.cursor = match place {
            Place::Here => self.cursor,
            Place::Behind if self.cursor == motion::line_end(text, self.cursor) => self.cursor,
            Place::Behind => self.target(Motion::Right),
            Place::FirstOfLine => motion::target(text, self.cursor, Motion::FirstOfLine),
            Place::LineEnd | Place::NewLine { above: false } => motion::line_end(text, self.cursor),
            Place::NewLine { above: true } => motion::line_start(text, self.cursor),
        };
        self.wanted_column = None;
        self.undo.pause();
        if let Place::NewLine { above } = place {
            let at = self.cursor;
            self.insert("\n");
            self.cursor = if above { at } else { self.cursor };
        }
        self.vi_insert();
    }

    fn put(&mut self, before: bool, times: usize) {
        if self.killed.text().is_empty() && !self.killed_lines {
            return;
        }
        self.note(Change::Whole);
        let text = self.text();
        let killed = self.killed.clone();
        if self.killed_lines {
            let (start, end) = (motion::line_start(text, self.cursor), motion::line_end(text, self.cursor));
            let lines = Draft::join(std::iter::repeat_n(killed, times));
            if before {
                self.draft.insert(start, "\n");
                self.draft.insert_draft(start, &lines);
                self.cursor = start;
            } else {
                self.draft.insert(end, "\n");
                self.draft.insert_draft(end + 1, &lines);
                self.cursor = end + 1;
            }
            self.cursor = motion::target(self.text(), self.cursor, Motion::FirstOfLine);
        } else {
            if !before && self.cursor < motion::line_end(text, self.cursor) {
                self.cursor = self.target(Motion::Right);
            }
            for _ in 0..times {
                self.draft.insert_draft(self.cursor, &killed);
                self.cursor += killed.text().len();
            }
            self.cursor = self.target(Motion::Left);
        }
        self.changed();
    }

    fn overwrite(&mut self, what: char, times: usize) {
        let end = self.reach(Motion::Right, Some(times));
        if end == self.cursor {
            return;
        }
        let count = unicode_segmentation::UnicodeSegmentation::graphemes(&self.text()[self.cursor..end], true).count();
        self.note(Change::Whole);
        let at = self.draft.remove(self.cursor..end);
        let text = super::sanitize::sanitize(&what.to_string()).repeat(count);
        self.draft.insert(at, &text);
        self.cursor = at + text.len();
        self.cursor = self.target(Motion::Left);
        self.changed();
    }

    fn join_lines(&mut self) {
        let end = motion::line_end(self.text(), self.cursor);
        if end == self.text().len() {
            return;
        }
        self.note(Change::Whole);
        let rest = &self.text()[end + 1..];
        let indent = rest.len() - rest.trim_start_matches(' ').len();
        self.draft.remove(end..end + 1 + indent);
        self.draft.insert(end, " ");
        self.cursor = end;
        self.changed();
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
#[path = "vi_tests.rs"]
mod tests;
