//! Messages that are selected and edited, and the list of kept conversations.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::super::super::chats::{News, Row};
use super::super::super::event::Event;
use super::super::super::fixtures::Desk;
use super::super::super::glyphs;
use super::super::super::skin::{Skin, test_skin};
use super::{assert_screen, render_with, screens, text};
use crate::engine::FinishReason;
use crate::store::keeper::Report;
use crate::store::{Found, Snippet};

/// Questions and answers, the last answer in two versions.
fn conversation() -> Desk {
    let mut desk = Desk::ready();
    desk.stream();
    desk.finish(FinishReason::Stop);
    for (question, words) in
        [("And of Italy?", "Rome. |It |is old."), ("/regenerate", "The capital of Italy |is Rome, |on the Tiber.")]
    {
        desk.send(question);
        desk.route();
        desk.prefill(1000);
        desk.wait(2000);
        for word in words.split('|') {
            desk.token(word);
            desk.wait(10);
        }
        desk.finish(FinishReason::Stop);
    }
    desk
}

#[test]
fn a_message_is_selected() {
    screens("a_message_is_selected", || {
        let mut desk = conversation();
        desk.event(Event::Key(KeyEvent::new(KeyCode::Up, KeyModifiers::ALT)));
        desk
    });
    let mut desk = conversation();
    desk.event(Event::Resize { columns: 120, rows: 36 });
    for _ in 0..2 {
        desk.event(Event::Key(KeyEvent::new(KeyCode::Up, KeyModifiers::ALT)));
    }
    let skin = Skin { glyphs: glyphs::ASCII, ..test_skin() };
    assert_screen("a_message_is_selected_ascii_120x36", text(&render_with(&skin, &mut desk, 120, 36)));
}

#[test]
fn a_question_is_edited() {
    screens("a_question_is_edited", || {
        let mut desk = conversation();
        for _ in 0..2 {
            desk.event(Event::Key(KeyEvent::new(KeyCode::Up, KeyModifiers::ALT)));
        }
        desk.key(KeyCode::Char('e'));
        desk
    });
}

fn kept_row(id: &str, title: &str, messages: usize, snippet: Option<(&str, std::ops::Range<usize>)>) -> Row {
    let found = Found {
        id: id.into(),
        title: title.into(),
        changed: chrono::DateTime::UNIX_EPOCH,
        messages,
        model: "test-model".into(),
        snippet: snippet.map(|(text, at)| Snippet { text: text.into(), at, is_cut: true }),
    };
    Row { found, when: if messages > 5 { "today 14:05" } else { "2026-03-04 09:30" }.into() }
}

#[test]
fn the_list_of_conversations() {
    let open = |words: &str, rows: Vec<Row>| {
        let mut desk = conversation();
        desk.state.chats.has_store = true;
        desk.state.chats.id = Some("a".into());
        desk.ctrl('o');
        desk.type_text(words);
        desk.event(Event::Chats(News::Found { words: words.into(), rows: Ok(rows) }));
        desk
    };
    screens("the_list_of_conversations", || {
        let rows = vec![
            kept_row("a", "What is the capital of France, and why there?", 12, None),
            kept_row(
                "b",
                "日本の川 and a title that is much too long for any list of conversations, 80 columns",
                4,
                None,
            ),
            kept_row("c", "Hills", 1, None),
        ];
        let mut desk = open("", rows);
        desk.key(KeyCode::Down);
        desk.event(Event::Chats(News::Kept(Report::Deleted { id: "c".into() })));
        desk
    });
    screens("conversations_are_searched", || {
        let snippet =
            "the river crossing at the Île de la Cité, where the road from the south met the boats of the Seine";
        let at = snippet.find("Cité").unwrap();
        open("cité", vec![kept_row("a", "What is the capital of France?", 12, Some((snippet, at..at + 5)))])
    });
    screens("no_conversation_is_found", || open("zebra", Vec::new()));
    screens("a_conversation_is_renamed", || {
        let mut desk = open("", vec![kept_row("a", "Hills", 4, None)]);
        desk.ctrl('r');
        desk.type_text(" of Paris");
        desk
    });
}
