//! How it looks at the three sizes.

use super::super::super::view::tests::screens;
use super::*;

/// A conversation of an earlier session, with what was set for it.
fn resumed() -> Desk {
    let mut before = Desk::ready();
    for command in ["/set temperature 0.5", "/system Answer like a friend who has been everywhere."] {
        before.send(command);
    }
    for (question, answer) in [("Name a river.", "The Loire, the longest one in France."), ("And a lake?", "Annecy.")] {
        before.send(question);
        before.route();
        before.prefill(1000);
        before.wait(100);
        for (index, word) in answer.split_inclusive(' ').enumerate() {
            before.wait(if index == 5 { 90 } else { 10 });
            before.token(word);
        }
        before.finish(FinishReason::Stop);
    }
    let tree = before.state.chats.tree.clone();
    let mut desk = Desk::ready();
    desk.event(Event::Chats(News::Kept(Report::Opened(Box::new(opened("id", tree))))));
    desk
}

fn alt_up(desk: &mut Desk, times: usize) {
    for _ in 0..times {
        desk.event(Event::Key(KeyEvent::new(KeyCode::Up, KeyModifiers::ALT)));
    }
}

#[test]
fn a_conversation_is_resumed() {
    screens("a_conversation_is_resumed", resumed);
}

#[test]
fn tokens_of_an_earlier_session() {
    screens("tokens_of_an_earlier_session", || {
        let mut desk = resumed();
        alt_up(&mut desk, 3);
        desk.key(KeyCode::F(4));
        desk.key(KeyCode::Char('S'));
        desk
    });
}

#[test]
fn an_answer_is_edited() {
    screens("an_answer_is_edited", || {
        let mut desk = resumed();
        alt_up(&mut desk, 1);
        desk.key(KeyCode::Char('e'));
        desk
    });
}

#[test]
fn an_edited_answer_is_kept() {
    screens("an_edited_answer_is_kept", || {
        let mut desk = resumed();
        alt_up(&mut desk, 1);
        desk.key(KeyCode::Char('e'));
        desk.send(" Or Geneva's.");
        desk
    });
}
