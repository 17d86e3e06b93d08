//! The conversation: its blocks, their wrapped lines, and where the reader is in it.
//!
//! Wrapped lines are kept with their block: a finished block is wrapped again only when the width changes, a growing one
//! from its last paragraph on. The reader's place is an anchor in the text, not a row, so that it survives new text and
//! a new width. Drawing is `transcript`'s work.

use crate::engine::{ChatMessage, LaneId, Role};

pub use super::block::{AnswerHeader, Block, Kind, Level, Row, Words};
use super::block::{Mark, Place, Reading, is_code};
use super::markdown::Budget;
use super::trace::Took;

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

/// How much text there is: blocks, and bytes of the last one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Extent {
    blocks: usize,
    last: usize,
}

#[derive(Debug, Clone)]
pub struct Conversation {
    blocks: Vec<Block>,
    /// Rows above each block, and of all of them, as they were laid out last.
    above: Vec<usize>,
    view: View,
    reading: Reading,
    /// How it was laid out last, and how much of it.
    laid_out: (Reading, Extent),
    height: usize,
    unread: bool,
    /// Text that is followed moves up by several rows at a time.
    in_steps: bool,
}

impl Default for Conversation {
    fn default() -> Self {
        let reading = Reading { columns: 1, unfolded: false, source: false };
        Self {
            blocks: Vec::new(),
            above: vec![0],
            view: View::Follow,
            reading,
            laid_out: (reading, Extent::default()),
            height: 1,
            unread: false,
            in_steps: false,
        }
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

    /// Adds what a person asks: as it is shown, and as it is sent to the model.
    pub fn ask(&mut self, shown: &str, sent: String) -> usize {
        let mut block = Block::new(Kind::User, shown);
        block.raw = sent;
        self.blocks.push(block);
        self.blocks.len() - 1
    }

    /// Puts a notice above a block, which moves down by one.
    pub fn notice_above(&mut self, block: usize, level: Level, text: &str) {
        let at = block.min(self.blocks.len());
        self.blocks.insert(at, Block::new(Kind::Notice(level), text));
        if let Some(block) = self.blocks.get_mut(at) {
            block.wrap(self.reading);
        }
        self.count();
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

    /// A token of an answer, and how long it took.
    pub fn add_token(&mut self, block: usize, token: Words<'_>, took: Took, lane: LaneId) {
        if let Some(block) = self.blocks.get_mut(block) {
            block.push_token(token, took, lane);
        }
    }

    /// What was held back until an answer's end.
    pub fn add_trailing(&mut self, block: usize, thinking: &str, text: &str) {
        if let Some(block) = self.blocks.get_mut(block) {
            block.push_trailing(thinking, text);
        }
    }

    /// Shows what models thought, or folds it away.
    pub fn toggle_thinking(&mut self) {
        self.reading.unfolded = !self.reading.unfolded;
    }

    pub fn is_unfolded(&self) -> bool {
        self.reading.unfolded
    }

    /// Shows answers as they were written, or as what their markdown means.
    pub fn show_source(&mut self, source: bool) {
        self.reading.source = source;
    }

    pub fn shows_source(&self) -> bool {
        self.reading.source
    }

    /// Remarks on what comes next in an answer.
    pub fn add_mark(&mut self, block: usize, text: String) {
        if let Some(block) = self.blocks.get_mut(block) {
            block.marks.push(Mark { at: block.shown().len(), text });
            block.wrapped.marks.clear();
        }
    }

    pub fn header_mut(&mut self, block: usize) -> Option<&mut AnswerHeader> {
        match self.blocks.get_mut(block).map(|block| &mut block.kind) {
            Some(Kind::Answer(header)) => Some(header),
            _ => None,
        }
    }

    /// Says which message of the tree a block is.
    pub fn set_message(&mut self, block: usize, message: u32) {
        if let Some(block) = self.blocks.get_mut(block) {
            block.message = Some(message);
        }
    }

    /// An answer that had ended runs again.
    pub fn go_on(&mut self, block: usize) {
        if let Some(block) = self.blocks.get_mut(block)
            && let Kind::Answer(header) = &mut block.kind
        {
            (header.running, header.ending) = (true, None);
            // It is wrapped once, when it comes.
            block.wrapped.ending.clear();
        }
    }

    /// The block that this message is.
    pub fn block_of(&self, message: u32) -> Option<usize> {
        self.blocks.iter().position(|block| block.message == Some(message))
    }

    /// Leaves so many blocks.
    pub fn truncate(&mut self, blocks: usize) {
        if blocks >= self.blocks.len() {
            return;
        }
        self.blocks.truncate(blocks);
        self.count();
        if let View::At { top, seen } = self.view {
            let last = Anchor { block: blocks, place: Place::Header };
            let within = |anchor: Anchor| if anchor.block < blocks { anchor } else { last };
            self.view = View::At { top: within(top), seen: within(seen) };
        }
    }

    /// Scrolls a block into view, as much of it as there is room for; what is in view stays where it is.
    pub fn reveal(&mut self, block: usize) {
        let Some(rows) = self.blocks.get(block).map(Block::rows) else { return };
        // The gap below it does not matter.
        let first = self.row_of(Anchor { block, place: Place::Header });
        let end = first + rows.saturating_sub(1);
        let top = self.top_row();
        if first < top || rows > self.height {
            self.scroll_to(first);
        } else if end > top + self.height {
            self.scroll_to(end - self.height);
        }
    }

    /// The turns as the model should see them. A question that got no answer at all is left out.
    pub fn messages(&self) -> Vec<ChatMessage> {
        self.messages_above(self.blocks.len())
    }

    /// The turns above a block, likewise.
    pub fn messages_above(&self, block: usize) -> Vec<ChatMessage> {
        let mut messages: Vec<ChatMessage> = Vec::new();
        let mut question: Option<&str> = None;
        for block in self.blocks.iter().take(block) {
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
        let start: String = first.shown().chars().take(400).collect();
        Some(super::text::sanitize::one_line(&start))
    }

    /// Wraps what is new for a view of this size. Everything below counts rows of the last call.
    pub fn lay_out(&mut self, columns: usize, height: usize) {
        self.reading.columns = columns.max(1);
        let (_, new) = self.rows_below();
        self.height = height;
        for block in &mut self.blocks {
            block.wrap(self.reading);
        }
        self.count();
        // Where only the rows are others, nothing has come that the reader does not know.
        let now = (self.reading, self.extent());
        let (reading, extent) = std::mem::replace(&mut self.laid_out, now);
        if let View::At { top, .. } = self.view
            && reading != self.reading
            && extent == now.1
            && new == 0
        {
            self.view = View::At { top, seen: self.anchor(self.total_rows().saturating_sub(1)) };
        }
        // Where the text has become shorter than the view, or its end has come into it, the reader is at the end.
        if let View::At { top, .. } = self.view
            && self.row_of(top) + self.height >= self.total_rows()
        {
            self.view = View::Follow;
        }
        self.note_seen();
        self.highlight();
    }

    fn extent(&self) -> Extent {
        let last = self.blocks.last().map_or(0, |block| block.shown().len() + block.thought().len());
        Extent { blocks: self.blocks.len(), last }
    }

    /// Finds out what the words of the code in view are.
    fn highlight(&mut self) {
        let code = self.visible().into_iter().flat_map(|(number, row)| {
            let pieces = if let Row::Text(row) = row { row.pieces } else { &[] };
            pieces.iter().filter(|piece| is_code(piece)).map(move |piece| (number, piece.source.start))
        });
        let code: Vec<(usize, usize)> = code.collect();
        let mut budget = Budget::of_a_frame();
        for (number, place) in code {
            self.blocks[number].highlight(place, &mut budget);
        }
        self.unread = budget.is_used_up();
    }

    /// There is code in view whose words are not told apart yet; laying out again goes on with it.
    pub fn is_unread(&self) -> bool {
        self.unread
    }

    fn count(&mut self) {
        self.above.clear();
        self.above.push(0);
        let rows = self.blocks.iter().map(Block::rows);
        self.above.extend(rows.scan(0, |sum, rows| {
            *sum += rows;
            Some(*sum)
        }));
    }

    pub fn total_rows(&self) -> usize {
        // The gap after the last block is not shown.
        self.above.last().map_or(0, |rows| rows.saturating_sub(1))
    }

    /// The block that this row belongs to; the one after the last for rows below all.
    fn block_at(&self, row: usize) -> usize {
        self.above.partition_point(|above| *above <= row).saturating_sub(1)
    }

    /// Whether text that is followed moves up by several rows at a time: each move sends most of the screen.
    pub fn move_in_steps(&mut self, in_steps: bool) {
        self.in_steps = in_steps;
    }

    /// The rows of a step, which stand empty below the text at first.
    fn step(&self) -> usize {
        (self.height / 4).clamp(1, 8)
    }

    /// The first row in view.
    pub fn top_row(&self) -> usize {
        let last_top = self.total_rows().saturating_sub(self.height);
        match self.view {
            View::Follow if self.in_steps => last_top.next_multiple_of(self.step()),
            View::Follow => last_top,
            View::At { top, .. } => self.row_of(top).min(last_top),
        }
    }

    /// Rows of the view.
    pub fn height(&self) -> usize {
        self.height
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
        let last_top = self.total_rows().saturating_sub(self.height);
        let top = self.top_row().min(last_top).saturating_add_signed(rows);
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

    /// Brings a place of a block's text, or of its thinking, into a view of this height.
    pub fn reveal_text(&mut self, block: usize, at: usize, thinks: bool) {
        let Some(found) = self.blocks.get(block) else { return };
        let row = self.above.get(block).copied().unwrap_or(0) + found.row_at(at, thinks);
        let top = self.top_row();
        if !(top..top + self.height).contains(&row) {
            self.scroll_to(row.saturating_sub(self.height / 3));
        }
    }

    pub fn follow(&mut self) {
        self.view = View::Follow;
    }

    pub fn clear(&mut self) {
        *self = Self { reading: self.reading, height: self.height, in_steps: self.in_steps, ..Self::default() };
    }

    /// The rows in view: which block, and what of it.
    pub fn visible(&self) -> Vec<(usize, Row<'_>)> {
        let top = self.top_row();
        let bottom = (top + self.height).min(self.above.last().copied().unwrap_or(0));
        let first = self.block_at(top);
        let blocks = self.blocks.iter().zip(self.above.windows(2)).enumerate().skip(first);
        let rows = blocks.take_while(|(_, (_, span))| span[0] < bottom).flat_map(|(number, (block, span))| {
            (span[0].max(top)..span[1].min(bottom)).map(move |row| (number, block.row(row - span[0])))
        });
        rows.collect()
    }

    fn note_seen(&mut self) {
        if let View::At { top, seen } = self.view {
            let bottom = self.top_row() + self.height.saturating_sub(1);
            if bottom > self.row_of(seen) {
                self.view = View::At { top, seen: self.anchor(bottom) };
            }
        }
    }

    fn anchor(&self, row: usize) -> Anchor {
        let number = self.block_at(row);
        let place = match (self.blocks.get(number), self.above.get(number)) {
            (Some(block), Some(above)) => block.place_of(row - above),
            _ => Place::Header,
        };
        Anchor { block: number, place }
    }

    fn row_of(&self, anchor: Anchor) -> usize {
        let before = self.above.get(anchor.block).or(self.above.last()).copied().unwrap_or(0);
        before + self.blocks.get(anchor.block).map_or(0, |block| block.row_of(anchor.place))
    }
}

#[cfg(test)]
#[path = "conversation_tests.rs"]
mod tests;
