//! A message of a conversation, and how an answer came to be: token by token, lane by lane.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::record::{End, Record, Shown, TokenTime};

#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    pub id: u32,
    pub parent: Option<u32>,
    pub time: DateTime<Utc>,
    pub text: String,
    /// What stands on the screen, where that is not the text.
    pub shown: Option<Shown>,
    /// Of an answer; a question has none.
    pub answer: Option<Answer>,
    /// It is left out, with all that follows it.
    pub deleted: bool,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answer {
    pub model: String,
    pub thinking: String,
    /// How it came to be, in order.
    pub(super) steps: Vec<Step>,
    /// `None` while it is being written, or where the program ended before the answer did.
    pub end: Option<End>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Step {
    made: Made,
    /// Bytes of the text and of the thinking behind it.
    text: usize,
    thinking: usize,
}

/// What a step of an answer was.
#[derive(Debug, Clone, PartialEq)]
pub enum Made {
    /// Text whose time is not known.
    Text,
    Token {
        took: Duration,
        thinks: bool,
        /// It counts from the question, not from a token.
        first: bool,
    },
    /// A lane goes on. `why` is there when the answer moved to it from another one.
    Lane { lane: String, emulated: bool, why: Option<String> },
    /// The answer had ended and goes on.
    GoesOn,
}

/// A step with what it gave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Piece<'a> {
    pub made: &'a Made,
    pub text: &'a str,
    pub thinking: &'a str,
}

impl Answer {
    /// The lane that spoke last.
    pub fn lane(&self) -> Option<&str> {
        self.last_lane().map(|(lane, _)| lane)
    }

    /// That one ran on a simulator.
    pub fn is_emulated(&self) -> bool {
        self.last_lane().is_some_and(|(_, emulated)| emulated)
    }

    fn last_lane(&self) -> Option<(&str, bool)> {
        self.steps.iter().rev().find_map(|step| match &step.made {
            Made::Lane { lane, emulated, .. } => Some((lane.as_str(), *emulated)),
            Made::Text | Made::Token { .. } | Made::GoesOn => None,
        })
    }

    /// The next token does not follow another one.
    pub(super) fn is_at_first(&self) -> bool {
        let counts = |step: &&Step| matches!(step.made, Made::Token { .. } | Made::GoesOn);
        self.steps.iter().rev().find(counts).is_none_or(|step| step.made == Made::GoesOn)
    }
}

impl Message {
    /// What stands on the screen.
    pub fn shown(&self) -> &str {
        self.shown.as_ref().map_or(&self.text, |shown| &shown.text)
    }

    /// How an answer came to be, in order; a question has nothing of that.
    pub fn pieces(&self) -> impl Iterator<Item = Piece<'_>> {
        let (steps, thinking) = match &self.answer {
            Some(answer) => (answer.steps.as_slice(), answer.thinking.as_str()),
            None => (&[][..], ""),
        };
        let before = std::iter::once((0, 0)).chain(steps.iter().map(|step| (step.text, step.thinking)));
        steps.iter().zip(before).map(move |(step, (text_before, thinking_before))| Piece {
            made: &step.made,
            text: &self.text[text_before..step.text],
            thinking: &thinking[thinking_before..step.thinking],
        })
    }

    /// What makes it, but for its being deleted.
    pub fn records(&self) -> Vec<Record> {
        let (id, parent, time) = (self.id, self.parent, self.time);
        let Some(answer) = &self.answer else {
            return vec![Record::Question { id, parent, time, text: self.text.clone(), shown: self.shown.clone() }];
        };
        let mut records = vec![Record::Answer { id, parent, time, model: answer.model.clone() }];
        records.extend(self.pieces().map(|Piece { made, text, thinking }| {
            let token = match made {
                Made::Text => None,
                Made::Token { took, thinks, .. } => Some(TokenTime { took: *took, thinks: *thinks }),
                Made::Lane { lane, emulated, why } => {
                    return Record::Lane { id, lane: lane.clone(), emulated: *emulated, why: why.clone() };
                }
                Made::GoesOn => return Record::Continue { id },
            };
            Record::Text { id, text: text.to_owned(), thinking: thinking.to_owned(), token }
        }));
        records.extend(answer.end.clone().map(|end| Record::End { id, end }));
        records
    }

    /// Notes a step, and what it gave.
    pub(super) fn make(&mut self, made: Made, text: &str, thinking: &str) {
        let Some(answer) = &mut self.answer else { return };
        self.text.push_str(text);
        answer.thinking.push_str(thinking);
        let step = Step { text: self.text.len(), thinking: answer.thinking.len(), made };
        match answer.steps.last_mut() {
            Some(last) if last.made == Made::Text && step.made == Made::Text => *last = step,
            _ => answer.steps.push(step),
        }
    }
}
