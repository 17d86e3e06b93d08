//! The chat's driver in a real pseudo-terminal, over a scripted engine.
//!
//! The test program starts itself again as the program under test: `child_program` is that program where
//! `ORTALK_TUI_SCENARIO` is set, and nothing otherwise.
#![allow(clippy::unwrap_used, clippy::expect_used)]
#![cfg(unix)]

mod lanes;
#[path = "../support/pty.rs"]
mod pty;
mod replay;
mod scripted;
mod settings;
mod terminal;
mod writing;

use std::ops::{Deref, DerefMut};
use std::path::PathBuf;

use portable_pty::CommandBuilder;
use pty::Terminal;

/// What makes the test program be the program under test.
const CHILD: [&str; 4] = ["--exact", "child_program", "--nocapture", "--test-threads=1"];

/// The chat over a scripted engine, in a terminal.
struct Chat {
    terminal: Terminal,
    home: tempfile::TempDir,
}

impl Chat {
    fn start(scenario: &str, columns: u16, rows: u16) -> Self {
        let mut command = CommandBuilder::new(std::env::current_exe().unwrap());
        command.args(CHILD);
        // Whoever runs the tests over SSH.
        for name in ["SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY", "TMUX"] {
            command.env_remove(name);
        }
        Self::spawn(command, scenario, columns, rows)
    }

    /// With a shell between the terminal and the program: the kernel tells the shell alone of a hangup, and this one
    /// does not pass it on.
    fn start_below_a_deaf_shell(scenario: &str, columns: u16, rows: u16) -> Self {
        let mut command = CommandBuilder::new("sh");
        command.args(["-c", "trap '' HUP; \"$@\"; exit $?", "sh"]);
        command.arg(std::env::current_exe().unwrap());
        command.args(CHILD);
        Self::spawn(command, scenario, columns, rows)
    }

    fn spawn(command: CommandBuilder, scenario: &str, columns: u16, rows: u16) -> Self {
        Self::spawn_at(tempfile::tempdir().unwrap(), command, scenario, columns, rows)
    }

    /// Again, with what this one has left behind.
    fn restart(self) -> Self {
        let mut command = CommandBuilder::new(std::env::current_exe().unwrap());
        command.args(CHILD);
        Self::spawn_at(self.home, command, "demo", 80, 24)
    }

    fn spawn_at(home: tempfile::TempDir, mut command: CommandBuilder, scenario: &str, columns: u16, rows: u16) -> Self {
        command.env(scripted::SCENARIO, scenario);
        command.env(scripted::HISTORY, home.path().join("data").join("history.jsonl"));
        // Waits for a line, and leaves that.
        command.env("VISUAL", "edit() { read line; printf '%s' \"$line\" > \"$1\"; }; edit");
        command.env(scripted::LOG, home.path().join("log").join("ortalk.log"));
        Self { terminal: Terminal::start(command, columns, rows), home }
    }

    fn log_file(&self) -> PathBuf {
        self.home.path().join("log").join("ortalk.log")
    }
}

impl Deref for Chat {
    type Target = Terminal;

    fn deref(&self) -> &Terminal {
        &self.terminal
    }
}

impl DerefMut for Chat {
    fn deref_mut(&mut self) -> &mut Terminal {
        &mut self.terminal
    }
}

#[test]
fn child_program() {
    if let Ok(scenario) = std::env::var(scripted::SCENARIO) {
        scripted::run(&scenario);
    }
}

#[test]
fn an_answer_comes_and_quitting_leaves_a_clean_terminal() {
    let mut chat = Chat::start("demo", 120, 36);
    chat.wait_for("Ask something");
    chat.send("What is the capital of France?\r");
    chat.wait_for("tok/s");
    chat.wait_for("Paris");
    chat.wait_for("TTFT");
    chat.send("\x04");
    assert_eq!(chat.exit_code(), 0);
    chat.assert_restored();
    assert!(chat.raw().contains("\x1b[?2026h") && chat.raw().contains("\x1b[?2026l"));
}

#[test]
fn a_model_is_chosen_from_the_palette_while_the_chat_goes_on() {
    let mut chat = Chat::start("demo", 80, 24);
    chat.wait_for("Ask something");
    chat.send("/mod");
    chat.wait_for("choose another model");
    chat.send("\r");
    chat.wait_for("other-model");
    chat.send("other\r");
    chat.wait_for("other-model answers from now on.");
    chat.send("What is the capital of France?\r");
    chat.wait_for("other-model · cpu");
    chat.wait_for("Paris");
    // One for which the old engine was given up, and which is broken then.
    chat.send("/model broken-model\r");
    chat.wait_for("broken-model cannot answer: its graph is torn");
    chat.wait_for("smollm2-135m goes on.");
    chat.send("\x04");
    assert_eq!(chat.exit_code(), 0);
    chat.assert_restored();
}

#[test]
fn ctrl_c_cancels_and_twice_quits() {
    let mut chat = Chat::start("demo", 80, 24);
    chat.wait_for("Ask something");
    chat.send("tell me a long story\r");
    chat.wait_for("Esc cancel");
    chat.send("\x03");
    chat.wait_for("press Ctrl-C again to quit");
    chat.wait_for("cancelled");
    chat.send("\x03");
    assert_eq!(chat.exit_code(), 0);
}
