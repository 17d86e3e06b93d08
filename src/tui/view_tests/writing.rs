//! What is typed: pastes, files, the history, vi, and where the cursor stands.

use crossterm::event::KeyCode;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::super::super::attach::FileText;
use super::super::super::event::Event;
use super::super::super::fixtures::{Desk, short_decision};
use super::super::super::skin::test_skin;
use super::super::draw;
use super::screens;
use crate::engine::{FinishReason, PromptParts, RoutingDecision};

fn decision_of(prompt_tokens: usize, context_limit: usize) -> RoutingDecision {
    let parts = Some(PromptParts { system: 30, history: 0, message: prompt_tokens - 30 });
    RoutingDecision { prompt_tokens, parts, needed_tokens: prompt_tokens + 100, context_limit, ..short_decision() }
}

#[test]
fn a_paste_and_a_file() {
    screens("a_paste_and_a_file", || {
        let mut desk = Desk::ready();
        desk.type_text("Does ");
        desk.event(Event::Paste("x".repeat(1_000_000)));
        desk.event(Event::Counted { id: 1, tokens: 250_000 });
        desk.type_text(" say the same as @notes/日本.txt ?");
        let text = FileText { path: "notes/日本.txt".into(), content: "word\n".repeat(600) };
        desk.event(Event::FileRead { mentioned: "notes/日本.txt".into(), result: Ok(text) });
        desk.key(KeyCode::Esc);
        desk.state.preview.shown = Some(Ok(decision_of(470, 500)));
        desk
    });
}

#[test]
fn files_are_offered() {
    screens("files_are_offered", || {
        let mut desk = Desk::ready();
        desk.stream();
        desk.finish(FinishReason::Stop);
        desk.type_text("Summarize @e");
        let paths = ["benches/", "README.md", "examples/one.rs", "a\x1b[2J.e", ".env"].map(str::to_owned);
        let paths = paths.into_iter().chain((0..20).map(|number| format!("notes/{number:02}-entry.txt"))).collect();
        desk.event(Event::FolderListed { folder: String::new(), paths });
        desk.key(KeyCode::Down);
        desk
    });
}

#[test]
fn the_history_is_searched() {
    screens("the_history_is_searched", || {
        let mut desk = Desk::ready();
        let sent = ["What is the capital of France?", "/npu short", "Read this:\nit has lines", "What of Italy?"];
        desk.event(Event::HistoryLoaded(sent.map(str::to_owned).to_vec()));
        desk.ctrl('r');
        desk.type_text("what");
        desk.key(KeyCode::Down);
        desk
    });
}

#[test]
fn vi_says_its_mode() {
    screens("vi_says_its_mode", || {
        let mut desk = Desk::ready();
        desk.state.composer.use_vi(true);
        desk.type_text("one two three");
        desk.key(KeyCode::Esc);
        desk.type_text("0w2d");
        desk.state.preview.shown = Some(Ok(decision_of(600, 500)));
        desk
    });
}

/// An input method places its window at the cursor's cell.
#[test]
fn the_cursor_stands_behind_wide_characters() {
    for (text, columns, expected) in [
        ("日本", 20, (7, 0)),
        ("ae\u{301}", 20, (5, 0)),
        ("日本語日本語日本", 20, (19, 0)),
        // A wide character that does not fit begins the next line, and the cursor stands behind it there.
        ("日本語日本語日本語", 20, (5, 1)),
    ] {
        let mut desk = Desk::ready();
        for c in text.chars() {
            desk.key(KeyCode::Char(c));
        }
        let mut terminal = Terminal::new(TestBackend::new(columns, 12)).unwrap();
        terminal.draw(|frame| draw(&mut desk.state, &test_skin(), desk.now, frame)).unwrap();
        let top = desk.state.layout().composer.y;
        terminal.backend_mut().assert_cursor_position((expected.0, top + expected.1));
    }
}
