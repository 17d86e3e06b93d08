//! What the tests share: the fetched libraries, ONNX Runtime with the plug-in, and the small graphs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};

use ort::session::Session;
use ort::value::Tensor;
use ortalk::commands::fetch::{AfterFetch, FetchDisplay};
use ortalk::commands::session;
use ortalk::config::Settings;
use ortalk::model::{NpuOptions, NpuTarget};
use ortalk::onnx_runtime::{CpuSessionOptions, OnnxRuntime, QnnPlugin};
use ortalk::paths::Paths;

pub fn home() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("home")
}

/// The plug-in, fetched on first use.
pub fn plugin() -> QnnPlugin {
    static PLUGIN: OnceLock<QnnPlugin> = OnceLock::new();
    let obtain = || {
        let mut display = FetchDisplay::new(AfterFetch::Exit);
        session::qnn_plugin(&Settings::default(), &Paths::below(&home()), &mut display).unwrap().plugin
    };
    PLUGIN.get_or_init(obtain).clone()
}

pub fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let mut display = FetchDisplay::new(AfterFetch::Exit);
        session::library(&Settings::default(), &Paths::below(&home()), &mut display).unwrap().path
    })
}

/// The real binary with a folder of its own for settings and caches, and nothing of the caller's.
pub fn ortalk(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ortalk"));
    command.args(arguments).env("ORTALK_HOME", home).env_remove("ORT_DYLIB_PATH").stdin(Stdio::null());
    command
}

/// ONNX Runtime, loaded once: it allows no second environment in one process.
pub fn runtime() -> OnnxRuntime {
    static RUNTIME: OnceLock<OnnxRuntime> = OnceLock::new();
    RUNTIME.get_or_init(|| OnnxRuntime::load(library(), Arc::new(|_| ())).unwrap()).clone()
}

pub fn x_elite() -> NpuOptions {
    let target = NpuTarget { soc: "x-elite".into(), soc_model: 60, htp_arch: 73 };
    NpuOptions { target: Some(target), ..NpuOptions::default() }
}

/// One of the graphs that `tests/fixtures/make_npu_graphs.py` writes.
pub fn graph(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/npu").join(format!("{name}.onnx"))
}

pub fn cpu_session(model: &Path) -> Session {
    runtime().cpu_session(model, CpuSessionOptions { threads: 1, spinning: false }).unwrap()
}

const SHAPE: [usize; 3] = [1, 4, 32];

/// Numbers over all of [-3, 3], the same every time.
fn samples() -> Vec<f32> {
    (0..SHAPE.iter().product()).map(|i: usize| (i * 37 % 128) as f32 / 127.0 * 6.0 - 3.0).collect()
}

/// `y` for the samples as `x`, of the float graph.
pub fn run_float(session: &mut Session) -> Vec<f32> {
    let x = Tensor::from_array((SHAPE, samples())).unwrap();
    let outputs = session.run(ort::inputs!["x" => x]).unwrap();
    outputs["y"].try_extract_tensor::<f32>().unwrap().1.to_vec()
}

/// `y` for the samples as `x`, of the quantized graph, in real numbers.
pub fn run_qdq(session: &mut Session) -> Vec<f32> {
    const STEP: f32 = 8.0 / 65535.0;
    let codes: Vec<u16> = samples().iter().map(|x| (x / STEP).round() as i32 + 32768).map(|code| code as u16).collect();
    let x = Tensor::from_array((SHAPE, codes)).unwrap();
    let outputs = session.run(ort::inputs!["x" => x]).unwrap();
    let codes = outputs["y"].try_extract_tensor::<u16>().unwrap().1;
    codes.iter().map(|code| (i32::from(*code) - 32768) as f32 * STEP).collect()
}

/// The largest difference of two runs, as a part of the largest number.
pub fn difference(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len());
    let largest = expected.iter().fold(0.0_f32, |largest, number| largest.max(number.abs()));
    assert!(largest > 1.0, "{expected:?}");
    found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max) / largest
}
