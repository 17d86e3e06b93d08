//! The bytes that an answer sends to the terminal, counted with simulated time.

use std::time::Duration;

use super::super::event::Event;
use super::super::fixtures::{Desk, ms};
use super::super::frames::{FrameLimiter, Pace};
use super::super::skin::test_skin;
use super::super::view;
use super::*;
use crate::engine::FinishReason;

/// Prose as models write it: sentences in paragraphs, a list, and a block of code now and then.
fn tokens() -> Vec<String> {
    let words = "The road from the south met the boats of the Seine here , and where goods change hands people settle . \
        A court followed , then scholars , printers and all who lived of them ; later came rails and factories .";
    let mut tokens = Vec::new();
    for paragraph in 0..8 {
        tokens.extend(words.split_inclusive(' ').map(str::to_owned));
        match paragraph % 3 {
            0 => tokens
                .extend(["\n", "\n", "- ", "first ", "of ", "all\n", "- ", "then ", "more\n\n"].map(str::to_owned)),
            1 => tokens.extend(["\n\n", "```", "rust\n", "let x", " = ", "1;\n", "```", "\n\n"].map(str::to_owned)),
            _ => tokens.push("\n\n".to_owned()),
        }
    }
    tokens
}

struct Sent {
    bytes: usize,
    frames: usize,
    seconds: f64,
}

impl Sent {
    fn per_second(&self) -> f64 {
        self.bytes as f64 / self.seconds
    }
}

/// An answer at 20 tokens a second, from the message to its end, as the driver draws it.
fn answer(pace: Pace, columns: u16, rows: u16) -> Sent {
    let mut desk = Desk::ready();
    desk.state.set_pace(pace);
    let mut painter = Painter::new(columns, rows).unwrap();
    let mut limiter = FrameLimiter::default();
    let mut sent = Sent { bytes: 0, frames: 0, seconds: 0.0 };
    let mut step = |desk: &mut Desk, until: Duration| {
        let end = desk.now + until;
        while desk.now < end {
            if desk.state.deadline(desk.now).is_some_and(|due| due <= desk.now) {
                desk.event(Event::Tick);
            }
            if desk.state.dirty && limiter.next(desk.now, pace) <= desk.now {
                desk.state.dirty = false;
                let now = desk.now;
                sent.bytes +=
                    painter.frame(|frame| view::draw(&mut desk.state, &test_skin(), now, frame)).unwrap().len();
                sent.frames += 1;
                limiter.drawn(now);
            }
            desk.wait(5);
            sent.seconds += 0.005;
        }
    };
    desk.event(Event::Resize { columns, rows });
    // From the first token on, each new row moves all that is above it.
    for _ in 0..4 {
        desk.stream();
        desk.finish(FinishReason::Stop);
    }
    desk.send("Why is Paris where it is?");
    desk.route();
    desk.prefill(1000);
    for (index, token) in tokens().iter().enumerate() {
        desk.token(token);
        if index % 20 == 0 {
            let mut sample = super::super::fixtures::sample();
            sample.cpu_percent = crate::telemetry::Reading::Measured(50.0 + (index / 20) as f32);
            desk.event(Event::Device(Box::new(sample)));
        }
        step(&mut desk, ms(50));
    }
    desk.finish(FinishReason::Stop);
    step(&mut desk, ms(1000));
    assert!(!desk.state.dirty);
    sent
}

/// The budget for slow connections: 6 kB a second, averaged over an answer at 120x40 and 20 tokens a second.
#[test]
fn an_answer_over_a_slow_connection_stays_within_its_bytes() {
    for (columns, rows) in [(120, 40), (80, 24)] {
        let [full, low] = [Pace::Full, Pace::Low].map(|pace| answer(pace, columns, rows));
        println!(
            "{columns}x{rows}: full {:.0} B/s in {} frames, low {:.0} B/s in {} frames, {:.2} of it",
            full.per_second(),
            full.frames,
            low.per_second(),
            low.frames,
            low.per_second() / full.per_second()
        );
        if (columns, rows) == (120, 40) {
            assert!(low.per_second() <= 6000.0, "{:.0}", low.per_second());
        }
        assert!(low.per_second() < 0.6 * full.per_second());
    }
}

/// At low pace, too, what is on the screen in the end is what there is to see.
#[test]
fn held_numbers_are_the_right_ones_in_the_end() {
    let shown = |desk: &mut Desk| {
        let mut painter = Painter::new(120, 36).unwrap();
        let now = desk.now;
        let bytes = painter.frame(|frame| view::draw(&mut desk.state, &test_skin(), now, frame)).unwrap();
        let mut parser = vt100::Parser::new(36.try_into().unwrap(), 120.try_into().unwrap(), 0);
        parser.process(&bytes);
        parser.screen().contents()
    };
    let mut desk = Desk::ready();
    desk.state.set_pace(Pace::Low);
    desk.event(Event::Resize { columns: 120, rows: 36 });
    desk.send("question");
    desk.route();
    desk.prefill(1000);
    desk.token("one ");
    let first = shown(&mut desk);
    assert!(first.contains("1001/8000"), "{first}");
    desk.wait(100);
    desk.token("two ");
    let held = shown(&mut desk);
    assert!(held.contains("one two") && held.contains("1001/8000"), "{held}");
    // Nothing more comes: the deadline brings the newest numbers.
    let due = desk.state.deadline(desk.now).unwrap();
    desk.now = due;
    desk.state.dirty = false;
    desk.event(Event::Tick);
    assert!(desk.state.dirty);
    assert!(shown(&mut desk).contains("1002/8000"));
    assert_eq!(desk.state.deadline(desk.now), None);
    // A key that does something lets go.
    desk.token("three ");
    desk.key(crossterm::event::KeyCode::Up);
    assert!(shown(&mut desk).contains("1003/8000"));
}
