//! A list to choose from, over the conversation: what is typed filters it, Enter takes the chosen row.
//!
//! What is listed and what a choice means is said by its purpose; `update::list` acts on it, `picker_view` draws.

use nucleo_matcher::pattern::{AtomKind, CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};

/// What the list is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A command, to be put into the composer.
    Command,
    /// A message sent before, likewise.
    History,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// What stands for it in the program.
    pub id: String,
    pub label: String,
    /// Dim, right of the label.
    pub detail: String,
}

#[derive(Debug, Clone)]
pub struct Picker {
    pub purpose: Purpose,
    pub title: String,
    items: Vec<Item>,
    filter: String,
    /// The items that match, the best first.
    matching: Vec<usize>,
    /// Of `matching`.
    chosen: usize,
}

impl Picker {
    pub fn new(purpose: Purpose, title: impl Into<String>, items: Vec<Item>) -> Self {
        let mut picker =
            Self { purpose, title: title.into(), items, filter: String::new(), matching: Vec::new(), chosen: 0 };
        picker.search();
        picker
    }

    pub fn filter(&self) -> &str {
        &self.filter
    }

    /// What is typed into the list.
    pub fn type_text(&mut self, text: &str) {
        self.filter.push_str(text);
        self.search();
    }

    pub fn erase(&mut self) {
        self.filter.pop();
        self.search();
    }

    /// The matching items, the best first, and which of them is chosen.
    pub fn rows(&self) -> (Vec<&Item>, usize) {
        (self.matching.iter().filter_map(|index| self.items.get(*index)).collect(), self.chosen)
    }

    pub fn chosen(&self) -> Option<&Item> {
        self.items.get(*self.matching.get(self.chosen)?)
    }

    /// Ends at both ends.
    pub fn move_by(&mut self, rows: isize) {
        let last = self.matching.len().saturating_sub(1);
        self.chosen = self.chosen.saturating_add_signed(rows).min(last);
    }

    fn search(&mut self) {
        self.chosen = 0;
        let labels = self.items.iter().map(|item| item.label.as_str());
        self.matching = match self.purpose {
            Purpose::Command => ranked(&self.filter, labels),
            Purpose::History => containing(&self.filter, labels),
        };
    }
}

/// Which texts match what is typed, by their numbers, the best first; those that match alike keep their order.
pub fn ranked<'a>(typed: &str, texts: impl Iterator<Item = &'a str>) -> Vec<usize> {
    let pattern = Pattern::new(typed, CaseMatching::Smart, Normalization::Smart, AtomKind::Fuzzy);
    let mut matcher = Matcher::new(Config::DEFAULT);
    let mut buffer = Vec::new();
    let mut scored: Vec<(usize, u32)> = texts
        .enumerate()
        .filter_map(|(index, text)| Some((index, pattern.score(Utf32Str::new(text, &mut buffer), &mut matcher)?)))
        .collect();
    scored.sort_by_key(|(_, score)| std::cmp::Reverse(*score));
    scored.into_iter().map(|(index, _)| index).collect()
}

/// Which texts have all the words that are typed, in their order.
pub fn containing<'a>(typed: &str, texts: impl Iterator<Item = &'a str>) -> Vec<usize> {
    let pattern = Pattern::new(typed, CaseMatching::Smart, Normalization::Smart, AtomKind::Substring);
    let mut matcher = Matcher::new(Config::DEFAULT);
    let mut buffer = Vec::new();
    let matches = |text| pattern.score(Utf32Str::new(text, &mut buffer), &mut matcher).is_some();
    texts.map(matches).enumerate().filter_map(|(index, matches)| matches.then_some(index)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_in_order_match_and_whole_words_come_first() {
        let texts = ["/theme", "/think", "/help", "/the"];
        let found = |typed| ranked(typed, texts.into_iter()).into_iter().map(|at| texts[at]).collect::<Vec<_>>();
        assert_eq!(found(""), texts);
        assert_eq!(found("thk"), ["/think"]);
        assert_eq!(found("hlp"), ["/help"]);
        assert_eq!(found("zz"), [""; 0]);
    }

    #[test]
    fn words_are_found_as_they_are_and_order_stays() {
        let texts = ["What of Rome?", "the end", "what is the time", "W h a t"];
        let found = |typed| containing(typed, texts.into_iter());
        assert_eq!(found("what"), [0, 2]);
        assert_eq!(found("the wh"), [2]);
        assert_eq!(found("What"), [0]);
        assert_eq!(found(""), [0, 1, 2, 3]);
    }
}
