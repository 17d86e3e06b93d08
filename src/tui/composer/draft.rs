//! What is typed: text in which long pastes and attached files stand as one unit each, shown by a label.
//!
//! The label is part of the text, so that wrapping and drawing need to know nothing of units; whoever edits keeps them
//! whole. What a unit stands for is put in when the draft is sent.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::store::{LongPiece, Shown};

use super::super::format;
use super::super::text::sanitize;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Draft {
    /// Safe to be shown, labels included.
    text: String,
    /// In the order of their places.
    units: Vec<Unit>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// Of the label within the text.
    start: usize,
    end: usize,
    pub inset: Arc<Inset>,
}

/// What a unit stands for.
#[derive(Debug, PartialEq, Eq)]
pub struct Inset {
    /// Counts up; tells equal ones apart.
    pub id: u64,
    /// The path of an attached file as it was typed; `None` for a paste.
    pub file: Option<String>,
    /// As it came, with line feeds for line ends.
    pub content: String,
}

/// Tokens for bytes, until the tokenizer has counted: English text has about four bytes a token.
const BYTES_PER_TOKEN: usize = 4;
/// Longer messages are not kept beyond the session, in bytes.
const LONGEST_REMEMBERED: usize = 16 << 10;

impl Inset {
    /// `[pasted 1.0 MB, 250,000 tokens]`, or `[notes.txt, 3.1 kB, est. 800 tokens]` before they are counted.
    pub fn label(&self, tokens: Option<usize>) -> String {
        let size = format::size(self.content.len());
        let estimate = || roughly(self.content.len().div_ceil(BYTES_PER_TOKEN));
        let (sign, tokens) = tokens.map_or_else(|| ("est. ", estimate()), |tokens| ("", tokens));
        let tokens = format!("{sign}{} {}", format::grouped(tokens), if tokens == 1 { "token" } else { "tokens" });
        match &self.file {
            Some(path) => format!("[{}, {size}, {tokens}]", sanitize::one_line(path)),
            None => format!("[pasted {size}, {tokens}]"),
        }
    }

    /// As it is sent in front of the message: a name, and the text between fences that it does not have itself. And where
    /// the text begins.
    fn fenced(&self, path: &str) -> (String, usize) {
        let longest = self.content.split(|c| c != '`').map(str::len).max().unwrap_or(0);
        let fence = "`".repeat((longest + 1).max(3));
        let language = Path::new(path).extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let end = if self.content.ends_with('\n') || self.content.is_empty() { "" } else { "\n" };
        let begin = format!("{path}:\n{fence}{language}\n");
        (format!("{begin}{}{end}{fence}\n\n", self.content), begin.len())
    }
}

/// Two digits of it: more would look as if they were counted.
pub fn roughly(number: usize) -> usize {
    let step = 10usize.pow(number.checked_ilog10().unwrap_or(0).saturating_sub(1));
    (number + step / 2) / step * step
}

impl Unit {
    pub fn range(&self) -> Range<usize> {
        self.start..self.end
    }
}

impl Draft {
    /// A text that was sent before, to be sent again to the letter.
    pub fn verbatim(sent: &str) -> Self {
        let inset = Arc::new(Inset { id: 0, file: None, content: sent.to_owned() });
        let mut draft = Self::default();
        draft.insert_unit(0, inset, &sanitize::sanitize(sent));
        draft
    }

    /// As it is shown.
    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn units(&self) -> &[Unit] {
        &self.units
    }

    /// As it is sent: attached files first, then the text with its pastes; a file's label is its name there.
    pub fn sent(&self) -> String {
        self.sent_and_pieces().0
    }

    /// As it is kept: the text as it is sent, and what is shown, where that is not the same.
    pub fn kept(&self) -> (String, Option<Shown>) {
        let (sent, pieces) = self.sent_and_pieces();
        let shown = (!pieces.is_empty()).then(|| Shown { text: self.text.clone(), pieces });
        (sent, shown)
    }

    fn sent_and_pieces(&self) -> (String, Vec<LongPiece>) {
        let mut sent = String::new();
        let mut pieces = Vec::with_capacity(self.units.len());
        for Unit { start, end, inset } in &self.units {
            let mut text = (0, 0);
            if let Some(path) = &inset.file {
                let (fenced, at) = inset.fenced(path);
                text = (sent.len() + at, sent.len() + at + inset.content.len());
                sent.push_str(&fenced);
            }
            pieces.push(LongPiece { label: (*start, *end), text, file: inset.file.clone() });
        }
        let mut at = 0;
        for (unit, piece) in self.units.iter().zip(&mut pieces) {
            sent.push_str(&self.text[at..unit.start]);
            at = unit.end;
            match &unit.inset.file {
                Some(path) => sent.push_str(path),
                None => {
                    piece.text = (sent.len(), sent.len() + unit.inset.content.len());
                    sent.push_str(&unit.inset.content);
                }
            }
        }
        sent.push_str(&self.text[at..]);
        (sent, pieces)
    }

    /// As it was typed before it was sent and kept. `None` where the pieces do not make this text.
    pub fn brought_back(sent: &str, shown: &Shown) -> Option<Self> {
        let mut draft = Self::from(shown.text.as_str());
        let mut behind = 0;
        for LongPiece { label: (start, end), text, file } in &shown.pieces {
            draft.text.get(*start..*end).filter(|label| !label.is_empty() && behind <= *start)?;
            let content = sent.get(text.0..text.1)?.to_owned();
            let inset = Arc::new(Inset { id: 0, file: file.clone(), content });
            draft.units.push(Unit { start: *start, end: *end, inset });
            behind = *end;
        }
        (draft.sent() == sent).then_some(draft)
    }

    /// Gives each unit an inset of its own.
    pub fn renew(&mut self, mut inset: impl FnMut(&Inset) -> Arc<Inset>) {
        for unit in &mut self.units {
            unit.inset = inset(&unit.inset);
        }
    }

    /// Tokens of it as it is sent, where nobody counts them.
    pub fn estimated_tokens(&self) -> usize {
        let labels: usize = self.units.iter().map(|unit| unit.end - unit.start).sum();
        let contents: usize = self.units.iter().map(|unit| unit.inset.content.len()).sum();
        (self.text.len() - labels + contents).div_ceil(BYTES_PER_TOKEN)
    }

    /// As it is remembered beyond the session: files by their paths, which are read anew when it is sent again. Nothing
    /// of what is too long.
    pub fn remembered(&self) -> Option<String> {
        let length: usize = self.units.iter().filter(|u| u.inset.file.is_none()).map(|u| u.inset.content.len()).sum();
        let short = length + self.text.len() <= LONGEST_REMEMBERED;
        short.then(|| self.with(|inset| inset.file.as_deref().map_or_else(|| inset.content.clone(), mention)))
    }

    /// The text with something else in the labels' places.
    fn with(&self, replacement: impl Fn(&Inset) -> String) -> String {
        let mut out = String::new();
        let mut at = 0;
        for unit in &self.units {
            out.push_str(&self.text[at..unit.start]);
            out.push_str(&replacement(&unit.inset));
            at = unit.end;
        }
        out + &self.text[at..]
    }

    /// With its text changed, but for the labels. What comes must be safe to show.
    pub fn map(&self, change: impl Fn(&str) -> String) -> Self {
        let mut out = Self::default();
        let mut at = 0;
        for unit in &self.units {
            out.text.push_str(&change(&self.text[at..unit.start]));
            out.insert_unit(out.text.len(), unit.inset.clone(), &self.text[unit.range()]);
            at = unit.end;
        }
        out.text.push_str(&change(&self.text[at..]));
        out
    }

    /// Puts plain text in, which must be safe to show.
    pub fn insert(&mut self, at: usize, text: &str) {
        self.text.insert_str(at, text);
        for unit in self.units.iter_mut().filter(|unit| unit.start >= at) {
            unit.start += text.len();
            unit.end += text.len();
        }
    }

    pub fn insert_unit(&mut self, at: usize, inset: Arc<Inset>, label: &str) {
        self.insert(at, label);
        let index = self.units.partition_point(|unit| unit.start < at);
        self.units.insert(index, Unit { start: at, end: at + label.len(), inset });
    }

    pub fn insert_draft(&mut self, at: usize, other: &Self) {
        self.insert(at, &other.text);
        let index = self.units.partition_point(|unit| unit.start < at);
        let moved = other.units.iter().map(|unit| Unit { start: unit.start + at, end: unit.end + at, ..unit.clone() });
        self.units.splice(index..index, moved);
    }

    /// A part of it; units that it cuts into come as a whole.
    pub fn slice(&self, range: Range<usize>) -> Self {
        let range = self.whole(range);
        let units = self.units.iter().filter(|unit| range.start <= unit.start && unit.end <= range.end);
        let shifted =
            |unit: &Unit| Unit { start: unit.start - range.start, end: unit.end - range.start, ..unit.clone() };
        Self { text: self.text[range.clone()].to_owned(), units: units.map(shifted).collect() }
    }

    /// Takes a part out; units that it cuts into go as a whole. Returns where the rest closed up.
    pub fn remove(&mut self, range: Range<usize>) -> usize {
        let range = self.whole(range);
        self.text.drain(range.clone());
        self.units.retain(|unit| unit.end <= range.start || unit.start >= range.end);
        for unit in self.units.iter_mut().filter(|unit| unit.start >= range.end) {
            unit.start -= range.len();
            unit.end -= range.len();
        }
        range.start
    }

    /// The range with the whole of each unit that it cuts into.
    fn whole(&self, range: Range<usize>) -> Range<usize> {
        self.snap(range.start, false)..self.snap(range.end, true)
    }

    /// A place that is in no unit: before or behind the one that it falls into.
    pub fn snap(&self, at: usize, forward: bool) -> usize {
        let within = self.units.iter().find(|unit| unit.start < at && at < unit.end);
        within.map_or(at, |unit| if forward { unit.end } else { unit.start })
    }

    /// Writes a unit's label anew. Returns by how much everything behind `Unit::range().end` has moved.
    pub fn relabel(&mut self, index: usize, label: &str) -> isize {
        let Some(unit) = self.units.get_mut(index) else { return 0 };
        let (start, end) = (unit.start, unit.end);
        self.text.replace_range(start..end, label);
        let moved = label.len() as isize - (end - start) as isize;
        unit.end = start + label.len();
        for unit in &mut self.units[index + 1..] {
            unit.start = unit.start.saturating_add_signed(moved);
            unit.end = unit.end.saturating_add_signed(moved);
        }
        moved
    }

    /// Edited text, in which labels of `before` stand for the same as they did there.
    pub fn relabelled(edited: &str, before: &Self) -> Self {
        let mut draft = Self::from(edited);
        let mut at = 0;
        for unit in &before.units {
            let label = &before.text[unit.range()];
            if let Some(offset) = draft.text[at..].find(label) {
                let start = at + offset;
                at = start + label.len();
                draft.units.push(Unit { start, end: at, inset: unit.inset.clone() });
            }
        }
        draft
    }

    /// Several, a line each.
    pub fn join(drafts: impl IntoIterator<Item = Self>) -> Self {
        let mut joined = Self::default();
        for (index, draft) in drafts.into_iter().enumerate() {
            if index > 0 {
                joined.text.push('\n');
            }
            joined.insert_draft(joined.text.len(), &draft);
        }
        joined
    }
}

impl From<&str> for Draft {
    /// Plain text, made safe.
    fn from(raw: &str) -> Self {
        Self { text: sanitize::sanitize(raw), units: Vec::new() }
    }
}

impl From<String> for Draft {
    fn from(raw: String) -> Self {
        Self::from(raw.as_str())
    }
}

#[cfg(test)]
impl PartialEq<&str> for Draft {
    fn eq(&self, other: &&str) -> bool {
        self.text == *other
    }
}

/// `@path`, quoted where it has spaces.
pub fn mention(path: &str) -> String {
    if path.contains(char::is_whitespace) { format!("@\"{path}\"") } else { format!("@{path}") }
}

/// The places of files that are named by `@path` or `@"a path"` at a word's beginning, and the paths.
pub fn mentions(text: &str) -> Vec<(Range<usize>, &str)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(offset) = text[at..].find('@') {
        let start = at + offset;
        at = start + 1;
        if text[..start].ends_with(|c: char| !c.is_whitespace() && c != '(') {
            continue;
        }
        let rest = &text[at..];
        let (path, length) = match rest.strip_prefix('"') {
            Some(quoted) => {
                let path = quoted.split(['"', '\n']).next().unwrap_or_default();
                let closing = usize::from(quoted[path.len()..].starts_with('"'));
                (path, 1 + path.len() + closing)
            }
            None => {
                let path = rest.split(char::is_whitespace).next().unwrap_or_default();
                (path, path.len())
            }
        };
        if !path.is_empty() {
            found.push((start..at + length, path));
        }
        at += length;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paste(id: u64, content: &str) -> Arc<Inset> {
        Arc::new(Inset { id, file: None, content: content.into() })
    }

    fn file(path: &str, content: &str) -> Arc<Inset> {
        Arc::new(Inset { id: 0, file: Some(path.into()), content: content.into() })
    }

    /// `a[P]b[Q]c`
    fn draft() -> Draft {
        let mut draft = Draft::from("abc");
        draft.insert_unit(2, paste(2, "second"), "[Q]");
        draft.insert_unit(1, paste(1, "first"), "[P]");
        assert_eq!(draft.text(), "a[P]b[Q]c");
        draft
    }

    #[test]
    fn pastes_are_sent_in_their_places() {
        assert_eq!(draft().sent(), "afirstbsecondc");
        let mut edited = draft();
        edited.insert(0, "日");
        edited.insert(edited.text().len(), "!");
        assert_eq!(edited.sent(), "日afirstbsecondc!");
    }

    #[test]
    fn what_cuts_into_a_unit_takes_all_of_it() {
        let mut cut = draft();
        assert_eq!(cut.remove(2..3), 1);
        assert_eq!((cut.text(), cut.sent()), ("ab[Q]c", "absecondc".to_owned()));
        let mut cut = draft();
        cut.remove(3..6);
        assert_eq!((cut.text(), cut.units().len()), ("ac", 0));
        assert_eq!(draft().slice(3..5).sent(), "firstb");
        assert_eq!((draft().snap(2, true), draft().snap(2, false), draft().snap(1, true)), (4, 1, 1));
    }

    #[test]
    fn a_new_label_moves_what_stands_behind_it() {
        let mut draft = draft();
        assert_eq!(draft.relabel(0, "[longer]"), 5);
        assert_eq!(draft.text(), "a[longer]b[Q]c");
        draft.relabel(1, "[]");
        assert_eq!((draft.text(), draft.sent()), ("a[longer]b[]c", "afirstbsecondc".to_owned()));
    }

    #[test]
    fn drafts_are_joined_with_their_units() {
        let joined = Draft::join([draft(), Draft::from("x"), draft()]);
        assert_eq!(joined.text(), "a[P]b[Q]c\nx\na[P]b[Q]c");
        assert_eq!(joined.sent(), "afirstbsecondc\nx\nafirstbsecondc");
    }

    #[test]
    fn files_go_in_front_with_their_names_and_a_fence_that_they_do_not_have() {
        let mut draft = Draft::from("Is  right?");
        draft.insert_unit(3, file("src/a b.rs", "fn a() {}\n"), "[src/a b.rs]");
        assert_eq!(draft.sent(), "src/a b.rs:\n```rs\nfn a() {}\n```\n\nIs src/a b.rs right?");
        assert_eq!(draft.remembered().as_deref(), Some("Is @\"src/a b.rs\" right?"));
        let mut draft = Draft::default();
        draft.insert_unit(0, file("README", "````\ncode\n````"), "[README]");
        assert_eq!(draft.sent(), "README:\n`````\n````\ncode\n````\n`````\n\nREADME");
    }

    #[test]
    fn what_was_kept_is_brought_back_as_it_was_typed() {
        let mut typed = draft();
        typed.insert_unit(0, file("a b.rs", "```\nlet x;\n```"), "[a b.rs]");
        typed.insert(typed.text().len(), " and é");
        let (sent, shown) = typed.kept();
        let shown = shown.unwrap();
        assert_eq!(shown.text, typed.text());
        let of = |piece: &LongPiece| sent[piece.text.0..piece.text.1].to_owned();
        assert_eq!(shown.pieces.iter().map(of).collect::<Vec<_>>(), ["```\nlet x;\n```", "first", "second"]);
        let back = Draft::brought_back(&sent, &shown).unwrap();
        assert_eq!((back.text(), back.sent()), (typed.text(), sent.clone()));
        assert_eq!(back.units()[0].inset.file.as_deref(), Some("a b.rs"));
        assert_eq!(Draft::from("plain").kept(), ("plain".to_owned(), None));
        // Somebody was at the file.
        let spoilt = |change: &dyn Fn(&mut Shown)| {
            let mut shown = shown.clone();
            change(&mut shown);
            Draft::brought_back(&sent, &shown)
        };
        assert_eq!(spoilt(&|shown| shown.pieces[1].label.1 = 999), None);
        assert_eq!(spoilt(&|shown| shown.pieces[1].text = (9, 3)), None);
        assert_eq!(spoilt(&|shown| shown.pieces.swap(0, 1)), None);
        assert_eq!(spoilt(&|shown| shown.text.push('!')), None);
        assert_eq!(spoilt(&|shown| shown.pieces.truncate(1)), None);
    }

    #[test]
    fn what_is_long_is_not_remembered() {
        assert_eq!(draft().remembered().as_deref(), Some("afirstbsecondc"));
        let mut long = Draft::default();
        long.insert_unit(0, paste(1, &"x".repeat(LONGEST_REMEMBERED)), "[P]");
        assert_eq!(long.remembered(), None);
    }

    #[test]
    fn what_was_sent_is_sent_again_to_the_letter() {
        let sent = "a.rs:\n\tlet x;\x1b\r\n";
        let draft = Draft::verbatim(sent);
        assert_eq!((draft.text(), draft.sent()), ("a.rs:\n    let x;^[\n", sent.to_owned()));
    }

    #[test]
    fn labels_say_size_and_tokens() {
        let million = paste(1, &"x".repeat(1_000_000));
        assert_eq!(million.label(Some(250_000)), "[pasted 1.0 MB, 250,000 tokens]");
        assert_eq!(paste(1, &"x".repeat(1_048_576)).label(None), "[pasted 1.0 MB, est. 260,000 tokens]");
        assert_eq!(file("a\x1b.txt", "word").label(Some(1)), "[a^[.txt, 4 B, 1 token]");
        assert_eq!([0, 7, 14, 149, 155, 12_345].map(roughly), [0, 7, 14, 150, 160, 12_000]);
    }

    #[test]
    fn labels_that_were_left_alone_are_units_again() {
        let edited = Draft::relabelled("new [Q] text\t", &draft());
        assert_eq!((edited.text(), edited.sent()), ("new [Q] text    ", "new second text    ".to_owned()));
        assert_eq!(Draft::relabelled("b[P] [Q]", &draft()).sent(), "bfirst second");
    }

    #[test]
    fn files_are_named_at_the_beginning_of_a_word() {
        let paths = |text| mentions(text).into_iter().map(|(_, path)| path).collect::<Vec<_>>();
        assert_eq!(paths("@a.txt and @b/c, (@d) me@x.org @ @@e"), ["a.txt", "b/c,", "d)", "@e"]);
        assert_eq!(paths("@\"a b.txt\" @\"open end"), ["a b.txt", "open end"]);
        assert_eq!(mentions("see @\"a b\" now")[0].0, 4..10);
        assert_eq!(mentions("see @a")[0].0, 4..6);
    }
}
