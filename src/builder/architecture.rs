//! What distinguishes one model architecture from another.
//!
//! A new architecture of the same family is one more row in `ARCHITECTURES`. Tensor and key names are those of
//! llama.cpp's converter (`gguf-py/gguf/constants.py`). What differs between two models of one architecture is in
//! `dimensions`, how they tell positions apart in `rotary`. `decoder_graph` and `npu::layers` turn all of it into nodes.

mod dimensions;
mod keys;
mod rotary;
#[cfg(test)]
mod tests;

use super::error::ModelError;
use super::gguf::{Gguf, GgufError};

pub use dimensions::Dimensions;
pub use rotary::{ROPE_FACTORS, ROPE_FACTORS_LONG, ROPE_FACTORS_SHORT, Rotary};

/// What differs between decoder-only architectures with RMS norms, grouped-query attention, rotary position embedding
/// and a gated MLP.
#[derive(Debug, PartialEq)]
pub struct Architecture {
    /// `general.architecture`, and the prefix of its keys.
    pub name: &'static str,
    /// `model.type` in genai_config.json.
    pub genai_type: &'static str,
    /// The query, key and value projections, as `blk.N.<name>`, in the order that packed attention wants.
    pub query_key_value: [Projection; 3],
    /// The gate and up projections in this order.
    pub gate_up: [&'static str; 2],
    /// Matrices that files have in place of several of these.
    pub fused: &'static [Fused],
    /// What the gate's values go through.
    pub activation: Activation,
    /// Whether the projections into attention may have biases.
    pub biases: bool,
    /// The norms of what attention and MLP add to the residual stream, as `blk.N.<name>`.
    pub branch_norms: [Option<&'static str>; 2],
    /// Whether checkpoints have the norms' weights less 1. llama.cpp's converter adds it.
    pub norms_around_one: bool,
    /// Whether embeddings are multiplied by the square root of their width.
    pub scaled_embedding: bool,
    /// In a model with a sliding window, where its file does not say which layers have it: of so many layers all but the
    /// last; 0 where all have it.
    pub window_period: usize,
    /// Where layers with a window have a rotary embedding of their own: its base, unless the file has another one.
    pub window_rope_base: Option<f64>,
    /// A model of so many layers divides scores by the square root of hidden / heads, where its file does not say by what.
    /// (llama.cpp's converter leaves it out, and its loader knows the one such model by its layers.)
    pub layers_scored_by_width: Option<usize>,
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

/// Several matrices in one tensor, one below the other, as `blk.N.<name>`.
#[derive(Debug, PartialEq, Eq)]
pub struct Fused {
    pub tensor: &'static str,
    pub parts: &'static [&'static str],
}

/// The function of a gated MLP: down(activation(gate) * up).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// x * sigmoid(x).
    Silu,
    /// x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x³))) (Hendrycks and Gimpel, 2016).
    GeluTanh,
}

impl Projection {
    /// The size of a head where the rows of each head's halves must be put back.
    pub fn interleaved_head(&self, gguf: &Gguf<'_>, head_size: usize) -> Option<usize> {
        (self.interleaved && gguf.is_converted()).then_some(head_size)
    }

    const fn interleaved(self) -> Self {
        Self { interleaved: true, ..self }
    }

    const fn normed(self, norm: &'static str) -> Self {
        Self { norm: Some(norm), ..self }
    }
}

/// Whose heads a projection makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heads {
    Query,
    KeyValue,
}

const fn projection(tensor: &'static str, heads: Heads) -> Projection {
    Projection { tensor, heads, interleaved: false, norm: None }
}

const QUERY: Projection = projection("attn_q", Heads::Query);
const KEY: Projection = projection("attn_k", Heads::KeyValue);
const VALUE: Projection = projection("attn_v", Heads::KeyValue);

/// What most architectures have in common; nothing is called so.
const PLAIN: Architecture = Architecture {
    name: "",
    genai_type: "",
    query_key_value: [QUERY, KEY, VALUE],
    gate_up: ["ffn_gate", "ffn_up"],
    fused: &[],
    activation: Activation::Silu,
    biases: false,
    branch_norms: [None, None],
    norms_around_one: false,
    scaled_embedding: false,
    window_period: 0,
    window_rope_base: None,
    layers_scored_by_width: None,
    ignored: &[".rotary_emb.inv_freq"],
};

/// Every architecture that can be built.
pub static ARCHITECTURES: &[Architecture] = &[
    // Llama 2 and 3, SmolLM2, Mistral.
    Architecture {
        name: "llama",
        genai_type: "llama",
        query_key_value: [QUERY.interleaved(), KEY.interleaved(), VALUE],
        biases: true,
        ignored: &[".attn_rot_embd", ".rotary_emb.inv_freq"],
        ..PLAIN
    },
    Architecture { name: "qwen2", genai_type: "qwen2", biases: true, ..PLAIN },
    Architecture {
        name: "qwen3",
        genai_type: "qwen3",
        query_key_value: [QUERY.normed("attn_q_norm"), KEY.normed("attn_k_norm"), VALUE],
        ..PLAIN
    },
    Architecture {
        name: "gemma3",
        genai_type: "gemma3_text",
        query_key_value: [QUERY.normed("attn_q_norm"), KEY.normed("attn_k_norm"), VALUE],
        activation: Activation::GeluTanh,
        branch_norms: [Some("post_attention_norm"), Some("post_ffw_norm")],
        norms_around_one: true,
        scaled_embedding: true,
        window_period: 6,
        window_rope_base: Some(10_000.0),
        layers_scored_by_width: Some(62),
        ..PLAIN
    },
    Architecture {
        name: "phi3",
        genai_type: "phi3",
        fused: &[
            Fused { tensor: "attn_qkv", parts: &["attn_q", "attn_k", "attn_v"] },
            Fused { tensor: "ffn_up", parts: &["ffn_gate", "ffn_up"] },
        ],
        ..PLAIN
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
    named(found).ok_or_else(|| ModelError::Architecture {
        key: "general.architecture",
        found: found.to_owned(),
        known: names(),
    })
}

/// The architecture of this name.
pub fn named(name: &str) -> Option<&'static Architecture> {
    ARCHITECTURES.iter().find(|architecture| architecture.name == name)
}

/// Names of the tensors that every architecture has outside its layers.
pub const EMBEDDING: &str = "token_embd.weight";
pub const OUTPUT_NORM: &str = "output_norm.weight";
/// Absent where the embedding is the output projection, too.
pub const OUTPUT: &str = "output.weight";

/// Cuts the matrices that hold several into their parts, so that all that follows knows one form of each architecture.
pub fn split_fused(
    gguf: &mut Gguf<'_>,
    architecture: &Architecture,
    dimensions: &Dimensions,
) -> Result<(), ModelError> {
    for layer in 0..dimensions.layers {
        for Fused { tensor, parts } in architecture.fused {
            let name = |part: &str| format!("blk.{layer}.{part}.weight");
            let rows = parts.iter().map(|part| (name(part), architecture.rows(part, dimensions))).collect::<Vec<_>>();
            let Some(found) = gguf.tensor(&name(tensor)) else { continue };
            let expected: usize = rows.iter().map(|(_, rows)| rows).sum();
            match *found.shape.as_slice() {
                [_, all] if all == expected => gguf.split(&name(tensor), &rows),
                // A file may have the parts, one of which has the name of all.
                [_, one] if rows.contains(&(name(tensor), one)) => {}
                _ => {
                    let (found, expected) = (found.shape.clone(), vec![dimensions.hidden, expected]);
                    return Err(ModelError::TensorShape { tensor: name(tensor), found, expected });
                }
            }
        }
    }
    Ok(())
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
        let branch_norms = self.branch_norms.into_iter().flatten();
        projections.chain(self.head_norms()).chain(self.gate_up).chain(others).chain(branch_norms)
    }

    /// The rows of a matrix into attention or into the MLP.
    fn rows(&self, part: &str, dimensions: &Dimensions) -> usize {
        let projection = self.query_key_value.iter().find(|projection| projection.tensor == part);
        projection.map_or(dimensions.feed_forward, |projection| {
            dimensions.head_count(projection.heads) * dimensions.head_size
        })
    }

    /// Whether a tensor of this name is the weight of a norm.
    pub fn is_norm(&self, tensor: &str) -> bool {
        let part = tensor.strip_suffix(".weight").and_then(|name| name.rsplit('.').next()).unwrap_or_default();
        let mut others = self.head_norms().chain(self.branch_norms.into_iter().flatten());
        tensor == OUTPUT_NORM || ["attn_norm", "ffn_norm"].contains(&part) || others.any(|norm| norm == part)
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
            let rope = [ROPE_FACTORS, ROPE_FACTORS_LONG, ROPE_FACTORS_SHORT];
            return [EMBEDDING, OUTPUT_NORM, OUTPUT].contains(&tensor) || rope.contains(&tensor);
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
