//! Tiny random models of each architecture through the whole build, on the simulator: calibrated on text, quantized, compiled,
//! and compared with what transformers computes (`tests/fixtures/make_tiny_models.py`).

use std::path::Path;
use std::process::Command;

use ortalk::builder::BuildOptions;
use ortalk::builder::npu::{self, LocalLaboratory, NpuBuildOptions, NpuStage};
use ortalk::decoder::{Decoder, StaticDecoder};
use ortalk::model::{ModelFolder, NpuBundle, Precision};
use ortalk::onnx_runtime::QNN_PROVIDER;
use serde_json::Value;

use super::bundle::{CHUNK, CONTEXT, ONE_THREAD};
use super::known_answers::{PROMPT, answers, model};
use super::support::{home, library, ortalk, plugin, runtime, x_elite};

/// Norms over heads; all that is Gemma's, with caps and with a whole period of layers; windows in all layers; heads that are
/// turned in part, with a magnitude.
const MODELS: [&str; 6] =
    ["qwen3-odd.gguf", "gemma3-odd", "gemma3-wide", "gemma3-period.gguf", "mistral-f16", "phi3-partial.gguf"];

fn build(source: &Path, output: &Path, precision: Precision) -> std::path::PathBuf {
    let laboratory = LocalLaboratory {
        runtime: runtime(),
        cpu: ONE_THREAD,
        plugin: plugin(),
        executable: env!("CARGO_BIN_EXE_ortalk").into(),
        library: library().into(),
    };
    let options = NpuBuildOptions {
        common: BuildOptions::default(),
        precision,
        context: Some(CONTEXT),
        chunk: Some(CHUNK),
        stop_after: Some(NpuStage::Compile),
        ..NpuBuildOptions::new(x_elite().target.unwrap())
    };
    npu::build(source, output, &options, &laboratory, &mut |_| {}).unwrap().folder.join("compiled")
}

/// As a part of what logits differ by.
fn error(found: &[f32], expected: &[f32]) -> f32 {
    let mean = expected.iter().sum::<f32>() / expected.len() as f32;
    let square = |values: &mut dyn Iterator<Item = f32>| values.map(|value| value * value).sum::<f32>();
    let missed = square(&mut found.iter().zip(expected).map(|(found, expected)| found - expected));
    (missed / square(&mut expected.iter().map(|value| value - mean))).sqrt()
}

#[test]
fn every_architecture_runs_on_the_npu_as_a_whole() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/models");
    let tokens: Vec<u32> = serde_json::from_slice(&std::fs::read(fixtures.join("tokens.json")).unwrap()).unwrap();
    let (plugin, options) = (plugin(), x_elite());
    let on_npu = |path: &Path| runtime().npu_session(path, &plugin, &options);
    let mut said = Vec::new();
    for (source, precision) in
        MODELS.into_iter().map(|source| (source, Precision::W8a16)).chain([("gemma3-odd", Precision::Fp16)])
    {
        let home = tempfile::tempdir().unwrap();
        let folder = build(&fixtures.join(source), &home.path().join("model"), precision);
        let bundle = NpuBundle::read(&folder).unwrap();
        let mut npu = StaticDecoder::new(&runtime(), &folder, bundle, ONE_THREAD, &on_npu).unwrap();
        for graph in npu.placement() {
            let placement = graph.placement.unwrap();
            assert!(placement.total() > 0 && placement.nodes_on(QNN_PROVIDER) == placement.total(), "{source}");
            assert!(graph.compiled_nodes.unwrap() > 50, "{source}");
        }
        let name = source.strip_suffix(".gguf").unwrap_or(source);
        let bytes = std::fs::read(fixtures.join(format!("{name}.logits"))).unwrap();
        let logits: Vec<f32> = bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        let expected: Vec<_> = logits.chunks(logits.len() / tokens.len()).collect();
        let (prompt, answer) = tokens.split_at(2 * CHUNK + 3);
        let uncompiled = folder.with_file_name(if precision == Precision::Fp16 { "float" } else { "quantized" });
        let on_cpu = |path: &Path| runtime().cpu_session(path, ONE_THREAD);
        let bundle = NpuBundle::read(&uncompiled).unwrap();
        let mut cpu = StaticDecoder::new(&runtime(), &uncompiled, bundle, ONE_THREAD, &on_cpu).unwrap();
        let [mut from_cpu, mut errors] = [Vec::new(), Vec::new()];
        for part in [prompt].into_iter().chain(answer.chunks(1)) {
            npu.forward(part).unwrap();
            cpu.forward(part).unwrap();
            from_cpu.push(error(npu.logits(), cpu.logits()));
            errors.push(error(npu.logits(), expected[npu.position() - 1]));
        }
        from_cpu.sort_by(f32::total_cmp);
        errors.sort_by(f32::total_cmp);
        let (middle, last) = (errors.len() / 2, errors.len() - 1);
        said.push((source, precision, from_cpu[middle], from_cpu[last], errors[middle], errors[last]));
    }
    eprintln!("{said:?}");
    for (source, precision, middle, worst, middle_error, worst_error) in said {
        assert!(middle < 0.02 && worst < 0.1, "{source} {precision:?} and its graphs on the CPU: {middle} {worst}");
        assert!(middle_error < 0.05 && worst_error < 0.2, "{source} {precision:?}: {middle_error} {worst_error}");
    }
}

/// What a command writes that ends well, and says.
fn succeed(command: &mut Command) -> (Vec<u8>, String) {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {said}");
    (output.stdout, said)
}

/// Models that are sure of what they say pass the judgement, and say on the NPU what they say in float32.
#[test]
fn every_architecture_is_built_by_the_program_and_answers() {
    library();
    plugin();
    let [trained, _] = answers();
    for (name, expected) in trained {
        let folder = tempfile::tempdir().unwrap();
        let program = |arguments: &[&str]| succeed(ortalk(&home(), arguments).current_dir(folder.path()));
        let source = model(&name);
        let build = ["build", source.to_str().unwrap(), "-o"];
        let sizes = ["--context", "96", "--chunk", "16"];
        let (_, said) = program(&[&build[..], &["npu", "--target", "npu", "--soc", "x-elite"], &sizes].concat());
        assert!(said.contains("judge: quality beside float") && said.contains("limits: "), "{name}: {said}");
        program(&[&build[..], &["cpu", "--target", "cpu"]].concat());

        let text = ModelFolder::open(&folder.path().join("npu")).unwrap().tokenizer.decode(&expected.sure(0.25)[..4]);
        let run = ["run", "--emulate-npu", "--json", "--temperature", "0", "-n", "4", PROMPT];
        // Beside the CPU's model, and alone.
        for models in [&["--model", "cpu", "--npu-model", "npu", "--lane", "npu"][..], &["--model", "npu"]] {
            let (answer, _) = program(&[&run[..], models].concat());
            let answer: Value = serde_json::from_slice(&answer).unwrap();
            let (routing, npu) = (&answer["routing"], &answer["lanes"][0]);
            assert_eq!((&routing["lane"], &routing["emulated"]), (&"npu".into(), &true.into()), "{name}: {answer}");
            for graph in npu["placement"].as_array().unwrap() {
                let nodes = graph["nodes"].as_object().unwrap();
                assert_eq!(nodes.keys().collect::<Vec<_>>(), [QNN_PROVIDER], "{name}: {graph}");
            }
            assert_eq!(npu["placement"].as_array().unwrap().len(), 2, "{name}");
            assert_eq!(answer["text"], text.as_deref().unwrap(), "{name}: {answer}");
        }
    }
}
