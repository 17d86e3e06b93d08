//! Keys, themes and the mouse, as the settings and the reader want them.

use portable_pty::CommandBuilder;

use crate::pty::Terminal;
use crate::{CHILD, Chat, scripted};

#[test]
fn keys_are_those_of_the_settings_and_the_help_says_so() {
    let mut command = CommandBuilder::new(std::env::current_exe().unwrap());
    command.args(CHILD);
    command.env(scripted::KEYS, "send = 'ctrl-x'\nnew-line = ['enter', 'alt-enter']\nhelp = 'f9'");
    let mut chat = Chat::spawn(command, "demo", 80, 24);
    chat.wait_for("Ctrl-X send");
    chat.send("What is the capital\rof France?");
    chat.wait_for("of France?");
    chat.send("\x18");
    chat.wait_for("Paris");
    chat.send("\x1b[20~send the");
    chat.wait_for("Ctrl-X             send the message");
    chat.send("\x1b");
    chat.wait_for("Paris");
    chat.send("/log\x18");
    chat.wait_for("log ›");
    chat.send("\x03\x03");
    assert_eq!(chat.exit_code(), 0);
}

#[test]
fn wrong_keys_are_told_before_the_screen_opens() {
    let mut command = CommandBuilder::new(std::env::current_exe().unwrap());
    command.args(CHILD);
    command.env(scripted::KEYS, "sned = 'ctrl-x'");
    let mut chat = Chat::spawn(command, "demo", 80, 24);
    chat.wait_for("names 'sned', which is no action; did you mean 'send'?");
    assert_eq!(chat.exit_code(), 1);
}

#[test]
fn the_mouse_scrolls_opens_panels_and_is_given_back() {
    let mut chat = Chat::start("demo", 120, 36);
    chat.wait_for("Ask something");
    assert_eq!(chat.with_screen(vt100::Screen::mouse_protocol_mode), vt100::MouseProtocolMode::PressRelease);
    assert!(!chat.raw().contains("\x1b[?1003h"), "each movement of the mouse would be reported");
    for _ in 0..4 {
        chat.send("What is the capital of France?\r");
        chat.wait_for("● cpu");
        chat.wait_for("○ cpu  ");
    }
    // The wheel, as SGR reports it.
    chat.send("\x1b[<64;10;10M");
    chat.wait_for("End to follow");
    chat.send("\x1b[<65;10;10M");
    chat.wait_until("following again", |chat| !chat.screen().contains("End to follow"));
    chat.send("\x1b[<0;90;3M\x1b[<0;90;3m");
    chat.wait_for("▸ lane");
    chat.send("\x1b[<0;90;3M\x1b[<0;90;3m");
    chat.wait_until("the panel closed again", |chat| !chat.screen().contains("▸ lane"));
    chat.send("/mouse off\r");
    chat.wait_for("the mouse is the terminal's");
    assert_eq!(chat.with_screen(vt100::Screen::mouse_protocol_mode), vt100::MouseProtocolMode::None);
    chat.send("/mouse on\r");
    chat.wait_for("Shift and the mouse select text");
    chat.send("\x04");
    assert_eq!(chat.exit_code(), 0);
    chat.assert_restored();
}

#[test]
fn a_theme_is_shown_while_it_is_chosen() {
    let mut chat = Chat::start("demo", 80, 24);
    chat.wait_for("Ask something");
    let background = |chat: &Terminal| chat.with_screen(|screen| screen.cell(20, 70).unwrap().bgcolor());
    assert_eq!(background(&chat), vt100::Color::Default);
    chat.send("/theme\rhigh");
    chat.wait_until("black", |chat| background(chat) == vt100::Color::Idx(0));
    chat.send("\x1b");
    chat.wait_until("as before", |chat| background(chat) == vt100::Color::Default);
    chat.send("\x04");
    assert_eq!(chat.exit_code(), 0);
}

#[test]
fn what_is_wrong_in_the_settings_is_told_before_anything_is_fetched() {
    for (settings, words) in [
        ("[keys]\nsned = 'f5'", "names 'sned', which is no action; did you mean 'send'?"),
        ("theme = 'solarised'", "there is no theme 'solarised'; there are default"),
        ("policy = 'best'", "policy in the settings is 'best'; expected one of auto"),
        ("temperature = -1.0", "temperature is '-1'"),
        ("threads = 99999", "threads is '99999'; it must be between 1 and 1024"),
        ("[remote]\nmodel = 'far'", "it names no url"),
    ] {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("config.toml"), settings).unwrap();
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_ortalk"));
        command.env("ORTALK_HOME", home.path());
        // What would be begun needs a pip.
        command.env("PATH", home.path());
        let mut chat = Terminal::start(command, 200, 24);
        assert_eq!(chat.exit_code(), 1, "{settings}");
        assert!(chat.raw().contains(words), "{settings}\n{}", chat.raw());
        assert!(!home.path().join("cache").exists(), "{settings}");
    }
}
