//! The lane `remote` and `--connect`, against a server that is no ortalk.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use portable_pty::CommandBuilder;
use serde_json::Value;

use crate::openai::{Behaviour, Server};
use crate::pty::Terminal;
use crate::support::{home, model, succeed, text};

const KEY: &str = "sk-very-secret";

/// A folder for settings, with the caches of all tests.
pub fn home_with(settings: &str) -> tempfile::TempDir {
    model();
    succeed(&["setup"]);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("config.toml"), settings).unwrap();
    std::os::unix::fs::symlink(home().join("cache"), folder.path().join("cache")).unwrap();
    folder
}

/// Settings that name this server, with a price.
fn settings(server: &Server, more: &str) -> String {
    format!(
        "temperature = 0\n[cost]\ncurrency = 'EUR'\n[remote]\nurl = '{}'\napi-key-env = 'FAR_KEY'\n\
         price-per-million = {{ input = 1, output = 2 }}\n{more}\n",
        server.address
    )
}

fn ortalk(home: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ortalk"));
    command.args(arguments).env("ORTALK_HOME", home).env("FAR_KEY", KEY).env_remove("ORT_DYLIB_PATH");
    command.stdin(Stdio::null()).output().unwrap()
}

/// Both of what was printed; the key is never in it, nor in the log.
fn printed(home: &Path, output: &Output) -> (String, String) {
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    let log = std::fs::read_to_string(home.join("log").join("ortalk.log")).unwrap_or_default();
    for said in [&stdout, &stderr, &log] {
        assert!(!said.contains(KEY), "{said}");
    }
    (stdout, stderr)
}

#[test]
fn a_server_that_is_named_answers_and_the_bill_is_shown() {
    let server = Server::start(Behaviour::good());
    let home = home_with(&settings(&server, "privacy = 'allow'"));
    let output = ortalk(home.path(), &["run", "--lane", "remote", "What is the capital of France?"]);
    let (stdout, stderr) = printed(home.path(), &output);
    assert_eq!(stdout, "The capital is Paris.\n", "{stderr}");
    let host = server.address.trim_start_matches("http://");
    let bill = format!("20 tokens to {host} and 7 from it: 0.000034 EUR");
    assert!(stderr.contains(&bill), "{stderr}");
    assert_eq!(server.chats()[0].key.as_deref(), Some("Bearer sk-very-secret"));

    let output = ortalk(home.path(), &["run", "--lane", "remote", "--json", "What is the capital of France?"]);
    let answer: Value = serde_json::from_str(&printed(home.path(), &output).0).unwrap();
    let remote = &answer["usage"]["remote"];
    assert_eq!((&remote["prompt_tokens"], &remote["completion_tokens"]), (&20.into(), &7.into()));
    assert_eq!(
        (&remote["host"], &remote["estimated"], &remote["currency"]),
        (&host.into(), &false.into(), &"EUR".into())
    );
    assert!((remote["cost"].as_f64().unwrap() - 0.000034).abs() < 1e-9, "{remote}");
    assert_eq!((&answer["routing"]["lane"], &answer["routing"]["rule"]), (&"remote".into(), &"requested".into()));
    let lane = answer["lanes"].as_array().unwrap().iter().find(|lane| lane["lane"] == "remote").unwrap();
    assert_eq!((&lane["remote"]["privacy"], &lane["remote"]["model"]), (&"allow".into(), &"far-model".into()));
    assert_eq!(lane["remote"]["url"], format!("{}/v1", server.address));

    // What fits here stays here.
    server.asked();
    let output = ortalk(home.path(), &["run", "--json", "What is the capital of France?"]);
    let answer: Value = serde_json::from_str(&printed(home.path(), &output).0).unwrap();
    assert_eq!((&answer["routing"]["lane"], &answer["usage"]["remote"]), (&"cpu".into(), &Value::Null));
    assert_eq!(server.chats().len(), 0);
}

#[test]
fn nothing_is_sent_that_is_not_allowed() {
    let server = Server::start(Behaviour::good());
    let asks = home_with(&settings(&server, ""));
    let output = ortalk(asks.path(), &["run", "--lane", "remote", "Hello"]);
    let (_, stderr) = printed(asks.path(), &output);
    assert!(!output.status.success() && stderr.contains("--allow-remote allows it"), "{stderr}");
    let never = home_with(&settings(&server, "privacy = 'never'"));
    let output = ortalk(never.path(), &["run", "--lane", "remote", "--allow-remote", "Hello"]);
    let (_, stderr) = printed(never.path(), &output);
    assert!(!output.status.success() && stderr.contains("privacy is 'never'"), "{stderr}");
    let unnamed = home_with("");
    let output = ortalk(unnamed.path(), &["run", "--lane", "remote", "Hello"]);
    assert!(printed(unnamed.path(), &output).1.contains("set url in [remote]"));
    assert_eq!(server.connections(), 0);
    let output = ortalk(asks.path(), &["run", "--lane", "remote", "--allow-remote", "Hello"]);
    assert_eq!(printed(asks.path(), &output).0, "The capital is Paris.\n");
}

#[test]
fn an_answer_whose_server_breaks_off_goes_on_here() {
    let server = Server::start(Behaviour::Cut(4));
    let home = home_with(&settings(&server, "privacy = 'allow'\nwhen = 'first'"));
    let output = ortalk(home.path(), &["run", "--json", "What is the capital of France?"]);
    let (stdout, stderr) = printed(home.path(), &output);
    let answer: Value = serde_json::from_str(&stdout).unwrap();
    // The model ends what the server began.
    assert!(answer["text"].as_str().unwrap().starts_with("The capital is Paris"), "{answer}");
    assert_eq!(
        (&answer["lane_changes"][0]["from"], &answer["lane_changes"][0]["to"]),
        (&"remote".into(), &"cpu".into())
    );
    assert!(stderr.contains("goes on in the cpu lane, not remote"), "{stderr}");
    assert_eq!(answer["usage"]["remote"]["estimated"], true);
}

#[test]
fn what_outgrows_this_machine_goes_to_the_server() {
    let server = Server::start(Behaviour::good());
    let home = home_with(&settings(&server, "privacy = 'allow'"));
    let long = "the sea and the ships on it ".repeat(60);
    let output = ortalk(home.path(), &["run", "--context", "256", "--json", &long]);
    let (stdout, stderr) = printed(home.path(), &output);
    let answer: Value = serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{stderr}"));
    assert_eq!((&answer["routing"]["lane"], &answer["routing"]["rule"]), (&"remote".into(), &"outgrown".into()));
    assert_eq!(answer["text"], "The capital is Paris.");
}

#[test]
fn the_machine_s_report_names_the_server_and_does_not_speak_to_it() {
    let server = Server::start(Behaviour::good());
    let home = home_with(&settings(&server, ""));
    let (stdout, _) = printed(home.path(), &ortalk(home.path(), &["sys"]));
    assert!(stdout.contains(&format!("Server {}/v1", server.address)), "{stdout}");
    assert!(stdout.contains("1 in, 2 out EUR for a million tokens"), "{stdout}");
    assert_eq!(server.connections(), 0);
}

fn chat(home: &Path, arguments: &[&str]) -> Terminal {
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_ortalk"));
    command.args(arguments);
    command.env("ORTALK_HOME", home);
    command.env("FAR_KEY", KEY);
    Terminal::start(command, 120, 36)
}

fn quit(mut chat: Terminal) {
    chat.send("\x04");
    assert_eq!(chat.exit_code(), 0);
    chat.assert_restored();
    assert!(!chat.raw().contains(KEY));
}

#[test]
fn the_chat_asks_before_it_sends() {
    let server = Server::start(Behaviour::good());
    let home = home_with(&settings(&server, ""));
    let mut chat = chat(home.path(), &["--context", "256"]);
    chat.wait_for("○ cpu");
    chat.wait_for("asks first");
    // Short ones are answered here, and nobody is asked.
    chat.send("What is the capital of France?\r");
    chat.wait_for("The capital of France is Paris.");
    chat.wait_for("○ cpu");
    assert!(!chat.screen().contains("May this"));
    chat.send(&format!("{}\r", "the sea and the ships on it ".repeat(60)));
    chat.wait_for("May this conversation be sent to 127.0.0.1:");
    chat.wait_for("y sends it there");
    assert_eq!(server.connections(), 0);
    chat.send("y");
    chat.wait_for("The capital is Paris.");
    chat.wait_for("outgrew this machine");
    chat.wait_for("0.000034 EUR");
    chat.wait_for("○ remote");
    quit(chat);
}

#[test]
fn a_chat_over_another_server_needs_nothing_here() {
    let server = Server::start(Behaviour::good());
    server.pause(std::time::Duration::from_millis(150));
    let empty = tempfile::tempdir().unwrap();
    let mut chat = chat(empty.path(), &["--connect", &server.address, "--api-key-env", "FAR_KEY"]);
    chat.wait_for("far-model");
    chat.wait_for("○ remote");
    chat.send("What is the capital of France?\r");
    chat.wait_for("tok/s est.");
    chat.wait_for("The capital is Paris.");
    chat.wait_for("○ remote");
    let screen = chat.screen();
    assert!(screen.contains("est. ") && screen.contains("20 in, 7 out"), "{screen}");
    let sent = server.chats().remove(0);
    assert_eq!(sent.key.as_deref(), Some("Bearer sk-very-secret"));
    // What nobody said is the server's to choose.
    assert_eq!((sent.body.get("temperature"), sent.body.get("max_tokens")), (None, None));
    // Thinking that stands in the text is told from the answer.
    server.become_(Behaviour::pieces(&["<th", "ink>", "Italy is a ", "boot.</think>", "\n\nRome", "."]));
    chat.send("And of Italy?\r");
    chat.wait_for("Rome.");
    chat.wait_for("○ remote");
    let screen = chat.screen();
    assert!(screen.contains("4 tokens") && !screen.contains("boot") && !screen.contains("think>"), "{screen}");
    // It breaks off, and says so.
    server.become_(Behaviour::Cut(2));
    chat.send("And of Spain?\r");
    chat.wait_for("broke off before the answer was complete");
    quit(chat);
    assert!(!empty.path().join("cache").exists(), "nothing was fetched");
}

#[test]
fn a_context_that_no_server_names_is_an_estimate() {
    let server = Server::start(Behaviour::good());
    let empty = tempfile::tempdir().unwrap();
    for (model, shown) in [(r#"{"id": "m", "max_model_len": 4096}"#, "0/4096 "), (r#"{"id": "m"}"#, "0/32768 est.")] {
        server.models(&format!(r#"{{"object": "list", "data": [{model}]}}"#));
        let mut chat = chat(empty.path(), &["--connect", &server.address]);
        chat.wait_for("○ remote");
        let title = chat.screen().lines().next().unwrap_or_default().to_owned() + " ";
        assert!(title.contains(shown), "{title}");
        assert!(!title.contains("4096 est."), "{title}");
        quit(chat);
    }
}

#[test]
fn a_server_that_is_not_there_is_named_on_the_screen() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let empty = tempfile::tempdir().unwrap();
    let mut chat = chat(empty.path(), &["--connect", &format!("http://127.0.0.1:{port}")]);
    chat.wait_for(&format!("127.0.0.1:{port} cannot be reached"));
    quit(chat);
}
