//! `ortalk run`, as a script uses it.

use std::io::Write;
use std::process::Stdio;

use serde_json::Value;

use crate::support::{model, ortalk, succeed, text};

fn json(arguments: &[&str]) -> Value {
    serde_json::from_slice(&succeed(arguments).stdout).unwrap()
}

#[test]
fn the_capital_of_france() {
    let output = succeed(&["run", "What is the capital of France?", "--temperature", "0"]);
    assert!(text(&output.stdout).contains("Paris"), "{}", text(&output.stdout));
}

#[test]
fn one_json_object_with_every_field() {
    let answer = json(&["run", "What is the capital of France?", "--temperature", "0", "--json"]);
    assert!(answer["text"].as_str().unwrap().contains("Paris"), "{answer}");
    assert_eq!(answer["finish_reason"], "stop");
    assert_eq!(answer["model"], "SmolLM2-135M-Instruct");

    let completion = answer["usage"]["completion_tokens"].as_u64().unwrap();
    assert!(completion > 3, "{answer}");
    assert_eq!(answer["usage"]["prompt_tokens"], 37);
    assert_eq!(answer["usage"]["reused_tokens"], 0);

    let timings = &answer["timings"];
    for rate in ["ttft_ms", "prefill_tokens_per_second", "decode_tokens_per_second"] {
        assert!(timings[rate].as_f64().unwrap() > 0.0, "{rate}: {answer}");
    }
    let latencies = timings["token_latencies_ms"].as_array().unwrap();
    assert_eq!(latencies.len() as u64, completion - 1);
    // The rate is the latencies' own: tokens after the first, by the time they took.
    let seconds: f64 = latencies.iter().map(|ms| ms.as_f64().unwrap() / 1e3).sum();
    let rate = timings["decode_tokens_per_second"].as_f64().unwrap();
    assert!((rate * seconds / latencies.len() as f64 - 1.0).abs() < 1e-3, "{answer}");

    let routing = &answer["routing"];
    assert_eq!(routing["lane"], "cpu");
    assert_eq!(routing["execution_provider"], "CPUExecutionProvider");
    assert_eq!(routing["emulated"], false);
    assert_eq!(routing["rule"], "only_ready");
    assert_eq!(routing["policy"], "auto");
    // The prompt, and as much of the answer as is expected.
    assert_eq!((&routing["prompt_tokens"], &routing["needed_tokens"]), (&37.into(), &(37 + 128).into()));
    // The template has instructions of its own: 24 tokens up to the question, which takes 7, and 6 of marks behind it.
    assert_eq!(routing["parts"], serde_json::json!({"system": 24, "history": 0, "message": 13}));
    assert_eq!((&routing["max_tokens"], &routing["context_limit"]), (&1024.into(), &8192.into()));
    assert_eq!(routing["rejected"][0]["lane"], "npu");
    assert!(routing["rejected"][0]["reason"].as_str().unwrap().contains("NPU"), "{answer}");
}

#[test]
fn the_json_says_what_each_lane_is() {
    let answer = json(&["run", "Hi", "-n", "3", "--temperature", "0", "--json", "--threads", "1"]);
    assert_eq!(answer["lane_changes"], serde_json::json!([]));
    assert_eq!(answer["usage"]["completion_tokens_by_lane"], serde_json::json!({"cpu": 3}));
    let [npu, cpu] = &answer["lanes"].as_array().unwrap()[..] else { panic!("{answer}") };
    assert_eq!((&npu["lane"], &npu["state"], &npu["emulated"]), (&"npu".into(), &"absent".into(), &false.into()));
    assert_eq!(npu["execution_provider"], "QNNExecutionProvider");
    assert!(npu["reason"].as_str().unwrap().contains("--emulate-npu"), "{npu}");
    assert_eq!((&npu["context_limit"], &npu["placement"]), (&Value::Null, &serde_json::json!([])));
    assert_eq!((&cpu["lane"], &cpu["state"], &cpu["reason"]), (&"cpu".into(), &"ready".into(), &Value::Null));
    assert_eq!((&cpu["context_limit"], &cpu["threads"]), (&8192.into(), &1.into()));
    let placement =
        serde_json::json!([{"graph": "model", "nodes": {"CPUExecutionProvider": 311}, "compiled_nodes": null}]);
    assert_eq!(cpu["placement"], placement);
}

#[test]
fn the_context_can_be_shorter_than_the_model_s_and_not_longer() {
    let answer = json(&["run", "Hi", "-n", "3", "--context", "512", "--json"]);
    let cpu = &answer["lanes"][1];
    assert_eq!(cpu["context_limit"], 512);
    let bytes = cpu["memory_bytes"].as_u64().unwrap();
    let files: u64 = ["model.onnx", "model.onnx.data"].map(|f| model().join(f).metadata().unwrap().len()).iter().sum();
    // 46,080 bytes of keys and values a token.
    assert!((files + 512 * 46_080..3 * files).contains(&bytes), "{bytes}");

    let output = ortalk(&["run", "Hi", "--context", "8193"]).output().unwrap();
    let said = text(&output.stderr);
    assert!(!output.status.success() && said.contains("--context is 8193") && said.contains("at most 8192"), "{said}");
}

/// The tables of rotations in a graph may be shorter than its configuration claims.
#[test]
fn the_context_ends_where_the_graph_s_tables_do() {
    let folder = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(model()).unwrap() {
        let file = file.unwrap();
        std::fs::hard_link(file.path(), folder.path().join(file.file_name())).unwrap();
    }
    let path = folder.path().join("genai_config.json");
    let config =
        std::fs::read_to_string(&path).unwrap().replace("\"context_length\": 8192", "\"context_length\": 32768");
    // Not over the link.
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, config).unwrap();
    let named = folder.path().to_str().unwrap();
    let answer = json(&["run", "Hi", "-n", "3", "--json", "--model", named]);
    assert_eq!(answer["lanes"][1]["context_limit"], 8192);
    let output = ortalk(&["run", "Hi", "--model", named, "--context", "9000"]).output().unwrap();
    let said = text(&output.stderr);
    assert!(!output.status.success() && said.contains("tables of rotations end at 8192"), "{said}");
}

/// A second process knows what the first one measured.
#[test]
fn rates_are_kept_for_the_next_run() {
    let ask = || json(&["run", "Name three rivers.", "-n", "6", "--temperature", "0", "--threads", "2", "--json"]);
    ask();
    let routing = ask()["routing"].clone();
    let predicted = |key: &str| routing[key].as_f64().unwrap_or_default();
    assert!(predicted("predicted_ttft_ms") > 0.0, "{routing}");
    assert!(predicted("predicted_total_ms") > predicted("predicted_ttft_ms"), "{routing}");
}

/// A policy is a wish: where its lane is absent, another one answers and says why.
#[test]
fn a_policy_takes_what_is_there() {
    for policy in ["auto", "npu", "cpu", "fastest", "efficient"] {
        let answer = json(&["run", "Hi", "-n", "2", "--policy", policy, "--json"]);
        let routing = &answer["routing"];
        assert_eq!((&routing["policy"], &routing["lane"]), (&policy.into(), &"cpu".into()), "{answer}");
        assert_eq!(routing["rule"], "only_ready");
    }
}

#[test]
fn the_same_seed_gives_the_same_text() {
    let sampled = |seed: &str| {
        let arguments =
            ["run", "Tell me a story.", "--temperature", "1.2", "--top-k", "0", "--seed", seed, "-n", "24", "--json"];
        json(&arguments)["text"].as_str().unwrap().to_string()
    };
    assert_eq!(sampled("7"), sampled("7"));
    assert_ne!(sampled("7"), sampled("8"));
}

#[test]
fn max_tokens_is_a_length_finish() {
    let answer = json(&["run", "Tell me a long story.", "-n", "5", "--temperature", "0", "--json"]);
    assert_eq!((&answer["finish_reason"], &answer["usage"]["completion_tokens"]), (&"length".into(), &5.into()));
}

#[test]
fn a_stop_text_ends_the_answer() {
    let arguments =
        ["run", "What is the capital of France?", "--temperature", "0", "--stop", " Paris", "--json", "-n", "30"];
    let answer = json(&arguments);
    assert_eq!(answer["finish_reason"], "stop");
    assert!(!answer["text"].as_str().unwrap().contains("Paris"), "{answer}");
}

#[test]
fn a_piped_prompt_is_read() {
    let mut child = ortalk(&["run", "-", "--temperature", "0", "-n", "12", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all("What is the capital of France?\n".as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["usage"]["prompt_tokens"], 37, "{answer}");
}

#[test]
fn a_reader_that_goes_away_ends_it() {
    let mut child = ortalk(&["run", "Tell me a long story.", "-n", "4000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(141), "{output:?}");
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
}

#[test]
fn what_is_wrong_is_said() {
    let cases: [(&[&str], &str); 11] = [
        (&["run", "Hi", "--temperature", "-1"], "temperature is '-1'; it must be 0 or more"),
        (&["run", "Hi", "--top-p", "1.5"], "top-p is '1.5'; it must be between 0 and 1"),
        (&["run", "Hi", "--lane", "npu"], "the npu lane was asked for, but it is not there: "),
        (&["run", "Hi", "--lane", "npu"], "; --emulate-npu simulates one"),
        (&["run", "Hi", "--policy", "best"], "invalid value 'best'"),
        (&["run", "Hi", "--npu-model", "/"], "--npu-model names '/', which is no model folder for the NPU"),
        (&["run", "Hi", "--lane", "tpu"], "invalid value 'tpu'"),
        (&["run", ""], "the prompt is empty"),
        (
            &["run", "Hi", "--model", "/no/such/model"],
            "--model cannot be found: there is no file or folder '/no/such/model'",
        ),
        (&["run", "Hi", "-n", "0"], "0 is not in 1.."),
        (&["run", "Hi", "--threads", "9999"], "threads is '9999'; it must be between 1 and 1024"),
    ];
    for (arguments, expected) in cases {
        let output = ortalk(arguments).output().unwrap();
        let errors = text(&output.stderr);
        assert!(!output.status.success(), "{arguments:?}");
        assert!(errors.contains(expected), "{arguments:?}: {errors}");
        assert!(!errors.contains("panicked"), "{errors}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_prompt_that_cannot_fit_is_refused_with_the_numbers() {
    let long = "word ".repeat(9000);
    let mut child =
        ortalk(&["run"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(long.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("a context of 8192"), "{}", text(&output.stderr));
}

/// The default model's folder once more, with this in its configuration's place of `key`.
fn configured(key: &str, value: Value) -> tempfile::TempDir {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for entry in std::fs::read_dir(model()).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name() != "genai_config.json" {
            std::fs::hard_link(entry.path(), folder.path().join(entry.file_name())).unwrap();
        }
    }
    let text = std::fs::read(model().join("genai_config.json")).unwrap();
    let mut config: Value = serde_json::from_slice(&text).unwrap();
    *config.pointer_mut(key).unwrap() = value;
    std::fs::write(folder.path().join("genai_config.json"), config.to_string()).unwrap();
    folder
}

#[test]
fn an_answer_that_fills_the_context_says_so() {
    let folder = configured("/model/context_length", 48.into());
    let model = folder.path().to_str().unwrap();
    let output = succeed(&["run", "Tell me a long story.", "--temperature", "0", "--model", model]);
    assert!(text(&output.stderr).contains("(the context is full)"), "{}", text(&output.stderr));
}

#[test]
fn a_number_of_layers_that_no_model_has_is_refused() {
    let folder = configured("/model/decoder/num_hidden_layers", (1_u64 << 62).into());
    let output = ortalk(&["run", "Hi", "--model", folder.path().to_str().unwrap()]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stderr).contains("no model has more than 4096"), "{}", text(&output.stderr));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_behind_standard_output_is_said() {
    model();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = ortalk(&["setup"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stderr).contains("standard output cannot be written"), "{}", text(&output.stderr));
}
