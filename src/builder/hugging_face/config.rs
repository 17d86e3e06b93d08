//! What `config.json` says, as a GGUF file's keys.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::f64::consts::PI;

use serde_json::Value;

use crate::builder::error::ModelError;
use crate::builder::gguf;

/// The known values of `model_type`, and llama.cpp's names of what they compute. (A Mistral is a llama with a window over
/// its past, which is refused where it is shorter than the context.)
const MODEL_TYPES: [(&str, &str); 4] =
    [("llama", "llama"), ("mistral", "llama"), ("qwen2", "qwen2"), ("qwen3", "qwen3")];

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
    ("rope_theta", "rope.freq_base"),
    ("factor", "rope.scaling.factor"),
];

type Metadata<'a> = BTreeMap<Cow<'a, str>, gguf::Value<'a>>;

/// The keys that say what the model is and how large.
pub fn metadata(config: &Value) -> Result<Metadata<'_>, ModelError> {
    let architecture = architecture(config)?;
    refuse(config)?;
    let mut metadata = Metadata::new();
    metadata.insert("general.architecture".into(), gguf::Value::String(architecture));
    let name = |key: &str| Cow::Owned(format!("{architecture}.{key}"));
    for (own, key) in SIZES {
        let Some(value) = present(config, own) else { continue };
        // Qwen's folders name a window and say that it is not used.
        if own == "sliding_window" && present(config, "use_sliding_window") == Some(&Value::Bool(false)) {
            continue;
        }
        let size = value.as_u64().ok_or_else(|| wrong(own, value, "a whole number, not negative"))?;
        metadata.insert(name(key), gguf::Value::Unsigned(size));
    }
    let rope = Rope::read(config)?;
    let epsilon = present(config, "rms_norm_eps").map(|value| number("rms_norm_eps", value)).transpose()?;
    let linear = match rope.kind {
        Kind::Linear { factor } => Some(factor),
        Kind::Plain | Kind::Llama3 { .. } => None,
    };
    for ((_, key), value) in NUMBERS.into_iter().zip([epsilon, Some(rope.base), linear]) {
        if let Some(value) = value {
            metadata.insert(name(key), gguf::Value::Float(value));
        }
    }
    Ok(metadata)
}

/// This module's name of a GGUF file's key.
pub fn own_key(key: &str) -> String {
    let known = SIZES.iter().chain(&NUMBERS);
    let found = MODEL_TYPES.iter().find_map(|(_, architecture)| {
        let rest = key.strip_prefix(architecture)?.strip_prefix('.')?;
        known.clone().find(|(_, known)| *known == rest)
    });
    found.map_or(key, |(own, _)| own).to_owned()
}

fn architecture(config: &Value) -> Result<&'static str, ModelError> {
    let known = || MODEL_TYPES.map(|(own, _)| own).join(", ");
    let found = config.get("model_type").unwrap_or(&Value::Null);
    let known_type = MODEL_TYPES.iter().find(|(own, _)| found.as_str() == Some(own));
    known_type.map(|(_, architecture)| *architecture).ok_or_else(|| ModelError::Architecture {
        key: "model_type",
        found: found.as_str().map_or_else(|| found.to_string(), str::to_owned),
        known: known(),
    })
}

/// Refuses what would be computed differently.
fn refuse(config: &Value) -> Result<(), ModelError> {
    if let Some(activation) = present(config, "hidden_act").filter(|activation| **activation != "silu") {
        return Err(wrong("hidden_act", activation, "\"silu\""));
    }
    if let Some(part) = present(config, "partial_rotary_factor").filter(|part| part.as_f64() != Some(1.0)) {
        return Err(wrong("partial_rotary_factor", part, "1: heads that are rotated in part are not supported"));
    }
    if let Some(method) = present(config, "quantization_config") {
        let found = method.get("quant_method").unwrap_or(method);
        return Err(wrong("quantization_config", found, "none: give the folder of the model in F32, F16 or BF16"));
    }
    Ok(())
}

/// The rotary embedding.
struct Rope {
    base: f64,
    kind: Kind,
}

enum Kind {
    Plain,
    Linear {
        factor: f64,
    },
    /// Long waves are stretched by `factor`, short ones stay, and between them it is interpolated.
    Llama3 {
        factor: f64,
        low: f64,
        high: f64,
        /// The context before stretching, in tokens.
        original: f64,
    },
}

impl Rope {
    /// transformers 5 has all in `rope_parameters`; before, all but the base was in `rope_scaling`.
    fn read(config: &Value) -> Result<Self, ModelError> {
        let parameters = present(config, "rope_parameters").or_else(|| present(config, "rope_scaling"));
        let parameters = parameters.unwrap_or(&Value::Null);
        let base = present(parameters, "rope_theta").or_else(|| present(config, "rope_theta"));
        let base = base.map_or(Ok(10_000.0), |base| number("rope_theta", base))?;
        let kind = present(parameters, "rope_type").or_else(|| present(parameters, "type"));
        let value = |key: &'static str, least: f64| {
            let value = parameters.get(key).unwrap_or(&Value::Null);
            let found = number(key, value)?;
            if found >= least { Ok(found) } else { Err(wrong(key, value, &format!("at least {least}"))) }
        };
        let kind = match kind.map(|kind| kind.as_str().unwrap_or_default()) {
            None | Some("default") => Kind::Plain,
            Some("linear") => Kind::Linear { factor: value("factor", 1.0)? },
            Some("llama3") => {
                let (low, high) = (value("low_freq_factor", f64::MIN_POSITIVE)?, value("high_freq_factor", 0.0)?);
                if high <= low {
                    let found = parameters.get("high_freq_factor").unwrap_or(&Value::Null);
                    return Err(wrong("high_freq_factor", found, &format!("more than low_freq_factor, {low}")));
                }
                let original = value("original_max_position_embeddings", 1.0)?;
                Kind::Llama3 { factor: value("factor", 1.0)?, low, high, original }
            }
            Some(_) => {
                let found = kind.unwrap_or(&Value::Null);
                let expected = "\"default\", \"linear\" or \"llama3\"; other scalings are not supported";
                return Err(wrong("rope_type", found, expected));
            }
        };
        Ok(Self { base, kind })
    }
}

/// The divisors of the rotary frequencies that Llama 3.1 and later have, as llama.cpp's converter and transformers'
/// `_compute_llama3_parameters` compute them: float32, little-endian.
pub fn rope_factors(config: &Value) -> Result<Option<Vec<u8>>, ModelError> {
    // Whether the architecture is known is the better complaint.
    architecture(config)?;
    let Rope { base, kind: Kind::Llama3 { factor, low, high, original } } = Rope::read(config)? else {
        return Ok(None);
    };
    let size = |key: &str| config.get(key).and_then(Value::as_u64);
    let of_heads = || size("hidden_size")?.checked_div(size("num_attention_heads")?);
    // Sizes that make no sense are refused with all others.
    let Some(head_size) = size("head_dim").or_else(of_heads).filter(|size| *size <= 1024) else { return Ok(None) };
    let divisor = |pair: u64| {
        let wave = 2.0 * PI * base.powf(2.0 * pair as f64 / head_size as f64);
        let turns = original / wave;
        if turns > high {
            1.0
        } else if turns < low {
            factor
        } else {
            let smooth = (turns - low) / (high - low);
            1.0 / ((1.0 - smooth) / factor + smooth)
        }
    };
    Ok(Some((0..head_size / 2).flat_map(|pair| (divisor(pair) as f32).to_le_bytes()).collect()))
}

/// `null` is as good as nothing.
pub fn present<'v>(config: &'v Value, key: &str) -> Option<&'v Value> {
    config.get(key).filter(|value| !value.is_null())
}

fn number(key: &str, value: &Value) -> Result<f64, ModelError> {
    value.as_f64().filter(|number| number.is_finite()).ok_or_else(|| wrong(key, value, "a number"))
}

pub fn wrong(key: &str, found: &Value, expected: &str) -> ModelError {
    ModelError::Value { key: key.to_owned(), found: found.to_string(), expected: expected.to_owned() }
}
