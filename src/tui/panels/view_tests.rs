//! Panels on the screen: open, in full, hidden, in the narrowest column, and the tokens that are looked at.

use crossterm::event::KeyCode;
use insta::assert_snapshot;
use ratatui::buffer::Buffer;

use super::super::super::event::Event;
use super::super::super::fixtures::{ANSWER, Desk, bill, decision, snapshot_with};
use super::super::super::skin::test_skin;
use super::super::super::state::Overlay;
use super::super::super::view::tests::{render, screens, text};
use super::super::ALL;
use super::*;
use crate::engine::{FinishReason, GenerationEvent, LaneState, Rule};

/// The stall in the middle of an answer.
fn looking_at_a_token() -> Desk {
    let mut desk = Desk::ready();
    desk.stream();
    desk.finish(FinishReason::Stop);
    desk
}

#[test]
fn a_token_is_looked_at() {
    for (columns, rows) in [(120, 36), (80, 24), (50, 15)] {
        let mut desk = looking_at_a_token();
        desk.event(Event::Resize { columns, rows });
        desk.key(KeyCode::F(4));
        desk.key(KeyCode::Char('S'));
        let buffer = render(&mut desk, columns, rows);
        assert_snapshot!(format!("a_token_is_looked_at_{columns}x{rows}"), text(&buffer));
        assert_eq!(selected(&buffer).trim(), "where", "{columns}x{rows}");
    }
}

/// What stands on cells in the selection's style.
fn selected(buffer: &Buffer) -> String {
    let style = test_skin().theme.selection;
    let cells = buffer.content.iter().filter(|cell| cell.modifier.contains(style.add_modifier));
    cells.map(|cell| cell.symbol()).collect()
}

/// Whatever the width, and wherever a line is wrapped.
#[test]
fn the_words_of_each_token_are_marked() {
    for (columns, rows) in [(120, 40), (60, 24), (30, 30)] {
        let mut desk = looking_at_a_token();
        desk.event(Event::Resize { columns, rows });
        desk.key(KeyCode::F(4));
        desk.key(KeyCode::Home);
        for word in ANSWER.split_inclusive(' ') {
            let shown: String = selected(&render(&mut desk, columns, rows)).split_whitespace().collect();
            let word: String = word.split_whitespace().collect();
            // The second column of a wide character has the style, too, and nothing on it.
            assert_eq!(shown, word, "{columns}x{rows}");
            desk.key(KeyCode::Right);
        }
    }
}

#[test]
fn new_text_does_not_carry_the_token_away() {
    let mut desk = Desk::ready();
    desk.event(Event::Resize { columns: 120, rows: 40 });
    desk.stream();
    desk.key(KeyCode::F(4));
    desk.key(KeyCode::Home);
    let first = selected(&render(&mut desk, 120, 40));
    assert_eq!(first.trim(), "The");
    for _ in 0..100 {
        desk.token("More.\n\n");
        desk.wait(10);
    }
    assert_eq!(selected(&render(&mut desk, 120, 40)), first);
}

#[test]
fn panels_in_full() {
    for panel in ALL {
        let mut desk = looking_at_a_token();
        desk.stream();
        desk.finish(FinishReason::Stop);
        desk.event(Event::Billed(Box::new(bill(Some(24.4)))));
        desk.event(Event::Resize { columns: 100, rows: 24 });
        desk.state.overlay = Some(Overlay::Panel(panel));
        desk.key(KeyCode::F(3));
        let name = panel.title().split([' ', ',']).next().unwrap_or_default();
        assert_snapshot!(format!("{name}_in_full_100x24"), text(&render(&mut desk, 100, 24)));
    }
}

#[test]
fn hidden_panels() {
    screens("hidden_panels", || {
        let mut desk = looking_at_a_token();
        desk.key(KeyCode::F(6));
        desk
    });
}

/// A panel says what it has to say in the narrowest column, and no panel leaves it.
#[test]
fn panels_in_the_narrowest_column() {
    let mut desk = looking_at_a_token();
    desk.event(Event::Resize { columns: 100, rows: 40 });
    assert_snapshot!("narrowest_column_100x40", text(&render(&mut desk, 100, 40)));
    for panel in ALL {
        for columns in 1..60 {
            for line in panel.lines(&desk.state, &test_skin(), columns, 9) {
                assert!(width(&line) <= columns, "{panel:?} {columns}: {line}");
            }
        }
    }
}

/// What folds away first is what is least missed, and the panels never overlap.
#[test]
fn panels_fold_as_the_screen_gets_lower() {
    let desk = Desk::ready();
    let mut before = ALL.len();
    for rows in (1..40u16).rev() {
        let area = Rect::new(72, 2, 48, rows);
        let places = arrange(&desk.state, area);
        assert!(places.len() <= before);
        before = places.len();
        for pair in places.windows(2) {
            assert!(pair[0].y + pair[0].rows < pair[1].y, "{rows}: {pair:?}");
        }
        if let Some(last) = places.last() {
            assert!(last.y + last.rows < area.bottom(), "{rows}: {last:?}");
        }
        assert_eq!(places[0].panel, Panel::Lane);
    }
}

/// Two answers, of which the second was measured; what they cost is worked out in the ledger's tests.
#[test]
fn cost() {
    screens("cost", || {
        let mut desk = Desk::ready();
        desk.state.prices = bill(None).entry.prices;
        for joules in [None, Some(24.4)] {
            desk.stream();
            desk.event(Event::Billed(Box::new(bill(joules))));
            desk.finish(FinishReason::Stop);
        }
        desk.key(KeyCode::BackTab);
        desk
    });
}

#[test]
fn the_cost_panel_says_what_is_not_known() {
    let mut desk = Desk::ready();
    let lines = |desk: &Desk| {
        let lines = Panel::Cost.lines(&desk.state, &test_skin(), 46, 3);
        lines.iter().map(|line| line.to_string().trim_end().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(lines(&desk), ["answer — no answer yet", "chat   —"]);
    desk.send("question");
    desk.route();
    desk.token("word ");
    assert_eq!(lines(&desk)[0], "answer  1000 in     1 out  energy —");
    let mut unmeasured = bill(None);
    unmeasured.entry.prices = None;
    desk.event(Event::Billed(Box::new(unmeasured)));
    assert_eq!(lines(&desk), ["answer  1000 in    58 out  no readable sensor", "chat    1000 in    58 out  energy —"]);
    let mut emulated = bill(Some(24.4));
    emulated.entry.emulated = true;
    desk.event(Event::Billed(Box::new(emulated)));
    assert_eq!(lines(&desk)[0], "answer  1000 in    58 out  24.4 J · emulated");
    let mut with_idle = bill(Some(24.4));
    with_idle.entry.energy.idle_watts = None;
    desk.event(Event::Billed(Box::new(with_idle)));
    assert_eq!(lines(&desk)[0], "answer  1000 in    58 out  24.4 J with idle");
    // Two of three answers were measured.
    assert_eq!(lines(&desk)[1], "chat    3000 in   174 out  48.8 J (2 of 3)");
    desk.send("/clear");
    assert_eq!(lines(&desk)[1], "chat   —");
}

/// On a machine without an NPU, whose reason is longer than a row: it is read whole, in one place.
#[test]
fn the_reason_why_a_lane_is_not_there() {
    let reason = "no NPU found (QNN plug-in installed); --emulate-npu simulates one";
    screens("without_an_npu", || {
        let mut desk = Desk::ready();
        desk.event(Event::Snapshot(snapshot_with(LaneState::Absent { reason: reason.into() })));
        desk.send("What is the capital of France?");
        let mut decision = decision();
        (decision.rule, decision.rejected[0].reason) = (Rule::OnlyReady, reason.into());
        decision.rejected[0].context_limit = 0;
        desk.generation(GenerationEvent::Routed(decision));
        desk
    });
}
