//! ONNX Runtime, which the tests share.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use ortalk::commands::fetch::{AfterFetch, FetchDisplay};
use ortalk::commands::session;
use ortalk::config::Settings;
use ortalk::onnx_runtime::OnnxRuntime;
use ortalk::paths::Paths;

/// ONNX Runtime's library, fetched on first use.
pub fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("home");
        let mut display = FetchDisplay::new(AfterFetch::Exit);
        session::library(&Settings::default(), &Paths::below(&home), &mut display).unwrap().path
    })
}

/// ONNX Runtime, loaded once: it allows no second environment in one process.
pub fn runtime() -> OnnxRuntime {
    static RUNTIME: OnceLock<OnnxRuntime> = OnceLock::new();
    RUNTIME.get_or_init(|| OnnxRuntime::load(library(), Arc::new(|_| ())).unwrap()).clone()
}
