//! What is done to messages: edited, answered again, gone on with, branched, deleted.

use pretty_assertions::assert_eq;

use super::*;

#[test]
fn an_edited_question_stands_beside_the_first_one() {
    let mut kept = Kept::new();
    kept.ask("one", "first");
    kept.ask("two", "second");
    kept.alt_up();
    kept.press('k');
    assert_eq!(kept.desk.state.context(), Context::Message);
    kept.press('e');
    assert_eq!((kept.desk.state.composer.text(), kept.desk.state.context()), ("two", Context::Compose));
    // The router is asked about what will be sent.
    kept.desk.wait(150);
    let effects = kept.desk.event(Event::Tick);
    let Some(Effect::Preview { request, .. }) = effects.first() else { panic!("{effects:?}") };
    assert_eq!(request.messages.len(), 3);
    let effects = kept.send("!");
    assert_eq!(said(&effects), [(USER, "one"), (ASSISTANT, "first"), (USER, "two!")]);
    kept.answer("third", FinishReason::Stop);
    assert_eq!(kept.shown(), ["one", "first", "two!", "third"]);
    // The other one is still there, and goes on from where it was.
    kept.alt_up();
    kept.press('k');
    kept.key(KeyCode::Left);
    assert_eq!(kept.shown(), ["one", "first", "two", "second"]);
    kept.key(KeyCode::Left);
    assert_eq!(kept.hint(), "there is no other version that way");
    let effects = {
        kept.key(KeyCode::Esc);
        kept.send("three")
    };
    assert_eq!(said(&effects)[3..], [(ASSISTANT, "second"), (USER, "three")]);
}

#[test]
fn a_question_comes_back_as_it_was_typed() {
    let mut kept = Kept::new();
    let long = "line\n".repeat(20);
    kept.press('>');
    let effects = kept.desk.event(Event::Paste(long.clone()));
    kept.done(effects);
    let effects = kept.send("?");
    assert_eq!(said(&effects), [(USER, format!(">{long}?").as_str())]);
    kept.answer("first", FinishReason::Stop);
    // In this session and in a later one.
    let mut later = Kept::new();
    later.file.records = kept.file.records.clone();
    later.news(News::Kept(Report::Opened(Box::new(opened("id", kept.file.tree())))));
    for kept in [&mut kept, &mut later] {
        kept.alt_up();
        kept.press('k');
        let effects = kept.press('e');
        let [Effect::CountTokens(inset)] = effects.as_slice() else { panic!("{effects:?}") };
        assert_eq!((inset.content.as_str(), inset.file.as_deref()), (long.as_str(), None));
        assert!(
            kept.desk.state.composer.text().starts_with(">[pasted 100 B, est."),
            "{}",
            kept.desk.state.composer.text()
        );
        let effects = kept.send("!");
        assert_eq!(said(&effects), [(USER, format!(">{long}?!").as_str())]);
    }
}

/// One that ortalk kept before it kept the pieces.
#[test]
fn a_question_whose_pieces_are_not_known_comes_back_as_it_was_sent() {
    let mut kept = Kept::new();
    let text = "a.txt:\n```\nx\n```\n\na.txt";
    let line =
        serde_json::json!({"kind": "user", "id": 0, "time": "2026-03-04T05:06:07Z", "text": text, "shown": "[a.txt]"});
    kept.file.records = vec![Record::parse(line.to_string().as_bytes()).unwrap()];
    kept.news(News::Kept(Report::Opened(Box::new(opened("id", kept.file.tree())))));
    assert_eq!(kept.shown(), ["[a.txt]"]);
    kept.alt_up();
    kept.press('e');
    assert_eq!(kept.desk.state.composer.text(), text);
    // A command is none where it was a message.
    let mut kept = Kept::new();
    kept.ask("/cpu /clear", "yes");
    kept.alt_up();
    kept.press('k');
    kept.press('e');
    assert_eq!(kept.desk.state.composer.text(), " /clear");
}

#[test]
fn editing_can_be_given_up() {
    let mut kept = Kept::new();
    kept.ask("one", "first");
    for key in ['j', 'k'] {
        kept.alt_up();
        kept.press(key);
        kept.press('e');
        assert!(!kept.desk.state.composer.is_empty());
        kept.key(KeyCode::Esc);
        assert!(kept.desk.state.composer.is_empty() && kept.desk.state.chats.redo.is_none());
    }
    let effects = kept.send("two");
    assert_eq!(said(&effects).len(), 3);
}

/// What a person writes in its place is another version: the model goes on from it, and believes that it has said so.
#[test]
fn an_edited_answer_stands_beside_the_first_one() {
    let mut kept = Kept::new();
    kept.ask("one", "first");
    kept.ask("two", "second");
    kept.alt_up();
    kept.press('e');
    assert_eq!(kept.desk.state.composer.text(), "second");
    // Letters are letters; nobody is asked what it would cost, and nothing is attached.
    assert_eq!(kept.send(""), []);
    assert_eq!(kept.hint(), "nothing of the answer was changed; Esc leaves it as it is");
    for c in " d@x ".chars() {
        assert_eq!(kept.press(c), [], "{c}");
    }
    kept.desk.wait(1000);
    assert_eq!(kept.desk.event(Event::Tick), []);
    let effects = kept.key(KeyCode::Enter);
    assert_eq!(submitted(&effects), None);
    assert_eq!(kept.shown(), ["one", "first", "two", "second d@x "]);
    assert_eq!(kept.hint(), "kept beside the old; m goes on, Left goes back");
    // It is no message that was sent.
    assert_eq!(kept.desk.remembered, ["one", "two"]);
    let effects = kept.press('m');
    let request = submitted(&effects).unwrap();
    assert!(request.continue_last);
    assert_eq!(said(&effects)[2..], [(USER, "two"), (ASSISTANT, "second d@x ")]);
    kept.answer("and more", FinishReason::Stop);
    assert_eq!(kept.shown()[3], "second d@x and more");
    // It is said whose words it began with, also in the file.
    let note = |tree: &Tree| tree.path()[3].answer.as_ref().unwrap().end.as_ref().unwrap().note.clone();
    assert_eq!(note(&kept.file.tree()).as_deref(), Some("edited by you"));
    kept.alt_up();
    kept.press('m');
    kept.answer("", FinishReason::Stop);
    assert_eq!(kept.hint(), "the model had nothing to add");
    assert_eq!(note(&kept.file.tree()).as_deref(), Some("edited by you"));
    kept.alt_up();
    kept.press('h');
    assert_eq!(kept.shown()[3], "second");
    // Nothing is no answer.
    kept.press('e');
    for _ in 0.."second".len() {
        kept.key(KeyCode::Backspace);
    }
    assert_eq!(kept.key(KeyCode::Enter), []);
    assert_eq!(kept.shown()[3], "second");
}

#[test]
fn a_question_is_answered_again_and_both_answers_stay() {
    let mut kept = Kept::new();
    kept.ask("one", "first");
    kept.ask("two", "second");
    let effects = kept.send("/regenerate");
    assert_eq!(said(&effects), [(USER, "one"), (ASSISTANT, "first"), (USER, "two")]);
    kept.answer("other", FinishReason::Stop);
    assert_eq!(kept.shown(), ["one", "first", "two", "other"]);
    kept.alt_up();
    for (key, shown) in [(KeyCode::Char('h'), "second"), (KeyCode::Char('l'), "other")] {
        kept.key(key);
        assert_eq!(kept.shown()[3], shown);
    }
    // From a question, too; what followed its other answers is left.
    for _ in 0..3 {
        kept.key(KeyCode::Up);
    }
    let effects = kept.press('r');
    assert_eq!(said(&effects), [(USER, "one")]);
    kept.answer("new", FinishReason::Stop);
    assert_eq!(kept.shown(), ["one", "new"]);
}

#[test]
fn a_cut_answer_goes_on() {
    let mut kept = Kept::new();
    kept.send("one");
    kept.answer("begin", FinishReason::Length);
    let effects = kept.send("/continue");
    let request = submitted(&effects).unwrap();
    assert!(request.continue_last);
    assert_eq!(said(&effects), [(USER, "one"), (ASSISTANT, "begin")]);
    kept.answer("ning", FinishReason::Stop);
    assert_eq!(kept.shown(), ["one", "beginning"]);
    let Kind::Answer(header) = &kept.desk.state.conversation.blocks()[1].kind else { panic!() };
    assert_eq!(header.ending, None);
    // It may be cut again, by something else.
    super::super::super::view::tests::render(&mut kept.desk, 80, 24);
    kept.send("/continue");
    kept.key(KeyCode::Esc);
    super::super::super::view::tests::render(&mut kept.desk, 80, 24);
    kept.send("more");
    kept.answer("x", FinishReason::Length);
    super::super::super::view::tests::render(&mut kept.desk, 80, 24);
    kept.send("/continue");
    kept.key(KeyCode::Esc);
    super::super::super::view::tests::render(&mut kept.desk, 80, 24);
    let ended = |block: &Block| matches!(&block.kind, Kind::Answer(header) if header.ending.is_some());
    assert_eq!(kept.desk.state.conversation.blocks().iter().filter(|block| ended(block)).count(), 2);
    // An answer without a word is asked for again.
    kept.send("two");
    kept.key(KeyCode::Esc);
    let effects = kept.send("/continue");
    assert!(!submitted(&effects).unwrap().continue_last);
    assert_eq!(said(&effects).last(), Some(&(USER, "two")));
}

#[test]
fn a_branch_begins_at_any_message() {
    let mut kept = Kept::new();
    kept.ask("one", "first");
    kept.ask("two", "second");
    kept.alt_up();
    for _ in 0..2 {
        kept.press('k');
    }
    kept.press('b');
    assert_eq!(kept.shown(), ["one", "first"]);
    let effects = kept.send("other");
    assert_eq!(said(&effects), [(USER, "one"), (ASSISTANT, "first"), (USER, "other")]);
    kept.answer("x", FinishReason::Stop);
    // In the place of a question.
    kept.alt_up();
    for _ in 0..3 {
        kept.press('k');
    }
    kept.press('b');
    assert_eq!(kept.shown(), [""; 0]);
    let effects = kept.send("anew");
    assert_eq!(said(&effects), [(USER, "anew")]);
    assert_eq!(kept.desk.state.chats.tree.siblings(0).len(), 2);
}

#[test]
fn a_deleted_message_comes_back() {
    let mut kept = Kept::new();
    kept.ask("one", "first");
    kept.ask("two", "second");
    kept.alt_up();
    kept.press('k');
    kept.press('d');
    let expected = "'two' and the one below are deleted; u takes it back";
    assert_eq!((kept.shown(), kept.hint()), (vec!["one", "first"], expected));
    let effects = {
        kept.key(KeyCode::Esc);
        kept.send("three")
    };
    assert_eq!(said(&effects), [(USER, "one"), (ASSISTANT, "first"), (USER, "three")]);
    kept.answer("third", FinishReason::Stop);
    kept.send("/undo");
    assert_eq!(kept.shown(), ["one", "first", "two", "second"]);
    kept.key(KeyCode::Esc);
    kept.send("/undo");
    assert_eq!(kept.hint(), "nothing was deleted");
}

/// The way back is never cut off.
#[test]
fn a_deletion_is_named_as_far_as_there_is_room() {
    for (columns, name) in [(80, "'A question of many words...' "), (50, "it ")] {
        let mut kept = Kept::new();
        kept.desk.event(Event::Resize { columns, rows: 24 });
        kept.ask("A question of many words, of which few are needed", "first");
        kept.ask("two", "second");
        kept.alt_up();
        for _ in 0..3 {
            kept.press('k');
        }
        kept.press('d');
        assert_eq!(kept.hint(), format!("{name}and 3 below are deleted; /undo takes it back"));
    }
}

#[test]
fn nothing_is_changed_below_a_running_answer() {
    let mut kept = Kept::new();
    kept.send("one");
    kept.alt_up();
    for key in ['e', 'r', 'm', 'b', 'd', 'u', 'h', 'l'] {
        kept.press(key);
        assert_eq!(kept.hint(), "an answer is running; Esc twice cancels it", "{key}");
    }
    let effects = kept.press('c');
    assert_eq!(effects, [Effect::Copy(String::new())]);
    kept.press('k');
    assert_eq!(kept.press('c'), [Effect::Copy("one".into())]);
    kept.answer("first", FinishReason::Stop);
    assert_eq!(kept.shown(), ["one", "first"]);
}

/// A server that must be asked about: the question stands for an answer again, too, and "no" leaves all as it was.
#[test]
fn an_answer_again_may_need_a_person_s_leave() {
    let mut kept = Kept::new();
    kept.ask("one", "first");
    kept.desk.event(Event::Snapshot(snapshot_with_server()));
    kept.desk.state.settings.lane = Some(LaneId::Remote);
    assert_eq!(submitted(&kept.send("/regenerate")), None);
    assert_eq!(kept.desk.state.chats.redo, Some(Redo::Again(0)));
    kept.press('n');
    assert_eq!((kept.desk.state.chats.redo, kept.desk.state.composer.text()), (None, ""));
    kept.send("/regenerate");
    let effects = kept.press('y');
    assert_eq!(said(&effects), [(USER, "one")]);
    kept.answer("second", FinishReason::Stop);
    assert_eq!((kept.shown(), kept.desk.state.chats.tree.siblings(1).len()), (vec!["one", "second"], 2));
}

#[test]
fn keys_of_a_message_are_no_letters_and_typing_goes_on_after_it() {
    let mut kept = Kept::new();
    kept.alt_up();
    assert_eq!((kept.hint(), kept.desk.state.context()), ("nothing was said yet", Context::Compose));
    kept.ask("one", "first");
    kept.alt_up();
    kept.press('x');
    assert!(kept.desk.state.composer.is_empty());
    assert_eq!(kept.hint(), "'x' does nothing here; Esc leaves the message");
    kept.press('q');
    kept.press('x');
    assert_eq!(kept.desk.state.composer.text(), "x");
    // A paste goes where it always goes.
    kept.alt_up();
    let effects = kept.desk.event(Event::Paste("yz".into()));
    kept.done(effects);
    assert_eq!((kept.desk.state.composer.text(), kept.desk.state.chats.selected), ("xyz", None));
}
