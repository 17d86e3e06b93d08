//! `ortalk bench --server` against a server that answers with given pieces, and fails in chosen ways.

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::json_schema;
use crate::openai::{Behaviour, PIECES, Server};

fn bench(server: &Server, more: &[&str]) -> Output {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ortalk"));
    command.args(["bench", "--server", &server.address]).args(more).stdin(Stdio::null());
    command.env("ORTALK_HOME", home.path()).env("BENCH_KEY", "sk-secret").env_remove("ORTALK_API_KEY").output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)))
}

/// The server gives a piece every 20 ms to however many: so more clients get more, and each waits as long as before.
#[test]
fn what_the_clients_saw_is_as_the_schema_says_and_adds_up() {
    let server = Server::start(Behaviour::good());
    server.pause(Duration::from_millis(20));
    let began = Instant::now();
    let output = bench(&server, &["--json", "--concurrency", "1,4", "--requests", "8", "-n", "9", "--warmup", "2"]);
    let took = began.elapsed().as_secs_f64();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report = json(&output);
    let schema = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/server-bench.schema.json")).unwrap();
    let schema: Value = serde_json::from_slice(&schema).unwrap();
    assert_eq!(json_schema::errors(&schema, &report), Vec::<String>::new());
    let mut broken = report.clone();
    broken["levels"][0].as_object_mut().unwrap().remove("scaling");
    assert!(!json_schema::errors(&schema, &broken).is_empty());
    assert_eq!(report["model"], "far-model");

    let levels = report["levels"].as_array().unwrap();
    let mut seconds = 0.0;
    for (level, clients) in levels.iter().zip([1, 4]) {
        let of = |name: &str| level[name].as_f64().unwrap_or_else(|| panic!("{name}: {level}"));
        seconds += of("duration_s");
        assert_eq!(
            (&level["concurrency"], &level["completed"], &level["errors"]),
            (&clients.into(), &8.into(), &json!([]))
        );
        // The server's counts: two more than there are pieces.
        assert_eq!((of("completion_tokens"), of("prompt_tokens")), (8.0 * 7.0, 8.0 * 20.0));
        assert!((of("tokens_per_second") - 56.0 / of("duration_s")).abs() < 0.01 * of("tokens_per_second"), "{level}");
        assert_eq!(level["inter_token_latency_ms"]["count"], 8 * (PIECES.len() - 1));
        assert_eq!(level["request_ttft_duration_ms"]["count"], 8);
        for (name, least) in
            [("inter_token_latency_ms", 15.0), ("request_ttft_duration_ms", 15.0), ("request_duration_ms", 95.0)]
        {
            assert!(level[name]["p50"].as_f64().unwrap() > least, "{name}: {level}");
        }
    }
    assert!(seconds < took, "{seconds} s within {took} s");
    // 8 answers of 100 ms one after the other, or four at once.
    assert!(levels[1]["scaling"].as_f64().unwrap() > 1.5, "{}", levels[1]);

    // No two prompts begin alike.
    let chats = server.chats();
    assert_eq!(chats.len(), 2 + 2 * 8);
    let mut beginnings: Vec<String> = chats
        .iter()
        .map(|asked| asked.body["messages"][0]["content"].as_str().unwrap().split('.').next().unwrap().to_owned())
        .collect();
    beginnings.sort();
    beginnings.dedup();
    assert_eq!(beginnings.len(), chats.len());
    assert!(chats.iter().all(|asked| asked.body["max_tokens"] == 9 && asked.key.is_none()));
}

#[test]
fn the_key_comes_from_the_variable_and_is_shown_nowhere() {
    let server = Server::start(Behaviour::good());
    let arguments = ["--concurrency", "1", "--requests", "1", "-m", "named", "--api-key-env", "BENCH_KEY"];
    let output = bench(&server, &arguments);
    assert!(output.status.success());
    let chats = server.chats();
    assert!(
        chats.iter().all(|asked| asked.key.as_deref() == Some("Bearer sk-secret") && asked.body["model"] == "named")
    );
    assert!(!text(&output.stdout).contains("sk-secret") && !text(&output.stderr).contains("sk-secret"));
    for words in ["tokens/s", "TTFT p50 / p95 / p99, ms", "named at http://127.0.0.1:"] {
        assert!(text(&output.stdout).contains(words), "{words}: {}", text(&output.stdout));
    }
}

#[test]
fn a_field_that_the_server_does_not_know_is_left_out() {
    let server = Server::start(Behaviour::Refuses(vec!["max_tokens".into(), "stream_options".into()]));
    let output = bench(&server, &["--json", "--concurrency", "2", "--requests", "4"]);
    let level = json(&output)["levels"][0].clone();
    assert_eq!((&level["completed"], &level["errors"]), (&4.into(), &json!([])));
    assert!(server.chats().iter().rev().take(4).all(|asked| asked.body["max_completion_tokens"] == 128));
}

#[test]
fn without_counts_pieces_are_counted_and_it_is_said() {
    let pieces = PIECES.map(str::to_owned).to_vec();
    let server = Server::start(Behaviour::Answer { pieces, usage: false });
    let level = json(&bench(&server, &["--json", "--concurrency", "1", "--requests", "3"]))["levels"][0].clone();
    assert_eq!((&level["tokens_estimated"], &level["completion_tokens"]), (&true.into(), &15.into()));
    assert_eq!(level["prompt_tokens"], Value::Null);
    let table = bench(&server, &["--markdown", "--concurrency", "1", "--requests", "3"]);
    assert!(text(&table.stdout).contains("| 1 | est. "), "{}", text(&table.stdout));
}

/// The first request is answered, the others fail.
#[test]
fn errors_are_counted_by_their_kind() {
    for (behaviour, kind) in [
        (Behaviour::Cut(2), "cut"),
        (Behaviour::Status(429, "Retry-After: 0\r\n".into(), r#"{"error": {"message": "later"}}"#.into()), "busy"),
        (Behaviour::Status(500, String::new(), "oh".into()), "server error"),
        (Behaviour::Reported(1), "server error"),
        (Behaviour::Text("data: {}}\n\n".into()), "no sense"),
        (Behaviour::Answer { pieces: Vec::new(), usage: true }, "empty answer"),
    ] {
        let server = Server::start(Behaviour::good());
        server.then(behaviour.clone());
        let output = bench(&server, &["--json", "--concurrency", "2", "--requests", "4", "--warmup", "1"]);
        // Nothing was answered, and the report says why.
        assert!(!output.status.success());
        let level = json(&output)["levels"][0].clone();
        assert_eq!(level["completed"], 0, "{behaviour:?}");
        let errors = level["errors"].as_array().unwrap();
        assert_eq!((errors.len(), &errors[0]["kind"], &errors[0]["count"]), (1, &kind.into(), &4.into()), "{level}");
        assert_eq!(level["tokens_per_second"], Value::Null);
    }
}

#[test]
fn what_cannot_be_loaded_is_said_before_anything_is() {
    let server = Server::start(Behaviour::Status(401, String::new(), r#"{"error": {"message": "who?"}}"#.into()));
    for (more, expected) in [
        (&["-m", "x"][..], "wants a key"),
        (&["--concurrency", "0"], "0 is not in 1..=1024"),
        (&["--concurrency", "8", "--requests", "4"], "--concurrency 8 needs at least as many requests"),
        (&["--tune"], "cannot be used with"),
        (&["--lanes", "cpu"], "cannot be used with"),
    ] {
        let output = bench(&server, more);
        assert!(!output.status.success() && output.stdout.is_empty(), "{more:?}");
        assert!(text(&output.stderr).contains(expected), "{more:?}: {}", text(&output.stderr));
    }
    server.models(r#"{"data": []}"#);
    let output = bench(&server, &[]);
    assert!(text(&output.stderr).contains("has no model; name one with --model"), "{}", text(&output.stderr));
}
