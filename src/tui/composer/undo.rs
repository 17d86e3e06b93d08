//! What was typed before each change, so that changes can be taken back and done again.

use super::draft::Draft;

/// Changes that follow each other are one step where they are of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Letters of a word.
    Word,
    /// The spaces behind it.
    Space,
    Erase,
    /// A step of its own.
    Whole,
}

#[derive(Debug, Clone)]
struct Moment {
    draft: Draft,
    cursor: usize,
}

#[derive(Debug, Clone, Default)]
pub struct Undo {
    past: Vec<Moment>,
    future: Vec<Moment>,
    last: Option<Change>,
}

/// Steps that are kept.
const MOST: usize = 500;

impl Undo {
    /// To be called before a change.
    pub fn note(&mut self, change: Change, draft: &Draft, cursor: usize) {
        let goes_on = match change {
            Change::Whole => false,
            // The spaces belong to the word before them.
            Change::Space => matches!(self.last, Some(Change::Word | Change::Space)),
            Change::Word | Change::Erase => self.last == Some(change),
        };
        self.last = Some(change);
        self.future.clear();
        if goes_on {
            return;
        }
        if self.past.len() == MOST {
            self.past.remove(0);
        }
        self.past.push(Moment { draft: draft.clone(), cursor });
    }

    /// The next change is a step of its own: the cursor went elsewhere.
    pub fn pause(&mut self) {
        self.last = None;
    }

    /// Steps that can be taken back.
    pub fn depth(&self) -> usize {
        self.past.len()
    }

    /// What was done since there were so many steps is one.
    pub fn join(&mut self, steps: usize) {
        self.past.truncate(steps + 1);
        self.last = None;
    }

    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// What was there before the last step, in exchange for what is there now.
    pub fn back(&mut self, draft: &Draft, cursor: usize) -> Option<(Draft, usize)> {
        let moment = self.past.pop()?;
        self.last = None;
        self.future.push(Moment { draft: draft.clone(), cursor });
        Some((moment.draft, moment.cursor))
    }

    pub fn has_future(&self) -> bool {
        !self.future.is_empty()
    }

    pub fn again(&mut self, draft: &Draft, cursor: usize) -> Option<(Draft, usize)> {
        let moment = self.future.pop()?;
        self.last = None;
        self.past.push(Moment { draft: draft.clone(), cursor });
        Some((moment.draft, moment.cursor))
    }
}
