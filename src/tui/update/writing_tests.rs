use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use pretty_assertions::assert_eq;

use super::super::attach::{AttachError, FileText};
use super::super::fixtures::{Desk, decision, snapshot};
use super::super::state::Preview;
use super::*;
use crate::engine::{FinishReason, LaneId, PromptParts, RoutingDecision, Rule};

/// What was sent to the model last, as the user's.
fn sent(effects: &[Effect]) -> Option<&str> {
    effects.iter().find_map(|effect| match effect {
        Effect::Submit(request) => request.messages.last().map(|message| message.content.as_str()),
        _ => None,
    })
}

fn typed(desk: &Desk) -> &str {
    desk.state.composer.text()
}

fn counted(effects: &[Effect]) -> Option<u64> {
    effects.iter().find_map(|effect| match effect {
        Effect::CountTokens(inset) => Some(inset.id),
        _ => None,
    })
}

fn read_files(effects: &[Effect]) -> Vec<&str> {
    let mut files = Vec::new();
    for effect in effects {
        if let Effect::ReadFile(path) = effect {
            files.push(path.as_str());
        }
    }
    files
}

fn read(desk: &mut Desk, mentioned: &str, path: &str) -> Vec<Effect> {
    let text = FileText { path: path.into(), content: "one\n".into() };
    desk.event(Event::FileRead { mentioned: mentioned.into(), result: Ok(text) })
}

#[test]
fn a_long_paste_is_one_unit_and_sent_as_a_whole() {
    let mut desk = Desk::ready();
    let long = "all work and no play\n".repeat(100);
    desk.type_text("Read ");
    let id = counted(&desk.event(Event::Paste(long.replace('\n', "\r\n")))).unwrap();
    assert_eq!(typed(&desk), "Read [pasted 2.1 kB, est. 530 tokens]");
    desk.type_text("!");
    desk.event(Event::Counted { id, tokens: 501 });
    assert_eq!(typed(&desk), "Read [pasted 2.1 kB, 501 tokens]!");
    // The cursor has stayed behind what was typed.
    desk.key(KeyCode::Backspace);
    desk.type_text("?");
    let effects = desk.key(KeyCode::Enter);
    assert_eq!(sent(&effects), Some(format!("Read {long}?").as_str()));
    assert_eq!(desk.state.conversation.blocks()[0].shown(), "Read [pasted 2.1 kB, 501 tokens]?");
    // The next question still has it.
    desk.token("yes");
    desk.finish(FinishReason::Stop);
    let effects = desk.send("more");
    let Some(Effect::Submit(request)) = effects.iter().find(|effect| matches!(effect, Effect::Submit(_))) else {
        panic!("{effects:?}")
    };
    assert_eq!(request.messages[0].content, format!("Read {long}?"));
}

#[test]
fn a_unit_is_deleted_and_put_back_as_one() {
    let mut desk = Desk::ready();
    desk.event(Event::Paste("x".repeat(2000)));
    desk.key(KeyCode::Backspace);
    assert_eq!(typed(&desk), "");
    desk.ctrl('7');
    assert_eq!(typed(&desk), "[pasted 2.0 kB, est. 500 tokens]");
    desk.key(KeyCode::Left);
    desk.type_text("a");
    desk.ctrl('k');
    desk.ctrl('y');
    desk.ctrl('y');
    assert_eq!(sent(&desk.key(KeyCode::Enter)), Some(format!("a{}", "x".repeat(4_000)).as_str()));
}

#[test]
fn what_waits_keeps_its_pastes() {
    let mut desk = Desk::loading();
    desk.event(Event::Paste("x".repeat(5000)));
    desk.key(KeyCode::Enter);
    desk.key(KeyCode::Esc);
    assert_eq!(typed(&desk), "[pasted 5.0 kB, est. 1,300 tokens]");
    desk.key(KeyCode::Enter);
    assert_eq!(sent(&desk.event(Event::EngineLoaded(snapshot()))), Some("x".repeat(5000).as_str()));
}

#[test]
fn a_paste_before_the_engine_is_there_is_counted_when_it_is() {
    let mut desk = Desk::loading();
    desk.event(Event::Paste("x".repeat(5000)));
    assert_eq!(counted(&desk.event(Event::EngineLoaded(snapshot()))), Some(1));
}

#[test]
fn a_lane_may_stand_before_a_paste() {
    let mut desk = Desk::ready();
    desk.type_text("/cpu read ");
    desk.event(Event::Paste("x".repeat(5000)));
    let effects = desk.key(KeyCode::Enter);
    assert_eq!(sent(&effects), Some(format!("read {}", "x".repeat(5000)).as_str()));
    assert!(effects.iter().any(|e| matches!(e, Effect::Submit(request) if request.lane == Some(LaneId::Cpu))));
}

#[test]
fn a_file_is_read_before_the_message_that_names_it_is_sent() {
    let mut desk = Desk::ready();
    let effects = desk.send("Is @a.txt, right?");
    // It was asked for when the space was typed, and once is enough.
    assert_eq!((sent(&effects), read_files(&effects)), (None, vec![]));
    assert_eq!(sent(&read(&mut desk, "a.txt,", "a.txt")), Some("a.txt:\n```txt\none\n```\n\nIs a.txt, right?"));
    assert_eq!(desk.state.conversation.blocks()[0].shown(), "Is [a.txt, 4 B, est. 1 token], right?");
}

#[test]
fn several_files_that_cannot_be_had_are_told_of_at_once() {
    let mut desk = Desk::ready();
    let effects = desk.send("Is @no/a.txt like @no/b.txt");
    assert_eq!(read_files(&effects), ["no/b.txt"]);
    for name in ["no/a.txt", "no/b.txt"] {
        let result = Err(AttachError::Missing(name.into()));
        assert_eq!(sent(&desk.event(Event::FileRead { mentioned: name.into(), result })), None);
    }
    let hint = "there is no file 'no/a.txt', and 1 more; sent again, it goes as typed";
    assert_eq!(desk.state.hint.as_deref(), Some(hint));
    assert_eq!(sent(&desk.key(KeyCode::Enter)), Some("Is @no/a.txt like @no/b.txt"));
}

#[test]
fn a_long_piece_more_or_less_is_not_shown_with_the_old_count() {
    let mut desk = Desk::ready();
    desk.type_text("hello");
    desk.state.preview.shown = Some(Ok(crate::tui::fixtures::decision()));
    desk.type_text("!");
    assert!(desk.state.preview.shown.is_some());
    desk.event(Event::Paste("x".repeat(5000)));
    assert!(desk.state.preview.shown.is_none());
    desk.state.preview.shown = Some(Ok(crate::tui::fixtures::decision()));
    desk.key(KeyCode::Backspace);
    assert_eq!((desk.state.composer.text(), desk.state.preview.shown.is_none()), ("hello!", true));
}

#[test]
fn a_file_that_cannot_be_had_says_so_and_the_next_enter_sends_the_words() {
    let mut desk = Desk::ready();
    let effects = desk.send("Is @no/a.txt");
    assert_eq!(read_files(&effects), ["no/a.txt"]);
    let missing = AttachError::Missing("no/a.txt".into());
    let effects = desk.event(Event::FileRead { mentioned: "no/a.txt".into(), result: Err(missing) });
    assert_eq!(sent(&effects), None);
    assert_eq!(desk.state.hint.as_deref(), Some("there is no file 'no/a.txt'; sent again, it goes as typed"));
    assert_eq!(sent(&desk.key(KeyCode::Enter)), Some("Is @no/a.txt"));
}

#[test]
fn a_name_behind_an_at_sign_is_no_file_that_is_missed() {
    let mut desk = Desk::ready();
    assert_eq!(read_files(&desk.send("thank @ada")), ["ada"]);
    let result = Err(AttachError::Missing("ada".into()));
    assert_eq!(sent(&desk.event(Event::FileRead { mentioned: "ada".into(), result })), Some("thank @ada"));
    // Who goes on typing while it is looked for does not send.
    let mut desk = Desk::ready();
    desk.send("read @a.txt");
    desk.type_text("x");
    assert_eq!(sent(&read(&mut desk, "a.txt", "a.txt")), None);
}

#[test]
fn paths_are_offered_and_taken() {
    let mut desk = Desk::ready();
    desk.type_text("read ");
    let effects = desk.key(KeyCode::Char('@'));
    assert_eq!(effects, [Effect::ListFolder(String::new())]);
    let paths = ["notes.txt", "src/", ".hidden", "src/main.rs", "src/a b.rs"].map(str::to_owned).to_vec();
    desk.event(Event::FolderListed { folder: String::new(), paths });
    let offered = |desk: &Desk| desk.state.writing.offer.as_ref().and_then(|c| c.chosen()).map(|(text, _)| text);
    assert_eq!(offered(&desk).as_deref(), Some("@notes.txt"));
    desk.key(KeyCode::Down);
    let effects = desk.key(KeyCode::Tab);
    assert_eq!((typed(&desk), effects), ("read @src/", vec![Effect::ListFolder("src/".into())]));
    desk.event(Event::FolderListed { folder: "src/".into(), paths: vec!["main.rs".into(), "a b.rs".into()] });
    desk.type_text("ab");
    assert_eq!(offered(&desk).as_deref(), Some("@\"src/a b.rs\""));
    assert_eq!(read_files(&desk.key(KeyCode::Enter)), ["src/a b.rs"]);
    assert_eq!(typed(&desk), "read @\"src/a b.rs\" ");
    read(&mut desk, "src/a b.rs", "src/a b.rs");
    assert_eq!(typed(&desk), "read [src/a b.rs, 4 B, est. 1 token] ");
    assert!(desk.state.writing.offer.is_none());
}

#[test]
fn an_offer_that_is_not_wanted_stays_away() {
    let mut desk = Desk::ready();
    desk.type_text("@");
    desk.event(Event::FolderListed { folder: String::new(), paths: vec!["notes.txt".into()] });
    desk.key(KeyCode::Esc);
    desk.type_text("no");
    assert!(desk.state.writing.offer.is_none());
    assert_eq!(read_files(&desk.key(KeyCode::Enter)), ["no"]);
    // An address is none.
    let mut desk = Desk::ready();
    desk.type_text("me@no");
    assert!(desk.state.writing.offer.is_none());
}

#[test]
fn the_history_is_searched_as_it_is_typed() {
    let mut desk = Desk::ready();
    desk.ctrl('r');
    assert_eq!(desk.state.hint.as_deref(), Some("nothing was sent yet"));
    desk.event(Event::HistoryLoaded(vec!["what is old?".into(), "hello".into(), "what is old?".into()]));
    desk.send("what is new?");
    assert_eq!(desk.remembered, ["what is new?"]);
    desk.ctrl('r');
    desk.type_text("what is");
    desk.ctrl('r');
    desk.key(KeyCode::Enter);
    assert_eq!(typed(&desk), "what is old?");
    // The same again is remembered once.
    desk.key(KeyCode::Enter);
    desk.send("what is old?");
    assert_eq!(desk.remembered, ["what is new?", "what is old?"]);
}

#[test]
fn the_editor_gets_the_text_and_gives_it_back() {
    let mut desk = Desk::ready();
    desk.event(Event::Paste("x".repeat(5000)));
    desk.type_text(" read it");
    let label = "[pasted 5.0 kB, est. 1,300 tokens]";
    assert_eq!(desk.ctrl('g'), [Effect::Edit(format!("{label} read it"))]);
    desk.event(Event::Edited(Ok(format!("Read {label}\nnow"))));
    assert_eq!(sent(&desk.key(KeyCode::Enter)), Some(format!("Read {}\nnow", "x".repeat(5000)).as_str()));
    desk.event(Event::Edited(Err("the editor 'x' cannot be started".into())));
    assert_eq!(desk.state.hint.as_deref(), Some("the editor 'x' cannot be started"));
}

#[test]
fn typing_is_undone_word_by_word() {
    let mut desk = Desk::ready();
    desk.type_text("one two three");
    desk.ctrl('7');
    assert_eq!(typed(&desk), "one two ");
    desk.ctrl('7');
    assert_eq!(typed(&desk), "one ");
    desk.event(Event::Key(KeyEvent::new(KeyCode::Char('_'), KeyModifiers::ALT)));
    assert_eq!(typed(&desk), "one two ");
    desk.ctrl('c');
    assert_eq!(typed(&desk), "");
    desk.ctrl('7');
    assert_eq!(typed(&desk), "one two ");
}

#[test]
fn vi_keys_are_commands_after_escape() {
    let mut desk = Desk::ready();
    desk.state.composer.use_vi(true);
    desk.type_text("one two");
    desk.key(KeyCode::Esc);
    desk.type_text("bcwthree");
    assert_eq!(typed(&desk), "one three");
    desk.key(KeyCode::Esc);
    desk.type_text("u");
    desk.ctrl('r');
    assert_eq!(typed(&desk), "one three");
    assert!(desk.state.overlay.is_none());
    assert_eq!(sent(&desk.key(KeyCode::Enter)), Some("one three"));
    // A new message begins in the insert mode, and commands can be typed from both.
    desk.type_text("x");
    assert_eq!(typed(&desk), "x");
    desk.key(KeyCode::Backspace);
    desk.key(KeyCode::Esc);
    assert!(desk.state.busy());
    desk.type_text(":help");
    assert_eq!(typed(&desk), "/help");
    desk.ctrl('u');
    desk.key(KeyCode::Esc);
    desk.key(KeyCode::Esc);
    assert!(!desk.state.busy());
}

/// Of the CPU's 8000 tokens 500 are for the answer.
fn too_long() -> RoutingDecision {
    let parts = PromptParts { system: 30, history: 0, message: 8704 };
    RoutingDecision { prompt_tokens: 8734, parts: Some(parts), rule: Rule::LongestContext, ..decision() }
}

#[test]
fn what_is_known_to_be_too_long_is_not_sent_and_stays() {
    let mut desk = Desk::ready();
    desk.type_text("long");
    desk.state.preview = Preview { shown: Some(Ok(too_long())), ..Preview::default() };
    assert_eq!(sent(&desk.key(KeyCode::Enter)), None);
    assert_eq!(typed(&desk), "long");
    assert_eq!(desk.state.hint.as_deref(), Some("not sent: 1,234 tokens over the 7,500 of cpu"));
    assert!(!desk.state.busy() && desk.state.conversation.is_empty());
    // What the router said of another text counts for nothing.
    desk.type_text("er");
    assert_eq!(sent(&desk.key(KeyCode::Enter)), Some("longer"));
}

#[test]
fn what_may_be_too_long_is_counted_before_it_is_sent() {
    let text = "word ".repeat(1600);
    let weighs = |effects: &[Effect]| matches!(effects, [Effect::Weigh(_)]);
    let mut desk = Desk::ready();
    desk.event(Event::Paste(text.clone()));
    assert!(weighs(&desk.key(KeyCode::Enter)));
    assert_eq!(typed(&desk), "");
    assert_eq!(sent(&desk.event(Event::Weighed(Ok(too_long())))), None);
    assert_eq!(desk.state.composer.draft().sent(), text);
    assert_eq!(desk.state.hint.as_deref(), Some("not sent: 1,234 tokens over the 7,500 of cpu"));
    assert!(weighs(&desk.key(KeyCode::Enter)));
    assert_eq!(sent(&desk.event(Event::Weighed(Ok(decision())))), Some(text.as_str()));
    desk.finish(FinishReason::Stop);
    // The router has counted while it was typed.
    desk.event(Event::Paste(text.clone()));
    desk.state.preview = Preview { shown: Some(Ok(decision())), ..Preview::default() };
    assert_eq!(sent(&desk.key(KeyCode::Enter)), Some(text.as_str()));
    // One that waits for another answer is counted when its turn comes.
    desk.event(Event::Paste(text.clone()));
    desk.key(KeyCode::Enter);
    assert!(desk.finish(FinishReason::Stop).iter().any(|effect| matches!(effect, Effect::Weigh(_))));
    // An error is the engine's to tell of.
    assert_eq!(sent(&desk.event(Event::Weighed(Err("no lane".to_owned())))), Some(text.as_str()));
}
