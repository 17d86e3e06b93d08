//! Clients that send nonsense, are slow, do not read, go away, or are too many.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use super::client::{Events, JSON, Opened, connect, get, post, request, try_send};
use super::server::{Server, capital, long_story};

const CHAT: &str = "/v1/chat/completions";

/// Requests of every kind that is wrong in some way; few of them happen to be right.
fn malformed(rng: &mut ChaCha8Rng) -> Vec<u8> {
    let valid = json!({
        "model": "smollm2-135m", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1, "temperature": 0,
        "stop": ["x"], "n": 1, "logit_bias": {"5": 1}, "ortalk": {"route_trace": true}, "stream": false,
    });
    let path = ["/v1/chat/completions", "/v1/completions", "/v1/responses"][rng.random_range(0..3)];
    let text = valid.to_string().into_bytes();
    let body = match rng.random_range(0..9) {
        0 => text[..rng.random_range(0..text.len())].to_vec(),
        1 => {
            let mut text = text;
            for _ in 0..rng.random_range(1..6) {
                let at = rng.random_range(0..text.len());
                text[at] = rng.random();
            }
            text
        }
        2 => (0..rng.random_range(0..300)).map(|_| rng.random()).collect(),
        3 => ["[", "{\"a\":", "\""][rng.random_range(0..3)].repeat(rng.random_range(1..20_000)).into_bytes(),
        // Every field of a type that it must not have.
        4 | 5 => {
            let mut request = valid.as_object().unwrap().clone();
            let names: Vec<String> = request.keys().cloned().collect();
            let name = &names[rng.random_range(0..names.len())];
            let wrong = [json!({}), json!([[]]), json!(-1e308), json!("\u{0}"), json!(u64::MAX), json!([null])];
            request.insert(name.clone(), wrong[rng.random_range(0..wrong.len())].clone());
            Value::from(request).to_string().into_bytes()
        }
        6 => {
            let mut request = valid.as_object().unwrap().clone();
            let name: String = (0..rng.random_range(1..200)).map(|_| rng.random::<char>()).collect();
            request.insert(name, json!(1));
            Value::from(request).to_string().into_bytes()
        }
        // The head is wrong.
        7 => {
            let heads: [&[u8]; 8] = [
                b"GET\r\n\r\n",
                b"POST /v1/chat/completions HTTP/9.9\r\n\r\n",
                b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
                b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
                b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                b"GET /v1/models/%ff%00%2e%2e HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
                b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
                b"GET / HTTP/1.1\r\nHost: \xff\xfe\r\nConnection: close\r\n\r\n",
            ];
            return heads[rng.random_range(0..heads.len())].to_vec();
        }
        _ => {
            let name = ["Content-Type", "Authorization", "Host", "X"][rng.random_range(0..4)];
            let value: String = (0..rng.random_range(0..3000)).map(|_| rng.random_range('!'..='~')).collect();
            return request("POST", path, &[(name, &value)], &text);
        }
    };
    request("POST", path, &[JSON], &body)
}

/// Sends so many of them over several connections at once, and holds every reply to the API's shape.
fn endures(server: &Server, count: usize) {
    std::thread::scope(|scope| {
        for worker in 0..8_u64 {
            scope.spawn(move || {
                let mut rng = ChaCha8Rng::seed_from_u64(worker);
                for _ in 0..count / 8 {
                    let bytes = malformed(&mut rng);
                    let mut stream = connect(server.address);
                    let _ = stream.write_all(&bytes);
                    // Some of them promise more than they have.
                    let _ = stream.shutdown(Shutdown::Write);
                    let Some(reply) = Opened::read(stream) else { continue };
                    let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(500)]).into_owned();
                    assert!(reply.status == 200 || (400..500).contains(&reply.status), "{}: {shown}", reply.status);
                }
            });
        }
    });
    server.answers();
    assert!(server.becomes_idle(Duration::from_secs(20)));
    for status in ["500", "502", "503", "504"] {
        assert_eq!(server.metric("ortalk_http_requests_total", &[&format!("status=\"{status}\"")]), 0.0, "{status}");
    }
}

#[test]
fn ten_thousand_malformed_requests_leave_it_serving() {
    endures(&Server::start(&["--quiet"]), 10_000);
}

#[test]
fn wrong_bodies_are_answered_in_the_api_s_shape() {
    let server = Server::shared();
    let mut rng = ChaCha8Rng::seed_from_u64(1000);
    let mut seen = 0;
    for _ in 0..400 {
        let bytes = malformed(&mut rng);
        // What the HTTP library refuses has no body.
        let Some(reply) = try_send(server.address, &bytes).filter(|reply| !reply.body.is_empty()) else { continue };
        if reply.status != 200 {
            reply.error();
            seen += 1;
        }
    }
    assert!(seen > 200, "{seen}");
}

#[test]
fn bodies_and_conversations_have_a_limit() {
    let server = Server::start(&["--max-body", "1"]);
    let long = json!({"messages": [{"role": "user", "content": "a".repeat(2 << 20)}]});
    let reply = post(server.address, CHAT, &long);
    assert_eq!((reply.status, reply.error().2.as_deref()), (413, Some("body_too_large")));
    // One that does not say how long it is.
    let chunk = format!("{:x}\r\n{}\r\n", 1 << 20, "a".repeat(1 << 20));
    let head = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
    let reply = try_send(server.address, format!("{head}{chunk}{chunk}0\r\n\r\n").as_bytes()).unwrap();
    assert_eq!(reply.status, 413);
    let many: Vec<Value> = (0..3000).map(|_| json!({"role": "user", "content": "a"})).collect();
    let reply = post(server.address, CHAT, &json!({"messages": many}));
    assert_eq!((reply.status, reply.error().1.as_deref()), (400, Some("messages")));
    server.answers();
}

/// Whether the server hangs up in time.
fn is_ended(mut stream: TcpStream, patience: Duration) -> bool {
    stream.set_read_timeout(Some(patience)).unwrap();
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => true,
        Err(error) => matches!(error.kind(), std::io::ErrorKind::ConnectionReset | std::io::ErrorKind::BrokenPipe),
    }
}

#[test]
fn slow_and_silent_clients_are_ended_while_others_are_served() {
    let server = Server::start(&["--client-timeout", "1", "--connections", "64", "--quiet"]);
    let patience = Duration::from_secs(20);
    let connections: Vec<TcpStream> = (0..48).map(|_| connect(server.address)).collect();
    let whole = request("POST", CHAT, &[JSON], capital().to_string().as_bytes());
    std::thread::scope(|scope| {
        for (index, mut stream) in connections.into_iter().enumerate() {
            let whole = &whole;
            scope.spawn(move || {
                match index % 4 {
                    // Says nothing.
                    0 => {}
                    // A head without end, byte by byte.
                    1 => {
                        let began = Instant::now();
                        let head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nX-Slow: ";
                        let bytes = head.iter().chain(std::iter::repeat(&b'a'));
                        for byte in bytes {
                            if stream.write_all(&[*byte]).is_err() {
                                return;
                            }
                            assert!(began.elapsed() < patience, "a slow head is read for ever");
                            std::thread::sleep(Duration::from_millis(20));
                        }
                    }
                    // A body that does not come.
                    2 => {
                        stream.write_all(&whole[..whole.len() - 10]).unwrap();
                        let reply = Opened::read(stream).unwrap();
                        assert_eq!(reply.status, 408);
                        return;
                    }
                    // A second request that does not come.
                    _ => stream.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap(),
                }
                assert!(is_ended(stream, patience), "{index}");
            });
        }
        server.answers();
    });
    assert!(server.closes_connections(patience));
}

#[test]
fn a_client_that_does_not_read_is_ended() {
    let server = Server::start(&["--client-timeout", "1", "--quiet"]);
    let mut stream = connect(server.address);
    stream.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
    let began = Instant::now();
    let ask = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(100);
    // Until the system's buffers are full on both sides and the server gives up.
    while began.elapsed() < Duration::from_secs(60) {
        match stream.write_all(&ask) {
            Ok(()) => {}
            Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {}
            Err(_) => break,
        }
    }
    assert!(began.elapsed() < Duration::from_secs(60), "the server waits for ever");
    server.answers();
    assert!(server.closes_connections(Duration::from_secs(20)));
}

#[test]
fn a_client_that_goes_away_frees_its_place() {
    let server = Server::start(&["--queue", "2", "--quiet"]);
    for round in 0..6 {
        let mut events = Events::open(server.address, CHAT, &long_story());
        // Sometimes before the first token, sometimes in the middle.
        for _ in 0..round {
            events.next().unwrap().unwrap();
        }
        drop(events);
    }
    // One that waits for the whole answer.
    let mut story = long_story();
    story["stream"] = false.into();
    let mut stream = connect(server.address);
    stream.write_all(&request("POST", CHAT, &[JSON], story.to_string().as_bytes())).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    drop(stream);
    assert!(server.becomes_idle(Duration::from_secs(20)));
    assert_eq!(server.metric("ortalk_answers_total", &["finish_reason=\"cancelled\""]), 7.0);
    assert_eq!(server.metric("ortalk_http_requests_total", &["status=\"499\""]), 1.0);
    server.answers();
}

#[test]
fn a_connection_that_is_closed_on_one_side_takes_no_place() {
    let server = Server::start(&["--quiet"]);
    let story = long_story().to_string();
    for _ in 0..8 {
        let mut stream = connect(server.address);
        stream.write_all(&request("POST", CHAT, &[JSON], story.as_bytes())).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        assert!(is_ended(stream, Duration::from_secs(60)));
    }
    assert!(server.becomes_idle(Duration::from_secs(20)));
    server.answers();
}

#[test]
fn what_is_too_much_is_refused_with_the_time_to_come_again() {
    let server = Server::start(&["--queue", "2", "--quiet"]);
    server.answers();
    let running = [0, 1].map(|_| Events::open(server.address, CHAT, &long_story()));
    let reply = post(server.address, CHAT, &capital());
    let (message, _, code) = reply.error();
    assert_eq!((reply.status, code.as_deref()), (429, Some("queue_full")), "{message}");
    let seconds: u64 = reply.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=120).contains(&seconds) && message.contains(&format!("{seconds} s")), "{message}");
    // All of them or none; more than there can be would wait for ever.
    for (count, status) in [(2, 429), (3, 400)] {
        let mut several = capital();
        several["n"] = count.into();
        assert_eq!(post(server.address, CHAT, &several).status, status);
    }
    // What is no answer is not refused.
    assert_eq!(get(server.address, "/v1/models").status, 200);
    drop(running);
    assert!(server.becomes_idle(Duration::from_secs(20)));
    server.answers();
}

#[test]
fn an_answer_that_takes_too_long_is_cut() {
    let server = Server::start(&["--answer-timeout", "2", "--quiet"]);
    let mut story = long_story();
    let events = Events::open(server.address, CHAT, &story).all();
    let [.., (_, error), (_, end)] = &events[..] else { panic!("{events:?}") };
    let error: Value = serde_json::from_str(error).unwrap();
    assert_eq!((&error["error"]["code"], end.as_str()), (&json!("timeout"), "[DONE]"));
    story["stream"] = false.into();
    let reply = post(server.address, CHAT, &story);
    assert_eq!((reply.status, reply.error().2.as_deref()), (504, Some("timeout")));
    assert!(server.becomes_idle(Duration::from_secs(20)));
}
