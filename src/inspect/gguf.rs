//! GGUF files.

use std::path::Path;

use super::{InspectError, Inspection, Kind, Memory, Sizes, TARGETS, Target, group};
use crate::builder::gguf::{Gguf, Tensor};
use crate::builder::{BuildError, BuildOptions, Source, SourceFiles};
use crate::mapped_file::MappedFile;
use crate::model::memory::{CacheShape, LaneMemory};

/// The context that an NPU's graphs are built for where nobody says otherwise.
const NPU_CONTEXT: usize = 512;

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
    judge(&mut found, path);
    Ok(found)
}

/// Adds what the builder would say, and what the lanes would take of what it builds.
pub fn judge(found: &mut Inspection, path: &Path) {
    let check = || {
        let files = SourceFiles::open(path)?;
        let source = Source::read(&files, &BuildOptions::default())?;
        source.texts()?;
        Ok::<_, BuildError>(memory(&source))
    };
    let obstacle = match check() {
        Ok(memory) => {
            found.memory = memory;
            None
        }
        Err(error) => {
            // The path is known already.
            let message = error.to_string();
            let rest = message.strip_prefix(&path.display().to_string()).unwrap_or_default();
            Some(match (rest.strip_prefix(": "), rest.strip_prefix(' ')) {
                (Some(why), _) => why.to_owned(),
                (_, Some(what)) => format!("it {what}"),
                _ => message.clone(),
            })
        }
    };
    found.targets = TARGETS.map(|target| Target { target, obstacle: obstacle.clone() }).into();
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

/// What the lanes would take. On the CPU: matrices in 8 bits with a scale (float32) and a zero point for each 32 values; Q4_0
/// stays as it is, with a float32 scale. On the NPU: the layers' matrices in 8 bits, once for prefill and once for decode,
/// and the vocabulary's as on the CPU.
fn memory(source: &Source<'_>) -> Vec<Memory> {
    let sizes = &source.dimensions;
    let shape = CacheShape { layers: sizes.layers, kv_heads: sizes.kv_heads, head_size: sizes.head_size };
    let (of_vocabulary, of_layers): (Vec<&Tensor<'_>>, Vec<_>) =
        source.gguf.tensors().partition(|tensor| ["token_embd.weight", "output.weight"].contains(&&*tensor.name));
    let blocks = |tensors: &[&Tensor<'_>]| tensors.iter().map(|tensor| blockwise(tensor)).sum::<u64>();
    let bytes: u64 = of_layers.iter().map(|tensor| tensor.elements() as u64).sum();
    let on_cpu = LaneMemory::on_cpu(sizes.vocabulary, blocks(&of_vocabulary) + blocks(&of_layers), shape.bytes(1, 4));
    let short = sizes.context.min(NPU_CONTEXT);
    let on_npu = LaneMemory::on_npu_quantized(shape, short, sizes.vocabulary, blocks(&of_vocabulary) + 2 * bytes);
    vec![Memory::new("cpu", on_cpu, sizes.context, true), Memory::new("npu", on_npu, short, true)]
}

fn blockwise(tensor: &Tensor<'_>) -> u64 {
    let (values, blocks) = (tensor.elements() as u64, tensor.elements().div_ceil(32) as u64);
    match tensor.kind.to_string().as_str() {
        "Q4_0" => values / 2 + 4 * blocks,
        _ if tensor.shape.len() < 2 => 4 * values,
        _ => values + 5 * blocks,
    }
}
