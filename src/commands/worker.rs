//! `ortalk worker`: tasks that run in a child process of ortalk, because a foreign library may crash or hang there. The
//! parent reads the child's exit status and what it wrote, and says what went wrong.

use std::process::ExitCode;

use crate::cli::WorkerTask;

pub fn run(task: WorkerTask) -> anyhow::Result<ExitCode> {
    match task {}
}
