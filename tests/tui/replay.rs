//! Races on the screen, recordings of it, and the real program that plays them.

use std::path::Path;
use std::process::Command;

use portable_pty::CommandBuilder;

use crate::pty::Terminal;
use crate::{CHILD, Chat, scripted};

fn recorded(scenario: &str, file: &Path, columns: u16, rows: u16) -> Chat {
    let mut command = CommandBuilder::new(std::env::current_exe().unwrap());
    command.args(CHILD);
    command.env(scripted::RECORD, file);
    Chat::spawn(command, scenario, columns, rows)
}

/// `ortalk replay`, in a home where nothing is: no model, no library, no settings.
fn replay(home: &Path, arguments: &[&str], columns: u16, rows: u16) -> Terminal {
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_ortalk"));
    command.arg("replay");
    command.args(arguments);
    command.env("ORTALK_HOME", home);
    Terminal::start(command, columns, rows)
}

fn quit(chat: &mut Terminal) {
    chat.send("\x03\x03");
    assert_eq!(chat.exit_code(), 0);
    chat.assert_restored();
}

#[test]
fn a_race_runs_beside_the_chat_and_becomes_part_of_it() {
    let mut chat = Chat::start("lanes", 120, 36);
    chat.wait_for("Ask something");
    chat.send("/race What is the capital of France?\r");
    chat.wait_for("compute on the same cores");
    chat.wait_for("They said the same.");
    let screen = chat.screen();
    for expected in ["first token", "✓ npu emulated", "tokens per second", "npu is emulated"] {
        assert!(screen.contains(expected), "{expected}\n{screen}");
    }
    chat.send("\r");
    chat.wait_for("Race: npu emulated");
    chat.wait_for("Message");
    chat.send("And of Italy?\r");
    chat.wait_for("reused");
    chat.send("\x1b");
    chat.wait_for("cancelled");
    chat.send("/race\r");
    chat.wait_for("Esc cancel");
    chat.send("\x1b");
    chat.wait_for("cancelled before two lanes were done");
    chat.send("\x1b");
    chat.wait_for("Message");
    chat.send("\x04");
    assert_eq!(chat.exit_code(), 0);
    chat.assert_restored();
}

#[test]
fn what_was_recorded_is_played_without_an_engine() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("talk.jsonl");
    let mut chat = recorded("lanes", &file, 120, 36);
    chat.wait_for("Ask something");
    chat.send("What is the capital of France?\r");
    chat.wait_for("巴黎.");
    chat.wait_for("○ npu emulated");
    chat.send("/race Again?\r");
    chat.wait_for("They said the same.");
    chat.send("\r");
    chat.wait_for("Race: npu emulated");
    chat.wait_for("Message");
    // What the lanes say after it comes a moment later.
    std::thread::sleep(std::time::Duration::from_millis(500));
    let shown = chat.screen();
    chat.send("\x04");
    assert_eq!(chat.exit_code(), 0);

    let path = file.to_str().unwrap();
    let mut player = replay(folder.path(), &["--speed", "3", path], 120, 36);
    player.wait_for("replay 0:0");
    player.wait_for("Paris");
    player.send(" ");
    player.wait_for("paused");
    let paused = player.screen();
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert_eq!(player.screen(), paused);
    player.send(" ");
    player.wait_for("one after the other: ");
    player.wait_for("ended");
    player.wait_for("Race: npu emulated");
    // The conversation and the panels are what they were; the title and what is typed are the player's.
    let body =
        |screen: &str| screen.lines().skip(1).take(30).map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
    player.wait_until("the screen that was recorded", |player| body(&player.screen()) == body(&shown));
    player.send("hello\r");
    player.wait_for("this is a replay");
    quit(&mut player);
}

#[test]
fn a_small_screen_plays_it_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("talk.jsonl");
    let mut chat = recorded("demo", &file, 80, 24);
    chat.wait_for("Ask something");
    chat.send("What is the capital of France?\r");
    chat.wait_for("巴黎.");
    chat.wait_for("○ cpu");
    chat.send("\x04");
    assert_eq!(chat.exit_code(), 0);
    let mut player = replay(folder.path(), &["--speed", "100", file.to_str().unwrap()], 50, 15);
    player.wait_for("ended");
    player.wait_for("巴黎.");
    player.send("\x1b[5~");
    player.wait_for("End to follow");
    quit(&mut player);
}

/// A recording that a kill cut off ends where it was cut, and says so first.
#[test]
fn a_recording_that_was_cut_off_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("talk.jsonl");
    let mut chat = recorded("demo", &file, 80, 24);
    chat.wait_for("Ask something");
    chat.send("tell me a long story\r");
    chat.wait_for("Paris");
    chat.signal(rustix::process::Signal::KILL);
    chat.assert_ends_within(std::time::Duration::from_secs(10));

    let path = file.to_str().unwrap();
    let mut refused = replay(folder.path(), &[path], 80, 24);
    assert_eq!(refused.exit_code(), 1);
    assert!(refused.raw().contains("is cut off after line"), "{}", refused.raw());
    let mut player = replay(folder.path(), &["--partial", "--speed", "50", path], 80, 24);
    player.wait_for("ended");
    player.wait_for("Paris");
    quit(&mut player);

    std::fs::write(folder.path().join("other.jsonl"), "{\"hello\": 1}\n").unwrap();
    let other = folder.path().join("other.jsonl");
    let mut refused = replay(folder.path(), &[other.to_str().unwrap()], 80, 24);
    assert_eq!(refused.exit_code(), 1);
    assert!(refused.raw().contains("is no recording of ortalk"), "{}", refused.raw());
}

#[test]
fn a_replay_without_a_terminal_says_so() {
    let output = Command::new(env!("CARGO_BIN_EXE_ortalk")).args(["replay", "x.jsonl"]).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("is not a terminal"));
}
