//! Markdown, as it is read.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::super::super::event::Event;
use super::super::super::fixtures::Desk;
use super::super::super::skin::test_skin;
use super::{render, screens, text};
use crate::engine::FinishReason;

/// An answer with a bit of everything.
pub const MARKDOWN: &str = "# Lanes\n\nA **lane** is *one way* to run the model, `cpu` or `npu`:\n\n1. **NPU**: built for it, \
    [faster to the first word](https://example.com/npu) where a prompt is short enough to fit its context\n2. CPU\n   - \
    takes any length\n   - needs more power\n- [x] measured\n- [ ] ~~guessed~~\n\n| lane | first word | tok/s | \
    where |\n|:--|--:|--:|:--|\n| npu | 96 ms | 21.4 | QNN execution provider, emulated |\n| cpu | 41 ms | 128.4 | two \
    threads |\n\n> Numbers are measured\n> or say *why not*.\n\n## Code\n\n```rust\n/// Adds.\nfn add(a: u32, b: u32) -> u32 \
    {\n    let text = \"sum\"; // not used\n    a + b + 0\n}\n```\n\n---\n";

pub fn reading(text: &str) -> Desk {
    let mut desk = Desk::ready();
    desk.send("What is a lane?");
    desk.route();
    desk.prefill(1000);
    for word in text.split_inclusive(' ') {
        desk.wait(10);
        desk.token(word);
    }
    desk
}

#[test]
fn markdown() {
    let finished = || {
        let mut desk = reading(MARKDOWN);
        desk.finish(FinishReason::Stop);
        desk
    };
    screens("markdown", finished);
    screens("markdown_from_the_top", || {
        let mut desk = finished();
        desk.state.lay_out();
        desk.event(Event::Key(KeyEvent::new(KeyCode::Home, KeyModifiers::CONTROL)));
        desk
    });
    screens("markdown_as_written", || {
        let mut desk = finished();
        desk.key(KeyCode::F(5));
        desk
    });
}

#[test]
fn code_is_coloured_by_the_theme_where_it_is_seen() {
    let skin = test_skin();
    let buffer = render(&mut reading(MARKDOWN), 80, 24);
    let shown = text(&buffer);
    let style_of = |word: &str| {
        let (y, line) = shown.lines().enumerate().find(|(_, line)| line.contains(word)).unwrap();
        let x = crate::tui::text::width(&line[..line.find(word).unwrap()]);
        buffer[(x as u16, y as u16)].style().fg
    };
    for (word, style) in [
        ("/// Adds", skin.theme.code_comment),
        ("fn add", skin.theme.code_keyword),
        ("\"sum\"", skin.theme.code_string),
        ("or say", skin.theme.quote),
    ] {
        assert_eq!(style_of(word), style.fg, "{word}");
    }
}
