//! The other conversations: listed, opened, renamed, deleted.

use pretty_assertions::assert_eq;

use super::*;

fn row(id: &str, title: &str) -> Row {
    let found = Found {
        id: id.into(),
        title: title.into(),
        changed: chrono::DateTime::UNIX_EPOCH,
        messages: 4,
        model: "test-model".into(),
        snippet: None,
    };
    Row { found, when: "yesterday 12:00".into() }
}

fn with_list(kept: &mut Kept) {
    let effects = kept.desk.ctrl('o');
    assert_eq!(effects, [Effect::Chats(Wish::Find(String::new()))]);
    let rows = Ok(vec![row("a", "Rivers"), row("b", "Hills"), row("c", "Lakes")]);
    kept.news(News::Found { words: String::new(), rows });
}

#[test]
fn another_conversation_is_opened_from_the_list() {
    let mut kept = Kept::new();
    kept.ask("mine", "yes");
    with_list(&mut kept);
    kept.key(KeyCode::Down);
    let effects = kept.key(KeyCode::Enter);
    assert_eq!(effects, [Effect::Chats(Wish::Open { id: "b".into(), writes: true })]);
    // Until it is here, nothing is said.
    assert_eq!(kept.send("early"), []);
    assert_eq!(kept.hint(), "the other conversation is being opened");
    let mut other = Kept::new();
    other.desk.state.settings.system = Some("Be loud.".into());
    other.ask("theirs", "no");
    kept.file.records = other.file.records.clone();
    kept.news(News::Kept(Report::Opened(Box::new(opened("b", other.file.tree())))));
    assert_eq!(kept.shown(), ["theirs", "no"]);
    assert_eq!(kept.desk.state.settings.system.as_deref(), Some("Be loud."));
    assert_eq!(kept.desk.state.composer.text(), "early");
    let effects = kept.key(KeyCode::Enter);
    assert_eq!(said(&effects)[1..], [(USER, "theirs"), (ASSISTANT, "no"), (USER, "early")]);
    // Its instructions are left with it.
    kept.answer("x", FinishReason::Stop);
    kept.send("/clear");
    assert_eq!(kept.desk.state.settings.system, None);
}

#[test]
fn one_search_at_a_time_and_the_latest_words_last() {
    let mut kept = Kept::new();
    with_list(&mut kept);
    assert_eq!(kept.press('r'), [Effect::Chats(Wish::Find("r".into()))]);
    assert_eq!(kept.press('i'), []);
    let effects = kept.news(News::Found { words: "r".into(), rows: Ok(vec![row("a", "Rivers")]) });
    assert_eq!(effects, [Effect::Chats(Wish::Find("ri".into()))]);
    assert_eq!(kept.news(News::Found { words: "ri".into(), rows: Err("no\nluck".into()) }), []);
    kept.key(KeyCode::Esc);
    assert!(kept.desk.state.overlay.is_none());
    // What comes late finds nobody.
    assert_eq!(kept.news(News::Found { words: "ri".into(), rows: Ok(Vec::new()) }), []);
}

#[test]
fn conversations_are_renamed_and_deleted_in_the_list() {
    let mut kept = Kept::new();
    kept.news(News::Kept(Report::Begun("c".into())));
    with_list(&mut kept);
    let effects = kept.desk.ctrl('r');
    assert_eq!(effects, []);
    kept.press('!');
    let effects = kept.key(KeyCode::Enter);
    assert_eq!(effects, [Effect::Chats(Wish::Rename { id: "a".into(), title: "Rivers!".into() })]);
    let effects = kept.news(News::Kept(Report::Renamed { id: "a".into() }));
    assert_eq!(effects, [Effect::Chats(Wish::Find(String::new()))]);

    assert_eq!(kept.desk.ctrl('d'), [Effect::Chats(Wish::Delete("a".into()))]);
    kept.news(News::Kept(Report::Deleted { id: "a".into() }));
    let Some(Overlay::Chats(list)) = &kept.desk.state.overlay else { panic!() };
    assert!(list.gone.contains("a"));
    assert_eq!(kept.desk.ctrl('d'), [Effect::Chats(Wish::Undelete("a".into()))]);
    kept.news(News::Kept(Report::Undeleted { id: "a".into() }));
    // The one that is open is not deleted by a slip.
    for _ in 0..2 {
        kept.key(KeyCode::Down);
    }
    assert_eq!(kept.desk.ctrl('d'), []);
    assert_eq!(kept.hint(), "this conversation is open; /delete deletes it");
}

#[test]
fn the_open_conversation_is_deleted_and_comes_back() {
    let mut kept = Kept::new();
    kept.send("/delete");
    assert!(kept.hint().contains("not saved"), "{}", kept.hint());
    kept.desk.ctrl('u');
    kept.ask("one", "first");
    kept.news(News::Kept(Report::Begun("c".into())));
    for c in "/delete".chars() {
        kept.press(c);
    }
    let effects = kept.desk.key(KeyCode::Enter);
    assert_eq!(effects, [Effect::Chats(Wish::Delete("c".into()))]);
    kept.file.records.clear();
    assert!(kept.shown().is_empty() && kept.desk.state.chats.id.is_none());
    kept.news(News::Kept(Report::Deleted { id: "c".into() }));
    assert_eq!(kept.send("/undo"), [Effect::Chats(Wish::Undelete("c".into()))]);
    let effects = kept.news(News::Kept(Report::Undeleted { id: "c".into() }));
    assert_eq!(effects, [Effect::Chats(Wish::Open { id: "c".into(), writes: true })]);
}

#[test]
fn a_conversation_without_a_message_is_put_away_when_it_is_left() {
    let mut kept = Kept::new();
    kept.ask("one", "first");
    kept.news(News::Kept(Report::Begun("c".into())));
    kept.alt_up();
    kept.press('k');
    kept.press('d');
    assert!(kept.shown().is_empty(), "{:?}", kept.shown());
    // As long as it is here, the message can be had back.
    kept.send("/undo");
    assert_eq!(kept.shown(), ["one", "first"]);
    kept.press('k');
    kept.press('d');
    let gone = Effect::Chats(Wish::Delete("c".into()));
    let effects = kept.desk.ctrl('d');
    assert_eq!(effects, [gone.clone(), Effect::Quit(Exit::Quit)]);
    let effects = kept.send("/clear");
    assert!(effects.ends_with(&[gone]), "{effects:?}");
    kept.news(News::Kept(Report::Deleted { id: "c".into() }));
    assert_eq!(kept.hint(), "the conversation is deleted; /undo takes it back");
    assert_eq!(kept.send("/undo"), [Effect::Chats(Wish::Undelete("c".into()))]);
    // One with messages is left where it is.
    let mut kept = Kept::new();
    kept.ask("one", "first");
    kept.news(News::Kept(Report::Begun("c".into())));
    assert_eq!(kept.desk.ctrl('d'), [Effect::Quit(Exit::Quit)]);
}
