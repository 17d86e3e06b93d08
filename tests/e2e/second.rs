//! The lane `remote` and `--connect` over a second ortalk, `ortalk serve` on this machine.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use portable_pty::CommandBuilder;
use serde_json::Value;

use crate::pty::Terminal;
use crate::remote::home_with;
use crate::support::{model, ortalk, succeed, text};

/// The default model behind OpenAI's interface.
struct Second {
    process: Child,
    address: String,
}

impl Second {
    fn start(arguments: &[&str]) -> Self {
        model();
        succeed(&["setup"]);
        let mut command = ortalk(&["serve", "--port", "0"]);
        let mut process = command.args(arguments).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let address = lines.find_map(|line| Some(line.unwrap().split_once("answers at ")?.1.to_owned())).unwrap();
        // It must not stop because nobody reads what it says.
        std::thread::spawn(move || lines.for_each(drop));
        Self { process, address }
    }

    fn settings(&self, more: &str) -> String {
        format!(
            "temperature = 0\n[remote]\nurl = '{}'\nprice-per-million = {{ input = 1, output = 2 }}\n{more}\n",
            self.address
        )
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Second {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn run(home: &Path, arguments: &[&str]) -> Command {
    let mut command = ortalk(arguments);
    command.env("ORTALK_HOME", home);
    command
}

fn chat(home: &Path, arguments: &[&str]) -> Terminal {
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_ortalk"));
    command.args(arguments);
    command.env("ORTALK_HOME", home);
    Terminal::start(command, 120, 36)
}

const STORY: &str = "Tell me a very long story about the sea.";

#[test]
fn a_second_ortalk_answers_as_this_one_would() {
    let second = Second::start(&[]);
    let home = home_with(&second.settings("privacy = 'allow'"));
    let ask = |lane: &str| -> Value {
        let output =
            run(home.path(), &["run", "--lane", lane, "--json", "What is the capital of France?"]).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let (there, here) = (ask("remote"), ask("cpu"));
    assert_eq!(there["text"], here["text"]);
    let usage = &there["usage"];
    assert_eq!(
        (&usage["prompt_tokens"], &usage["completion_tokens"]),
        (&here["usage"]["prompt_tokens"], &here["usage"]["completion_tokens"])
    );
    assert_eq!((&usage["remote"]["prompt_tokens"], &usage["remote"]["estimated"]), (&37.into(), &false.into()));
    let lane = there["lanes"].as_array().unwrap().iter().find(|lane| lane["lane"] == "remote").unwrap();
    assert_eq!((&lane["context_limit"], &lane["remote"]["model"]), (&8192.into(), &"SmolLM2-135M-Instruct".into()));
}

#[test]
fn a_server_that_is_killed_in_the_middle_of_an_answer_costs_no_word_of_it() {
    let mut second = Second::start(&[]);
    let home = home_with(&second.settings("privacy = 'allow'\nwhen = 'first'"));
    let mut command = run(home.path(), &["run", STORY, "--max-tokens", "200"]);
    let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = process.stdout.take().unwrap();
    let mut first = [0; 40];
    stdout.read_exact(&mut first).unwrap();
    second.kill();
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    let output = process.wait_with_output().unwrap();
    assert!(output.status.success());
    assert!(rest.len() > 200, "{rest}");
    let said = text(&output.stderr);
    assert!(said.contains("the answer goes on in the cpu lane, not remote: remote failed: 127.0.0.1:"), "{said}");
    assert!(said.contains("est. "), "the bill is an estimate: {said}");
}

#[test]
fn the_chat_moves_an_answer_of_a_killed_server_here() {
    let mut second = Second::start(&[]);
    let home = home_with(&second.settings("when = 'first'"));
    let mut chat = chat(home.path(), &[]);
    chat.wait_for("asks first");
    chat.wait_for("○ cpu  CPU");
    chat.send("What is the capital of France?\r");
    chat.wait_for("May this conversation be sent to 127.0.0.1:");
    chat.send("y");
    chat.wait_for("The capital of France is Paris.");
    chat.wait_for("○ remote");
    chat.send(&format!("{STORY}\r"));
    chat.wait_for("● remote");
    chat.wait_for("tok/s est.");
    second.kill();
    chat.wait_for("remote to cpu after");
    chat.wait_for("● cpu");
    chat.send("\x1b");
    chat.wait_for("cancelled");
    chat.wait_for("✗ remote");
    chat.send("\x04");
    assert_eq!(chat.exit_code(), 0);
    chat.assert_restored();
}

#[test]
fn a_chat_over_a_second_ortalk_has_its_panels() {
    let mut second = Second::start(&["--api-key", "sk-very-secret"]);
    let empty = tempfile::tempdir().unwrap();
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_ortalk"));
    command.args(["--connect", &second.address, "--temperature", "0"]);
    command.env("ORTALK_HOME", empty.path());
    command.env("ORTALK_API_KEY", "sk-very-secret");
    let mut chat = Terminal::start(command, 120, 36);
    chat.wait_for("of 311 nodes");
    chat.wait_for("○ cpu");
    assert!(!chat.screen().contains("stays on this machine"), "{}", chat.screen());
    assert!(chat.screen().contains("SmolLM2-135M-Instruct"), "{}", chat.screen());
    chat.send("What is the capital of France?\r");
    chat.wait_for("The capital of France is Paris.");
    chat.wait_for("37 new tokens, 0 reused");
    chat.wait_for("the only lane ready");
    // The server's memory, from its metrics.
    chat.wait_for(" MiB");
    assert!(!chat.screen().contains("est. 37"), "{}", chat.screen());
    chat.send("Thank you.\r");
    chat.wait_for("44 reused");
    chat.wait_for("○ cpu");
    chat.send(&format!("{STORY}\r"));
    chat.wait_for("● cpu");
    second.kill();
    chat.wait_for("error: ");
    chat.send("\x04");
    assert_eq!(chat.exit_code(), 0);
    chat.assert_restored();
    assert!(!chat.raw().contains("sk-very-secret"));
    assert!(!empty.path().join("cache").exists(), "nothing was fetched");
}

#[test]
fn a_chat_without_the_key_says_so() {
    let second = Second::start(&["--api-key", "sk-very-secret"]);
    let empty = tempfile::tempdir().unwrap();
    let mut chat = chat(empty.path(), &["--connect", &second.address]);
    chat.wait_for("wants a key");
    chat.send("\x04");
    assert_eq!(chat.exit_code(), 0);
}
