//! The client against a server that fails in chosen ways.

use std::time::{Duration, Instant};

use ortalk::remote::{ApiKey, ChatBody, Client, Endpoint, Piece, RemoteError, Summary, Timeouts};
use serde_json::json;

use crate::openai::{Behaviour, PIECES, Server};

const TIMEOUTS: Timeouts = Timeouts { connect: Duration::from_secs(5), silence: Duration::from_millis(500) };
const KEY: &str = "sk-very-secret";

fn client(server: &Server) -> Client {
    let key = ApiKey::parse(KEY, "KEY").unwrap();
    Client::new(Endpoint::parse(&server.address, Some(key)).unwrap(), TIMEOUTS)
}

fn body() -> ChatBody {
    ChatBody::new("far-model", vec![json!({"role": "user", "content": "hello"})])
}

/// What came, and how it ended.
fn ask(client: &Client) -> (Vec<Piece>, Result<Summary, RemoteError>) {
    let mut pieces = Vec::new();
    let mut stream = match client.chat(&body(), &|| false) {
        Ok(stream) => stream,
        Err(error) => return (pieces, Err(error)),
    };
    loop {
        match stream.next(&|| false) {
            Ok(Some(piece)) => pieces.push(piece),
            Ok(None) => return (pieces, Ok(stream.summary().clone())),
            Err(error) => return (pieces, Err(error)),
        }
    }
}

fn text(pieces: &[Piece]) -> String {
    pieces.iter().map(|piece| piece.text.as_str()).collect()
}

#[test]
fn an_answer_comes_piece_by_piece_with_its_counts() {
    let server = Server::start(Behaviour::good());
    server.pause(Duration::from_millis(20));
    let client = client(&server);
    for _ in 0..3 {
        let (pieces, summary) = ask(&client);
        assert_eq!(text(&pieces), PIECES.concat());
        let summary = summary.unwrap();
        let usage = summary.usage.unwrap();
        assert_eq!(
            (summary.finish_reason.as_deref(), usage.prompt_tokens, usage.completion_tokens),
            (Some("stop"), 20, 7)
        );
        // Stamped as they came, and not all at the end.
        let took = pieces.last().unwrap().at - pieces.iter().find(|piece| !piece.text.is_empty()).unwrap().at;
        assert!(took > Duration::from_millis(30), "{took:?}");
    }
    let asked = server.asked();
    assert_eq!((asked.len(), asked[0].key.as_deref()), (3, Some("Bearer sk-very-secret")));
    assert_eq!(asked[0].body["stream"], true);
    assert_eq!(server.connections(), 1, "a connection is used again");
}

#[test]
fn models_are_listed() {
    let server = Server::start(Behaviour::good());
    let models = client(&server).models(&|| false).unwrap();
    assert_eq!((models[0].id.as_str(), models[0].context), ("far-model", Some(4096)));
    server.models("<html>");
    let error = client(&server).models(&|| false).unwrap_err().to_string();
    assert!(error.contains("its list of models is none"), "{error}");
    let error = client(&server).document("/metrics", &|| false).unwrap_err().to_string();
    assert!(error.contains("/metrics is not there, saying \"no such path\""), "{error}");
}

#[test]
fn each_fault_has_its_words_and_keeps_what_came_before_it() {
    let json_error = |message: &str| json!({"error": {"message": message}}).to_string();
    let status = |status, headers: &str, body: String| Behaviour::Status(status, headers.into(), body);
    let cases = [
        (Behaviour::Cut(2), "The capital ", "broke off before the answer was complete"),
        (Behaviour::Cut(0), "", "broke off before the answer was complete"),
        (Behaviour::Silent(0), "", "said nothing for 0 s"),
        (Behaviour::Silent(3), "The capital is ", "said nothing for 0 s"),
        (Behaviour::Reported(1), "The ", "failed while it answered, saying \"out of memory\""),
        (
            status(401, "", json_error("Incorrect API key: sk-very-secret")),
            "",
            "saying \"Incorrect API key: (the key)\"",
        ),
        (status(403, "", json_error("not in your country")), "", "does not allow this (status 403), saying \"not in"),
        (
            status(404, "", json_error("no such model")),
            "",
            "/v1/chat/completions is not there, saying \"no such model\"",
        ),
        (status(429, "Retry-After: 7\r\n", json_error("slow down")), "", "saying \"slow down\"; it asks to wait 7 s"),
        (status(400, "", json_error("too long")), "", "does not take the request (status 400), saying \"too long\""),
        (status(500, "", "<html>oops</html>".into()), "", "failed (status 500)"),
        (status(308, "Location: https://elsewhere/v1\r\n", String::new()), "", "sends on to 'https://elsewhere/v1'"),
        (
            Behaviour::Json(json_error("only whole answers")),
            "",
            "'application/json' and not with a stream of events, saying \"only",
        ),
        (
            status(200, "Content-Type: text/html\r\n", "<html>".into()),
            "",
            "'text/html' and not with a stream of events",
        ),
        (Behaviour::Text("data: {\"choices\": [}\n\n".into()), "", "a chunk of the answer is none"),
        (Behaviour::Text("no events at all".into()), "", "the stream ended in the middle"),
        (Behaviour::Text("data: [DONE]\n\n".into()), "", "without saying how the answer ended"),
        (
            Behaviour::Text("data: {\"choices\": [{\"delta\": {\"content\": \"x\"}}]}\n\ndata: 1\n\n".into()),
            "x",
            "chunk",
        ),
    ];
    let server = Server::start(Behaviour::good());
    let client = client(&server);
    for (behaviour, came, words) in cases {
        server.become_(behaviour.clone());
        let (pieces, end) = ask(&client);
        let error = end.unwrap_err().to_string();
        assert_eq!(text(&pieces), came, "{behaviour:?}");
        assert!(error.contains(words) && !error.contains(KEY), "{behaviour:?}: {error}");
        assert!(error.contains("127.0.0.1"), "{behaviour:?}: {error}");
    }
    server.become_(Behaviour::good());
    assert_eq!(text(&ask(&client).0), PIECES.concat(), "it still works after all that");
}

#[test]
fn nobody_at_the_other_end_is_said_at_once() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let client = Client::new(Endpoint::parse(&format!("http://127.0.0.1:{port}"), None).unwrap(), TIMEOUTS);
    let error = ask(&client).1.unwrap_err();
    assert!(error.to_string().contains("cannot be reached: ") && error.is_passing(), "{error}");
    let client = Client::new(Endpoint::parse("http://no-such-host.invalid", None).unwrap(), TIMEOUTS);
    let error = ask(&client).1.unwrap_err();
    assert!(error.to_string().contains("no-such-host.invalid cannot be reached: "), "{error}");
}

#[test]
fn who_stops_is_heard_by_the_server_at_once() {
    let server = Server::start(Behaviour::Silent(2));
    let client = Client::new(Endpoint::parse(&server.address, None).unwrap(), Timeouts::default());
    // While it is silent in the middle of an answer.
    let mut stream = client.chat(&body(), &|| false).unwrap();
    for _ in 0..3 {
        stream.next(&|| false).unwrap();
    }
    let stopped = Instant::now();
    assert_eq!(stream.next(&|| stopped.elapsed() > Duration::from_millis(100)), Err(RemoteError::Stopped));
    drop(stream);
    let until = Instant::now() + Duration::from_secs(5);
    while server.left().is_none() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    let left = server.left().expect("the server hears that the client went away");
    assert!(left - stopped < Duration::from_secs(1), "{:?}", left - stopped);
    // And before it begins.
    server.become_(Behaviour::Silent(0));
    let stopped = Instant::now();
    let end = client.chat(&body(), &|| stopped.elapsed() > Duration::from_millis(100)).err();
    assert_eq!(end, Some(RemoteError::Stopped));
    assert!(stopped.elapsed() < Duration::from_secs(1));
    server.become_(Behaviour::good());
    assert_eq!(text(&ask(&client).0), PIECES.concat());
}

#[test]
fn thinking_and_extensions_come_apart_from_the_text() {
    let chunk = |delta: serde_json::Value| format!("data: {}\n\n", json!({"choices": [{"delta": delta}]}));
    let stream = [
        ": a comment keeps the connection alive\n\n".to_owned(),
        chunk(json!({"reasoning_content": "Hm. "})),
        chunk(json!({"reasoning": "So."})),
        chunk(json!({"content": "Yes.", "reasoning": null})),
        "data: {\"choices\": [{\"delta\": {}, \"finish_reason\": \"length\"}], \"ortalk\": {\"events\": [1]}}\r\n\r\n"
            .to_owned(),
        "data: {\"choices\": [], \"usage\": {\"prompt_tokens\": 3, \"completion_tokens\": 4, \
         \"prompt_tokens_details\": {\"cached_tokens\": 2}}}\n\n"
            .to_owned(),
        "data: [DONE]\n\n".to_owned(),
    ];
    let server = Server::start(Behaviour::Text(stream.concat()));
    let (pieces, summary) = ask(&client(&server));
    let thinking: String = pieces.iter().map(|piece| piece.thinking.as_str()).collect();
    assert_eq!((thinking.as_str(), text(&pieces).as_str()), ("Hm. So.", "Yes."));
    assert!(pieces.iter().any(|piece| piece.extension == Some(json!({"events": [1]}))));
    let summary = summary.unwrap();
    assert_eq!((summary.finish_reason.as_deref(), summary.usage.unwrap().cached_tokens), (Some("length"), Some(2)));
}
