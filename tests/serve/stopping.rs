//! How the server ends.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::client::{Events, connect, content, get};
use super::server::{Server, capital, long_story};

const CHAT: &str = "/v1/chat/completions";
const PATIENCE: Duration = Duration::from_secs(30);

fn streaming(tokens: usize) -> Value {
    let mut story = long_story();
    story["max_tokens"] = tokens.into();
    story
}

#[test]
fn it_lets_running_answers_end() {
    let server = Server::start(&["--quiet", "--grace", "200"]);
    let mut events = Events::open(server.address, CHAT, &streaming(60));
    events.next().unwrap();
    // A connection on which nothing happens is no reason to stay.
    let _idle = connect(server.address);
    server.signal(Signal::TERM);
    let chunks = events.chunks();
    let last = chunks.last().unwrap();
    assert_eq!(last["choices"][0]["finish_reason"], "length");
    assert!(content(&chunks, 0).len() > 60);
    assert!(server.ended_within(PATIENCE).unwrap().success(), "{}", server.printed());
}

#[test]
fn it_takes_no_new_requests() {
    let server = Server::start(&["--quiet", "--grace", "200"]);
    let mut events = Events::open(server.address, CHAT, &streaming(60));
    events.next().unwrap();
    server.signal(Signal::INT);
    let until = Instant::now() + PATIENCE;
    while std::net::TcpStream::connect(server.address).is_ok() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(std::net::TcpStream::connect(server.address).is_err());
    events.chunks();
    assert!(server.ended_within(PATIENCE).unwrap().success());
}

#[test]
fn the_time_that_running_answers_have_is_limited() {
    let server = Server::start(&["--quiet", "--grace", "1"]);
    let mut events = Events::open(server.address, CHAT, &streaming(4000));
    events.next().unwrap();
    server.signal(Signal::TERM);
    let events = events.all();
    let [.., (_, error), (_, end)] = &events[..] else { panic!("{events:?}") };
    let error: Value = serde_json::from_str(error).unwrap();
    assert_eq!((&error["error"]["code"], end.as_str()), (&json!("shutting_down"), "[DONE]"));
    assert!(server.ended_within(PATIENCE).unwrap().success());
}

#[test]
fn a_second_ctrl_c_ends_it_at_once() {
    let server = Server::start(&["--quiet", "--grace", "600"]);
    let mut events = Events::open(server.address, CHAT, &streaming(8000));
    events.next().unwrap();
    server.signal(Signal::INT);
    assert!(server.ended_within(Duration::from_millis(300)).is_none());
    let began = Instant::now();
    server.signal(Signal::INT);
    assert!(server.ended_within(PATIENCE).unwrap().success());
    // A token, and a busy machine.
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    let _ = events.all();
}

#[test]
fn an_idle_server_ends_at_once() {
    let server = Server::start(&["--quiet", "--grace", "600"]);
    let _idle = connect(server.address);
    server.answers();
    server.signal(Signal::TERM);
    assert!(server.ended_within(PATIENCE).unwrap().success());
}

#[test]
fn one_that_was_killed_leaves_its_port() {
    let server = Server::start(&["--quiet"]);
    let mut events = Events::open(server.address, CHAT, &long_story());
    events.next().unwrap();
    server.signal(Signal::KILL);
    assert!(server.ended_within(PATIENCE).is_some());
    while let Ok(Some(_)) = events.next() {}
    let port = server.address.port().to_string();
    let again = Server::start(&["--quiet", "--port", &port]);
    assert_eq!(again.address, server.address);
    assert_eq!(again.ask(CHAT, &capital()).status, 200);
    assert_eq!(get(again.address, "/health").status, 200);
}
