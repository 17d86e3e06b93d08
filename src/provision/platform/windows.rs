//! Windows: process groups.

use std::os::windows::process::CommandExt;
use std::process::{Child, Command};

/// CREATE_NEW_PROCESS_GROUP of the Windows interface.
const NEW_PROCESS_GROUP: u32 = 0x200;

/// Keeps Ctrl-C from the child: it reaches only ortalk, which ends the child in order.
pub fn own_group(command: &mut Command) {
    command.creation_flags(NEW_PROCESS_GROUP);
}

/// Ends a child. Python's launchers put what they start into a job that ends with them.
pub fn end_child(child: &mut Child) {
    let _ = child.kill();
}
