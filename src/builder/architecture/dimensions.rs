//! A model's sizes and numbers, checked against each other.

use super::keys::Keys;
use super::rotary::{Rotaries, Rotary};
use super::{Architecture, EMBEDDING, Heads, find_tensor, required};
use crate::builder::error::ModelError;
use crate::builder::gguf::Gguf;
use crate::builder::repack::BLOCK;

/// What two models of one architecture may differ in.
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
    /// The longest sequence of the graphs that are built, in tokens; at first, the longest that the model was trained for.
    pub context: usize,
    pub norm_epsilon: f32,
    /// What embeddings are multiplied by.
    pub embedding_scale: Option<f32>,
    /// What the products of queries and keys are multiplied by.
    pub score_scale: f64,
    /// c, where scores s, times their scale, become c * tanh(s / c).
    pub score_softcap: Option<f32>,
    /// The same of logits.
    pub logit_softcap: Option<f32>,
    pub sliding: Option<Sliding>,
    rotaries: Rotaries,
}

/// Layers in which a token sees only the last ones before it.
#[derive(Debug, Clone, PartialEq)]
pub struct Sliding {
    /// How many tokens a token sees, itself among them.
    pub window: usize,
    /// Which layers have the window.
    pub layers: Vec<bool>,
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
        let head_size = head_size(&keys, hidden, heads)?;
        if let Some(experts) = gguf.unsigned(&keys.name("expert_count"))?.filter(|experts| *experts > 0) {
            return Err(keys.bad("expert_count", experts, "0: mixtures of experts are not supported".to_owned()));
        }
        let context = keys.unsigned("context_length")?;
        if context == 0 || context > LONGEST_CONTEXT {
            return Err(keys.bad("context_length", context, format!("1 to {LONGEST_CONTEXT}")));
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
        let scored = if architecture.layers_scored_by_width == Some(layers) { hidden / heads } else { head_size };
        let softcap = |key: &str| Ok::<_, ModelError>(keys.positive(key)?.map(|cap| cap as f32));
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
            embedding_scale: architecture.scaled_embedding.then(|| (hidden as f64).sqrt() as f32),
            score_scale: keys.positive("attention.scale")?.unwrap_or(1.0 / (scored as f64).sqrt()),
            score_softcap: softcap("attn_logit_softcapping")?,
            logit_softcap: softcap("final_logit_softcapping")?,
            sliding: sliding(&keys, layers, architecture.window_period)?,
            rotaries: Rotaries::read(&keys, head_size, architecture.window_rope_base)?,
        })
    }

    /// Makes graphs for sequences of at most so many tokens; says how many there may be where these are too few or too many.
    pub fn limit_context(&mut self, context: usize) -> Result<(), usize> {
        if !(2..=self.context).contains(&context) {
            return Err(self.context);
        }
        self.context = context;
        Ok(())
    }

    /// How many heads such a projection makes.
    pub fn head_count(&self, heads: Heads) -> usize {
        match heads {
            Heads::Query => self.heads,
            Heads::KeyValue => self.kv_heads,
        }
    }

    /// How many tokens a token sees in this layer, itself among them, where that are fewer than all.
    pub fn window(&self, layer: usize) -> Option<usize> {
        let sliding = self.sliding.as_ref().filter(|sliding| sliding.layers[layer]);
        sliding.map(|sliding| sliding.window).filter(|window| *window < self.context)
    }

    /// The window of all layers, where they have the same.
    pub fn common_window(&self) -> Option<usize> {
        (0..self.layers).all(|layer| self.window(layer).is_some()).then(|| self.window(0)).flatten()
    }

    /// The window of those layers that see less than others.
    pub fn own_window(&self) -> Option<usize> {
        let window = (0..self.layers).find_map(|layer| self.window(layer));
        window.filter(|_| self.common_window().is_none())
    }

    /// Whether this layer's rotary embedding is not that of others.
    pub fn has_own_rotary(&self, layer: usize) -> bool {
        self.rotaries.of_windows_differs()
            && self.sliding.as_ref().is_some_and(|sliding| sliding.layers[layer] && sliding.layers.contains(&false))
    }

    /// The rotary embedding of most layers, or that of those which have their own.
    pub fn rotary(&self, own: bool) -> &Rotary {
        let all_slide = self.sliding.as_ref().is_some_and(|sliding| !sliding.layers.contains(&false));
        self.rotaries.of(own || all_slide, self.context)
    }
}

fn head_size(keys: &Keys<'_, '_>, hidden: usize, heads: usize) -> Result<usize, ModelError> {
    let head_size = match keys.optional_size("attention.key_length")? {
        Some(size) => size,
        None if hidden.is_multiple_of(heads) => hidden / heads,
        None => {
            return Err(keys.bad("attention.head_count", heads, format!("a divisor of the hidden size {hidden}")));
        }
    };
    // What the attention operator's rotary embedding asks for; the upper bound keeps products far from overflow.
    if !head_size.is_multiple_of(16) || head_size > 1024 {
        return Err(keys.bad(
            "attention.key_length",
            head_size,
            "a multiple of 16, at most 1024: the attention kernels turn no others".to_owned(),
        ));
    }
    // The output projection's weights run along all heads.
    if !(heads * head_size).is_multiple_of(BLOCK) {
        let expected =
            format!("heads of {head_size} that have a multiple of {BLOCK} values together: matrices lie in blocks");
        return Err(keys.bad("attention.head_count", heads, expected));
    }
    if let Some(size) = keys.optional_size("attention.value_length")?.filter(|size| *size != head_size) {
        return Err(keys.bad("attention.value_length", size, format!("{head_size}, the size of a head")));
    }
    Ok(head_size)
}

/// The window, and the layers that have it.
fn sliding(keys: &Keys<'_, '_>, layers: usize, period: usize) -> Result<Option<Sliding>, ModelError> {
    // llama.cpp reads 0 as "none".
    let window = keys.gguf.unsigned(&keys.name("attention.sliding_window"))?.filter(|window| *window > 0);
    let Some(window) = window.map(|window| usize::try_from(window).unwrap_or(usize::MAX)) else { return Ok(None) };
    let pattern = "attention.sliding_window_pattern";
    let key = keys.name(pattern);
    let listed = match keys.gguf.unsigned(&key) {
        Ok(period) => Err(period.and_then(|period| usize::try_from(period).ok())),
        // Not a number, so there must be a list.
        Err(_) => Ok(keys.gguf.booleans(&key)?.unwrap_or_default()),
    };
    let layers = match listed {
        Ok(listed) if listed.len() == layers => listed,
        Ok(listed) => {
            let found = format!("a list of {}", listed.len());
            return Err(keys.bad(pattern, found, format!("a period, or one value for each of the {layers} layers")));
        }
        Err(given) => {
            let period = given.unwrap_or(period);
            (0..layers).map(|layer| period == 0 || layer % period < period - 1).collect()
        }
    };
    Ok(Some(Sliding { window, layers }))
}
