//! `ortalk chats` as a script sees it: the real binary over conversations that were written before. No model is needed.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::process::{Command, Output};

use ortalk::paths::Paths;
use ortalk::store::{Record, Store};
use serde_json::Value;

struct Home {
    folder: tempfile::TempDir,
    rivers: String,
    hills: String,
}

impl Home {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(Paths::below(folder.path()).chats());
        let keep = |seed, question: &str, answer: &str| {
            let mut file = store.begin("2026-03-04T05:06:07Z".parse().unwrap(), seed).unwrap();
            let time = "2026-03-04T05:06:07Z".parse().unwrap();
            let records = [
                Record::Question { id: 0, parent: None, time, text: question.into(), shown: None },
                Record::Answer { id: 1, parent: Some(0), time, model: "test-model".into() },
                Record::Text { id: 1, text: answer.into(), thinking: String::new(), token: None },
            ];
            for record in records {
                file.write(&mut record.line().into_bytes()).unwrap();
            }
            file.id().to_owned()
        };
        let rivers = keep(1, "Name a river.", "The Loire\x1b[31m, for one.");
        std::thread::sleep(std::time::Duration::from_millis(20));
        let hills = keep(2, "Name a hill.", "Montmartre");
        Self { folder, rivers, hills }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ortalk"));
        command.arg("chats").args(arguments).env("ORTALK_HOME", self.folder.path());
        command.output().unwrap()
    }

    fn text(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.text(arguments)).unwrap()
    }

    fn error(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    }
}

#[test]
fn they_are_listed_searched_and_shown() {
    let home = Home::new();
    let list = home.text(&[]);
    let lines: Vec<&str> = list.lines().collect();
    assert!(lines[0].starts_with(&home.hills) && lines[1].starts_with(&home.rivers), "{list}");
    assert!(lines[1].ends_with("   2  Name a river."), "{list}");
    let json = home.json(&["--json"]);
    assert_eq!((&json["schema"], json["conversations"].as_array().unwrap().len()), (&1.into(), 2));

    let json = home.json(&["search", "LOIRE", "river", "--json"]);
    assert_eq!(json["conversations"][0]["id"], home.rivers.as_str());
    assert!(json["conversations"][0]["snippet"].as_str().unwrap().contains("Loire"));
    // What a terminal would obey is made visible in a list.
    assert!(home.text(&["search", "loire"]).contains("Loire^[[31m, for one."));
    let output = home.run(&["search", "zebra"]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));

    let shown = home.text(&["show", "0001"]);
    assert!(shown.starts_with("# Name a river.\n\n## You\n\nName a river.\n\n## test-model\n"), "{shown}");
    assert!(shown.contains("*cut: ortalk ended while it was written*"), "{shown}");
    assert!(home.text(&["show"]).contains("Montmartre"));
    assert_eq!(home.json(&["show", &home.rivers, "--json"])["messages"][1]["role"], "assistant");
    assert!(home.error(&["show", "2026"]).contains("give more of the name"));
    assert!(home.error(&["show", "zebra"]).contains("no conversation has 'zebra' in its name"));
}

#[test]
fn they_are_renamed_deleted_and_had_back() {
    let home = Home::new();
    home.text(&["rename", "0002", "Hills of Paris"]);
    assert!(home.text(&[]).contains("Hills of Paris"));
    assert!(home.error(&["rename", "0002", " "]).contains("the title is empty"));

    home.text(&["delete", "0002"]);
    assert!(!home.text(&[]).contains("Hills"));
    assert!(home.text(&["--deleted"]).contains("Hills of Paris"));
    home.text(&["undelete", "0002"]);
    assert_eq!(home.text(&[]).lines().count(), 2);
    assert!(home.error(&["undelete", "0002"]).contains("no deleted conversation has '0002'"));

    home.text(&["delete", "0001", "0002"]);
    assert_eq!(home.text(&[]), "");
    home.text(&["delete", "--forever", "0002"]);
    let left = home.text(&["--deleted"]);
    assert!(left.contains("Name a river.") && left.lines().count() == 1, "{left}");
    assert!(home.error(&["delete", "0001"]).contains("no conversation has '0001'"));
}

#[test]
fn they_are_exported() {
    let home = Home::new();
    assert!(home.text(&["export", "0002"]).starts_with("# Name a hill."));
    assert_eq!(home.json(&["export", "0002", "--format", "json"])["title"], "Name a hill.");
    let file = home.folder.path().join("hills.json");
    let path = file.to_str().unwrap();
    home.text(&["export", "0002", path]);
    let written: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(written["messages"][1]["text"], "Montmartre");
    assert!(home.error(&["export", "0002", path]).contains("a file that is there is not written over"));
    assert!(home.error(&["export", "0002", "hills.txt"]).contains("end it in .md or .json"));
}
