//! What answers take, written down by one command and summed up by another.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use portable_pty::CommandBuilder;
use serde_json::Value;

use crate::pty::Terminal;
use crate::support::{home, model, ortalk, succeed, text};

/// Settings, data and logs of its own, beside the caches of all tests.
pub struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    pub fn new() -> Self {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        std::os::unix::fs::symlink(home().join("cache"), dir.path().join("cache")).unwrap();
        Self { dir }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    fn settings(&self, text: &str) {
        std::fs::write(self.path().join("config.toml"), text).unwrap();
    }

    fn ledger(&self) -> PathBuf {
        self.path().join("data/ledger.jsonl")
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = ortalk(arguments);
        command.env("ORTALK_HOME", self.path());
        command
    }

    pub fn output(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.output(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

const ASK: [&str; 8] = ["run", "--temperature", "0", "-n", "4", "--json", "--system", "Be brief."];

fn ask(question: &'static str) -> Vec<&'static str> {
    [&ASK[..], &[question]].concat()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn an_answer_is_written_down_without_a_word_of_it() {
    model();
    let home = Home::new();
    home.settings("[cost]\ncurrency = 'EUR'\ncloud-per-million = { input = 100, output = 1000 }");
    let answer = home.json(&ask("What is the capital of France?"));
    let (input, output) = (number(&answer["usage"]["prompt_tokens"]), number(&answer["usage"]["completion_tokens"]));
    assert!((number(&answer["cost"]["cloud"]) - (input * 100.0 + output * 1000.0) / 1e6).abs() < 1e-12, "{answer}");
    assert_eq!(answer["cost"]["currency"], "EUR");
    // Measured, or the reason; never a zero.
    let energy = &answer["energy"];
    match energy["joules"].as_f64() {
        Some(joules) => {
            assert!(joules > 0.0 && energy["source"].is_string() && energy["method"].is_string(), "{energy}")
        }
        None => assert!(energy["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{energy}"),
    }
    let written = std::fs::read_to_string(home.ledger()).unwrap();
    for word in ["capital", "France", "Paris", "brief"] {
        assert!(!written.contains(word), "{written}");
    }
    let [line] = &written.lines().collect::<Vec<_>>()[..] else { panic!("{written}") };
    let line: Value = serde_json::from_str(line).unwrap();
    assert_eq!(
        (&line["lane"], &line["via"], &line["finish"]),
        (&"cpu".into(), &"run".into(), &answer["finish_reason"])
    );
    assert_eq!((number(&line["tokens_in"]), number(&line["tokens_out"])), (input, output));

    // The sum of one is itself.
    let costs = home.json(&["cost", "--json"]);
    assert_eq!((&costs["total"]["answers"], number(&costs["total"]["tokens_out"])), (&1.into(), output));
    assert_eq!(costs["total"]["money"]["EUR"]["cloud"], answer["cost"]["cloud"]);
    let table = text(&home.output(&["cost"]).stdout);
    assert!(table.contains("SmolLM2-135M-Instruct") && table.contains("EUR"), "{table}");
}

/// Lines by hand: two days, two lanes, prices of then and of now; see `ledger::totals` for the table.
#[test]
fn sums_over_a_ledger() {
    let home = Home::new();
    home.settings(
        "[cost]\ncurrency = 'EUR'\nelectricity-per-kwh = 0.36\ncloud-per-million = { input = 1, output = 4 }",
    );
    std::fs::create_dir_all(home.path().join("data")).unwrap();
    let line = |time: &str, lane: &str, more: &str| {
        format!(
            r#"{{"v":1,"time":"{time}","via":"chat","model":"m","lane":"{lane}","finish":"stop","tokens_in":1000,"tokens_reused":200,"tokens_out":250,"seconds":2,{more}}}"#
        )
    };
    let lines = [
        // 100 J at today's 0.36 a kWh are 0.00001; 1000 in at 1 and 250 out at 4 are 0.002.
        line("2026-03-04T12:00:00Z", "cpu", r#""energy":{"joules":100,"idle_watts":3}"#),
        "{ half a li".to_owned(),
        line("2026-03-06T12:00:00Z", "cpu", r#""energy":{"reason":"no readable sensor"}"#),
        // At 0.72 then, 50 J are the same; no cloud then.
        line(
            "2026-03-06T12:30:00Z",
            "npu",
            r#""energy":{"joules":50},"prices":{"currency":"EUR","electricity_per_kwh":0.72}"#,
        ),
    ];
    std::fs::write(home.ledger(), lines.join("\n")).unwrap();
    let costs = home.json(&["cost", "--json"]);
    let total = &costs["total"];
    assert_eq!(
        (&total["answers"], &total["tokens_in"], &total["tokens_reused"]),
        (&3.into(), &3000.into(), &600.into())
    );
    assert_eq!((&total["joules"], &total["measured_answers"]), (&150.0.into(), &2.into()));
    assert_eq!((&total["joules_per_token"], &total["answers_with_idle"]), (&0.3.into(), &1.into()));
    let money = &total["money"]["EUR"];
    assert!((number(&money["electricity"]) - 0.000_02).abs() < 1e-15, "{money}");
    assert!((number(&money["cloud"]) - 0.004).abs() < 1e-15, "{money}");
    // Of the one answer with both.
    assert!((number(&money["difference"]) - 0.001_99).abs() < 1e-15, "{money}");
    assert_eq!((&money["difference_answers"], &money["cloud_answers"]), (&1.into(), &2.into()));
    assert_eq!((&total["answers_at_todays_prices"], &costs["damaged_lines"]), (&2.into(), &1.into()));
    let lanes: Vec<_> = costs["by_model_and_lane"].as_array().unwrap().iter().map(|row| &row["lane"]).collect();
    assert_eq!(lanes, ["cpu", "npu"]);
    assert_eq!(costs["by_day"].as_array().unwrap().len(), 3);
    assert_eq!(costs["energy_not_measured"], serde_json::json!([{"reason": "no readable sensor", "answers": 1}]));

    assert_eq!(home.json(&["cost", "--json", "--since", "2026-03-06"])["total"]["answers"], 2);
    let table = text(&home.output(&["cost"]).stdout);
    for words in ["Left out: 1 line, damaged, of '", "150.0 J (2)", "no readable sensor", "at today's"] {
        assert!(table.contains(words), "{words}: {table}");
    }
    let output = home.output(&["cost", "--since", "lately"]);
    assert!(!output.status.success() && text(&output.stderr).contains("--since is 'lately'"), "{output:?}");
}

#[test]
fn a_ledger_that_cannot_be_written_costs_no_answer() {
    model();
    let home = Home::new();
    // A file where the folder should be.
    std::fs::write(home.path().join("data"), "").unwrap();
    let output = home.output(&["run", "Hi", "-n", "2"]);
    assert!(output.status.success(), "{output:?}");
    let said = text(&output.stderr);
    assert_eq!(said.matches("cannot be written").count(), 1, "{said}");
}

#[test]
fn processes_that_answer_at_once_write_whole_lines() {
    model();
    let home = Home::new();
    let start = || home.command(&["run", "Hi", "-n", "3"]).stdout(Stdio::null()).spawn().unwrap();
    let mut children = [start(), start(), start()];
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
    let costs = home.json(&["cost", "--json"]);
    assert_eq!((&costs["total"]["answers"], &costs["damaged_lines"]), (&3.into(), &0.into()));
}

#[test]
fn no_ledger_is_no_error() {
    let home = Home::new();
    let table = text(&home.output(&["cost"]).stdout);
    assert!(table.contains("No answer is in the ledger") && table.contains("[cost]"), "{table}");
    // What other commands read stays out of it.
    succeed(&["sys"]);
    assert!(!home.ledger().exists());
}

/// An answer that is cancelled took something, too.
#[test]
fn the_chat_shows_what_an_answer_took_and_writes_it_down() {
    model();
    succeed(&["setup"]);
    let home = Home::new();
    home.settings("[cost]\ncurrency = 'EUR'\ncloud-per-million = { input = 100, output = 1000 }");
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_ortalk"));
    command.args(["--temperature", "0"]);
    command.env("ORTALK_HOME", home.path());
    let mut chat = Terminal::start(command, 120, 50);
    chat.wait_for("○ cpu");
    assert!(chat.screen().contains("no answer yet"), "{}", chat.screen());
    chat.send("What is the capital of France?\r");
    chat.wait_for("Paris");
    // 37 tokens at 100 and seven or eight at 1000 per million.
    chat.wait_for("cloud 0.01");
    chat.wait_for("   37 in  ");
    chat.send("Tell me a very long story about the sea.\r");
    chat.wait_for("● cpu");
    chat.send("\x03\x03");
    assert_eq!(chat.exit_code(), 0);
    let costs = home.json(&["cost", "--json"]);
    assert_eq!(costs["total"]["answers"], 2, "{costs}");
    let written = std::fs::read_to_string(home.ledger()).unwrap();
    let finished: Vec<Value> = written.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(finished.iter().all(|line| line["via"] == "chat"), "{written}");
    assert_eq!((&finished[0]["finish"], &finished[1]["finish"]), (&"stop".into(), &"cancelled".into()), "{written}");
    assert!(!written.contains("sea") && !written.contains("France"), "{written}");
}
