//! Panels opened, zoomed and hidden, and the tokens of answers, key by key.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::super::event::Event;
use super::super::fixtures::{Desk, lane_change, snapshot};
use super::super::keys::Context;
use super::super::panels::Panel;
use super::super::state::Overlay;
use crate::engine::{FinishReason, GenerationEvent, LaneId, PrefillProgress};

fn open_panel(desk: &Desk) -> Option<Panel> {
    desk.state.overlay.as_ref().and_then(Overlay::panel)
}

#[test]
fn tab_walks_through_the_panels_whatever_the_screen_s_size() {
    use Panel::{Context, Cost, Device, Lane, Latency, Route, Speed};
    for (columns, rows) in [(120, 36), (80, 24), (50, 15)] {
        let mut desk = Desk::ready();
        desk.event(Event::Resize { columns, rows });
        let mut seen = Vec::new();
        for _ in 0..8 {
            desk.key(KeyCode::Tab);
            seen.extend(open_panel(&desk));
        }
        assert_eq!(seen, [Lane, Speed, Latency, Route, Context, Device, Cost]);
        assert_eq!(open_panel(&desk), None);
        desk.key(KeyCode::BackTab);
        assert_eq!(open_panel(&desk), Some(Cost));
        assert_eq!(desk.key(KeyCode::Esc), []);
        assert!(desk.state.overlay.is_none());
    }
}

#[test]
fn enter_and_f3_zoom_the_open_panel_and_esc_goes_back_step_by_step() {
    let mut desk = Desk::ready();
    desk.key(KeyCode::F(3));
    assert_eq!((open_panel(&desk), desk.state.is_zoomed()), (Some(Panel::Lane), true));
    desk.key(KeyCode::Tab);
    assert_eq!((open_panel(&desk), desk.state.is_zoomed()), (Some(Panel::Speed), true));
    desk.key(KeyCode::F(3));
    assert!(!desk.state.is_zoomed());
    desk.key(KeyCode::Enter);
    assert!(desk.state.is_zoomed());
    desk.key(KeyCode::Esc);
    assert_eq!((open_panel(&desk), desk.state.is_zoomed()), (Some(Panel::Speed), false));
    desk.key(KeyCode::Esc);
    assert_eq!(open_panel(&desk), None);
    // A panel that is opened anew is not zoomed, and with text typed Enter sends it.
    desk.key(KeyCode::Tab);
    assert!(!desk.state.is_zoomed());
    assert!(!desk.send("question").is_empty());
    assert!(!desk.state.is_zoomed());
}

#[test]
fn f6_gives_the_panels_room_to_the_conversation() {
    for (columns, rows) in [(120, 36), (80, 24)] {
        let mut desk = Desk::ready();
        desk.event(Event::Resize { columns, rows });
        let before = desk.state.layout().conversation;
        desk.key(KeyCode::F(6));
        let layout = desk.state.layout();
        assert!(layout.panels.is_empty() && layout.strip.is_empty());
        assert!(layout.conversation.area() > before.area());
        desk.key(KeyCode::F(6));
        assert_eq!(desk.state.layout().conversation, before);
    }
}

/// Two answers of five and of six tokens; the second one stalls at its fifth.
fn two_answers() -> Desk {
    let mut desk = Desk::ready();
    for (words, stall) in [("Paris. It lies on ", 99), ("Rome, on the Tiber, inland. ", 3)] {
        desk.send("Where?");
        desk.route();
        desk.prefill(1000);
        desk.wait(40);
        for (index, word) in words.split_inclusive(' ').enumerate() {
            desk.token(word);
            desk.wait(if index == stall { 70 } else { 10 });
        }
        desk.finish(FinishReason::Stop);
    }
    desk
}

fn token(desk: &Desk) -> Option<(usize, &str, u128)> {
    let (block, index) = desk.state.token()?;
    let token = block.trace().tokens()[index];
    Some((index + 1, &block.shown()[token.text()], token.took.as_millis()))
}

#[test]
fn the_token_cursor_goes_through_every_answer() {
    let mut desk = two_answers();
    assert_eq!((desk.state.context(), token(&desk)), (Context::Compose, None));
    desk.key(KeyCode::F(4));
    assert_eq!((desk.state.context(), token(&desk)), (Context::Token, Some((5, "inland. ", 70))));
    for (key, expected) in [
        (KeyCode::Left, (4, "Tiber, ", 10)),
        (KeyCode::Char('s'), (5, "inland. ", 70)),
        (KeyCode::Right, (5, "inland. ", 70)),
        (KeyCode::Home, (1, "Rome, ", 40)),
        (KeyCode::Left, (1, "Rome, ", 40)),
        (KeyCode::PageDown, (5, "inland. ", 70)),
        (KeyCode::Char('S'), (5, "inland. ", 70)),
        (KeyCode::Up, (4, "on ", 10)),
        (KeyCode::PageUp, (1, "Paris. ", 40)),
        (KeyCode::Up, (1, "Paris. ", 40)),
        (KeyCode::Down, (5, "inland. ", 70)),
        (KeyCode::Down, (5, "inland. ", 70)),
    ] {
        desk.key(key);
        assert_eq!(token(&desk), Some(expected), "{key:?}");
    }
    // Letters are not typed, and what they cannot do is said.
    assert_eq!(desk.state.composer.text(), "");
    assert_eq!(desk.state.hint.as_deref(), Some("this is the last answer"));
    desk.key(KeyCode::Esc);
    assert_eq!((desk.state.context(), desk.state.overlay.is_none()), (Context::Compose, true));
    desk.key(KeyCode::Char('s'));
    assert_eq!(desk.state.composer.text(), "s");
}

#[test]
fn a_token_s_panel_takes_the_place_of_another_one() {
    for (columns, rows) in [(80, 24), (60, 20), (20, 5)] {
        let mut desk = two_answers();
        desk.event(Event::Resize { columns, rows });
        desk.key(KeyCode::Tab);
        assert_eq!(desk.state.open_panel(), Some(Panel::Lane));
        desk.key(KeyCode::F(4));
        assert_eq!((desk.state.context(), desk.state.open_panel()), (Context::Token, Some(Panel::Latency)));
    }
}

#[test]
fn without_tokens_there_is_nothing_to_look_at() {
    let mut desk = Desk::ready();
    desk.key(KeyCode::F(4));
    assert_eq!((desk.state.context(), desk.state.overlay.is_none()), (Context::Compose, true));
    assert!(desk.state.hint.as_deref().is_some_and(|hint| hint.contains("no answer")), "{:?}", desk.state.hint);
    let mut desk = two_answers();
    desk.key(KeyCode::F(4));
    desk.key(KeyCode::Esc);
    desk.send("/clear");
    desk.key(KeyCode::F(4));
    assert_eq!(desk.state.context(), Context::Compose);
}

#[test]
fn the_reader_comes_back_to_the_newest_text() {
    let mut desk = Desk::ready();
    desk.stream();
    desk.finish(FinishReason::Stop);
    for _ in 0..6 {
        desk.stream();
        desk.finish(FinishReason::Stop);
    }
    desk.key(KeyCode::F(4));
    for _ in 0..6 {
        desk.key(KeyCode::Up);
    }
    desk.key(KeyCode::Home);
    assert!(!desk.state.conversation.is_following());
    desk.key(KeyCode::F(4));
    assert!(desk.state.conversation.is_following());
    desk.key(KeyCode::PageUp);
    desk.key(KeyCode::F(4));
    desk.key(KeyCode::Esc);
    assert!(!desk.state.conversation.is_following());
}

#[test]
fn f3_shows_the_chosen_token_in_full() {
    let mut desk = two_answers();
    desk.event(Event::Resize { columns: 120, rows: 36 });
    desk.key(KeyCode::F(4));
    assert_eq!(open_panel(&desk), None, "the column has the chart");
    desk.key(KeyCode::F(3));
    assert_eq!((open_panel(&desk), desk.state.is_zoomed()), (Some(Panel::Latency), true));
    desk.key(KeyCode::Left);
    assert_eq!(token(&desk), Some((4, "Tiber, ", 10)));
    desk.key(KeyCode::Esc);
    assert_eq!((desk.state.is_zoomed(), desk.state.context()), (false, Context::Token));
    desk.key(KeyCode::Esc);
    assert_eq!((open_panel(&desk), desk.state.context()), (None, Context::Compose));
}

/// Another version of an answer takes its place, and when the first is shown again, its tokens are there.
#[test]
fn versions_of_an_answer_keep_their_tokens() {
    let mut desk = two_answers();
    let alt_up = KeyEvent::new(KeyCode::Up, KeyModifiers::ALT);
    desk.event(Event::Key(alt_up));
    desk.key(KeyCode::Char('r'));
    desk.route();
    desk.prefill(1000);
    desk.wait(20);
    desk.token("Elsewhere.");
    desk.finish(FinishReason::Stop);
    desk.key(KeyCode::F(4));
    assert_eq!(token(&desk), Some((1, "Elsewhere.", 20)));
    desk.key(KeyCode::Esc);
    desk.event(Event::Key(alt_up));
    desk.key(KeyCode::Left);
    desk.key(KeyCode::F(4));
    assert_eq!(token(&desk), Some((5, "inland. ", 70)));
    assert_eq!(desk.state.chats.selected, None, "one thing is looked at");
}

#[test]
fn thinking_and_a_change_of_the_lane_are_traced_too() {
    let mut desk = Desk::ready();
    desk.event(Event::EngineLoaded(snapshot()));
    desk.send("Where?");
    desk.route();
    desk.thought("hm ");
    desk.wait(10);
    desk.token_on(LaneId::Npu, "Par");
    desk.generation(GenerationEvent::LaneChanged(lane_change()));
    desk.generation(GenerationEvent::PrefillProgress(PrefillProgress { done: 9, total: 9, reused: 0 }));
    desk.wait(90);
    desk.token_on(LaneId::Cpu, "is");
    desk.generation(GenerationEvent::TrailingText {
        thinking: String::new(),
        text: ".".into(),
        tool_calls: Vec::new(),
    });
    let block = desk.state.conversation.blocks().last().unwrap();
    let tokens: Vec<_> = block
        .trace()
        .tokens()
        .iter()
        .map(|t| {
            (
                t.thinks,
                t.lane,
                t.took.as_millis(),
                if t.thinks { block.thought() } else { block.shown() }[t.text()].to_owned(),
            )
        })
        .collect();
    assert_eq!(
        tokens,
        [
            (true, LaneId::Cpu, 0, "hm ".to_owned()),
            (false, LaneId::Npu, 10, "Par".to_owned()),
            (false, LaneId::Cpu, 90, "is.".to_owned()),
        ]
    );
}

#[test]
fn the_trend_keeps_what_answers_measured() {
    let desk = two_answers();
    let trend = desk.state.panels.trend();
    assert_eq!(trend.iter().map(|past| past.tokens).collect::<Vec<_>>(), [4, 5]);
    // Four latencies of 10, 10, 10 and 70 ms.
    assert_eq!(trend[1].tokens_per_second, Some(40.0));
    assert_eq!(trend[1].ttft.map(|ttft| ttft.as_millis()), Some(2000), "as the lane reported it");
}
