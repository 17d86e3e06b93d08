//! What the stages leave to others: running graphs, and compiling them.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::FloatGraphs;
use super::graph::Ranges;
use crate::model::{NpuBundle, NpuTarget};

/// What calibration runs the float graphs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CalibrationData {
    /// Text, with the keys and values that it makes, behind the sink where there is one.
    Text,
    /// Random numbers, as generic tools do: what the quality report compares with.
    Random,
}

/// A quantized bundle to be judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    pub calibration: CalibrationData,
    /// A bundle by the contract.
    pub folder: PathBuf,
    /// Its graphs are context binaries, for QNN; else they run on the CPU.
    pub compiled: bool,
}

/// What `judge` found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// For `ortalk_build.json`.
    pub report: serde_json::Value,
    /// For people, some lines.
    pub text: String,
    /// Which limits are missed, with the numbers; empty where none is.
    pub missed: Vec<String>,
}

pub type BoxedError = Box<dyn std::error::Error + Send + Sync>;

/// Runs and compiles graphs. Folders are bundles by the contract.
pub trait Laboratory {
    /// The token that every conversation starts with, if it is one and the same, and its keys and values at position 0 as
    /// the sink's file has them. `bundle` is in float32.
    fn sink(&self, folder: &Path, bundle: &NpuBundle) -> Result<Option<(u32, Vec<u8>)>, BoxedError>;

    /// The range of each observed tensor. `progress` hears the fraction that is done.
    fn calibrate(
        &self,
        float: &FloatGraphs,
        data: CalibrationData,
        progress: &mut dyn FnMut(f32),
    ) -> Result<Ranges, BoxedError>;

    /// Makes a context binary of a graph, and its wrapper `output`. How many nodes it was made of: all that the graph had.
    fn compile(
        &self,
        model: &Path,
        output: &Path,
        target: &NpuTarget,
        progress: &mut dyn FnMut(f32),
    ) -> Result<usize, BoxedError>;

    /// Compares quantized bundles with the float one, on text that calibration has not seen. The first of them is what the
    /// limits are for; the others stand beside it in the report.
    fn judge(
        &self,
        float: &FloatGraphs,
        candidates: &[Candidate],
        progress: &mut dyn FnMut(f32),
    ) -> Result<Verdict, BoxedError>;
}
