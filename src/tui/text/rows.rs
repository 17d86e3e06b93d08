//! Rows of text as they stand on the screen: each a list of pieces that know their meaning and where they come from.
//!
//! A piece holds a range of the text that it shows, not the text itself, so rows cost little and a place in the text is
//! found on the screen, and the other way round. No widgets, no colours: a [`Style`] says what a piece is.

use std::borrow::Cow;
use std::ops::Range;

use super::super::glyphs::Glyphs;
use super::wrap::Line;

/// What a piece is, whatever it looks like.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Role {
    #[default]
    Text,
    Heading,
    /// Code within a sentence.
    Code,
    /// A line of a code block, and what words of it are once somebody looks at it.
    CodeBlock,
    Keyword,
    String,
    Comment,
    Number,
    /// A name where it is said first.
    Function,
    Link,
    /// Where a link leads, and other things beside the text.
    Aside,
    Quote,
    /// Bullets and numbers of lists.
    Marker,
    /// Rules, and the lines of tables and code blocks.
    Border,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Style {
    pub role: Role,
    pub bold: bool,
    pub italic: bool,
    pub struck: bool,
}

impl From<Role> for Style {
    fn from(role: Role) -> Self {
        Self { role, ..Self::default() }
    }
}

/// Signs that are drawn in one column each, in Unicode as in ASCII.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// Of a list at this depth, the outermost being 0.
    Bullet(u8),
    /// Along a quote.
    Bar,
    Rule,
    /// Between two columns of a table, and where it meets the rule below the heading.
    Column,
    Cross,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// The text at the piece's source, as it is.
    Source,
    /// So many columns of nothing.
    Blank(usize),
    /// A sign, so many times.
    Sign(Sign, usize),
    /// Text that the source says in other words, as `&amp;` says `&`; its length is not the source's.
    Own(Box<str>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    pub content: Content,
    pub style: Style,
    /// Bytes of the text that this piece stands for; empty where it stands for none.
    pub source: Range<usize>,
}

impl Piece {
    pub fn blank(columns: usize, at: usize) -> Self {
        Self { content: Content::Blank(columns), style: Style::default(), source: at..at }
    }

    pub fn source(source: Range<usize>, style: impl Into<Style>) -> Self {
        Self { content: Content::Source, style: style.into(), source }
    }

    pub fn sign(sign: Sign, times: usize, role: Role, at: usize) -> Self {
        Self { content: Content::Sign(sign, times), style: role.into(), source: at..at }
    }

    /// What is drawn; `text` is the one that the rows were made of.
    pub fn text<'a>(&'a self, text: &'a str, glyphs: &Glyphs) -> Cow<'a, str> {
        match &self.content {
            Content::Source => Cow::Borrowed(text.get(self.source.clone()).unwrap_or_default()),
            Content::Blank(columns) => Cow::Owned(" ".repeat(*columns)),
            Content::Sign(sign, times) => Cow::Owned(glyphs.sign(*sign).repeat(*times)),
            Content::Own(own) => Cow::Borrowed(own),
        }
    }
}

/// One row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextRow<'a> {
    pub pieces: &'a [Piece],
    /// Where in the text it begins; never before the row above it.
    pub start: usize,
    /// No row follows.
    pub last: bool,
}

impl TextRow<'_> {
    /// Where the text on it ends.
    pub fn end(&self) -> usize {
        self.pieces.iter().map(|piece| piece.source.end).max().unwrap_or(self.start)
    }

    /// What stands on it.
    #[cfg(test)]
    pub fn text(&self, text: &str) -> String {
        self.pieces.iter().map(|piece| piece.text(text, &super::super::glyphs::UNICODE)).collect()
    }
}

/// Rows, the pieces of all of them in one list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rows {
    pieces: Vec<Piece>,
    rows: Vec<Start>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Start {
    piece: usize,
    text: usize,
}

impl Rows {
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn get(&self, index: usize) -> Option<TextRow<'_>> {
        let start = self.rows.get(index)?;
        let end = self.rows.get(index + 1).map_or(self.pieces.len(), |next| next.piece);
        Some(TextRow { pieces: &self.pieces[start.piece..end], start: start.text, last: index + 1 == self.rows.len() })
    }

    /// Adds a row of these pieces; `at` is where it begins.
    pub fn push(&mut self, at: usize, pieces: impl IntoIterator<Item = Piece>) {
        let text = self.rows.last().map_or(at, |last| last.text.max(at));
        self.rows.push(Start { piece: self.pieces.len(), text });
        self.pieces.extend(pieces);
    }

    /// Adds a wrapped line of plain text.
    pub fn push_line(&mut self, line: Line, style: impl Into<Style>) {
        let indent = (line.indent > 0).then(|| Piece::blank(line.indent, line.start));
        self.push(line.start, indent.into_iter().chain([Piece::source(line.start..line.end, style)]));
    }

    pub fn truncate(&mut self, rows: usize) {
        if let Some(start) = self.rows.get(rows) {
            self.pieces.truncate(start.piece);
            self.rows.truncate(rows);
        }
    }

    /// How many rows begin before this place of the text.
    pub fn before(&self, at: usize) -> usize {
        self.rows.partition_point(|row| row.text < at)
    }

    /// The row that holds this place of the text: the last one that begins there or before.
    pub fn at(&self, at: usize) -> usize {
        self.rows.partition_point(|row| row.text <= at).saturating_sub(1)
    }

    /// A row by where it begins and how many rows above it begin there too.
    pub fn find(&self, start: usize, number: usize) -> usize {
        let first = self.before(start);
        match self.rows.get(first) {
            Some(row) if row.text == start => (first + number).min(self.at(start)),
            _ => self.at(start),
        }
    }

    /// What `find` finds this row by.
    pub fn place(&self, index: usize) -> (usize, usize) {
        let start = self.rows.get(index).map_or(0, |row| row.text);
        (start, index.saturating_sub(self.before(start)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(starts: &[usize]) -> Rows {
        let mut rows = Rows::default();
        for start in starts {
            rows.push(*start, [Piece::source(*start..*start + 1, Role::Text)]);
        }
        rows
    }

    #[test]
    fn each_row_is_found_by_its_place_though_several_begin_at_one() {
        let rows = rows(&[0, 4, 4, 4, 9]);
        for index in 0..rows.len() {
            let (start, number) = rows.place(index);
            assert_eq!(rows.find(start, number), index);
        }
        assert_eq!((rows.find(4, 9), rows.find(6, 0), rows.at(8), rows.before(4)), (3, 3, 3, 1));
    }

    #[test]
    fn a_row_never_begins_before_the_one_above() {
        assert_eq!(rows(&[5, 3, 7]).place(1), (5, 1));
    }

    #[test]
    fn cutting_rows_off_takes_their_pieces() {
        let mut rows = rows(&[0, 2, 4]);
        rows.truncate(1);
        rows.push(8, []);
        assert_eq!(
            (rows.len(), rows.get(0).unwrap().text("ab"), rows.get(1).unwrap().pieces.len()),
            (2, "a".into(), 0)
        );
        assert_eq!(rows.get(1).unwrap().end(), 8);
    }
}
