//! What distinguishes one model architecture from another in a GGUF file, and a model's sizes.
//!
//! A new architecture of the same family is one more row in `ARCHITECTURES`. Tensor and key names are those of
//! llama.cpp's converter (`gguf-py/gguf/constants.py`). `decoder_graph` turns the description into nodes.

use super::error::ModelError;
use super::gguf::{Gguf, GgufError};
use super::repack::BLOCK;

/// What differs between decoder-only architectures with RMS norms, grouped-query attention, rotary position embedding
/// and a gated MLP with SiLU.
#[derive(Debug, PartialEq, Eq)]
pub struct Architecture {
    /// `general.architecture`, and the prefix of its keys.
    pub name: &'static str,
    /// `model.type` in genai_config.json.
    pub genai_type: &'static str,
    /// The query, key and value projections, as `blk.N.<name>`, in the order that packed attention wants.
    pub query_key_value: [Projection; 3],
    /// The gate and up projections in this order.
    pub gate_up: [&'static str; 2],
    /// Whether the projections into attention may have biases.
    pub biases: bool,
    /// Ends of the names of tensors that carry nothing: tables that are computed here.
    pub ignored: &'static [&'static str],
}

/// One projection into attention.
#[derive(Debug, PartialEq, Eq)]
pub struct Projection {
    pub tensor: &'static str,
    pub heads: Heads,
    /// llama.cpp's converter stores the rows of each head so that rotary embedding turns neighbours (0, 1), (2, 3), …;
    /// the attention operator turns halves (0, d/2), (1, d/2 + 1), …, as the checkpoint was trained.
    pub interleaved: bool,
    /// The weight of an RMS norm over each head, before the rotation, as `blk.N.<name>`.
    pub norm: Option<&'static str>,
}

impl Projection {
    /// The size of a head where the rows of each head's halves must be put back.
    pub fn interleaved_head(&self, gguf: &Gguf<'_>, head_size: usize) -> Option<usize> {
        (self.interleaved && gguf.is_converted()).then_some(head_size)
    }
}

/// Whose heads a projection makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heads {
    Query,
    KeyValue,
}

const fn projection(tensor: &'static str, heads: Heads, interleaved: bool) -> Projection {
    Projection { tensor, heads, interleaved, norm: None }
}

/// Every architecture that can be built.
pub static ARCHITECTURES: &[Architecture] = &[
    Architecture {
        name: "llama",
        genai_type: "llama",
        query_key_value: [
            projection("attn_q", Heads::Query, true),
            projection("attn_k", Heads::KeyValue, true),
            projection("attn_v", Heads::KeyValue, false),
        ],
        gate_up: ["ffn_gate", "ffn_up"],
        biases: true,
        ignored: &[".attn_rot_embd", ".rotary_emb.inv_freq"],
    },
    Architecture {
        name: "qwen2",
        genai_type: "qwen2",
        query_key_value: [
            projection("attn_q", Heads::Query, false),
            projection("attn_k", Heads::KeyValue, false),
            projection("attn_v", Heads::KeyValue, false),
        ],
        gate_up: ["ffn_gate", "ffn_up"],
        biases: true,
        ignored: &[".rotary_emb.inv_freq"],
    },
    Architecture {
        name: "qwen3",
        genai_type: "qwen3",
        query_key_value: [
            Projection { norm: Some("attn_q_norm"), ..projection("attn_q", Heads::Query, false) },
            Projection { norm: Some("attn_k_norm"), ..projection("attn_k", Heads::KeyValue, false) },
            projection("attn_v", Heads::KeyValue, false),
        ],
        gate_up: ["ffn_gate", "ffn_up"],
        biases: false,
        ignored: &[".rotary_emb.inv_freq"],
    },
];

/// The known architectures' names, for messages.
pub fn names() -> String {
    ARCHITECTURES.iter().map(|architecture| architecture.name).collect::<Vec<_>>().join(", ")
}

/// Refuses one of several files that make a model together: what its keys and tensors lack is in the others.
pub fn refuse_parts(gguf: &Gguf<'_>) -> Result<(), ModelError> {
    let (count, index) = ("split.count", "split.no");
    match gguf.unsigned(count)? {
        Some(parts) if parts > 1 => {
            let part = gguf.unsigned(index)?.unwrap_or(0).saturating_add(1);
            let expected = format!("1: this is part {part}; join the parts with llama.cpp's llama-gguf-split --merge");
            Err(ModelError::Value { key: count.to_owned(), found: parts.to_string(), expected })
        }
        _ => Ok(()),
    }
}

/// The description of the architecture that the file says it has.
pub fn of(gguf: &Gguf<'_>) -> Result<&'static Architecture, ModelError> {
    let found = required(gguf.string("general.architecture")?, "general.architecture")?;
    ARCHITECTURES.iter().find(|architecture| architecture.name == found).ok_or_else(|| ModelError::Architecture {
        key: "general.architecture",
        found: found.to_owned(),
        known: names(),
    })
}

/// A model's sizes, checked against each other.
#[derive(Debug, Clone, PartialEq)]
pub struct Dimensions {
    pub layers: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    pub feed_forward: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_size: usize,
    /// Rows of the embedding.
    pub vocabulary: usize,
    /// The longest sequence, in tokens.
    pub context: usize,
    pub norm_epsilon: f32,
    /// Radians per position for each of the head's `head_size / 2` rotated pairs.
    pub rotary_frequencies: Vec<f64>,
}

/// More tokens than any model of today reads; the tables of cosines and sines grow with it.
const LONGEST_CONTEXT: u64 = 1 << 20;

impl Dimensions {
    pub fn read(gguf: &Gguf<'_>, architecture: &Architecture) -> Result<Self, ModelError> {
        let keys = Keys { gguf, prefix: architecture.name };
        let layers = keys.size("block_count")?;
        let hidden = keys.blocks("embedding_length")?;
        let feed_forward = keys.blocks("feed_forward_length")?;
        let heads = keys.size("attention.head_count")?;
        let kv_heads = match keys.optional_size("attention.head_count_kv")? {
            Some(kv_heads) if heads.is_multiple_of(kv_heads) => kv_heads,
            Some(kv_heads) => {
                return Err(keys.bad("attention.head_count_kv", kv_heads, format!("a divisor of the {heads} heads")));
            }
            None => heads,
        };
        let head_size = match keys.optional_size("attention.key_length")? {
            Some(size) => size,
            None if hidden.is_multiple_of(heads) => hidden / heads,
            None => {
                return Err(keys.bad("attention.head_count", heads, format!("a divisor of the hidden size {hidden}")));
            }
        };
        // What the attention operator's rotary embedding asks for; the upper bound keeps products far from overflow.
        if !head_size.is_multiple_of(16) || head_size > 1024 {
            return Err(keys.bad("attention.key_length", head_size, "a multiple of 16, at most 1024".to_owned()));
        }
        // The output projection's weights run along all heads.
        if !(heads * head_size).is_multiple_of(BLOCK) {
            let expected = format!("heads of {head_size} that have a multiple of {BLOCK} values together");
            return Err(keys.bad("attention.head_count", heads, expected));
        }
        for key in ["attention.value_length", "rope.dimension_count"] {
            if let Some(size) = keys.optional_size(key)?.filter(|size| *size != head_size) {
                return Err(keys.bad(key, size, format!("{head_size}, the size of a head")));
            }
        }
        if let Some(experts) = gguf.unsigned(&keys.name("expert_count"))?.filter(|experts| *experts > 0) {
            return Err(keys.bad("expert_count", experts, "0: mixtures of experts are not supported".to_owned()));
        }
        let context = keys.unsigned("context_length")?;
        if context == 0 || context > LONGEST_CONTEXT {
            return Err(keys.bad("context_length", context, format!("1 to {LONGEST_CONTEXT}")));
        }
        let window = gguf.unsigned(&keys.name("attention.sliding_window"))?;
        if let Some(window) = window.filter(|window| (1..context).contains(window)) {
            let expected = format!("none: sliding windows shorter than the context of {context} are not supported");
            return Err(keys.bad("attention.sliding_window", window, expected));
        }
        let epsilon_key = "attention.layer_norm_rms_epsilon";
        let norm_epsilon = required(gguf.float(&keys.name(epsilon_key))?, &keys.name(epsilon_key))?;
        if !(0.0..1.0).contains(&norm_epsilon) {
            return Err(keys.bad(epsilon_key, norm_epsilon, "0 to 1".to_owned()));
        }
        let embedding = find_tensor(gguf, EMBEDDING)?;
        if embedding.shape.len() != 2 || embedding.shape[0] != hidden {
            let expected = vec![hidden, embedding.shape.get(1).copied().unwrap_or_default()];
            let tensor = EMBEDDING.to_owned();
            return Err(ModelError::TensorShape { tensor, found: embedding.shape.clone(), expected });
        }
        Ok(Self {
            layers,
            hidden,
            feed_forward,
            heads,
            kv_heads,
            head_size,
            vocabulary: embedding.shape[1],
            context: context as usize,
            norm_epsilon: norm_epsilon as f32,
            rotary_frequencies: rotary_frequencies(&keys, head_size)?,
        })
    }

    /// How many heads such a projection makes.
    pub fn head_count(&self, heads: Heads) -> usize {
        match heads {
            Heads::Query => self.heads,
            Heads::KeyValue => self.kv_heads,
        }
    }
}

/// Names of the tensors that every architecture has outside its layers.
pub const EMBEDDING: &str = "token_embd.weight";
pub const OUTPUT_NORM: &str = "output_norm.weight";
/// Absent where the embedding is the output projection, too.
pub const OUTPUT: &str = "output.weight";
/// Per-pair divisors of the rotary frequencies (Llama 3.1 and later).
pub const ROPE_FACTORS: &str = "rope_freqs.weight";

/// `base^(-2 i / d)` for pair i, divided by the file's own factors where it has them (Su et al., 2021, and llama.cpp's
/// `ggml_rope_ext`), and by the linear scaling factor.
fn rotary_frequencies(keys: &Keys<'_, '_>, head_size: usize) -> Result<Vec<f64>, ModelError> {
    let gguf = keys.gguf;
    let base = gguf.float(&keys.name("rope.freq_base"))?.unwrap_or(10_000.0);
    if base < 1.0 {
        return Err(keys.bad("rope.freq_base", base, "at least 1".to_owned()));
    }
    let scaling = gguf.string(&keys.name("rope.scaling.type"))?.unwrap_or("linear");
    let scale = match gguf.float(&keys.name("rope.scaling.factor"))? {
        Some(factor) => Some(factor),
        None => gguf.float(&keys.name("rope.scale_linear"))?,
    };
    let scale = match (scaling, scale) {
        ("none", _) | ("linear", None) => 1.0,
        // llama.cpp reads 0 as "not set".
        ("linear", Some(0.0)) => 1.0,
        ("linear", Some(factor)) if factor >= 1.0 => factor,
        ("linear", Some(factor)) => return Err(keys.bad("rope.scaling.factor", factor, "at least 1".to_owned())),
        (other, _) => {
            let expected =
                "\"none\" or \"linear\"; other scalings of the rotary embedding are not supported".to_owned();
            return Err(keys.bad("rope.scaling.type", format!("{other:?}"), expected));
        }
    };
    let pairs = head_size / 2;
    let mut factors = vec![1.0; pairs];
    if let Some(tensor) = gguf.tensor(ROPE_FACTORS) {
        if tensor.shape != [pairs] {
            let (tensor, found) = (ROPE_FACTORS.to_owned(), tensor.shape.clone());
            return Err(ModelError::TensorShape { tensor, found, expected: vec![pairs] });
        }
        tensor.kind.dequantize(tensor.bytes, &mut factors);
        if let Some(bad) = factors.iter().find(|factor| !factor.is_finite() || **factor <= 0.0) {
            return Err(ModelError::Value {
                key: ROPE_FACTORS.to_owned(),
                found: bad.to_string(),
                expected: "finite values above 0".to_owned(),
            });
        }
    }
    Ok((0..pairs)
        .map(|pair| base.powf(-2.0 * pair as f64 / head_size as f64) / f64::from(factors[pair]) / scale)
        .collect())
}

/// Refuses a file with tensors that find no use here, as its model computes something that the graph would not, and one
/// that lacks tensors: better now than when half of the weights are converted.
pub fn check_tensors(gguf: &Gguf<'_>, architecture: &'static Architecture, layers: usize) -> Result<(), ModelError> {
    let mut unknown =
        gguf.tensors().filter(|tensor| !architecture.knows(&tensor.name, layers)).map(|tensor| &*tensor.name);
    if let Some(first) = unknown.next() {
        let (architecture, first, others) = (architecture.name, first.to_owned(), unknown.count());
        return Err(ModelError::UnknownTensors { architecture, first, others });
    }
    for name in [EMBEDDING, OUTPUT_NORM] {
        find_tensor(gguf, name)?;
    }
    for layer in 0..layers {
        for part in architecture.layer_parts() {
            find_tensor(gguf, &format!("blk.{layer}.{part}.weight"))?;
        }
    }
    Ok(())
}

impl Architecture {
    /// The weights that each layer has.
    fn layer_parts(&self) -> impl Iterator<Item = &'static str> {
        let projections = self.query_key_value.iter().map(|projection| projection.tensor);
        let others = ["attn_norm", "attn_output", "ffn_norm", "ffn_down"];
        projections.chain(self.head_norms()).chain(self.gate_up).chain(others)
    }

    /// The norms of single heads, as `blk.N.<name>`.
    pub fn head_norms(&self) -> impl Iterator<Item = &'static str> {
        self.query_key_value.iter().filter_map(|projection| projection.norm)
    }

    /// Whether a tensor of this name finds its place in a model with so many layers, or carries nothing.
    fn knows(&self, tensor: &str, layers: usize) -> bool {
        let (name, is_bias) = match tensor.rsplit_once('.') {
            Some((name, "weight")) => (name, false),
            Some((name, "bias")) => (name, true),
            _ => (tensor, false),
        };
        if self.ignored.iter().any(|end| name.ends_with(end)) {
            return true;
        }
        let in_layer = name.strip_prefix("blk.").and_then(|rest| rest.split_once('.'));
        let Some((layer, part)) = in_layer else {
            return [EMBEDDING, OUTPUT_NORM, OUTPUT, ROPE_FACTORS].contains(&tensor);
        };
        let projects = part == "attn_output" || self.query_key_value.iter().any(|projection| projection.tensor == part);
        let known = match is_bias {
            true => self.biases && projects,
            false => self.layer_parts().any(|known| known == part),
        };
        known && tensor != name && layer.parse().is_ok_and(|layer: usize| layer < layers)
    }
}

pub fn find_tensor<'t, 'a>(gguf: &'t Gguf<'a>, name: &str) -> Result<&'t super::gguf::Tensor<'a>, ModelError> {
    gguf.tensor(name).ok_or_else(|| ModelError::MissingTensor { tensor: name.to_owned() })
}

fn required<T>(value: Option<T>, key: &str) -> Result<T, GgufError> {
    value.ok_or_else(|| GgufError::MissingKey { key: key.to_owned() })
}

/// The keys of one architecture.
struct Keys<'g, 'a> {
    gguf: &'g Gguf<'a>,
    prefix: &'static str,
}

impl Keys<'_, '_> {
    fn name(&self, key: &str) -> String {
        format!("{}.{key}", self.prefix)
    }

    fn bad(&self, key: &str, found: impl ToString, expected: String) -> ModelError {
        ModelError::Value { key: self.name(key), found: found.to_string(), expected }
    }

    fn unsigned(&self, key: &str) -> Result<u64, ModelError> {
        let name = self.name(key);
        Ok(required(self.gguf.unsigned(&name)?, &name)?)
    }

    /// A size that multiplies with others: from 1 to 2^24, so that no product of two overflows.
    fn bounded(&self, key: &str, found: u64) -> Result<usize, ModelError> {
        match usize::try_from(found) {
            Ok(size) if (1..=1 << 24).contains(&size) => Ok(size),
            _ => Err(self.bad(key, found, format!("1 to {}", 1 << 24))),
        }
    }

    fn size(&self, key: &str) -> Result<usize, ModelError> {
        self.bounded(key, self.unsigned(key)?)
    }

    fn optional_size(&self, key: &str) -> Result<Option<usize>, ModelError> {
        self.gguf.unsigned(&self.name(key))?.map(|found| self.bounded(key, found)).transpose()
    }

    /// A size that weights run along.
    fn blocks(&self, key: &str) -> Result<usize, ModelError> {
        let size = self.size(key)?;
        if size.is_multiple_of(BLOCK) { Ok(size) } else { Err(self.bad(key, size, format!("a multiple of {BLOCK}"))) }
    }
}
