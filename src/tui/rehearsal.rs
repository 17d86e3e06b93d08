//! The screen without a terminal, an engine and a reader: for benchmarks of what long conversations cost to draw.

use std::time::Instant;

use ratatui::Terminal;
use ratatui::backend::TestBackend;

use crate::engine::AnswerSettings;

use super::conversation::{AnswerHeader, Kind};
use super::glyphs::UNICODE;
use super::skin::Skin;
use super::state::State;
use super::{TuiError, theme, view};

/// A conversation on a screen of memory.
pub struct Rehearsal {
    state: State,
    skin: Skin,
    terminal: Terminal<TestBackend>,
}

impl Rehearsal {
    /// A conversation of these questions and answers, in turns. Nothing is laid out or drawn yet.
    pub fn new<'t>(
        answers: AnswerSettings,
        messages: impl IntoIterator<Item = &'t str>,
        columns: u16,
        rows: u16,
    ) -> Result<Self, TuiError> {
        let mut state = State::new(answers, "rehearsal.log".into(), Instant::now());
        for (index, text) in messages.into_iter().enumerate() {
            let kind = if index % 2 == 0 { Kind::User } else { Kind::Answer(AnswerHeader::default()) };
            state.conversation.add(kind, text);
        }
        let Ok(terminal) = Terminal::new(TestBackend::new(columns, rows));
        Ok(Self { state, skin: Skin { theme: theme::built_in("default")?.theme, glyphs: UNICODE }, terminal })
    }

    /// Adds a piece to the last answer.
    pub fn token(&mut self, text: &str) {
        let last = self.state.conversation.blocks().len().saturating_sub(1);
        self.state.conversation.append(last, text);
    }

    pub fn draw(&mut self) {
        let now = Instant::now();
        let Ok(_) = self.terminal.draw(|frame| view::draw(&mut self.state, &self.skin, now, frame));
    }

    /// To the first message.
    pub fn scroll_to_top(&mut self) {
        self.state.conversation.scroll_to(0);
    }

    pub fn resize(&mut self, columns: u16, rows: u16) {
        self.terminal.backend_mut().resize(columns, rows);
    }
}
