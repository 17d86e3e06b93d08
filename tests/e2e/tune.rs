//! `ortalk bench --tune` on the real model, in a home of its own: what is stored there should not change other tests' lanes.

use std::path::PathBuf;
use std::process::Command;

use ortalk::bench::tune::{TURN_PROMPT, Timer};
use ortalk::engine::*;
use ortalk::model::ModelFolder;
use serde_json::Value;

use crate::json_schema;
use crate::support::{home, model, ortalk, runtime, text};

/// Library and model are found in the tests' own folder.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let library = find(&home().join("cache/lib"), "libonnxruntime").expect("the library that the tests fetched");
        let settings = format!("model = {:?}\nonnx-runtime = {:?}\n", model(), library);
        std::fs::write(dir.path().join("config.toml"), settings).unwrap();
        Self(dir)
    }

    fn ortalk(&self, arguments: &[&str]) -> Command {
        let mut command = ortalk(arguments);
        command.env("ORTALK_HOME", self.0.path());
        command
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.ortalk(arguments).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// How the CPU lane ran an answer: threads, spinning, and who chose them.
    fn cpu(&self, more: &[&str]) -> (u64, bool, String) {
        let answer = self.json(&[&["run", "--json", "-n", "1", "Hi"], more].concat());
        let lanes = answer["lanes"].as_array().unwrap();
        let cpu = lanes.iter().find(|lane| lane["lane"] == "cpu").unwrap();
        let chosen_by = cpu["threads_chosen_by"].as_str().unwrap().to_owned();
        (cpu["threads"].as_u64().unwrap(), cpu["spinning"].as_bool().unwrap(), chosen_by)
    }
}

fn find(folder: &std::path::Path, start: &str) -> Option<PathBuf> {
    for entry in std::fs::read_dir(folder).ok()?.flatten() {
        let path = entry.path();
        let matches = entry.file_name().to_string_lossy().starts_with(start) && path.is_file();
        if let Some(found) = if matches { Some(path.clone()) } else { find(&path, start) } {
            return Some(found);
        }
    }
    None
}

#[test]
fn what_was_found_is_stored_and_used_where_nobody_names_threads() {
    runtime();
    let home = Home::new();
    assert_eq!(home.cpu(&[]).2, "default");
    let report = home.json(&["bench", "--tune", "--json", "--store", "--rounds", "3"]);
    let schema = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/tune.schema.json")).unwrap();
    let schema: Value = serde_json::from_slice(&schema).unwrap();
    assert_eq!(json_schema::errors(&schema, &report), Vec::<String>::new());
    let mut broken = report.clone();
    *broken.pointer_mut("/races/0/entries/0/standing").unwrap() = "quick".into();
    assert!(!json_schema::errors(&schema, &broken).is_empty());

    // Of each race one is the fastest, and its ratio is none.
    for race in report["races"].as_array().unwrap() {
        let entries = race["entries"].as_array().unwrap();
        let fastest: Vec<_> = entries.iter().filter(|entry| entry["standing"] == "fastest").collect();
        assert_eq!(fastest.len(), 1, "{race}");
        assert_eq!(fastest[0]["ratio"], 1.0, "{race}");
    }
    assert_eq!(report["stored"], true);
    let chosen = &report["chosen"];
    let expected = (chosen["threads"].as_u64().unwrap(), chosen["spinning"].as_bool().unwrap());
    let (threads, spinning, chosen_by) = home.cpu(&[]);
    assert_eq!(((threads, spinning), chosen_by.as_str()), (expected, "tuning"));
    // Who names threads, gets those.
    assert_eq!(home.cpu(&["--threads", "1"]), (1, false, "user".into()));
    let sys = home.json(&["sys", "--json"]);
    assert_eq!(sys["tuned"][0]["setting"], *chosen, "{sys}");

    // What was found is for the files as they were.
    let stored = home.0.path().join("cache/tuning.json");
    let changed = std::fs::read_to_string(&stored).unwrap().replacen("\"model.onnx\"", "\"another.onnx\"", 1);
    std::fs::write(&stored, changed).unwrap();
    assert_eq!(home.cpu(&[]).2, "default");
}

#[test]
fn tuning_measures_nothing_else_and_stores_nothing_unasked() {
    runtime();
    let home = Home::new();
    for (more, expected) in [
        (&["--lanes", "cpu"][..], "cannot be used with"),
        (&["--threads", "2"], "cannot be used with"),
        (&["--store", "--no-store"], "cannot be used with"),
        (&["--rounds", "2"], "2 is not in 3.."),
    ] {
        let output = home.ortalk(&[&["bench", "--tune"], more].concat()).output().unwrap();
        assert!(!output.status.success() && text(&output.stderr).contains(expected), "{more:?}");
    }
    let output = home.ortalk(&["bench", "--store"]).output().unwrap();
    assert!(!output.status.success() && text(&output.stderr).contains("--tune"));
    assert!(!home.0.path().join("cache/tuning.json").exists());
}

/// A setting's answers do not depend on it: threads, spinning and passes change no number that a token is chosen by.
#[test]
fn each_setting_gives_the_same_text() {
    let folder = std::sync::Arc::new(ModelFolder::open(model()).unwrap());
    let question = "Which rivers flow through Europe? Name their sources, their mouths and the cities on their banks, and say \
                    of each of them which languages are spoken there, and since when.";
    let answers: Vec<String> = [(1, false, 128), (2, false, 32), (2, true, 7), (2, true, 512)]
        .into_iter()
        .map(|(threads, spinning, prefill_chunk)| {
            let setting = CpuSetting { threads, spinning, prefill_chunk };
            let lane = cpu_lane(runtime(), folder.clone(), (setting, ChosenBy::Tuning), Some(512), 0);
            let options = EngineOptions { model: folder.clone(), lanes: vec![lane], emulation: false, listener: None };
            let engine = Engine::load(options).unwrap();
            let settings = AnswerSettings {
                system: None,
                sampling: Sampling::GREEDY,
                max_tokens: 24,
                thinking: None,
                policy: Policy::Auto,
                lane: None,
                allow_remote: false,
            };
            let mut events = engine.submit(settings.request([ChatMessage::new(Role::User, question)]));
            let mut answer = String::new();
            while let Some(event) = events.blocking_recv() {
                match event {
                    GenerationEvent::Token(token) => answer += &token.text,
                    GenerationEvent::Finished(finished) => assert_eq!(finished.reason, FinishReason::Length),
                    _ => {}
                }
            }
            answer
        })
        .collect();
    assert!(answers[0].len() > 20 && answers.iter().all(|answer| *answer == answers[0]), "{answers:#?}");
}

/// What is measured is long enough to be measured, and engines are opened once for each setting.
#[test]
fn a_timer_opens_each_setting_once() {
    let folder = std::sync::Arc::new(ModelFolder::open(model()).unwrap());
    let opened = std::cell::RefCell::new(Vec::new());
    let open = Box::new(|setting| {
        opened.borrow_mut().push(setting);
        let lane = cpu_lane(runtime(), folder.clone(), (setting, ChosenBy::Tuning), Some(1024), 0);
        Ok(Engine::load(EngineOptions { model: folder.clone(), lanes: vec![lane], emulation: false, listener: None })?)
    });
    let default = CpuSetting::with_threads(2);
    let (mut timer, space) = Timer::new(default, 2, open).unwrap();
    assert!(space.chunks.contains(&128) && timer.work().prompt_tokens <= TURN_PROMPT);
    let other = CpuSetting { spinning: true, ..default };
    for setting in [default, other, default, other] {
        let timing = timer.time(setting, true).unwrap();
        assert!(
            timing.prefill_token_ms > 0.0 && timing.decode_token_ms.unwrap() > timing.prefill_token_ms,
            "{timing:?}"
        );
    }
    assert_eq!(timer.time(other, false).unwrap().decode_token_ms, None);
    assert_eq!(*opened.borrow(), [default, other]);
}
