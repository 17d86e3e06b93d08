//! Sessions on Qualcomm's NPU: the plug-in registered, its device told from a simulator, and proof that every node runs
//! there.

mod absence;
mod compile;
mod context_file;
mod diagnosis;

use std::path::{Path, PathBuf};

use ort::device::Device;
use ort::session::Session;
use ort::session::builder::SessionBuilder;
use serde::{Deserialize, Serialize};

pub use absence::NpuAbsence;
pub use compile::{CompileError, CompileReport, CompileRequest, compile_in_child, serve_compile};
pub use context_file::{ContextError, SdkVersion};

use super::devices::{self, DeviceKind};
use super::placement::{self, RECORD_KEY};
use super::{OnnxRuntime, RuntimeError, c_api};
use crate::model::NpuOptions;
use crate::provision::QnnPlugin;
use crate::telemetry::drivers;

/// The name of QNN's execution provider.
pub const QNN_PROVIDER: &str = "QNNExecutionProvider";

/// What QNN runs on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QnnDevice {
    /// For people: "Qualcomm NPU", or the maker of the processor that simulates one.
    pub name: String,
    /// QNN's simulator on this machine's processor, not an NPU.
    pub emulated: bool,
}

impl OnnxRuntime {
    /// Registers the plug-in, once a process; after that every session must name its devices.
    pub fn register_qnn(&self, plugin: &QnnPlugin) -> Result<(), RuntimeError> {
        expect_file("plug-in", &plugin.library)?;
        expect_file("backend", &plugin.backend)?;
        self.register_plugin(QNN_PROVIDER, &plugin.library)
    }

    /// What QNN would run on; `None` before the plug-in is registered, and where it offers nothing for the NPU.
    pub fn qnn_device(&self) -> Option<QnnDevice> {
        let device = self.hexagon()?;
        let maker = device.hardware_device().vendor().unwrap_or("unknown");
        let emulated = is_emulated(devices::kind(&device), &drivers::root());
        let name = if emulated { format!("simulator on {maker} processor") } else { format!("{maker} NPU") };
        Some(QnnDevice { name, emulated })
    }

    /// A session with every node of the model on QNN. Registers the plug-in where that was not done.
    ///
    /// # Errors
    /// Files that are missing, options that are wrong, a context for another chip or a newer SDK, and a node that is not on
    /// QNN: then the error lists such nodes, with the execution provider's reasons.
    pub fn npu_session(&self, model: &Path, plugin: &QnnPlugin, options: &NpuOptions) -> Result<Session, RuntimeError> {
        self.register_qnn(plugin)?;
        let wrong = |error| RuntimeError::Context { model: model.into(), error };
        let compiled = context_file::check(model, plugin, &options.for_provider()?).map_err(wrong)?;
        self.proven_session(model, plugin, options, &[]).map_err(|error| match error {
            RuntimeError::Session { reason, .. } if compiled => wrong(ContextError::Refused(reason)),
            error => error,
        })
    }

    /// `entries` are further configuration entries for the session.
    fn proven_session(
        &self,
        model: &Path,
        plugin: &QnnPlugin,
        options: &NpuOptions,
        entries: &[(&str, &str)],
    ) -> Result<Session, RuntimeError> {
        let builder = self.qnn_builder(model, plugin, options)?;
        let failed = |reason: String| RuntimeError::Session { model: model.into(), reason };
        let strict = (|| -> Result<SessionBuilder, String> {
            let mut builder = builder.with_disable_cpu_fallback().map_err(|e| e.to_string())?;
            for (key, value) in entries {
                builder = builder.with_config_entry(key, value).map_err(|e| e.to_string())?;
            }
            Ok(builder)
        })();
        let mut builder = strict.map_err(failed)?;
        let session = match builder.commit_from_file(model) {
            Ok(session) => session,
            Err(error) => return Err(self.diagnose(model, plugin, options, &error.to_string())),
        };
        let nodes = c_api::assigned_nodes(&session).map_err(failed)?;
        if !placement::all_on(QNN_PROVIDER, &nodes) {
            drop(session);
            return Err(self.diagnose(model, plugin, options, "not all of its nodes run on QNN"));
        }
        Ok(session)
    }

    /// The Hexagon NPU, or what stands in for it. QNN may list a GPU as well, and the processor beside a real NPU; it has a
    /// simulator for x86-64 only.
    fn hexagon(&self) -> Option<Device<'_>> {
        let offered = |kind| {
            move |device: &Device<'_>| {
                device.ep().is_ok_and(|name| name == QNN_PROVIDER) && devices::kind(device) == kind
            }
        };
        let find = |kind| self.environment.devices().find(offered(kind));
        let stands_in = cfg!(target_arch = "x86_64") || drivers::compute_dsp(&drivers::root()).is_some();
        find(DeviceKind::Npu).or_else(|| find(DeviceKind::Cpu).filter(|_| stands_in))
    }

    fn qnn_builder(
        &self,
        model: &Path,
        plugin: &QnnPlugin,
        options: &NpuOptions,
    ) -> Result<SessionBuilder, RuntimeError> {
        let device = self.hexagon().ok_or(RuntimeError::NoNpu)?;
        let backend = plugin.backend.to_str().ok_or_else(|| RuntimeError::QnnFile {
            what: "backend",
            path: plugin.backend.clone(),
            problem: "its path is not valid Unicode, which QNN needs".into(),
        })?;
        let mut told = options.for_provider()?;
        told.push(("backend_path".to_owned(), backend.to_owned()));
        for (name, _) in &mut told {
            *name = format!("{QNN_PROVIDER}.{name}");
        }
        let build = || -> Result<SessionBuilder, String> {
            Session::builder(&self.environment)
                .map_err(|e| e.to_string())?
                .with_devices([device], Some(&told))
                .map_err(|e| e.to_string())?
                // QNN has threads of its own; those of ONNX Runtime would have nothing to do.
                .with_intra_threads(1)
                .map_err(|e| e.to_string())?
                .with_config_entry(RECORD_KEY, "1")
                .map_err(|e| e.to_string())
        };
        build().map_err(|reason| RuntimeError::Session { model: model.into(), reason })
    }
}

/// A wrong path would make a session on the CPU, without a word.
fn expect_file(what: &'static str, path: &Path) -> Result<(), RuntimeError> {
    let problem = match std::fs::metadata(path) {
        Ok(found) if found.is_file() => return Ok(()),
        Ok(_) => "it is not a file".to_owned(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => "there is no such file".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(RuntimeError::QnnFile { what, path: path.into(), problem })
}

/// Where no NPU is listed, only Linux's node of the compute DSP speaks for one: ONNX Runtime does not list it there.
fn is_emulated(kind: DeviceKind, root: &Path) -> bool {
    kind != DeviceKind::Npu && drivers::compute_dsp(root).is_none()
}

pub(super) fn look(runtime: &OnnxRuntime, plugin_folders: &[PathBuf]) -> NpuAbsence {
    absence::look(&runtime.devices(), plugin_folders, &drivers::root())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simulator_is_told_from_an_npu() {
        let dir = tempfile::tempdir().unwrap();
        assert!(is_emulated(DeviceKind::Cpu, dir.path()));
        assert!(!is_emulated(DeviceKind::Npu, dir.path()));
        std::fs::create_dir(dir.path().join("dev")).unwrap();
        std::fs::write(dir.path().join("dev/fastrpc-cdsp"), "").unwrap();
        assert!(!is_emulated(DeviceKind::Cpu, dir.path()));
    }
}
