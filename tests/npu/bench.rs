//! `ortalk bench` with the NPU lane on the simulator, beside the CPU lane.

use serde_json::Value;

use crate::json_schema;
use crate::support::{home, ortalk};
use crate::two_layers::two_layers;

/// The table is the one in which people might take a simulator's figures for an NPU's.
#[test]
fn every_figure_of_an_emulated_lane_is_marked() {
    let bench = |more: &[&str]| {
        let lengths = ["--prompt-lengths", "40,512", "--pass-lengths", "64", "-n", "3", "--repetitions", "1"];
        let mut command = ortalk(&home(), &["bench", "--emulate-npu", "--warmup", "0"]);
        let (source, bundle) = (&two_layers().source, &two_layers().bundle);
        command.args(lengths).arg("--model").arg(source).arg("--npu-model").arg(bundle).args(more);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let report: Value = serde_json::from_str(&bench(&["--json"])).unwrap();
    let schema = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/bench.schema.json")).unwrap();
    assert_eq!(json_schema::errors(&serde_json::from_slice(&schema).unwrap(), &report), Vec::<String>::new());
    let [npu, cpu] = &report["lanes"].as_array().unwrap()[..] else { panic!("{report}") };
    assert_eq!((&npu["lane"], &npu["emulated"], &cpu["emulated"]), (&"npu".into(), &true.into(), &false.into()));
    let cases = npu["cases"].as_array().unwrap();
    assert!(cases.len() == 2 && cases.iter().all(|case| case["emulated"] == true), "{npu}");
    let reason = "prompt and answer need 514 tokens, and the context of the npu lane holds 512";
    assert_eq!(npu["skipped"], serde_json::json!([{"kind": "prompt", "prompt_tokens": 512, "reason": reason}]));
    let ratios = report["ratios"].as_array().unwrap();
    assert!(ratios.len() == 2 && ratios.iter().all(|ratio| ratio["emulated"] == true), "{ratios:?}");
    assert!(report["conditions"]["versions"]["qnn_sdk"].is_string(), "{report}");

    let table = bench(&["--lanes", "npu"]);
    let figures = table.lines().skip_while(|line| !line.starts_with("npu (emulated): "));
    let (mut marked, mut others) = (0, Vec::new());
    for line in figures.take_while(|line| !line.starts_with("Disturbed")) {
        match line.ends_with(" (emulated)") {
            true => marked += 1,
            false => others.push(line),
        }
    }
    // Load, memory, eight rows of the prompt and five of the pass.
    assert_eq!(marked, 2 + 8 + 5, "{table}");
    let has_figures = |line: &&&str| line.split_whitespace().skip(1).any(|word| word.parse::<f64>().is_ok());
    let unmarked: Vec<_> = others.iter().filter(has_figures).filter(|line| !line.contains(" tokens")).collect();
    assert!(unmarked.is_empty(), "{unmarked:?}");
}
