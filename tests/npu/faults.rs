//! What is wrong with a bundle or the settings, seen through the real program: what was found, what was expected and what to
//! do. The NPU lane that was asked for is an error; else the CPU answers, and the reason is told.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;

use crate::support::{home, library, ortalk, plugin};
use crate::two_layers::two_layers;

/// The bundle once more, to be damaged.
fn copy() -> tempfile::TempDir {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for entry in fs::read_dir(&two_layers().bundle).unwrap() {
        let entry = entry.unwrap();
        fs::hard_link(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    folder
}

/// Writes a file anew: the old one is the bundle's own.
fn replace(path: &Path, bytes: &[u8]) {
    fs::remove_file(path).unwrap();
    fs::write(path, bytes).unwrap();
}

/// Puts a text of the same length in another's place.
fn edit(path: &Path, from: &str, to: &str) {
    let mut bytes = fs::read(path).unwrap();
    let at = bytes.windows(from.len()).position(|text| text == from.as_bytes()).unwrap();
    bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    replace(path, &bytes);
}

fn ask(home: &Path, bundle: &Path, arguments: &[&str]) -> Output {
    library();
    plugin();
    let mut command = ortalk(home, &["run", "Hi", "--emulate-npu", "--temperature", "0", "-n", "2"]);
    command.arg("--model").arg(&two_layers().source).arg("--npu-model").arg(bundle).args(arguments).output().unwrap()
}

fn stderr(output: &Output) -> String {
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(!said.contains("panicked"), "{said}");
    said
}

/// An error, with or without a lane that was asked for.
fn assert_refused(home: &Path, arguments: &[&str], expected: &[&str]) {
    let output = ask(home, &two_layers().bundle, arguments);
    let said = stderr(&output);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{said}");
    assert_told_once(&said, expected);
}

fn assert_told_once(said: &str, expected: &[&str]) {
    for words in expected {
        assert_eq!(said.matches(words).count(), 1, "{words}: {said}");
    }
}

/// The lane that was asked for is an error; else the CPU answers, and the reason is told.
fn assert_only_the_cpu_answers(home: &Path, bundle: &Path, state: &str, expected: &[&str]) {
    let output = ask(home, bundle, &["--lane", "npu"]);
    let said = stderr(&output);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{said}");
    assert!(said.starts_with("ortalk: the npu lane "), "{said}");
    assert_told_once(&said, expected);

    let output = ask(home, bundle, &["--json"]);
    let said = stderr(&output);
    assert!(output.status.success() && said.starts_with("ortalk: the npu lane "), "{said}");
    assert_told_once(&said, expected);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&answer["routing"]["lane"], &answer["lanes"][0]["state"]), (&"cpu".into(), &state.into()), "{answer}");
    for told in [&answer["lanes"][0]["reason"], &answer["routing"]["rejected"][0]["reason"]] {
        assert_told_once(told.as_str().unwrap(), expected);
    }
}

const AGAIN: &str = "again with `ortalk build --target npu`";

#[test]
fn a_bundle_that_is_not_for_this_machine() {
    for (file, from, to, expected) in [
        (
            "decode.onnx",
            ":73:60:",
            ":81:88:",
            "it was compiled for soc_model 88, but soc_model is 60 here; build the model",
        ),
        (
            "decode.onnx",
            "v2.51.0",
            "v2.99.0",
            "compiled with QNN SDK 2.99.0, which is newer than the plug-in's 2.51.0; ",
        ),
    ] {
        let folder = copy();
        let path = folder.path().join(file);
        edit(&path, from, to);
        let expected = [path.to_str().unwrap(), expected, "with `ortalk build --target npu"];
        assert_only_the_cpu_answers(&home(), folder.path(), "failed", &expected);
    }
}

#[test]
fn a_context_binary_that_is_cut_off_or_gone() {
    let folder = copy();
    let binary = folder.path().join("decode_qnn.bin");
    let wrapper = folder.path().join("decode.onnx");
    let whole = fs::read(&binary).unwrap();
    replace(&binary, &whole[..whole.len() / 2]);
    let expected = [wrapper.to_str().unwrap(), "QNN does not take its binary: ", AGAIN];
    assert_only_the_cpu_answers(&home(), folder.path(), "failed", &expected);
    fs::remove_file(&binary).unwrap();
    let expected = [wrapper.to_str().unwrap(), "its binary 'decode_qnn.bin' is missing", AGAIN];
    assert_only_the_cpu_answers(&home(), folder.path(), "failed", &expected);
}

#[test]
fn a_description_that_is_nonsense_or_names_what_is_not_there() {
    let folder = copy();
    let path = folder.path().join("ortalk_npu.json");
    let described: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let changed = |key: &str, value: Value| {
        let mut changed = described.clone();
        changed[key] = value;
        changed.to_string()
    };
    for (text, words) in [
        ("nonsense".to_string(), "is not right: expected ident at line 1 column 2"),
        ("{}".to_string(), "is not right: missing field `format`"),
        (changed("format", 7.into()), "format is 7, but this ortalk reads format 1"),
        (changed("chunk", 4096.into()), "chunk is 4096; expected at most the context of 512"),
    ] {
        replace(&path, text.as_bytes());
        assert_only_the_cpu_answers(&home(), folder.path(), "absent", &[path.to_str().unwrap(), words, AGAIN]);
    }
    replace(&path, described.to_string().as_bytes());
    for name in ["embeddings.onnx", "decode.onnx", "sink.bin"] {
        let (part, aside) = (folder.path().join(name), folder.path().join("aside"));
        fs::rename(&part, &aside).unwrap();
        let words = format!("is not whole: it has no '{name}', which ortalk_npu.json names");
        assert_only_the_cpu_answers(&home(), folder.path(), "absent", &[&words, AGAIN]);
        fs::rename(&aside, &part).unwrap();
    }
}

#[test]
fn a_bundle_of_another_model() {
    let folder = copy();
    let path = folder.path().join("genai_config.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    config["model"]["decoder"]["num_hidden_layers"] = 30.into();
    replace(&path, config.to_string().as_bytes());
    let expected = [folder.path().to_str().unwrap(), "its number of layers is 30, not 2; build it from the same file"];
    assert_only_the_cpu_answers(&home(), folder.path(), "absent", &expected);
}

/// A folder for settings, with the caches that the tests share.
fn settings(npu: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    symlink(home().join("cache"), folder.path().join("cache")).unwrap();
    let path = folder.path().join("config.toml");
    fs::write(&path, format!("[npu]\n{npu}\n")).unwrap();
    (folder, path)
}

/// What a person wrote and is not so is an error, whatever lane would answer.
#[test]
fn settings_that_are_wrong() {
    library();
    plugin();
    for (line, expected) in [
        ("backend = '/no/such/libQnnHtp.so'", ["'/no/such/libQnnHtp.so'", "there is no such file"]),
        ("backend = '/'", ["'/'", "that is a folder, not the library file in it"]),
        ("htp_performance_mode = 'warp9'", ["htp_performance_mode is 'warp9'", "it must be one of balanced, burst"]),
        ("htp_perfomance_mode = 'burst'", ["did you mean 'htp_performance_mode'?", "'htp_perfomance_mode'"]),
        ("vtcm_mb = 'much'", ["vtcm_mb is 'much'", "1 to 64"]),
    ] {
        let (home, path) = settings(line);
        let expected = [path.to_str().unwrap(), expected[0], expected[1]];
        assert_refused(home.path(), &["--lane", "npu"], &expected);
        assert_refused(home.path(), &[], &expected);
    }
}

/// Right by themselves, and not for this bundle, or no backend: the lane says so.
#[test]
fn settings_that_do_not_suit_the_bundle() {
    let bundle = &two_layers().bundle;
    let (home, _) = settings("soc_model = 88");
    let expected = ["soc_model is '88', but the model is compiled for x-elite (soc_model 60)"];
    assert_only_the_cpu_answers(home.path(), bundle, "failed", &expected);

    let other = plugin().backend.with_file_name("libQnnSystem.so");
    let (home, _) = settings(&format!("backend = '{}'", other.display()));
    assert_only_the_cpu_answers(home.path(), bundle, "failed", &["Unable to access symbol: QnnInterface_getProviders"]);
}
