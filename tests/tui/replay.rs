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
    chat.wait_for("Race, one after the other: npu emulated");
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
fn lanes_are_named_and_their_race_is_seen_at_every_size() {
    for (columns, rows) in [(120, 36), (80, 24), (50, 15)] {
        let mut chat = Chat::start("lanes", columns, rows);
        chat.wait_for("Ask something");
        chat.send("/race cpu,gpu Who?\r");
        chat.wait_for("'gpu' is no lane");
        chat.send("\x15/race npu,cpu What is the capital of France?\r");
        chat.wait_for("Esc cancel");
        chat.wait_for("Enter");
        let screen = chat.screen();
        for expected in ["✓ npu emulated", "✓ cpu", "one after the other", "tokens per second"] {
            assert!(screen.contains(expected), "{columns}x{rows}: {expected}\n{screen}");
        }
        // The whole verdict is below, or where Tab leads.
        let mut tabs = 0;
        while !chat.screen().contains("They said the same.") {
            assert!(tabs < 3, "{}", chat.screen());
            tabs += 1;
            chat.send("\t");
            std::thread::sleep(std::time::Duration::from_millis(300));
        }
        chat.send("\r");
        chat.wait_for("is emulated");
        chat.send("\x04");
        assert_eq!(chat.exit_code(), 0);
        chat.assert_restored();
    }
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
    chat.wait_for("Race, one after the other: npu emulated");
    chat.wait_for("Message");
    // What the lanes say after it comes a moment later.
    let mut shown = chat.screen();
    loop {
        std::thread::sleep(std::time::Duration::from_millis(1500));
        match chat.screen() {
            screen if screen == shown => break,
            screen => shown = screen,
        }
    }
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
    player.wait_for("Race, one after the other: npu emulated");
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

#[test]
fn another_version_and_another_model_are_in_the_recording() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("talk.jsonl");
    for (columns, rows) in [(120, 36), (80, 24), (50, 15)] {
        let mut chat = recorded("quiet", &file, columns, rows);
        chat.wait_for("Ask something");
        for message in ["What is the capital of France?\r", "/regenerate\r"] {
            chat.send(message);
            chat.wait_for("●");
            chat.wait_until("the end of the answer", |chat| !chat.screen().contains('●'));
        }
        chat.send("/model broken-model\r");
        chat.wait_for("goes on.");
        // The first answer, and the notices that stood below the second one are gone.
        chat.send("\x1b[1;3A\x1b[D");
        chat.wait_for("1/2");
        // Alone, it is Esc, and not Alt.
        chat.send("\x1b");
        std::thread::sleep(std::time::Duration::from_millis(500));
        chat.send("/model other-model\r");
        chat.wait_for("other-model answers from now on.");
        let shown = chat.screen();
        chat.send("\x04");
        assert_eq!(chat.exit_code(), 0);

        let mut player = replay(folder.path(), &["--speed", "50", file.to_str().unwrap()], columns, rows);
        player.wait_for("ended");
        let rows = usize::from(rows) - 8;
        let body =
            |screen: &str| screen.lines().skip(4).take(rows).map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
        std::thread::sleep(std::time::Duration::from_millis(1500));
        assert_eq!(body(&player.screen()), body(&shown), "the screen that was recorded");
        quit(&mut player);
        std::fs::remove_file(&file).unwrap();
    }
}

/// A recording by way of a shell, so that standard input is no terminal.
fn through_a_shell(script: &str, file: &Path, home: &Path) -> Terminal {
    let mut command = CommandBuilder::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_ortalk")]);
    command.arg(file);
    command.env("ORTALK_HOME", home);
    Terminal::start(command, 80, 24)
}

#[test]
fn a_recording_comes_through_a_pipe_and_the_keys_from_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("talk.jsonl");
    let mut chat = recorded("demo", &file, 80, 24);
    chat.wait_for("Ask something");
    chat.send("What is the capital of France?\r");
    chat.wait_for("巴黎.");
    chat.send("\x04");
    assert_eq!(chat.exit_code(), 0);
    for script in ["cat \"$1\" | \"$0\" replay --speed 50 -", "\"$0\" replay --speed 50 - < \"$1\""] {
        let mut player = through_a_shell(script, &file, folder.path());
        player.wait_for("ended");
        player.wait_for("巴黎.");
        player.send("hello\r");
        player.wait_for("this is a replay");
        quit(&mut player);
    }
    // Nothing, and something else.
    for script in ["\"$0\" replay - < /dev/null", "echo hello | \"$0\" replay -"] {
        let mut refused = through_a_shell(script, &file, folder.path());
        assert_eq!(refused.exit_code(), 1);
        assert!(refused.raw().contains("'standard input' is no recording of ortalk"), "{}", refused.raw());
    }
    let mut refused = replay(folder.path(), &["-"], 200, 24);
    assert_eq!(refused.exit_code(), 1);
    assert!(refused.raw().contains("and standard input is a terminal"), "{}", refused.raw());
}

#[test]
fn a_pipe_that_nobody_writes_to_is_told_and_can_be_left() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let path = pipe.to_str().unwrap();
    let mut player = replay(folder.path(), &[path], 200, 24);
    player.wait_for("waiting for the end of");
    player.send("\x03");
    assert_ne!(player.exit_code(), 0);
    player.assert_restored();
    // One that is written to later is played.
    let file = folder.path().join("talk.jsonl");
    let header = r#"{"format": "ortalk recording", "v": 1}"#;
    let lines = r#"{"at_ms": 1, "type": "notice", "level": "info", "text": "from a pipe"}"#;
    std::fs::write(&file, format!("{header}\n{lines}\n{{\"at_ms\": 2, \"type\": \"end\"}}\n")).unwrap();
    let mut player = replay(folder.path(), &[path], 80, 24);
    player.wait_for("waiting for the end of");
    std::fs::copy(&file, &pipe).unwrap();
    player.wait_for("from a pipe");
    quit(&mut player);
}
