//! The model builder: reads a checkpoint (a GGUF file, or a folder of Hugging Face's) and writes a model folder in
//! onnxruntime-genai's layout.
//!
//! `gguf` and `blocks` read the one, `hugging_face` and `safetensors` the other; `source` makes them one. `architecture` says
//! what the model is; `decoder_graph` writes its nodes through `graph`, its matrices through `precision`, `repack`, `weights` and
//! `matrices`; `tokenizer` and `genai_config` write the rest of the folder.
//! This module puts them in order and makes sure that a folder is there as a whole or not at all.

mod architecture;
mod blocks;
mod built;
mod cache;
mod decoder_graph;
mod error;
mod folder;
mod genai_config;
pub mod gguf;
mod graph;
mod hugging_face;
mod matrices;
pub mod npu;
mod precision;
mod repack;
pub mod safetensors;
mod source;
#[cfg(test)]
pub mod testing;
#[cfg(test)]
mod tests;
mod tokenizer;
mod weights;

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::json;

use folder::NewFolder;
use genai_config::Graphs;
use graph::{DataFile, GraphWriter, Opset};

use crate::model::BUILD_FILE;
pub use built::{Built, built, built_named, leftovers, remove_built};
pub use cache::{Step, cached, cached_npu, find_cached, find_npu};

pub use blocks::TensorType;
pub use source::{Source, SourceFiles, is_checkpoint, name};

pub use error::{BuildError, ModelError};
pub use genai_config::SamplingDefaults;
pub use gguf::GgufError;
pub use hugging_face::check_config;
pub use precision::{CpuPrecision, FourBits};

/// The graph's file in a model folder.
const MODEL_FILE: &str = "model.onnx";
/// The weights' file beside it.
const DATA_FILE: &str = "model.onnx.data";

/// What may be chosen when building.
#[derive(Debug, Clone, Default)]
pub struct BuildOptions {
    /// Defaults for sampling; without them those of the file (`general.sampling.*`), or moderate ones.
    pub sampling: Option<SamplingDefaults>,
    /// What the model is called on screen; without it, the file's name.
    pub name: Option<String>,
    /// The longest sequence, in tokens; without it, the longest that the model was trained for.
    pub context: Option<usize>,
    /// Of the matrices, for the CPU; an NPU's build has its own.
    pub precision: CpuPrecision,
}

/// What the builder is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildStage {
    /// Another process builds the same model into the cache.
    Waiting,
    /// Reading the file's header, keys and vocabulary.
    Reading,
    /// Converting and writing weights.
    Weights,
    /// Writing the graph, and waiting for the disk.
    Graph,
    /// Writing tokenizer and configuration.
    Tokenizer,
}

/// How far the builder has come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BuildProgress {
    pub stage: BuildStage,
    /// Of this stage, from 0 to 1.
    pub fraction: f32,
}

/// What was built.
#[derive(Debug, Clone, PartialEq)]
pub struct BuildReport {
    pub folder: PathBuf,
    /// `general.architecture` of the file.
    pub architecture: String,
    /// What it is called on screen.
    pub model: String,
    pub parameters: u64,
    pub nodes: usize,
    /// Bytes of the graph and its weights.
    pub bytes: u64,
    pub seconds: f64,
}

/// Builds a model folder for the CPU from a GGUF file or a checkpoint folder.
///
/// `output` must not exist or be an empty folder; it appears whole, by a rename, when everything is written.
pub fn build(
    source: &Path,
    output: &Path,
    options: &BuildOptions,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<BuildReport, BuildError> {
    let started = Instant::now();
    let mut at = |stage, fraction| progress(BuildProgress { stage, fraction });
    at(BuildStage::Reading, 0.0);
    let files = SourceFiles::open(source)?;
    let model = Source::read(&files, options)?;
    let texts = model.texts()?;
    let folder = NewFolder::create(output)?;
    at(BuildStage::Reading, 1.0);

    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let of_data = |error| BuildError::Write { path: folder.path().join(DATA_FILE), error };
    let data = DataFile::create(folder.path(), DATA_FILE).map_err(of_data)?;
    let mut graph = GraphWriter::new(model.architecture.name, Opset::V21, data);
    let mut weights = |fraction| at(BuildStage::Weights, fraction);
    decoder_graph::write(&model, options.precision, &mut graph, threads, &mut weights)
        .map_err(|error| model.not_stored(error, &folder.path().join(DATA_FILE)))?;
    at(BuildStage::Graph, 0.0);
    let nodes = graph.node_count();
    graph
        .finish(folder.path(), MODEL_FILE)
        .map_err(|error| BuildError::Write { path: folder.path().join(MODEL_FILE), error })?;
    let bytes = folder.sizes()?.values().sum();
    at(BuildStage::Graph, 1.0);

    at(BuildStage::Tokenizer, 0.0);
    source::write_descriptions(&model, &folder, &texts, Graphs::One(MODEL_FILE))?;
    let mut origin = model.origin(&options.precision.recipe());
    origin["files"] = json!(folder.sizes()?);
    folder.write_json(BUILD_FILE, &origin)?;
    folder.publish()?;
    at(BuildStage::Tokenizer, 1.0);

    Ok(BuildReport {
        folder: output.to_owned(),
        architecture: model.architecture.name.to_owned(),
        parameters: model.parameters(),
        model: model.name,
        nodes,
        bytes,
        seconds: started.elapsed().as_secs_f64(),
    })
}
