//! The cache is shared with `huggingface_hub`: each finds what the other fetched.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::server::{COMMIT, Server, bytes};
use super::user::{User, read, stderr, stdout, succeeded};

const REPO: &str = "some/model-ONNX";
const FILES: [&str; 3] = ["config.json", "onnx/model_q4.onnx", "onnx/model_q4.onnx_data"];

fn server() -> Server {
    Server::with(
        REPO,
        &[
            (FILES[0], b"{}".to_vec()),
            (FILES[1], bytes(5000, 1)),
            (FILES[2], bytes(200_000, 2)),
            ("x.bin", bytes(3000, 3)),
        ],
    )
}

/// `huggingface_hub` in a folder of its own, installed when it is not there.
fn packages() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("huggingface-hub");
        if !folder.join("complete").exists() {
            let mut pip = Command::new("python3");
            pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade", "--target"]);
            let output = pip.arg(&folder).arg("huggingface_hub==1.0.1").output().unwrap();
            assert!(output.status.success(), "{}", stderr(&output));
            std::fs::write(folder.join("complete"), "").unwrap();
        }
        folder
    })
}

/// Runs a script of Python's; gives what it printed.
fn python(user: &User, script: &str, offline: bool) -> String {
    let mut command = Command::new("python3");
    command.args(["-c", script]);
    user.at_home(&mut command);
    command
        .env("PYTHONPATH", packages())
        .env("HF_HUB_DISABLE_TELEMETRY", "1")
        .env("HF_HUB_OFFLINE", if offline { "1" } else { "0" });
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output)
}

#[test]
fn what_huggingface_hub_fetched_is_not_fetched_again() {
    let server = server();
    let user = User::of(&server);
    let script = format!("import huggingface_hub as h\nfor f in {FILES:?}: print(h.hf_hub_download({REPO:?}, f))");
    python(&user, &script, false);
    server.asked();
    let output = user.run(&["pull", "some/model-ONNX:q4"]);
    let path = succeeded(&output);
    assert!(stderr(&output).contains("all here already"), "{}", stderr(&output));
    assert_eq!(server.asked().len(), 1);
    assert_eq!(read(&path), bytes(5000, 1));
}

#[test]
fn what_ortalk_pulled_is_found_by_huggingface_hub() {
    let server = server();
    let user = User::of(&server);
    user.pull("some/model-ONNX:q4");
    let script = format!("import huggingface_hub as h\nfor f in {FILES:?}: print(h.hf_hub_download({REPO:?}, f))");
    let found = python(&user, &script, true);
    let expected: Vec<PathBuf> = FILES.iter().map(|file| user.snapshot(REPO).join(file)).collect();
    assert_eq!(found.lines().map(PathBuf::from).collect::<Vec<_>>(), expected);
    // It counts what is there, and warns of nothing.
    let script = "import huggingface_hub as h\ni = h.scan_cache_dir()\nprint(i.size_on_disk, len(i.warnings), [\
                  (r.repo_id, sorted(f.file_name for f in v.files), v.commit_hash, sorted(v.refs)) for r in i.repos for v in r.revisions])";
    let expected =
        format!("205002 0 [('{REPO}', ['config.json', 'model_q4.onnx', 'model_q4.onnx_data'], '{COMMIT}', ['main'])]");
    assert_eq!(python(&user, script, true).trim_end(), expected);
}
