//! What a decoder in one graph takes and gives, found in the graph and not in what its folder claims: which inputs there
//! are, in which types, and whether its cache can be updated in place.

use ort::value::TensorElementType;

use super::outline::{GraphOutline, GraphPort};
use crate::model::{DecoderConfig, ModelConfig};

/// The optional input of graphs built here that names the positions whose logits are wanted.
const LOGITS_INDEX: &str = "logits_index";

/// The input of graphs exported from transformers that says of how many positions, counted from the end, logits are wanted.
const KEPT_LOGITS: [&str; 2] = ["num_logits_to_keep", "logits_to_keep"];

/// The input of two graphs that were merged into one: bool `[1]`, whether there is a past.
const CACHE_BRANCH: &str = "use_cache_branch";

/// Larger sizes than those of any model would only exhaust the machine.
const LARGEST_SIZE: usize = 1 << 16;

#[derive(Debug, Clone, PartialEq)]
pub struct Contract {
    /// `[1, tokens]`
    pub input_ids: Integers,
    /// Ones, `[1, tokens so far]`.
    pub attention_mask: Option<Integers>,
    /// `[1, tokens]`
    pub position_ids: Option<Integers>,
    pub logits: Logits,
    /// How it is told which logits are wanted.
    pub wanted: Wanted,
    /// The input that says whether there is a past.
    pub cache_branch: Option<String>,
    /// Keys and values, in the order of the graph's inputs.
    pub cache: Vec<CachePort>,
    pub kind: CacheKind,
    /// Several sequences may come in one pass: no input is declared for one alone.
    pub several_sequences: bool,
}

/// An input of integers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Integers {
    pub name: String,
    /// Int64 or int32.
    pub element: TensorElementType,
}

/// `[1, positions, vocabulary]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logits {
    pub name: String,
    /// Float32, float16 or bfloat16.
    pub element: TensorElementType,
    /// Only the last position's are given, whatever comes in.
    pub last_only: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// Not at all: those of all positions come, or of the last one.
    Given,
    /// By the indices of positions, int64 `[positions]`.
    Index(String),
    /// By their number, counted from the end.
    Last(Integers, Rank),
}

/// Of the input that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rank {
    Scalar,
    One,
}

/// The keys or the values of one layer: `[1, heads, tokens, width]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachePort {
    pub past: String,
    pub present: String,
    /// Float32, float16 or bfloat16.
    pub element: TensorElementType,
    pub heads: usize,
    pub width: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheKind {
    /// The past may have room for more tokens than there are, and the present may be the same buffer.
    Shared,
    /// The past is as long as the tokens so far, and the present is another buffer.
    Growing,
}

impl CacheKind {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Shared => "one buffer, updated in place",
            Self::Growing => "grows with each pass",
        }
    }
}

impl Contract {
    /// The error is for people: "has the input 'pixel_values', ...".
    pub fn of(graph: &GraphOutline, model: &ModelConfig) -> Result<Self, String> {
        let config = &model.decoder;
        let names = &config.inputs;
        let cache = cache(graph, config)?;
        let optional = |name: &str| graph.inputs.iter().find(|port| port.name == name);
        let known = |port: &GraphPort| {
            [&names.input_ids, &names.attention_mask, &names.position_ids].contains(&&port.name)
                || KEPT_LOGITS.contains(&port.name.as_str())
                || port.name == CACHE_BRANCH
                || cache.iter().any(|cache| cache.past == port.name)
        };
        if let Some(unknown) = graph.inputs.iter().find(|port| !known(port)) {
            return Err(why_unknown(&unknown.name));
        }
        let input_ids = optional(&names.input_ids)
            .ok_or_else(|| format!("has no input '{}', so it takes no tokens", names.input_ids))?;
        if let Some(branch) = optional(CACHE_BRANCH)
            && branch.element != Some(TensorElementType::Bool)
        {
            return Err(format!("takes '{CACHE_BRANCH}' as {}; expected bool [1]", branch.kind()));
        }
        Ok(Self {
            input_ids: integers(input_ids, &[2])?,
            attention_mask: optional(&names.attention_mask).map(|port| integers(port, &[2])).transpose()?,
            position_ids: optional(&names.position_ids).map(|port| integers(port, &[2])).transpose()?,
            logits: logits(graph, &config.outputs.logits, model.vocab_size)?,
            wanted: wanted(graph)?,
            cache_branch: optional(CACHE_BRANCH).map(|port| port.name.clone()),
            kind: kind(graph, &cache),
            several_sequences: graph.inputs.iter().all(|port| port.shape.len() < 2 || port.shape[0].is_none()),
            cache,
        })
    }

    /// The bytes that the keys and values of one token take: twice, where past and present are two tensors.
    pub fn token_bytes(&self) -> usize {
        let port = |port: &CachePort| {
            let number = if port.element == TensorElementType::Float32 { 4 } else { 2 };
            number * port.heads * port.width
        };
        let once: usize = self.cache.iter().map(port).sum();
        if self.kind == CacheKind::Growing { 2 * once } else { once }
    }

    /// The names of the inputs that are fed, beside the cache.
    pub fn fed(&self) -> Vec<&str> {
        let integers = [Some(&self.input_ids), self.attention_mask.as_ref(), self.position_ids.as_ref()];
        let wanted = match &self.wanted {
            Wanted::Given => None,
            Wanted::Index(name) => Some(name.as_str()),
            Wanted::Last(input, _) => Some(input.name.as_str()),
        };
        let integers = integers.into_iter().flatten().map(|input| input.name.as_str());
        integers.chain(wanted).chain(self.cache_branch.as_deref()).collect()
    }
}

/// The keys and values that the graph has, whatever number of layers its configuration claims: layers may share theirs.
fn cache(graph: &GraphOutline, config: &DecoderConfig) -> Result<Vec<CachePort>, String> {
    let patterns = [
        (&config.inputs.past_key_names, &config.outputs.present_key_names),
        (&config.inputs.past_value_names, &config.outputs.present_value_names),
    ];
    let mut found = Vec::new();
    for port in &graph.inputs {
        let of = |(past, present): (&String, _)| Some((present, layer(past, &port.name)?));
        let Some((present, layer)) = patterns.into_iter().find_map(of) else { continue };
        let present = present.replacen("%d", layer, 1);
        if !graph.outputs.iter().any(|output| output.name == present) {
            return Err(format!("takes the cache '{}', but gives no '{present}' for the next pass", port.name));
        }
        found.push(cache_port(port, present, config)?);
    }
    if found.is_empty() {
        let (keys, values) = (&config.inputs.past_key_names, &config.inputs.past_value_names);
        return Err(format!(
            "has no inputs '{keys}' and '{values}' (%d is a layer): a graph without a cache would compute all tokens anew \
             for each one; export it with its cache"
        ));
    }
    Ok(found)
}

fn cache_port(port: &GraphPort, present: String, config: &DecoderConfig) -> Result<CachePort, String> {
    let name = &port.name;
    let element = match port.element {
        Some(TensorElementType::Float32 | TensorElementType::Float16 | TensorElementType::Bfloat16) => port.element,
        Some(TensorElementType::Int8 | TensorElementType::Uint8 | TensorElementType::Float8E4M3FN) => {
            return Err(format!(
                "keeps its cache '{name}' quantized, as {}; only float caches run here: export it with a float one",
                port.kind()
            ));
        }
        _ => None,
    };
    let wrong = || {
        format!(
            "takes its cache '{name}' as {}; expected float32, float16 or bfloat16 [1, heads, tokens, width]",
            port.kind()
        )
    };
    let element = element.ok_or_else(wrong)?;
    let &[batch, heads, length, width] = port.shape.as_slice() else { return Err(wrong()) };
    if batch.is_some_and(|batch| batch != 1) {
        return Err(wrong());
    }
    if let Some(length) = length {
        return Err(format!(
            "takes its cache '{name}' with a fixed length of {length} tokens; the CPU lane needs one that may differ"
        ));
    }
    // What the graph leaves open is the configuration's to say.
    let (heads, width) = (heads.unwrap_or(config.num_key_value_heads), width.unwrap_or(config.head_size));
    if !(1..=LARGEST_SIZE).contains(&heads) || !(1..=LARGEST_SIZE).contains(&width) {
        return Err(format!("has a cache '{name}' of {heads} heads of {width} values; no model's is so large"));
    }
    Ok(CachePort { past: name.clone(), present, element, heads, width })
}

/// The layer in a name that follows a pattern with `%d`.
fn layer<'n>(pattern: &str, name: &'n str) -> Option<&'n str> {
    let (before, behind) = pattern.split_once("%d")?;
    let layer = name.strip_prefix(before)?.strip_suffix(behind)?;
    (!layer.is_empty() && layer.bytes().all(|byte| byte.is_ascii_digit())).then_some(layer)
}

/// GroupQueryAttention writes behind the tokens that its mask counts, in place where past and present are one buffer. Any
/// other operator that sees the past (Concat and Shape in exports from PyTorch) takes all of it for tokens, and what
/// happens in a graph within a node is not known.
fn kind(graph: &GraphOutline, cache: &[CachePort]) -> CacheKind {
    let nested = graph.nodes.iter().any(|node| ["If", "Loop", "Scan"].contains(&node.operator.as_str()));
    let in_place = |port: &CachePort| {
        let mut takers = graph.takers(&port.past).peekable();
        takers.peek().is_some() && takers.all(|node| node.operator == "GroupQueryAttention")
    };
    if !nested && cache.iter().all(in_place) { CacheKind::Shared } else { CacheKind::Growing }
}

fn integers(port: &GraphPort, ranks: &[usize]) -> Result<Integers, String> {
    match port.element {
        Some(element @ (TensorElementType::Int64 | TensorElementType::Int32)) if ranks.contains(&port.shape.len()) => {
            Ok(Integers { name: port.name.clone(), element })
        }
        _ if port.shape.len() == 3 && port.name.contains("position") => Err(format!(
            "takes '{}' as {}: positions in several dimensions are for images (a vision-language model)",
            port.name,
            port.kind()
        )),
        _ => Err(format!(
            "takes '{}' as {}; expected int64 or int32 of {} dimensions",
            port.name,
            port.kind(),
            ranks.iter().map(usize::to_string).collect::<Vec<_>>().join(" or ")
        )),
    }
}

fn wanted(graph: &GraphOutline) -> Result<Wanted, String> {
    if graph.optional_inputs.iter().any(|port| port.name == LOGITS_INDEX) {
        return Ok(Wanted::Index(LOGITS_INDEX.to_owned()));
    }
    let Some(port) = graph.inputs.iter().find(|port| KEPT_LOGITS.contains(&port.name.as_str())) else {
        return Ok(Wanted::Given);
    };
    let rank = if port.shape.is_empty() { Rank::Scalar } else { Rank::One };
    Ok(Wanted::Last(integers(port, &[0, 1])?, rank))
}

/// One row of logits must have the vocabulary's size, or rows would be cut at the wrong places.
fn logits(graph: &GraphOutline, name: &str, vocabulary: usize) -> Result<Logits, String> {
    let port = graph
        .outputs
        .iter()
        .find(|port| port.name == name)
        .ok_or_else(|| format!("has no output '{name}', so it gives no logits"))?;
    let float = [TensorElementType::Float32, TensorElementType::Float16, TensorElementType::Bfloat16];
    let element = port.element.filter(|element| float.contains(element) && port.shape.len() == 3);
    let element = element.ok_or_else(|| {
        format!("gives '{name}' as {}; expected float32, float16 or bfloat16 [1, positions, vocabulary]", port.kind())
    })?;
    if port.shape[2].is_some_and(|size| size != vocabulary) {
        return Err(format!(
            "gives logits as {}, but its configuration says vocab_size {vocabulary}; the last size must be that",
            port.kind()
        ));
    }
    Ok(Logits { name: name.to_owned(), element, last_only: port.shape[1] == Some(1) })
}

/// What an input that is not known is likely to be for.
fn why_unknown(name: &str) -> String {
    let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    let why = if has(&["encoder"]) {
        "an encoder's output: this is the decoder of an encoder-decoder model, and only decoders by themselves run here"
    } else if has(&["inputs_embeds"]) {
        "embeddings instead of tokens: its embeddings are in another graph, as in vision-language models, which do not run \
         here"
    } else if has(&["pixel", "image", "audio", "input_features"]) {
        "images or sound: only text runs here"
    } else if has(&["conv", "ssm", "recurrent", "state"]) {
        "a recurrent state: only models whose layers keep keys and values run here"
    } else if has(&["block_table", "slot_mapping", "cumulative"]) {
        "a paged cache: only contiguous caches run here"
    } else if has(&["past", "cache", "scale"]) {
        "part of a cache of a kind that does not run here"
    } else {
        "not known here"
    };
    format!("has the input '{name}', which is {why}")
}

#[cfg(test)]
mod tests;
