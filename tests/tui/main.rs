//! The chat's driver in a real pseudo-terminal, over a scripted engine.
//!
//! The test program starts itself again as the program under test: `child_program` is that program where
//! `ORTALK_TUI_SCENARIO` is set, and nothing otherwise.
#![allow(clippy::unwrap_used, clippy::expect_used)]
#![cfg(unix)]

#[path = "../support/pty.rs"]
mod pty;
mod replay;
mod scripted;

use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::time::{Duration, Instant};

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
fn a_megabyte_is_pasted_without_a_stall() {
    let mut chat = Chat::start("demo", 80, 24);
    chat.wait_for("Ask something");
    let start = Instant::now();
    chat.send("\x1b[200~");
    chat.send(&"lorem ipsum dolor\n".repeat(60_000));
    chat.send("the end\x1b[201~");
    chat.wait_for("[pasted 1.1 MB, 270,001 tokens]");
    chat.send("!");
    chat.wait_for("tokens]!");
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
}

#[test]
fn a_file_is_attached_by_its_name() {
    let mut chat = Chat::start("lanes", 120, 36);
    chat.wait_for("Ask something");
    let folder = tempfile::tempdir().unwrap();
    // The scripted lane breaks when it reads the word: the text was sent, and not the name alone.
    std::fs::write(folder.path().join("some notes.txt"), "please break\n").unwrap();
    std::fs::write(folder.path().join("other.bin"), b"\0").unwrap();
    let folder = folder.path().to_str().unwrap();
    chat.send(&format!("Read @{folder}/somtes"));
    chat.wait_for(&format!("files in {folder}/"));
    chat.send("\t");
    chat.wait_for("some notes.txt, 13 B, 3 tokens]");
    chat.send("\r");
    chat.wait_for("npu to cpu after 5 tokens");
    chat.wait_for("○ cpu  ");
    chat.send(&format!("and @{folder}/other.bin\r"));
    chat.wait_for("is not UTF-8 text");
    chat.send("\x15\x04");
    assert_eq!(chat.exit_code(), 0);
}

#[test]
fn an_editor_has_the_terminal_for_itself() {
    let mut chat = Chat::start("demo", 80, 24);
    chat.wait_for("Ask something");
    chat.send("draft\x07");
    chat.wait_until("main screen", |chat| !chat.alternate_screen());
    // An interrupt is the editor's business; this one is deaf.
    chat.signal(rustix::process::Signal::INT);
    chat.send("written elsewhere\n");
    chat.wait_for("written elsewhere");
    chat.wait_until("second screen", |chat| chat.alternate_screen());
    chat.wait_for("written elsewhere");
    assert!(!chat.screen().contains("draft"), "{}", chat.screen());
    chat.send("!");
    chat.wait_for("elsewhere!");
    chat.send("\x15\x04");
    assert_eq!(chat.exit_code(), 0);
    chat.assert_restored();
}

#[test]
fn what_was_sent_is_found_in_the_next_session() {
    let mut chat = Chat::start("demo", 80, 24);
    chat.wait_for("Ask something");
    chat.send("a question of yesterday\r");
    chat.wait_for("Paris");
    chat.send("\x04");
    assert_eq!(chat.exit_code(), 0);
    let mut chat = chat.restart();
    chat.wait_for("Ask something");
    chat.send("\x12yesterday");
    chat.wait_for("1 of 1");
    chat.send("\r today");
    chat.wait_for("a question of yesterday today");
    chat.send("\x15\x04");
    assert_eq!(chat.exit_code(), 0);
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

#[test]
fn a_short_question_runs_on_the_npu_and_a_long_paste_on_the_cpu() {
    let mut chat = Chat::start("lanes", 120, 36);
    chat.wait_for("Ask something");
    chat.send("What is the capital of France?");
    chat.wait_for("would run on npu emulated");
    chat.send("\r");
    chat.wait_for("巴黎.");
    chat.wait_for("○ npu emulated");
    let screen = chat.screen();
    for expected in
        ["✓ npu", "/512  ", "first that fits · policy auto", "✗ cpu", "npu comes first", "9458 of 9458 nodes"]
    {
        assert!(screen.contains(expected), "{expected}\n{screen}");
    }
    // F4: the answer's last token, its time and its lane; F4 again: back.
    chat.send("\x1bOS");
    chat.wait_for("Left/Right token");
    chat.wait_for(" ms  npu");
    chat.send("\x1bOS");
    chat.wait_for("Enter send");
    let long = format!("Summarize: {}", "all work and no play makes a dull day. ".repeat(50));
    chat.send(&format!("\x1b[200~{long}\x1b[201~"));
    chat.wait_for("would run on cpu");
    chat.send("\r");
    chat.wait_for("● cpu");
    chat.wait_for("巴黎.");
    chat.wait_for("○ cpu  ");
    let screen = chat.screen();
    for expected in ["✓ cpu", "✗ npu", "/512  too long"] {
        assert!(screen.contains(expected), "{expected}\n{screen}");
    }
    chat.send("\x04");
    assert_eq!(chat.exit_code(), 0);
}

#[test]
fn a_lane_that_fails_mid_answer_is_told_where_it_happened() {
    let mut chat = Chat::start("lanes", 120, 36);
    chat.wait_for("Ask something");
    chat.send("please break\r");
    chat.wait_for("npu to cpu after 5 tokens: npu failed: QNN error 1100");
    chat.wait_for("○ cpu  ");
    let screen = chat.screen();
    for expected in ["✗ npu  failed: QNN error 1100, device lost", "from token 6", "巴黎."] {
        assert!(screen.contains(expected), "{expected}\n{screen}");
    }
    // The next one does not try it again, unless it is asked to.
    chat.send("short");
    chat.wait_for("would run on cpu");
    chat.send("\x15/npu short");
    chat.wait_for("would run on npu");
    chat.send("\x15\x04");
    assert_eq!(chat.exit_code(), 0);
}

#[test]
fn a_lane_can_be_asked_for_in_the_chat() {
    let mut chat = Chat::start("lanes", 120, 36);
    chat.wait_for("Ask something");
    chat.send("/cpu\r");
    chat.wait_for("cpu answers from now on");
    chat.send("What is the capital of France?\r");
    chat.wait_for("you asked for it");
    chat.wait_for("Message to cpu; /auto lets ortalk choose");
    chat.send("/auto\r");
    chat.wait_for("ortalk chooses where to answer");
    chat.send("x");
    chat.wait_for("would run on npu");
    chat.send("\x7f\x04");
    assert_eq!(chat.exit_code(), 0);
}

#[test]
fn an_engine_that_fails_says_why() {
    let mut chat = Chat::start("fail", 80, 24);
    chat.wait_for("no engine");
    chat.wait_for("libonnxruntime.so");
    chat.send("hello\r");
    chat.wait_for("there is no engine to answer");
    chat.send("\x04");
    chat.send("\x03");
    chat.send("\x04");
    assert_eq!(chat.exit_code(), 0);
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
