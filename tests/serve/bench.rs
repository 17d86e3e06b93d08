//! `ortalk bench --server` on `ortalk serve`.

use std::time::Duration;

use serde_json::{Value, json};

use super::server::{Server, ortalk};

/// What the clients counted is what the server did.
#[test]
fn clients_and_server_count_alike() {
    let server = Server::start(&["--quiet"]);
    let url = format!("http://{}", server.address);
    let arguments = ["--concurrency", "1,3", "--requests", "3", "-n", "6", "--warmup", "1", "--json"];
    let output = ortalk(&["bench", "--server", &url]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(server.becomes_idle(Duration::from_secs(5)));

    let levels = report["levels"].as_array().unwrap();
    assert_eq!(levels.len(), 2);
    for level in levels {
        assert_eq!((&level["completed"], &level["errors"]), (&3.into(), &json!([])), "{level}");
        assert_eq!(level["tokens_estimated"], false);
        let of = |number: &str, key: &str| level[number][key].as_f64().unwrap();
        assert!(of("inter_token_latency_ms", "mean") > 0.0, "{level}");
        assert!(of("request_ttft_duration_ms", "p50") < of("request_duration_ms", "p50"), "{level}");
    }
    let sum = |key: &str| levels.iter().map(|level| level[key].as_f64().unwrap()).sum::<f64>();
    // One request more, which does not count: answers of at most six tokens.
    let more = |name: &str, kind: &str, key: &str| server.metric(name, &[&format!("kind=\"{kind}\"")]) - sum(key);
    let warmup = more("ortalk_tokens_total", "completion", "completion_tokens");
    assert!((1.0..=6.0).contains(&warmup), "{warmup}: {}", server.metrics());
    assert!(more("ortalk_tokens_total", "prompt", "prompt_tokens") > 0.0);
    assert_eq!(server.metric("ortalk_time_to_first_token_seconds_count", &[]), 7.0);
}
