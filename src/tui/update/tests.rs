use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::super::conversation::{Block, Kind, Level};
use super::super::fixtures::{Desk, bill, decision, lane_change, ms, snapshot, snapshot_with};
use super::*;
use crate::engine::{ContextTrim, FinishReason, GenerationEvent, LaneId, LaneState, Role, RoutingDecision};

fn ending(desk: &Desk) -> Option<(Level, String)> {
    desk.state.conversation.blocks().iter().rev().find_map(|block| match &block.kind {
        Kind::Answer(header) => Some(header.ending.clone()),
        Kind::User | Kind::Notice(_) => None,
    })?
}

fn texts(desk: &Desk) -> Vec<&str> {
    desk.state.conversation.blocks().iter().map(Block::shown).collect()
}

fn submitted(effects: &[Effect]) -> Option<Vec<(Role, String)>> {
    effects.iter().find_map(|effect| match effect {
        Effect::Submit(request) => Some(request.messages.iter().map(|m| (m.role, m.content.clone())).collect()),
        _ => None,
    })
}

#[test]
fn enter_sends_what_was_typed_with_the_turns_before() {
    let mut desk = Desk::ready();
    desk.state.settings.system = Some("Be brief.".into());
    let effects = desk.send("one");
    assert_eq!(submitted(&effects), Some(vec![(Role::System, "Be brief.".into()), (Role::User, "one".into())]));
    assert!(desk.state.composer.is_empty());
    desk.token("two");
    desk.finish(FinishReason::Stop);
    let effects = desk.send("three");
    let said = submitted(&effects).unwrap();
    assert_eq!(said[1..], [(Role::User, "one".into()), (Role::Assistant, "two".into()), (Role::User, "three".into())]);
}

#[test]
fn nothing_is_sent_for_nothing() {
    let mut desk = Desk::ready();
    assert_eq!(desk.send("  "), vec![]);
    assert!(desk.state.conversation.is_empty());
}

#[test]
fn new_lines_are_typed_with_ctrl_j_and_alt_enter() {
    let mut desk = Desk::ready();
    desk.type_text("a");
    desk.ctrl('j');
    desk.type_text("b");
    desk.event(Event::Key(KeyEvent::new(KeyCode::Enter, KeyModifiers::ALT)));
    desk.event(Event::Paste("c\r\nd".into()));
    assert_eq!(desk.state.composer.text(), "a\nb\nc\nd");
}

#[test]
fn a_message_sent_while_loading_waits_for_the_engine() {
    let mut desk = Desk::loading();
    assert_eq!(submitted(&desk.send("early")), None);
    assert_eq!(desk.state.queue, ["early"]);
    let effects = desk.event(Event::EngineLoaded(snapshot()));
    assert!(submitted(&effects).is_some());
    assert!(desk.state.queue.is_empty());
}

#[test]
fn what_waits_for_the_engine_can_be_taken_back() {
    let mut desk = Desk::loading();
    desk.send("early");
    desk.key(KeyCode::Esc);
    assert_eq!((desk.state.queue.len(), desk.state.composer.text()), (0, "early"));
    desk.key(KeyCode::Enter);
    desk.ctrl('c');
    assert_eq!(submitted(&desk.event(Event::EngineLoaded(snapshot()))), None);
}

#[test]
fn messages_sent_while_busy_follow_one_by_one() {
    let mut desk = Desk::ready();
    desk.send("one");
    assert_eq!(submitted(&desk.send("two")), None);
    desk.send("three");
    desk.token("answer");
    assert!(submitted(&desk.finish(FinishReason::Stop)).is_some());
    assert_eq!(desk.state.queue, ["three"]);
}

#[test]
fn escape_cancels_keeps_the_text_and_gives_back_what_waited() {
    let mut desk = Desk::ready();
    desk.send("question");
    desk.send("waiting");
    desk.token("half an ans");
    let effects = desk.key(KeyCode::Esc);
    assert_eq!(effects, [Effect::CancelGeneration, Effect::RefreshSnapshot]);
    assert_eq!(ending(&desk), Some((Level::Warning, "cancelled".into())));
    assert_eq!(texts(&desk), ["question", "half an ans"]);
    assert_eq!(desk.state.composer.text(), "waiting");
    // What the stream had sent before it was dropped changes nothing any more.
    desk.token("late");
    assert_eq!(texts(&desk), ["question", "half an ans"]);
    assert!(!desk.state.busy());
}

#[test]
fn ends_are_told_apart() {
    for (reason, expected) in [
        (FinishReason::Stop, None),
        (FinishReason::Length, Some((Level::Warning, "cut off after 2 tokens, it may not be complete"))),
        (
            FinishReason::ContextFull,
            Some((Level::Warning, "the context was full after 2 tokens, it may not be complete")),
        ),
        (FinishReason::Cancelled, Some((Level::Warning, "cancelled"))),
        (FinishReason::Error("QNN\x1b lost".into()), Some((Level::Error, "error: QNN^[ lost"))),
    ] {
        let mut desk = Desk::ready();
        desk.send("q");
        desk.token("a");
        desk.wait(10);
        desk.token("b");
        desk.finish(reason);
        assert_eq!(ending(&desk), expected.map(|(level, text)| (level, text.to_string())));
    }
}

#[test]
fn a_lane_that_dies_without_a_word_is_an_error() {
    let mut desk = Desk::ready();
    desk.send("q");
    desk.event(Event::GenerationLost);
    assert_eq!(ending(&desk).unwrap().0, Level::Error);
    assert!(!desk.state.busy());
}

#[test]
fn a_lane_that_is_absent_or_broke_is_not_shown_as_running() {
    let mut desk = Desk::ready();
    let with = |lane: LaneId, state: LaneState| {
        let mut snapshot = snapshot();
        snapshot.lanes.iter_mut().filter(|status| status.id == lane).for_each(|status| status.state = state.clone());
        Event::Snapshot(snapshot)
    };
    desk.state.settings.lane = Some(LaneId::Npu);
    assert_eq!(desk.state.active_lane().map(|lane| lane.id), Some(LaneId::Npu));
    desk.event(with(LaneId::Npu, LaneState::Absent { reason: "no NPU found".into() }));
    assert_eq!(desk.state.active_lane(), None);
    desk.send("q");
    desk.route();
    assert_eq!(desk.state.active_lane().map(|lane| lane.id), Some(LaneId::Cpu));
    desk.event(with(LaneId::Cpu, LaneState::Failed { reason: "it broke".into() }));
    assert_eq!(desk.state.active_lane(), None);
}

#[test]
fn ctrl_c_cancels_first_and_quits_when_pressed_again_in_time() {
    let mut desk = Desk::ready();
    desk.send("q");
    assert_eq!(desk.ctrl('c')[0], Effect::CancelGeneration);
    assert!(desk.state.quit_armed.is_some());
    desk.wait(1999);
    assert_eq!(desk.ctrl('c'), [Effect::Quit(Exit::Quit)]);
}

#[test]
fn ctrl_c_clears_and_forgets_after_two_seconds() {
    let mut desk = Desk::ready();
    desk.type_text("half a thought");
    assert_eq!(desk.ctrl('c'), []);
    assert!(desk.state.composer.is_empty());
    assert_eq!(desk.state.deadline(desk.now), Some(desk.now + Duration::from_secs(2)));
    desk.wait(2000);
    desk.event(Event::Tick);
    assert!(desk.state.quit_armed.is_none());
    assert_eq!(desk.ctrl('c'), []);
    // Another key in between means that it was no wish to quit.
    desk.type_text("x");
    assert_eq!(desk.ctrl('c'), []);
}

#[test]
fn ctrl_d_quits_only_when_nothing_is_typed() {
    let mut desk = Desk::ready();
    desk.type_text("x");
    assert_eq!(desk.ctrl('d'), []);
    desk.ctrl('u');
    assert_eq!(desk.ctrl('d'), [Effect::Quit(Exit::Quit)]);
}

#[test]
fn unknown_commands_are_never_sent_to_the_model() {
    let mut desk = Desk::ready();
    assert_eq!(desk.send("/frobnicate now"), []);
    assert!(desk.state.hint.as_ref().unwrap().contains("'/frobnicate' is no command"));
    assert_eq!(desk.state.composer.text(), "/frobnicate now");
    desk.ctrl('u');
    assert!(submitted(&desk.send(" /etc/passwd is a file")).is_some());
}

#[test]
fn clear_begins_anew_and_quit_leaves() {
    let mut desk = Desk::ready();
    desk.stream();
    assert!(desk.send("/clear").contains(&Effect::CancelGeneration));
    assert!(desk.state.conversation.is_empty() && desk.state.answer.is_none());
    assert_eq!(desk.send("/quit"), [Effect::Quit(Exit::Quit)]);
}

#[test]
fn the_router_is_asked_once_typing_pauses() {
    let mut desk = Desk::ready();
    desk.type_text("hello");
    desk.wait(149);
    assert_eq!(desk.event(Event::Tick), []);
    desk.wait(1);
    let effects = desk.event(Event::Tick);
    let [Effect::Preview { revision, request }] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(request.messages.last().unwrap().content, "hello");
    // An answer about an older text is not shown; the new text is asked about instead.
    desk.type_text("!");
    desk.wait(150);
    assert_eq!(desk.event(Event::Tick), [], "one question at a time");
    desk.event(Event::Previewed { revision: *revision, result: Ok(decision()) });
    assert_eq!(desk.state.preview.shown, None);
    assert!(matches!(desk.event(Event::Tick)[..], [Effect::Preview { .. }]));
}

#[test]
fn notices_stand_above_the_answer_and_the_answer_goes_on() {
    let mut desk = Desk::ready();
    desk.send("q");
    desk.generation(GenerationEvent::ContextTrimmed(ContextTrim {
        dropped_messages: 4,
        tokens_before: 9000,
        tokens_after: 7000,
        context_limit: 8000,
    }));
    desk.token("one ");
    desk.token("two");
    let texts = texts(&desk);
    assert_eq!(texts.len(), 3);
    assert!(texts[1].contains("7000 of 9000 tokens now"));
    assert_eq!(texts[2], "one two");
}

#[test]
fn a_change_of_the_lane_is_told_within_the_answer_and_not_to_the_model() {
    let mut desk = Desk::ready();
    desk.send("q");
    desk.token_on(LaneId::Npu, "one ");
    assert_eq!(desk.generation(GenerationEvent::LaneChanged(lane_change())), [Effect::RefreshSnapshot]);
    desk.token("two");
    assert_eq!(texts(&desk), ["q", "one two"]);
    let block = &desk.state.conversation.blocks()[1];
    assert_eq!(block.mark(0), "npu to cpu after 12 tokens: npu failed: QNN error 1100, device lost");
    let Kind::Answer(header) = &block.kind else { panic!("{:?}", block.kind) };
    assert_eq!((header.lane, header.emulated), (Some(LaneId::Cpu), false));
    assert_eq!(desk.state.active_lane().map(|lane| lane.id), Some(LaneId::Cpu));
    desk.finish(FinishReason::Stop);
    assert_eq!(desk.state.conversation.messages()[1].content, "one two");
}

fn requested(effects: &[Effect]) -> Option<Option<LaneId>> {
    effects.iter().find_map(|effect| match effect {
        Effect::Submit(request) | Effect::Preview { request, .. } => Some(request.lane),
        _ => None,
    })
}

#[test]
fn a_lane_is_asked_for_once_or_from_now_on() {
    let mut desk = Desk::ready();
    let mut lane_of = |typed: &str| {
        let effects = desk.send(typed);
        if desk.state.busy() {
            desk.token("answer");
            desk.finish(FinishReason::Stop);
        }
        (requested(&effects), desk.state.settings.lane)
    };
    let (npu, cpu) = (Some(LaneId::Npu), Some(LaneId::Cpu));
    assert_eq!(lane_of("one"), (Some(None), None));
    assert_eq!(lane_of("/npu two"), (Some(npu), None));
    assert_eq!(lane_of("three"), (Some(None), None));
    assert_eq!(lane_of("/npu"), (None, npu));
    assert_eq!(lane_of("four"), (Some(npu), npu));
    assert_eq!(lane_of("/cpu five"), (Some(cpu), npu));
    assert_eq!(lane_of("/auto six"), (Some(None), npu));
    assert_eq!(lane_of("/auto"), (None, None));
    let questions: Vec<String> = desk.state.conversation.messages().into_iter().step_by(2).map(|m| m.content).collect();
    assert_eq!(questions, ["one", "two", "three", "four", "five", "six"]);
}

#[test]
fn a_lane_that_is_not_there_is_not_chosen() {
    let mut desk = Desk::ready();
    desk.event(Event::Snapshot(snapshot_with(LaneState::Absent { reason: "no NPU found".into() })));
    assert_eq!(desk.send("/npu"), []);
    assert_eq!(desk.state.hint.as_deref(), Some("no npu lane: no NPU found"));
    assert_eq!((desk.state.settings.lane, desk.state.composer.text()), (None, "/npu"));
    // One that broke is tried again.
    desk.event(Event::Snapshot(snapshot_with(LaneState::Failed { reason: "it hung".into() })));
    desk.key(KeyCode::Enter);
    assert_eq!(desk.state.settings.lane, Some(LaneId::Npu));
}

#[test]
fn the_router_is_asked_about_a_message_behind_a_lane_s_name() {
    let mut desk = Desk::ready();
    desk.type_text("/npu");
    assert_eq!(desk.state.preview.due, None);
    desk.type_text(" hello");
    desk.wait(150);
    let effects = desk.event(Event::Tick);
    assert_eq!(requested(&effects), Some(Some(LaneId::Npu)));
}

#[test]
fn a_lane_for_one_message_waits_with_it() {
    let mut desk = Desk::ready();
    desk.send("one");
    desk.send("/npu two");
    assert_eq!(desk.state.queue, ["/npu two"]);
    desk.token("answer");
    let effects = desk.finish(FinishReason::Stop);
    assert_eq!((requested(&effects), submitted(&effects).unwrap()[2].1.as_str()), (Some(Some(LaneId::Npu)), "two"));
}

#[test]
fn a_lane_that_loads_is_looked_after_until_it_is_ready() {
    let mut desk = Desk::ready();
    desk.event(Event::Snapshot(snapshot_with(LaneState::Loading { since: desk.now })));
    desk.event(Event::Tick);
    desk.type_text("hello");
    desk.wait(250);
    desk.event(Event::Previewed { revision: 0, result: Ok(decision()) });
    assert!(desk.event(Event::Tick).contains(&Effect::RefreshSnapshot));
    desk.state.preview.asked = None;
    assert_eq!(desk.state.preview.due, None);
    desk.event(Event::Snapshot(snapshot()));
    assert_eq!((desk.state.refresh, desk.state.preview.due), (None, Some(desk.now)));
}

#[test]
fn a_broken_lane_that_was_asked_for_is_looked_after_while_it_opens() {
    let mut desk = Desk::ready();
    desk.event(Event::Snapshot(snapshot_with(LaneState::Failed { reason: "it hung".into() })));
    desk.send("/npu hello");
    let decision = RoutingDecision { lane: LaneId::Npu, ..decision() };
    desk.event(Event::Generation(GenerationEvent::Routed(decision)));
    desk.wait(250);
    assert!(desk.event(Event::Tick).contains(&Effect::RefreshSnapshot));
}

/// A ledger that cannot be written is said in the conversation, and the chat goes on.
#[test]
fn what_an_answer_took_is_added_up_and_a_complaint_is_shown() {
    let mut desk = Desk::ready();
    desk.stream();
    let mut billed = bill(Some(24.4));
    billed.complaint = Some("the ledger cannot be written: no space".into());
    desk.event(Event::Billed(Box::new(billed)));
    desk.finish(FinishReason::Stop);
    assert!(texts(&desk).last().unwrap().contains("no space"), "{:?}", texts(&desk));
    assert!(ending(&desk).is_none());
    assert_eq!((desk.state.spent.answers, desk.state.spent.tokens_out), (1, 58));
    assert!(submitted(&desk.send("next")).is_some());
    assert_eq!((&desk.state.bill, desk.state.spent.answers), (&None, 1));
}

#[test]
fn a_question_without_an_answer_says_that_it_is_left_out() {
    let mut desk = Desk::ready();
    desk.send("q");
    desk.key(KeyCode::Esc);
    assert_eq!(ending(&desk).unwrap().1, "cancelled; what follows leaves this question out");
    assert_eq!(submitted(&desk.send("next")).unwrap().len(), 1);
}

#[test]
fn a_failed_engine_says_why_and_keeps_what_was_typed() {
    let mut desk = Desk::loading();
    desk.send("early");
    desk.event(Event::EngineFailed("no library\nsecond line".into()));
    assert!(texts(&desk)[0].contains("no library\nsecond line"));
    assert!(texts(&desk)[1].contains("/example/ortalk.log"));
    assert_eq!(desk.state.composer.text(), "early");
    assert_eq!(desk.key(KeyCode::Enter), []);
    assert!(desk.state.hint.is_some());
    assert_eq!(desk.state.composer.text(), "early");
}

#[test]
fn loading_wakes_once_a_second_and_an_idle_screen_never() {
    let mut desk = Desk::loading();
    desk.wait(300);
    assert_eq!(desk.state.deadline(desk.now), Some(desk.now + ms(700)));
    let mut desk = Desk::ready();
    desk.event(Event::Tick);
    assert_eq!(desk.state.deadline(desk.now), None);
}

#[test]
fn a_terminal_that_is_gone_ends_the_program() {
    let mut desk = Desk::ready();
    assert_eq!(desk.event(Event::InputLost), [Effect::Quit(Exit::TerminalLost)]);
    assert_eq!(desk.event(Event::Signal(Signal::Terminate(15))), [Effect::Quit(Exit::Signal(15))]);
    assert_eq!((Exit::Signal(15).code(), Exit::TerminalLost.code(), Exit::Quit.code()), (143, 129, 0));
}

fn any_event() -> impl Strategy<Value = u8> {
    0u8..58
}

/// One of everything that can happen, by number.
fn happen(desk: &mut Desk, event: u8, size: (u16, u16)) {
    use KeyCode::*;
    let keys = [
        Enter,
        Esc,
        Up,
        Down,
        Left,
        Right,
        Home,
        End,
        PageUp,
        PageDown,
        Tab,
        BackTab,
        Backspace,
        Delete,
        F(1),
        Char('x'),
        Char('語'),
        Char(' '),
    ];
    match event {
        0..18 => drop(desk.key(keys[usize::from(event)])),
        18 => drop(desk.ctrl('w')),
        19 => drop(desk.ctrl('k')),
        20 => drop(desk.ctrl('y')),
        21 => drop(desk.ctrl('j')),
        22 => drop(desk.ctrl('c')),
        23 => drop(desk.event(Event::Paste("a\r\nb\x1b[2J 👩‍👩‍👧 e\u{301}".into()))),
        24 => drop(desk.event(Event::Resize { columns: size.0, rows: size.1 })),
        25 => desk.route(),
        26 => desk.prefill(500),
        27..32 => drop(desk.token("word 日本 👍🏽\n")),
        32 => drop(desk.finish_if_busy(FinishReason::Stop)),
        33 => drop(desk.finish_if_busy(FinishReason::Error("broken\nin two".into()))),
        34 => drop(desk.event(Event::GenerationLost)),
        35 => drop(desk.event(Event::EngineFailed("no".into()))),
        36 => drop(desk.event(Event::EngineLoaded(snapshot()))),
        37 => drop(desk.send("/clear")),
        38 => drop(desk.send("hello")),
        39 => drop(desk.send_change_if_busy()),
        40 => drop(desk.send("/npu hello")),
        41 => desk.type_text("/s"),
        42 => drop(desk.key(F(2))),
        43 => drop(desk.event(Event::LogRead(Ok("one\ntwo\x1b[2J".into())))),
        44 => drop(desk.send("/set")),
        45 => drop(desk.event(Event::Key(KeyEvent::new(Up, KeyModifiers::ALT)))),
        46 => drop(desk.ctrl('o')),
        47..56 => drop(desk.key(Char(char::from(b"ermbdukhl"[usize::from(event - 47)])))),
        56 => drop(desk.send("/undo")),
        _ => drop(desk.event(Event::Tick)),
    }
    desk.wait(37);
}

impl Desk {
    fn send_change_if_busy(&mut self) -> Vec<Effect> {
        if self.state.busy() { self.generation(GenerationEvent::LaneChanged(lane_change())) } else { Vec::new() }
    }

    fn finish_if_busy(&mut self, reason: FinishReason) -> Vec<Effect> {
        if self.state.busy() { self.finish(reason) } else { Vec::new() }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_order_of_events_and_no_size_panics(
        events in prop::collection::vec((any_event(), (0u16..140, 0u16..50)), 1..60)
    ) {
        let mut desk = Desk::ready();
        desk.state.chats.has_store = true;
        for (event, size) in events {
            happen(&mut desk, event, size);
            let blocks: Vec<u32> = desk.state.conversation.blocks().iter().filter_map(|block| block.message).collect();
            let path: Vec<u32> = desk.state.chats.tree.path().iter().map(|message| message.id).collect();
            prop_assert_eq!(blocks, path);
            super::super::view::tests::render(&mut desk, size.0, size.1);
        }
    }
}
