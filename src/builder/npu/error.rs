//! Why a bundle cannot be built.

use std::path::PathBuf;

use super::graph::RangeError;
use super::laboratory::BoxedError;
use crate::builder::error::BuildError;

#[derive(Debug, thiserror::Error)]
pub enum NpuBuildError {
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error("another ortalk builds this model: it works in {}; wait for it", path.display())]
    Busy { path: PathBuf },
    #[error("--context is {found}; expected {least} to {most}, what the model was trained for")]
    Context { found: usize, least: usize, most: usize },
    #[error("--chunk is {found}; expected 2 to {most}, the context")]
    Chunk { found: usize, most: usize },
    #[error("{what} failed: {error}")]
    Laboratory { what: &'static str, error: BoxedError },
    #[error("the model cannot be quantized: {0}")]
    Range(#[from] RangeError),
    #[error(
        "{text}\nthe quantized model is not good enough: {}; build it with --precision fp16, which is not quantized",
        missed.join("; ")
    )]
    NotGood { text: String, missed: Vec<String> },
}
