//! The metrics: what a Prometheus client reads of them, and that they agree with what clients counted.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::client::{Events, JSON, get, request, send};
use super::openai::packages;
use super::server::{Server, capital, long_story};

/// Every sample as Prometheus' own client reads it, by its name and labels.
fn parsed(page: &str) -> BTreeMap<String, f64> {
    const SCRIPT: &str = "
import json, sys
from prometheus_client.parser import text_string_to_metric_families
families = list(text_string_to_metric_families(sys.stdin.read()))
assert all(family.type != 'unknown' and family.documentation for family in families), families
names = [family.name for family in families]
assert len(set(names)) == len(names), names
key = lambda sample: sample.name + ''.join(f' {name}={value}' for name, value in sorted(sample.labels.items()))
print(json.dumps({key(sample): sample.value for family in families for sample in family.samples}))
";
    let mut command = Command::new("python3");
    command.args(["-c", SCRIPT]).env("PYTHONPATH", packages());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}\n{page}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn they_agree_with_what_clients_counted() {
    const CHAT: &str = "/v1/chat/completions";
    let server = Server::start(&["--quiet"]);
    let mut counted: BTreeMap<String, f64> = BTreeMap::new();
    let mut count = |key: &str, by: f64| *counted.entry(key.to_owned()).or_default() += by;
    let request_key =
        |endpoint: &str, status: u16| format!("ortalk_http_requests_total endpoint={endpoint} status={status}");
    let usage_of = |usage: &Value, answers: f64, count: &mut dyn FnMut(&str, f64)| {
        let number = |path: &str| usage.pointer(path).and_then(Value::as_f64).unwrap();
        count("ortalk_tokens_total kind=prompt lane=cpu", answers * number("/prompt_tokens"));
        count("ortalk_tokens_total kind=completion lane=cpu", number("/completion_tokens"));
        count("ortalk_time_to_first_token_seconds_count lane=cpu", answers);
        count("ortalk_inter_token_latency_seconds_count lane=cpu", number("/completion_tokens") - answers);
    };

    for stream in [false, true, true] {
        let mut asked = capital();
        asked["stream"] = stream.into();
        let usage = if stream {
            asked["stream_options"] = json!({"include_usage": true});
            Events::open(server.address, CHAT, &asked).chunks().last().unwrap()["usage"].clone()
        } else {
            server.ask(CHAT, &asked).json()["usage"].clone()
        };
        usage_of(&usage, 1.0, &mut count);
        count(&request_key(CHAT, 200), 1.0);
        count("ortalk_answers_total finish_reason=stop", 1.0);
    }
    let mut two = capital();
    (two["n"], two["max_tokens"]) = (2.into(), 3.into());
    usage_of(&server.ask(CHAT, &two).json()["usage"], 2.0, &mut count);
    count(&request_key(CHAT, 200), 1.0);
    count("ortalk_answers_total finish_reason=length", 2.0);
    let text = server.ask("/v1/completions", &json!({"prompt": "One, two,", "max_tokens": 2}));
    usage_of(&text.json()["usage"], 1.0, &mut count);
    count(&request_key("/v1/completions", 200), 1.0);
    count("ortalk_answers_total finish_reason=length", 1.0);
    for (bytes, endpoint, status) in [
        (request("POST", CHAT, &[JSON], b"{}"), CHAT, 400),
        (request("POST", CHAT, &[JSON], b"nonsense"), CHAT, 400),
        (request("GET", CHAT, &[], b""), CHAT, 405),
        (request("GET", "/v1/models", &[], b""), "/v1/models", 200),
        (request("GET", "/v1/models/none", &[], b""), "/v1/models/{id}", 404),
        (request("GET", "/somewhere/else", &[], b""), "other", 404),
    ] {
        assert_eq!(send(server.address, &bytes).status, status);
        count(&request_key(endpoint, status), 1.0);
    }
    // One who leaves.
    let mut events = Events::open(server.address, CHAT, &long_story());
    events.next().unwrap();
    drop(events);
    count(&request_key(CHAT, 200), 1.0);
    count("ortalk_answers_total finish_reason=cancelled", 1.0);
    assert!(server.becomes_idle(Duration::from_secs(20)) && server.closes_connections(Duration::from_secs(20)));

    let found = parsed(&get(server.address, "/metrics").text());
    // The one who left has no usage; nobody knows how many tokens it got.
    let left = |name: &str| found[name] - counted[name];
    let tokens = left("ortalk_tokens_total kind=completion lane=cpu");
    assert!((0.0..200.0).contains(&tokens), "{tokens}");
    for (name, expected) in &counted {
        let is_exact = !name.contains("lane=");
        let found = found.get(name).copied().unwrap_or_default();
        if is_exact {
            assert_eq!(found, *expected, "{name}");
        } else {
            assert!((*expected..=*expected + 200.0).contains(&found), "{name}: {found}, counted {expected}");
        }
    }
    let total: f64 = found.iter().filter(|(name, _)| name.starts_with("ortalk_answers_total")).map(|(_, n)| n).sum();
    assert_eq!(total, 7.0);
    for (name, expected) in [
        ("ortalk_queue_length", 0.0),
        ("ortalk_answers_running", 0.0),
        ("ortalk_queue_limit", 64.0),
        ("ortalk_stopping", 0.0),
        ("ortalk_lane_state lane=cpu state=ready", 1.0),
        ("ortalk_lane_state lane=npu state=absent", 1.0),
    ] {
        assert_eq!(found[name], expected, "{name}");
    }
    assert!(found["process_resident_memory_bytes"] > 1e8);
    let buckets = |name: &str| found[&format!("ortalk_{name}_bucket lane=cpu le=+Inf")];
    assert_eq!(buckets("time_to_first_token_seconds"), found["ortalk_time_to_first_token_seconds_count lane=cpu"]);
    assert!(found["ortalk_time_to_first_token_seconds_sum lane=cpu"] > 0.0);
}

#[test]
fn what_is_in_the_works_is_seen() {
    let server = Server::start(&["--quiet"]);
    let running: Vec<Events> = (0..3)
        .map(|_| {
            let mut events = Events::open(server.address, "/v1/chat/completions", &long_story());
            events.next().unwrap();
            events
        })
        .collect();
    let until = std::time::Instant::now() + Duration::from_secs(20);
    let works = |page: &BTreeMap<String, f64>| page["ortalk_queue_length"] + page["ortalk_answers_running"];
    let mut page = parsed(&server.metrics());
    while page["ortalk_answers_running"] == 0.0 && std::time::Instant::now() < until {
        page = parsed(&server.metrics());
    }
    assert_eq!(works(&page), 3.0);
    assert!(page["ortalk_answers_running"] >= 1.0);
    drop(running);
    assert!(server.becomes_idle(Duration::from_secs(20)));
}
