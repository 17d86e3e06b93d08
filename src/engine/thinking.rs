//! Tells what a model thinks from what it answers, while the text comes in pieces.
//!
//! Thinking stands before the answer and nowhere else, between two markers (`<think>`, `</think>`). The first marker is
//! the model's own, or the prompt ends with it already. Markers that come later are text like any other.

use crate::model::{ModelFolder, Thinking, TokenizerError};

/// Pieces of thinking and of the answer; all of the thinking comes before the answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parts {
    pub thinking: String,
    pub answer: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Nothing has come yet but white space, or the beginning of a marker.
    Start,
    /// `fresh`: only white space so far, which is left out.
    Thinking { fresh: bool },
    /// `fresh`: the white space that parts it from the thinking is left out.
    Answer { fresh: bool },
}

#[derive(Debug, Clone)]
pub struct ThinkingSplitter {
    markers: Option<Thinking>,
    place: Place,
    /// What could be part of a marker, or white space before one.
    held: String,
}

/// A prompt's last tokens, among which a marker is looked for that the template opened.
const TAIL: usize = 16;

impl ThinkingSplitter {
    /// All text is the answer.
    pub fn off() -> Self {
        Self::new(None, false)
    }

    /// For the answer to a prompt.
    pub fn after(folder: &ModelFolder, prompt: &[u32]) -> Result<Self, TokenizerError> {
        let Some(thinking) = &folder.thinking else { return Ok(Self::off()) };
        let tail = folder.tokenizer.decode_whole(&prompt[prompt.len().saturating_sub(TAIL)..])?;
        Ok(Self::new(Some(thinking.clone()), tail.trim_end().ends_with(thinking.open)))
    }

    /// `opened`: the prompt ends within the thinking.
    fn new(markers: Option<Thinking>, opened: bool) -> Self {
        let place = match (&markers, opened) {
            (None, _) => Place::Answer { fresh: false },
            (Some(_), false) => Place::Start,
            (Some(_), true) => Place::Thinking { fresh: true },
        };
        Self { markers, place, held: String::new() }
    }

    /// For a server's text, whatever its model is: the markers that most models have.
    pub fn usual() -> Self {
        Self::new(Some(Thinking { open: "<think>", close: "</think>", hidden: Vec::new(), switchable: false }), false)
    }

    /// What ends the thinking, where that is what comes next.
    pub fn closing_marker(&self) -> Option<&'static str> {
        self.markers.as_ref().filter(|_| self.is_thinking()).map(|thinking| thinking.close)
    }

    /// What comes next belongs to the thinking.
    pub fn is_thinking(&self) -> bool {
        matches!(self.place, Place::Thinking { .. })
    }

    /// The marker that a token stands for, where decoding leaves it out with all special tokens.
    pub fn hidden_marker(&self, token: u32) -> Option<&'static str> {
        self.markers.as_ref()?.hidden.iter().find(|(id, _)| *id == token).map(|(_, marker)| *marker)
    }

    pub fn push(&mut self, text: &str) -> Parts {
        let mut parts = Parts::default();
        let Some((open, close)) = self.markers.as_ref().map(|thinking| (thinking.open, thinking.close)) else {
            parts.answer.push_str(text);
            return parts;
        };
        self.held.push_str(text);
        if self.place == Place::Start {
            let begun = self.held.trim_start();
            if let Some(rest) = begun.strip_prefix(open) {
                self.held = rest.to_owned();
                self.place = Place::Thinking { fresh: true };
            } else if open.starts_with(begun) {
                return parts;
            } else {
                self.place = Place::Answer { fresh: false };
            }
        }
        if let Place::Thinking { fresh } = self.place {
            if fresh {
                self.held = self.held.trim_start().to_owned();
            }
            if let Some(at) = self.held.find(close) {
                parts.thinking.push_str(self.held[..at].trim_end());
                self.held.drain(..at + close.len());
                self.place = Place::Answer { fresh: true };
            } else {
                let end = self.held[..self.held.len() - possible_start(&self.held, close)].trim_end().len();
                parts.thinking.extend(self.held.drain(..end));
                self.place = Place::Thinking { fresh: fresh && parts.thinking.is_empty() };
            }
        }
        if let Place::Answer { fresh } = self.place {
            let text = std::mem::take(&mut self.held);
            parts.answer.push_str(if fresh { text.trim_start() } else { &text });
            self.place = Place::Answer { fresh: fresh && parts.answer.is_empty() };
        }
        parts
    }

    /// What was held back when the text ended.
    pub fn finish(&mut self) -> Parts {
        let held = std::mem::take(&mut self.held);
        if self.is_thinking() {
            Parts { thinking: held.trim_end().to_owned(), ..Parts::default() }
        } else {
            Parts { answer: held, ..Parts::default() }
        }
    }
}

/// The length of the longest end of `text` that `marker` begins with, in bytes.
pub fn possible_start(text: &str, marker: &str) -> usize {
    let fits = |length: &usize| marker.is_char_boundary(*length) && text.ends_with(&marker[..*length]);
    (1..marker.len()).rev().find(fits).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn splitter(opened: bool) -> ThinkingSplitter {
        ThinkingSplitter::new(
            Some(Thinking { open: "<think>", close: "</think>", hidden: vec![(7, "</think>")], switchable: true }),
            opened,
        )
    }

    fn split(opened: bool, pieces: &[&str]) -> (String, String) {
        let mut splitter = splitter(opened);
        let mut whole = Parts::default();
        let parts: Vec<Parts> = pieces.iter().map(|piece| splitter.push(piece)).collect();
        for part in parts.into_iter().chain([splitter.finish()]) {
            assert!(part.thinking.is_empty() || whole.answer.is_empty(), "thinking after the answer");
            whole.thinking += &part.thinking;
            whole.answer += &part.answer;
        }
        (whole.thinking, whole.answer)
    }

    #[test]
    fn thinking_and_answer_are_told_apart() {
        for (opened, text, thinking, answer) in [
            (false, "<think>\nHm, so.\n</think>\n\nYes.", "Hm, so.", "Yes."),
            (false, "\n<think>\n\n</think>\n\nYes.\n", "", "Yes.\n"),
            (true, "Hm.\n\nSo.\n</think>\nYes.", "Hm.\n\nSo.", "Yes."),
            // It thinks to the end, or ends within the marker.
            (true, "Hm. </thin", "Hm. </thin", ""),
            (false, "<think>Hm.\n", "Hm.", ""),
            // No thinking at all.
            (false, "  Yes.", "", "  Yes."),
            (false, "<thinking aloud>", "", "<thinking aloud>"),
            (false, "<thi", "", "<thi"),
            (false, " ", "", " "),
            // Markers in the answer are text, and so is one within the thinking that opens again.
            (false, "In HTML, <think> and </think>.", "", "In HTML, <think> and </think>."),
            (true, "a <think> b</think> c </think> d", "a <think> b", "c </think> d"),
        ] {
            assert_eq!(split(opened, &[text]), (thinking.to_owned(), answer.to_owned()), "{text:?}");
        }
    }

    #[test]
    fn without_markers_everything_is_the_answer() {
        let mut off = ThinkingSplitter::off();
        assert_eq!(off.push(" <think>x</think>").answer, " <think>x</think>");
        assert_eq!(off.hidden_marker(7), None);
        assert_eq!(splitter(true).hidden_marker(7), Some("</think>"));
    }

    #[test]
    fn text_is_not_held_back_longer_than_it_must_be() {
        let mut splitter = splitter(false);
        for (piece, thinking, answer) in [
            ("<think>", "", ""),
            ("\n", "", ""),
            ("So", "So", ""),
            (" <", "", ""),
            ("b", " <b", ""),
            ("\n", "", ""),
            ("</", "", ""),
            ("think>", "", ""),
            ("\n\n", "", ""),
            ("Yes", "", "Yes"),
            (" </think>", "", " </think>"),
        ] {
            let expected = Parts { thinking: thinking.into(), answer: answer.into() };
            assert_eq!(splitter.push(piece), expected, "{piece:?}");
        }
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(
            words in prop::collection::vec(prop::sample::select(vec!["<think>", "</think>", "<", "</th", "a", "é", " ", "\n", ">"]), 0..14),
            cuts in prop::collection::vec(1usize..5, 0..60),
            opened: bool,
        ) {
            let text = words.concat();
            let chars: Vec<char> = text.chars().collect();
            let (mut pieces, mut at, mut cuts) = (Vec::new(), 0, cuts.into_iter());
            while at < chars.len() {
                let end = (at + cuts.next().unwrap_or(1)).min(chars.len());
                pieces.push(chars[at..end].iter().collect::<String>());
                at = end;
            }
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            prop_assert_eq!(split(opened, &pieces), split(opened, &[&text]));
        }
    }
}
