//! Where Qualcomm's QNN plug-in for ONNX Runtime is: named by the user, fetched before, or in a Python package; and
//! fetching it.
//!
//! Qualcomm's licence lets people use the plug-in's libraries, but not pass them on alone, so everyone fetches the wheel
//! for themselves.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The files that make a QNN session: ONNX Runtime's plug-in, and Qualcomm's backend for the Hexagon NPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QnnPlugin {
    pub library: PathBuf,
    pub backend: PathBuf,
}

/// The plug-in's file name, and its backend's.
pub const PLUGIN_FILES: (&str, &str) = if cfg!(windows) {
    ("onnxruntime_providers_qnn.dll", "QnnHtp.dll")
} else {
    ("libonnxruntime_providers_qnn.so", "libQnnHtp.so")
};

impl QnnPlugin {
    /// With the backend that lies beside the plug-in, where its package puts it.
    pub fn with_backend_beside(library: &Path) -> Self {
        Self { library: library.to_path_buf(), backend: library.with_file_name(PLUGIN_FILES.1) }
    }
}
