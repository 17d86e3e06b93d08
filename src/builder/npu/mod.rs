//! The builder's NPU target: from a GGUF file to a bundle as `model::NpuBundle` describes it.
//!
//! `layers` says what the decoder computes, as a static `graph`; `float` and `quantized` write it as ONNX, `ends` the parts
//! that run on the CPU. This module runs the stages one after the other; each leaves a folder or a file behind, from which
//! the next one and a later run go on.

mod float;
pub mod graph;
mod layers;
mod operators;
mod quantized;
mod weights;

use std::path::PathBuf;

use crate::model::NpuBundle;
use graph::StaticGraph;

/// The decoder as float32 graphs: a whole bundle by the contract, without quantization and not compiled, with float32 ends.
/// It is calibrated on, it is the reference of the quality report, and compiled it is the bundle in fp16.
#[derive(Debug, Clone)]
pub struct FloatGraphs {
    /// A model folder: graphs, weights, tokenizer, template, genai_config.json, ortalk_npu.json.
    pub folder: PathBuf,
    pub bundle: NpuBundle,
    pub prefill: ObservedGraph,
    pub decode: ObservedGraph,
}

/// A graph beside the bundle's that computes the same, with one output more for each of `graph.observed()` that is not an
/// input or output already, of its name and shape (float32).
#[derive(Debug, Clone)]
pub struct ObservedGraph {
    pub file: PathBuf,
    pub graph: StaticGraph,
}

/// What calibration runs the float graphs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CalibrationData {
    /// Text, with the keys and values that it makes, behind the sink where there is one.
    Text,
    /// Random numbers, as generic tools do: what the quality report compares with.
    Random,
}

/// What the stages leave to others: running graphs, and compiling them.
///
/// Folders are bundles by the contract; `float.folder` and those of `judge` hold graphs that run on the CPU.
pub trait Laboratory {
    fn calibrate(
        &self,
        float: &FloatGraphs,
        data: CalibrationData,
        progress: &mut dyn FnMut(f32),
    ) -> Result<graph::Ranges, BoxedError>;

    /// Compares quantized bundles with the float one, on text that calibration has not seen. The first of them is what is
    /// built; the others stand beside it in the report. The report as it is recorded, and whether it is good enough.
    fn judge(
        &self,
        float: &FloatGraphs,
        candidates: &[(CalibrationData, PathBuf)],
        progress: &mut dyn FnMut(f32),
    ) -> Result<Verdict, BoxedError>;

    /// Makes a context binary and its wrapper, `output`, of a graph.
    fn compile(
        &self,
        model: &std::path::Path,
        output: &std::path::Path,
        target: &crate::model::NpuTarget,
    ) -> Result<(), BoxedError>;
}

pub type BoxedError = Box<dyn std::error::Error + Send + Sync>;

/// What `judge` found.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// For `ortalk_build.json`.
    pub report: serde_json::Value,
    /// For people, some lines.
    pub text: String,
    /// Which limits are missed, with the numbers; empty where none is.
    pub missed: Vec<String>,
}
