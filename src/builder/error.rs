//! Why a model folder cannot be built. Each message quotes what was found and says what was expected.

use std::io;
use std::path::PathBuf;

use super::gguf::GgufError;
use super::safetensors::SafetensorsError;

#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error("cannot read {}: {error}", path.display())]
    Read { path: PathBuf, error: io::Error },
    #[error("cannot write {}: {error}", path.display())]
    Write { path: PathBuf, error: io::Error },
    #[error("cannot write into the folder {}: {error}; give another --output", path.display())]
    Parent { path: PathBuf, error: io::Error },
    #[error("{} exists and is not an empty folder; give another --output, or remove it", path.display())]
    OutputExists { path: PathBuf },
    #[error("{}: {error}", path.display())]
    Gguf { path: PathBuf, error: GgufError },
    #[error("{} {error}", path.display())]
    Safetensors { path: PathBuf, error: SafetensorsError },
    #[error("{} {problem}", path.display())]
    Checkpoint { path: PathBuf, problem: String },
    #[error("--context is {found}; expected 2 to {most}, the longest sequence that the model was trained for")]
    Context { found: usize, most: usize },
    #[error("{}: {error}", path.display())]
    Model { path: PathBuf, error: ModelError },
}

/// Why a well-formed checkpoint cannot become a model folder.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ModelError {
    #[error(transparent)]
    Gguf(#[from] GgufError),
    #[error("key {key:?} is {found:?}, expected one of those that can be built: {known}")]
    Architecture { key: &'static str, found: String, known: String },
    #[error("key {key:?} is {found}, expected {expected}")]
    Value { key: String, found: String, expected: String },
    #[error("tensor {tensor:?} is missing; the file is incomplete or not of this architecture")]
    MissingTensor { tensor: String },
    #[error("tensor {tensor:?} has the shape {found:?}, expected {expected:?}")]
    TensorShape { tensor: String, found: Vec<usize>, expected: Vec<usize> },
    #[error("tensor {tensor:?} has the type {found}, expected F32, F16 or BF16")]
    TensorType { tensor: String, found: String },
    #[error("tensor {tensor:?} has {found} bytes, which does not fit its shape {shape:?}; the file is damaged")]
    TensorBytes { tensor: String, shape: Vec<usize>, found: usize },
    #[error("tensor {tensor:?} holds a value that is not finite; the file is damaged")]
    NotFinite { tensor: String },
    #[error("tensor {tensor:?} holds a value beyond float16's 65504; give --precision fp32")]
    BeyondFloat16 { tensor: String },
    #[error(
        "tensor {first:?}{} has no place in the architecture {architecture:?} as it is known here; leaving it out would \
         give wrong answers, use a model without it",
        if *others == 0 { String::new() } else { format!(" (with {others} others)") }
    )]
    UnknownTensors { architecture: &'static str, first: String, others: usize },
    #[error("the tokenizer {key} is {found:?}, which is not known; known are: {known}")]
    TokenizerKind { key: &'static str, found: String, known: String },
    #[error("the vocabulary has {tokens} tokens, but the embedding has only {rows} rows")]
    VocabularySize { tokens: usize, rows: usize },
    #[error("token {id} of the vocabulary ({name}) is {found:?}: {problem}")]
    Token { id: usize, name: &'static str, found: String, problem: String },
    #[error("merge {index} of the vocabulary is {found:?}: {problem}")]
    Merge { index: usize, found: String, problem: String },
}
