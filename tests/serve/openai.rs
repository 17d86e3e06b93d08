//! OpenAI's own Python package asks; `openai_client.py` says what must come of it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::server::Server;

const PACKAGES: [&str; 2] = ["openai==3.57.0", "prometheus_client==0.26.0"];

/// The packages in a folder of their own, installed when they are not there.
pub fn packages() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("openai-client");
        let complete = folder.join("complete");
        if std::fs::read_to_string(&complete).ok().as_deref() != Some(&PACKAGES.join(" ")) {
            let mut pip = Command::new("python3");
            pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade", "--target"]);
            let output = pip.arg(&folder).args(PACKAGES).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            std::fs::write(complete, PACKAGES.join(" ")).unwrap();
        }
        folder
    })
}

fn python(server: &Server, what: &str, key: Option<&str>) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/serve/openai_client.py");
    let mut command = Command::new("python3");
    command.arg(script).arg(server.address.to_string()).arg(what).args(key);
    for proxy in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        command.env_remove(proxy);
    }
    let output = command.env("PYTHONPATH", packages()).output().unwrap();
    assert!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn chat() {
    python(&Server::shared(), "chat", None);
}

#[test]
fn streaming() {
    python(&Server::shared(), "streaming", None);
}

#[test]
fn logprobs() {
    python(&Server::shared(), "logprobs", None);
}

#[test]
fn completions() {
    python(&Server::shared(), "completions", None);
}

#[test]
fn responses() {
    python(&Server::shared(), "responses", None);
}

#[test]
fn json_objects_and_schemas() {
    python(&Server::shared(), "json_object", None);
    python(&Server::shared(), "schema:8", None);
}

#[test]
#[ignore = "takes minutes; its sibling asks for eight"]
fn fifty_answers_by_a_schema() {
    python(&Server::shared(), "schema:50", None);
}

#[test]
fn tools() {
    python(&Server::shared(), "tools", None);
}

#[test]
fn models_and_errors() {
    python(&Server::shared(), "models", None);
    python(&Server::shared(), "errors", None);
}

#[test]
fn key() {
    python(&Server::start(&["--api-key", "sk-river"]), "key", Some("sk-river"));
}
