//! What vi's commands do to the text.

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

use super::super::folded::Folded;
use super::super::motion::{self, Motion};
use super::super::undo::Change;
use super::super::{Composer, Draft, sanitize};
use super::command::{Case, Operator, Place, Target, Verb};
use super::{Last, Mode};

impl Composer {
    /// How the command is done again: on as much text as it found selected.
    pub(super) fn again(&self, count: Option<usize>, verb: Verb) -> Last {
        let mut last = Last { count, verb, typed: None };
        let Some((selection, mode)) = self.selection().zip(self.vi.as_ref().map(super::Vi::mode)) else { return last };
        let by_lines = matches!(mode, Mode::Select { lines: true, .. });
        let lines = self.text()[selection.clone()].split('\n').count();
        let characters = Folded::of(&self.draft.slice(selection)).text.graphemes(true).count();
        (last.count, last.verb) = match verb {
            Verb::Operate(operator, Target::Selection) if !by_lines => {
                (Some(characters), Verb::Operate(operator, Target::Characters))
            }
            Verb::Operate(operator, Target::Selection | Target::SelectedLines) => {
                (Some(lines), Verb::Operate(operator, Target::Lines))
            }
            Verb::Replace(what, _) => (Some(characters), Verb::Replace(what, Target::Characters)),
            Verb::Join => (Some(lines), verb),
            verb => (count, verb),
        };
        last
    }

    pub(super) fn obey(&mut self, count: Option<usize>, verb: Verb, columns: usize) {
        let times = count.unwrap_or(1);
        let selected = self.selection();
        match verb {
            Verb::Move(Target::To(motion @ (Motion::LineDown | Motion::LineUp))) if selected.is_some() => {
                let step = if motion == Motion::LineDown { 1 } else { -1 };
                (0..times).for_each(|_| _ = self.move_line(columns, step));
            }
            Verb::Move(Target::To(Motion::LineDown)) => (0..times).for_each(|_| self.down(columns)),
            Verb::Move(Target::To(Motion::LineUp)) => (0..times).for_each(|_| self.up(columns)),
            Verb::Move(Target::Word { spaces }) => self.select(self.word(spaces)),
            Verb::Move(target) => {
                self.cursor = self.lead(target, count);
                self.wanted_column = None;
                self.undo.pause();
            }
            Verb::Operate(operator, target) => {
                self.operate_on(operator, target, count);
                self.leave_selection();
            }
            Verb::Insert(place) => self.begin_insert(place),
            Verb::Put { before } => self.put(before, times),
            Verb::Replace(what, target) => {
                let range = match target {
                    Target::Selection => selected,
                    Target::Characters => Some(self.characters(times)),
                    _ => Some(self.cursor..self.reach(Motion::Right, Some(times))),
                };
                self.overwrite(what, range.unwrap_or_default());
                self.leave_selection();
            }
            Verb::Join => {
                let lines = selected.map(|range| {
                    self.cursor = range.start;
                    self.text()[range].split('\n').count()
                });
                self.leave_selection();
                (1..lines.unwrap_or(times).max(2)).for_each(|_| self.join_lines());
            }
            Verb::Undo => (0..times).for_each(|_| self.undo()),
            Verb::Select { lines } => self.begin_select(lines),
            Verb::OtherEnd => {
                if let Some(Mode::Select { from, .. }) = self.vi.as_mut().map(|vi| &mut vi.mode) {
                    std::mem::swap(from, &mut self.cursor);
                }
            }
            // The caller knows the last one.
            Verb::Repeat => {}
        }
    }

    fn operate_on(&mut self, operator: Operator, target: Target, count: Option<usize>) {
        let times = count.unwrap_or(1);
        match target {
            Target::Lines => {
                let last = (1..times).fold(self.cursor, |at, _| motion::target(self.text(), at, Motion::LineDown));
                self.operate_on_lines(operator, self.cursor..last);
            }
            Target::Selection | Target::SelectedLines => {
                let by_lines = matches!(self.vi.as_ref().map(super::Vi::mode), Some(Mode::Select { lines: true, .. }));
                match self.selection() {
                    Some(range) if by_lines || target == Target::SelectedLines => {
                        self.operate_on_lines(operator, range)
                    }
                    Some(range) => self.operate(operator, range),
                    None => {}
                }
            }
            Target::Characters => self.operate(operator, self.characters(times)),
            Target::Word { spaces } => self.operate(operator, self.word(spaces)),
            Target::To(motion @ (Motion::LineDown | Motion::LineUp | Motion::Start | Motion::End)) => {
                let to = self.reach(motion, count);
                self.operate_on_lines(operator, self.cursor.min(to)..self.cursor.max(to));
            }
            Target::To(Motion::NextWord) => {
                let end = self.end_of_words(operator == Operator::Change, times);
                self.operate(operator, self.cursor..end);
            }
            target => {
                let to = self.lead(target, count);
                let (start, end) = (self.cursor.min(to), self.cursor.max(to));
                let forward = to > self.cursor;
                let end = if start < end && self.is_inclusive(target, forward) || self.is_beside(target) {
                    self.draft.snap(motion::next(self.text(), end), true)
                } else {
                    end
                };
                self.operate(operator, start..end);
                if target == Target::To(Motion::Right) && operator == Operator::Case(Case::Other) {
                    self.cursor = end;
                }
            }
        }
    }

    /// Whether an operator takes the character that this leads to.
    fn is_inclusive(&self, target: Target, forward: bool) -> bool {
        match target {
            Target::To(Motion::WordEnd) | Target::Bracket => true,
            Target::To(Motion::Find { .. }) | Target::Found { .. } => forward,
            _ => false,
        }
    }

    /// Whether what `t` looks for is the next character: the one at the cursor is before it.
    fn is_beside(&self, target: Target) -> bool {
        let next = motion::next(self.text(), self.cursor);
        matches!(target, Target::To(Motion::Find { what, forward: true, before: true }) if self.text()[next..].starts_with(what))
    }

    /// Where a target leads from the cursor.
    fn lead(&mut self, target: Target, count: Option<usize>) -> usize {
        match target {
            Target::To(motion) => {
                if let (Motion::Find { .. }, Some(vi)) = (motion, &mut self.vi) {
                    vi.found = Some(motion);
                }
                self.reach(motion, count)
            }
            Target::Found { reverse } => {
                let found = self.vi.as_ref().and_then(|vi| vi.found);
                let Some(Motion::Find { what, forward, before }) = found else { return self.cursor };
                let motion = Motion::Find { what, forward: forward != reverse, before };
                let text = self.text();
                let found = (0..count.unwrap_or(1)).try_fold(self.cursor, |at, _| {
                    let lead = |from| Some(motion::target(text, from, motion)).filter(|to| *to != from);
                    // Beside what was found already, the next one is meant.
                    let beside = if forward != reverse { motion::next(text, at) } else { motion::previous(text, at) };
                    lead(at).or_else(|| lead(beside).filter(|_| before))
                });
                found.map_or(self.cursor, |to| self.draft.snap(to, to > self.cursor))
            }
            Target::Bracket => motion::bracket(self.text(), self.cursor),
            Target::Lines | Target::Word { .. } | Target::Selection | Target::SelectedLines | Target::Characters => {
                self.cursor
            }
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
            (Motion::NextWord | Motion::PreviousWord | Motion::WordEnd, _) => {
                let folded = Folded::of(&self.draft);
                let from = folded.inner(self.cursor);
                let to = (0..count.unwrap_or(1)).fold(from, |at, _| motion::target(&folded.text, at, motion));
                folded.outer(to)
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
        let folded = Folded::of(&self.draft);
        let text = &folded.text;
        let at = folded.inner(self.cursor);
        let last = (1..times).fold(at, |at, _| motion::target(text, at, Motion::NextWord));
        let end = motion::target(text, last, Motion::NextWord).min(motion::line_end(text, last).max(last));
        let word = text[last..end].trim_end();
        folded.outer(if change && !word.is_empty() { last + word.len() } else { end })
    }

    fn word(&self, spaces: bool) -> Range<usize> {
        let folded = Folded::of(&self.draft);
        let text = &folded.text;
        let at = folded.inner(self.cursor);
        let range = if text[at..].starts_with(' ') {
            // On spaces, they are the word.
            let start = text[..at].trim_end_matches(' ').len();
            start..at + text[at..].len() - text[at..].trim_start_matches(' ').len()
        } else {
            let start = motion::target(text, motion::next(text, at), Motion::PreviousWord);
            let next = motion::target(text, at, Motion::NextWord).min(motion::line_end(text, at));
            let end = if spaces { next } else { at + text[at..next].trim_end().len() };
            start.min(at)..end.max(at)
        };
        folded.outer(range.start)..folded.outer(range.end)
    }

    /// So many characters from the cursor on.
    fn characters(&self, count: usize) -> Range<usize> {
        let folded = Folded::of(&self.draft);
        let from = folded.inner(self.cursor);
        self.cursor..folded.outer((0..count).fold(from, |at, _| motion::next(&folded.text, at)))
    }

    fn begin_select(&mut self, by_lines: bool) {
        let cursor = self.cursor;
        let Some(vi) = &mut self.vi else { return };
        vi.mode = match vi.mode {
            Mode::Select { lines, .. } if lines == by_lines => Mode::Normal,
            Mode::Select { from, .. } => Mode::Select { from, lines: by_lines },
            Mode::Insert | Mode::Normal => Mode::Select { from: cursor, lines: by_lines },
        };
    }

    /// Selects more by this range: all of it where nothing but the cursor is selected yet.
    fn select(&mut self, range: Range<usize>) {
        let Some(vi) = self.vi.as_mut().filter(|_| !range.is_empty()) else { return };
        if let Mode::Select { from, .. } = &mut vi.mode
            && *from == self.cursor
        {
            *from = range.start;
        }
        self.cursor = self.draft.snap(motion::previous(self.draft.text(), range.end), false);
    }

    fn leave_selection(&mut self) {
        self.vi.iter_mut().for_each(super::Vi::text_changed);
    }

    fn operate(&mut self, operator: Operator, range: Range<usize>) {
        match operator {
            Operator::Yank => {
                (self.killed, self.killed_lines) = (self.draft.slice(range.clone()), false);
                self.cursor = self.draft.snap(range.start, false);
            }
            Operator::Delete => self.cut(range, true),
            Operator::Change => {
                self.cut(range, true);
                self.vi_insert();
            }
            Operator::Case(case) => self.change_case(case, range),
        }
    }

    /// On all lines that the range touches.
    fn operate_on_lines(&mut self, operator: Operator, range: Range<usize>) {
        let text = self.text();
        let mut lines = motion::line_start(text, range.start)..motion::line_end(text, range.end);
        let taken = self.draft.slice(lines.clone());
        match operator {
            Operator::Case(case) => return self.change_case(case, lines),
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

    fn change_case(&mut self, case: Case, range: Range<usize>) {
        let changed = self.draft.slice(range.clone()).map(|text| match case {
            Case::Lower => text.to_lowercase(),
            Case::Upper => text.to_uppercase(),
            Case::Other => text.chars().map(other_case).collect(),
        });
        self.exchange_draft(range, &changed);
    }

    /// Puts a draft in the place of a part, the cursor at its beginning.
    fn exchange_draft(&mut self, range: Range<usize>, draft: &Draft) {
        if range.is_empty() && draft.text().is_empty() {
            return;
        }
        self.note(Change::Whole);
        self.cursor = self.draft.remove(range);
        self.draft.insert_draft(self.cursor, draft);
        self.changed();
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
        if let Some(range) = self.selection() {
            return self.put_over(range, times);
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

    /// In the place of what is selected, which can be put elsewhere then.
    fn put_over(&mut self, range: Range<usize>, times: usize) {
        let by_lines = matches!(self.vi.as_ref().map(super::Vi::mode), Some(Mode::Select { lines: true, .. }));
        let (killed, whole) = (self.killed.clone(), self.killed_lines);
        let mut text = if whole {
            Draft::join(std::iter::repeat_n(killed, times))
        } else {
            let mut text = Draft::default();
            (0..times).for_each(|_| text.insert_draft(text.text().len(), &killed));
            text
        };
        // Lines stay lines.
        if whole && !by_lines {
            text.insert(0, "\n");
            text.insert(text.text().len(), "\n");
        }
        (self.killed, self.killed_lines) = (self.draft.slice(range.clone()), by_lines);
        self.exchange_draft(range, &text);
        if !whole {
            self.cursor += text.text().len();
            self.cursor = self.target(Motion::Left);
        }
    }

    /// A unit counts as one character; line ends stay.
    fn overwrite(&mut self, what: char, range: Range<usize>) {
        let what = sanitize::sanitize(&what.to_string());
        let folded = Folded::of(&self.draft.slice(range.clone()));
        let text: String = folded.text.graphemes(true).map(|old| if old == "\n" { "\n" } else { &what }).collect();
        let (selects, empty) = (self.selection().is_some(), range.is_empty());
        self.exchange_draft(range, &Draft::from(text.as_str()));
        if !selects && !empty {
            self.cursor += text.len();
            self.cursor = self.target(Motion::Left);
        }
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
}

fn other_case(c: char) -> String {
    if c.is_lowercase() { c.to_uppercase().collect() } else { c.to_lowercase().collect() }
}
