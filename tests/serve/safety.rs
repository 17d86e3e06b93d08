//! Who may ask, and what is never printed.

use serde_json::json;

use super::client::{JSON, get, request, send};
use super::server::{Server, capital, ortalk};

const CHAT: &str = "/v1/chat/completions";

#[test]
fn other_machines_need_a_key() {
    for host in ["0.0.0.0", "::", "192.0.2.1"] {
        let output = ortalk(&["serve", "--port", "0", "--host", host]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("--api-key") && said.contains(host), "{said}");
    }
    for (arguments, words) in [
        (["--host", "example.com"], "is no address"),
        (["--api-key", ""], "the key is empty"),
        (["--cors", "chat.example"], "is no origin"),
    ] {
        let output = ortalk(&["serve", "--port", "0"]).args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(words), "{said}");
    }
}

#[test]
fn a_key_opens_everything_and_health_is_open() {
    let mut command = ortalk(&["serve", "--port", "0", "--host", "0.0.0.0"]);
    let server = Server::start_command(command.env("ORTALK_API_KEY", "sk-river"));
    let address = ([127, 0, 0, 1], server.address.port()).into();
    let body = capital().to_string();
    for path in ["/v1/models", "/metrics", "/ortalk/snapshot", "/v1/models/x", "/nothing"] {
        let reply = get(address, path);
        assert_eq!((reply.status, reply.error().2.as_deref()), (401, Some("invalid_api_key")), "{path}");
        assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
    }
    for key in ["Bearer sk-rive", "Bearer sk-river2", "Bearer", "Basic sk-river", "sk-river"] {
        let reply = send(address, &request("POST", CHAT, &[JSON, ("Authorization", key)], body.as_bytes()));
        assert_eq!(reply.status, 401, "{key}");
    }
    let reply = send(address, &request("POST", CHAT, &[JSON, ("Authorization", "Bearer sk-river")], body.as_bytes()));
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(get(address, "/health").status, 200);
    // With a key, any name will do.
    let named =
        b"GET /v1/models HTTP/1.1\r\nHost: box.example\r\nAuthorization: Bearer sk-river\r\nConnection: close\r\n\r\n";
    assert_eq!(send(address, named).status, 200);
}

#[test]
fn a_web_page_cannot_ask_through_a_browser() {
    let server = Server::shared();
    // By a name that was made to lead here.
    let named = b"GET /v1/models HTTP/1.1\r\nHost: evil.example:8080\r\nConnection: close\r\n\r\n";
    let reply = send(server.address, named);
    assert_eq!((reply.status, reply.error().2.as_deref()), (403, Some("host_not_allowed")));
    // By a type that needs no leave.
    let plain = [("Content-Type", "text/plain"), ("Origin", "https://evil.example")];
    assert_eq!(send(server.address, &request("POST", CHAT, &plain, capital().to_string().as_bytes())).status, 415);
    // By asking for leave.
    let origin = ("Origin", "https://evil.example");
    let reply = send(server.address, &request("OPTIONS", CHAT, &[origin], b""));
    assert_eq!(reply.status, 405);
    let reply = send(server.address, &request("GET", "/v1/models", &[origin], b""));
    assert!(reply.header("access-control-allow-origin").is_none());
}

#[test]
fn an_origin_that_was_named_may_read() {
    let server = Server::start(&["--cors", "https://chat.example", "--api-key", "k"]);
    let of = |origin| [("Origin", origin), ("Authorization", "Bearer k")];
    let allowed = |bytes: &[u8]| {
        let reply = send(server.address, bytes);
        (reply.status, reply.header("access-control-allow-origin").map(str::to_owned))
    };
    let ours = Some("https://chat.example".to_owned());
    // Browsers send no key when they ask for leave.
    let preflight = request("OPTIONS", CHAT, &of("https://chat.example")[..1], b"");
    assert_eq!(allowed(&preflight), (204, ours.clone()));
    assert_eq!(allowed(&request("GET", "/v1/models", &of("https://chat.example"), b"")), (200, ours.clone()));
    assert_eq!(allowed(&request("GET", "/v1/models", &of("https://chat.example")[..1], b"")), (401, ours));
    assert_eq!(allowed(&request("GET", "/v1/models", &of("https://evil.example"), b"")), (200, None));
}

#[test]
fn nothing_of_a_request_is_printed() {
    let mut command = ortalk(&["serve", "--port", "0"]);
    let server = Server::start_command(command.env("ORTALK_API_KEY", "sk-river"));
    let secrets = ["sk-river", "xyzzy-prompt", "xyzzy-path", "xyzzy-query", "xyzzy-key", "xyzzy-user", "xyzzy-model"];
    let key = ("Authorization", "Bearer sk-river");
    let asked = json!({
        "messages": [{"role": "user", "content": "xyzzy-prompt"}], "max_tokens": 2, "user": "xyzzy-user"
    });
    let wrong = json!({"messages": "xyzzy-prompt", "model": "xyzzy-model"});
    for (bytes, status) in [
        (request("POST", CHAT, &[JSON, key], asked.to_string().as_bytes()), 200),
        (request("POST", CHAT, &[JSON, key], wrong.to_string().as_bytes()), 404),
        (request("POST", CHAT, &[JSON, ("Authorization", "Bearer xyzzy-key")], b"{}"), 401),
        (request("GET", "/xyzzy-path?xyzzy-query", &[key], b""), 404),
        (request("GET", "/v1/models/xyzzy-path", &[key], b""), 404),
    ] {
        assert_eq!(send(server.address, &bytes).status, status);
    }
    let printed = || server.printed();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while !printed().contains("/v1/models/{id} 404") && std::time::Instant::now() < until {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let printed = printed();
    for line in ["POST /v1/chat/completions 200", "answer length on cpu: ", "GET other 404", "GET /v1/models/{id} 404"]
    {
        assert!(printed.contains(line), "{printed}");
    }
    for secret in secrets {
        assert!(!printed.contains(secret), "{printed}");
    }
    let quiet = Server::start(&["--quiet"]);
    quiet.answers();
    assert_eq!(quiet.printed().lines().count(), 1, "{}", quiet.printed());
}
