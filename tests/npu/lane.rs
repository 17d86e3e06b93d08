//! The NPU lane as the chat has it: a compiled bundle, in a process of its own, on the simulator.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ortalk::decoder::{ChildDecoder, ChildOptions, Deadlines, DecodeError, Decoder, LaneProvider, LaneRequest};
use ortalk::model::{NPU_FILE, NpuBundle};
use ortalk::onnx_runtime::{CompileRequest, QNN_PROVIDER, QnnPlugin, compile_in_child};

use super::bundle::{CHUNK, CONTEXT, quantized};
use super::support::{library, plugin, x_elite};

const EXECUTABLE: &str = env!("CARGO_BIN_EXE_ortalk");

/// Compiles the two graphs of the bundle in a folder and has it name the results.
fn compile(folder: &Path) {
    let mut bundle = NpuBundle::read(folder).unwrap();
    for file in [&mut bundle.files.prefill, &mut bundle.files.decode] {
        let compiled = format!("compiled_{file}");
        let request = CompileRequest {
            library: library().into(),
            plugin: plugin(),
            model: folder.join(&*file),
            output: folder.join(&compiled),
            options: x_elite(),
        };
        let limit = Duration::from_secs(120);
        compile_in_child(Path::new(EXECUTABLE), &request, limit, &mut |_| ControlFlow::Continue(())).unwrap();
        *file = compiled;
    }
    std::fs::write(folder.join(NPU_FILE), serde_json::to_vec(&bundle).unwrap()).unwrap();
}

fn open(folder: &Path, plugin: QnnPlugin) -> Result<ChildDecoder, DecodeError> {
    let provider = LaneProvider::Qnn { plugin, options: x_elite() };
    let request = LaneRequest { folder: folder.into(), library: library().into(), provider, threads: 1 };
    let deadlines = Deadlines::default();
    ChildDecoder::open(request, ChildOptions { executable: EXECUTABLE.into(), log: Arc::new(|_| ()), deadlines })
}

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

#[test]
fn a_compiled_bundle_answers_as_its_graphs_on_the_cpu() {
    let built = quantized();
    let mut cpu = built.decoder();
    compile(&built.folder);
    let mut npu = open(&built.folder, plugin()).unwrap();
    let ready = npu.ready();
    assert_eq!(ready.provider, QNN_PROVIDER);
    assert!(ready.emulated && ready.device.as_ref().unwrap().contains("simulator"), "{ready:?}");
    assert_eq!(ready.placement.len(), 2);
    for graph in &ready.placement {
        let placement = graph.placement.as_ref().unwrap();
        assert!(placement.total() > 0 && placement.nodes_on(QNN_PROVIDER) == placement.total(), "{graph:?}");
    }
    let tokens = built.tokens(CONTEXT);
    let (prompt, answer) = tokens.split_at(2 * CHUNK + 3);
    let mut compare = |tokens: &[u32]| {
        cpu.forward(tokens).unwrap();
        npu.forward(tokens).unwrap();
        let cosine = cosine(cpu.logits(), npu.logits());
        assert!(cosine > 0.999, "{cosine} at {}", npu.position());
    };
    compare(prompt);
    answer.iter().for_each(|token| compare(&[*token]));
}

#[test]
fn a_backend_that_is_not_there_is_named() {
    let built = quantized();
    let backend = built.folder.join("libQnnHtp.so");
    let error = open(&built.folder, QnnPlugin { backend: backend.clone(), ..plugin() }).err().unwrap().to_string();
    assert!(error.contains("backend") && error.contains(backend.to_str().unwrap()), "{error}");
}

/// A pipeline as WinML CLI writes it, with its attention on the NPU, which QNN leaves to the CPU unless it is told.
#[test]
fn a_pipeline_s_cache_is_updated_in_place() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/pipelines");
    let expected: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.join("expected.json")).unwrap()).unwrap();
    let tokens: Vec<u32> = serde_json::from_value(expected["tokens"].clone()).unwrap();
    let logits: Vec<Vec<f32>> = serde_json::from_value(expected["logits"].clone()).unwrap();
    let home = tempfile::tempdir().unwrap();
    let affinity = home.path().join("affinity.json");
    std::fs::write(&affinity, r#"{"op_type": {"GroupQueryAttention": "htp"}}"#).unwrap();
    let open = |told: serde_json::Value| {
        let mut options = x_elite();
        options.provider = serde_json::from_value(told).unwrap();
        let provider = LaneProvider::Qnn { plugin: plugin(), options };
        let (folder, library) = (folder.join("float16"), library().into());
        let request = LaneRequest { folder, library, provider, threads: 1 };
        let deadlines = Deadlines::default();
        ChildDecoder::open(request, ChildOptions { executable: EXECUTABLE.into(), log: Arc::new(|_| ()), deadlines })
    };
    let error = open(serde_json::json!({})).err().unwrap().to_string();
    assert!(error.contains("(GroupQueryAttention) on CPUExecutionProvider"), "{error}");

    let mut npu = open(serde_json::json!({"op_affinity": affinity})).unwrap();
    for (start, end) in [(0, 11), (11, 12), (12, 13), (13, 20), (5, 16), (16, 17)] {
        npu.rewind(start);
        npu.forward(&tokens[start..end]).unwrap();
        let cosine = cosine(npu.logits(), &logits[end - 1]);
        assert!(cosine > 0.999, "{cosine} for {start}..{end}");
    }
}
