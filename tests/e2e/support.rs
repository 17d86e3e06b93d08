//! What the tests share: one folder for settings and caches, and ways to run the binary.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use ortalk::commands::fetch::{AfterFetch, FetchDisplay};
use ortalk::commands::session;
use ortalk::config::Settings;
use ortalk::onnx_runtime::OnnxRuntime;
use ortalk::paths::Paths;

/// Everything that the tests fetch and build, kept between runs.
pub fn home() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("home")
}

/// The default model's folder, fetched and built on first use.
pub fn model() -> &'static Path {
    static MODEL: OnceLock<PathBuf> = OnceLock::new();
    MODEL.get_or_init(|| {
        let mut display = FetchDisplay::new(AfterFetch::Exit);
        session::model(None, &Settings::default(), &Paths::below(&home()), &mut display).expect("the default model")
    })
}

/// ONNX Runtime, loaded once: it allows no second environment in one process.
pub fn runtime() -> OnnxRuntime {
    static RUNTIME: OnceLock<OnnxRuntime> = OnceLock::new();
    RUNTIME
        .get_or_init(|| {
            let mut display = FetchDisplay::new(AfterFetch::Exit);
            let library = session::library(&Settings::default(), &Paths::below(&home()), &mut display).unwrap().path;
            OnnxRuntime::load(&library, std::sync::Arc::new(|_| ())).unwrap()
        })
        .clone()
}

/// The real binary with the tests' folder, and nothing of the caller's settings.
pub fn ortalk(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ortalk"));
    command.args(arguments).env("ORTALK_HOME", home()).env_remove("ORT_DYLIB_PATH").stdin(Stdio::null());
    command
}

/// Runs it to its end; it must succeed.
pub fn succeed(arguments: &[&str]) -> Output {
    let output = ortalk(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
