//! From a repository to an answer: what was pulled is chatted with and built from by its name alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use ortalk::commands::fetch::{AfterFetch, FetchDisplay};
use ortalk::commands::session;
use ortalk::config::Settings;
use ortalk::paths::Paths;
use serde_json::Value;

use super::server::{Server, bytes};
use super::user::{User, failed, stderr, stdout, succeeded};

/// ONNX Runtime's library, fetched on first use and shared with other tests.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("home");
        let mut display = FetchDisplay::new(AfterFetch::Exit);
        session::library(&Settings::default(), &Paths::below(&home), &mut display).unwrap().path
    })
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// All files of a folder, as a repository has them below `prefix`.
fn files(folder: &Path, prefix: &str) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
        let name = format!("{prefix}{}", entry.file_name().into_string().unwrap());
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(files(&entry.path(), &format!("{name}/"))),
            false => found.push((name, fs::read(entry.path()).unwrap())),
        }
    }
    found
}

fn serve(server: &Server, repo: &str, files: &[(String, Vec<u8>)]) {
    let files: Vec<(&str, Vec<u8>)> = files.iter().map(|(path, bytes)| (path.as_str(), bytes.clone())).collect();
    server.add(repo, &files);
}

/// What `ortalk run` answers with this model: what comes to its mind, but the same every time.
fn answer(user: &User, model: &str) -> Value {
    let arguments = ["run", "-m", model, "--temperature", "3", "--seed", "7", "-n", "12", "--json", "abcd"];
    let output = user.command(&arguments).env("ORT_DYLIB_PATH", library()).output().unwrap();
    succeeded(&output);
    let answer: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert!(!answer["text"].as_str().unwrap().is_empty(), "{answer}");
    answer
}

#[test]
fn pulled_graphs_answer_by_their_repository_s_name() {
    let server = Server::start();
    for model in ["llama", "qwen3"] {
        serve(&server, &format!("some/{model}-ONNX"), &files(&fixture(&format!("optimum/{model}")), ""));
    }
    serve(&server, "some/phi", &files(&fixture("genai/int4"), "cpu_and_mobile/cpu-int4-rtn-block-32/"));
    let user = User::of(&server);
    for (name, path, opens) in [
        ("some/llama-ONNX", "optimum/llama", "onnx/model_q4.onnx"),
        ("some/llama-ONNX:fp16", "optimum/llama/onnx/model_fp16.onnx", "onnx/model_fp16.onnx"),
        // Its data lies in a file beside it.
        ("some/qwen3-ONNX", "optimum/qwen3", "onnx/model.onnx"),
        ("some/phi", "genai/int4", "cpu_and_mobile/cpu-int4-rtn-block-32"),
    ] {
        assert!(user.pull(name).ends_with(opens), "{name}");
        let (pulled, own) = (answer(&user, name), answer(&user, fixture(path).to_str().unwrap()));
        assert_eq!(pulled["text"], own["text"], "{name}");
    }
}

#[test]
fn a_pulled_checkpoint_answers_and_is_built_by_its_repository_s_name() {
    let server = Server::start();
    serve(&server, "some/qwen2", &files(&fixture("models/qwen2-f16"), ""));
    let user = User::of(&server);
    // Four shards and their index.
    assert_eq!(user.pull("some/qwen2"), user.snapshot("some/qwen2"));
    let pulled = answer(&user, "some/qwen2");
    assert_eq!(pulled["text"], answer(&user, fixture("models/qwen2-f16").to_str().unwrap())["text"]);
    let output = user.run(&["build", "some/qwen2", "-o", "built", "--precision", "int8"]);
    assert!(output.status.success() && stderr(&output).contains("built: qwen2 (qwen2, "), "{}", stderr(&output));
    assert_eq!(answer(&user, "built")["text"], pulled["text"]);
}

#[test]
fn what_could_not_be_built_is_not_fetched() {
    const REPO: &str = "some/checkpoint";
    for (config, expected) in [
        (
            r#"{"model_type": "mamba"}"#,
            r#"key "model_type" is "mamba", expected one of those that can be built: llama"#,
        ),
        (
            r#"{"model_type": "qwen3", "quantization_config": {"quant_method": "awq"}}"#,
            r#""quantization_config" is "awq""#,
        ),
        ("<html>", "the JSON is not right"),
    ] {
        let server = Server::with(
            REPO,
            &[
                ("config.json", config.into()),
                ("model.safetensors", bytes(400_000, 1)),
                ("tokenizer.json", bytes(2000, 2)),
            ],
        );
        let user = User::of(&server);
        let said = user.pull_fails(&[REPO]);
        assert!(said.contains("ortalk cannot use 'some/checkpoint'") && said.contains(expected), "{said}");
        let asked = server.asked();
        assert!(asked.iter().all(|asked| !asked.on_second_host && !asked.path.contains("safetensors")), "{asked:?}");
        assert!(!user.repo(REPO).exists(), "{config}");
    }
}

#[test]
fn the_simulated_npu_needs_the_checkpoint() {
    let server = Server::start();
    serve(&server, "onnx-community/Qwen3-0.6B-ONNX", &{
        let mut files = files(&fixture("optimum/qwen3"), "");
        files.iter_mut().for_each(|(path, _)| *path = path.replace("onnx/model.onnx", "onnx/model_q4.onnx"));
        files
    });
    let user = User::of(&server);
    user.pull("qwen3-0.6b");
    let arguments = ["run", "-m", "qwen3-0.6b", "--emulate-npu", "hello"];
    let said = failed(&user.command(&arguments).env("ORT_DYLIB_PATH", library()).output().unwrap());
    assert!(said.contains("`ortalk pull qwen3-0.6b --for npu` fetches it"), "{said}");
    // The plug-in is fetched for who can use it.
    assert!(!user.path("home/cache/lib").exists());
}
