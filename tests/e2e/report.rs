//! `ortalk report`: what it says, and what must not be in it.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::{home, model, ortalk, text};

const USER: &str = "annelise";
const HOST: &str = "annes-box";
const SECRET: &str = "xyzzyplugh";

/// A user's home with ortalk's below it, and the caches of all tests.
struct Person {
    #[expect(dead_code, reason = "keeps the folder until the test ends")]
    dir: tempfile::TempDir,
    home: PathBuf,
}

impl Person {
    fn new() -> Self {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let own = dir.path().join("home").join(USER);
        std::fs::create_dir_all(own.join("ortalk")).unwrap();
        std::os::unix::fs::symlink(home().join("cache"), own.join("ortalk/cache")).unwrap();
        Self { home: own, dir }
    }

    fn settings(&self, text: &str) {
        std::fs::write(self.home.join("ortalk/config.toml"), text).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = ortalk(arguments);
        command.env("ORTALK_HOME", self.home.join("ortalk")).env("HOME", &self.home).env("USER", USER);
        command.env("LOGNAME", USER).env("HOSTNAME", HOST).env("HF_HOME", self.home.join("hub"));
        command.env("HF_ENDPOINT", format!("https://{USER}:{SECRET}@hub.example")).env("HF_TOKEN", SECRET);
        command
    }

    fn report(&self, more: &[&str]) -> String {
        let output = self.command(&[&["report"], more].concat()).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        let text = text(&output.stdout);
        for secret in [USER, HOST, SECRET, &self.home.display().to_string()] {
            assert!(!text.to_lowercase().contains(secret), "'{secret}' is in it:\n{text}");
        }
        text
    }
}

/// Names of the user and of the home folder in all places that a report looks at: environment, settings, libraries, the
/// last error; and words of conversations in those that might have them.
fn with_traces() -> Person {
    model();
    let person = Person::new();
    let library = person.home.join("libs/other.so");
    person.settings(&format!(
        "system = 'You are {SECRET}.'\nthreads = 2\n[[plugins]]\nname = 'OtherExecutionProvider'\nlibrary = '{}'",
        library.display()
    ));
    let lost = person.home.join("models").join(format!("{USER}.gguf"));
    let arguments = ["run", SECRET, "--model", lost.to_str().unwrap()];
    assert!(!person.command(&arguments).output().unwrap().status.success());
    person
}

#[test]
fn it_says_what_matters_and_not_who_asks() {
    let person = with_traces();
    let report = person.report(&[]);
    for words in [
        "1.31.1",
        "CPUExecutionProvider",
        "model: 311 nodes on CPUExecutionProvider",
        "SmolLM2-135M-Instruct, llama,",
        "OtherExecutionProvider = ~/libs/other.so",
        "ORTALK_HOME       ~/ortalk",
        "HF_ENDPOINT       https://<credentials>@hub.example",
        "HF_TOKEN          (set)",
        "system            (set)",
        "threads           2",
        "in run",
        "there is no file or folder '~/models/<user>.gguf'",
        "cpu load",
        "latest benchmark",
    ] {
        assert!(report.contains(words), "'{words}' is not in it:\n{report}");
    }
    // A log that has messages says which.
    assert!(report.contains("\n  log "), "{report}");

    let json: Value = serde_json::from_str(&person.report(&["--json"])).unwrap();
    assert_eq!(json["system"]["ortalk"], env!("CARGO_PKG_VERSION"));
    assert_eq!(json["opened"]["lanes"][1]["placement"][0]["nodes"]["CPUExecutionProvider"], 311);
    assert_eq!(json["last_error"]["within"], "run");
    for sensor in json["system"]["sensors"].as_array().unwrap() {
        assert!(sensor["value"].is_number() || !sensor["reasons"].as_array().unwrap().is_empty(), "{sensor}");
    }
}

/// Settings that are not right quote a line that may be a prompt.
#[test]
fn settings_that_are_wrong_are_told_without_their_lines() {
    let person = Person::new();
    person.settings(&format!("sytsem = 'You are {SECRET}.'"));
    assert!(!person.command(&["run", "Hi"]).output().unwrap().status.success());
    let report = person.report(&[]);
    assert!(report.contains("the settings file '~/ortalk/config.toml' is not right"), "{report}");
    assert!(!report.contains("You are"), "{report}");
}

/// On a machine where nothing was fetched, it says so and fetches nothing.
#[test]
fn nothing_is_fetched_for_it() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let output = ortalk(&["report"]).env("ORTALK_HOME", dir.path()).env("PATH", "").output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report = text(&output.stdout);
    assert!(report.contains("not opened: ") && report.contains("`ortalk setup`"), "{report}");
    assert!(!Path::new(&dir.path().join("cache/lib")).exists());
}
