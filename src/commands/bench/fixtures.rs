//! A report with fixed numbers: an emulated NPU lane beside the CPU lane, and an older report to compare with.

use std::path::PathBuf;

use crate::bench::*;
use crate::telemetry::machine::Machine;

fn value<T>(value: T) -> Reported<T> {
    Reported { value: Some(value), reason: None }
}

fn none<T>(reason: &str) -> Reported<T> {
    Reported { value: None, reason: Some(reason.into()) }
}

/// Three requests: a prefill of `prefill` milliseconds and a tenth more each time, and tokens every `token` milliseconds
/// with one that takes twice as long.
fn case(kind: Kind, prompt_tokens: usize, emulated: bool, prefill: f64, token: f64) -> Case {
    let decoded = if kind == Kind::Prompt { vec![token, token * 2.0, token] } else { Vec::new() };
    let samples = [1.0, 1.1, 1.2].map(|factor| Sample {
        request_ttft_duration_ms: prefill * factor + 1.5,
        model_ttft_duration_ms: prefill * factor + 0.5,
        prefill_duration_ms: prefill * factor,
        request_duration_ms: prefill * factor + 2.0 + token * 4.0,
        decode_token_durations_ms: decoded.clone(),
    });
    let facts = CaseFacts {
        kind,
        prompt_tokens,
        generated_tokens: decoded.len() + 1,
        emulated,
        peak_memory_bytes: value(512 << 20),
        energy_joules: if emulated { none("no readable sensor") } else { value(6.0) },
        energy_source: (!emulated).then(|| "CPU packages".into()),
    };
    Case::new(facts, samples.to_vec()).unwrap()
}

fn lane(name: &str, emulated: bool, cases: Vec<Case>, skipped: Vec<Skipped>) -> LaneReport {
    let provider = if emulated { "QNNExecutionProvider" } else { "CPUExecutionProvider" };
    LaneReport {
        lane: name.into(),
        execution_provider: provider.into(),
        device: emulated.then(|| "simulator on Qualcomm".into()),
        emulated,
        threads: (!emulated).then_some(2),
        spinning: (!emulated).then_some(false),
        threads_chosen_by: (!emulated).then_some("tuning"),
        context_limit: if emulated { 512 } else { 8192 },
        folder: PathBuf::from("/models/smollm2"),
        files: vec![ModelFile { file: "model.onnx".into(), bytes: 3, sha256: "ab".repeat(32) }],
        load_duration_ms: 412.5,
        peak_memory_bytes: value(600 << 20),
        cases,
        skipped,
    }
}

fn standing(percent: f64, celsius: f64) -> Standing {
    Standing {
        cpu_percent: value(percent),
        load_average: value(0.42),
        cpu_mhz: value(3400),
        cpu_celsius: value(celsius),
        governor: value("powersave".into()),
        on_battery: value(true),
    }
}

pub fn report() -> Report {
    let machine = Machine {
        system: Some("Debian GNU/Linux 12".into()),
        kernel: Some("6.1.0".into()),
        architecture: "x86_64",
        processor: Some("Processor X".into()),
        cores: Some(2),
        threads: Some(4),
        memory: Some(16 << 30),
    };
    let skipped = Skipped {
        kind: Kind::Pass,
        prompt_tokens: 1024,
        reason: "it needs 1024 tokens, and the context of the npu lane holds 512".into(),
    };
    let lanes = vec![
        lane("npu", true, vec![case(Kind::Prompt, 128, true, 2000.0, 800.0)], vec![skipped]),
        lane(
            "cpu",
            false,
            vec![case(Kind::Prompt, 128, false, 100.0, 12.5), case(Kind::Pass, 1024, false, 950.0, 0.0)],
            Vec::new(),
        ),
    ];
    let versions = Versions { ortalk: "0.1.0", onnx_runtime: Some("1.31.1".into()), qnn_sdk: Some("2.51.0".into()) };
    let conditions = Conditions { machine, versions, before: standing(3.0, 51.0), after: standing(34.0, 92.0) };
    let mut report = Report {
        schema_version: SCHEMA_VERSION,
        started_unix_s: 1_790_000_000,
        plan: Plan {
            prompt_lengths: vec![128],
            pass_lengths: vec![1024],
            generated_tokens: 4,
            warmup: 1,
            repetitions: 3,
        },
        model: "SmolLM2-135M-Instruct".into(),
        ratios: ratios(&lanes),
        noise: noise(&conditions, &lanes),
        conditions,
        lanes,
        not_measured: Vec::new(),
        comparison: None,
    };
    // The older report: the same with a faster prefill, on one thread and another ONNX Runtime.
    let mut old = report.clone();
    old.conditions.versions.onnx_runtime = Some("1.30.0".into());
    old.lanes[1].threads = Some(1);
    old.lanes[1].cases = vec![case(Kind::Prompt, 128, false, 40.0, 12.5)];
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), serde_json::to_vec(&old).unwrap()).unwrap();
    let mut comparison = Comparison::between(&OldReport::read(file.path()).unwrap(), &report);
    comparison.old = PathBuf::from("old.json");
    report.comparison = Some(comparison);
    report
}
