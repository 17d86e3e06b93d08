//! Compiles a model for the NPU ahead of time: an ONNX file of one `EPContext` node, and the binary beside it.
//!
//! Done in a child process, as the compiler may end the process.

use std::fs::{self, File};
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::context_file;
use crate::model::NpuOptions;
use crate::onnx_runtime::{ChildError, OnnxRuntime, RuntimeError, c_api, child};
use crate::provision::QnnPlugin;

/// One model to compile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CompileRequest {
    /// ONNX Runtime's library.
    pub library: PathBuf,
    pub plugin: QnnPlugin,
    pub model: PathBuf,
    /// The ONNX file to write. The binary comes beside it.
    pub output: PathBuf,
    pub options: NpuOptions,
}

#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    #[error("'{}' could not be compiled for the NPU: {error}", model.display())]
    Child { model: PathBuf, error: ChildError },
    #[error("{action} '{}' failed: {error}", path.display())]
    Io { action: &'static str, path: PathBuf, error: io::Error },
}

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

/// Compiles in a child process of `executable`, which is `ortalk`. `report` is called several times a second with the time
/// since the start; `Break` ends the child. The two result files appear whole, or not at all.
pub fn compile_in_child(
    executable: &Path,
    request: &CompileRequest,
    limit: Duration,
    report: &mut dyn FnMut(Duration) -> ControlFlow<()>,
) -> Result<CompileReport, CompileError> {
    let staging = Staging::create(&request.output)?;
    let name = request.output.file_name().unwrap_or_default();
    let staged = CompileRequest { output: staging.0.join(name), ..request.clone() };
    let mut compiled: CompileReport =
        child::ask(executable, "compile", &staged, request.plugin.environment(), limit, report)
            .map_err(|error| CompileError::Child { model: request.model.clone(), error })?;
    // The binary first: an ONNX file that is there then has its binary.
    for file in [&mut compiled.binary, &mut compiled.output] {
        let place = request.output.with_file_name(file.file_name().unwrap_or_default());
        File::open(&*file).and_then(|file| file.sync_all()).map_err(|error| CompileError::Io {
            action: "writing",
            path: file.clone(),
            error,
        })?;
        fs::rename(&*file, &place).map_err(|error| CompileError::Io {
            action: "moving the compiled model to",
            path: place.clone(),
            error,
        })?;
        *file = place;
    }
    Ok(compiled)
}

/// The child's side: compiles what the line asks for.
pub fn serve_compile(request: &str) -> io::Result<()> {
    child::answer(request, |request| compile(&request).map_err(|error| error.to_string()))
}

fn compile(request: &CompileRequest) -> Result<CompileReport, RuntimeError> {
    let runtime = OnnxRuntime::load(&request.library, Arc::new(|line| eprintln!("{line}")))?;
    runtime.compile_context(&request.plugin, &request.model, &request.output, &request.options)
}

/// A folder beside the output, for the files until they are whole.
struct Staging(PathBuf);

impl Staging {
    fn create(output: &Path) -> Result<Self, CompileError> {
        let name = output.file_name().unwrap_or_default().to_string_lossy();
        let folder = output.with_file_name(format!(".{name}.compiling"));
        // Left by a process that was killed.
        let _ = fs::remove_dir_all(&folder);
        match std::path::absolute(&folder).and_then(|folder| fs::create_dir_all(&folder).map(|()| folder)) {
            Ok(folder) => Ok(Self(folder)),
            Err(error) => Err(CompileError::Io { action: "creating", path: folder, error }),
        }
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
