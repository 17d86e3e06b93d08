//! Folders written here, as transformers writes them and broken in chosen ways. What the models compute is compared with
//! transformers in `tests/lane`.

use std::fs;
use std::path::Path;

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::builder::architecture::named;
use crate::builder::gguf;
use crate::builder::source::{Source, SourceFiles, SpecialTokens, Texts};
use crate::builder::{BuildOptions, SamplingDefaults};
use crate::model::TemplateSources;

/// A qwen3 of one layer, all weights zero.
struct Folder {
    home: tempfile::TempDir,
    config: Value,
}

fn file(tensors: &[(&str, &str, &[usize])]) -> Vec<u8> {
    let mut header = serde_json::Map::new();
    let mut end = 0;
    for (name, dtype, shape) in tensors {
        let start = end;
        end += shape.iter().product::<usize>() * if *dtype == "F32" { 4 } else { 2 };
        header.insert((*name).to_owned(), json!({"dtype": dtype, "shape": shape, "data_offsets": [start, end]}));
    }
    let header = Value::Object(header).to_string();
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &vec![0; end]].concat()
}

const LAYER: [(&str, &[usize]); 11] = [
    ("input_layernorm", &[32]),
    ("self_attn.q_proj", &[96, 32]),
    ("self_attn.k_proj", &[32, 32]),
    ("self_attn.v_proj", &[32, 32]),
    ("self_attn.q_norm", &[32]),
    ("self_attn.k_norm", &[32]),
    ("self_attn.o_proj", &[32, 96]),
    ("post_attention_layernorm", &[32]),
    ("mlp.gate_proj", &[64, 32]),
    ("mlp.up_proj", &[64, 32]),
    ("mlp.down_proj", &[32, 64]),
];

impl Folder {
    fn new() -> Self {
        let config = json!({
            "model_type": "qwen3", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1,
            "num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 32, "max_position_embeddings": 128,
            "rms_norm_eps": 1e-6, "rope_theta": 1_000_000, "rope_scaling": null, "hidden_act": "silu",
            "tie_word_embeddings": true, "sliding_window": 16, "use_sliding_window": false,
            "bos_token_id": 0, "eos_token_id": 1,
        });
        let folder = Self { home: tempfile::tempdir().unwrap(), config };
        let names: Vec<_> = LAYER.map(|(part, shape)| (format!("model.layers.0.{part}.weight"), shape)).into();
        let layer: Vec<_> = names.iter().map(|(name, shape)| (name.as_str(), "BF16", *shape)).collect();
        folder.write("model-1.safetensors", &file(&layer));
        folder.write(
            "model-2.safetensors",
            &file(&[("model.embed_tokens.weight", "F16", &[4, 32]), ("model.norm.weight", "F32", &[32])]),
        );
        let map =
            json!({"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors", "c": "model-1.safetensors"}});
        folder.write(INDEX, map.to_string().as_bytes());
        let tokenizer = json!({
            "version": "1.0",
            "added_tokens": [
                {"id": 0, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
                 "normalized": false, "special": true},
                {"id": 2, "content": "<|im_end|>", "single_word": false, "lstrip": false, "rstrip": false,
                 "normalized": false, "special": true},
            ],
            "normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder": null,
            "model": {"type": "BPE", "vocab": {"<s>": 0, "a": 1, "<|im_end|>": 2}, "merges": []},
        });
        folder.write("tokenizer.json", tokenizer.to_string().as_bytes());
        folder
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path().join(name), bytes).unwrap();
    }

    fn path(&self) -> &Path {
        self.home.path()
    }

    fn read<T>(&self, then: impl FnOnce(&Source<'_>) -> T) -> Result<T, BuildError> {
        self.write(CONFIG, self.config.to_string().as_bytes());
        self.read_as_written(then)
    }

    fn read_as_written<T>(&self, then: impl FnOnce(&Source<'_>) -> T) -> Result<T, BuildError> {
        let files = SourceFiles::open(self.path())?;
        Source::read(&files, &BuildOptions::default()).map(|source| then(&source))
    }

    fn texts(&self) -> Result<Texts, BuildError> {
        self.read(|source| source.texts())?
    }

    fn message(&self) -> String {
        let message = self.texts().unwrap_err().to_string();
        assert!(message.contains(&*self.path().to_string_lossy()), "{message}");
        message
    }
}

#[test]
fn sizes_and_tensors_are_found() {
    let folder = Folder::new();
    folder
        .read(|source| {
            let sizes = &source.dimensions;
            assert_eq!(
                [sizes.layers, sizes.hidden, sizes.feed_forward, sizes.heads, sizes.kv_heads, sizes.head_size],
                [1, 32, 64, 3, 1, 32]
            );
            assert_eq!((sizes.vocabulary, sizes.context, sizes.norm_epsilon), (4, 128, 1e-6));
            assert_eq!(sizes.rotary(false).frequencies[1], 1e6_f64.powf(-2.0 / 32.0));
            assert_eq!(source.architecture.name, "qwen3");
            let query = source.gguf.tensor("blk.0.attn_q.weight").unwrap();
            assert_eq!((query.kind, &query.shape, query.bytes.len()), (TensorType::Bf16, &vec![32, 96], 96 * 32 * 2));
            assert!(source.gguf.tensor("output.weight").is_none());
            assert_eq!(source.parameters(), 3 * 32 + 2 * 32 + 4 * 32 + 2 * 96 * 32 + 2 * 32 * 32 + 3 * 64 * 32);
        })
        .unwrap();
}

#[test]
fn names_are_put_back() {
    let qwen3 = named("qwen3").unwrap();
    for (part, _) in LAYER {
        let own = format!("model.layers.7.{part}.weight");
        let known = gguf_tensor(own.clone(), qwen3);
        assert!(known.starts_with("blk.7."), "{known}");
        assert_eq!(own_tensor(&known, qwen3), own);
    }
    for own in ["model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"] {
        assert_eq!(own_tensor(&gguf_tensor(own.to_owned(), qwen3), qwen3), own);
    }
    let unknown = "model.layers.0.mlp.experts.weight".to_owned();
    assert_eq!(gguf_tensor(unknown.clone(), qwen3), unknown);
    // What lies in one tensor here is cut there.
    assert_eq!(own_tensor("blk.3.attn_k.weight", named("phi3").unwrap()), "model.layers.3.self_attn.qkv_proj.weight");
}

/// The norms of a layer of gemma3 are named as others' are, and are others.
#[test]
fn an_architecture_has_names_of_its_own() {
    let gemma3 = named("gemma3").unwrap();
    for (own, known) in [
        ("model.layers.0.post_attention_layernorm.weight", "blk.0.post_attention_norm.weight"),
        ("model.layers.0.pre_feedforward_layernorm.weight", "blk.0.ffn_norm.weight"),
        ("language_model.model.layers.2.self_attn.q_norm.weight", "blk.2.attn_q_norm.weight"),
        ("model.language_model.norm.weight", "output_norm.weight"),
        ("language_model.lm_head.weight", "output.weight"),
    ] {
        assert_eq!(gguf_tensor(own.to_owned(), gemma3), known);
    }
    assert!(is_other_part("vision_tower.vision_model.head.weight") && !is_other_part("model.norm.weight"));
}

#[test]
fn texts_and_sampling_come_from_the_first_file_that_says_something() {
    let mut folder = Folder::new();
    let texts = folder.texts().unwrap();
    assert_eq!(texts.special, SpecialTokens { bos: Some(0), padding: None, ends: vec![1, 2] });
    assert_eq!(texts.template, None);
    assert_eq!(texts.tokenizer, fs::read(folder.path().join("tokenizer.json")).unwrap());
    assert_eq!(folder.read(|source| source.sampling).unwrap(), SamplingDefaults::default());

    folder.config["eos_token_id"] = Value::Null;
    let template = json!([{"name": "tools", "template": "no"}, {"name": "default", "template": "yes"}]);
    let config = json!({"eos_token": {"content": "<s>"}, "chat_template": template});
    folder.write("tokenizer_config.json", config.to_string().as_bytes());
    let texts = folder.texts().unwrap();
    let named = [("tools".to_owned(), "no".to_owned())];
    let templates = TemplateSources { default: "yes".into(), named: named.into() };
    assert_eq!((texts.special.ends, texts.template), (vec![0, 2], Some(templates)));
    assert_eq!(texts.config, json!({"eos_token": {"content": "<s>"}}));

    let generation = json!({"eos_token_id": [2, 0], "temperature": 0.25, "top_p": 0.5, "top_k": 7, "pad_token_id": 3});
    folder.write("generation_config.json", generation.to_string().as_bytes());
    folder.write("chat_template.jinja", b"mine");
    let texts = folder.texts().unwrap();
    assert_eq!((texts.special.ends, texts.special.padding), (vec![2, 0], Some(3)));
    let named = [("tools".to_owned(), "no".to_owned())];
    assert_eq!(texts.template, Some(TemplateSources { default: "mine".into(), named: named.into() }));
    let expected = SamplingDefaults { temperature: 0.25, top_p: 0.5, top_k: 7 };
    assert_eq!(folder.read(|source| source.sampling).unwrap(), expected);
}

/// Frequencies of Llama 3.2's kind, worked out by its rule at the two ends and in between.
#[test]
fn long_waves_are_stretched() {
    let mut folder = Folder::new();
    folder.config["rope_scaling"] = json!({
        "rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    });
    folder.config["rope_theta"] = json!(10_000.0);
    let found = folder.read(|source| source.dimensions.rotary(false).frequencies.clone()).unwrap();
    let plain = |pair: i32| 10_000_f64.powf(-2.0 * f64::from(pair) / 32.0);
    // 64 / (2 pi) = 10.19 turns of the first wave: more than 4. Of the last there are 0.0018: less than 1.
    assert_eq!(found[0], 1.0);
    assert!((found[15] - plain(15) / 32.0).abs() < 1e-7 * plain(15));
    // 64 * 0.31623 / (2 pi) = 3.2211 turns.
    let smooth = (64.0 * plain(2) / (2.0 * std::f64::consts::PI) - 1.0) / 3.0;
    assert!((smooth - 0.7404).abs() < 1e-4, "{smooth}");
    assert!((found[2] - plain(2) * ((1.0 - smooth) / 32.0 + smooth)).abs() < 1e-6);
}

/// What a GGUF file's keys would say, behind the architecture.
fn keys(config: Value) -> impl Fn(&str) -> Option<String> {
    let config = config::complete(config);
    let found = config::metadata(&config).unwrap();
    let shown = |value: &gguf::Value<'_>| match value {
        gguf::Value::Array(list) => list.numbers().unwrap().map(|flag| flag.to_string()).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    };
    let found: BTreeMap<String, String> = found.iter().map(|(key, value)| (key.to_string(), shown(value))).collect();
    let architecture = found["general.architecture"].trim_matches('"').to_owned();
    move |key| found.get(&format!("{architecture}.{key}")).cloned()
}

#[test]
fn windows_are_those_that_transformers_applies() {
    let types = json!(["full_attention", "sliding_attention", "full_attention"]);
    for (model, more, window, layers) in [
        ("llama", json!({"sliding_window": 16}), None, None),
        ("mistral", json!({}), Some("4096"), Some("true true true")),
        ("mistral", json!({"sliding_window": null}), None, None),
        ("phi3", json!({}), None, None),
        ("phi3", json!({"sliding_window": 16, "layer_types": types}), Some("16"), Some("true true true")),
        ("qwen2", json!({"sliding_window": 16}), None, None),
        ("qwen2", json!({"use_sliding_window": true}), Some("4096"), Some("false false false")),
        ("qwen3", json!({"use_sliding_window": true, "max_window_layers": 1}), Some("4096"), Some("false true true")),
        ("qwen3", json!({"use_sliding_window": true, "layer_types": types}), Some("4096"), Some("false true false")),
        ("gemma3_text", json!({"sliding_window_pattern": 2}), Some("4096"), Some("true false true")),
        ("gemma3_text", json!({"layer_types": types}), Some("4096"), Some("false true false")),
    ] {
        let mut config = json!({"model_type": model, "num_hidden_layers": 3});
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let said = format!("{config}");
        let found = keys(config);
        assert_eq!(found("attention.sliding_window").as_deref(), window, "{said}");
        assert_eq!(found("attention.sliding_window_pattern").as_deref(), layers, "{said}");
    }
}

/// The files of a larger Gemma say hardly more than this.
#[test]
fn what_a_file_leaves_out_is_filled_up() {
    let text = json!({
        "model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10_240, "num_hidden_layers": 7,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024,
    });
    let found = keys(json!({"model_type": "gemma3", "eos_token_id": [1, 106], "text_config": text}));
    for (key, expected) in [
        ("embedding_length", "2560"),
        ("attention.head_count", "8"),
        ("attention.head_count_kv", "4"),
        ("attention.key_length", "256"),
        ("attention.scale", "0.0625"),
        ("attention.sliding_window", "1024"),
        ("attention.sliding_window_pattern", "true true true true true false true"),
        ("context_length", "131072"),
        ("rope.freq_base", "1000000.0"),
        ("rope.freq_base_swa", "10000.0"),
        ("rope.scaling.factor", "8.0"),
    ] {
        assert_eq!(found(key).as_deref(), Some(expected), "{key}");
    }
    let newer = json!({
        "full_attention": {"rope_type": "default", "rope_theta": 5e5},
        "sliding_attention": {"rope_type": "default", "rope_theta": 2e4},
    });
    let found = keys(json!({"model_type": "gemma3_text", "rope_parameters": newer}));
    assert_eq!([found("rope.freq_base"), found("rope.freq_base_swa")].map(Option::unwrap), ["500000.0", "20000.0"]);
    assert_eq!(found("rope.scaling.factor"), None);
}

#[test]
fn long_contexts_have_factors_and_a_magnitude() {
    let scaling = |more: Value| {
        let mut scaling = json!({"type": "su", "short_factor": vec![1.0; 36], "long_factor": vec![2.5; 36]});
        scaling.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({
            "model_type": "phi3", "hidden_size": 3072, "num_attention_heads": 32, "max_position_embeddings": 131_072,
            "original_max_position_embeddings": 4096, "partial_rotary_factor": 0.75, "rope_scaling": scaling,
        })
    };
    let config = scaling(json!({}));
    let factors = rope::Rope::read(&config).unwrap().factors(&config);
    assert_eq!(factors[1], ("rope_factors_long.weight", 2.5_f32.to_le_bytes().repeat(36)));
    let found = keys(config);
    assert_eq!(
        [found("rope.dimension_count"), found("rope.scaling.original_context_length")].map(Option::unwrap),
        ["72", "4096"]
    );
    // 32 = 2^5 times as long as 4096 = 2^12.
    let magnitude: f64 = found("rope.scaling.attn_factor").unwrap().parse().unwrap();
    assert!((magnitude - (17.0_f64 / 12.0).sqrt()).abs() < 1e-12, "{magnitude}");
    let given = keys(scaling(json!({"attention_factor": 1.5})));
    assert_eq!(given("rope.scaling.attn_factor").as_deref(), Some("1.5"));
}

#[test]
fn what_is_not_right_is_told_in_the_folder_s_own_words() {
    let config = |key: &str, value: Value| {
        let mut folder = Folder::new();
        folder.config["use_sliding_window"] = true.into();
        folder.config[key] = value;
        folder.message()
    };
    let written = |name: &str, bytes: &[u8]| {
        let folder = Folder::new();
        folder.write(name, bytes);
        folder.message()
    };
    let scaled = |kind: &str| json!({"rope_type": kind, "factor": 0.5});
    for (message, expected) in [
        (
            config("model_type", json!("mamba")),
            "key \"model_type\" is \"mamba\", expected one of those that can be built: llama, mistral, qwen2, qwen3",
        ),
        (
            config("num_hidden_layers", Value::Null),
            "key \"num_hidden_layers\" is missing, expected a value in config.json",
        ),
        (config("num_hidden_layers", json!("one")), "key \"num_hidden_layers\" is \"one\", expected a whole number"),
        (
            config("num_key_value_heads", json!(2)),
            "key \"num_key_value_heads\" is 2, expected a divisor of the 3 heads",
        ),
        (
            config("head_dim", json!(16)),
            "key \"num_attention_heads\" is 3, expected heads of 16 that have a multiple of 32",
        ),
        (config("hidden_act", json!("gelu")), "key \"hidden_act\" is \"gelu\", expected \"silu\""),
        (config("layer_types", json!(["chunked_attention"])), "key \"layer_types\" is \"chunked_attention\", expected"),
        (
            config("partial_rotary_factor", json!(0.25)),
            "key \"partial_rotary_factor\" is 8 values of each head, expected a multiple of 16, at most 32",
        ),
        (config("partial_rotary_factor", json!(1.5)), "key \"partial_rotary_factor\" is 1.5, expected more than 0"),
        (config("query_pre_attn_scalar", json!(0)), "key \"query_pre_attn_scalar\" is 0, expected more than 0"),
        (config("final_logit_softcapping", json!(-1.0)), "key \"final_logit_softcapping\" is -1, expected more than 0"),
        (config("use_bidirectional_attention", json!(true)), "key \"use_bidirectional_attention\" is true"),
        (config("rope_scaling", json!({"type": "su"})), "key \"short_factor\" is null, expected a list of numbers"),
        (config("rope_scaling", json!("linear")), "key \"rope_scaling\" is \"linear\", expected an object"),
        (
            config("rope_scaling", scaled("dynamic")),
            "key \"rope_type\" is \"dynamic\", expected \"default\", \"linear\", ",
        ),
        (config("rope_scaling", scaled("linear")), "key \"factor\" is 0.5, expected at least 1"),
        (config("quantization_config", json!({"quant_method": "gptq"})), "key \"quantization_config\" is \"gptq\""),
        (config("tie_word_embeddings", json!(false)), "tensor \"lm_head.weight\" is missing"),
        (config("num_hidden_layers", json!(2)), "tensor \"model.layers.1.self_attn.q_proj.weight\" is missing"),
        (config("eos_token_id", json!(4)), "key \"eos_token_id\" is 4, expected a token's number, below 4"),
        (written("tokenizer.json", b"{}"), "has a tokenizer.json that is not right"),
        (written(INDEX, b"{"), "model.safetensors.index.json: EOF while parsing"),
        (
            written(INDEX, br#"{"weight_map": {"a": "../model.safetensors"}}"#),
            "expected the name of a .safetensors file",
        ),
        (
            written(INDEX, br#"{"weight_map": {"a": "absent.safetensors"}}"#),
            "is not whole: it has no absent.safetensors, which its",
        ),
        (
            written("model-2.safetensors", &file(&[("x", "I64", &[2])])),
            "model-2.safetensors: tensor \"x\" has the type I64",
        ),
        (written("model-2.safetensors", b"1234"), "model-2.safetensors has 4 bytes"),
        (
            written("model-2.safetensors", &file(&[("model.layers.0.mlp.up_proj.weight", "F16", &[2])])),
            "tensor \"model.layers.0.mlp.up_proj.weight\" appears twice",
        ),
    ] {
        assert!(message.contains(expected), "{message}\nshould contain\n{expected}");
    }
}

#[test]
fn what_is_no_source_leads_to_one() {
    let folder = Folder::new();
    let message = |path: &Path| SourceFiles::open(path).unwrap_err().to_string();
    std::fs::write(folder.path().join(WEIGHTS), "").unwrap();
    assert!(message(&folder.path().join(WEIGHTS)).contains("give the folder that it is in"));
    for file in [WEIGHTS, INDEX] {
        std::fs::remove_file(folder.path().join(file)).unwrap();
    }
    folder.write(CONFIG, folder.config.to_string().as_bytes());
    assert!(message(folder.path()).contains("has neither model.safetensors nor"));
    folder.write("model.onnx", b"");
    assert!(message(folder.path()).contains("graphs that are built already"));
    folder.write("genai_config.json", b"{}");
    assert!(message(folder.path()).contains("is a model folder already"));
}

#[test]
fn shapes_are_told_as_the_folder_has_them() {
    let error =
        ModelError::TensorShape { tensor: "blk.3.ffn_up.weight".into(), found: vec![32, 16], expected: vec![32, 64] };
    let folder = Folder::new();
    folder.write(CONFIG, folder.config.to_string().as_bytes());
    assert_eq!(
        Checkpoint::open(folder.path()).unwrap().in_own_words(error).to_string(),
        "tensor \"model.layers.3.mlp.up_proj.weight\" has the shape [16, 32], expected [64, 32]"
    );
}

proptest! {
    /// Whatever is damaged in a checkpoint's files, there is a model or a message.
    #[test]
    fn damaged_files_are_survived(
        name in prop::sample::select(vec!["model-1.safetensors", "model-2.safetensors", INDEX, "tokenizer.json", CONFIG]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let folder = Folder::new();
        folder.write(CONFIG, folder.config.to_string().as_bytes());
        let mut bytes = fs::read(folder.path().join(name)).unwrap();
        // Most of a file of weights is weights.
        let head = bytes.len().min(2000);
        for (at, byte) in changes {
            bytes[at.index(head)] = byte;
        }
        bytes.truncate(cut.map_or(bytes.len(), |cut| cut.index(bytes.len())));
        folder.write(name, &bytes);
        if let Err(error) = folder.read_as_written(|source| source.texts()).and_then(|texts| texts) {
            prop_assert!(!error.to_string().is_empty());
        }
    }

    /// Whatever the configuration says, there is a model or a message.
    #[test]
    fn any_configuration_is_survived(
        key in prop::sample::select(vec![
            "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "rope_theta", "rms_norm_eps",
            "max_position_embeddings", "num_hidden_layers", "sliding_window", "partial_rotary_factor", "rope_scaling", "eos_token_id", "tie_word_embeddings",
        ]),
        value in prop_oneof![
            any::<u64>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            (any::<f64>(), any::<f64>(), any::<u32>()).prop_map(|(low, high, original)| json!({
                "rope_type": "llama3", "factor": 8.0, "low_freq_factor": low, "high_freq_factor": high,
                "original_max_position_embeddings": original,
            })),
            (any::<f64>(), any::<f64>(), any::<u32>()).prop_map(|(fast, factor, original)| json!({
                "rope_type": "yarn", "factor": factor, "beta_fast": fast, "original_max_position_embeddings": original,
            })),
            "[a-z]{0,4}".prop_map(Value::from),
        ],
    ) {
        let mut folder = Folder::new();
        folder.config[key] = value;
        if let Err(error) = folder.texts() {
            prop_assert!(!error.to_string().is_empty());
        }
    }
}
