//! The chat as a person uses it: the real binary in a pseudo-terminal, answering with the real model.

use std::process::Stdio;
use std::time::Duration;

use portable_pty::CommandBuilder;
use rustix::process::Signal;

use crate::pty::Terminal;
use crate::support::{home, model, ortalk, succeed, text};

/// Opens the chat and waits until it is ready.
fn open(columns: u16, rows: u16, arguments: &[&str]) -> Terminal {
    // So that no test waits for the download in its own terminal.
    model();
    succeed(&["setup"]);
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_ortalk"));
    command.args(["--temperature", "0"]);
    command.args(arguments);
    command.env("ORTALK_HOME", home());
    let mut chat = Terminal::start(command, columns, rows);
    chat.wait_for("○ cpu");
    chat
}

/// A number that stands before `unit` on the screen.
fn number_before(screen: &str, unit: &str) -> Option<f64> {
    let (before, _) = screen.split_once(unit)?;
    before.split_whitespace().next_back()?.parse().ok()
}

#[test]
fn a_question_is_answered_while_the_panels_move() {
    let mut chat = open(120, 36, &[]);
    let before = chat.screen();
    assert!(before.contains("SmolLM2-135M-Instruct") && before.contains("of 311 nodes"), "{before}");
    assert!(before.contains("✗ npu  ") && before.contains("QNN plug-in"), "{before}");

    chat.send("What is the capital of France?\r");
    chat.wait_for("The capital of France is Paris.");
    chat.wait_for("○ cpu");
    let first = chat.screen();
    assert!(number_before(&first, " tok/s").is_some_and(|rate| rate > 0.0), "{first}");
    assert!(first.contains("37 new tokens, 0 reused"), "{first}");
    assert!(first.contains("tokens 37 prompt + 128 expected of 1024 = 165"), "{first}");
    assert!(first.contains("the only lane ready"), "{first}");

    // The second turn finds the first one in the cache: 37 prompt tokens and the answer's seven.
    chat.send("Thank you.\r");
    chat.wait_for("44 reused");
    chat.wait_for("○ cpu");
    chat.send("\x04");
    assert_eq!(chat.exit_code(), 0);
    chat.assert_restored();
}

#[test]
fn an_answer_can_be_cancelled_and_the_next_one_comes() {
    let mut chat = open(80, 24, &[]);
    chat.send("Tell me a very long story about the sea.\r");
    chat.wait_for("● cpu");
    chat.wait_until("text", |chat| number_before(&chat.screen(), " tok/s").is_some());
    chat.send("\x1b");
    chat.wait_for("cancelled");
    chat.wait_for("○ cpu");
    chat.send("What is the capital of France?\r");
    chat.wait_for("Paris");
    chat.send("\x03\x03");
    assert_eq!(chat.exit_code(), 0);
    chat.assert_restored();
}

#[test]
fn the_smallest_screen_still_chats() {
    let mut chat = open(50, 15, &[]);
    chat.send("What is the capital of France?\r");
    chat.wait_for("Paris");
    chat.send("\x04");
    assert_eq!(chat.exit_code(), 0);
    chat.assert_restored();
}

#[test]
fn a_cut_answer_says_so() {
    let mut chat = open(120, 36, &["--max-tokens", "5"]);
    chat.send("Tell me a long story.\r");
    chat.wait_for("○ cpu");
    chat.wait_for("5 tokens");
    chat.send("\x04");
    assert_eq!(chat.exit_code(), 0);
}

#[test]
fn signals_in_the_middle_of_an_answer_leave_a_clean_terminal() {
    for (signal, status) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let mut chat = open(120, 36, &[]);
        chat.send("Tell me a very long story about the sea.\r");
        chat.wait_for("● cpu");
        chat.signal(signal);
        assert_eq!(chat.exit_code(), status);
        chat.assert_restored();
    }
}

#[test]
fn a_vanished_terminal_ends_the_program() {
    let mut chat = open(120, 36, &[]);
    chat.send("Tell me a very long story about the sea.\r");
    chat.wait_for("● cpu");
    chat.close_terminal();
    chat.assert_ends_within(Duration::from_secs(5));
}

#[test]
fn a_model_that_cannot_be_opened_is_named_on_the_screen() {
    let broken = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(model()).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), broken.path().join(entry.file_name())).unwrap();
    }
    std::fs::write(broken.path().join("model.onnx"), "not a graph").unwrap();
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_ortalk"));
    command.args(["--model", broken.path().to_str().unwrap()]);
    command.env("ORTALK_HOME", home());
    let mut chat = Terminal::start(command, 120, 36);
    chat.wait_for("model.onnx");
    chat.send("\x04");
    assert_eq!(chat.exit_code(), 0);
    chat.assert_restored();
}

/// The default model with a shorter context; its weights are linked, not copied.
fn model_with_context(context: usize) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(model()).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name() != "genai_config.json" {
            std::os::unix::fs::symlink(entry.path(), folder.path().join(entry.file_name())).unwrap();
        }
    }
    let config = std::fs::read(model().join("genai_config.json")).unwrap();
    let mut config: serde_json::Value = serde_json::from_slice(&config).unwrap();
    config["model"]["context_length"] = context.into();
    std::fs::write(folder.path().join("genai_config.json"), config.to_string()).unwrap();
    folder
}

#[test]
fn a_conversation_that_outgrows_the_context_says_what_it_leaves_out() {
    let folder = model_with_context(256);
    let mut chat = open(120, 36, &["--model", folder.path().to_str().unwrap(), "--max-tokens", "64"]);
    for turn in 1..=4 {
        chat.send(&format!("{turn}: tell me more about the sea, the ships on it and the people who live by it.\r"));
        chat.wait_for("● cpu");
        chat.wait_for("○ cpu");
    }
    chat.wait_for("left out");
    let screen = chat.screen();
    assert!(screen.contains("/256"), "{screen}");
    // What is typed is weighed as it would be sent: without the oldest turns.
    chat.send("5: and the people?");
    chat.wait_for("the oldest turns will be left out");
    let screen = chat.screen();
    let tokens = screen.lines().find_map(|line| line.split_once("│ tokens ")?.1.split_once(" prompt")).unwrap().0;
    let (kept, whole) = tokens.split_once(" of ").unwrap_or_else(|| panic!("{screen}"));
    let (kept, whole): (usize, usize) = (kept.trim().parse().unwrap(), whole.parse().unwrap());
    assert!(kept < 256 && whole > kept, "{screen}");
    // What can never be sent is weighed without them, too, and stays with who wrote it.
    chat.send(&format!("\x15\x1b[200~{}\x1b[201~", "sea ".repeat(300)));
    chat.wait_for(" that cpu has beside an answer");
    assert!(chat.screen().contains("not sent"), "{}", chat.screen());
    chat.send("\r");
    chat.wait_for("not sent: ");
    chat.send("\x15\x04");
    assert_eq!(chat.exit_code(), 0);
}

#[test]
fn without_a_terminal_it_points_to_run() {
    let output = ortalk(&[]).stdout(Stdio::piped()).output().unwrap();
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("ortalk run"), "{}", text(&output.stderr));
}
