//! Qwen3-0.6B's shape with two layers: every size of a layer is the real one, norms of single heads among them, and heads whose
//! size is not the hidden size's part. All of it must run on the NPU.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Output;

use ortalk::decoder::{Decoder, StaticDecoder};
use ortalk::model::NpuBundle;
use ortalk::onnx_runtime::{CpuSessionOptions, QNN_PROVIDER};
use serde_json::{Map, Value, json};

use crate::support::{home, library, ortalk, plugin, runtime, x_elite};

const LAYERS: usize = 2;
const HIDDEN: usize = 1024;
const FEED_FORWARD: usize = 3072;
const HEADS: usize = 16;
const KV_HEADS: usize = 8;
const HEAD_SIZE: usize = 128;

/// Whose tokenizer is taken: its vocabulary is small, which the layers do not see.
const TEXTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/models/qwen3-bf16");

/// Random numbers, the same every time (Marsaglia's xorshift, 2003).
struct Random(u64);

impl Random {
    /// From -1 to 1, as the bytes of a bf16.
    fn next(&mut self, scale: f32) -> [u8; 2] {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let value = (self.0 >> 40) as f32 / (1 << 23) as f32 - 1.0;
        ((value * scale).to_bits().wrapping_shr(16) as u16).to_le_bytes()
    }
}

/// Names and shapes of a layer's tensors.
fn layer(index: usize) -> Vec<(String, Vec<usize>)> {
    let (query, kv) = (HEADS * HEAD_SIZE, KV_HEADS * HEAD_SIZE);
    let tensors: [(&str, &[usize]); 11] = [
        ("input_layernorm", &[HIDDEN]),
        ("self_attn.q_proj", &[query, HIDDEN]),
        ("self_attn.k_proj", &[kv, HIDDEN]),
        ("self_attn.v_proj", &[kv, HIDDEN]),
        ("self_attn.q_norm", &[HEAD_SIZE]),
        ("self_attn.k_norm", &[HEAD_SIZE]),
        ("self_attn.o_proj", &[HIDDEN, query]),
        ("post_attention_layernorm", &[HIDDEN]),
        ("mlp.gate_proj", &[FEED_FORWARD, HIDDEN]),
        ("mlp.up_proj", &[FEED_FORWARD, HIDDEN]),
        ("mlp.down_proj", &[HIDDEN, FEED_FORWARD]),
    ];
    tensors.map(|(name, shape)| (format!("model.layers.{index}.{name}.weight"), shape.to_vec())).to_vec()
}

/// A file of tensors in bf16; vectors are around 1.
fn write_shard(path: &Path, tensors: &[(String, Vec<usize>)], random: &mut Random) {
    let (mut header, mut end) = (Map::new(), 0);
    for (name, shape) in tensors {
        let start = end;
        end += 2 * shape.iter().product::<usize>();
        header.insert(name.clone(), json!({"dtype": "BF16", "shape": shape, "data_offsets": [start, end]}));
    }
    let header = Value::Object(header).to_string();
    let mut file = BufWriter::new(File::create(path).unwrap());
    file.write_all(&(header.len() as u64).to_le_bytes()).unwrap();
    file.write_all(header.as_bytes()).unwrap();
    for (_, shape) in tensors {
        let count = shape.iter().product();
        let scale = (3.0 / shape[shape.len() - 1] as f32).sqrt();
        for _ in 0..count {
            let value = if shape.len() == 1 { 0x3f80_u16.to_le_bytes() } else { random.next(scale) };
            file.write_all(&value).unwrap();
        }
    }
    file.flush().unwrap();
}

/// A checkpoint in a file for each layer.
fn write_checkpoint(folder: &Path) {
    fs::create_dir(folder).unwrap();
    for name in ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"] {
        fs::copy(Path::new(TEXTS).join(name), folder.join(name)).unwrap();
    }
    let mut config: Value = serde_json::from_slice(&fs::read(Path::new(TEXTS).join("config.json")).unwrap()).unwrap();
    for (key, value) in [
        ("hidden_size", HIDDEN),
        ("intermediate_size", FEED_FORWARD),
        ("num_hidden_layers", LAYERS),
        ("num_attention_heads", HEADS),
        ("num_key_value_heads", KV_HEADS),
        ("head_dim", HEAD_SIZE),
        ("max_position_embeddings", 40_960),
    ] {
        config[key] = json!(value);
    }
    fs::write(folder.join("config.json"), config.to_string()).unwrap();
    let vocabulary = config["vocab_size"].as_u64().unwrap() as usize;
    let ends = [("embed_tokens", vec![vocabulary, HIDDEN]), ("norm", vec![HIDDEN])];
    let ends = ends.map(|(name, shape)| (format!("model.{name}.weight"), shape));
    let (mut random, mut places) = (Random(1), Map::new());
    for (index, tensors) in (0..LAYERS).map(layer).chain([ends.to_vec()]).enumerate() {
        let file = format!("model-{:05}-of-{:05}.safetensors", index + 1, LAYERS + 1);
        write_shard(&folder.join(&file), &tensors, &mut random);
        places.extend(tensors.into_iter().map(|(name, _)| (name, Value::from(file.clone()))));
    }
    fs::write(folder.join("model.safetensors.index.json"), json!({"weight_map": places}).to_string()).unwrap();
}

/// Random weights' predictions are too close to each other for the limits of quality, so it ends before the judgement.
#[test]
fn every_node_runs_on_the_npu() {
    library();
    plugin();
    let folder = tempfile::tempdir().unwrap();
    write_checkpoint(&folder.path().join("checkpoint"));
    let arguments = ["build", "checkpoint", "--output", "out", "--target", "npu", "--soc", "x-elite"];
    let build = [&arguments[..], &["--stop-after", "compile", "--context", "128", "--chunk", "32"]].concat();
    let Output { status, stderr, .. } = ortalk(&home(), &build).current_dir(folder.path()).output().unwrap();
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));

    let compiled = folder.path().join(".out.work/compiled");
    let bundle = NpuBundle::read(&compiled).unwrap();
    let nodes = bundle.compiled_nodes.unwrap();
    assert!(nodes.prefill > 50 * LAYERS && nodes.decode > 40 * LAYERS, "{nodes:?}");
    let (plugin, options) = (plugin(), x_elite());
    let on_npu = |path: &Path| runtime().npu_session(path, &plugin, &options);
    let ends = CpuSessionOptions { threads: 1, spinning: false };
    let mut npu = StaticDecoder::new(&runtime(), &compiled, bundle, ends, &on_npu).unwrap();
    for graph in npu.placement() {
        let placement = graph.placement.as_ref().unwrap();
        assert_eq!(placement.nodes_on(QNN_PROVIDER), placement.total(), "{}", graph.graph);
        let (on, total) = graph.nodes(QNN_PROVIDER).unwrap();
        assert_eq!(on, total);
    }
    npu.forward(&[1, 5, 6]).unwrap();
    npu.forward(&[7]).unwrap();
    assert!(npu.logits().iter().all(|logit| logit.is_finite()));
}
