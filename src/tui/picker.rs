//! A list to choose from: what is typed filters it, Enter takes the chosen row.
//!
//! What is listed and what a choice means is said by its purpose; `update::list` acts on it, `picker_view` draws. The
//! palette has one, too, which the composer's text filters.

use nucleo_matcher::pattern::{AtomKind, CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};

use super::text::sanitize::{one_line, sanitize};

/// What the list is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A command, to be run or to be put into the composer.
    Command,
    /// A message sent before, likewise.
    History,
    /// A model, to answer from now on.
    Model,
    /// A colour theme, shown while it is chosen.
    Theme,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
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
    /// The reader has moved to another row than the best.
    moved: bool,
}

impl Picker {
    /// Labels and details may come from anywhere; what a terminal would obey in them is made visible.
    pub fn new(purpose: Purpose, title: impl Into<String>, items: Vec<Item>) -> Self {
        let safe = |item: Item| Item { label: one_line(&item.label), detail: one_line(&item.detail), ..item };
        let mut picker = Self {
            purpose,
            title: title.into(),
            items: items.into_iter().map(safe).collect(),
            filter: String::new(),
            matching: Vec::new(),
            chosen: 0,
            moved: false,
        };
        picker.search();
        picker
    }

    pub fn filter(&self) -> &str {
        &self.filter
    }

    /// What is typed into the list.
    pub fn type_text(&mut self, text: &str) {
        self.filter.push_str(&typed_line(text));
        self.search();
    }

    /// In place of what was typed before.
    pub fn set_filter(&mut self, text: &str) {
        self.filter = typed_line(text);
        self.search();
    }

    pub fn erase(&mut self) {
        self.filter.pop();
        self.search();
    }

    pub fn clear(&mut self) {
        self.filter.clear();
        self.search();
    }

    /// The matching items, the best first, and which of them is chosen.
    pub fn rows(&self) -> (Vec<&Item>, usize) {
        (self.matching.iter().filter_map(|index| self.items.get(*index)).collect(), self.chosen)
    }

    pub fn chosen(&self) -> Option<&Item> {
        self.items.get(*self.matching.get(self.chosen)?)
    }

    /// Whether the reader has gone to another row than the one that matches best.
    pub fn has_moved(&self) -> bool {
        self.moved
    }

    /// Goes to the item with this id, if it matches.
    pub fn choose(&mut self, id: &str) {
        let at = self.matching.iter().position(|index| self.items.get(*index).is_some_and(|item| item.id == id));
        self.chosen = at.unwrap_or(self.chosen);
    }

    /// Ends at both ends.
    pub fn move_by(&mut self, rows: isize) {
        let last = self.matching.len().saturating_sub(1);
        self.chosen = self.chosen.saturating_add_signed(rows).min(last);
        self.moved = true;
    }

    fn search(&mut self) {
        (self.chosen, self.moved) = (0, false);
        let labels = self.items.iter().map(|item| item.label.as_str());
        self.matching = match self.purpose {
            Purpose::History => containing(&self.filter, labels),
            _ => ranked(&self.filter, labels),
        };
    }
}

/// What is typed or pasted where there is one line for it; spaces stay.
pub fn typed_line(text: &str) -> String {
    sanitize(text).replace('\n', " ")
}

/// Which texts match what is typed, by their numbers, the best first; those that match alike keep their order.
pub fn ranked<'a>(typed: &str, texts: impl Iterator<Item = &'a str>) -> Vec<usize> {
    let pattern = pattern(typed);
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

/// Which of a text's characters are those that were typed, by their numbers, in order.
pub fn matched(typed: &str, text: &str) -> Vec<usize> {
    let mut at = Vec::new();
    pattern(typed).indices(Utf32Str::new(text, &mut Vec::new()), &mut Matcher::new(Config::DEFAULT), &mut at);
    at.sort_unstable();
    at.dedup();
    at.into_iter().map(|index| index as usize).collect()
}

fn pattern(typed: &str) -> Pattern {
    Pattern::new(typed, CaseMatching::Smart, Normalization::Smart, AtomKind::Fuzzy)
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
        assert_eq!(matched("thk", "/think"), [1, 2, 5]);
    }

    #[test]
    fn a_list_opens_at_a_row_and_typing_goes_back_to_the_best() {
        let item = |id: &str| Item { id: id.into(), label: format!("the {id}\x1b[2J"), detail: String::new() };
        let mut picker = Picker::new(Purpose::Command, "x", vec![item("one"), item("two"), item("three")]);
        picker.choose("two");
        let chosen = |picker: &Picker| picker.chosen().map(|item| item.label.clone());
        assert_eq!(chosen(&picker).as_deref(), Some("the two^[[2J"));
        picker.move_by(isize::MAX);
        assert_eq!(chosen(&picker).as_deref(), Some("the three^[[2J"));
        picker.move_by(isize::MIN);
        assert!(picker.has_moved());
        picker.type_text("the");
        picker.type_text(" ");
        assert_eq!(picker.filter(), "the ");
        assert!(!picker.has_moved());
        picker.set_filter("zz");
        assert_eq!((chosen(&picker), picker.rows().0.len()), (None, 0));
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
