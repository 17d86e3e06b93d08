//! Builds whole folders from tiny models and reads them back: the graph's shape, every file, every refusal. What the
//! matrices hold is `numerics`' business.

mod numerics;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::PathBuf;

use pretty_assertions::assert_eq;
use prost::Message;
use serde_json::Value;

use super::blocks::TensorType;
use super::testing::{GgufWriter, Tiny, array, boolean, f32_value, text, tiny_llama, tiny_tokens, u32_value};
use super::*;
use crate::onnx_file::{DataType, Dimension, ModelProto, NodeProto, TensorProto};

const PRECISIONS: [CpuPrecision; 5] = [
    CpuPrecision::Int4(FourBits { block: 32, symmetric: false }),
    CpuPrecision::Int4(FourBits { block: 128, symmetric: true }),
    CpuPrecision::Int8,
    CpuPrecision::Fp16,
    CpuPrecision::Fp32,
];

struct Built {
    #[expect(dead_code, reason = "keeps the folder until the test ends")]
    home: tempfile::TempDir,
    folder: PathBuf,
    report: BuildReport,
    model: ModelProto,
    data: Vec<u8>,
}

fn try_build(file: &GgufWriter) -> (tempfile::TempDir, PathBuf, Result<BuildReport, BuildError>) {
    try_build_in(file, CpuPrecision::default())
}

fn try_build_in(
    file: &GgufWriter,
    precision: CpuPrecision,
) -> (tempfile::TempDir, PathBuf, Result<BuildReport, BuildError>) {
    let home = tempfile::tempdir().unwrap();
    let source = home.path().join("tiny.gguf");
    fs::write(&source, file.bytes()).unwrap();
    let folder = home.path().join("deep/er/model");
    let result = build(&source, &folder, &BuildOptions { precision, ..BuildOptions::default() }, &mut |_| {});
    (home, folder, result)
}

fn built(file: &GgufWriter) -> Built {
    built_in(file, CpuPrecision::default())
}

fn built_in(file: &GgufWriter, precision: CpuPrecision) -> Built {
    let (home, folder, result) = try_build_in(file, precision);
    let report = result.unwrap();
    let model = ModelProto::decode(fs::read(folder.join(MODEL_FILE)).unwrap().as_slice()).unwrap();
    let data = fs::read(folder.join(DATA_FILE)).unwrap();
    Built { home, folder, report, model, data }
}

/// Of tensor types and precisions.
fn every_combination() -> impl Iterator<Item = (TensorType, CpuPrecision)> {
    TensorType::ALL.into_iter().flat_map(|kind| PRECISIONS.map(|precision| (kind, precision)))
}

fn message(file: &GgufWriter) -> String {
    let (home, folder, result) = try_build(file);
    let error = result.unwrap_err();
    let left = fs::read_dir(folder.parent().unwrap()).map_or(0, Iterator::count);
    assert_eq!(left, 0, "nothing is left at the folder's place or beside it");
    let message = error.to_string();
    assert!(message.contains(&home.path().join("tiny.gguf").display().to_string()), "{message}");
    message
}

impl Built {
    fn graph(&self) -> &crate::onnx_file::GraphProto {
        self.model.graph.as_ref().unwrap()
    }

    fn json(&self, name: &str) -> Value {
        serde_json::from_str(&fs::read_to_string(self.folder.join(name)).unwrap()).unwrap()
    }

    fn initializer(&self, name: &str) -> &TensorProto {
        let found = self.graph().initializer.iter().find(|tensor| tensor.name.as_deref() == Some(name));
        found.unwrap_or_else(|| panic!("no initializer {name}"))
    }

    fn bytes(&self, name: &str) -> &[u8] {
        let tensor = self.initializer(name);
        let (offset, length) = region(tensor);
        &self.data[offset..offset + length]
    }

    fn floats(&self, name: &str) -> Vec<f32> {
        self.bytes(name).as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
    }

    /// Of an initializer inside the model file.
    fn integers(&self, name: &str) -> Vec<i64> {
        let bytes = self.initializer(name).raw_data.as_ref().unwrap();
        bytes.as_chunks::<8>().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect()
    }

    fn node(&self, output: &str) -> &NodeProto {
        self.graph().node.iter().find(|node| node.output.iter().any(|name| name == output)).unwrap()
    }
}

fn region(tensor: &TensorProto) -> (usize, usize) {
    let entry = |key: &str| {
        let found = tensor.external_data.iter().find(|entry| entry.key.as_deref() == Some(key)).unwrap();
        found.value.clone().unwrap()
    };
    assert_eq!(entry("location"), DATA_FILE);
    (entry("offset").parse().unwrap(), entry("length").parse().unwrap())
}

#[test]
fn the_graph_is_complete_and_in_order() {
    for (kind, precision) in every_combination() {
        let mut file = tiny_llama(kind);
        file.floats("blk.0.attn_v.bias", &vec![0.5; 2 * Tiny::of(kind).hidden as usize / 4]);
        let built = built_in(&file, precision);
        let graph = built.graph();
        assert_eq!(graph.node.len(), built.report.nodes);
        let names =
            |tensors: &[TensorProto]| tensors.iter().filter_map(|tensor| tensor.name.clone()).collect::<Vec<_>>();
        let initializers = names(&graph.initializer);
        let mut known: HashSet<String> = initializers.iter().cloned().collect();
        assert_eq!(known.len(), initializers.len(), "{kind}: names of initializers differ");
        known.extend(graph.input.iter().filter_map(|input| input.name.clone()));
        let mut used = HashSet::new();
        for node in &graph.node {
            for name in node.input.iter().filter(|name| !name.is_empty()) {
                assert!(known.contains(name), "{kind}: {:?} reads {name}, which nothing made", node.op_type);
                used.insert(name.clone());
            }
            for name in node.output.iter().filter(|name| !name.is_empty()) {
                assert!(known.insert(name.clone()), "{kind}: {name} is made twice");
            }
        }
        assert!(initializers.iter().all(|name| used.contains(name)), "{kind}: every initializer is used");
        let outputs: Vec<_> = graph.output.iter().filter_map(|output| output.name.clone()).collect();
        assert_eq!(outputs, ["logits", "present.0.key", "present.0.value", "present.1.key", "present.1.value"]);
        assert!(outputs.iter().all(|name| known.contains(name)));
    }
}

#[test]
fn regions_of_the_data_file_fit_and_do_not_overlap() {
    for (kind, precision) in every_combination() {
        let built = built_in(&tiny_llama(kind), precision);
        let mut regions = HashSet::new();
        for tensor in built.graph().initializer.iter().filter(|tensor| !tensor.external_data.is_empty()) {
            let (offset, length) = region(tensor);
            let size = match DataType::try_from(tensor.data_type.unwrap()).unwrap() {
                DataType::Float => 4,
                DataType::Float16 => 2,
                _ => 1,
            };
            assert_eq!(length as i64, tensor.dims.iter().product::<i64>() * size, "{kind} {:?}", tensor.name);
            assert!(offset + length <= built.data.len(), "{kind} {:?}", tensor.name);
            assert_eq!(offset % if length >= 4096 { 4096 } else { 64 }, 0);
            regions.insert((offset, length));
        }
        let mut regions: Vec<_> = regions.into_iter().collect();
        regions.sort_unstable();
        assert!(regions.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "{kind}: {regions:?}");
        // The embedding and the output projection are one matrix.
        if matches!(precision, CpuPrecision::Fp16 | CpuPrecision::Fp32) {
            continue;
        }
        let same = |left: &str, right: &str| region(built.initializer(left)) == region(built.initializer(right));
        assert!(same("embedding.scales", "head.scales"));
    }
}

#[test]
fn inputs_and_outputs_are_those_of_genai() {
    let built = built(&tiny_llama(TensorType::Q4_1));
    let shapes = |values: &[crate::onnx_file::ValueInfoProto]| -> HashMap<String, (i32, String)> {
        let shape = |value: &crate::onnx_file::ValueInfoProto| {
            let tensor = value.r#type.clone().unwrap().tensor_type.unwrap();
            let dims = tensor.shape.unwrap().dim.into_iter().map(|dim| match dim.value.unwrap() {
                Dimension::Value(value) => value.to_string(),
                Dimension::Parameter(name) => name,
            });
            (value.name.clone().unwrap(), (tensor.elem_type.unwrap(), dims.collect::<Vec<_>>().join(" ")))
        };
        values.iter().map(shape).collect()
    };
    let inputs = shapes(&built.graph().input);
    assert_eq!(inputs["input_ids"], (7, "batch sequence".to_owned()));
    assert_eq!(inputs["attention_mask"], (7, "batch total".to_owned()));
    assert_eq!(inputs["past_key_values.1.value"], (1, "batch 2 past 16".to_owned()));
    assert_eq!(inputs["logits_index"], (7, "positions".to_owned()));
    assert_eq!(inputs.len(), 7);
    let outputs = shapes(&built.graph().output);
    assert_eq!(outputs["logits"], (1, format!("batch 1 {}", tiny_tokens().len())));
    assert_eq!(outputs["present.0.key"], (1, "batch 2 total 16".to_owned()));
    // The default of the input that genai does not know: the last position.
    let default = built.initializer("logits_index");
    assert_eq!((default.dims.as_slice(), default.raw_data.as_deref().unwrap()), ([1].as_slice(), &[0xff; 8][..]));
    // Rotary tables cover the whole context.
    assert_eq!(built.initializer("cos_cache").dims, [512, 8]);
    let cosines = built.floats("cos_cache");
    assert_eq!(cosines[..8], [1.0; 8]);
    // Position 3, pair 2: 3 * 10000^(-4/16).
    assert!((cosines[3 * 8 + 2] - (3.0f32 * 0.1).cos()).abs() < 1e-6);
    assert!((built.floats("sin_cache")[511 * 8] - 511f64.sin() as f32).abs() < 1e-6);
}

#[test]
fn configuration_is_in_genai_s_words() {
    let built = built(&tiny_llama(TensorType::Q8_0));
    let config = built.json("genai_config.json");
    assert_eq!(config["model"]["type"], "llama");
    assert_eq!(config["model"]["context_length"], 512);
    assert_eq!(config["model"]["bos_token_id"], 1);
    // The file names <|im_end|> only; <|endoftext|> ends an answer, too.
    assert_eq!(config["model"]["eos_token_id"], serde_json::json!([2, 0]));
    assert_eq!(config["model"]["pad_token_id"], 2);
    assert_eq!(config["model"]["decoder"]["head_size"], 16);
    assert_eq!(config["model"]["decoder"]["num_key_value_heads"], 2);
    assert_eq!(config["search"]["past_present_share_buffer"], true);
    assert_eq!(config["search"]["temperature"].to_string(), "0.7");
    assert_eq!(fs::read_to_string(built.folder.join("chat_template.jinja")).unwrap(), "{{ messages[0]['content'] }}");
    let origin = built.json(BUILD_FILE);
    assert_eq!(origin["source"]["file"], "tiny.gguf");
    assert_eq!((&origin["name"], &origin["tensor_types"]["Q8_0"]), (&"tiny".into(), &15.into()));
    assert_eq!(origin["recipe"], "cpu-int8");
    assert_eq!(built.report.parameters, origin["parameters"]);
    assert_eq!(built.report.architecture, "llama");
    let length = |name| fs::metadata(built.folder.join(name)).unwrap().len();
    assert_eq!(built.report.bytes, length(MODEL_FILE) + length(DATA_FILE));
}

#[test]
fn the_file_s_own_sampling_is_taken_over() {
    let mut file = tiny_llama(TensorType::Q8_0);
    file.key("general.sampling.temp", f32_value(0.25)).key("general.sampling.top_k", u32_value(7));
    let search = built(&file).json("genai_config.json")["search"].clone();
    assert_eq!((search["temperature"].to_string(), search["top_k"].to_string()), ("0.25".to_owned(), "7".to_owned()));
    assert_eq!(search["top_p"].to_string(), "0.9");
}

#[test]
fn biases_follow_their_rows() {
    let mut file = tiny_llama(TensorType::Q4_0);
    let bias: Vec<f32> = (0..64).map(|row| row as f32).collect();
    file.floats("blk.1.attn_q.bias", &bias).floats("blk.1.attn_v.bias", &[5.0; 32]);
    let built = built(&file);
    assert_eq!(built.node("layers.1.qkv").input[5], "layers.1.qkv.bias");
    let found = built.floats("layers.1.qkv.bias");
    assert_eq!(found[..16], [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 1.0, 3.0, 5.0, 7.0, 9.0, 11.0, 13.0, 15.0]);
    assert_eq!((&found[64..96], &found[96..]), ([0.0; 32].as_slice(), [5.0; 32].as_slice()));
    assert_eq!(built.node("layers.0.qkv").input.len(), 3);
}

#[test]
fn rotary_factors_are_honoured() {
    let mut file = tiny_llama(TensorType::Q8_0);
    let angle = |file: &GgufWriter, pair: usize| built(file).floats("sin_cache")[8 + pair].asin();
    file.floats("rope_freqs.weight", &[1.0, 2.0, 4.0, 8.0, 8.0, 8.0, 8.0, 8.0]);
    let plain = |pair: f32| 10_000f32.powf(-pair / 8.0);
    assert!((angle(&file, 2) / (plain(2.0) / 4.0) - 1.0).abs() < 1e-5);
    file.without_tensor("rope_freqs.weight").key("llama.rope.scaling.factor", f32_value(2.0));
    assert!((angle(&file, 1) / (plain(1.0) / 2.0) - 1.0).abs() < 1e-5);
    file.key("llama.rope.scaling.type", text("dynamic"));
    assert!(message(&file).contains("key \"llama.rope.scaling.type\" is \"dynamic\", expected \"none\", \"linear\", "));
}

#[test]
fn what_cannot_be_built_is_said() {
    let with = |change: &dyn Fn(&mut GgufWriter) -> &mut GgufWriter| {
        let mut file = tiny_llama(TensorType::Q4_1);
        change(&mut file);
        message(&file)
    };
    let key = |name: &str, value: u32| with(&|file| file.key(name, u32_value(value)));
    for (message, expected) in [
        (
            with(&|file| file.key("general.architecture", text("mamba"))),
            "key \"general.architecture\" is \"mamba\", expected one of those that can be built: llama, qwen2, qwen3, gemma3, phi3",
        ),
        (with(&|file| file.without_key("llama.block_count")), "key \"llama.block_count\" is missing"),
        (key("llama.block_count", 3), "tensor \"blk.2.attn_q.weight\" is missing"),
        (key("split.count", 3), "key \"split.count\" is 3, expected 1: this is part 1; join the parts"),
        (with(&|file| file.without_tensor("output_norm.weight")), "tensor \"output_norm.weight\" is missing"),
        (key("llama.block_count", 1), "(with 8 others) has no place in the architecture \"llama\""),
        (key("llama.block_count", 0), "key \"llama.block_count\" is 0, expected 1 to 16777216"),
        (key("llama.context_length", u32::MAX), "key \"llama.context_length\" is 4294967295, expected 1 to 1048576"),
        (key("llama.attention.head_count_kv", 3), "head_count_kv\" is 3, expected a divisor of the 4 heads"),
        (key("llama.attention.head_count", 5), "head_count_kv\" is 2, expected a divisor of the 5 heads"),
        (key("llama.attention.key_length", 8), "key_length\" is 8, expected a multiple of 16, at most 1024"),
        (key("llama.rope.dimension_count", 8), "is 8 values of each head, expected a multiple of 16, at most 16"),
        (
            with(&|file| {
                file.key("llama.attention.sliding_window_pattern", array(7, [boolean(true)]))
                    .key("llama.attention.sliding_window", u32_value(100))
            }),
            "sliding_window_pattern\" is a list of 1, expected a period, or one value for each of the 2 layers",
        ),
        (key("llama.expert_count", 8), "mixtures of experts are not supported"),
        (key("llama.feed_forward_length", 128), "\"blk.0.ffn_gate.weight\" has the shape [64, 96], expected [64, 128]"),
        (with(&|file| file.floats("blk.0.attn_q.scale", &[1.0])), "tensor \"blk.0.attn_q.scale\" has no place"),
        (
            with(&|file| file.floats("output_norm.weight", &[f32::NAN; 64])),
            "\"output_norm.weight\" holds a value that is not finite",
        ),
        (
            with(&|file| file.key("tokenizer.ggml.model", text("rwkv"))),
            "tokenizer.ggml.model is \"rwkv\", which is not known",
        ),
        (
            with(&|file| file.key("tokenizer.ggml.pre", text("klingon"))),
            "tokenizer.ggml.pre is \"klingon\", which is not known; known are: default, llama-bpe",
        ),
        (
            with(&|file| file.key("tokenizer.ggml.merges", array(8, [text("hell")]))),
            "merge 0 of the vocabulary is \"hell\": expected two tokens",
        ),
        (with(&|file| file.key("tokenizer.ggml.merges", array(8, [text("x y")]))), "\"xy\" is not in the vocabulary"),
        (
            with(&|file| file.key("tokenizer.ggml.tokens", array(8, ["a", "a"].map(text)))),
            "expected one for each of the 2 tokens",
        ),
        (key("tokenizer.ggml.eos_token_id", 9999), "eos_token_id\" is 9999, expected a token's number"),
    ] {
        assert!(message.contains(expected), "{message}\nshould contain\n{expected}");
    }
}

#[test]
fn a_folder_that_holds_something_is_left_alone() {
    let home = tempfile::tempdir().unwrap();
    let source = home.path().join("tiny.gguf");
    fs::write(&source, tiny_llama(TensorType::Q8_0).bytes()).unwrap();
    let build_at = |output: &Path| build(&source, output, &BuildOptions::default(), &mut |_| {});
    let taken = home.path().join("taken");
    fs::create_dir(&taken).unwrap();
    build_at(&taken).unwrap();
    let before = fs::read(taken.join("genai_config.json")).unwrap();
    assert!(build_at(&taken).unwrap_err().to_string().contains("is not an empty folder"));
    assert_eq!(fs::read(taken.join("genai_config.json")).unwrap(), before);
    assert!(build_at(&source).unwrap_err().to_string().contains("is not an empty folder"));
    assert!(matches!(build_at(Path::new("/")), Err(BuildError::OutputExists { .. } | BuildError::Write { .. })));
    let missing = build(&home.path().join("no.gguf"), &home.path().join("x"), &BuildOptions::default(), &mut |_| {});
    assert!(missing.unwrap_err().to_string().starts_with("cannot read "));
    let folder = build(home.path(), &home.path().join("x"), &BuildOptions::default(), &mut |_| {});
    assert!(folder.unwrap_err().to_string().contains("is a folder without config.json; give a GGUF file"));
    assert!(!home.path().join("x").exists());
}

#[test]
fn progress_runs_through_all_stages() {
    let home = tempfile::tempdir().unwrap();
    let source = home.path().join("tiny.gguf");
    fs::write(&source, tiny_llama(TensorType::Q4_1).bytes()).unwrap();
    let mut heard: Vec<BuildProgress> = Vec::new();
    build(&source, &home.path().join("out"), &BuildOptions::default(), &mut |progress| heard.push(progress)).unwrap();
    let mut stages: Vec<BuildStage> = heard.iter().map(|progress| progress.stage).collect();
    stages.dedup();
    assert_eq!(stages, [BuildStage::Reading, BuildStage::Weights, BuildStage::Graph, BuildStage::Tokenizer]);
    for stage in stages {
        let fractions: Vec<f32> = heard.iter().filter(|p| p.stage == stage).map(|p| p.fraction).collect();
        assert!(fractions.is_sorted() && fractions.last() == Some(&1.0), "{stage:?}: {fractions:?}");
    }
}
