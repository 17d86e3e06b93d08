//! Runs a compiled bundle in a child process, for the last hidden states that it is judged by: QNN may end the process that it
//! runs in, and prints what it likes.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::judge::part_rows;
use super::laboratory::BoxedError;
use crate::decoder::StaticDecoder;
use crate::model::{NpuBundle, NpuOptions};
use crate::onnx_runtime::{ChildError, CpuSessionOptions, OnnxRuntime, QnnPlugin, answer_parent, ask_child};

/// What to run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CompiledRun {
    /// ONNX Runtime's library.
    pub library: PathBuf,
    pub plugin: QnnPlugin,
    /// A bundle of context binaries.
    pub folder: PathBuf,
    /// For the graphs at the ends, which run on the CPU.
    pub threads: usize,
    /// Tokens that go through the prefill graph, and those that come one by one behind them.
    pub prompt: Vec<u32>,
    pub rest: Vec<u32>,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CompiledRows {
    /// The bits of the last hidden states, float32, of each token but the first: JSON has no numbers that are not finite.
    bits: Vec<u32>,
    /// QNN's simulator ran it, for want of an NPU.
    pub emulated: bool,
}

impl CompiledRows {
    pub fn rows(&self) -> Vec<f32> {
        self.bits.iter().map(|bits| f32::from_bits(*bits)).collect()
    }
}

impl CompiledRun {
    /// Runs it as `executable`, which is `ortalk`.
    pub fn in_child(&self, executable: &Path, limit: Duration) -> Result<CompiledRows, ChildError> {
        let mut waiting = |_| ControlFlow::Continue(());
        ask_child(executable, "judge", self, self.plugin.environment(), limit, &mut waiting)
    }

    fn here(&self) -> Result<CompiledRows, BoxedError> {
        let runtime = OnnxRuntime::load(&self.library, Arc::new(|line| eprintln!("{line}")))?;
        let bundle = NpuBundle::read(&self.folder)?;
        let options = NpuOptions { target: Some(bundle.target.clone()), ..NpuOptions::default() };
        let session = |model: &Path| runtime.npu_session(model, &self.plugin, &options);
        let ends = CpuSessionOptions { threads: self.threads, spinning: false };
        let mut decoder = StaticDecoder::new(&runtime, &self.folder, bundle, ends, &session)?;
        let rows = part_rows(&mut decoder, &self.prompt, &self.rest)?;
        let emulated = runtime.qnn_device().is_none_or(|device| device.emulated);
        Ok(CompiledRows { bits: rows.into_iter().map(f32::to_bits).collect(), emulated })
    }
}

/// The child's side: runs what the line asks for.
pub fn serve_judge(request: &str) -> io::Result<()> {
    answer_parent(request, |run: CompiledRun| run.here().map_err(|error| error.to_string()))
}
