//! The list of kept conversations: what is typed is looked for in all that was said.

use std::collections::HashSet;

use crate::store::Found;

use super::super::text::sanitize;

/// A conversation in the list.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub found: Found,
    /// When it was written to, for people: "today 14:05".
    pub when: String,
}

/// What typed letters are for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// To look for.
    Search,
    /// The new name of this conversation.
    Rename { id: String, title: String },
}

#[derive(Debug)]
pub struct ChatList {
    pub words: String,
    pub mode: Mode,
    /// `None` until the first search is back.
    pub rows: Option<Result<Vec<Row>, String>>,
    pub chosen: usize,
    /// Those that were deleted here; they stay in the list, so that it can be undone.
    pub gone: HashSet<String>,
    /// A search is under way, and for what.
    pub asked: Option<String>,
}

impl ChatList {
    pub fn new(words: &str) -> Self {
        Self { words: words.to_owned(), mode: Mode::Search, rows: None, chosen: 0, gone: HashSet::new(), asked: None }
    }

    /// What stands behind the prompt.
    pub fn input(&self) -> &str {
        match &self.mode {
            Mode::Search => &self.words,
            Mode::Rename { title, .. } => title,
        }
    }

    fn input_mut(&mut self) -> &mut String {
        match &mut self.mode {
            Mode::Search => &mut self.words,
            Mode::Rename { title, .. } => title,
        }
    }

    pub fn type_text(&mut self, text: &str) {
        let text = sanitize::sanitize(text).replace('\n', " ");
        self.input_mut().push_str(&text);
    }

    pub fn erase(&mut self) {
        self.input_mut().pop();
    }

    pub fn rows(&self) -> &[Row] {
        match &self.rows {
            Some(Ok(rows)) => rows,
            _ => &[],
        }
    }

    pub fn chosen(&self) -> Option<&Row> {
        self.rows().get(self.chosen)
    }

    /// Ends at both ends.
    pub fn move_by(&mut self, rows: isize) {
        let last = self.rows().len().saturating_sub(1);
        self.chosen = self.chosen.saturating_add_signed(rows).min(last);
    }

    /// The rows of a search; the chosen conversation stays chosen.
    pub fn fill(&mut self, rows: Result<Vec<Row>, String>) {
        let chosen = self.chosen().map(|row| row.found.id.clone());
        self.rows = Some(rows);
        let at = self.rows().iter().position(|row| Some(&row.found.id) == chosen.as_ref());
        self.chosen = at.unwrap_or(0);
    }
}
