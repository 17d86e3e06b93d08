//! What a bundle's folder holds beside its graphs.

use std::path::Path;

use super::layers::MASKED;
use super::{NpuBuildOptions, Shape};
use crate::builder::architecture::Dimensions;
use crate::builder::error::BuildError;
use crate::builder::folder::NewFolder;
use crate::builder::genai_config::Graphs;
use crate::builder::source::{Source, write_descriptions};
use crate::model::{BundleFiles, NPU_FILE, NPU_FORMAT, NpuBundle, Quantization, Sink, WindowLayers};

/// The constant keys and values of the first token.
pub const SINK_FILE: &str = "sink.bin";

/// The same in every bundle.
pub fn files() -> BundleFiles {
    BundleFiles {
        embeddings: "embeddings.onnx".to_owned(),
        prefill: "prefill.onnx".to_owned(),
        decode: "decode.onnx".to_owned(),
        lm_head: "lm_head.onnx".to_owned(),
    }
}

/// The bundle of a model, in the form that the contract has.
pub fn describe(
    source: &Source<'_>,
    options: &NpuBuildOptions,
    shape: Shape,
    sink: Option<Sink>,
    quantization: Option<Quantization>,
) -> NpuBundle {
    let dimensions = &source.dimensions;
    NpuBundle {
        format: NPU_FORMAT,
        precision: options.precision,
        target: options.target.clone(),
        context: shape.context,
        chunk: shape.chunk,
        layers: dimensions.layers,
        hidden: dimensions.hidden,
        heads: dimensions.heads,
        kv_heads: dimensions.kv_heads,
        head_size: dimensions.head_size,
        vocabulary: dimensions.vocabulary,
        rotary_frequencies: dimensions.rotary(false).frequencies.clone(),
        rotary_magnitude: dimensions.rotary(false).magnitude,
        window: dimensions.common_window(),
        window_layers: window_layers(dimensions),
        masked: MASKED,
        files: files(),
        compiled_nodes: None,
        sink,
        quantization,
    }
}

/// What layers with a window have of their own.
fn window_layers(dimensions: &Dimensions) -> Option<WindowLayers> {
    let has_own_rotary = (0..dimensions.layers).any(|layer| dimensions.has_own_rotary(layer));
    let rotary_frequencies = has_own_rotary.then(|| dimensions.rotary(true).frequencies.clone());
    let window = dimensions.own_window();
    (window.is_some() || rotary_frequencies.is_some()).then_some(WindowLayers { window, rotary_frequencies })
}

/// Writes everything but graphs and sink into a bundle's folder.
pub fn write(source: &Source<'_>, folder: &NewFolder, bundle: &NpuBundle) -> Result<(), BuildError> {
    write_descriptions(source, folder, &source.texts()?, Graphs::Bundle(bundle))?;
    write_bundle(folder.path(), bundle)
}

/// Writes the description of how the graphs are fed, over an older one.
pub fn write_bundle(folder: &Path, bundle: &NpuBundle) -> Result<(), BuildError> {
    let path = folder.join(NPU_FILE);
    let text = serde_json::to_string_pretty(bundle).unwrap_or_default();
    std::fs::write(&path, text + "\n").map_err(|error| BuildError::Write { path, error })
}
