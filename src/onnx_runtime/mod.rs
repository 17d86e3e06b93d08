//! ONNX Runtime: loads the shared library, lists devices, makes sessions and proves where their nodes run.
//!
//! What a session computes is the decoder's business; which library file to load is found by `provision`.

mod c_api;
mod child;
mod devices;
mod log;
mod placement;
mod plugins;
mod probe;
mod qnn;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use ort::environment::Environment;
use ort::session::Session;
use ort::session::builder::{GraphOptimizationLevel, SessionBuilder};

pub use c_api::{bind_rows, run_bound};
pub use child::{ChildError, answer as answer_parent, ask as ask_child};
pub use devices::{CPU_PROVIDER, DeviceKind, DeviceListing};
pub use log::LogSink;
pub use placement::{AssignedNode, Placement, placement};
pub use probe::{ProbeRequest, Probed, ProbedPlugin, probe, serve_probe};
pub use qnn::{
    CompileError, CompileReport, CompileRequest, ContextError, NpuAbsence, QNN_PROVIDER, QnnDevice, SdkVersion,
    compile_in_child, serve_compile,
};

use crate::model::{GraphOptimization, NpuOptionError, SessionOptions};
pub use crate::provision::QnnPlugin;

/// The loaded library. One per process: ONNX Runtime allows no second environment, and it must outlive all sessions.
#[derive(Clone)]
pub struct OnnxRuntime {
    environment: Environment,
    plugins: Arc<Mutex<plugins::Registered>>,
}

#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    #[error(
        "ONNX Runtime could not be loaded from '{}': {reason}\nortalk needs version 1.24 or later for this processor; \
         `ortalk setup` fetches one, or name another with ORT_DYLIB_PATH", library.display()
    )]
    Load { library: PathBuf, reason: String },
    #[error("ONNX Runtime lists no CPU device")]
    NoCpu,
    #[error("ONNX Runtime could not open '{}': {reason}", model.display())]
    Session { model: PathBuf, reason: String },
    #[error("the plug-in '{}' could not be registered as {name}: {reason}", library.display())]
    Plugin { name: String, library: PathBuf, reason: String },
    #[error("QNN's {what} '{}' cannot be used: {problem}; `ortalk setup --npu` fetches it", path.display())]
    QnnFile { what: &'static str, path: PathBuf, problem: String },
    #[error("QNN's plug-in offers no NPU on this machine")]
    NoNpu,
    #[error(transparent)]
    Options(#[from] NpuOptionError),
    #[error("the compiled model '{}' cannot run here: {error}", model.display())]
    Context { model: PathBuf, error: ContextError },
    #[error("the compiled model '{}' is not as it should be: {problem}", path.display())]
    Output { path: PathBuf, problem: String },
    #[error(
        "'{}' does not run on the NPU as a whole: {} of its {total} nodes would run elsewhere{}", model.display(),
        elsewhere.len(), details(elsewhere, reasons)
    )]
    NotOnNpu { model: PathBuf, elsewhere: Vec<AssignedNode>, total: usize, reasons: Vec<String> },
}

/// The first of the nodes, and all reasons.
fn details(elsewhere: &[AssignedNode], reasons: &[String]) -> String {
    const MOST: usize = 10;
    let node = |node: &AssignedNode| format!("\n  {} ({}) on {}", node.name, node.operator, node.provider);
    let mut text: String = elsewhere.iter().take(MOST).map(node).collect();
    if elsewhere.len() > MOST {
        text += &format!("\n  and {} more", elsewhere.len() - MOST);
    }
    if !reasons.is_empty() {
        text += "\nQNN says:";
        text.extend(reasons.iter().map(|reason| format!("\n  {reason}")));
    }
    text
}

/// How a session runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuSessionOptions {
    pub threads: usize,
    /// Threads that wait for work keep their core busy. Faster on a quiet machine, much slower on a shared one.
    pub spinning: bool,
}

impl OnnxRuntime {
    pub fn load(library: &Path, log: LogSink) -> Result<Self, RuntimeError> {
        let failed = |reason: String| RuntimeError::Load { library: library.into(), reason };
        let environment = ort::init_from(library)
            .map_err(|error| failed(error.to_string()))?
            .with_name("ortalk")
            .with_telemetry(false)
            .with_logger(log::logger(log))
            .build()
            .map_err(|error| failed(error.to_string()))?;
        // With a logger of its own, `ort` asks for every message there is, and each of them would be formatted.
        environment.set_log_level(ort::logging::LogLevel::Warning);
        Ok(Self { environment, plugins: Arc::default() })
    }

    /// A session whose nodes all run on the CPU. The device is named explicitly: once an execution provider's plug-in
    /// is registered, a session without devices may be claimed by it.
    pub fn cpu_session(&self, model: &Path, options: CpuSessionOptions) -> Result<Session, RuntimeError> {
        self.cpu_session_with(model, options, &SessionOptions::default())
    }

    /// The same, without a copy of the weights in the order of the kernels: they are read from the mapped file. As fast where
    /// each weight is read once in a pass, as for a single token.
    pub fn mapped_cpu_session(&self, model: &Path, options: CpuSessionOptions) -> Result<Session, RuntimeError> {
        let entries = vec![("session.disable_prepacking".to_owned(), "1".to_owned())];
        self.cpu_session_with(model, options, &SessionOptions { entries, ..SessionOptions::default() })
    }

    /// The same, in the way that its folder asks for.
    pub fn cpu_session_with(
        &self,
        model: &Path,
        options: CpuSessionOptions,
        asked: &SessionOptions,
    ) -> Result<Session, RuntimeError> {
        let cpu: Vec<_> = self
            .environment
            .devices()
            .filter(|device| device.ep().is_ok_and(|ep| ep == devices::CPU_PROVIDER))
            .collect();
        if cpu.is_empty() {
            return Err(RuntimeError::NoCpu);
        }
        // The builder's error carries the builder back; only its text is wanted.
        let build = || -> Result<Session, String> {
            let builder = Session::builder(&self.environment)
                .map_err(|e| e.to_string())?
                .with_devices(cpu, None)
                .map_err(|e| e.to_string())?
                .with_intra_threads(options.threads)
                .map_err(|e| e.to_string())?
                .with_intra_op_spinning(options.spinning)
                .map_err(|e| e.to_string())?
                .with_config_entry(placement::RECORD_KEY, "1")
                .map_err(|e| e.to_string())?;
            asked_for(builder, asked)?.commit_from_file(model).map_err(|e| e.to_string())
        };
        build().map_err(|reason| RuntimeError::Session { model: model.into(), reason })
    }

    /// Why there is no NPU lane, found by looking for the plug-in in `plugin_folders` and for the device.
    pub fn npu_absence(&self, plugin_folders: &[PathBuf]) -> NpuAbsence {
        qnn::look(self, plugin_folders)
    }
}

fn asked_for(mut builder: SessionBuilder, asked: &SessionOptions) -> Result<SessionBuilder, String> {
    if let Some(level) = asked.graph_optimization {
        let level = match level {
            GraphOptimization::None => GraphOptimizationLevel::Disable,
            GraphOptimization::Basic => GraphOptimizationLevel::Level1,
            GraphOptimization::Extended => GraphOptimizationLevel::Level2,
            GraphOptimization::All => GraphOptimizationLevel::All,
        };
        builder = builder.with_optimization_level(level).map_err(|e| e.to_string())?;
    }
    if let Some(enable) = asked.memory_pattern {
        builder = builder.with_memory_pattern(enable).map_err(|e| e.to_string())?;
    }
    for (key, value) in &asked.entries {
        builder = builder.with_config_entry(key, value).map_err(|e| e.to_string())?;
    }
    Ok(builder)
}
