//! `ortalk race` with the NPU lane on the simulator, beside the CPU lane.

use serde_json::Value;

use crate::support::{home, ortalk};
use crate::two_layers::two_layers;

fn race(more: &[&str]) -> std::process::Output {
    let two_layers = two_layers();
    let mut command = ortalk(&home(), &["race", "What is the capital of France?", "--lanes", "cpu,npu"]);
    command.args(["--temperature", "0", "-n", "4"]).args(more);
    command.arg("--model").arg(&two_layers.source).arg("--npu-model").arg(&two_layers.bundle);
    command.output().unwrap()
}

#[test]
fn both_lanes_have_their_numbers_and_the_emulated_one_is_marked() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("race.jsonl");
    let output = race(&["--emulate-npu", "--rounds", "2", "--json", "--record", file.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["order"], &report["rounds"]), (&"in turn".into(), &2.into()), "{report}");
    assert_eq!(report["order_reason"], "cpu and the emulated npu compute on the same cores");
    let [cpu, npu] = &report["lanes"].as_array().unwrap()[..] else { panic!("{report}") };
    assert_eq!((&cpu["lane"], &npu["lane"]), (&"cpu".into(), &"npu".into()));
    assert_eq!((&cpu["emulated"], &npu["emulated"]), (&false.into(), &true.into()));
    for lane in [cpu, npu] {
        assert_eq!(lane["state"], "done", "{lane}");
        let number = |value: &Value| value.as_f64().filter(|number| *number > 0.0);
        for value in ["ttft_ms", "tokens_per_second", "total_ms"] {
            assert!(number(&lane[value]).is_some(), "{value}: {lane}");
        }
        for value in ["p50", "p99"] {
            assert!(number(&lane["latency_ms"][value]).is_some(), "{value}: {lane}");
        }
        // Energy is a number, or why there is none.
        assert!(lane["joules_per_token"].is_number() != lane["energy_reason"].is_string(), "{lane}");
        let runs = lane["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 2);
        // Nothing of the first round is reused in the second.
        assert!(runs.iter().all(|run| run["reused_tokens"] == 0 && run["completion_tokens"] == 4), "{lane}");
    }
    let best = &report["best"]["tokens_per_second"];
    let (mine, other) = if best["lane"] == "cpu" { (cpu, npu) } else { (npu, cpu) };
    let rate = |lane: &Value| lane["tokens_per_second"].as_f64().unwrap();
    assert!(
        (best["ratio"].as_f64().unwrap() - rate(mine) / rate(other)).abs() < 0.01 * best["ratio"].as_f64().unwrap()
    );
    let verdict = report["verdict"].to_string();
    assert!(verdict.contains("npu is emulated") && verdict.contains("one after the other"), "{verdict}");
    // The recording is whole, and has the race.
    let recording = ortalk::recording::read(&file, ortalk::recording::Completeness::Whole).unwrap();
    let tokens = recording.lines.iter().filter(|timed| serde_json::to_string(timed).unwrap().contains("\"token\""));
    assert_eq!(tokens.count(), 2 * 2 * 4);
    let again = race(&["--emulate-npu", "--record", file.to_str().unwrap()]);
    assert!(String::from_utf8_lossy(&again.stderr).contains("is there already"));
}

#[test]
fn the_table_marks_the_simulator_and_a_lane_that_is_not_there_is_told() {
    let output = race(&["--emulate-npu"]);
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && table.contains("npu (emulated):"), "{table}");
    let row = table.lines().find(|line| line.starts_with("npu emulated")).unwrap();
    assert!(row.contains("finished"), "{table}");
    assert!(table.contains("npu is emulated: its times say nothing about an npu in hardware."), "{table}");
    assert!(table.contains("cpu and the emulated npu compute on the same cores"), "{table}");
    // Where there is no NPU, a race is for the other lane alone, and that is a failure.
    let output = race(&[]);
    let text = String::from_utf8(output.stdout).unwrap();
    if text.contains("absent") {
        assert!(!output.status.success() && text.contains("npu did not run: "), "{text}");
        assert!(text.contains("Fewer than two lanes came to their end"), "{text}");
    }
}
