//! The chat in a pseudo-terminal, with both lanes over the two-layer model: the panels say which one answers, and why.

use std::fs;
use std::time::Duration;

use portable_pty::CommandBuilder;
use rustix::process::{Pid, Signal, kill_process};

use crate::pty::Terminal;
use crate::support::{home, library, plugin};
use crate::two_layers::two_layers;

const QUESTION: &str = "What is the capital of France?";

fn open(columns: u16, rows: u16, max_tokens: usize) -> Terminal {
    library();
    plugin();
    let two_layers = two_layers();
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_ortalk"));
    command.args(["--emulate-npu", "--temperature", "0", "--max-tokens", &max_tokens.to_string()]);
    command.args(["--model".as_ref(), two_layers.source.as_os_str()]);
    command.args(["--npu-model".as_ref(), two_layers.bundle.as_os_str()]);
    command.env("ORTALK_HOME", home());
    let mut chat = Terminal::start(command, columns, rows);
    chat.wait_for("○ cpu");
    chat
}

/// What is typed shows where it would run, which is the NPU as soon as that is ready.
fn type_when_the_npu_is_ready(chat: &mut Terminal, text: &str) {
    chat.send(text);
    chat.wait_for("37 of 512 tokens, would run on npu emulated");
}

fn finish(mut chat: Terminal) {
    chat.send("\x04");
    assert_eq!(chat.exit_code(), 0);
    chat.assert_restored();
}

fn assert_shows(screen: &str, expected: &[&str]) {
    for words in expected {
        assert!(screen.contains(words), "'{words}' is missing:\n{screen}");
    }
}

/// A text of some 700 tokens, as a terminal pastes it, and sent.
fn paste(chat: &mut Terminal) {
    chat.send(&format!("\x1b[200~{}\x1b[201~\r", "sea ".repeat(700)));
}

#[test]
fn a_short_question_runs_on_the_npu_and_a_long_paste_on_the_cpu() {
    let mut chat = open(120, 36, 3);
    type_when_the_npu_is_ready(&mut chat, QUESTION);
    chat.send("\r");
    chat.wait_for("cut off after 3 tokens");
    let screen = chat.screen();
    assert_shows(&screen, &["│ ○ npu  QNNExecutionProvider · emulated", " nodes · simulator", "○ cpu  CPU · "]);
    let route = [
        "tokens 37 prompt + 3 answer = 40",
        "rule   first that fits",
        "✓ npu  ━───────  40/512  est. ",
        "40/8192  npu comes first",
    ];
    assert_shows(&screen, &route);
    assert_shows(&screen, &["two-layers · npu emulated ", "/512"]);
    // What it runs on is told as a whole where there is room for it.
    chat.send("\t\x1bOR");
    chat.wait_for(" nodes · simulator on ");
    chat.send("\x1b");
    chat.wait_for("two-layers · npu emulated ");

    paste(&mut chat);
    chat.wait_for("/8192  est.");
    chat.wait_for("○ cpu  CPUExecutionProvider");
    let screen = chat.screen();
    assert_shows(
        &screen,
        &[
            "✗ npu  ━",
            "/512  too long",
            "rule   first that fits",
            "○ npu  QNN · emulated · ",
            "two-layers · cpu ",
            "✓ cpu  ",
            "/8192",
        ],
    );

    // By name it is the NPU, with what fits there, or nothing: the oldest turns stay out.
    chat.send("/npu Hi\r");
    chat.wait_for("rule   you asked for it");
    chat.wait_for("you asked for npu");
    chat.wait_for("○ npu  QNNExecutionProvider");
    assert_shows(&chat.screen(), &["tokens 31 of ", " prompt + 3 answer = 34", "left out"]);
    finish(chat);
}

#[test]
fn eighty_columns_show_it_in_a_strip() {
    let mut chat = open(80, 24, 3);
    type_when_the_npu_is_ready(&mut chat, QUESTION);
    chat.send("\r");
    chat.wait_for("cut off after 3 tokens");
    assert_shows(&chat.screen(), &["lane   ○ npu QNN emulated ", " nodes", "route  37+3 tok, not cpu", "/512"]);

    paste(&mut chat);
    chat.wait_for("lane   ○ cpu CPU ");
    chat.wait_for("+3 tok, npu too long");
    assert_shows(&chat.screen(), &["two-layers · cpu ", "/8192"]);
    // The panels open one by one.
    for _ in 0..6 {
        chat.send("\t");
        std::thread::sleep(Duration::from_millis(300));
        if chat.screen().contains("/512  too long") {
            return finish(chat);
        }
    }
    panic!("no panel says why:\n{}", chat.screen());
}

/// The process that the NPU lane runs in: the chat's only child.
fn lane(chat: &Terminal) -> Pid {
    let tasks = fs::read_dir(format!("/proc/{}/task", chat.pid().as_raw_nonzero())).unwrap();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.unwrap().path().join("children")).ok());
    let children: String = lists.collect();
    Pid::from_raw(children.trim().parse().unwrap()).unwrap()
}

/// The conversation on a wide screen, its lines put together again.
fn conversation(chat: &Terminal) -> String {
    let screen = chat.screen();
    let left = screen.lines().filter_map(|line| line.split(['│', '├']).next());
    left.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

#[test]
fn an_answer_goes_on_when_the_npu_s_process_dies() {
    let mut chat = open(120, 36, 24);
    type_when_the_npu_is_ready(&mut chat, QUESTION);
    chat.send("\r");
    // Some tokens are there: their latencies are.
    chat.wait_until("a latency", |chat| chat.screen().contains("● npu") && !chat.screen().contains("p50    —"));
    kill_process(lane(&chat), Signal::ABORT).unwrap();
    let reason = "npu failed: its process ended with signal: 6 (SIGABRT)";
    chat.wait_until(reason, |chat| conversation(chat).contains(reason));
    chat.wait_for("cut off after 24 tokens");
    chat.wait_for("○ cpu  CPUExecutionProvider");
    assert!(conversation(&chat).contains(&format!("tokens: {reason}")), "{}", chat.screen());
    assert_shows(
        &chat.screen(),
        &["✗ npu  failed: its process ended", "✓ cpu  from token ", "npu failed: its", "two-layers · cpu "],
    );

    // The next answer says why it is not the NPU's; who names the NPU has it started again.
    chat.send("Hi\r");
    chat.wait_for("rule   the only lane ready");
    chat.wait_for("✓ cpu  ");
    chat.send("/npu Hi\r");
    chat.wait_for("rule   you asked for it");
    chat.wait_for("✓ npu  ");
    chat.wait_for("● npu  QNNExecutionProvider");
    chat.send("\x1b");
    chat.wait_for("cancelled");
    finish(chat);
}
