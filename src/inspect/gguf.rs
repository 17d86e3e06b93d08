//! GGUF files.

use std::path::Path;

use super::{InspectError, Inspection, Kind, Memory, Sizes, TARGETS, Target, group};
use crate::builder::gguf::{Gguf, Tensor};
use crate::builder::{BuildOptions, Source, SourceFiles};
use crate::mapped_file::MappedFile;

/// The context that an NPU's graphs are built for where nobody says otherwise.
const NPU_CONTEXT: u64 = 512;

pub fn inspect(path: &Path) -> Result<Inspection, InspectError> {
    let file = MappedFile::open(path).map_err(|error| InspectError::Read { path: path.into(), error })?;
    let gguf = Gguf::parse(&file).map_err(|error| InspectError::Wrong {
        path: path.into(),
        what: format!("is damaged, or of a kind that is not read: {error}"),
    })?;
    let mut found = Inspection::new(Kind::Gguf, path, file.len() as u64);
    let text = |key: &str| gguf.string(key).ok().flatten();
    found.architecture = text("general.architecture").map(str::to_owned);
    found.sizes = sizes(&gguf, found.architecture.as_deref().unwrap_or_default());
    let tokenizer = [text("tokenizer.ggml.model"), text("tokenizer.ggml.pre")];
    found.tokenizer =
        Some(tokenizer.into_iter().flatten().collect::<Vec<_>>().join(", ")).filter(|text| !text.is_empty());
    found.chat_template = Some(text("tokenizer.chat_template").is_some());
    let tensor =
        |tensor: &Tensor<'_>| (tensor.kind.to_string(), tensor.elements() as u64, Some(tensor.bytes.len() as u64));
    found.weights = group(gguf.tensors().map(tensor));
    let obstacle = obstacle(path);
    found.targets = TARGETS.map(|target| Target { target, obstacle: obstacle.clone() }).into();
    found.memory = [on_cpu(&gguf, &found.sizes), on_npu(&gguf, &found.sizes)].into_iter().flatten().collect();
    Ok(found)
}

/// What the builder would say.
pub fn obstacle(path: &Path) -> Option<String> {
    let check = || Source::read(&SourceFiles::open(path)?, &BuildOptions::default())?.texts();
    let error = check().err()?;
    // The path is known already.
    let message = error.to_string();
    let start = format!("{}: ", path.display());
    Some(message.strip_prefix(&start).unwrap_or(&message).to_owned())
}

/// What the keys say, whether the architecture is known or not.
fn sizes(gguf: &Gguf<'_>, architecture: &str) -> Sizes {
    let key = |name: &str| gguf.unsigned(&format!("{architecture}.{name}")).ok().flatten();
    let hidden = key("embedding_length");
    let heads = key("attention.head_count");
    let of_heads = || hidden?.checked_div(heads?);
    Sizes {
        layers: key("block_count"),
        hidden,
        feed_forward: key("feed_forward_length"),
        heads,
        kv_heads: key("attention.head_count_kv").or(heads),
        head_size: key("attention.key_length").or_else(of_heads),
        vocabulary: gguf.tensor("token_embd.weight").and_then(|tensor| Some(*tensor.shape.get(1)? as u64)),
        context: key("context_length"),
    }
}

/// Matrices in 8 bits with a scale (float32) and a zero point for each 32 values; Q4_0 stays as it is, with a float32 scale.
fn on_cpu(gguf: &Gguf<'_>, sizes: &Sizes) -> Option<Memory> {
    let weights = gguf.tensors().map(blockwise).sum();
    let context = sizes.context?;
    let keys_and_values = sizes.keys_and_values(context, 4)?;
    Some(Memory { lane: "cpu", weights, estimated: true, keys_and_values, context })
}

/// The layers' matrices in 8 bits, once for prefill and once for decode, and the vocabulary's as on the CPU.
fn on_npu(gguf: &Gguf<'_>, sizes: &Sizes) -> Option<Memory> {
    let is_vocabulary = |tensor: &&Tensor<'_>| ["token_embd.weight", "output.weight"].contains(&&*tensor.name);
    let vocabulary: u64 = gguf.tensors().filter(is_vocabulary).map(blockwise).sum();
    let layers: u64 =
        gguf.tensors().filter(|tensor| !is_vocabulary(tensor)).map(|tensor| tensor.elements() as u64).sum();
    let context = sizes.context?.min(NPU_CONTEXT);
    let keys_and_values = sizes.keys_and_values(context, 2)?;
    Some(Memory { lane: "npu", weights: vocabulary + 2 * layers, estimated: true, keys_and_values, context })
}

fn blockwise(tensor: &Tensor<'_>) -> u64 {
    let (values, blocks) = (tensor.elements() as u64, tensor.elements().div_ceil(32) as u64);
    match tensor.kind.to_string().as_str() {
        "Q4_0" => values / 2 + 4 * blocks,
        _ if tensor.shape.len() < 2 => 4 * values,
        _ => values + 5 * blocks,
    }
}
