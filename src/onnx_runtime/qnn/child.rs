//! Compiling in a child process: a compiler that crashes, hangs or fills the memory is an error here, not the end of the
//! program.
//!
//! The child is the `ortalk` executable as `ortalk worker compile`. It gets the request as one line on standard input and
//! leaves its outcome in a file, since QNN writes to standard output. That the parent holds the input open says that it
//! still waits; when it closes, the child ends.

use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::CompileReport;
use crate::model::NpuOptions;
use crate::onnx_runtime::OnnxRuntime;
use crate::provision::QnnPlugin;

/// One model to compile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CompileRequest {
    /// ONNX Runtime's library.
    pub library: PathBuf,
    pub plugin: QnnPlugin,
    pub model: PathBuf,
    /// The ONNX file to write. The binary comes beside it.
    pub output: PathBuf,
    pub options: NpuOptions,
}

#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    #[error("'{}' could not be compiled for the NPU: {reason}", model.display())]
    Failed { model: PathBuf, reason: String },
    #[error("'{}' could not be compiled for the NPU: the compiler ended with {status}{}", model.display(), said(last))]
    Died { model: PathBuf, status: String, last: String },
    #[error(
        "'{}' could not be compiled for the NPU within {} s; it was stopped{}", model.display(), limit.as_secs(), said(last)
    )]
    TooLong { model: PathBuf, limit: Duration, last: String },
    #[error("stopped")]
    Stopped,
    #[error("{action} '{}' failed: {error}", path.display())]
    Io { action: &'static str, path: PathBuf, error: io::Error },
}

fn said(last: &str) -> String {
    if last.is_empty() { String::new() } else { format!("; its last words were:\n{last}") }
}

/// Compiles in a child process of `executable`. `report` is called several times a second with the time since the start;
/// `Break` ends the child. The two result files appear whole, or not at all.
pub fn compile_in_child(
    executable: &Path,
    request: &CompileRequest,
    limit: Duration,
    report: &mut dyn FnMut(Duration) -> ControlFlow<()>,
) -> Result<CompileReport, CompileError> {
    let staging = Staging::create(&request.output)?;
    let failed = |action, path: &Path| {
        let path = path.to_path_buf();
        move |error| CompileError::Io { action, path, error }
    };
    let name = request.output.file_name().unwrap_or_default();
    let staged = CompileRequest { output: staging.0.join(name), ..request.clone() };
    let log_path = staging.0.join(LOG_FILE);
    let log = File::create(&log_path).map_err(failed("writing", &log_path))?;
    let mut child = Command::new(executable)
        .args(["worker", "compile"])
        .stdin(Stdio::piped())
        .stdout(log.try_clone().map_err(failed("writing", &log_path))?)
        .stderr(log)
        .spawn()
        .map(Running)
        .map_err(failed("starting", executable))?;
    // Held until the child has ended. A child that ends at once does not read; its status says more than a broken pipe.
    let mut input = child.0.stdin.take();
    if let (Some(input), Ok(line)) = (&mut input, serde_json::to_string(&staged)) {
        let _ = writeln!(input, "{line}");
    }

    let model = || request.model.clone();
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.0.try_wait().map_err(failed("waiting for", executable))? {
            break status;
        }
        if report(start.elapsed()).is_break() {
            return Err(CompileError::Stopped);
        }
        if start.elapsed() > limit {
            return Err(CompileError::TooLong { model: model(), limit, last: last_lines(&log_path) });
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    // The outcome counts, not the status: Qualcomm's libraries have been seen to crash when a process ends well.
    let outcome = fs::read(staging.0.join(OUTCOME_FILE)).ok().and_then(|text| serde_json::from_slice(&text).ok());
    let mut compiled: CompileReport = match outcome {
        Some(Outcome::Compiled(compiled)) => compiled,
        Some(Outcome::Failed(reason)) => return Err(CompileError::Failed { model: model(), reason }),
        None => {
            return Err(CompileError::Died { model: model(), status: status.to_string(), last: last_lines(&log_path) });
        }
    };
    // The binary first: an ONNX file that is there then has its binary.
    for file in [&mut compiled.binary, &mut compiled.output] {
        let place = request.output.with_file_name(file.file_name().unwrap_or_default());
        File::open(&*file).and_then(|file| file.sync_all()).map_err(failed("writing", file))?;
        fs::rename(&*file, &place).map_err(failed("moving into its place", &place))?;
        *file = place;
    }
    Ok(compiled)
}

/// The child's side: compiles what the line asks for, and leaves the outcome.
pub fn serve_compile(request: &str) -> io::Result<()> {
    let request: CompileRequest = serde_json::from_str(request)?;
    let outcome = match compile(&request) {
        Ok(report) => Outcome::Compiled(report),
        Err(error) => Outcome::Failed(error.to_string()),
    };
    let folder = request.output.parent().unwrap_or(Path::new(""));
    // One rename, so that a file that is there is whole.
    let half = folder.join("half");
    fs::write(&half, serde_json::to_vec(&outcome)?)?;
    fs::rename(half, folder.join(OUTCOME_FILE))
}

fn compile(request: &CompileRequest) -> Result<CompileReport, crate::onnx_runtime::RuntimeError> {
    let runtime = OnnxRuntime::load(&request.library, Arc::new(|line| eprintln!("{line}")))?;
    runtime.compile_context(&request.plugin, &request.model, &request.output, &request.options)
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Compiled(CompileReport),
    Failed(String),
}

const OUTCOME_FILE: &str = "outcome.json";
const LOG_FILE: &str = "log.txt";

/// A folder beside the output, for the files until they are whole.
struct Staging(PathBuf);

impl Staging {
    fn create(output: &Path) -> Result<Self, CompileError> {
        let name = output.file_name().unwrap_or_default().to_string_lossy();
        let folder = output.with_file_name(format!(".{name}.compiling"));
        // Left by a process that was killed.
        let _ = fs::remove_dir_all(&folder);
        match std::path::absolute(&folder).and_then(|folder| fs::create_dir_all(&folder).map(|()| folder)) {
            Ok(folder) => Ok(Self(folder)),
            Err(error) => Err(CompileError::Io { action: "creating", path: folder, error }),
        }
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Ends the child when it is dropped before it has ended by itself.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        if !matches!(self.0.try_wait(), Ok(Some(_))) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

/// The end of what the child printed, without control characters that would reach the terminal.
fn last_lines(log: &Path) -> String {
    const MOST: usize = 8;
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.trim().is_empty()).collect();
    let clean = |line: &&str| format!("  {}", line.chars().filter(|c| !c.is_control()).take(300).collect::<String>());
    lines[lines.len().saturating_sub(MOST)..].iter().map(clean).collect::<Vec<_>>().join("\n")
}
