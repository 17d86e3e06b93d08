//! What a model file or folder is, without loading its weights: sizes, quantization, graphs, and what ortalk can do with it.
//!
//! One module a format finds the facts; `text` lays them out for people. A fact that a file does not tell is left out.
//! Loading and running models is the business of `builder` and `decoder`.
//!
//! The memory that a lane needs is estimated: its weights, and the keys and values of a full context,
//! `2 * layers * kv_heads * head_size * context * bytes`, in float32 on the CPU and in 16 bits on the NPU.

mod cpu_lane;
mod folder;
mod gguf;
mod onnx;
mod safetensors;
mod text;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

pub use cpu_lane::CpuLane;

/// Everything that was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Inspection {
    pub kind: Kind,
    pub name: String,
    /// Of the file, or of all files in the folder.
    pub bytes: u64,
    pub architecture: Option<String>,
    #[serde(flatten)]
    pub sizes: Sizes,
    /// What the tokenizer is, in the format's own words.
    pub tokenizer: Option<String>,
    /// Whether there is one; `None` of what never has one.
    pub chat_template: Option<bool>,
    pub weights: Vec<Weights>,
    pub graphs: Vec<Graph>,
    /// What an NPU bundle is built for.
    pub built_for: Option<String>,
    /// How a folder of ours was built: "cpu-int4-32".
    pub recipe: Option<String>,
    /// Of a model folder for the CPU.
    pub cpu_lane: Option<CpuLane>,
    pub targets: Vec<Target>,
    pub memory: Vec<Memory>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Gguf,
    Safetensors,
    Onnx,
    /// An ONNX file around a graph that is compiled already.
    EpContext,
    ModelFolder,
    /// A folder as transformers.js has them.
    Optimum,
    /// A model folder for an NPU.
    NpuBundle,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Sizes {
    pub layers: Option<u64>,
    pub hidden: Option<u64>,
    pub feed_forward: Option<u64>,
    pub heads: Option<u64>,
    pub kv_heads: Option<u64>,
    pub head_size: Option<u64>,
    pub vocabulary: Option<u64>,
    /// The longest sequence, in tokens.
    pub context: Option<u64>,
}

/// The tensors of one type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Weights {
    pub r#type: String,
    pub tensors: u64,
    pub values: u64,
    /// `None` where the type's size is not known.
    pub bytes: Option<u64>,
}

/// One ONNX file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Graph {
    pub file: String,
    /// Name and version of the program that wrote it.
    pub producer: Option<String>,
    /// By domain; ONNX's own is "ai.onnx".
    pub opsets: BTreeMap<String, i64>,
    pub nodes: u64,
    pub inputs: Vec<Port>,
    pub outputs: Vec<Port>,
    pub weights: Vec<Weights>,
    pub contexts: Vec<Context>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Port {
    pub name: String,
    /// Element type and sizes, names for those that differ: "float32 [1, tokens, 576]".
    pub r#type: String,
}

/// A graph that is compiled already.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Context {
    /// The execution provider that made it.
    pub provider: Option<String>,
    pub sdk: Option<String>,
    /// File of the binary; `None` where it is inside the ONNX file.
    pub binary: Option<String>,
    pub binary_bytes: Option<u64>,
    /// What the provider wrote of the chips that it is for.
    pub chips: Option<String>,
}

/// Whether `ortalk build` makes a folder for this target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Target {
    pub target: &'static str,
    /// What stands in the way.
    pub obstacle: Option<String>,
}

/// What a lane takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Memory {
    pub lane: &'static str,
    pub weights: u64,
    /// Whether `weights` is computed from the types, not the size of files.
    pub estimated: bool,
    /// Of a full context.
    pub keys_and_values: u64,
    pub context: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    #[error("'{}' cannot be read: {error}", path.display())]
    Read { path: PathBuf, error: std::io::Error },
    #[error("'{}' {what}", path.display())]
    Wrong { path: PathBuf, what: String },
    #[error(
        "'{}' is nothing that ortalk knows; expected a .gguf, .safetensors or .onnx file, or a folder with genai_config.json, \
         with config.json and onnx/model*.onnx, or with .safetensors files", .0.display()
    )]
    Unknown(PathBuf),
}

/// Finds out what `path` is and reads what it says of itself.
pub fn inspect(path: &Path) -> Result<Inspection, InspectError> {
    let metadata = std::fs::metadata(path).map_err(|error| InspectError::Read { path: path.into(), error })?;
    if metadata.is_dir() {
        return folder::inspect(path);
    }
    let extension = path.extension().map(|extension| extension.to_string_lossy().to_lowercase());
    match extension.as_deref() {
        Some("gguf") => gguf::inspect(path),
        Some("safetensors") => safetensors::inspect(path, &[path.to_owned()]),
        Some("onnx") => folder::graph_alone(path),
        _ => Err(InspectError::Unknown(path.into())),
    }
}

impl Inspection {
    fn new(kind: Kind, path: &Path, bytes: u64) -> Self {
        let name = path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into());
        Self {
            kind,
            name,
            bytes,
            architecture: None,
            sizes: Sizes::default(),
            tokenizer: None,
            chat_template: None,
            weights: Vec::new(),
            graphs: Vec::new(),
            built_for: None,
            recipe: None,
            cpu_lane: None,
            targets: Vec::new(),
            memory: Vec::new(),
        }
    }

    /// Nothing can be built, for one reason.
    fn not_a_source(mut self, obstacle: &str) -> Self {
        self.targets = TARGETS.map(|target| Target { target, obstacle: Some(obstacle.to_owned()) }).into();
        self
    }
}

const TARGETS: [&str; 2] = ["cpu", "npu"];

impl Sizes {
    /// Bytes of the keys and values of `context` tokens, a number of so many bytes each.
    fn keys_and_values(&self, context: u64, number: u64) -> Option<u64> {
        let factors = [2, self.layers?, self.kv_heads?, self.head_size?, context, number];
        factors.into_iter().try_fold(1, u64::checked_mul)
    }
}

/// Groups tensors by type, the largest group first.
fn group(tensors: impl Iterator<Item = (String, u64, Option<u64>)>) -> Vec<Weights> {
    let mut groups: BTreeMap<String, Weights> = BTreeMap::new();
    for (name, values, bytes) in tensors {
        let empty = || Weights { r#type: name.clone(), tensors: 0, values: 0, bytes: Some(0) };
        let group = groups.entry(name.clone()).or_insert_with(empty);
        group.tensors += 1;
        group.values = group.values.saturating_add(values);
        group.bytes = group.bytes.zip(bytes).and_then(|(sum, bytes)| sum.checked_add(bytes));
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.values));
    groups
}

#[cfg(test)]
mod tests;
