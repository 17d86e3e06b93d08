//! `ortalk build --target npu` on the first layers of the default model: the whole way from the GGUF file to context
//! binaries that run, and what it says on the way.

use std::fs;
use std::path::Path;
use std::process::Output;

use ortalk::builder::{self, BuildOptions};
use ortalk::decoder::{Decoder, DecoderOptions, PlainDecoder, StaticDecoder};
use ortalk::model::{ModelFolder, NpuBundle, TemplateMessage};
use ortalk::onnx_runtime::{CpuSessionOptions, QNN_PROVIDER};

use crate::support::{plugin, runtime, x_elite};
use crate::two_layers::{LAYERS, build, built, two_layers, write_source};

const CPU: CpuSessionOptions = CpuSessionOptions { threads: 2, spinning: false };

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |x: &[f32], y: &[f32]| x.iter().zip(y).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

/// The tokens of a short conversation.
fn tokens(folder: &Path) -> Vec<u32> {
    let model = ModelFolder::open(folder).unwrap();
    let message = TemplateMessage { role: "user", content: "Name three rivers, and say how long each of them is." };
    model.tokenizer.encode(&model.template.render(&[message], true).unwrap()).unwrap()
}

/// Logits after each token, the last four of which go through the decode graph.
fn logits(decoder: &mut StaticDecoder, tokens: &[u32]) -> Vec<f32> {
    let (prompt, rest) = tokens.split_at(tokens.len() - 4);
    let mut logits = decoder.forward_all(prompt).unwrap().to_vec();
    for token in rest.chunks(1) {
        logits.extend(decoder.forward_all(token).unwrap());
    }
    logits
}

#[test]
fn a_model_becomes_a_bundle_that_runs_on_the_npu() {
    let two_layers = two_layers();
    // Stopped, and gone on with.
    let [stopped, said] = &two_layers.said;
    assert!(stopped.contains("export: float graphs") && !stopped.contains("calibrate"), "{stopped}");
    for line in said.lines().filter(|line| line.contains(" MB")) {
        assert_eq!(line.starts_with("export"), line.ends_with("done before"), "{said}");
    }
    assert!(said.contains("limits: ") && said.contains("kept"), "{said}");

    let out = &two_layers.bundle;
    let bundle = NpuBundle::read(out).unwrap();
    assert_eq!((bundle.layers, bundle.context, bundle.chunk), (LAYERS as usize, 512, 64));
    let origin: serde_json::Value = serde_json::from_slice(&fs::read(out.join("ortalk_build.json")).unwrap()).unwrap();
    assert_eq!(origin["stages"].as_array().unwrap().len(), 5);
    assert!(origin["quality"]["columns"][0]["quality"]["positions"].as_u64().unwrap() >= 700);
    for (name, bytes) in origin["files"].as_object().unwrap() {
        assert_eq!(fs::metadata(out.join(name)).unwrap().len(), bytes.as_u64().unwrap(), "{name}");
    }

    // The float graphs compute what the CPU target does, but for its 8-bit activations.
    let float = two_layers.work.join("float");
    let tokens = tokens(out);
    let on_cpu = |path: &Path| runtime().cpu_session(path, CPU);
    let mut float = StaticDecoder::new(&runtime(), &float, NpuBundle::read(&float).unwrap(), CPU, &on_cpu).unwrap();
    let float = logits(&mut float, &tokens);
    let folder = tempfile::tempdir().unwrap();
    let for_cpu = folder.path().join("cpu");
    builder::build(&two_layers.source, &for_cpu, &BuildOptions::default(), &mut |_| {}).unwrap();
    let model = ModelFolder::open(&for_cpu).unwrap();
    let options = DecoderOptions { session: CPU, context: 512 };
    let mut cpu = PlainDecoder::new(&runtime(), &model, options).unwrap();
    let cpu = cpu.forward_all(&tokens).unwrap();
    assert_eq!(cpu.len(), float.len());
    for (position, (a, b)) in cpu.chunks(bundle.vocabulary).zip(float.chunks(bundle.vocabulary)).enumerate() {
        assert!(cosine(a, b) > 0.9995, "position {position}: {}", cosine(a, b));
    }

    // On the NPU, as a whole, and close to float.
    let (plugin, options) = (plugin(), x_elite());
    let on_npu = |path: &Path| runtime().npu_session(path, &plugin, &options);
    let vocabulary = bundle.vocabulary;
    let mut npu = StaticDecoder::new(&runtime(), out, bundle, CPU, &on_npu).unwrap();
    for graph in npu.placement() {
        let placement = graph.placement.unwrap();
        assert_eq!(placement.nodes_on(QNN_PROVIDER), placement.total(), "{}", graph.graph);
    }
    let found = logits(&mut npu, &tokens);
    // The first token's own logits are no measure: its keys and values are constants.
    for (position, (a, b)) in found.chunks(vocabulary).zip(float.chunks(vocabulary)).enumerate().skip(1) {
        assert!(cosine(a, b) > 0.999, "position {position}: {}", cosine(a, b));
    }
    assert_eq!(npu.position(), tokens.len());
}

#[test]
fn without_quantization_there_is_nothing_to_judge() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path();
    write_source(folder);
    let said = built(folder, &["--output", "out", "--precision", "fp16", "--context", "96", "--chunk", "16"]);
    assert!(!said.contains("calibrate") && !said.contains("judge"), "{said}");
    assert!(!folder.join(".out.work").exists(), "intermediate files go");
    let out = folder.join("out");
    let bundle = NpuBundle::read(&out).unwrap();
    assert_eq!((bundle.context, bundle.chunk, &bundle.quantization), (96, 16, &None));
    let (plugin, options) = (plugin(), x_elite());
    let on_npu = |path: &Path| runtime().npu_session(path, &plugin, &options);
    let mut npu = StaticDecoder::new(&runtime(), &out, bundle, CPU, &on_npu).unwrap();
    let tokens = tokens(&out);
    npu.forward(&tokens).unwrap();
    assert!(npu.logits().iter().all(|logit| logit.is_finite()));
}

#[test]
fn what_cannot_be_built_says_why_and_leaves_nothing() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path();
    write_source(folder);
    for (arguments, expected) in [
        (&["--context", "10000"][..], "--context is 10000; expected 2 to 8192"),
        (&["--chunk", "600"], "--chunk is 600; expected 2 to 512, the context"),
        (&["--chunk", "1"], "--chunk is 1; expected 2 to 512"),
    ] {
        let Output { status, stderr, .. } = build(folder, &[&["--output", "out"], arguments].concat());
        let text = String::from_utf8_lossy(&stderr);
        assert!(!status.success() && text.contains(expected), "{text}");
    }
    let names: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["two-layers.gguf"]);
}
