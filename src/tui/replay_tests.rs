//! A recording that is played gives the screens that were recorded.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use pretty_assertions::assert_eq;

use super::chats::News;
use super::event::{Effect, Event};
use super::fixtures::{Desk, bill, decision, sample, snapshot};
use super::record::ScreenRecorder;
use super::replay::Replay;
use super::view::tests::{render, screens, text};
use crate::engine::{EngineSnapshot, FinishReason};
use crate::recording::{Completeness, Header, Line, Recorder, Recording, read};
use crate::store::keeper::{Opened, Report};
use crate::store::{LeftOut, Stored};

/// What happens to a desk, as the driver would record it.
fn recorded(happens: impl Fn(&mut Desk)) -> (Recording, Desk) {
    recorded_from_the_start(|desk| {
        desk.event(Event::EngineLoaded(snapshot()));
        desk.event(Event::Device(Box::new(sample())));
        happens(desk);
    })
}

fn recorded_from_the_start(happens: impl Fn(&mut Desk)) -> (Recording, Desk) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("talk.jsonl");
    let mut desk = Desk::loading();
    desk.recorder = Some(ScreenRecorder::new(Recorder::create(&path, &Header::now(None)).unwrap()));
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
fn how_a_race_looks_that_is_played_again() {
    screens("replay_race", || {
        let (recording, _) = recorded(super::race_tests::a_whole_race);
        played(&recording, usize::MAX)
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
fn of_the_commands_only_those_for_the_screen_are_taken() {
    let (recording, _) = recorded(talk);
    let mut desk = played(&recording, usize::MAX);
    let blocks = desk.state.conversation.blocks().len();
    for command in ["clear", "system", "race", "model", "cpu", "regenerate"] {
        desk.key(KeyCode::F(2));
        desk.type_text(command);
        assert!(desk.key(KeyCode::Enter).is_empty());
        assert!(desk.state.hint.take().is_some_and(|hint| hint.contains("this is a replay")), "{command}");
        assert_eq!((desk.state.composer.text(), desk.state.conversation.blocks().len()), ("", blocks), "{command}");
    }
    desk.key(KeyCode::F(2));
    desk.type_text("help");
    desk.key(KeyCode::Enter);
    assert!(desk.state.page().is_some());
}

#[test]
fn an_answer_that_was_made_again_takes_the_place_of_the_old_one() {
    let (mut recording, _) = recorded(talk);
    let prompt = recording.lines.iter().rposition(|timed| matches!(timed.line, Line::Prompt { .. })).unwrap();
    recording.lines[prompt].line = Line::Prompt { text: "Again".into(), questions: 0, continues: false, again: None };
    let desk = played(&recording, usize::MAX);
    let messages = desk.state.conversation.messages();
    assert_eq!(messages.iter().map(|message| message.content.as_str()).collect::<Vec<_>>(), ["Again", "Rome, since"]);
}

/// The screens are alike, and so is what lies behind them.
fn assert_alike(happens: impl Fn(&mut Desk)) {
    assert_plays(recorded(happens));
}

fn assert_plays((recording, mut desk): (Recording, Desk)) {
    let mut replay = played(&recording, usize::MAX);
    // What a reader selects is the reader's, and what is said of it.
    (desk.state.chats.selected, desk.state.hint) = (None, None);
    replay.state.hint = None;
    assert_eq!(body(&mut replay), body(&mut desk));
    let [there, here] = [&desk, &replay].map(|desk| (desk.state.chats.tree.head(), desk.state.chats.tree.next_id()));
    assert_eq!(there, here);
    for (columns, rows) in [(80, 24), (50, 15)] {
        let [there, here] = [&mut desk, &mut replay].map(|desk| {
            desk.event(Event::Resize { columns, rows });
            let screen = text(&render(desk, columns, rows));
            let lines: Vec<String> = screen.lines().skip(1).take(usize::from(rows) - 3).map(str::to_owned).collect();
            lines
        });
        assert_eq!(there, here);
    }
}

fn alt(desk: &mut Desk, code: KeyCode) {
    desk.event(Event::Key(KeyEvent::new(code, KeyModifiers::ALT)));
}

fn answers(desk: &mut Desk, question: &str, answer: &str) {
    desk.send(question);
    desk.route();
    desk.wait(100);
    for word in answer.split_inclusive(' ') {
        desk.token(word);
        desk.wait(10);
    }
    desk.finish(FinishReason::Stop);
}

/// Two questions, the first of them with two answers.
fn waters(desk: &mut Desk) {
    answers(desk, "What is a river?", "Water that flows.");
    desk.send("/regenerate");
    desk.token("A stream of water.");
    desk.finish(FinishReason::Stop);
    answers(desk, "And a lake?", "Water that stands.");
}

fn open(desk: &mut Desk) {
    let mut other = Desk::ready();
    waters(&mut other);
    let stored = Stored { id: "waters".into(), tree: other.state.chats.tree, left_out: LeftOut::default() };
    let opened = Opened { stored, is_copy: true };
    desk.event(Event::Chats(News::Kept(Report::Opened(Box::new(opened)))));
}

#[test]
fn a_conversation_that_was_opened_is_opened_again() {
    assert_alike(|desk| {
        talk(desk);
        open(desk);
    });
    assert_alike(|desk| {
        open(desk);
        answers(desk, "And a sea?", "Salt water.");
    });
    // Before the engine is there, as with --resume.
    for model in ["test-model", "other"] {
        assert_plays(recorded_from_the_start(|desk| {
            open(desk);
            desk.event(Event::EngineLoaded(EngineSnapshot { model: model.into(), ..snapshot() }));
            answers(desk, "And a sea?", "Salt water.");
        }));
    }
    // One that another model answered.
    assert_alike(|desk| {
        open(desk);
        desk.state.models.are_there = true;
        desk.event(Event::ModelOpened(
            EngineSnapshot { model: "other".into(), ..snapshot() },
            Box::new(Desk::loading().state.settings),
        ));
        answers(desk, "And a sea?", "Salt water.");
        open(desk);
    });
    // In the middle of an answer, too.
    assert_alike(|desk| {
        desk.send("Hello");
        desk.route();
        desk.token("I ");
        open(desk);
    });
}

#[test]
fn what_is_done_to_messages_is_done_again() {
    type Step = fn(&mut Desk);
    let steps: [(&str, Step); 9] = [
        ("an older version is shown", |desk| {
            (0..3).for_each(|_| alt(desk, KeyCode::Up));
            desk.key(KeyCode::Left);
            assert_eq!(desk.state.conversation.messages()[1].content, "Water that flows.");
        }),
        ("a branch", |desk| {
            (0..3).for_each(|_| alt(desk, KeyCode::Up));
            desk.key(KeyCode::Char('b'));
            answers(desk, "And a brook?", "A small one.");
        }),
        ("deleted", |desk| {
            (0..2).for_each(|_| alt(desk, KeyCode::Up));
            desk.key(KeyCode::Char('d'));
            assert_eq!(desk.state.conversation.messages().len(), 2);
        }),
        ("deleted and back", |desk| {
            (0..2).for_each(|_| alt(desk, KeyCode::Up));
            desk.key(KeyCode::Char('d'));
            desk.key(KeyCode::Esc);
            desk.send("/undo");
            assert_eq!(desk.state.conversation.messages().len(), 4);
        }),
        ("edited", |desk| {
            (0..2).for_each(|_| alt(desk, KeyCode::Up));
            desk.key(KeyCode::Char('e'));
            answers(desk, " Or a pond?", "It stands, too.");
            assert_eq!(desk.state.conversation.messages()[2].content, "And a lake? Or a pond?");
        }),
        ("sent again as it was", |desk| {
            (0..2).for_each(|_| alt(desk, KeyCode::Up));
            desk.key(KeyCode::Char('e'));
            answers(desk, "", "It stands.");
            answers(desk, "Thanks", "You are welcome.");
        }),
        ("an answer put into other words", |desk| {
            alt(desk, KeyCode::Up);
            desk.key(KeyCode::Char('e'));
            desk.send(" Mostly.");
            assert_eq!(desk.state.conversation.messages()[3].content, "Water that stands. Mostly.");
        }),
        ("answered again", |desk| {
            desk.send("/regenerate");
            desk.token("It rests.");
            desk.finish(FinishReason::Length);
            desk.send("/continue");
            desk.token(" And rests.");
            desk.finish(FinishReason::Stop);
        }),
        ("renamed", |desk| {
            desk.send("/rename Waters");
            desk.send("/system");
        }),
    ];
    for (what, step) in steps {
        println!("{what}");
        for begin in [open, waters] {
            assert_alike(|desk| {
                begin(desk);
                step(desk);
            });
        }
    }
}

#[test]
fn another_model_is_another_model_again() {
    let other = || (EngineSnapshot { model: "other".into(), ..snapshot() }, Box::new(Desk::loading().state.settings));
    assert_alike(|desk| {
        desk.state.models.are_there = true;
        answers(desk, "One", "Two.");
        desk.send("/model other");
        let (snapshot, answers_of) = other();
        desk.event(Event::ModelOpened(snapshot, answers_of));
        answers(desk, "Three", "Four.");
    });
    // There is no room for two, and the other one cannot answer.
    assert_alike(|desk| {
        desk.state.models.are_there = true;
        desk.send("One");
        desk.token("Two");
        desk.send("/model broken");
        desk.event(Event::EngineReleased);
        desk.event(Event::EngineLoaded(snapshot()));
        desk.event(Event::ModelRefused("no such file".into()));
        answers(desk, "Three", "Four.");
    });
    assert_alike(|desk| {
        desk.state.models.are_there = true;
        answers(desk, "One", "Two.");
        desk.send("/model broken");
        desk.event(Event::EngineReleased);
    });
}

#[test]
fn what_was_attached_stays_out_of_a_recording() {
    let (recording, _) = recorded(|desk| {
        desk.event(Event::Paste("secret ".repeat(900)));
        desk.send(" what is it?");
        // A long message is counted before it goes.
        desk.event(Event::Weighed(Ok(decision())));
        desk.token("A word.");
        desk.finish(FinishReason::Stop);
        (0..2).for_each(|_| alt(desk, KeyCode::Up));
        desk.key(KeyCode::Char('d'));
        desk.send("/undo");
    });
    let lines: Vec<String> = recording.lines.iter().map(|timed| serde_json::to_string(timed).unwrap()).collect();
    assert!(lines.iter().any(|line| line.contains("\"restore\"")));
    assert!(!lines.iter().any(|line| line.contains("secret")));
}
