//! `ortalk bench` on the real model's CPU lane, with lengths that take a moment.

use serde_json::Value;

use crate::json_schema;
use crate::support::{ortalk, succeed, text};

const SMALL: [&str; 13] = [
    "bench",
    "--lanes",
    "cpu",
    "--prompt-lengths",
    "40,65,9000",
    "--pass-lengths",
    "150",
    "-n",
    "5",
    "--repetitions",
    "3",
    "--warmup",
    "1",
];

fn bench(more: &[&str]) -> String {
    text(&succeed(&[&SMALL, more].concat()).stdout)
}

fn schema() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/bench.schema.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

/// Mean and standard deviation of the population, by their definitions.
fn moments(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (mean, (values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / values.len() as f64).sqrt())
}

#[test]
fn the_json_is_as_its_schema_says_and_its_statistics_are_those_of_its_samples() {
    let schema = schema();
    let report: Value = serde_json::from_str(&bench(&["--json"])).unwrap();
    assert_eq!(json_schema::errors(&schema, &report), Vec::<String>::new());
    // The validator sees what is wrong.
    for (at, wrong) in [("/lanes/0/cases/0/samples/0", "a text".into()), ("/schema_version", 2.into())] {
        let mut broken = report.clone();
        *broken.pointer_mut(at).unwrap() = wrong;
        assert!(!json_schema::errors(&schema, &broken).is_empty(), "{at}");
    }
    let mut broken = report.clone();
    broken["lanes"][0]["cases"][0].as_object_mut().unwrap().remove("token_latency_ms");
    assert!(!json_schema::errors(&schema, &broken).is_empty());

    let lane = &report["lanes"][0];
    assert_eq!((&lane["lane"], &lane["emulated"]), (&"cpu".into(), &false.into()));
    assert_eq!(lane["execution_provider"], "CPUExecutionProvider");
    assert!(lane["load_duration_ms"].as_f64().unwrap() > 1.0);
    assert!(lane["peak_memory_bytes"]["value"].as_u64().unwrap() > 100 << 20, "{}", lane["peak_memory_bytes"]);
    assert!(lane["files"].as_array().unwrap().iter().any(|file| file["file"] == "model.onnx.data"), "{lane}");
    assert_eq!(report["conditions"]["versions"]["onnx_runtime"], "1.31.1");
    assert_eq!(lane["skipped"].as_array().unwrap().len(), 1);
    assert_eq!(lane["skipped"][0]["prompt_tokens"], 9000);
    assert!(lane["skipped"][0]["reason"].as_str().unwrap().ends_with("the context of the cpu lane holds 8192"));

    let cases = lane["cases"].as_array().unwrap();
    let kinds: Vec<_> = cases.iter().map(|case| (case["kind"].as_str().unwrap(), &case["prompt_tokens"])).collect();
    assert_eq!(kinds, [("prompt", &40.into()), ("prompt", &65.into()), ("pass", &150.into())]);
    for case in cases {
        let samples = case["samples"].as_array().unwrap();
        assert_eq!(samples.len(), 3);
        let each = |value: &dyn Fn(&Value) -> f64| samples.iter().map(value).collect::<Vec<_>>();
        let prefill = each(&|sample| sample["prefill_duration_ms"].as_f64().unwrap());
        let tokens = case["prompt_tokens"].as_f64().unwrap();
        let rates: Vec<f64> = prefill.iter().map(|ms| tokens / ms * 1e3).collect();
        let mut checks = vec![("prefill_duration_ms", prefill), ("prefill_tokens_per_second", rates)];
        let latencies: Vec<Vec<f64>> =
            samples.iter().map(|sample| numbers(&sample["decode_token_durations_ms"])).collect();
        if case["kind"] == "prompt" {
            assert!(latencies.iter().all(|latencies| latencies.len() == 4));
            let rates = latencies.iter().map(|latencies| 4e3 / latencies.iter().sum::<f64>()).collect();
            checks.push(("steady_state_decode_tokens_per_second", rates));
            checks.push(("token_latency_ms", latencies.concat()));
        } else {
            assert_eq!(case["token_latency_ms"], Value::Null);
        }
        for (name, values) in checks {
            let (mean, std) = moments(&values);
            let close = |key: &str, expected: f64| {
                let found = case[name][key].as_f64().unwrap();
                assert!(
                    (found - expected).abs() <= 1e-6 * expected.abs().max(1e-3),
                    "{name} {key}: {found}, {expected}"
                );
            };
            close("mean", mean);
            close("std", std);
            close("coefficient_of_variation", std / mean);
            // Nearest rank: of three the second and the last, of twelve the sixth.
            let mut sorted = values.clone();
            sorted.sort_by(f64::total_cmp);
            close("p50", sorted[values.len().div_ceil(2) - 1]);
            close("p99", sorted[values.len() - 1]);
        }
        for sample in samples {
            let of = |name: &str| sample[name].as_f64().unwrap();
            let (prefill, model) = (of("prefill_duration_ms"), of("model_ttft_duration_ms"));
            let (request, all) = (of("request_ttft_duration_ms"), of("request_duration_ms"));
            assert!(0.0 < prefill && prefill <= model && model <= request && request <= all, "{sample}");
        }
    }
}

#[test]
fn a_run_is_compared_with_an_older_one() {
    let old = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut report: Value = serde_json::from_str(&bench(&["--json", "--threads", "1"])).unwrap();
    // As if everything had taken a hundredth of the time.
    for case in report["lanes"][0]["cases"].as_array_mut().unwrap() {
        for name in ["prefill_tokens_per_second", "steady_state_decode_tokens_per_second"] {
            if let Some(summary) = case[name].as_object_mut() {
                for key in ["mean", "std"] {
                    summary[key] = (summary[key].as_f64().unwrap() * 100.0).into();
                }
            }
        }
    }
    std::fs::write(old.path(), report.to_string()).unwrap();
    let path = old.path().to_str().unwrap();
    let new: Value = serde_json::from_str(&bench(&["--json", "--threads", "2", "--compare", path])).unwrap();
    assert_eq!(json_schema::errors(&schema(), &new), Vec::<String>::new());
    let comparison = &new["comparison"];
    assert_eq!(comparison["differing_conditions"], serde_json::json!(["threads of the cpu lane: 1 before, 2 now"]));
    let differences = comparison["differences"].as_array().unwrap();
    // Three numbers of each prompt, two of the pass.
    assert_eq!(differences.len(), 8, "{comparison}");
    for difference in differences.iter().filter(|d| d["number"] != "request_ttft_duration_ms") {
        let of = |name: &str| difference[name].as_f64().unwrap();
        let change = of("new") / of("old") - 1.0;
        assert!((of("change") - change).abs() < 1e-6 && change < -0.5, "{difference}");
        let interval = numbers(&difference["interval"]);
        assert!(interval[0] <= change && change <= interval[1], "{difference}");
    }
}

#[test]
fn people_get_a_table_and_a_readme_gets_another() {
    let table = bench(&[]);
    for words in ["cpu: CPUExecutionProvider", "decode, tokens/s", "prompt of 65 tokens", "p99", "pass of 150 tokens"] {
        assert!(table.contains(words), "{words}: {table}");
    }
    let markdown = bench(&["--markdown"]);
    assert_eq!(markdown.lines().filter(|line| line.starts_with("| cpu | ")).count(), 3, "{markdown}");
}

#[test]
fn what_cannot_be_measured_is_said_before_anything_is() {
    let no_report = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/chat_template.json");
    let cases: [(&[&str], &str); 7] = [
        (&["--lanes", "npu"], "the npu lane was asked for, but it cannot run: "),
        (&["--lanes", "tpu"], "invalid value 'tpu'"),
        (&["--lanes", "cpu,remote"], "`ortalk bench --server URL`"),
        (&["--prompt-lengths", "0", "--pass-lengths", "0"], "there is nothing to measure"),
        (&["--json", "--markdown"], "cannot be used with"),
        (&["--compare", "/no/such/file.json"], "'/no/such/file.json' cannot be read"),
        (&["--compare", no_report], "is no report of `ortalk bench --json`: it has no schema_version"),
    ];
    for (arguments, expected) in cases {
        let output = ortalk(&[&["bench"], arguments].concat()).output().unwrap();
        let errors = text(&output.stderr);
        assert!(!output.status.success() && output.stdout.is_empty(), "{arguments:?}");
        assert!(errors.contains(expected) && !errors.contains("measuring"), "{arguments:?}: {errors}");
    }
}
