//! Every screen at three sizes, as text; and all sizes without a panic.

#[path = "view_tests/answers.rs"]
mod answers;
#[path = "view_tests/chats.rs"]
mod chats;
#[path = "view_tests/lists.rs"]
mod lists;
#[path = "view_tests/reading.rs"]
mod reading;
#[path = "view_tests/writing.rs"]
mod writing;

use crossterm::event::KeyCode;
use insta::assert_snapshot;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;

use super::super::event::Event;
use super::super::fixtures::Desk;
use super::super::glyphs;
use super::super::keys::Context;
use super::super::page::Page;
use super::super::skin::{Skin, test_skin};
use super::super::state::Overlay;
use super::super::theme::Theme;
use super::{Panel, draw, panels};
use crate::engine::FinishReason;
use reading::{MARKDOWN, reading};

pub fn render(desk: &mut Desk, columns: u16, rows: u16) -> Buffer {
    render_with(&test_skin(), desk, columns, rows)
}

pub fn render_with(skin: &Skin, desk: &mut Desk, columns: u16, rows: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|frame| draw(&mut desk.state, skin, desk.now, frame)).unwrap();
    terminal.backend().buffer().clone()
}

pub fn text(buffer: &Buffer) -> String {
    let row = |y| {
        let mut skip = 0;
        let mut line = String::new();
        for x in 0..buffer.area.width {
            if skip == 0 {
                let symbol = buffer[(x, y)].symbol();
                skip = super::super::text::width(symbol).saturating_sub(1);
                line.push_str(symbol);
            } else {
                skip -= 1;
            }
        }
        line.trim_end().to_string()
    };
    (0..buffer.area.height).map(row).collect::<Vec<_>>().join("\n")
}

pub fn screens(name: &str, make: impl Fn() -> Desk) {
    for (columns, rows) in [(120, 36), (80, 24), (50, 15)] {
        let mut desk = make();
        desk.event(Event::Resize { columns, rows });
        assert_screen(format!("{name}_{columns}x{rows}"), text(&render(&mut desk, columns, rows)));
    }
}

/// All screens' snapshots are named from here, wherever their tests are.
fn assert_screen(name: impl Into<String>, shown: String) {
    assert_snapshot!(name.into(), shown);
}

#[test]
fn a_panel_on_the_lowest_screen_has_a_line() {
    let mut desk = Desk::ready();
    desk.stream();
    for rows in 3..12 {
        desk.event(Event::Resize { columns: 20, rows });
        desk.state.overlay = Some(Overlay::Panel(Panel::Lane));
        let shown = text(&render(&mut desk, 20, rows));
        assert!(shown.contains("cpu  CPUExec"), "{rows}:\n{shown}");
    }
}

#[test]
fn a_panel_over_the_conversation() {
    let mut desk = Desk::ready();
    desk.stream();
    for _ in 0..3 {
        desk.key(KeyCode::Tab);
    }
    assert_screen("panel_80x24", text(&render(&mut desk, 80, 24)));
}

#[test]
fn ascii_has_no_character_of_its_own_beyond_ascii() {
    let skin = Skin { glyphs: glyphs::ASCII, ..test_skin() };
    for (columns, rows) in [(120, 36), (80, 24), (50, 15)] {
        let mut desk = Desk::ready();
        desk.send("question");
        desk.route();
        desk.prefill(1000);
        for index in 0..40 {
            desk.token("word ");
            desk.wait(if index == 20 { 100 } else { 10 });
        }
        let shown = text(&render_with(&skin, &mut desk, columns, rows));
        assert!(shown.is_ascii(), "{shown}");
        if columns == 120 {
            assert_screen("ascii_120x36", shown);
        }
        let shown = text(&render_with(&skin, &mut reading(MARKDOWN), columns, rows));
        assert!(shown.is_ascii(), "{shown}");
    }
}

#[test]
fn high_contrast_leaves_no_cell_to_the_terminal() {
    let skin = Skin { theme: Theme::named("high-contrast").unwrap(), ..test_skin() };
    let mut desk = Desk::ready();
    desk.stream();
    let buffer = render_with(&skin, &mut desk, 120, 36);
    let hidden = |at: usize| at > 0 && super::super::text::width(buffer.content[at - 1].symbol()) > 1;
    for (at, cell) in buffer.content.iter().enumerate() {
        assert!(hidden(at) || cell.bg != ratatui::style::Color::Reset, "{:?}", buffer.pos_of(at));
    }
}

#[test]
fn no_size_panics() {
    let mut desk = Desk::ready();
    desk.stream();
    desk.finish(FinishReason::Error("a long reason ".repeat(30)));
    desk.stream();
    desk.event(Event::Paste("x".repeat(5000)));
    desk.type_text(" @f");
    let paths = (0..20).map(|number| format!("日本/f{number}")).collect();
    desk.event(Event::FolderListed { folder: String::new(), paths });
    for columns in (0..12).chain([20, 44, 59, 60, 80, 99, 100, 120, 250]) {
        for rows in (0..12).chain([15, 16, 17, 18, 20, 24, 30, 36, 80]) {
            for overlay in
                [None, Some(Overlay::Page(Page::help(Context::Compose))), Some(Overlay::Panel(Panel::Latency))]
            {
                desk.state.overlay = overlay;
                render(&mut desk, columns, rows);
            }
            desk.event(Event::Resize { columns, rows });
            desk.key(KeyCode::F(4));
            for panel in panels::ALL {
                desk.state.overlay = Some(Overlay::Panel(panel));
                for zoomed in [false, true] {
                    desk.state.panels.zoomed = zoomed;
                    render(&mut desk, columns, rows);
                }
            }
            desk.key(KeyCode::Left);
            desk.key(KeyCode::F(4));
        }
    }
}
