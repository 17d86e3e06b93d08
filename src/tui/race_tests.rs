//! The race on the screen: how it looks at three sizes, what keys do, and what is left of it in the conversation.

use crossterm::event::KeyCode;
use pretty_assertions::assert_eq;

use super::conversation::Kind;
use super::event::{Effect, Event, Mouse};
use super::fixtures::{ANSWER, Desk, decision, ms, snapshot, snapshot_with, snapshot_with_server};
use super::state::Overlay;
use super::view::tests::screens;
use crate::engine::{
    FinishReason, Finished, GenerationEvent, LaneId, LaneState, PrefillProgress, Role, RoutingDecision, Timings, Token,
    Usage,
};
use crate::ledger::EntryEnergy;
use crate::race::{Plan, RaceEvent};

const CPU: LaneId = LaneId::Cpu;
const NPU: LaneId = LaneId::Npu;

fn race(desk: &mut Desk, event: RaceEvent) -> Vec<Effect> {
    let number = desk.state.races;
    desk.event(Event::Race { number, event: Box::new(event) })
}

fn began(desk: &mut Desk, lane: LaneId) {
    let at = desk.now;
    race(desk, RaceEvent::Began { lane, round: 0, at });
    let decision = RoutingDecision { lane, emulated: lane == NPU, ..decision() };
    race(desk, RaceEvent::Answer { lane, event: GenerationEvent::Routed(decision) });
    let progress = PrefillProgress { done: 40, total: 40, reused: 0 };
    race(desk, RaceEvent::Answer { lane, event: GenerationEvent::PrefillProgress(progress) });
}

fn token(desk: &mut Desk, lane: LaneId, text: &str) {
    let token = Token {
        text: text.into(),
        thinking: String::new(),
        thinks: false,
        tool_calls: Vec::new(),
        id: 7,
        logprobs: None,
        at: desk.now,
        lane,
    };
    race(desk, RaceEvent::Answer { lane, event: GenerationEvent::Token(token) });
}

fn finish(desk: &mut Desk, lane: LaneId, reason: FinishReason) {
    let finished = Finished { reason, usage: Usage::default(), timings: Timings::default() };
    race(desk, RaceEvent::Answer { lane, event: GenerationEvent::Finished(finished) });
    let energy = EntryEnergy { reason: Some("no readable sensor".into()), ..EntryEnergy::default() };
    race(desk, RaceEvent::Energy { lane, energy });
}

/// A lane's answer: the first token after 40 times `step`, then one for each step, with a stall in the middle.
fn answer(desk: &mut Desk, lane: LaneId, words: usize, step: u64) {
    began(desk, lane);
    desk.wait(40 * step);
    for (index, word) in ANSWER.split_inclusive(' ').take(words).enumerate() {
        token(desk, lane, word);
        desk.wait(if index == 5 { 3 * step } else { step });
    }
}

/// The plan that was asked for.
fn start(desk: &mut Desk, typed: &str) -> Plan {
    let effects = desk.send(typed);
    match effects.as_slice() {
        [Effect::Race { plan, .. }] => (**plan).clone(),
        effects => panic!("{effects:?}"),
    }
}

const QUESTION: &str = "/race What is the capital of France?";

fn running() -> Desk {
    let mut desk = Desk::ready();
    start(&mut desk, QUESTION);
    answer(&mut desk, NPU, 60, 50);
    finish(&mut desk, NPU, FinishReason::Stop);
    answer(&mut desk, CPU, 20, 10);
    desk
}

fn over() -> Desk {
    let mut desk = Desk::ready();
    a_whole_race(&mut desk);
    desk
}

pub fn a_whole_race(desk: &mut Desk) {
    start(desk, QUESTION);
    answer(desk, NPU, 60, 50);
    finish(desk, NPU, FinishReason::Stop);
    answer(desk, CPU, 60, 10);
    finish(desk, CPU, FinishReason::Stop);
    race(desk, RaceEvent::Over { cancelled: false });
}

#[test]
fn a_race_that_runs() {
    screens("race_running", running);
}

#[test]
fn a_race_that_is_over() {
    screens("race_over", over);
}

#[test]
fn a_race_with_a_lane_that_fails() {
    screens("race_failed", || {
        let mut desk = Desk::ready();
        start(&mut desk, QUESTION);
        began(&mut desk, NPU);
        finish(&mut desk, NPU, FinishReason::Error("QNN error 1100, device lost".into()));
        answer(&mut desk, CPU, 60, 10);
        finish(&mut desk, CPU, FinishReason::Stop);
        race(&mut desk, RaceEvent::Over { cancelled: false });
        desk
    });
}

#[test]
fn the_race_is_left_with_the_winner_s_answer_in_the_conversation() {
    let mut desk = over();
    desk.key(KeyCode::Enter);
    assert!(desk.state.overlay.is_none() && desk.state.race.is_none());
    let messages = desk.state.conversation.messages();
    assert_eq!(messages.len(), 2);
    assert_eq!((messages[0].role, messages[0].content.as_str()), (Role::User, "What is the capital of France?"));
    assert!(ANSWER.starts_with(messages[1].content.trim_end()), "{}", messages[1].content);
    let blocks = desk.state.conversation.blocks();
    let Kind::Answer(header) = &blocks[1].kind else { panic!() };
    assert_eq!((header.lane, header.ttft), (Some(CPU), Some(ms(400))));
    let notice = blocks[2].shown();
    assert_eq!(
        notice,
        "Race, one after the other: npu emulated 19.3 tokens/s, first token 2.00 s; cpu 96.6 tokens/s, first token \
         400 ms.\ncpu gives 5.0x the tokens per second of npu: 96.6 and 19.3."
    );
    // The panel does not say that somebody asked for this lane.
    let rejected = &desk.state.decision().unwrap().0.rejected;
    assert!(rejected.iter().all(|other| other.lane != NPU || other.reason == "raced against it"), "{rejected:?}");
    // The conversation goes on behind it.
    let effects = desk.send("And of Italy?");
    let [Effect::Submit(request)] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(request.messages.len(), 3);
    assert!(!request.fresh);
}

#[test]
fn tab_chooses_whose_answer_is_kept() {
    let mut desk = over();
    desk.key(KeyCode::Tab);
    desk.key(KeyCode::Esc);
    let Kind::Answer(header) = &desk.state.conversation.blocks()[1].kind else { panic!() };
    assert_eq!((header.lane, header.emulated, header.ttft), (Some(NPU), true, Some(ms(2000))));
}

#[test]
fn without_a_text_the_last_message_is_raced_and_the_conversation_keeps_its_answer() {
    let mut desk = Desk::ready();
    desk.stream();
    desk.finish(FinishReason::Stop);
    let plan = start(&mut desk, "/race");
    assert_eq!(plan.start.prompt, "What is the capital of France, and why there?");
    assert_eq!(plan.request.messages.len(), 1);
    assert!(plan.request.fresh);
    race(&mut desk, RaceEvent::Over { cancelled: false });
    desk.key(KeyCode::Enter);
    let kinds: Vec<_> = desk.state.conversation.blocks().iter().map(|block| block.kind.clone()).collect();
    assert!(matches!(kinds.as_slice(), [Kind::User, Kind::Answer(_), Kind::Notice(_)]), "{kinds:?}");
}

#[test]
fn escape_cancels_and_then_leaves() {
    let mut desk = running();
    assert!(desk.key(KeyCode::Esc).contains(&Effect::CancelRace));
    assert!(matches!(desk.state.overlay, Some(Overlay::Race)));
    // What still comes of it changes nothing.
    token(&mut desk, CPU, "late");
    assert!(!desk.state.race.as_ref().unwrap().race.racers[1].shown().unwrap().text.contains("late"));
    desk.key(KeyCode::Esc);
    assert!(desk.state.race.is_none());
    let notice = desk.state.conversation.blocks().last().unwrap().shown().to_owned();
    assert!(notice.contains("The race was cancelled before two lanes were done."), "{notice}");
    // An old race's reports do not reach a new one.
    start(&mut desk, QUESTION);
    desk.event(Event::Race { number: 1, event: Box::new(RaceEvent::Over { cancelled: false }) });
    assert!(!desk.state.race.as_ref().unwrap().is_over());
    // Ctrl-C cancels, too, and twice it quits.
    assert!(desk.ctrl('c').contains(&Effect::CancelRace));
    assert!(matches!(desk.ctrl('c').as_slice(), [Effect::Quit(_)]));
}

#[test]
fn nothing_is_typed_or_pasted_into_a_race() {
    let mut desk = running();
    desk.type_text("hello");
    desk.event(Event::Paste("pasted".into()));
    assert!(desk.state.composer.is_empty() && matches!(desk.state.overlay, Some(Overlay::Race)));
}

#[test]
fn what_stands_in_the_way_of_a_race_is_said() {
    let mut desk = Desk::ready();
    assert!(desk.send("/race").is_empty());
    assert_eq!(desk.state.hint.as_deref(), Some("there is no message to race with; /race TEXT asks one"));
    desk.ctrl('u');
    desk.stream();
    desk.send("/race again");
    assert!(desk.state.hint.as_ref().unwrap().contains("an answer is running"));
    let mut alone = Desk::ready();
    alone.event(Event::Snapshot(snapshot_with(LaneState::Absent { reason: "no NPU here".into() })));
    alone.send("/race hi");
    assert_eq!(alone.state.composer.text(), "/race hi");
    let said = alone.state.hint.unwrap();
    assert_eq!(said, "a race is between two lanes at least, and only cpu can run (npu: no NPU here)");
}

/// The fixture's lanes, and a server.
fn with_a_server() -> Desk {
    let mut desk = Desk::ready();
    desk.event(Event::Snapshot(snapshot_with_server()));
    desk
}

#[test]
fn lanes_are_named_before_the_message() {
    for typed in ["/race cpu,remote Who?", "/race --lanes cpu,remote Who?"] {
        let mut desk = with_a_server();
        let plan = start(&mut desk, typed);
        let lanes: Vec<LaneId> = plan.start.entrants.iter().map(|entrant| entrant.lane).collect();
        assert_eq!((lanes, plan.start.prompt.as_str()), (vec![CPU, LaneId::Remote], "Who?"), "{typed}");
    }
    // Without names, those of this machine.
    let plan = start(&mut with_a_server(), "/race Who?");
    assert_eq!(plan.start.entrants.iter().map(|entrant| entrant.lane).collect::<Vec<_>>(), [NPU, CPU]);
}

#[test]
fn a_name_that_is_no_lane_is_quoted_and_what_was_typed_stays() {
    for (typed, hint) in [
        ("/race cpu,gpu Who?", "'gpu' is no lane; there are npu, cpu, remote, named as in /race npu,cpu,remote"),
        ("/race --lanes npx", "'npx' is no lane; there are npu, cpu, remote, named as in /race npu,cpu,remote"),
    ] {
        let mut desk = with_a_server();
        assert_eq!(desk.send(typed), [], "{typed}");
        assert_eq!((desk.state.hint.as_deref(), desk.state.composer.text()), (Some(hint), typed));
    }
    for (typed, notice) in [
        ("/race --lanes cpu Who?", "a race is between two lanes at least; cpu was named alone"),
        ("/race cpu,cpu Who?", "cpu was named twice; a race is between different lanes"),
    ] {
        let mut desk = with_a_server();
        assert_eq!(desk.send(typed), [], "{typed}");
        assert_eq!((desk.state.hint.as_deref(), desk.state.composer.text()), (Some(notice), typed));
    }
}

#[test]
fn the_palette_offers_lanes_to_race() {
    screens("race_lanes", || {
        let mut desk = with_a_server();
        desk.type_text("/race ");
        desk
    });
    let mut desk = with_a_server();
    desk.type_text("/race cpr");
    desk.key(KeyCode::Tab);
    assert_eq!(desk.state.composer.text(), "/race cpu,remote ");
    let effects = desk.send("Who?");
    assert!(matches!(effects.as_slice(), [Effect::Race { .. }]), "{effects:?}");
}

#[test]
fn lanes_that_share_no_cores_run_side_by_side() {
    let mut desk = Desk::ready();
    let mut hardware = snapshot();
    hardware.lanes[0].emulated = false;
    desk.event(Event::Snapshot(hardware));
    let plan = start(&mut desk, QUESTION);
    assert_eq!(plan.start.order, crate::race::Order::SideBySide);
}

/// Sizes from nothing to large, in all states, without a panic.
#[test]
fn every_size() {
    for make in [running, over, || {
        let mut desk = Desk::ready();
        start(&mut desk, QUESTION);
        desk
    }] {
        for (columns, rows) in [(1, 1), (2, 2), (10, 3), (20, 5), (39, 8), (60, 10), (99, 18), (100, 16), (300, 100)] {
            let mut desk = make();
            desk.event(Event::Resize { columns, rows });
            super::view::tests::render(&mut desk, columns, rows);
            desk.key(KeyCode::PageUp);
            desk.key(KeyCode::PageDown);
            super::view::tests::render(&mut desk, columns, rows);
        }
    }
}

#[test]
fn a_long_text_can_be_scrolled_and_no_further_than_it_is() {
    let mut desk = over();
    let draw = |desk: &mut Desk| super::view::tests::text(&super::view::tests::render(desk, 50, 15));
    let first = draw(&mut desk);
    for _ in 0..50 {
        desk.key(KeyCode::Down);
    }
    let last = draw(&mut desk);
    assert!(first != last);
    desk.key(KeyCode::PageUp);
    desk.key(KeyCode::PageUp);
    assert_eq!(draw(&mut desk), first);
}

const MARKDOWN: &str = "## Rivers\n\nThree of **many**:\n\n- the *Seine*\n- the `Loire`\n\n| river | km |\n| --- | --- |\n\
    | Seine | 775 |\n| Loire | 1006 |\n\n```rust\nfn main() {\n    let longest = \"Loire\";\n}\n```\n";

fn says_markdown() -> Desk {
    let mut desk = Desk::ready();
    start(&mut desk, QUESTION);
    for (lane, step, part) in [(NPU, 50, MARKDOWN.len()), (CPU, 10, MARKDOWN.len() / 2)] {
        began(&mut desk, lane);
        desk.wait(40 * step);
        for piece in MARKDOWN[..part].split_inclusive(' ') {
            token(&mut desk, lane, piece);
            desk.wait(step);
        }
        if lane == NPU {
            finish(&mut desk, lane, FinishReason::Stop);
        }
    }
    desk
}

#[test]
fn the_texts_are_read_as_markdown() {
    screens("race_markdown", says_markdown);
    // As the conversation shows it when the race is left with it, row by row.
    let mut desk = says_markdown();
    race(&mut desk, RaceEvent::Over { cancelled: false });
    desk.event(Event::Resize { columns: 120, rows: 60 });
    let column = |screen: &str| -> Vec<String> {
        let rows = screen.lines().map(|line| line.chars().skip(1).take(50).collect::<String>());
        let rows = rows.skip_while(|row| !row.starts_with("Rivers")).take(16);
        rows.map(|row| row.trim_end().to_owned()).collect()
    };
    let raced = column(&super::view::tests::text(&super::view::tests::render(&mut desk, 120, 60)));
    desk.key(KeyCode::Enter);
    let told = column(&super::view::tests::text(&super::view::tests::render(&mut desk, 120, 60)));
    assert_eq!(raced, told);
    assert!(raced.iter().any(|row| row.contains("│ 1006")), "{raced:?}");
    // F5 shows it as it was written, here too.
    let mut desk = says_markdown();
    desk.key(KeyCode::F(5));
    let shown = super::view::tests::text(&super::view::tests::render(&mut desk, 120, 36));
    assert!(shown.contains("Three of **many**:"), "{shown}");
}

#[test]
fn thinking_is_told_and_can_be_unfolded() {
    let mut desk = Desk::ready();
    start(&mut desk, QUESTION);
    began(&mut desk, NPU);
    for word in ["Well, ", "Paris ", "it is."] {
        desk.wait(50);
        let token = Token {
            text: String::new(),
            thinking: word.into(),
            thinks: true,
            tool_calls: Vec::new(),
            id: 7,
            logprobs: None,
            at: desk.now,
            lane: NPU,
        };
        race(&mut desk, RaceEvent::Answer { lane: NPU, event: GenerationEvent::Token(token) });
    }
    let draw = |desk: &mut Desk| super::view::tests::text(&super::view::tests::render(desk, 120, 36));
    let folded = draw(&mut desk);
    assert!(folded.contains("thinks for 3 tokens, 100 ms") && !folded.contains("Well,"), "{folded}");
    desk.ctrl('t');
    assert!(draw(&mut desk).contains("Well, Paris it is."));
}

#[test]
fn a_reader_who_has_scrolled_up_is_left_there_until_the_end_is_in_view_again() {
    let mut desk = says_markdown();
    desk.event(Event::Resize { columns: 50, rows: 15 });
    let draw = |desk: &mut Desk| super::view::tests::text(&super::view::tests::render(desk, 50, 15));
    let text = |screen: &str| screen.lines().skip(6).take(6).map(str::to_owned).collect::<Vec<_>>();
    draw(&mut desk);
    for _ in 0..3 {
        desk.event(Event::Mouse(Mouse::WheelUp));
    }
    let before = text(&draw(&mut desk));
    assert!(before[0].contains("Rivers"), "{before:?}");
    for _ in 0..10 {
        token(&mut desk, CPU, "more of it\n\n");
    }
    assert_eq!(text(&draw(&mut desk)), before);
    for _ in 0..30 {
        desk.event(Event::Mouse(Mouse::WheelDown));
    }
    token(&mut desk, CPU, "the newest");
    assert!(draw(&mut desk).contains("the newest"));
}

#[test]
fn a_click_looks_at_the_lane_that_it_meets() {
    let mut desk = over();
    desk.event(Event::Resize { columns: 120, rows: 36 });
    super::view::tests::render(&mut desk, 120, 36);
    for (column, focus) in [(10, 0), (90, 1)] {
        desk.event(Event::Mouse(Mouse::Click { column, row: 15 }));
        assert_eq!(desk.state.race.as_ref().unwrap().focus, focus);
        assert!(matches!(desk.state.overlay, Some(Overlay::Race)));
    }
}

#[test]
fn lanes_side_by_side_and_three_of_them() {
    screens("race_side_by_side", || {
        let mut desk = Desk::ready();
        let mut hardware = snapshot();
        hardware.lanes[0].emulated = false;
        desk.event(Event::Snapshot(hardware));
        start(&mut desk, QUESTION);
        for lane in [NPU, CPU] {
            let at = desk.now;
            race(&mut desk, RaceEvent::Began { lane, round: 0, at });
        }
        desk.wait(400);
        for word in MARKDOWN.split_inclusive(' ').take(20) {
            token(&mut desk, NPU, word);
            desk.wait(10);
            token(&mut desk, CPU, word);
            desk.wait(15);
        }
        desk
    });
    screens("race_three_lanes", || {
        let mut desk = with_a_server();
        start(&mut desk, "/race npu,cpu,remote What is the capital of France?");
        for (lane, step) in [(NPU, 50), (CPU, 10), (LaneId::Remote, 20)] {
            answer(&mut desk, lane, 60, step);
            finish(&mut desk, lane, FinishReason::Stop);
        }
        race(&mut desk, RaceEvent::Over { cancelled: false });
        desk
    });
}

#[test]
fn a_question_that_is_cut_is_whole_behind_tab() {
    const LONG: &str = "What is the capital of France, and which three things have made it so? Be short, please, \
        and name the river that flows through it as well as its two islands.";
    let asked = || {
        let mut desk = Desk::ready();
        start(&mut desk, &format!("/race {LONG}"));
        desk
    };
    // One lane after the other is looked at, and then the page.
    let page = |columns, rows| {
        let mut desk = asked();
        desk.event(Event::Resize { columns, rows });
        let looks = (0..3).map(|_| {
            let shown = super::view::tests::text(&super::view::tests::render(&mut desk, columns, rows));
            desk.key(KeyCode::Tab);
            shown
        });
        looks.collect::<Vec<String>>()
    };
    for (columns, rows) in [(120, 36), (80, 24), (50, 15)] {
        let seen = page(columns, rows);
        assert!(seen[1].contains("Tab question") || seen[1].contains("Tab the whole question"), "{}", seen[1]);
        let words = |shown: &str| shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words(&seen[2]).contains(LONG), "{}", seen[2]);
    }
    // One that stands in the title needs no page.
    let mut desk = running();
    assert!(!super::view::tests::text(&super::view::tests::render(&mut desk, 120, 36)).contains("question"));
}

#[test]
fn a_verdict_that_is_cut_is_whole_behind_tab() {
    screens("race_verdict", || {
        let mut desk = over();
        desk.event(Event::Resize { columns: 50, rows: 15 });
        super::view::tests::render(&mut desk, 50, 15);
        desk.key(KeyCode::Tab);
        desk
    });
    let mut desk = over();
    desk.event(Event::Resize { columns: 50, rows: 15 });
    let draw = |desk: &mut Desk| super::view::tests::text(&super::view::tests::render(desk, 50, 15));
    assert!(draw(&mut desk).contains("Tab verdict"));
    desk.key(KeyCode::Tab);
    let mut seen = String::new();
    for _ in 0..4 {
        seen.push_str(&draw(&mut desk).replace('\n', ""));
        desk.key(KeyCode::PageDown);
    }
    for sentence in crate::race::verdict::sentences(&desk.state.race.as_ref().unwrap().race) {
        let last = sentence.rsplit(' ').next().unwrap();
        assert!(seen.contains(last), "{sentence}");
    }
    // What is kept is the lane that was looked at.
    desk.key(KeyCode::Enter);
    let Kind::Answer(header) = &desk.state.conversation.blocks()[1].kind else { panic!() };
    assert_eq!(header.lane, Some(CPU));
}
