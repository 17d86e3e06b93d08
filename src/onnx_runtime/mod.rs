//! ONNX Runtime: loads the shared library, lists devices, makes sessions and proves where their nodes run.
//!
//! What a session computes is the decoder's business; which library file to load is found by `provision`.

mod c_api;
mod devices;
mod log;
mod placement;
mod qnn;

use std::path::{Path, PathBuf};

use ort::environment::Environment;
use ort::session::Session;

pub use c_api::run_bound;
pub use devices::CPU_PROVIDER;
pub use log::LogSink;
pub use placement::{Placement, placement};
pub use qnn::{NpuAbsence, QNN_PROVIDER};

/// The loaded library. One per process: ONNX Runtime allows no second environment, and it must outlive all sessions.
#[derive(Clone)]
pub struct OnnxRuntime {
    environment: Environment,
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
        Ok(Self { environment })
    }

    /// A session whose nodes all run on the CPU. The device is named explicitly: once an execution provider's plug-in
    /// is registered, a session without devices may be claimed by it.
    pub fn cpu_session(&self, model: &Path, options: CpuSessionOptions) -> Result<Session, RuntimeError> {
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
            Session::builder(&self.environment)
                .map_err(|e| e.to_string())?
                .with_devices(cpu, None)
                .map_err(|e| e.to_string())?
                .with_intra_threads(options.threads)
                .map_err(|e| e.to_string())?
                .with_intra_op_spinning(options.spinning)
                .map_err(|e| e.to_string())?
                .with_config_entry(placement::RECORD_KEY, "1")
                .map_err(|e| e.to_string())?
                .commit_from_file(model)
                .map_err(|e| e.to_string())
        };
        build().map_err(|reason| RuntimeError::Session { model: model.into(), reason })
    }

    /// Why there is no NPU lane, found by looking for the plug-in in `plugin_folders` and for the device.
    pub fn npu_absence(&self, plugin_folders: &[PathBuf]) -> NpuAbsence {
        qnn::look(&devices::list(&self.environment), plugin_folders, Path::new("/dev"))
    }
}
