//! A recording that is played gives the screens that were recorded.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use pretty_assertions::assert_eq;

use super::event::{Effect, Event};
use super::fixtures::{Desk, bill, sample, snapshot};
use super::record::ScreenRecorder;
use super::replay::Replay;
use super::view::tests::{render, screens, text};
use crate::engine::FinishReason;
use crate::recording::{Completeness, Header, Line, Recorder, Recording, read};

/// What happens to a desk, as the driver would record it.
fn recorded(happens: impl Fn(&mut Desk)) -> (Recording, Desk) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("talk.jsonl");
    let mut desk = Desk::loading();
    desk.recorder = Some(ScreenRecorder::new(Recorder::create(&path, &Header::now(None)).unwrap()));
    desk.event(Event::EngineLoaded(snapshot()));
    desk.event(Event::Device(Box::new(sample())));
    happens(&mut desk);
    desk.recorder = None;
    (read(&path, Completeness::Whole).unwrap(), desk)
}

/// A desk that plays the first so many lines of a recording.
fn played(recording: &Recording, lines: usize) -> Desk {
    let mut desk = Desk::loading();
    let begin = desk.now;
    let header = Header { time: "2026-03-04T05:06:07Z".into(), ..recording.header.clone() };
    desk.state.replay = Some(Replay::new(&Recording { header, lines: recording.lines.clone() }, 1.0));
    for timed in recording.lines.iter().take(lines) {
        desk.now = begin + Duration::from(timed.at_ms);
        desk.event(Event::Played(Box::new(timed.clone())));
    }
    desk
}

/// Two answers, the second one cancelled.
fn talk(desk: &mut Desk) {
    desk.stream();
    desk.event(Event::Billed(Box::new(bill(Some(24.4)))));
    desk.finish(FinishReason::Stop);
    desk.wait(500);
    desk.send("And of Italy?");
    desk.route();
    desk.prefill(1000);
    desk.wait(50);
    desk.token("Rome");
    desk.wait(10);
    desk.token(", since");
    desk.key(KeyCode::Esc);
}

/// Without the title, which says that it is a replay, and what is below the conversation, which is for who asks.
fn body(desk: &mut Desk) -> String {
    let screen = text(&render(desk, 120, 36));
    let lines: Vec<_> = screen.lines().collect();
    lines[1..lines.len() - 2].join("\n")
}

#[test]
fn the_replay_shows_what_was_on_the_screen() {
    let (recording, mut desk) = recorded(talk);
    let mut replay = played(&recording, usize::MAX);
    assert_eq!(body(&mut replay), body(&mut desk));
    assert_eq!(replay.state.conversation.messages(), desk.state.conversation.messages());
    let [here, there] = [&replay, &desk].map(|desk| desk.state.answer.as_ref().unwrap().clone());
    assert_eq!((here.ttft(), here.latencies()), (there.ttft(), there.latencies()));
}

#[test]
fn a_conversation_that_was_cleared_is_cleared_again() {
    let (recording, mut desk) = recorded(|desk| {
        talk(desk);
        desk.send("/clear");
        desk.send("Hello");
    });
    let mut replay = played(&recording, usize::MAX);
    assert_eq!(replay.state.conversation.blocks().len(), 2);
    assert_eq!(body(&mut replay), body(&mut desk));
}

#[test]
fn how_a_replay_looks() {
    screens("replay", || {
        let (recording, _) = recorded(talk);
        let half = recording.lines.len() / 2;
        let mut desk = played(&recording, half);
        desk.key(KeyCode::Char(' '));
        desk
    });
}

#[test]
fn space_pauses_and_nothing_can_be_asked() {
    let (recording, _) = recorded(talk);
    let mut desk = played(&recording, 20);
    assert_eq!(desk.key(KeyCode::Char(' ')), [Effect::PauseReplay(true)]);
    assert!(desk.state.replay.as_ref().unwrap().label().ends_with("paused"));
    assert_eq!(desk.key(KeyCode::Char(' ')), [Effect::PauseReplay(false)]);
    assert!(desk.send("hello").is_empty());
    assert!(desk.state.composer.is_empty());
    assert!(desk.state.hint.as_ref().unwrap().contains("this is a replay"));
    // Panels and scrolling work.
    desk.event(Event::Resize { columns: 80, rows: 24 });
    desk.key(KeyCode::Tab);
    assert!(desk.state.overlay.is_some());
    desk.event(Event::PlayedAll);
    assert_eq!(desk.state.replay.as_ref().unwrap().label(), "replay 0:03/0:03 ended");
    assert!(desk.key(KeyCode::Char(' ')).is_empty());
    assert!(matches!(desk.ctrl('c').as_slice(), []));
    assert!(matches!(desk.ctrl('c').as_slice(), [Effect::Quit(_)]));
}

#[test]
fn a_message_is_looked_at_and_left_again_and_nothing_is_done_to_it() {
    let (recording, _) = recorded(talk);
    let mut desk = played(&recording, usize::MAX);
    desk.event(Event::Key(KeyEvent::new(KeyCode::Up, KeyModifiers::ALT)));
    let selected = desk.state.chats.selected;
    assert!(selected.is_some());
    for letter in ['e', 'r', 'm', 'b', 'd', 'u'] {
        assert!(desk.key(KeyCode::Char(letter)).is_empty());
        assert!(desk.state.hint.take().unwrap().contains("this is a replay"), "{letter}");
        assert_eq!(desk.state.chats.selected, selected);
    }
    assert!(matches!(desk.key(KeyCode::Char('c')).as_slice(), [Effect::Copy(_)]));
    assert_eq!(desk.key(KeyCode::Char(' ')), [Effect::PauseReplay(true)]);
    desk.key(KeyCode::Esc);
    assert_eq!(desk.state.chats.selected, None);
    assert!(desk.ctrl('g').is_empty());
}

#[test]
fn an_answer_that_was_made_again_takes_the_place_of_the_old_one() {
    let (mut recording, _) = recorded(talk);
    let prompt = recording.lines.iter().rposition(|timed| matches!(timed.line, Line::Prompt { .. })).unwrap();
    recording.lines[prompt].line = Line::Prompt { text: "Again".into(), questions: 0, continues: false };
    let desk = played(&recording, usize::MAX);
    let messages = desk.state.conversation.messages();
    assert_eq!(messages.iter().map(|message| message.content.as_str()).collect::<Vec<_>>(), ["Again", "Rome, since"]);
}
