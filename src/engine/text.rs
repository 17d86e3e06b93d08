//! Tokens to text while they come: characters are never cut in two, and stop texts never get through.

use super::thinking::possible_start;
use crate::model::{Tokenizer, TokenizerError};

/// Turns tokens into text piece by piece. A token may end inside of a character; its text then waits for the next one.
#[derive(Default)]
pub struct Detokenizer {
    tokens: Vec<u32>,
    /// Where decoding starts: some tokenizers write a token differently at the start of a text, so the piece before the
    /// new one is decoded again with it.
    start: usize,
    /// Tokens before this one have been given out.
    given: usize,
}

impl Detokenizer {
    /// The text that this token completes; empty while a character is incomplete.
    pub fn push(&mut self, tokenizer: &Tokenizer, token: u32) -> Result<String, TokenizerError> {
        self.tokens.push(token);
        let text = self.pending(tokenizer)?;
        if text.ends_with(char::REPLACEMENT_CHARACTER) {
            return Ok(String::new());
        }
        self.start = self.given;
        self.given = self.tokens.len();
        Ok(text)
    }

    /// All tokens so far.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Goes on behind these tokens, whose text was given out elsewhere.
    pub fn resume(&mut self, tokens: Vec<u32>) {
        (self.start, self.given) = (tokens.len(), tokens.len());
        self.tokens = tokens;
    }

    /// What was still incomplete when the answer ended, with U+FFFD for its broken bytes.
    pub fn finish(&mut self, tokenizer: &Tokenizer) -> Result<String, TokenizerError> {
        let text = self.pending(tokenizer)?;
        self.given = self.tokens.len();
        Ok(text)
    }

    fn pending(&self, tokenizer: &Tokenizer) -> Result<String, TokenizerError> {
        if self.given == self.tokens.len() {
            return Ok(String::new());
        }
        let before = tokenizer.decode(&self.tokens[self.start..self.given])?;
        let with = tokenizer.decode(&self.tokens[self.start..])?;
        Ok(with.get(before.len()..).unwrap_or_default().to_string())
    }
}

/// Holds text back for as long as it could be the beginning of a stop text.
pub struct StopMatcher {
    stops: Vec<String>,
    held: String,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Released {
    pub text: String,
    /// A stop text was met; nothing more will come.
    pub stopped: bool,
}

impl StopMatcher {
    /// Empty stop texts are left out: they would match everywhere.
    pub fn new(stops: &[String]) -> Self {
        Self { stops: stops.iter().filter(|stop| !stop.is_empty()).cloned().collect(), held: String::new() }
    }

    pub fn push(&mut self, text: &str) -> Released {
        self.held.push_str(text);
        if let Some(at) = self.stops.iter().filter_map(|stop| self.held.find(stop.as_str())).min() {
            self.held.truncate(at);
            return Released { text: std::mem::take(&mut self.held), stopped: true };
        }
        let kept = self.possible_start();
        let rest = self.held.split_off(self.held.len() - kept);
        Released { text: std::mem::replace(&mut self.held, rest), stopped: false }
    }

    /// What was held back when the answer ended without the stop text.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// The length of the longest end of the held text that a stop text begins with, in bytes.
    fn possible_start(&self) -> usize {
        self.stops.iter().map(|stop| possible_start(&self.held, stop)).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matcher(stops: &[&str]) -> StopMatcher {
        StopMatcher::new(&stops.iter().map(|s| s.to_string()).collect::<Vec<_>>())
    }

    #[test]
    fn text_before_a_stop_gets_through_and_nothing_after_it() {
        let mut m = matcher(&["END"]);
        assert_eq!(m.push("one E"), Released { text: "one ".into(), stopped: false });
        assert_eq!(m.push("N two"), Released { text: "EN two".into(), stopped: false });
        assert_eq!(m.push(" END three"), Released { text: " ".into(), stopped: true });
    }

    #[test]
    fn the_earliest_of_several_stops_counts() {
        let released = matcher(&["b", "ab", ""]).push("xabc");
        assert_eq!(released, Released { text: "x".into(), stopped: true });
    }

    #[test]
    fn what_was_held_comes_out_at_the_end() {
        let mut m = matcher(&["\n\n"]);
        assert_eq!(m.push("a\n").text, "a");
        assert_eq!(m.finish(), "\n");
    }

    proptest! {
        /// However the text is cut into pieces, what gets through is the text before the first stop.
        #[test]
        fn pieces_make_no_difference(text in "[abé]{0,40}", cuts in prop::collection::vec(0usize..8, 0..20), stop in "[abé]{1,4}") {
            let mut m = StopMatcher::new(std::slice::from_ref(&stop));
            let chars: Vec<char> = text.chars().collect();
            let (mut at, mut out, mut stopped) = (0, String::new(), false);
            let mut cuts = cuts.into_iter();
            while at < chars.len() && !stopped {
                let end = (at + cuts.next().unwrap_or(1).max(1)).min(chars.len());
                let released = m.push(&chars[at..end].iter().collect::<String>());
                out.push_str(&released.text);
                stopped = released.stopped;
                at = end;
            }
            if !stopped {
                out.push_str(&m.finish());
            }
            let expected = text.split(stop.as_str()).next().unwrap_or_default();
            prop_assert_eq!(out, expected);
            prop_assert_eq!(stopped, text.contains(&stop));
        }
    }
}
