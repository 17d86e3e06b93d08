//! A draft as words and characters see it.

use std::ops::Range;

use super::Draft;
use super::motion;

/// A draft's text with each unit as one character, for what counts characters and words.
#[derive(Debug)]
pub struct Folded {
    pub text: String,
    /// Where each unit stands there, and where its label stands in the draft.
    units: Vec<(usize, Range<usize>)>,
}

impl Folded {
    pub fn of(draft: &Draft) -> Self {
        let mut folded = Self { text: String::new(), units: Vec::new() };
        let mut at = 0;
        for unit in draft.units() {
            folded.text.push_str(&draft.text()[at..unit.range().start]);
            folded.units.push((folded.text.len(), unit.range()));
            folded.text.push(motion::UNIT);
            at = unit.range().end;
        }
        folded.text.push_str(&draft.text()[at..]);
        folded
    }

    /// Where a place of the draft is, which must be in no unit.
    pub fn inner(&self, at: usize) -> usize {
        let before = self.units.iter().rfind(|(_, range)| range.end <= at);
        before.map_or(at, |(inner, range)| inner + motion::UNIT.len_utf8() + at - range.end)
    }

    pub fn outer(&self, at: usize) -> usize {
        let before = self.units.iter().rfind(|(inner, _)| inner + motion::UNIT.len_utf8() <= at);
        before.map_or(at, |(inner, range)| range.end + at - inner - motion::UNIT.len_utf8())
    }
}
