//! Compiles a model for the NPU ahead of time: an ONNX file of one `EPContext` node, and the binary beside it.
//!
//! Done in a child process (see `child`), as the compiler may end the process.

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::context_file;
use crate::model::NpuOptions;
use crate::onnx_runtime::{OnnxRuntime, RuntimeError, c_api};
use crate::provision::QnnPlugin;

/// What was compiled. Loading the result shows one node; how many went into it is known only here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CompileReport {
    /// The ONNX file.
    pub output: PathBuf,
    /// The file that the NPU runs.
    pub binary: PathBuf,
    /// Of both files.
    pub bytes: u64,
    /// Nodes of the source graph, all of them placed on QNN by ONNX Runtime's own record.
    pub nodes: usize,
    pub seconds: f64,
}

impl OnnxRuntime {
    /// Compiles `model` and writes `output` and its binary, which get their names from it.
    ///
    /// # Errors
    /// As for `npu_session`; and results that are not what they should be.
    pub fn compile_context(
        &self,
        plugin: &QnnPlugin,
        model: &Path,
        output: &Path,
        options: &NpuOptions,
    ) -> Result<CompileReport, RuntimeError> {
        let start = Instant::now();
        let wrong = |path: &Path, problem: String| RuntimeError::Output { path: path.into(), problem };
        let Some(path) = output.to_str() else {
            return Err(wrong(output, "the path is not valid Unicode, which QNN needs".into()));
        };
        self.register_qnn(plugin)?;
        let entries = [("ep.context_enable", "1"), ("ep.context_file_path", path), ("ep.context_embed_mode", "0")];
        let session = self.proven_session(model, plugin, options, &entries)?;
        let nodes = c_api::assigned_nodes(&session).map_err(|reason| wrong(output, reason))?.len();
        drop(session);
        let binaries = context_file::check_compiled(output).map_err(|error| wrong(output, error.to_string()))?;
        let [binary] = binaries.as_slice() else {
            return Err(wrong(output, format!("it names {} binaries; expected one", binaries.len())));
        };
        let size = |path: &Path| {
            std::fs::metadata(path).map(|found| found.len()).map_err(|error| wrong(path, error.to_string()))
        };
        Ok(CompileReport {
            output: output.into(),
            binary: binary.clone(),
            bytes: size(output)? + size(binary)?,
            nodes,
            seconds: start.elapsed().as_secs_f64(),
        })
    }
}
