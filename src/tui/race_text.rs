//! What one lane says in a race: an answer, read as the conversation reads it, and which rows of it are in view.

use ratatui::layout::Rect;

use crate::engine::{FinishReason, GenerationEvent};
use crate::race::{Entrant, Run};

use super::block::{AnswerHeader, Block, Kind, Level, Reading, Row, is_code};
use super::markdown::Budget;
use super::text::sanitize::sanitize;

#[derive(Debug, Clone)]
pub struct RaceText {
    block: Block,
    /// Where it stood on the screen when it was laid out last.
    pub area: Rect,
    /// The first row in view, where the reader has chosen one.
    top: Option<usize>,
    /// Its end is in view until the reader chooses a row; else its beginning.
    pub follows: bool,
}

impl RaceText {
    /// Of a lane that has said nothing yet.
    pub fn new(entrant: &Entrant) -> Self {
        let ending = entrant.absent.as_ref().map(|reason| (Level::Error, sanitize(reason)));
        let header = AnswerHeader { ending, ..AnswerHeader::default() };
        Self { block: Block::new(Kind::Answer(header), ""), area: Rect::ZERO, top: None, follows: true }
    }

    /// Another round begins.
    pub fn begin(&mut self) {
        self.block = Block::new(Kind::Answer(AnswerHeader::default()), "");
        self.top = None;
    }

    /// The next event of the lane's answer, which `run` has noted.
    pub fn note(&mut self, event: &GenerationEvent, run: &Run) {
        match event {
            GenerationEvent::Token(token) => {
                let since_last = run.latencies().last().copied().unwrap_or_default();
                if let Some(header) = self.header() {
                    header.running = true;
                    if token.thinks {
                        header.thinking_tokens = run.tokens;
                        header.thinking_time += since_last;
                    }
                }
                self.block.think(&token.thinking);
                self.block.push(&token.text);
            }
            GenerationEvent::TrailingText { thinking, text, .. } => self.block.push_trailing(thinking, text),
            GenerationEvent::Finished(finished) => {
                self.end();
                if let (FinishReason::Error(reason), Some(header)) = (&finished.reason, self.header()) {
                    header.ending = Some((Level::Error, sanitize(reason)));
                }
            }
            GenerationEvent::Routed(_)
            | GenerationEvent::ContextTrimmed(_)
            | GenerationEvent::PrefillProgress(_)
            | GenerationEvent::LaneChanged(_) => {}
        }
    }

    /// No more of it comes.
    pub fn end(&mut self) {
        if let Some(header) = self.header() {
            header.running = false;
        }
    }

    fn header(&mut self) -> Option<&mut AnswerHeader> {
        match &mut self.block.kind {
            Kind::Answer(header) => Some(header),
            Kind::User | Kind::Notice(_) => None,
        }
    }

    /// Wraps what is new for an area of the screen, and reads the code in view; says whether there is more of that to read.
    pub fn lay_out(&mut self, area: Rect, reading: Reading) -> bool {
        self.area = area;
        self.block.wrap(reading);
        self.top = self.top.map(|top| top.min(self.last_top()));
        let code: Vec<usize> = self.visible().filter_map(code_in).collect();
        let mut budget = Budget::of_a_frame();
        code.into_iter().for_each(|place| self.block.highlight(place, &mut budget));
        budget.is_used_up()
    }

    pub fn block(&self) -> &Block {
        &self.block
    }

    /// Without the header, which the race draws itself, and the gap below.
    fn rows(&self) -> usize {
        self.block.rows().saturating_sub(2)
    }

    fn height(&self) -> usize {
        self.area.height.into()
    }

    fn last_top(&self) -> usize {
        self.rows().saturating_sub(self.height())
    }

    fn top(&self) -> usize {
        self.top.unwrap_or(if self.follows { self.last_top() } else { 0 }).min(self.last_top())
    }

    /// The rows in view.
    pub fn visible(&self) -> impl Iterator<Item = Row<'_>> {
        let top = self.top();
        (top..self.rows().min(top + self.height())).map(|row| self.block.row(row + 1))
    }

    /// Rows below the view.
    pub fn rows_below(&self) -> usize {
        self.last_top() - self.top()
    }

    /// At the end of a text that is followed, it is followed again.
    pub fn scroll_by(&mut self, rows: isize) {
        let top = self.top().saturating_add_signed(rows).min(self.last_top());
        self.top = (!self.follows || top < self.last_top()).then_some(top);
    }
}

/// The place of the code in a row.
fn code_in(row: Row<'_>) -> Option<usize> {
    let Row::Text(row) = row else { return None };
    row.pieces.iter().find(|piece| is_code(piece)).map(|piece| piece.source.start)
}
