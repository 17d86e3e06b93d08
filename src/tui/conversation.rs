//! The conversation: its blocks, their wrapped lines, and where the reader is in it.
//!
//! Wrapped lines are kept with their block: a finished block is wrapped again only when the width changes, a growing one
//! from its last paragraph on. The reader's place is an anchor in the text, not a row, so that it survives new text and
//! a new width. Drawing is `transcript`'s work.

use crate::engine::{ChatMessage, LaneId, Role};

use super::text::sanitize::Sanitizer;
use super::text::wrap;

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
    /// How it ended, where that was not the model's own end.
    pub ending: Option<(Level, String)>,
}

#[derive(Debug, Clone)]
pub struct Block {
    pub kind: Kind,
    /// As it came; what is sent to the model.
    raw: String,
    /// As it is shown.
    shown: String,
    sanitizer: Sanitizer,
    /// What the model thought before its answer; it is not sent to the model again.
    thought: Thought,
    /// Remarks of ortalk's within an answer, in the order of their places; the model never sees them.
    marks: Vec<Mark>,
    wrapped: Wrapped,
}

#[derive(Debug, Clone, Default)]
struct Thought {
    shown: String,
    sanitizer: Sanitizer,
}

#[derive(Debug, Clone)]
struct Mark {
    /// Of `shown`.
    at: usize,
    text: String,
}

#[derive(Debug, Clone, Default)]
struct Wrapped {
    columns: usize,
    /// How much of `shown` was wrapped.
    length: usize,
    lines: Vec<wrap::Line>,
    /// Of the thinking, while it is unfolded, and how much of it was wrapped.
    thought: Vec<wrap::Line>,
    thought_length: usize,
    marks: Vec<MarkRow>,
    ending: Vec<wrap::Line>,
}

#[derive(Debug, Clone, Copy)]
struct MarkRow {
    /// It stands before this line of the text.
    before: usize,
    mark: usize,
    line: wrap::Line,
}

/// One row of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Row {
    Header,
    /// Says that the model thinks or has thought.
    Thinking,
    Thought(wrap::Line),
    Text(wrap::Line),
    /// A piece of the remark with this number.
    Mark(usize, wrap::Line),
    Ending(wrap::Line),
    Gap,
}

impl Block {
    fn new(kind: Kind, text: &str) -> Self {
        let mut block = Self {
            kind,
            raw: String::new(),
            shown: String::new(),
            sanitizer: Sanitizer::default(),
            thought: Thought::default(),
            marks: Vec::new(),
            wrapped: Wrapped::default(),
        };
        block.push(text);
        block
    }

    fn push(&mut self, text: &str) {
        self.raw.push_str(text);
        self.sanitizer.push(text, &mut self.shown);
    }

    fn think(&mut self, text: &str) {
        let Thought { shown, sanitizer } = &mut self.thought;
        sanitizer.push(text, shown);
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

    fn wrap(&mut self, columns: usize, unfolded: bool) {
        // A notice begins with a sign and a space.
        let columns = if matches!(self.kind, Kind::Notice(_)) { columns.saturating_sub(2).max(1) } else { columns };
        let wrapped = &mut self.wrapped;
        if wrapped.columns != columns {
            *wrapped = Wrapped { columns, ..Wrapped::default() };
        }
        let thought = if unfolded { &*self.thought.shown } else { "" };
        if wrapped.thought_length != thought.len() {
            wrapped.thought = if thought.is_empty() { Vec::new() } else { wrap::wrap(thought, columns) };
            wrapped.thought_length = thought.len();
        }
        if wrapped.lines.is_empty() || wrapped.length != self.shown.len() {
            let paragraph = self.shown[..wrapped.length].rfind('\n').map_or(0, |at| at + 1);
            wrapped.lines.truncate(wrapped.lines.partition_point(|line| line.start < paragraph));
            wrap::wrap_from(&self.shown, paragraph, columns, &mut wrapped.lines);
            wrapped.length = self.shown.len();
            wrapped.marks.clear();
        }
        if wrapped.marks.is_empty() {
            for (number, mark) in self.marks.iter().enumerate() {
                // Below the line that it falls into: a remark does not break a sentence.
                let before = wrapped.lines.partition_point(|line| line.start < mark.at);
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
        if self.shown.is_empty() && !self.wrapped.ending.is_empty() { 0 } else { self.wrapped.lines.len() }
    }

    /// Text and remarks.
    fn body_rows(&self) -> usize {
        self.text_rows() + self.wrapped.marks.len()
    }

    fn body_row(&self, index: usize) -> Row {
        let mut above = 0;
        for mark in &self.wrapped.marks {
            let at = mark.before.min(self.text_rows()) + above;
            if at == index {
                return Row::Mark(mark.mark, mark.line);
            }
            above += usize::from(at < index);
        }
        Row::Text(self.wrapped.lines[index - above])
    }

    fn rows(&self) -> usize {
        self.top_rows() + self.body_rows() + self.wrapped.ending.len() + 1
    }

    fn row(&self, index: usize) -> Row {
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

    fn row_of(&self, place: Place) -> usize {
        match place {
            Place::Header => 0,
            Place::Thinking(row) => self.header_rows() + row.min(self.thinking_rows().saturating_sub(1)),
            Place::Text(offset) => {
                let line = self.wrapped.lines.partition_point(|line| line.start <= offset).saturating_sub(1);
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

    fn place_of(&self, index: usize) -> Place {
        if (self.header_rows()..self.top_rows()).contains(&index) {
            return Place::Thinking(index - self.header_rows());
        }
        match self.row(index) {
            Row::Header | Row::Thinking | Row::Thought(_) => Place::Header,
            Row::Text(line) => Place::Text(line.start),
            Row::Mark(..) => {
                let row = index - self.top_rows();
                let above = (0..row).filter(|row| matches!(self.body_row(*row), Row::Mark(..))).count();
                Place::Mark(above)
            }
            Row::Ending(_) | Row::Gap => Place::Ending(index - self.top_rows() - self.body_rows()),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Header,
    /// A row of the thinking.
    Thinking(usize),
    Text(usize),
    /// A row of the remarks.
    Mark(usize),
    Ending(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Anchor {
    block: usize,
    place: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum View {
    Follow,
    /// The row at the top of the view, and the last row that the reader has had on the screen.
    At {
        top: Anchor,
        seen: Anchor,
    },
}

#[derive(Debug, Clone)]
pub struct Conversation {
    blocks: Vec<Block>,
    view: View,
    columns: usize,
    height: usize,
    /// What models thought is shown as a whole.
    unfolded: bool,
}

impl Default for Conversation {
    fn default() -> Self {
        Self { blocks: Vec::new(), view: View::Follow, columns: 1, height: 1, unfolded: false }
    }
}

impl Conversation {
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Adds a block and returns its number.
    pub fn add(&mut self, kind: Kind, text: &str) -> usize {
        self.blocks.push(Block::new(kind, text));
        self.blocks.len() - 1
    }

    /// Puts a notice above a block, which moves down by one.
    pub fn notice_above(&mut self, block: usize, level: Level, text: &str) {
        let at = block.min(self.blocks.len());
        self.blocks.insert(at, Block::new(Kind::Notice(level), text));
        if let Some(block) = self.blocks.get_mut(at) {
            block.wrap(self.columns, self.unfolded);
        }
        if let View::At { top, seen } = &mut self.view {
            for anchor in [top, seen] {
                anchor.block += usize::from(anchor.block >= at);
            }
        }
    }

    pub fn append(&mut self, block: usize, text: &str) {
        if let Some(block) = self.blocks.get_mut(block) {
            block.push(text);
        }
    }

    /// Goes on with what the model thinks before the answer.
    pub fn think(&mut self, block: usize, text: &str) {
        if let Some(block) = self.blocks.get_mut(block) {
            block.think(text);
        }
    }

    /// Shows what models thought, or folds it away.
    pub fn toggle_thinking(&mut self) {
        self.unfolded = !self.unfolded;
    }

    pub fn is_unfolded(&self) -> bool {
        self.unfolded
    }

    /// Remarks on what comes next in an answer.
    pub fn add_mark(&mut self, block: usize, text: String) {
        if let Some(block) = self.blocks.get_mut(block) {
            block.marks.push(Mark { at: block.shown.len(), text });
            block.wrapped.marks.clear();
        }
    }

    pub fn header_mut(&mut self, block: usize) -> Option<&mut AnswerHeader> {
        match self.blocks.get_mut(block).map(|block| &mut block.kind) {
            Some(Kind::Answer(header)) => Some(header),
            _ => None,
        }
    }

    /// The turns as the model should see them. A question that got no answer at all is left out.
    pub fn messages(&self) -> Vec<ChatMessage> {
        let mut messages: Vec<ChatMessage> = Vec::new();
        let mut question: Option<&str> = None;
        for block in &self.blocks {
            match &block.kind {
                Kind::User => question = Some(&block.raw),
                Kind::Answer(_) if !block.raw.is_empty() => {
                    messages.extend(question.take().map(|text| ChatMessage::new(Role::User, text)));
                    messages.push(ChatMessage::new(Role::Assistant, block.raw.as_str()));
                }
                Kind::Answer(_) | Kind::Notice(_) => {}
            }
        }
        messages
    }

    /// The first words of the first message.
    pub fn title(&self) -> Option<String> {
        let first = self.blocks.iter().find(|block| block.kind == Kind::User)?;
        let start: String = first.raw.chars().take(400).collect();
        Some(super::text::sanitize::one_line(&start))
    }

    /// Wraps what is new for a view of this size. Everything below counts rows of the last call.
    pub fn lay_out(&mut self, columns: usize, height: usize) {
        self.columns = columns.max(1);
        self.height = height;
        for block in &mut self.blocks {
            block.wrap(self.columns, self.unfolded);
        }
        // Where the text has become shorter than the view, or its end has come into it, the reader is at the end.
        if let View::At { top, .. } = self.view
            && self.row_of(top) + self.height >= self.total_rows()
        {
            self.view = View::Follow;
        }
        self.note_seen();
    }

    pub fn total_rows(&self) -> usize {
        // The gap after the last block is not shown.
        self.blocks.iter().map(Block::rows).sum::<usize>().saturating_sub(1)
    }

    /// The first row in view.
    pub fn top_row(&self) -> usize {
        let last_top = self.total_rows().saturating_sub(self.height);
        match self.view {
            View::Follow => last_top,
            View::At { top, .. } => self.row_of(top).min(last_top),
        }
    }

    pub fn is_following(&self) -> bool {
        self.view == View::Follow
    }

    /// Rows below the view, and how many of them the reader has never had on the screen.
    pub fn rows_below(&self) -> (usize, usize) {
        let total = self.total_rows();
        let below = total.saturating_sub(self.top_row() + self.height);
        match self.view {
            View::Follow => (0, 0),
            View::At { seen, .. } => (below, total.saturating_sub(self.row_of(seen) + 1).min(below)),
        }
    }

    pub fn scroll_by(&mut self, rows: isize) {
        let top = self.top_row().saturating_add_signed(rows);
        self.scroll_to(top);
    }

    pub fn page(&mut self, pages: isize) {
        // Two rows of the old page stay, as a place to read on from.
        let rows = self.height.saturating_sub(2).max(1) as isize;
        self.scroll_by(rows * pages);
    }

    pub fn scroll_to(&mut self, top: usize) {
        if top + self.height >= self.total_rows() {
            self.view = View::Follow;
            return;
        }
        let seen = match self.view {
            View::At { seen, .. } => seen,
            View::Follow => self.anchor(self.total_rows().saturating_sub(1)),
        };
        self.view = View::At { top: self.anchor(top), seen };
        self.note_seen();
    }

    pub fn follow(&mut self) {
        self.view = View::Follow;
    }

    pub fn clear(&mut self) {
        *self = Self { columns: self.columns, height: self.height, unfolded: self.unfolded, ..Self::default() };
    }

    /// The rows in view: which block, and what of it.
    pub fn visible(&self) -> Vec<(usize, Row)> {
        let mut skip = self.top_row();
        let mut rows = Vec::with_capacity(self.height);
        for (number, block) in self.blocks.iter().enumerate() {
            let count = block.rows();
            if skip >= count {
                skip -= count;
                continue;
            }
            rows.extend((skip..count).map(|index| (number, block.row(index))).take(self.height - rows.len()));
            skip = 0;
            if rows.len() == self.height {
                break;
            }
        }
        rows
    }

    fn note_seen(&mut self) {
        if let View::At { top, seen } = self.view {
            let bottom = self.top_row() + self.height.saturating_sub(1);
            if bottom > self.row_of(seen) {
                self.view = View::At { top, seen: self.anchor(bottom) };
            }
        }
    }

    fn anchor(&self, mut row: usize) -> Anchor {
        for (number, block) in self.blocks.iter().enumerate() {
            if row < block.rows() {
                return Anchor { block: number, place: block.place_of(row) };
            }
            row -= block.rows();
        }
        Anchor { block: self.blocks.len(), place: Place::Header }
    }

    fn row_of(&self, anchor: Anchor) -> usize {
        let before: usize = self.blocks.iter().take(anchor.block).map(Block::rows).sum();
        before + self.blocks.get(anchor.block).map_or(0, |block| block.row_of(anchor.place))
    }
}

#[cfg(test)]
#[path = "conversation_tests.rs"]
mod tests;
