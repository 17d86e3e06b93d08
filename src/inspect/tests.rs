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
    assert_eq!(found.memory[0].weights, stored);
    // The estimate before building leaves out the graph, the tables of cosines and sines, and what aligns each of the 20 tensors'
    // parts to a page.
    let estimate = &inspect(&path).unwrap().memory[0];
    let (graph, tables) = (folder.join("model.onnx").metadata().unwrap().len(), 2 * 512 * 8 * 4);
    let padding = (stored - graph - tables).checked_sub(estimate.weights).unwrap();
    assert!(padding < 20 * 4096, "{padding}");
    let mut text = found.to_string();
    for (size, name) in [(found.bytes, "[all]"), (stored, "[weights]")] {
        text = text.replace(&format!("{:.1} kB", size as f64 / 1e3), name);
    }
    insta::assert_snapshot!("model_folder", text.replace(env!("CARGO_PKG_VERSION"), "[version]"));
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

#[test]
fn sizes_that_overflow_are_left_out() {
    let sizes = Sizes { layers: Some(u64::MAX), kv_heads: Some(2), head_size: Some(2), ..Sizes::default() };
    assert_eq!(sizes.keys_and_values(512, 4), None);
    let small = Sizes { layers: Some(30), kv_heads: Some(3), head_size: Some(64), ..Sizes::default() };
    assert_eq!(small.keys_and_values(512, 2), Some(2 * 30 * 3 * 64 * 512 * 2));
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
