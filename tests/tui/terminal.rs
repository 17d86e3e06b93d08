//! The terminal is taken and given back, whatever ends the program, and little is written to it.

use std::time::{Duration, Instant};

use portable_pty::CommandBuilder;

use crate::{CHILD, Chat};

#[test]
fn signals_restore_the_terminal_and_are_told_apart() {
    for (signal, status) in
        [(rustix::process::Signal::TERM, 143), (rustix::process::Signal::HUP, 129), (rustix::process::Signal::INT, 130)]
    {
        let mut chat = Chat::start("demo", 80, 24);
        chat.wait_for("Ask something");
        chat.send("tell me a long story\r");
        chat.wait_for("Esc cancel");
        let start = Instant::now();
        chat.signal(signal);
        assert_eq!(chat.exit_code(), status);
        // By itself: the thread that ends it by force waits for two seconds.
        assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
        chat.assert_restored();
    }
}

#[test]
fn a_panic_restores_the_terminal_and_shows_its_message() {
    let mut chat = Chat::start("panic", 80, 24);
    chat.wait_for("Ask something");
    chat.send("hello\r");
    assert_ne!(chat.exit_code(), 0);
    chat.assert_restored();
    assert!(chat.raw().contains("scripted panic"), "{}", chat.screen());
}

#[test]
fn the_program_ends_when_its_terminal_disappears() {
    for mut chat in [Chat::start("demo", 80, 24), Chat::start_below_a_deaf_shell("demo", 80, 24)] {
        chat.wait_for("Ask something");
        chat.send("tell me a long story\r");
        chat.wait_for("Esc cancel");
        chat.close_terminal();
        chat.assert_ends_within(Duration::from_secs(10));
    }
}

#[test]
fn a_terminal_that_reads_nothing_does_not_keep_the_program() {
    let mut chat = Chat::start("demo", 200, 60);
    chat.wait_for("Ask something");
    chat.send("tell me a long story\r");
    chat.wait_for("Esc cancel");
    chat.stop_reading();
    std::thread::sleep(Duration::from_secs(1));
    chat.signal(rustix::process::Signal::TERM);
    chat.assert_ends_within(Duration::from_secs(10));
}

#[test]
fn native_output_stays_off_the_screen() {
    let mut chat = Chat::start("noisy", 80, 24);
    chat.wait_for("Ask something");
    chat.send("hello\r");
    chat.wait_for("Paris");
    assert!(!chat.raw().contains("native noise"));
    chat.send("\x04");
    chat.exit_code();
    let log = std::fs::read_to_string(chat.log_file()).unwrap();
    assert!(log.contains("native noise on 1") && log.contains("native noise on 2"), "{log}");
}

#[test]
fn a_storm_of_resizes_ends_in_the_last_size() {
    let mut chat = Chat::start("demo", 120, 36);
    chat.wait_for("Ask something");
    chat.send("tell me a long story\r");
    for step in 0..200u16 {
        chat.resize(1 + step * 7 % 190, 1 + step * 5 % 60);
        if step % 20 == 0 {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    chat.resize(80, 24);
    chat.wait_for("Esc cancel");
    chat.wait_for("route");
    chat.send("\x1b");
    chat.wait_for("cancelled");
    chat.send("\x04");
    assert_eq!(chat.exit_code(), 0);
    chat.assert_restored();
}

#[test]
fn a_stopped_program_gives_the_terminal_back_and_takes_it_again() {
    let mut chat = Chat::start("demo", 80, 24);
    chat.wait_for("Ask something");
    chat.signal(rustix::process::Signal::TSTP);
    chat.wait_until("stopped", |chat| chat.is_stopped());
    chat.wait_until("main screen", |chat| !chat.alternate_screen());
    chat.signal(rustix::process::Signal::CONT);
    chat.wait_for("Ask something");
    assert!(chat.alternate_screen());
    chat.send("hello\r");
    chat.wait_for("Paris");
}

#[test]
fn an_idle_screen_writes_next_to_nothing() {
    let mut chat = Chat::start("quiet", 120, 36);
    chat.wait_for("Ask something");
    std::thread::sleep(Duration::from_millis(500));
    let before = chat.raw().len();
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(chat.raw().len(), before);
}

/// The chat as it is over SSH, with the settings' word for each key of `[screen]`.
fn over_ssh(scenario: &str) -> Chat {
    let mut command = CommandBuilder::new(std::env::current_exe().unwrap());
    command.args(CHILD);
    command.env("SSH_CONNECTION", "192.0.2.1 50000 192.0.2.2 22");
    Chat::spawn(command, scenario, 120, 36)
}

#[test]
fn over_ssh_a_copy_goes_to_the_terminal_and_text_moves_in_steps() {
    let mut chat = over_ssh("demo");
    chat.wait_for("Ask something");
    chat.send("What is the capital of France?\r");
    chat.wait_for("巴黎.");
    chat.wait_for("○ cpu  ");
    chat.send("/copy\r");
    chat.wait_for("sent to the terminal's clipboard (OSC 52)");
    let raw = chat.raw();
    let (_, rest) = raw.split_once("\x1b]52;c;").expect("the sequence");
    let (encoded, _) = rest.split_once("\x1b\\").expect("its end");
    // base64 of "The capital of France is Paris."
    assert!(encoded.starts_with("VGhlIGNhcGl0YWwgb2YgRnJhbmNlIGlzIFBhcmlzL"), "{encoded}");
    chat.send("\x04");
    assert_eq!(chat.exit_code(), 0);
    chat.assert_restored();
}
