//! What `sys` and `setup --npu` say of the simulator, and of libraries that do not work.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::support::{home, library, ortalk, plugin};

fn sys(home: &Path) -> Value {
    let output = ortalk(home, &["sys", "--json"]).env("ORT_DYLIB_PATH", library()).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_simulator_is_emulated_and_everything_is_where_it_is_said_to_be() {
    plugin();
    let report = sys(&home());
    let devices = report["devices"].as_array().unwrap();
    let kinds: Vec<_> = devices.iter().map(|device| device["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["npu", "gpu", "cpu"]);
    let (npu, cpu) = (&devices[0], &devices[2]);
    assert_eq!((&npu["state"], &cpu["state"]), (&"emulated".into(), &"hardware".into()));
    assert_eq!(npu["execution_providers"][0]["name"], "QNNExecutionProvider");
    assert_eq!(npu["execution_providers"][0]["qnn_sdk"], "2.51.0");
    assert_eq!(cpu["execution_providers"][0]["name"], "CPUExecutionProvider");
    let libraries = report["libraries"].as_array().unwrap();
    let versions: Vec<_> = libraries.iter().map(|library| library["version"].as_str().unwrap()).collect();
    assert_eq!(versions[1..], ["2.7.0", "2.51.0"]);
    assert!(libraries.iter().all(|library| Path::new(library["path"].as_str().unwrap()).is_file()), "{libraries:?}");

    let text = ortalk(&home(), &["sys"]).output().unwrap().stdout;
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("NPU  simulator on") && text.contains("processor, emulated\n"), "{text}");
}

#[test]
fn what_does_not_work_is_a_line_of_the_report() {
    let dir = tempfile::tempdir().unwrap();
    let other = dir.path().join("other.so");
    fs::write(&other, "no library").unwrap();
    let settings = format!(
        "[npu]\nplugin = '{0}'\n[[plugins]]\nname = 'OtherExecutionProvider'\nlibrary = '{0}'\n",
        other.display()
    );
    fs::write(dir.path().join("config.toml"), settings).unwrap();
    let report = sys(dir.path());
    let npu = &report["devices"][0];
    assert_eq!(npu["state"], "unavailable");
    let reasons: Vec<_> = npu["missing"].as_array().unwrap().iter().map(|missing| &missing["reason"]).collect();
    assert!(reasons.contains(&&"QNN plug-in".into()) && reasons.contains(&&"QNN backend".into()), "{reasons:?}");
    assert_eq!(report["devices"][2]["state"], "hardware");
    for (index, name) in [(1, "QNN plug-in"), (3, "OtherExecutionProvider")] {
        let library = &report["libraries"][index];
        assert_eq!(library["name"], name);
        let reason = library["missing"]["reason"].as_str().unwrap();
        assert!(reason.starts_with("it does not work: ") && reason.contains("other.so"), "{reason}");
        assert!(library["missing"]["remedy"].is_string());
    }
}

#[test]
fn nothing_installed_is_told_with_remedies_and_nothing_is_fetched() {
    let dir = tempfile::tempdir().unwrap();
    let output = ortalk(dir.path(), &["sys", "--json"]).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let remedies: Vec<_> = report["libraries"].as_array().unwrap().iter().map(|l| &l["missing"]["remedy"]).collect();
    assert_eq!(remedies, ["`ortalk setup` fetches it", "`ortalk setup --npu` fetches it"]);
    assert_eq!(report["devices"][2]["missing"][0]["reason"], "ONNX Runtime");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_wrong_option_in_the_settings_is_refused_before_anything_runs() {
    let dir = tempfile::tempdir().unwrap();
    for (line, words) in [
        ("htp_performance_mode = 'warp9'", "htp_performance_mode is 'warp9'; it must be one of balanced, burst"),
        ("htp_perfomance_mode = 'burst'", "did you mean 'htp_performance_mode'?"),
    ] {
        fs::write(dir.path().join("config.toml"), format!("[npu]\n{line}\n")).unwrap();
        let output = ortalk(dir.path(), &["sys"]).output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(message.contains(words) && message.contains("config.toml"), "{message}");
    }
}

#[test]
fn setup_says_where_the_plug_in_is() {
    plugin();
    library();
    let dir = tempfile::tempdir().unwrap();
    // A model of one's own, so that none is fetched.
    fs::write(
        dir.path().join("config.toml"),
        format!("model = '{0}'\n[npu]\nplugin = '{1}'\n", dir.path().display(), plugin().library.display()),
    )
    .unwrap();
    let output = ortalk(dir.path(), &["setup", "--npu"]).env("ORT_DYLIB_PATH", library()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("QNN plug-in   named in the settings") && table.contains("libQnnHtp.so"), "{table}");
}
