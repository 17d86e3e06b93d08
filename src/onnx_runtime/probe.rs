//! A look at a foreign library in a child process: what does it offer, or how does it fail?

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{CPU_PROVIDER, ChildError, DeviceListing, OnnxRuntime, QnnDevice, RuntimeError, child};

/// Loading takes a tenth of a second; a disk may be slow.
const LIMIT: Duration = Duration::from_secs(30);

/// ONNX Runtime alone, or with one library of an execution provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeRequest {
    /// ONNX Runtime's library.
    pub library: PathBuf,
    pub plugin: Option<ProbedPlugin>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbedPlugin {
    /// The execution provider's name.
    pub name: String,
    pub library: PathBuf,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probed {
    pub devices: Vec<DeviceListing>,
    /// What QNN would run on, if it was the plug-in.
    pub qnn: Option<QnnDevice>,
}

impl Probed {
    /// ONNX Runtime's version, which is also that of its built-in execution provider.
    pub fn version(&self) -> Option<&str> {
        let cpu = self.devices.iter().find(|device| device.execution_provider == CPU_PROVIDER)?;
        cpu.provider_version.as_deref()
    }
}

/// Probes in a child process of `executable`, which is `ortalk`.
pub fn probe(executable: &Path, request: &ProbeRequest) -> Result<Probed, ChildError> {
    child::ask(executable, "probe", request, None, LIMIT, &mut |_| ControlFlow::Continue(()))
}

/// The child's side.
pub fn serve_probe(request: &str) -> std::io::Result<()> {
    child::answer(request, |request| look(&request).map_err(|error| error.to_string()))
}

fn look(request: &ProbeRequest) -> Result<Probed, RuntimeError> {
    let runtime = OnnxRuntime::load(&request.library, Arc::new(|line| eprintln!("{line}")))?;
    if let Some(plugin) = &request.plugin {
        runtime.register_plugin(&plugin.name, &plugin.library)?;
    }
    Ok(Probed { devices: runtime.devices(), qnn: runtime.qnn_device() })
}
