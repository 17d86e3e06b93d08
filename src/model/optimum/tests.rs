use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::model::read_config;

/// A folder with these files in it.
fn folder(files: &[&str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("onnx")).unwrap();
    write(dir.path(), CONFIG, &config());
    for file in files {
        std::fs::write(dir.path().join(file), "").unwrap();
    }
    dir
}

fn config() -> Value {
    json!({"model_type": "qwen3", "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100,
        "num_hidden_layers": 3, "max_position_embeddings": 512, "eos_token_id": 7})
}

fn write(folder: &Path, file: &str, value: &Value) {
    std::fs::write(folder.join(file), value.to_string()).unwrap();
}

fn chosen(files: &[&str]) -> OptimumFolder {
    OptimumFolder::find(folder(files).path()).unwrap().unwrap()
}

fn refusal(files: &[&str]) -> String {
    OptimumFolder::find(folder(files).path()).unwrap_err().to_string()
}

#[test]
fn the_variant_is_the_best_on_a_cpu() {
    for (files, graph) in [
        (
            &["onnx/model.onnx", "onnx/model_fp16.onnx", "onnx/model_q4.onnx", "onnx/model_q4f16.onnx"][..],
            "onnx/model_q4.onnx",
        ),
        (&["onnx/model.onnx", "onnx/model_uint8.onnx", "onnx/model_quantized.onnx"], "onnx/model_quantized.onnx"),
        (&["onnx/model_bnb4.onnx", "onnx/model.onnx"], "onnx/model.onnx"),
        (&["onnx/model_fp16.onnx", "onnx/model_q4f16.onnx"], "onnx/model_q4f16.onnx"),
        (
            &["onnx/decoder_model_merged.onnx", "onnx/decoder_model_merged_quantized.onnx"],
            "onnx/decoder_model_merged_quantized.onnx",
        ),
        (&["onnx/decoder_model_merged.onnx", "onnx/model.onnx"], "onnx/model.onnx"),
        (&["model.onnx"], "model.onnx"),
    ] {
        assert_eq!(chosen(files).graph, graph);
    }
    let choice = chosen(&["onnx/model.onnx", "onnx/model_q4.onnx"]).choice;
    assert_eq!(choice, "onnx/model_q4.onnx, blocks of 4 bits; best on a CPU among it and model.onnx");
    assert!(chosen(&["onnx/model_fp16.onnx"]).choice.contains("slow on a CPU"));
}

#[test]
fn a_graph_that_is_named_is_taken() {
    let dir = folder(&["onnx/model_fp16.onnx", "onnx/model_q4.onnx", "mine.onnx"]);
    for graph in ["onnx/model_fp16.onnx", "mine.onnx"] {
        let found = OptimumFolder::find(&dir.path().join(graph)).unwrap().unwrap();
        assert_eq!((found.root.as_path(), found.graph.as_str()), (dir.path(), graph));
    }
    let alone = tempfile::tempdir().unwrap();
    assert_eq!(OptimumFolder::find(&alone.path().join("m.onnx")).unwrap(), None);
    assert_eq!(OptimumFolder::find(alone.path()).unwrap(), None);
}

#[test]
fn what_is_no_decoder_by_itself_says_why() {
    for (files, expected) in [
        (
            &["onnx/decoder_model_merged_q4f32.onnx", "onnx/vision_encoder.onnx", "onnx/embed_tokens.onnx"][..],
            "vision-language",
        ),
        (&["onnx/encoder_model.onnx", "onnx/decoder_model.onnx"], "encoder-decoder"),
        (&["onnx/decoder_model.onnx", "onnx/decoder_with_past_model.onnx"], "in two graphs"),
        (&["onnx/other.onnx"], "onnx/other.onnx"),
    ] {
        let found = refusal(files);
        assert!(found.contains(expected), "{found}");
    }
    let dir = folder(&["onnx/model.onnx"]);
    let mut whisper = config();
    whisper["is_encoder_decoder"] = true.into();
    write(dir.path(), CONFIG, &whisper);
    assert!(read_config(dir.path()).unwrap_err().to_string().contains("encoder-decoder"));
}

#[test]
fn four_files_make_one_configuration() {
    let dir = folder(&["onnx/model.onnx"]);
    write(
        dir.path(),
        "generation_config.json",
        &json!({"eos_token_id": [7, 9], "do_sample": true, "temperature": 0.6, "top_k": 20}),
    );
    let tokenizer = json!({"eos_token": {"content": "<end>"}, "added_tokens_decoder": {"11": {"content": "<end>"}, "12": {"content": "x"}}});
    write(dir.path(), "tokenizer_config.json", &tokenizer);
    let found = read_config(dir.path()).unwrap();
    let (model, decoder) = (&found.model, &found.model.decoder);
    assert_eq!((model.architecture.as_str(), model.context_length, model.vocab_size), ("qwen3", 512, 100));
    assert_eq!(model.eos_token_id.0, [7, 9, 11]);
    assert_eq!((decoder.head_size, decoder.num_key_value_heads, decoder.num_hidden_layers), (16, 2, 3));
    assert_eq!(decoder.filename.as_deref(), Some("onnx/model.onnx"));
    assert_eq!((found.search.do_sample, found.search.temperature, found.search.top_k), (true, Some(0.6), Some(20)));
}

#[test]
fn older_names_of_sizes_are_known() {
    let dir = folder(&["onnx/model.onnx"]);
    write(
        dir.path(),
        CONFIG,
        &json!({"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_layer": 2, "vocab_size": 9, "n_ctx": 32}),
    );
    let model = read_config(dir.path()).unwrap().model;
    assert_eq!((model.context_length, model.decoder.num_key_value_heads, model.decoder.head_size), (32, 4, 16));
    let nested = json!({"model_type": "gemma3", "text_config": config()});
    write(dir.path(), CONFIG, &nested);
    assert_eq!(read_config(dir.path()).unwrap().model.decoder.num_hidden_layers, 3);
}

#[test]
fn hostile_configurations_are_refused_by_name() {
    let dir = folder(&["onnx/model.onnx"]);
    for (key, value, expected) in [
        ("num_hidden_layers", json!(1_000_000_000), "no model has more"),
        ("head_dim", json!(u64::MAX), "no model has more"),
        ("vocab_size", json!("many"), "vocab_size is \"many\"; expected a whole number"),
        ("vocab_size", json!(-5), "expected a whole number"),
        ("vocab_size", Value::Null, "it has no vocab_size"),
        ("num_attention_heads", json!(0), "head_size is 0"),
        ("max_position_embeddings", json!(1e300), "expected a whole number"),
        ("eos_token_id", json!({"a": 1}), "expected a token's number"),
        ("eos_token_id", json!([1, -1]), "expected a token's number"),
    ] {
        let mut hostile = config();
        hostile[key] = value;
        write(dir.path(), CONFIG, &hostile);
        let error = read_config(dir.path()).unwrap_err().to_string();
        assert!(error.contains(expected), "{key}: {error}");
    }
    std::fs::write(dir.path().join(CONFIG), "[]").unwrap();
    assert!(read_config(dir.path()).is_err());
}

proptest! {
    /// Whatever is damaged in a folder's files, and where, there is a configuration within bounds, or an error.
    #[test]
    fn damaged_files_are_survived(
        file in 0..3_usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        digits in any::<(prop::sample::Index, u64)>(),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let dir = folder(&["onnx/model.onnx"]);
        let names = [CONFIG, "generation_config.json", "tokenizer_config.json"];
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/optimum/qwen3");
        for (index, name) in names.into_iter().enumerate() {
            let mut bytes = std::fs::read(fixtures.join(name)).unwrap();
            if index == file {
                // A number in place of one that is there.
                let places: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at].is_ascii_digit()).collect();
                if !places.is_empty() {
                    let at = places[digits.0.index(places.len())];
                    bytes.splice(at..=at, digits.1.to_string().into_bytes());
                }
                for (at, byte) in &changes {
                    let at = at.index(bytes.len());
                    bytes[at] = *byte;
                }
                bytes.truncate(cut.map_or(bytes.len(), |cut| cut.index(bytes.len())));
            }
            std::fs::write(dir.path().join(name), bytes).unwrap();
        }
        if let Ok(found) = read_config(dir.path()) {
            let decoder = &found.model.decoder;
            prop_assert!(decoder.num_hidden_layers * decoder.num_key_value_heads <= 1 << 28);
        }
    }

    /// Whatever values a configuration has, there is one that is within bounds, or an error.
    #[test]
    fn any_values_are_survived(key in 0..8_usize, number: i64, text in ".{0,9}", kind in 0..4_usize) {
        let keys = ["hidden_size", "num_attention_heads", "num_key_value_heads", "vocab_size", "num_hidden_layers",
            "max_position_embeddings", "eos_token_id", "text_config"];
        let mut hostile = config();
        hostile[keys[key]] = [json!(number), json!(text), json!([number]), json!({text.clone(): number})][kind].clone();
        let dir = folder(&["onnx/model.onnx"]);
        write(dir.path(), CONFIG, &hostile);
        if let Ok(found) = read_config(dir.path()) {
            let decoder = &found.model.decoder;
            prop_assert!(decoder.num_hidden_layers * decoder.num_key_value_heads <= 1 << 28);
        }
    }
}
