//! One block of the conversation: its text, the thinking before it, ortalk's remarks in it, and the rows that they take at a
//! width.

use crate::engine::LaneId;

use super::markdown::{Budget, Highlighter, Markdown};
use super::text::rows::{Content, Piece, Role, Rows, TextRow};
use super::text::sanitize::Sanitizer;
use super::text::wrap;
use super::trace::{Took, Trace, TracedToken};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Info,
    Warning,
    Error,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    User,
    Answer(AnswerHeader),
    /// A line by ortalk itself.
    Notice(Level),
}

/// What stands over an answer, and below it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AnswerHeader {
    pub model: String,
    pub lane: Option<LaneId>,
    pub emulated: bool,
    /// Measured values, once the answer is over.
    pub ttft: Option<std::time::Duration>,
    pub tokens_per_second: Option<f64>,
    pub running: bool,
    /// Tokens of the thinking before the answer.
    pub thinking_tokens: usize,
    /// From the first of them to the last.
    pub thinking_time: std::time::Duration,
    /// How it ended, where that was not the model's own end.
    pub ending: Option<(Level, String)>,
}

#[derive(Debug, Clone)]
pub struct Block {
    pub kind: Kind,
    /// Which message of the conversation's tree it is.
    pub message: Option<u32>,
    /// As it came; what is sent to the model.
    pub(super) raw: String,
    /// As it is shown.
    shown: String,
    sanitizer: Sanitizer,
    /// What the model thought before its answer; it is not sent to the model again.
    thought: Thought,
    /// Remarks of ortalk's within an answer, in the order of their places; the model never sees them.
    pub(super) marks: Vec<Mark>,
    /// The tokens that the text came in, where their times are known.
    pub(super) trace: Trace,
    pub(super) wrapped: Wrapped,
    highlighter: Highlighter,
}

/// What a token says.
#[derive(Debug, Clone, Copy)]
pub struct Words<'a> {
    pub text: &'a str,
    pub thinking: &'a str,
    /// It is part of the thinking, whether or not it gave text of it.
    pub thinks: bool,
}

#[derive(Debug, Clone, Default)]
struct Thought {
    shown: String,
    sanitizer: Sanitizer,
}

#[derive(Debug, Clone)]
pub(super) struct Mark {
    /// Of `shown`.
    pub at: usize,
    pub text: String,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Wrapped {
    columns: usize,
    body: Body,
    /// Of the thinking, while it is unfolded, and how much of it was wrapped.
    thought: Vec<wrap::Line>,
    thought_length: usize,
    pub marks: Vec<MarkRow>,
    pub ending: Vec<wrap::Line>,
}

/// The text in rows.
#[derive(Debug, Clone)]
enum Body {
    /// As it was written, and how much of it is wrapped.
    Plain {
        rows: Rows,
        length: usize,
    },
    Markdown(Markdown),
}

impl Default for Body {
    fn default() -> Self {
        Self::Plain { rows: Rows::default(), length: 0 }
    }
}

impl Body {
    fn rows(&self) -> &Rows {
        match self {
            Self::Plain { rows, .. } => rows,
            Self::Markdown(markdown) => markdown.rows(),
        }
    }

    /// Brings the rows up to date with `text`, which only grows; says whether they were not.
    fn update(&mut self, text: &str, columns: usize) -> bool {
        match self {
            Self::Plain { rows, length } => {
                if !rows.is_empty() && *length == text.len() {
                    return false;
                }
                let paragraph = text[..*length].rfind('\n').map_or(0, |at| at + 1);
                rows.truncate(rows.before(paragraph));
                let mut lines = Vec::new();
                wrap::wrap_from(text, paragraph, columns, &mut lines);
                lines.into_iter().for_each(|line| rows.push_line(line, Role::Text));
                *length = text.len();
                true
            }
            Self::Markdown(markdown) => markdown.update(text, columns),
        }
    }
}

/// How the conversation is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reading {
    pub columns: usize,
    /// What models thought is shown as a whole.
    pub unfolded: bool,
    /// Answers are shown as they were written, not as what their markdown means.
    pub source: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct MarkRow {
    /// It stands before this line of the text.
    before: usize,
    mark: usize,
    line: wrap::Line,
}

/// One row of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Row<'a> {
    Header,
    /// Says that the model thinks or has thought.
    Thinking,
    Thought(wrap::Line),
    Text(TextRow<'a>),
    /// A piece of the remark with this number.
    Mark(usize, wrap::Line),
    Ending(wrap::Line),
    Gap,
}

impl Block {
    pub(super) fn new(kind: Kind, text: &str) -> Self {
        let mut block = Self {
            kind,
            message: None,
            raw: String::new(),
            shown: String::new(),
            sanitizer: Sanitizer::default(),
            thought: Thought::default(),
            marks: Vec::new(),
            trace: Trace::default(),
            wrapped: Wrapped::default(),
            highlighter: Highlighter::default(),
        };
        block.push(text);
        block
    }

    pub(super) fn push(&mut self, text: &str) {
        self.raw.push_str(text);
        self.sanitizer.push(text, &mut self.shown);
    }

    pub(super) fn think(&mut self, text: &str) {
        let Thought { shown, sanitizer } = &mut self.thought;
        sanitizer.push(text, shown);
    }

    /// One token of the answer or of the thinking before it.
    pub(super) fn push_token(&mut self, token: Words<'_>, took: Took, lane: LaneId) {
        let length = |block: &Self| if token.thinks { block.thought.shown.len() } else { block.shown.len() };
        let start = length(self);
        self.think(token.thinking);
        self.push(token.text);
        self.trace.add(TracedToken::new(start..length(self), token.thinks, took, lane));
    }

    /// Text that was held back until the answer's end.
    pub(super) fn push_trailing(&mut self, thinking: &str, text: &str) {
        self.think(thinking);
        self.push(text);
        self.trace.stretch(true, self.thought.shown.len());
        self.trace.stretch(false, self.shown.len());
    }

    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// The thinking, as it is shown.
    pub fn thought(&self) -> &str {
        &self.thought.shown
    }

    /// Nothing was said; what was thought does not count.
    pub fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    /// Finds out what the words of the code at this place are, and in the lines above it.
    pub(super) fn highlight(&mut self, place: usize, budget: &mut Budget) {
        let Body::Markdown(markdown) = &self.wrapped.body else { return };
        if let Some(fence) = markdown.fence_at(place) {
            self.highlighter.read(&self.shown, fence, place, budget);
        }
    }

    /// The pieces of a row of the text, those of code word by word.
    pub fn pieces(&self, row: TextRow<'_>) -> Vec<Piece> {
        let Body::Markdown(markdown) = &self.wrapped.body else { return row.pieces.to_vec() };
        let mut pieces = Vec::with_capacity(row.pieces.len());
        for piece in row.pieces {
            match markdown.fence_at(piece.source.start).filter(|_| is_code(piece)) {
                Some(fence) => self.highlighter.cut(fence, piece, &mut pieces),
                None => pieces.push(piece.clone()),
            }
        }
        pieces
    }

    pub fn mark(&self, number: usize) -> &str {
        self.marks.get(number).map_or("", |mark| &mark.text)
    }

    fn header_rows(&self) -> usize {
        usize::from(!matches!(self.kind, Kind::Notice(_)))
    }

    /// The line that tells of the thinking, and while it is unfolded, the thinking and a gap below it.
    fn thinking_rows(&self) -> usize {
        match &self.kind {
            Kind::Answer(header) if header.thinking_tokens > 0 => match self.wrapped.thought.len() {
                0 => 1,
                lines => lines + 2,
            },
            Kind::Answer(_) | Kind::User | Kind::Notice(_) => 0,
        }
    }

    /// Rows above the text.
    fn top_rows(&self) -> usize {
        self.header_rows() + self.thinking_rows()
    }

    /// Brings the rows up to date.
    pub(super) fn wrap(&mut self, reading: Reading) {
        // A notice begins with a sign and a space.
        let is_notice = matches!(self.kind, Kind::Notice(_));
        let columns = if is_notice { reading.columns.saturating_sub(2).max(1) } else { reading.columns };
        let wrapped = &mut self.wrapped;
        let markdown = matches!(self.kind, Kind::Answer(_)) && !reading.source;
        if wrapped.columns != columns || markdown != matches!(wrapped.body, Body::Markdown(_)) {
            let body = if markdown { Body::Markdown(Markdown::default()) } else { Body::default() };
            *wrapped = Wrapped { columns, body, ..Wrapped::default() };
        }
        let thought = if reading.unfolded { &*self.thought.shown } else { "" };
        if wrapped.thought_length != thought.len() {
            wrapped.thought = if thought.is_empty() { Vec::new() } else { wrap::wrap(thought, columns) };
            wrapped.thought_length = thought.len();
        }
        if wrapped.body.update(&self.shown, columns) {
            wrapped.marks.clear();
        }
        if wrapped.marks.is_empty() {
            for (number, mark) in self.marks.iter().enumerate() {
                // Below the line that it falls into: a remark does not break a sentence.
                let before = wrapped.body.rows().before(mark.at);
                let lines = wrap::wrap(&mark.text, columns.saturating_sub(2).max(1)).into_iter();
                wrapped.marks.extend(lines.map(|line| MarkRow { before, mark: number, line }));
            }
        }
        if let Kind::Answer(AnswerHeader { ending: Some((_, text)), .. }) = &self.kind
            && wrapped.ending.is_empty()
        {
            wrapped.ending = wrap::wrap(text, columns.saturating_sub(2).max(1));
        }
    }

    fn text_rows(&self) -> usize {
        // An answer that ended before its first word shows how it ended and no empty line.
        if self.shown.is_empty() && !self.wrapped.ending.is_empty() { 0 } else { self.wrapped.body.rows().len() }
    }

    /// Text and remarks.
    fn body_rows(&self) -> usize {
        self.text_rows() + self.wrapped.marks.len()
    }

    /// Rows of remarks above this row of the body.
    fn marks_above(&self, index: usize) -> usize {
        let at = |(above, mark): (usize, &MarkRow)| mark.before.min(self.text_rows()) + above;
        self.wrapped.marks.iter().enumerate().take_while(|mark| at(*mark) < index).count()
    }

    fn body_row(&self, index: usize) -> Row<'_> {
        let above = self.marks_above(index);
        if let Some(mark) = self.wrapped.marks.get(above)
            && mark.before.min(self.text_rows()) + above == index
        {
            return Row::Mark(mark.mark, mark.line);
        }
        self.wrapped.body.rows().get(index - above).map_or(Row::Gap, Row::Text)
    }

    pub(super) fn rows(&self) -> usize {
        self.top_rows() + self.body_rows() + self.wrapped.ending.len() + 1
    }

    pub(super) fn row(&self, index: usize) -> Row<'_> {
        let Some(index) = index.checked_sub(self.header_rows()) else { return Row::Header };
        let Some(index) = index.checked_sub(self.thinking_rows()) else {
            let line = index.checked_sub(1);
            return line.map_or(Row::Thinking, |line| {
                self.wrapped.thought.get(line).map_or(Row::Gap, |line| Row::Thought(*line))
            });
        };
        if index < self.body_rows() {
            return self.body_row(index);
        }
        self.wrapped.ending.get(index - self.body_rows()).map_or(Row::Gap, |line| Row::Ending(*line))
    }

    pub(super) fn row_of(&self, place: Place) -> usize {
        match place {
            Place::Header => 0,
            Place::Thinking(row) => self.header_rows() + row.min(self.thinking_rows().saturating_sub(1)),
            Place::Text { start, number } => {
                let line = self.wrapped.body.rows().find(start, number);
                let line = line.min(self.text_rows().saturating_sub(1));
                let marks = self.wrapped.marks.iter().filter(|mark| mark.before <= line).count();
                self.top_rows() + line + marks
            }
            Place::Mark(number) => {
                let row = self.wrapped.marks.get(number).map_or(0, |mark| mark.before.min(self.text_rows()));
                self.top_rows() + row + number.min(self.wrapped.marks.len())
            }
            Place::Ending(index) => self.top_rows() + self.body_rows() + index.min(self.wrapped.ending.len()),
        }
    }

    /// The row with this place of the text, or of the thinking.
    pub(super) fn row_at(&self, at: usize, thinks: bool) -> usize {
        if thinks {
            let line = self.wrapped.thought.partition_point(|line| line.start <= at);
            return self.row_of(Place::Thinking(line));
        }
        let rows = self.wrapped.body.rows();
        let (start, number) = rows.place(rows.at(at));
        self.row_of(Place::Text { start, number })
    }

    pub(super) fn place_of(&self, index: usize) -> Place {
        if (self.header_rows()..self.top_rows()).contains(&index) {
            return Place::Thinking(index - self.header_rows());
        }
        match self.row(index) {
            Row::Header | Row::Thinking | Row::Thought(_) => Place::Header,
            Row::Text(_) => {
                let marks = self.marks_above(index - self.top_rows());
                let (start, number) = self.wrapped.body.rows().place(index - self.top_rows() - marks);
                Place::Text { start, number }
            }
            Row::Mark(..) => Place::Mark(self.marks_above(index - self.top_rows())),
            Row::Ending(_) | Row::Gap => Place::Ending(index - self.top_rows() - self.body_rows()),
        }
    }
}

/// Code whose words have not been told apart.
pub(super) fn is_code(piece: &Piece) -> bool {
    piece.style.role == Role::CodeBlock && piece.content == Content::Source
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Header,
    /// A row of the thinking.
    Thinking(usize),
    /// A row of the text, by where it begins and how many rows above it begin there too.
    Text {
        start: usize,
        number: usize,
    },
    /// A row of the remarks.
    Mark(usize),
    Ending(usize),
}
