//! What `config.json` says, as a GGUF file's keys.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::rope::{Kind, Rope};
use crate::builder::architecture::{Architecture, named};
use crate::builder::error::ModelError;
use crate::builder::gguf::{self, Array, NumberType};

/// What there is to know of a value of `model_type`.
struct ModelType {
    name: &'static str,
    /// llama.cpp's name of what it computes.
    architecture: &'static str,
    windows: Windows,
    /// What holds where the file does not say it: transformers' defaults, which files leave out.
    defaults: fn() -> Value,
}

/// Which layers a sliding window is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Windows {
    /// None, whatever the file says.
    None,
    All,
    /// Those that `layer_types` names; without it all but each one at the end of a period.
    Periods,
    /// Those that `layer_types` names, without it all from `max_window_layers` on, and only if `use_sliding_window` is true.
    Switched,
}

static MODEL_TYPES: [ModelType; 7] = [
    ModelType { name: "llama", architecture: "llama", windows: Windows::None, defaults: || json!({}) },
    ModelType {
        name: "mistral",
        architecture: "llama",
        windows: Windows::All,
        defaults: || json!({"sliding_window": 4096}),
    },
    ModelType { name: "qwen2", architecture: "qwen2", windows: Windows::Switched, defaults: qwen_defaults },
    ModelType { name: "qwen3", architecture: "qwen3", windows: Windows::Switched, defaults: qwen_defaults },
    ModelType { name: "gemma3_text", architecture: "gemma3", windows: Windows::Periods, defaults: gemma3_defaults },
    // One that also sees; what is read is the part that writes.
    ModelType { name: "gemma3", architecture: "gemma3", windows: Windows::Periods, defaults: gemma3_defaults },
    ModelType { name: "phi3", architecture: "phi3", windows: Windows::All, defaults: || json!({}) },
];

fn qwen_defaults() -> Value {
    json!({"sliding_window": 4096, "use_sliding_window": false, "max_window_layers": 28})
}

fn gemma3_defaults() -> Value {
    json!({
        "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26, "num_attention_heads": 8,
        "num_key_value_heads": 4, "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh",
        "max_position_embeddings": 131_072, "rms_norm_eps": 1e-6, "rope_theta": 1e6, "rope_local_base_freq": 1e4,
        "query_pre_attn_scalar": 256, "sliding_window": 4096, "sliding_window_pattern": 6, "tie_word_embeddings": true,
    })
}

/// Keys here and in a GGUF file, behind the architecture.
const SIZES: [(&str, &str); 8] = [
    ("num_hidden_layers", "block_count"),
    ("hidden_size", "embedding_length"),
    ("intermediate_size", "feed_forward_length"),
    ("num_attention_heads", "attention.head_count"),
    ("num_key_value_heads", "attention.head_count_kv"),
    ("head_dim", "attention.key_length"),
    ("max_position_embeddings", "context_length"),
    ("sliding_window", "attention.sliding_window"),
];
const NUMBERS: [(&str, &str); 3] = [
    ("rms_norm_eps", "attention.layer_norm_rms_epsilon"),
    ("attn_logit_softcapping", "attn_logit_softcapping"),
    ("final_logit_softcapping", "final_logit_softcapping"),
];
/// What is computed from other keys, for messages.
const COMPUTED: [(&str, &str); 6] = [
    ("rope_theta", "rope.freq_base"),
    ("rope_local_base_freq", "rope.freq_base_swa"),
    ("factor", "rope.scaling.factor"),
    ("partial_rotary_factor", "rope.dimension_count"),
    ("layer_types", "attention.sliding_window_pattern"),
    ("query_pre_attn_scalar", "attention.scale"),
];

type Metadata<'a> = BTreeMap<Cow<'a, str>, gguf::Value<'a>>;

/// The configuration of the part that writes, filled up with what holds where the file is silent. One of an unknown model
/// stays as it is.
pub fn complete(mut config: Value) -> Value {
    let Ok(model) = model_type(&config) else { return config };
    let text = config.get_mut("text_config").map(Value::take);
    let Some(all) = config.as_object_mut() else { return config };
    let inner = text.as_ref().and_then(Value::as_object).into_iter().flatten();
    for (key, value) in inner.filter(|(key, _)| *key != "model_type") {
        all.insert(key.clone(), value.clone());
    }
    for (key, value) in (model.defaults)().as_object().into_iter().flatten() {
        all.entry(key).or_insert_with(|| value.clone());
    }
    config
}

/// The keys that say what the model is and how large.
pub fn metadata(config: &Value) -> Result<Metadata<'_>, ModelError> {
    let model = model_type(config)?;
    refuse(config)?;
    let mut metadata = Metadata::new();
    metadata.insert("general.architecture".into(), gguf::Value::String(model.architecture));
    let mut put = |key: &str, value| metadata.insert(format!("{}.{key}", model.architecture).into(), value);
    let windows = windows(config, model)?;
    for (own, key) in SIZES {
        let Some(value) = present(config, own).filter(|_| own != "sliding_window" || windows.is_some()) else {
            continue;
        };
        put(key, gguf::Value::Unsigned(whole(own, value)?));
    }
    for (own, key) in NUMBERS {
        let Some(value) = present(config, own) else { continue };
        put(key, gguf::Value::Float(number(own, value)?));
    }
    if let Some(layers) = windows {
        let bytes = layers.into_iter().map(u8::from).collect::<Vec<_>>().into();
        let list = Array::Numbers { kind: NumberType::Boolean, bytes };
        put("attention.sliding_window_pattern", gguf::Value::Array(list));
    }
    if let Some(scalar) = present(config, "query_pre_attn_scalar") {
        let scale = 1.0 / number("query_pre_attn_scalar", scalar)?.sqrt();
        if !scale.is_finite() {
            return Err(wrong("query_pre_attn_scalar", scalar, "more than 0"));
        }
        put("attention.scale", gguf::Value::Float(scale));
    }
    let rope = Rope::read(config)?;
    put("rope.freq_base", gguf::Value::Float(rope.base));
    if let Some(base) = rope.window_base {
        put("rope.freq_base_swa", gguf::Value::Float(base));
    }
    if let Some(size) = rope.rotated(config)? {
        put("rope.dimension_count", gguf::Value::Unsigned(size));
    }
    match rope.kind {
        Kind::Linear { factor } => {
            put("rope.scaling.factor", gguf::Value::Float(factor));
        }
        Kind::Yarn { factor, original, fast, slow, magnitude } => {
            put("rope.scaling.type", gguf::Value::String("yarn"));
            put("rope.scaling.factor", gguf::Value::Float(factor));
            put("rope.scaling.original_context_length", gguf::Value::Unsigned(original));
            put("rope.scaling.yarn_beta_fast", gguf::Value::Float(fast));
            put("rope.scaling.yarn_beta_slow", gguf::Value::Float(slow));
            // There it is beside what the factor makes.
            put("rope.scaling.attn_factor", gguf::Value::Float(magnitude / (1.0 + 0.1 * factor.ln())));
            // Who switches YaRN on often leaves the length as it was.
            let longest = present(config, "max_position_embeddings").and_then(Value::as_u64);
            let stretched = (original as f64 * factor) as u64;
            if longest.is_some_and(|longest| longest < stretched) {
                put("context_length", gguf::Value::Unsigned(stretched));
            }
        }
        Kind::Long { original, magnitude, .. } => {
            put("rope.scaling.original_context_length", gguf::Value::Unsigned(original));
            put("rope.scaling.attn_factor", gguf::Value::Float(magnitude));
        }
        Kind::Plain | Kind::Llama3 { .. } => {}
    }
    Ok(metadata)
}

/// Which layers have the window, if any.
fn windows(config: &Value, model: &ModelType) -> Result<Option<Vec<bool>>, ModelError> {
    let used = match model.windows {
        Windows::None => false,
        Windows::All | Windows::Periods => true,
        Windows::Switched => present(config, "use_sliding_window") == Some(&Value::Bool(true)),
    };
    if !used || present(config, "sliding_window").is_none() {
        return Ok(None);
    }
    // Sizes that make no sense are refused with all others.
    let layers = config.get("num_hidden_layers").and_then(Value::as_u64).filter(|layers| *layers <= 1 << 16);
    let layers = layers.unwrap_or_default();
    let size = |key: &str| present(config, key).map_or(Ok(0), |value| whole(key, value));
    if let Some(types) = present(config, "layer_types").filter(|_| model.windows != Windows::All) {
        let each = types.as_array().into_iter().flatten().map(|kind| match kind.as_str() {
            Some("sliding_attention") => Ok(true),
            Some("full_attention") => Ok(false),
            _ => Err(wrong("layer_types", kind, "\"sliding_attention\" or \"full_attention\" for each layer")),
        });
        return each.collect::<Result<_, _>>().map(Some);
    }
    let has_window: Box<dyn Fn(u64) -> bool> = match model.windows {
        Windows::Periods => {
            let period = size("sliding_window_pattern")?.max(1);
            Box::new(move |layer| !(layer + 1).is_multiple_of(period))
        }
        Windows::Switched => {
            let first = size("max_window_layers")?;
            Box::new(move |layer| layer >= first)
        }
        Windows::None | Windows::All => Box::new(|_| true),
    };
    Ok(Some((0..layers).map(has_window).collect()))
}

/// This module's name of a GGUF file's key.
pub fn own_key(key: &str) -> String {
    let known = SIZES.iter().chain(&NUMBERS).chain(&COMPUTED);
    let found = MODEL_TYPES.iter().find_map(|model| {
        let rest = key.strip_prefix(model.architecture)?.strip_prefix('.')?;
        known.clone().find(|(_, known)| *known == rest)
    });
    found.map_or(key, |(own, _)| own).to_owned()
}

fn model_type(config: &Value) -> Result<&'static ModelType, ModelError> {
    let found = config.get("model_type").unwrap_or(&Value::Null);
    MODEL_TYPES.iter().find(|model| found.as_str() == Some(model.name)).ok_or_else(|| ModelError::Architecture {
        key: "model_type",
        found: match found {
            Value::String(name) => name.clone(),
            Value::Null => "missing".to_owned(),
            other => other.to_string(),
        },
        known: MODEL_TYPES.each_ref().map(|model| model.name).join(", "),
    })
}

/// The architecture that the file names.
pub fn architecture(config: &Value) -> Result<&'static Architecture, ModelError> {
    let model = model_type(config)?;
    // Every name in the table is one that is known there.
    named(model.architecture).ok_or_else(|| wrong("model_type", &json!(model.name), "another one"))
}

/// Refuses what would be computed differently.
fn refuse(config: &Value) -> Result<(), ModelError> {
    use crate::builder::architecture::Activation;
    let expected: &[&str] = match architecture(config)?.activation {
        Activation::Silu => &["silu", "swish"],
        Activation::GeluTanh => &["gelu_pytorch_tanh", "gelu_tanh"],
    };
    // Gemma's files have both keys, and mean the second.
    let key = if present(config, "hidden_activation").is_some() { "hidden_activation" } else { "hidden_act" };
    if let Some(activation) =
        present(config, key).filter(|found| !found.as_str().is_some_and(|found| expected.contains(&found)))
    {
        return Err(wrong(key, activation, &format!("{:?}", expected[0])));
    }
    if let Some(both) = present(config, "use_bidirectional_attention").filter(|both| **both != Value::Bool(false)) {
        return Err(wrong("use_bidirectional_attention", both, "false: such a model does not write text"));
    }
    if let Some(method) = present(config, "quantization_config") {
        let found = method.get("quant_method").unwrap_or(method);
        return Err(wrong("quantization_config", found, "none: give the folder of the model in F32, F16 or BF16"));
    }
    Ok(())
}

/// `null` is as good as nothing.
pub fn present<'v>(config: &'v Value, key: &str) -> Option<&'v Value> {
    config.get(key).filter(|value| !value.is_null())
}

pub fn whole(key: &str, value: &Value) -> Result<u64, ModelError> {
    value.as_u64().ok_or_else(|| wrong(key, value, "a whole number, not negative"))
}

pub fn number(key: &str, value: &Value) -> Result<f64, ModelError> {
    value.as_f64().filter(|number| number.is_finite()).ok_or_else(|| wrong(key, value, "a number"))
}

pub fn wrong(key: &str, found: &Value, expected: &str) -> ModelError {
    ModelError::Value { key: key.to_owned(), found: found.to_string(), expected: expected.to_owned() }
}
