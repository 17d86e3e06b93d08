//! Libraries that bring execution providers of their own.
//!
//! A library stays registered until the process ends: taking it away while a session lives would end the process.

use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use super::{DeviceListing, OnnxRuntime, RuntimeError, devices};

impl OnnxRuntime {
    /// Loads a library of execution providers. `name` becomes the execution provider's name. To register the same library
    /// again does nothing.
    pub fn register_plugin(&self, name: &str, library: &Path) -> Result<(), RuntimeError> {
        let failed = |reason: String| RuntimeError::Plugin { name: name.into(), library: library.into(), reason };
        // The path is made whole, as ONNX Runtime would look for a plain name among the system's libraries.
        let path = std::path::absolute(library).map_err(|error| failed(error.to_string()))?;
        let mut registered = self.plugins.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, other)) = registered.iter().find(|(known, _)| known == name) {
            return match *other == path {
                true => Ok(()),
                false => Err(failed(format!("'{}' is registered by that name already", other.display()))),
            };
        }
        if !path.is_file() {
            return Err(failed("there is no such file".into()));
        }
        self.environment.register_ep_library(name, &path).map_err(|error| failed(error.to_string()))?;
        registered.push((name.to_owned(), path));
        Ok(())
    }

    /// Everything that ONNX Runtime and the registered libraries offer.
    pub fn devices(&self) -> Vec<DeviceListing> {
        devices::list(&self.environment)
    }
}

/// The libraries that are registered, by name.
pub(super) type Registered = Vec<(String, PathBuf)>;
