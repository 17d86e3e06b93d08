//! The bytes of frames, read back by a terminal emulator, are the buffer that was drawn.

use std::num::NonZero;

use ratatui::buffer::Buffer;

use super::super::event::Event;
use super::super::fixtures::Desk;
use super::super::frames::Pace;
use super::super::skin::test_skin;
use super::super::view;
use super::*;

struct Emulator {
    painter: Painter,
    parser: vt100::Parser,
}

impl Emulator {
    fn new(columns: u16, rows: u16) -> Self {
        let (rows_, columns_) = (NonZero::new(rows).unwrap(), NonZero::new(columns).unwrap());
        Self { painter: Painter::new(columns, rows).unwrap(), parser: vt100::Parser::new(rows_, columns_, 0) }
    }

    /// Draws a frame and compares the emulator's screen with it. Returns how many bytes it took.
    fn check(&mut self, desk: &mut Desk) -> usize {
        let mut drawn = Buffer::default();
        let bytes = self
            .painter
            .frame(|frame| {
                view::draw(&mut desk.state, &test_skin(), desk.now, frame);
                drawn = frame.buffer_mut().clone();
            })
            .unwrap();
        assert!(bytes.starts_with(b"\x1b[?2026h") && bytes.ends_with(b"\x1b[?2026l"));
        self.parser.process(&bytes);
        let screen = self.parser.screen();
        for y in 0..drawn.area.height {
            let mut x = 0;
            while x < drawn.area.width {
                let symbol = drawn[(x, y)].symbol();
                let cell = screen.cell(y, x).unwrap();
                let shown = if cell.has_contents() { cell.contents() } else { " " };
                assert_eq!(shown, symbol, "row {y} column {x}:\n{}", screen.contents());
                x += super::super::text::width(symbol).max(1) as u16;
            }
        }
        bytes.len()
    }
}

#[test]
fn the_bytes_of_a_stream_are_the_buffer() {
    let mut desk = Desk::ready();
    let mut emulator = Emulator::new(80, 24);
    emulator.check(&mut desk);
    desk.send("カタカナ and \x1b[31m, please");
    desk.route();
    for index in 0..120 {
        desk.token(["日本語", " word", "\n", " é", " 👍🏽", "\x1b]0;x\x07"][index % 6]);
        desk.wait(10);
        emulator.check(&mut desk);
    }
    desk.key(crossterm::event::KeyCode::PageUp);
    emulator.check(&mut desk);
}

/// Wide, combined, invisible and reordering characters, and what terminals obey, in every block of markdown.
#[test]
fn markdown_of_all_scripts_is_the_buffer() {
    let mut desk = Desk::ready();
    let mut emulator = Emulator::new(50, 15);
    desk.send("question");
    desk.route();
    for text in [
        "# 日本語の見出し\n\n",
        "- 👩\u{200d}👩\u{200d}👧 family, ❤\u{fe0f} heart, 👍🏽 thumb, 🇫🇷 flag\n",
        "- e\u{301}a\u{308} combining\n\n",
        "> \u{202e}reordered\u{202c} \u{200f}שלום\u{200e} مرحبا\n\n",
        "| 列 | b |\n|:-:|--:|\n| 👩\u{200d}🚀 | e\u{301} |\n| 日本語日本語日本語日本語日本語 | \u{200b}zero |\n\n",
        "```rust\n\tlet 名 = \"日\u{1b}[2J本\"; // \u{9b}31m ☃\u{fe0f}\n```\n\n",
        "&#27;]0;title&#7; `\u{7f}` [リンク](https://例.example)\r\nend\u{feff}\u{2028}",
    ] {
        desk.token(text);
        desk.wait(10);
        emulator.check(&mut desk);
        desk.key(crossterm::event::KeyCode::F(5));
        emulator.check(&mut desk);
        desk.key(crossterm::event::KeyCode::F(5));
        emulator.check(&mut desk);
    }
}

/// The emulator gives each part of a syllable a cell, and a vowel none, where we count columns of the whole.
#[test]
fn no_half_of_a_joined_syllable_is_left() {
    let lines = ["क्ष नमस्ते हिन्दी|", "ab", "கொள்ளு தமிழ்|", "a b c d e f g h i j|", "กำลัง ทำ|", "日本 क्षि|", ""];
    for (first, second) in lines.iter().flat_map(|first| lines.iter().map(move |second| (*first, *second))) {
        let mut emulator = Emulator::new(30, 2);
        // What stands right of it is at its place, and what comes in its place stands alone.
        for text in [first, second, "x y", first, ""] {
            let draw = |frame: &mut Frame<'_>| {
                frame.buffer_mut().set_string(1, 0, text, ratatui::style::Style::default());
                frame.buffer_mut().set_string(25, 0, "edge", ratatui::style::Style::default());
            };
            emulator.parser.process(&emulator.painter.frame(draw).unwrap());
            let row = emulator.parser.screen().contents();
            let row = row.lines().next().unwrap();
            let shown: String = row.split_whitespace().collect();
            assert!(shown.ends_with("edge"), "{row:?}");
            let expected: String = format!("{text}edge").split_whitespace().collect();
            assert!(shown.chars().all(|c| expected.contains(c)), "{shown:?} of {text:?} after {first:?}");
            if text.is_ascii() {
                assert_eq!(shown, expected, "after {first:?} and {second:?}");
            }
        }
    }
}

#[test]
fn a_new_size_draws_everything() {
    let mut desk = Desk::ready();
    desk.stream();
    let mut emulator = Emulator::new(120, 36);
    emulator.check(&mut desk);
    for (columns, rows) in [(50, 15), (100, 30), (20, 5), (80, 24)] {
        emulator.painter.resize(columns, rows);
        let (rows_, columns_) = (NonZero::new(rows).unwrap(), NonZero::new(columns).unwrap());
        emulator.parser.screen_mut().set_size(rows_, columns_);
        desk.event(Event::Resize { columns, rows });
        emulator.check(&mut desk);
    }
}

/// A token that opens no new line costs a few dozen bytes, not a screen.
#[test]
fn a_token_costs_little() {
    let mut desk = Desk::ready();
    desk.send("question");
    desk.route();
    desk.token("a");
    let mut emulator = Emulator::new(80, 24);
    emulator.check(&mut desk);
    desk.wait(10);
    desk.token("b");
    emulator.check(&mut desk);
    desk.wait(10);
    desk.token("c");
    let bytes = emulator.check(&mut desk);
    assert!(bytes < 400, "{bytes}");
}

/// Everything that can lie over the conversation, opened as a reader opens it.
fn desks() -> Vec<(&'static str, Desk)> {
    use crossterm::event::KeyCode;
    let opened = |name, open: fn(&mut Desk)| {
        let mut desk = Desk::ready();
        desk.event(Event::Resize { columns: 80, rows: 24 });
        desk.stream();
        open(&mut desk);
        (name, desk)
    };
    vec![
        opened("nothing", |_| {}),
        opened("help", |desk| drop(desk.key(KeyCode::F(1)))),
        opened("commands", |desk| drop(desk.key(KeyCode::F(2)))),
        opened("palette", |desk| desk.type_text("/")),
        opened("themes", |desk| drop(desk.send("/theme"))),
        opened("panel", |desk| drop(desk.key(KeyCode::Tab))),
        opened("log", |desk| {
            desk.send("/log");
            desk.event(Event::LogRead(Ok("a line of the log\n".repeat(50))));
        }),
        opened("message", |desk| {
            let alt_up = crossterm::event::KeyEvent::new(KeyCode::Up, crossterm::event::KeyModifiers::ALT);
            desk.event(Event::Key(alt_up));
        }),
        opened("scrolled", |desk| drop(desk.key(KeyCode::PageUp))),
        opened("queue", |desk| drop(desk.send(&"a message that waits ".repeat(20)))),
    ]
}

/// No size is too small or too large for any of them, and each frame stands on the screen as it was drawn, whatever size
/// was there before it, at both paces.
#[test]
fn a_storm_of_sizes_leaves_nothing_behind() {
    for (pace, (name, mut desk)) in
        [Pace::Full, Pace::Low].into_iter().flat_map(|pace| desks().into_iter().map(move |d| (pace, d)))
    {
        println!("{name} {pace:?}");
        desk.state.set_pace(pace);
        let mut emulator = Emulator::new(80, 24);
        for (columns, rows) in
            [(120, 36), (20, 5), (300, 100), (1, 1), (50, 15), (99, 16), (2, 40), (60, 18), (250, 3), (80, 24)]
        {
            emulator.painter.resize(columns, rows);
            let (rows_, columns_) = (NonZero::new(rows).unwrap(), NonZero::new(columns).unwrap());
            emulator.parser = vt100::Parser::new(rows_, columns_, 0);
            desk.event(Event::Resize { columns, rows });
            desk.token(" and on");
            desk.wait(20);
            if columns >= 20 {
                emulator.check(&mut desk);
            } else {
                // Wide characters do not fit one column; nothing is promised but a frame.
                emulator.painter.frame(|frame| view::draw(&mut desk.state, &test_skin(), desk.now, frame)).unwrap();
            }
        }
    }
}
