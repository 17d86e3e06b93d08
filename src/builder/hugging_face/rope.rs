//! The rotary embedding as `config.json` describes it.

use std::f64::consts::PI;

use serde_json::Value;

use super::config::{number, present, whole, wrong};
use crate::builder::architecture::{ROPE_FACTORS, ROPE_FACTORS_LONG, ROPE_FACTORS_SHORT};
use crate::builder::error::ModelError;

/// How a model tells positions apart.
pub struct Rope {
    pub base: f64,
    /// Of layers with a sliding window, where it is theirs alone.
    pub window_base: Option<f64>,
    /// The part of each head that is turned.
    part: f64,
    pub kind: Kind,
}

pub enum Kind {
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
    /// YaRN.
    Yarn {
        factor: f64,
        /// The context before stretching, in tokens.
        original: u64,
        /// Turns within it from which on a frequency stays, and up to which it is slowed by all of `factor`.
        fast: f64,
        slow: f64,
        /// What cosines and sines are multiplied by.
        magnitude: f64,
    },
    /// LongRoPE: a divisor for each frequency, other ones for contexts of more than `original` tokens.
    Long {
        short: Vec<f64>,
        long: Vec<f64>,
        original: u64,
        /// What cosines and sines are multiplied by.
        magnitude: f64,
    },
}

/// A tensor that a GGUF file has for what is numbers in `config.json`: its name, and float32 in little endian.
pub type Factors = (&'static str, Vec<u8>);

impl Rope {
    /// transformers 5 has all in `rope_parameters`, one for each kind of layer where they differ; before, all but the base
    /// was in `rope_scaling`.
    pub fn read(config: &Value) -> Result<Self, ModelError> {
        let keys = ["rope_parameters", "rope_scaling"];
        let parameters = keys.into_iter().find_map(|key| Some((key, present(config, key)?)));
        if let Some((key, found)) = parameters.filter(|(_, found)| !found.is_object()) {
            return Err(wrong(key, found, "an object, as in {\"rope_type\": \"default\"}"));
        }
        let parameters = parameters.map_or(&Value::Null, |(_, found)| found);
        let window = present(parameters, "sliding_attention");
        let parameters = present(parameters, "full_attention").unwrap_or(parameters);
        let base = |parameters: &Value, key: &str| {
            let found = present(parameters, "rope_theta").or_else(|| present(config, key));
            found.map(|base| number(key, base)).transpose()
        };
        let window = window.unwrap_or(&Value::Null);
        if let Some(kind) = rope_type(window).filter(|kind| **kind != "default") {
            return Err(wrong("rope_type", kind, "\"default\" for layers with a sliding window"));
        }
        let part = present(parameters, "partial_rotary_factor").or_else(|| present(config, "partial_rotary_factor"));
        let part = part.map_or(Ok(1.0), |part| match number("partial_rotary_factor", part)? {
            found if found > 0.0 && found <= 1.0 => Ok(found),
            _ => Err(wrong("partial_rotary_factor", part, "more than 0, at most 1")),
        })?;
        Ok(Self {
            base: base(parameters, "rope_theta")?.unwrap_or(10_000.0),
            window_base: base(window, "rope_local_base_freq")?,
            part,
            kind: kind(parameters, config)?,
        })
    }

    /// How many values of a head are turned, if not all.
    pub fn rotated(&self, config: &Value) -> Result<Option<u64>, ModelError> {
        // Sizes that make no sense are refused with all others.
        Ok(head_size(config).filter(|_| self.part < 1.0).map(|size| (size as f64 * self.part) as u64))
    }

    /// The tensors that a GGUF file would have, as llama.cpp's converter and transformers' `modeling_rope_utils` compute them.
    pub fn factors(&self, config: &Value) -> Vec<Factors> {
        let bytes = |factors: &[f64]| factors.iter().flat_map(|factor| (*factor as f32).to_le_bytes()).collect();
        match &self.kind {
            Kind::Plain | Kind::Linear { .. } | Kind::Yarn { .. } => vec![],
            Kind::Long { short, long, .. } => {
                vec![(ROPE_FACTORS_SHORT, bytes(short)), (ROPE_FACTORS_LONG, bytes(long))]
            }
            Kind::Llama3 { factor, low, high, original } => {
                let Some(head_size) = head_size(config) else { return vec![] };
                let divisor = |pair: u64| {
                    let wave = 2.0 * PI * self.base.powf(2.0 * pair as f64 / head_size as f64);
                    let turns = original / wave;
                    if turns > *high {
                        1.0
                    } else if turns < *low {
                        *factor
                    } else {
                        let smooth = (turns - low) / (high - low);
                        1.0 / ((1.0 - smooth) / factor + smooth)
                    }
                };
                vec![(ROPE_FACTORS, bytes(&(0..head_size / 2).map(divisor).collect::<Vec<_>>()))]
            }
        }
    }
}

fn head_size(config: &Value) -> Option<u64> {
    let size = |key: &str| config.get(key).and_then(Value::as_u64);
    let of_heads = || size("hidden_size")?.checked_div(size("num_attention_heads")?);
    size("head_dim").or_else(of_heads).filter(|size| *size <= 1024)
}

fn rope_type(parameters: &Value) -> Option<&Value> {
    present(parameters, "rope_type").or_else(|| present(parameters, "type"))
}

fn kind(parameters: &Value, config: &Value) -> Result<Kind, ModelError> {
    let value = |key: &'static str, least: f64| {
        let value = parameters.get(key).unwrap_or(&Value::Null);
        let found = number(key, value)?;
        if found >= least { Ok(found) } else { Err(wrong(key, value, &format!("at least {least}"))) }
    };
    let kind = rope_type(parameters);
    Ok(match kind.map(|kind| kind.as_str().unwrap_or_default()) {
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
        Some("yarn") => yarn(parameters, config)?,
        // Phi-3's first files called it "su".
        Some("longrope" | "su") => long(parameters, config)?,
        Some(_) => {
            let found = kind.unwrap_or(&Value::Null);
            let expected =
                "\"default\", \"linear\", \"llama3\", \"yarn\" or \"longrope\"; other scalings are not supported";
            return Err(wrong("rope_type", found, expected));
        }
    })
}

/// transformers' `_compute_yarn_parameters`.
fn yarn(parameters: &Value, config: &Value) -> Result<Kind, ModelError> {
    let key = "original_max_position_embeddings";
    let given = present(parameters, key).or_else(|| present(config, "max_position_embeddings"));
    let given = given.unwrap_or(&Value::Null);
    let original = match whole(key, given)? {
        0 => return Err(wrong(key, given, "at least 1")),
        original => original,
    };
    let above = |key: &str, least: f64| match present(parameters, key) {
        None => Ok(None),
        Some(value) => match number(key, value)? {
            found if found >= least => Ok(Some(found)),
            _ => Err(wrong(key, value, if least == 1.0 { "at least 1" } else { "more than 0" })),
        },
    };
    let positive = |key: &str| above(key, f64::MIN_POSITIVE);
    if let Some(truncate) = present(parameters, "truncate").filter(|truncate| **truncate != Value::Bool(true)) {
        return Err(wrong("truncate", truncate, "true: YaRN without it is not supported"));
    }
    let longest = config.get("max_position_embeddings").and_then(Value::as_f64).unwrap_or_default();
    let factor = above("factor", 1.0)?.unwrap_or_else(|| (longest / original as f64).max(1.0));
    let by = |scale: f64| 1.0 + 0.1 * scale * factor.ln();
    let magnitude = match (positive("attention_factor")?, positive("mscale")?, positive("mscale_all_dim")?) {
        (Some(magnitude), ..) => magnitude,
        (None, Some(mscale), Some(all)) => by(mscale) / by(all),
        _ => by(1.0),
    };
    let (fast, slow) = (positive("beta_fast")?.unwrap_or(32.0), positive("beta_slow")?.unwrap_or(1.0));
    Ok(Kind::Yarn { factor, original, fast, slow, magnitude })
}

/// transformers' `_compute_longrope_parameters`.
fn long(parameters: &Value, config: &Value) -> Result<Kind, ModelError> {
    let key = "original_max_position_embeddings";
    let given = present(config, key).or_else(|| present(parameters, key));
    let given = given.or_else(|| present(config, "max_position_embeddings")).unwrap_or(&Value::Null);
    let original = match whole(key, given)? {
        original if original > 1 => original,
        _ => return Err(wrong(key, given, "at least 2")),
    };
    let list = |key: &str| {
        let list = parameters.get(key).unwrap_or(&Value::Null);
        let numbers = list.as_array().map(|list| list.iter().map(|factor| number(key, factor)).collect());
        numbers.unwrap_or_else(|| Err(wrong(key, list, "a list of numbers")))
    };
    let given = |key: &str| present(parameters, key).map(|value| number(key, value)).transpose();
    let longest = config.get("max_position_embeddings").and_then(Value::as_f64).unwrap_or_default();
    let factor = given("factor")?.unwrap_or(longest / original as f64);
    let magnitude = match given("attention_factor")? {
        Some(magnitude) => magnitude,
        None if factor <= 1.0 => 1.0,
        None => (1.0 + factor.ln() / (original as f64).ln()).sqrt(),
    };
    Ok(Kind::Long { short: list("short_factor")?, long: list("long_factor")?, original, magnitude })
}
