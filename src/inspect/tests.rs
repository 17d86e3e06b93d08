use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::builder::TensorType;
use crate::builder::testing::{Encoded, text, tiny_llama, u32_value};
use crate::builder::{self, BuildOptions};

fn written(name: &str, bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    (dir, path)
}

fn gguf_with(key: &str, value: Encoded) -> Inspection {
    let (_dir, path) = written("tiny.gguf", &tiny_llama(TensorType::Q8_0).key(key, value).bytes());
    inspect(&path).unwrap()
}

#[test]
fn a_gguf_file() {
    let found = gguf_with("general.name", text("Tiny"));
    insta::assert_snapshot!("gguf", found);
    insta::assert_snapshot!("gguf_json", serde_json::to_string_pretty(&found).unwrap());
}

#[test]
fn what_stands_in_the_way_is_said() {
    let cases = [
        (("general.architecture", text("mamba")), "\"mamba\""),
        (("llama.expert_count", u32_value(8)), "mixtures of experts"),
        (("tokenizer.ggml.model", text("rwkv")), "tokenizer.ggml.model"),
    ];
    for ((key, value), expected) in cases {
        let found = gguf_with(key, value);
        for target in &found.targets {
            let obstacle = target.obstacle.as_deref().unwrap();
            assert!(obstacle.contains(expected), "{obstacle}");
            assert!(!obstacle.contains("tiny.gguf"), "{obstacle}");
        }
    }
}

#[test]
fn a_built_model_folder() {
    let (dir, path) = written("tiny.gguf", &tiny_llama(TensorType::Q8_0).bytes());
    let folder = dir.path().join("tiny");
    builder::build(&path, &folder, &BuildOptions::default(), &mut |_| ()).unwrap();
    let found = inspect(&folder).unwrap();
    let stored: u64 =
        ["model.onnx", "model.onnx.data"].map(|file| folder.join(file).metadata().unwrap().len()).iter().sum();
    // A tenth more in memory.
    assert_eq!(found.memory[0].weights, stored + stored / 10);
    // The estimate before building leaves out the graph, the tables of cosines and sines, and what aligns each of the 20 tensors'
    // parts to a page.
    let estimate = &inspect(&path).unwrap().memory[0];
    let (graph, tables) = (folder.join("model.onnx").metadata().unwrap().len(), 2 * 512 * 8 * 4);
    let padding = (stored - graph - tables).checked_sub((10 * estimate.weights).div_ceil(11)).unwrap();
    assert!(padding < 20 * 4096, "{padding}");
    let mut text = found.to_string();
    for (size, name) in [(found.bytes, "[all]"), (found.memory[0].weights, "[weights]")] {
        text = text.replace(&format!("{:.1} kB", size as f64 / 1e3), name);
    }
    insta::assert_snapshot!("model_folder", text.replace(env!("CARGO_PKG_VERSION"), "[version]"));
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

#[test]
fn ready_made_folders_say_how_they_run() {
    for (name, kind, cache, feeds) in [
        ("genai/int4", Kind::ModelFolder, "f32, one buffer, updated in place", "input_ids, attention_mask"),
        (
            "genai/growing-fp16",
            Kind::ModelFolder,
            "f16, grows with each pass",
            "input_ids, attention_mask, position_ids",
        ),
        ("optimum/llama", Kind::Optimum, "f32, grows with each pass", "input_ids, attention_mask, position_ids"),
        (
            "optimum/llama/onnx/decoder_model_merged.onnx",
            Kind::Onnx,
            "f32, grows with each pass",
            "input_ids, attention_mask, position_ids, use_cache_branch",
        ),
        (
            "optimum/qwen3",
            Kind::Optimum,
            "f32, grows with each pass",
            "input_ids, attention_mask, position_ids, num_logits_to_keep",
        ),
    ] {
        let found = inspect(&fixture(name)).unwrap();
        let lane = found.cpu_lane.as_ref().unwrap();
        assert_eq!(
            (found.kind, lane.cache.as_deref(), lane.feeds.join(", ").as_str()),
            (kind, Some(cache), feeds),
            "{name}"
        );
        assert_eq!(lane.obstacle, None, "{name}");
    }
}

#[test]
fn a_folder_of_optimums() {
    insta::assert_snapshot!("optimum", inspect(&fixture("optimum/llama")).unwrap());
}

#[test]
fn what_the_cpu_lane_cannot_run_is_said() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::copy(fixture("genai/int4/model.onnx"), dir.path().join("model.onnx")).unwrap();
    let config = std::fs::read_to_string(fixture("genai/int4/genai_config.json")).unwrap();
    std::fs::write(dir.path().join("genai_config.json"), config.replace("\"vocab_size\": 36", "\"vocab_size\": 35"))
        .unwrap();
    let found = inspect(dir.path()).unwrap();
    let obstacle = found.cpu_lane.as_ref().unwrap().obstacle.clone().unwrap();
    assert!(obstacle.contains("vocab_size 35"), "{obstacle}");
    assert!(found.to_string().contains(&obstacle));
    std::fs::remove_file(dir.path().join("genai_config.json")).unwrap();
    std::fs::write(dir.path().join("config.json"), "{}").unwrap();
    std::fs::rename(dir.path().join("model.onnx"), dir.path().join("vision_encoder.onnx")).unwrap();
    let error = inspect(dir.path()).unwrap_err().to_string();
    assert!(error.contains("vision-language"), "{error}");
}

fn safetensors(header: &str) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[0; 24]].concat()
}

#[test]
fn a_folder_of_safetensors() {
    let header = r#"{"__metadata__": {"format": "pt"}, "a": {"dtype": "BF16", "shape": [2, 4], "data_offsets": [0, 16]},
        "b": {"dtype": "F32", "shape": [2], "data_offsets": [16, 24]}}"#;
    let (dir, _) = written("model.safetensors", &safetensors(header));
    let config = r#"{"model_type": "qwen2", "num_hidden_layers": 24, "hidden_size": 896, "num_attention_heads": 14,
        "num_key_value_heads": 2, "vocab_size": 151936, "max_position_embeddings": 32768}"#;
    std::fs::write(dir.path().join("config.json"), config).unwrap();
    std::fs::write(dir.path().join("tokenizer_config.json"), r#"{"chat_template": "{{ x }}"}"#).unwrap();
    let mut found = inspect(dir.path()).unwrap();
    found.name = "qwen".into();
    insta::assert_snapshot!("safetensors", found);
}

#[test]
fn a_checkpoint_says_what_its_lanes_would_take() {
    let found = inspect(&fixture("models/qwen2-f16")).unwrap();
    let built = tempfile::tempdir().unwrap();
    let folder = built.path().join("built");
    builder::build(&fixture("models/qwen2-f16"), &folder, &BuildOptions::default(), &mut |_| ()).unwrap();
    let (before, after) = (&found.memory[0], &inspect(&folder).unwrap().memory[0]);
    assert_eq!((before.keys_and_values, before.context), (after.keys_and_values, after.context));
    // Tables, the graph, and what aligns parts to pages, which count in a model this small.
    assert!(before.weights < after.weights && after.weights - before.weights < 60_000, "{before:?} {after:?}");
    let dir = tempfile::tempdir().unwrap();
    for file in ["config.json", "model.safetensors.index.json", "model-00001-of-00004.safetensors"] {
        std::fs::copy(fixture("models/qwen2-f16").join(file), dir.path().join(file)).unwrap();
    }
    let found = inspect(dir.path()).unwrap();
    let obstacle = found.targets[0].obstacle.as_deref().unwrap();
    assert!(obstacle.starts_with("it is not whole: it has no model-00002-of-00004.safetensors"), "{obstacle}");
    assert_eq!(found.memory, []);
}

#[test]
fn what_cannot_be_read_is_named() {
    let cases: [(&str, Vec<u8>, &str); 9] = [
        ("m.gguf", b"GGUF".to_vec(), "is damaged"),
        ("m.gguf", Vec::new(), "the file is empty"),
        ("m.onnx", b"not a graph".to_vec(), "is no ONNX file"),
        ("m.onnx", vec![0x10, 0x01], "is no ONNX file"),
        ("m.safetensors", b"1234".to_vec(), "has 4 bytes"),
        ("m.safetensors", u64::MAX.to_le_bytes().to_vec(), "says that its header has 18446744073709551615 bytes"),
        ("m.safetensors", safetensors("[]"), "has a header that is not right"),
        ("m.safetensors", safetensors(r#"{"a": 3}"#), "describes its tensor \"a\" as 3"),
        ("m.txt", b"text".to_vec(), "is nothing that ortalk knows"),
    ];
    for (name, bytes, expected) in cases {
        let (_dir, path) = written(name, &bytes);
        let error = inspect(&path).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains(name), "{error}");
    }
    let error = inspect(Path::new("/nowhere/m.gguf")).unwrap_err().to_string();
    assert!(error.contains("cannot be read"), "{error}");
    let empty = tempfile::tempdir().unwrap();
    assert!(matches!(inspect(empty.path()), Err(InspectError::Unknown(_))));
}

proptest! {
    /// Whatever a file holds, there is an answer or an error.
    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..256), extension in 0..3_usize) {
        let (_dir, path) = written(["m.gguf", "m.onnx", "m.safetensors"][extension], &bytes);
        if let Ok(found) = inspect(&path) {
            let _ = found.to_string();
        }
    }

    #[test]
    fn a_damaged_gguf_file_is_survived(position in 0..4000_usize, byte: u8) {
        let mut bytes = tiny_llama(TensorType::Q8_0).bytes();
        let position = position.min(bytes.len() - 1);
        bytes[position] = byte;
        let (_dir, path) = written("m.gguf", &bytes);
        if let Ok(found) = inspect(&path) {
            let _ = found.to_string();
        }
    }
}
