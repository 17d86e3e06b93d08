//! All conversations at a glance, and a search through all that was said in them.
//!
//! A file is read again only when it has changed, so a search as one types costs a look at the folder and the texts.

use std::collections::HashMap;
use std::ops::Range;
use std::time::SystemTime;

use chrono::{DateTime, Utc};

use super::{Entry, Store, StoreError};

/// A conversation that is shown in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    pub id: String,
    pub title: String,
    /// When it was written to; of a deleted one, when it was deleted.
    pub changed: DateTime<Utc>,
    /// On the way through it that is shown: other versions do not count, nor does what was deleted.
    pub messages: usize,
    /// Of the latest answer.
    pub model: String,
    /// Where what was looked for stands; `None` where that is in the title, or nothing was looked for.
    pub snippet: Option<Snippet>,
}

/// A piece of a message on one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snippet {
    pub text: String,
    /// What was looked for, in bytes of `text`.
    pub at: Range<usize>,
    /// The message says something before it.
    pub is_cut: bool,
}

pub struct Library {
    store: Store,
    known: HashMap<String, Known>,
}

struct Known {
    stamp: (SystemTime, u64),
    /// `None` for a file that is no conversation.
    found: Option<Found>,
    /// The newest first.
    texts: Vec<String>,
}

impl Library {
    pub fn new(store: Store) -> Self {
        Self { store, known: HashMap::new() }
    }

    /// Conversations that have all these words in their title or in what was said, in any case of letters; the latest
    /// first. Without a word, all of them.
    pub fn find(&mut self, words: &str) -> Result<Vec<Found>, StoreError> {
        let entries = self.store.list()?;
        let words: Vec<Vec<char>> = words.split_whitespace().map(|word| word.chars().map(fold).collect()).collect();
        self.known.retain(|id, _| entries.iter().any(|entry| entry.id == *id));
        let mut all = Vec::new();
        for entry in entries {
            let known = self.known(&entry);
            let Some(found) = &known.found else { continue };
            if let Some(snippet) = matches(&words, &found.title, &known.texts) {
                all.push(Found { snippet, ..found.clone() });
            }
        }
        Ok(all)
    }

    pub fn deleted(&self) -> Result<Vec<Found>, StoreError> {
        let entries = self.store.list_deleted()?;
        Ok(entries.into_iter().filter_map(|entry| self.look(&entry, true).found).collect())
    }

    fn known(&mut self, entry: &Entry) -> &Known {
        let stamp = (entry.changed, entry.bytes);
        if self.known.get(&entry.id).is_none_or(|known| known.stamp != stamp) {
            let known = self.look(entry, false);
            self.known.insert(entry.id.clone(), known);
        }
        &self.known[&entry.id]
    }

    fn look(&self, entry: &Entry, is_deleted: bool) -> Known {
        let stamp = (entry.changed, entry.bytes);
        let stored = if is_deleted { self.store.load_deleted(&entry.id) } else { self.store.load(&entry.id) };
        let Some(stored) = stored.ok().filter(|stored| is_deleted || !stored.tree.is_emptied()) else {
            return Known { stamp, found: None, texts: Vec::new() };
        };
        let mut texts: Vec<String> = stored.tree.visible().map(|message| message.text.clone()).collect();
        texts.reverse();
        let answers = stored.tree.messages().iter().rev();
        let model = answers.filter_map(|message| message.answer.as_ref()).map(|answer| answer.model.clone()).next();
        let found = Found {
            id: entry.id.clone(),
            title: stored.tree.title().or_else(|| stored.tree.first_title()).unwrap_or_else(|| "(empty)".to_owned()),
            changed: entry.changed.into(),
            messages: stored.tree.path().len(),
            model: model.unwrap_or_default(),
            snippet: None,
        };
        Known { stamp, found: Some(found), texts }
    }
}

/// Whether every word is somewhere, and where the first of them is said.
fn matches(words: &[Vec<char>], title: &str, texts: &[String]) -> Option<Option<Snippet>> {
    let said = |word: &Vec<char>| texts.iter().find_map(|text| Some((text, position(text, word)?)));
    let mut snippet = None;
    for word in words {
        if position(title, word).is_some() {
            continue;
        }
        let (text, at) = said(word)?;
        snippet = snippet.or_else(|| Some(around(text, at)));
    }
    Some(snippet)
}

/// One character for one, so that places in the text stay the same.
fn fold(c: char) -> char {
    let mut lower = c.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(lower), None) => lower,
        _ => c,
    }
}

/// Where a folded word stands, in bytes.
fn position(text: &str, word: &[char]) -> Option<Range<usize>> {
    let (first, rest) = word.split_first()?;
    text.char_indices().find_map(|(start, c)| {
        if fold(c) != *first {
            return None;
        }
        let mut end = start + c.len_utf8();
        let mut follows = text[end..].chars();
        for wanted in rest {
            let c = follows.next().filter(|c| fold(*c) == *wanted)?;
            end += c.len_utf8();
        }
        Some(start..end)
    })
}

/// Characters that are shown before and behind what was found.
const BEFORE: usize = 24;
const BEHIND: usize = 120;

fn around(text: &str, at: Range<usize>) -> Snippet {
    let start = text[..at.start].char_indices().rev().nth(BEFORE - 1).map_or(0, |(at, _)| at);
    let end = text[at.end..].char_indices().nth(BEHIND).map_or(text.len(), |(more, _)| at.end + more);
    let start = start + to_a_word(&text[start..at.start], start > 0);
    let mut out = String::new();
    let one_line = |text: &str, out: &mut String| {
        for c in text.chars() {
            let c = if c.is_whitespace() { ' ' } else { c };
            if !(c == ' ' && (out.is_empty() || out.ends_with(' '))) {
                out.push(c);
            }
        }
    };
    one_line(&text[start..at.start], &mut out);
    let from = out.len();
    // What was looked for has no space in it.
    out.push_str(&text[at.clone()]);
    let to = out.len();
    one_line(&text[at.end..end], &mut out);
    Snippet { text: out, at: from..to, is_cut: start > 0 }
}

/// Where the first whole word begins of a text that may begin within one; at its start where it is all one word.
fn to_a_word(text: &str, may_be_within: bool) -> usize {
    if !may_be_within {
        return 0;
    }
    let space = text.find(char::is_whitespace).unwrap_or(0);
    let word = text[space..].find(|c: char| !c.is_whitespace()).map(|word| space + word);
    word.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::record::tests::{answer, question, text, then};
    use super::super::{Record, Store};
    use super::*;

    fn keep(store: &Store, seed: u16, records: &[Record]) -> String {
        let mut file = store.begin(then(), seed).unwrap();
        for record in records {
            file.write(&mut record.line().into_bytes()).unwrap();
        }
        file.id().to_owned()
    }

    #[test]
    fn words_are_found_in_titles_and_texts() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(dir.path().join("chats"));
        let rivers = keep(
            &store,
            1,
            &[question(0, None, "Name a river"), answer(1, 0), text(1, "The LOIRE,\n\nand the Ångström"), answer(2, 0)],
        );
        let hills = keep(&store, 2, &[question(0, None, "Name a hill"), answer(1, 0), text(1, "Montmartre")]);
        std::fs::write(dir.path().join("chats/notes.jsonl"), "my own notes about a river\n").unwrap();
        let mut library = Library::new(store.clone());
        let mut found = |words: &str| -> Vec<String> {
            let mut ids: Vec<String> = library.find(words).unwrap().into_iter().map(|found| found.id).collect();
            ids.sort();
            ids
        };
        assert_eq!(found(""), [rivers.clone(), hills.clone()]);
        assert_eq!(found("name"), [rivers.clone(), hills.clone()]);
        assert_eq!(found("HILL montmartre"), std::slice::from_ref(&hills));
        assert_eq!(found("ångström loire"), std::slice::from_ref(&rivers));
        assert_eq!(found("loire hill"), [""; 0]);
        store.delete(&hills).unwrap();
        assert_eq!(found("name"), std::slice::from_ref(&rivers));
        assert_eq!(library.deleted().unwrap()[0].title, "Name a hill");
        // One in which all was deleted is in no list.
        let lakes = keep(&store, 3, &[question(0, None, "Name a lake"), Record::Delete(0)]);
        assert_eq!(library.find("").unwrap().len(), 1);
        store.delete(&lakes).unwrap();
        assert!(library.deleted().unwrap().iter().any(|found| found.title == "Name a lake"));

        let row = &library.find("loire").unwrap()[0];
        let snippet = row.snippet.clone().unwrap();
        assert_eq!((snippet.text.as_str(), &snippet.text[snippet.at]), ("The LOIRE, and the Ångström", "LOIRE"));
        // The question and one of its two answers.
        assert_eq!((row.messages, row.model.as_str(), row.title.as_str()), (2, "test-model", "Name a river"));
        // What is written later is found, too.
        let mut file = store.open(&rivers).unwrap().unwrap();
        file.write(&mut text(2, "Garonne").line().into_bytes()).unwrap();
        assert_eq!(library.find("garonne").unwrap().len(), 1);
    }

    #[test]
    fn a_snippet_is_one_line_around_what_was_found() {
        let text = format!("{}\n\tneedle \x1b{}", "é".repeat(40), "x".repeat(300));
        let at = position(&text, &['n', 'e']).unwrap();
        let snippet = around(&text, at);
        assert_eq!(&snippet.text[snippet.at.clone()], "ne");
        // Before it is one long word, of which the end is shown.
        assert!(snippet.text.starts_with(&format!("{} ne", "é".repeat(22))) && snippet.is_cut, "{snippet:?}");
        assert_eq!(snippet.text.chars().count(), 23 + 2 + BEHIND);
        let text = "First I consider what a river is, and then a lake";
        let snippet = around(text, position(text, &['l', 'a', 'k', 'e']).unwrap());
        assert_eq!((snippet.text.as_str(), snippet.is_cut), ("a river is, and then a lake", true));
        // A letter that has two small ones stays what it is.
        assert_eq!(position("aİb", &['İ', 'b']), Some(1..4));
        assert_eq!(position("aaab", &['a', 'a', 'b']), Some(1..4));
        assert_eq!(position("x", &[]), None);
    }
}
