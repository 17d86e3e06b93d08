//! `ortalk models`, and models' names on the command line.

use std::fs;

use super::server::{Server, bytes};
use super::user::{User, failed, stderr, stdout, succeeded};

const REPO: &str = "some/model-GGUF";

fn server() -> Server {
    Server::with(REPO, &[("x-Q8_0.gguf", bytes(3_000_000, 1)), ("x-Q4_0.gguf", bytes(2_000_000, 2))])
}

fn list(user: &User, arguments: &[&str]) -> String {
    let output = user.run(arguments);
    succeeded(&output);
    user.plain(&stdout(&output))
}

#[test]
fn what_was_pulled_is_listed_shown_and_removed() {
    let server = server();
    let user = User::of(&server);
    let before = list(&user, &["models"]);
    assert!(before.starts_with("No model is on this machine yet") && before.contains("qwen3-0.6b"), "{before}");
    user.pull("some/model-GGUF:Q8_0");
    user.pull("some/model-GGUF:Q4_0");
    insta::with_settings!({prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!("models", list(&user, &["models"]));
        insta::assert_snapshot!("models_show", list(&user, &["models", "show", REPO]));
    });
    let json: serde_json::Value = serde_json::from_str(&list(&user, &["models", "--json"])).unwrap();
    assert_eq!(
        (&json["models"][0]["name"], &json["models"][0]["bytes"]),
        (&"some/model-GGUF:Q4_0".into(), &2_000_000.into())
    );
    assert_eq!(json["catalogue"][0]["name"], "smollm2-135m");
    let json: serde_json::Value =
        serde_json::from_str(&list(&user, &["models", "show", "some/model-GGUF:Q8_0", "--json"])).unwrap();
    assert_eq!(json["models"][0]["files"][0]["path"], "x-Q8_0.gguf");

    let asked = failed(&user.run(&["models", "remove", "some/model-GGUF:Q4_0"]));
    assert!(asked.contains("remove 'some/model-GGUF:Q4_0' (2.0 MB)") && asked.contains("--yes"), "{asked}");
    let output = user.run(&["models", "remove", "some/model-GGUF:Q4_0", "--yes"]);
    assert!(output.status.success() && stderr(&output).contains("2.0 MB are free now"), "{}", stderr(&output));
    assert_eq!(user.blobs(REPO).len(), 1);
    let gone = failed(&user.run(&["models", "remove", "some/model-GGUF:Q4_0", "--yes"]));
    assert!(gone.contains("is not on this machine"), "{gone}");
    assert!(user.run(&["models", "remove", REPO, "--yes"]).status.success());
    assert!(!user.repo(REPO).exists());
}

#[test]
fn names_that_nobody_has_are_refused() {
    let server = server();
    let user = User::of(&server);
    for arguments in [["models", "show", "nothing"], ["models", "remove", "nothing"], ["models", "remove", "../x"]] {
        let said = failed(&user.run(&arguments));
        assert!(said.contains("no model is named"), "{said}");
    }
    let said = failed(&user.run(&["models", "remove", "smollm2-135m", "--yes"]));
    assert!(said.contains("comes with ortalk"), "{said}");
}

#[test]
fn what_ortalk_built_from_a_file_that_is_gone_is_pruned() {
    let server = server();
    let user = User::of(&server);
    let models = user.path("home/cache/models");
    let build = |name: &str, version: &str| {
        let folder = models.join(name);
        fs::create_dir_all(&folder).unwrap();
        let origin =
            format!(r#"{{"name": "{name}", "files": {{}}, "builder": {{"name": "ortalk", "version": "{version}"}}}}"#);
        fs::write(folder.join("ortalk_build.json"), origin).unwrap();
    };
    build("kept-1", env!("CARGO_PKG_VERSION"));
    build("old-2", "0.0.0");
    let work = models.join("npu/.b-3.work/export");
    fs::create_dir_all(&work).unwrap();
    fs::write(work.join("model.onnx.data"), bytes(2_000_000, 1)).unwrap();
    let said = failed(&user.run(&["models", "prune"]));
    assert!(said.contains("remove these 2") && said.contains("--yes"), "{said}");
    let output = user.run(&["models", "prune", "--yes"]);
    assert!(stderr(&output).contains("old-2: another version of ortalk built it"), "{}", stderr(&output));
    assert!(stderr(&output).contains(".b-3.work: a build left it that did not end (2.0 MB)"), "{}", stderr(&output));
    assert!(models.join("kept-1").exists() && !models.join("old-2").exists());
    assert!(!models.join("npu/.b-3.work").exists());
    assert!(stderr(&user.run(&["models", "prune"])).contains("nothing is out of date"));
    let output = user.run(&["models", "remove", "kept-1", "--yes"]);
    assert!(output.status.success() && !models.join("kept-1").exists());
}

#[test]
fn a_model_is_named_by_its_repository_everywhere() {
    let server = Server::with(
        "some/other",
        &[("config.json", br#"{"model_type": "llama"}"#.to_vec()), ("model.safetensors", tiny_safetensors())],
    );
    let user = User::of(&server);
    let before = failed(&user.run(&["inspect", "some/other"]));
    assert!(before.contains("`ortalk pull some/other` fetches it"), "{before}");
    for (arguments, pull) in [
        (&["run", "-m", "some/other", "hello"][..], "`ortalk pull some/other`"),
        (&["bench", "-m", "some/other"], "`ortalk pull some/other`"),
        (&["build", "some/other", "-o", "x"], "`ortalk pull some/other --for npu`"),
    ] {
        let said =
            failed(&user.command(arguments).env("ORT_DYLIB_PATH", env!("CARGO_BIN_EXE_ortalk")).output().unwrap());
        assert!(said.contains(&format!("{pull} fetches it")), "{said}");
    }
    user.pull("some/other");
    let found = stdout(&user.run(&["inspect", "some/other"]));
    assert!(found.contains("safetensors"), "{found}");
    // What is at a path of that name comes first.
    fs::create_dir_all(user.path("some/other")).unwrap();
    let path = failed(&user.run(&["inspect", "some/other"]));
    assert!(!path.contains("ortalk pull"), "{path}");
}

#[test]
fn a_name_of_the_catalogue_pulls_what_it_stands_for() {
    let files =
        [("config.json", b"{}".to_vec()), ("onnx/model_q4.onnx", bytes(5000, 1)), ("onnx/model.onnx", bytes(6000, 2))];
    let server = Server::with("onnx-community/Qwen3-0.6B-ONNX", &files);
    server.add(
        "Qwen/Qwen3-0.6B",
        &[("config.json", br#"{"model_type": "qwen3"}"#.to_vec()), ("model.safetensors", tiny_safetensors())],
    );
    let user = User::of(&server);
    let missing = failed(&user.run(&["inspect", "qwen3-0.6b"]));
    assert!(missing.contains("`ortalk pull qwen3-0.6b` fetches it"), "{missing}");
    let output = user.run(&["pull", "qwen3-0.6b"]);
    assert!(succeeded(&output).ends_with("onnx/model_q4.onnx"));
    assert!(
        stderr(&output).contains("qwen3-0.6b: Qwen3-0.6B from onnx-community/Qwen3-0.6B-ONNX:q4 (Apache-2.0)"),
        "{}",
        stderr(&output)
    );
    let output = user.run(&["pull", "qwen3-0.6b", "--for", "npu"]);
    assert_eq!(succeeded(&output), user.snapshot("Qwen/Qwen3-0.6B"));
    assert!(stderr(&output).contains("ortalk build qwen3-0.6b -o DIR --target npu"), "{}", stderr(&output));
    let listed = list(&user, &["models"]);
    for words in ["onnx-community/Qwen3-0.6B-ONNX:q4 (qwen3-0.6b)", "Qwen/Qwen3-0.6B:checkpoint (qwen3-0.6b)"] {
        assert!(listed.contains(words), "{listed}");
    }
    let output = user.run(&["models", "remove", "qwen3-0.6b", "--yes"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(!user.repo("Qwen/Qwen3-0.6B").exists() && !user.repo("onnx-community/Qwen3-0.6B-ONNX").exists());
}

/// One tensor of no elements, and its header.
fn tiny_safetensors() -> Vec<u8> {
    let header = br#"{"x":{"dtype":"F32","shape":[300],"data_offsets":[0,1200]}}"#;
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header);
    file.extend(vec![0; 1200]);
    file
}
