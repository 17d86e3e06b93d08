//! Pulls that fail: one clear message each, an exit status that says so, and nothing that looks whole.
//! Accept a change of wording with `INSTA_UPDATE=always cargo test --test hub`, after reading it.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use super::server::{Faults, Server, bytes};
use super::user::{User, failed, read};

const REPO: &str = "some/model";

fn server() -> Server {
    Server::with(REPO, &[("x-Q8_0.gguf", bytes(300_000, 1)), ("x-Q4_0.gguf", bytes(200_000, 2))])
}

/// Fails once with these faults, and works as soon as they are gone.
fn message(faults: Faults, arguments: &[&str]) -> String {
    let server = server();
    server.fail(faults);
    let user = User::of(&server);
    let mut command = user.command(&["pull"]);
    let output = command.args(arguments).env("HF_HUB_DOWNLOAD_TIMEOUT", "1").output().unwrap();
    let said = failed(&output);
    assert!(!user.snapshot(REPO).exists(), "{said}");
    server.fail(Faults::default());
    assert_eq!(read(&user.pull(REPO)), bytes(300_000, 1));
    user.plain(&said)
}

fn status(part: &'static str, status: u16, headers: &'static str) -> Faults {
    Faults { status: Some((part, 100, status, headers)), ..Faults::default() }
}

#[test]
fn each_fault_has_one_message() {
    let cases: [(&str, Faults, &[&str]); 17] = [
        ("cut again and again", Faults { cut: Some((100, 1000)), ..Faults::default() }, &[REPO]),
        ("wrong hash", Faults { damaged: 100, ..Faults::default() }, &[REPO]),
        ("gated, no token", Faults { gated: Some("hf_right"), ..Faults::default() }, &[REPO]),
        ("no such repository", Faults::default(), &["some/other"]),
        ("no such revision", Faults::default(), &[REPO, "--revision", "v9"]),
        ("no such file", status("/resolve/", 404, "X-Error-Code: EntryNotFound\r\n"), &[REPO]),
        ("no such variant", Faults::default(), &["some/model:Q5_K_M"]),
        ("not asked so often", status("/resolve/", 429, "Retry-After: 3600\r\n"), &[REPO]),
        ("a fault of the server", status("/api/", 500, "X-Error-Message: the database is down\r\n"), &[REPO]),
        ("forbidden", status("/resolve/", 403, "X-Error-Message: no scope\r\n"), &[REPO]),
        ("redirects in a circle", Faults { circle: true, ..Faults::default() }, &[REPO]),
        ("no JSON", Faults { list: Some("<html>Log in</html>".into()), ..Faults::default() }, &[REPO]),
        ("JSON of another kind", Faults { list: Some("{\"models\": []}".into()), ..Faults::default() }, &[REPO]),
        ("a file outside", Faults { listed: vec![("../../x.gguf".into(), 5)], ..Faults::default() }, &[REPO]),
        (
            "a device's name",
            Faults { listed: vec![("aux-Q6_K/nul.Q6_K.gguf".into(), 5)], ..Faults::default() },
            &["some/model:Q6_K"],
        ),
        (
            "an absurd size",
            Faults { listed: vec![("x-Q6_K.gguf".into(), u64::MAX / 2)], ..Faults::default() },
            &["some/model:Q6_K"],
        ),
        ("no name", Faults::default(), &["qwen3"]),
    ];
    let mut text = String::new();
    for (name, faults, arguments) in cases {
        let mut said = message(faults, arguments);
        // How much is free differs from machine to machine.
        if let (Some(start), Some(end)) = (said.find("needed, "), said.find(" MB are free")) {
            said.replace_range(start..end, "needed, N");
        }
        text.push_str(&format!("{name}\n  {}\n", said.replace('\n', "\n  ")));
    }
    insta::with_settings!({prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!("faults", text);
    });
}

#[test]
fn what_a_token_could_change_is_said() {
    let server = server();
    let user = User::of(&server);
    let with_token = |faults| {
        server.fail(faults);
        let output = user.command(&["pull", REPO]).env("HF_TOKEN", "hf_wrong").output().unwrap();
        let said = failed(&output);
        assert!(!said.contains("hf_wrong"), "{said}");
        said
    };
    let gated = with_token(Faults { gated: Some("hf_right"), ..Faults::default() });
    assert!(gated.contains("with the account that the token is of"), "{gated}");
    let bad = with_token(status("/resolve/", 401, ""));
    assert!(bad.contains("does not accept the access token"), "{bad}");
}

#[test]
fn a_silent_server_is_not_waited_for_for_ever() {
    let started = Instant::now();
    let said = message(Faults { silent: true, ..Faults::default() }, &[REPO]);
    assert!(said.contains("kept: the same command goes on from there"), "{said}");
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
}

#[test]
fn a_server_that_sends_a_byte_at_a_time_is_as_good_as_silent() {
    let said = message(Faults { drip: Some(1), ..Faults::default() }, &[REPO]);
    assert!(said.contains("bytes in 6 s"), "{said}");
}

#[test]
fn nobody_at_the_address_is_said() {
    let server = server();
    let user = User::of(&server);
    let output = user.command(&["pull", REPO]).env("HF_ENDPOINT", "http://127.0.0.1:9").output().unwrap();
    let said = failed(&output);
    assert!(said.contains("http://127.0.0.1:9 could not be reached") && said.contains("HF_ENDPOINT"), "{said}");
}

#[test]
fn a_disk_that_fills_up_keeps_what_it_has() {
    let server = server();
    let user = User::of(&server);
    // A limit on a file's size stops a download at the same place as a full disk does.
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; ulimit -f 200; exec \"$0\" pull some/model", env!("CARGO_BIN_EXE_ortalk")]);
    user.at_home(&mut command);
    let said = user.plain(&failed(&command.output().unwrap()));
    assert!(said.contains("the disk filled up at 'HOME/hf/hub/models--some--model/blobs'"), "{said}");
    assert!(user.blobs(REPO).values().sum::<u64>() >= 100_000 && !user.snapshot(REPO).exists());
    assert_eq!(read(&user.pull(REPO)), bytes(300_000, 1));
}

#[test]
fn a_cache_that_cannot_be_used_is_explained() {
    let server = server();
    let user = User::of(&server);
    fs::write(user.path("hf"), "a file").unwrap();
    let said = user.plain(&user.pull_fails(&[REPO]));
    assert!(said.contains("the cache 'HOME/hf/hub' cannot be used") && said.contains("HF_HUB_CACHE"), "{said}");
}
