//! Unix: process groups.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use rustix::process::{Pid, Signal, kill_process_group};

/// Gives the child a process group of its own: Ctrl-C then reaches only ortalk, which ends the child in order, and
/// `end_child` reaches what the child started (a launcher script's Python).
pub fn own_group(command: &mut Command) {
    command.process_group(0);
}

/// Ends a child that was started with `own_group`, and what it started. The caller still waits for it.
pub fn end_child(child: &mut Child) {
    // The child has not been waited for, so its id is still its own.
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(pid, Signal::KILL);
    }
    let _ = child.kill();
}
