//! `ortalk worker`: tasks that run in a child process of ortalk, because a foreign library may crash or hang there. The
//! parent reads the child's exit status and what it wrote, and says what went wrong.
//!
//! A task gets its request as one line on standard input, which stays open as long as somebody waits for the outcome.

use std::io::{self, Read};
use std::process::ExitCode;

use super::fetch::end_now;
use super::report;
use crate::cli::WorkerTask;
use crate::{builder, decoder, onnx_runtime};

pub fn run(task: WorkerTask) -> anyhow::Result<ExitCode> {
    let mut request = String::new();
    io::stdin().read_line(&mut request)?;
    std::thread::Builder::new().name("parent".into()).spawn(end_with_parent)?;
    match task {
        WorkerTask::Lane => decoder::serve_lane(&request)?,
        WorkerTask::Compile => onnx_runtime::serve_compile(&request)?,
        WorkerTask::Judge => builder::npu::serve_judge(&request)?,
        WorkerTask::Open => report::serve_open(&request)?,
        WorkerTask::Probe => onnx_runtime::serve_probe(&request)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A parent that was killed cannot end its child.
fn end_with_parent() {
    // Nothing more is sent: whatever this returns, nobody waits any more.
    let _ = io::stdin().read(&mut [0]);
    end_now();
}
