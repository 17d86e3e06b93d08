//! Help, log, the palette and the lists to choose from.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::super::super::event::Event;
use super::super::super::fixtures::Desk;
use super::super::super::skin::test_skin;
use super::screens;
use crate::engine::FinishReason;

#[test]
fn help() {
    screens("help", || {
        let mut desk = Desk::ready();
        desk.key(KeyCode::F(1));
        desk
    });
}

#[test]
fn help_on_a_message() {
    let mut desk = Desk::ready();
    desk.stream();
    desk.finish(FinishReason::Stop);
    desk.event(Event::Key(KeyEvent::new(KeyCode::Up, KeyModifiers::ALT)));
    desk.key(KeyCode::F(1));
    let page = desk.state.page().unwrap();
    let shown = page.lines(&desk.state.keys, &test_skin(), 80);
    assert_eq!(shown[0].to_string(), "keys on a message");
}

#[test]
fn palette() {
    screens("palette", || {
        let mut desk = Desk::ready();
        desk.stream();
        desk.type_text("/");
        desk.key(KeyCode::Down);
        desk
    });
}

#[test]
fn palette_arguments() {
    screens("palette_arguments", || {
        let mut desk = Desk::ready();
        desk.type_text("/set te");
        desk
    });
}

#[test]
fn list_of_commands() {
    screens("list_of_commands", || {
        let mut desk = Desk::ready();
        desk.stream();
        desk.key(KeyCode::F(2));
        desk.type_text("an");
        desk
    });
}

#[test]
fn help_searched() {
    screens("help_searched", || {
        let mut desk = Desk::ready();
        desk.key(KeyCode::F(1));
        desk.type_text("line");
        desk
    });
}

#[test]
fn log() {
    screens("log", || {
        let mut desk = Desk::ready();
        let line = |at| {
            format!("2026-03-04T05:06:{at:02}Z [W:onnxruntime:, session.cc:12] a node of type Reshape has a warning\n")
        };
        desk.event(Event::LogRead(Ok((0..60).map(line).collect())));
        desk
    });
}
