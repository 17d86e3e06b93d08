//! Rotary position embedding (Su et al., 2021): by which angles a model turns pairs of a head's values.

use std::f64::consts::TAU;

use super::keys::Keys;
use crate::builder::error::ModelError;
use crate::builder::gguf::Gguf;

/// Divisors of the frequencies, one for each pair (Llama 3.1 and later).
pub const ROPE_FACTORS: &str = "rope_freqs.weight";
/// The same for contexts that are longer than the model's original one, and for all others (LongRoPE: Ding et al., 2024).
pub const ROPE_FACTORS_LONG: &str = "rope_factors_long.weight";
pub const ROPE_FACTORS_SHORT: &str = "rope_factors_short.weight";

/// How a layer's queries and keys are turned.
#[derive(Debug, Clone, PartialEq)]
pub struct Rotary {
    /// Radians per position. Pair i is values i and i + n of a head, for n frequencies; what lies behind 2 n stays.
    pub frequencies: Vec<f64>,
    /// What the turned values are multiplied by.
    pub magnitude: f64,
}

/// All that a model may have of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Rotaries {
    plain: Rotary,
    /// For contexts of more tokens than this.
    long: Option<(usize, Rotary)>,
    /// Of layers with a window.
    window: Option<Rotary>,
}

impl Rotaries {
    /// `window_base` is that of layers with a window, where they have a base of their own.
    pub fn read(keys: &Keys<'_, '_>, head_size: usize, window_base: Option<f64>) -> Result<Self, ModelError> {
        let rotated = keys.optional_size("rope.dimension_count")?.unwrap_or(head_size);
        // What the attention operator asks for.
        if rotated > head_size || !rotated.is_multiple_of(16) {
            let (found, expected) =
                (format!("{rotated} values of each head"), format!("a multiple of 16, at most {head_size}"));
            return Err(keys.bad("rope.dimension_count", found, expected));
        }
        let base = base(keys, "rope.freq_base", 10_000.0)?;
        let scale = linear_scale(keys)?;
        let rotary = |base: f64, scale: f64, factors: Option<Vec<f32>>, magnitude: f64| {
            let factor = |pair: usize| factors.as_ref().map_or(1.0, |factors| f64::from(factors[pair]));
            let frequency = |pair: usize| base.powf(-2.0 * pair as f64 / rotated as f64) / factor(pair) / scale;
            Rotary { frequencies: (0..rotated / 2).map(frequency).collect(), magnitude }
        };
        let factors = |name: &str| factors(keys.gguf, name, rotated / 2);
        let yarn = Yarn::read(keys)?;
        let magnitude = keys.positive("rope.scaling.attn_factor")?.unwrap_or(1.0);
        let magnitude = magnitude * yarn.as_ref().map_or(1.0, Yarn::magnitude);
        let by_yarn = yarn.map(|yarn| (0..rotated / 2).map(|pair| yarn.divisor(pair, base, rotated) as f32).collect());
        let (plain, long) = match (factors(ROPE_FACTORS_SHORT)?, factors(ROPE_FACTORS_LONG)?) {
            (short, Some(long)) => {
                let original = keys.size("rope.scaling.original_context_length")?;
                let [short, long] = [short, Some(long)].map(|factors| rotary(base, scale, factors, magnitude));
                (short, Some((original, long)))
            }
            (short, None) => (rotary(base, scale, short.or(factors(ROPE_FACTORS)?).or(by_yarn), magnitude), None),
        };
        let window = match window_base {
            // What scales the others does not scale these.
            Some(default) => Some(rotary(self::base(keys, "rope.freq_base_swa", default)?, 1.0, None, 1.0)),
            None => None,
        };
        Ok(Self { plain, long, window })
    }

    /// That of a layer, with a window or without, in a graph for sequences of so many tokens.
    ///
    /// LongRoPE has two tables, and the cache holds keys that were turned by one of them; so it is one for all sequences
    /// of a graph, chosen by the longest that it takes, as llama.cpp does.
    pub fn of(&self, has_window: bool, context: usize) -> &Rotary {
        match (&self.window, &self.long) {
            (Some(window), _) if has_window => window,
            (_, Some((original, long))) if context > *original => long,
            _ => &self.plain,
        }
    }

    /// Whether layers with a window have their own.
    pub fn of_windows_differs(&self) -> bool {
        self.window.is_some()
    }
}

/// YaRN (Peng et al., 2023), as transformers and llama.cpp compute it: pairs that turn often within the original context keep
/// their frequency, those that make less than a turn are slowed by the whole factor, and those between by a part.
struct Yarn {
    factor: f64,
    /// The context before stretching, in tokens.
    original: f64,
    /// Turns within the original context from which on a frequency stays, and up to which it is slowed by all.
    fast: f64,
    slow: f64,
}

impl Yarn {
    fn read(keys: &Keys<'_, '_>) -> Result<Option<Self>, ModelError> {
        if keys.gguf.string(&keys.name("rope.scaling.type"))? != Some("yarn") {
            return Ok(None);
        }
        let factor = match keys.gguf.float(&keys.name("rope.scaling.factor"))? {
            Some(factor) if factor >= 1.0 => factor,
            found => {
                let found = found.map_or("missing".to_owned(), |factor| factor.to_string());
                return Err(keys.bad("rope.scaling.factor", found, "at least 1".to_owned()));
            }
        };
        let original = match keys.optional_size("rope.scaling.original_context_length")? {
            Some(original) => original,
            None => keys.size("context_length")?,
        };
        let turns = |key: &str, default| Ok::<_, ModelError>(keys.positive(key)?.unwrap_or(default));
        let (fast, slow) = (turns("rope.scaling.yarn_beta_fast", 32.0)?, turns("rope.scaling.yarn_beta_slow", 1.0)?);
        Ok(Some(Self { factor, original: original as f64, fast, slow }))
    }

    /// What a pair's frequency is divided by, of so many values that are turned.
    fn divisor(&self, pair: usize, base: f64, rotated: usize) -> f64 {
        let pair_with = |turns: f64| rotated as f64 * (self.original / (turns * TAU)).ln() / (2.0 * base.ln());
        let first = pair_with(self.fast).floor().max(0.0);
        let last = pair_with(self.slow).ceil().min(rotated as f64 - 1.0);
        let ramp = (pair as f64 - first) / (last - first).max(0.001);
        // Where the base is 1 it is no number.
        let slowed = if ramp > 0.0 { ramp.min(1.0) } else { 0.0 };
        1.0 / (slowed / self.factor + 1.0 - slowed)
    }

    /// What the turned values are multiplied by.
    fn magnitude(&self) -> f64 {
        1.0 + 0.1 * self.factor.ln()
    }
}

fn base(keys: &Keys<'_, '_>, key: &str, default: f64) -> Result<f64, ModelError> {
    match keys.gguf.float(&keys.name(key))?.unwrap_or(default) {
        base if base < 1.0 => Err(keys.bad(key, base, "at least 1".to_owned())),
        base => Ok(base),
    }
}

/// What all frequencies are divided by.
fn linear_scale(keys: &Keys<'_, '_>) -> Result<f64, ModelError> {
    let gguf = keys.gguf;
    let scaling = gguf.string(&keys.name("rope.scaling.type"))?.unwrap_or("linear");
    let scale = match gguf.float(&keys.name("rope.scaling.factor"))? {
        Some(factor) => Some(factor),
        None => gguf.float(&keys.name("rope.scale_linear"))?,
    };
    match (scaling, scale) {
        ("none" | "longrope" | "yarn", _) | ("linear", None) => Ok(1.0),
        // llama.cpp reads 0 as "not set".
        ("linear", Some(0.0)) => Ok(1.0),
        ("linear", Some(factor)) if factor >= 1.0 => Ok(factor),
        ("linear", Some(factor)) => Err(keys.bad("rope.scaling.factor", factor, "at least 1".to_owned())),
        (other, _) => {
            let expected =
                "\"none\", \"linear\", \"yarn\" or \"longrope\"; other scalings of the rotary embedding are \
                            not supported"
                    .to_owned();
            Err(keys.bad("rope.scaling.type", format!("{other:?}"), expected))
        }
    }
}

/// A tensor with a divisor for each pair.
fn factors(gguf: &Gguf<'_>, name: &str, pairs: usize) -> Result<Option<Vec<f32>>, ModelError> {
    let Some(tensor) = gguf.tensor(name) else { return Ok(None) };
    if tensor.shape != [pairs] {
        let (tensor, found) = (name.to_owned(), tensor.shape.clone());
        return Err(ModelError::TensorShape { tensor, found, expected: vec![pairs] });
    }
    let mut factors = vec![1.0; pairs];
    tensor.kind.dequantize(tensor.bytes, &mut factors);
    match factors.iter().find(|factor| !factor.is_finite() || **factor <= 0.0) {
        Some(bad) => Err(ModelError::Value {
            key: name.to_owned(),
            found: bad.to_string(),
            expected: "finite values above 0".to_owned(),
        }),
        None => Ok(Some(factors)),
    }
}
