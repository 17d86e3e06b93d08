//! Windows: free space by drive, process groups.

use std::io;
use std::os::windows::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};

use sysinfo::{DiskRefreshKind, Disks};

/// CREATE_NEW_PROCESS_GROUP of the Windows interface.
const NEW_PROCESS_GROUP: u32 = 0x200;

/// Bytes that this user may still write where `folder` is; `None` when the system does not say (a network share).
pub fn free_space(folder: &Path) -> Option<u64> {
    // canonicalize gives \\?\C:\...; drives are listed as C:\.
    let full = folder.canonicalize().ok()?;
    let full = full.to_str()?.trim_start_matches(r"\\?\").to_lowercase();
    let disks = Disks::new_with_refreshed_list_specifics(DiskRefreshKind::nothing().with_storage());
    disks
        .list()
        .iter()
        .filter(|disk| full.starts_with(&disk.mount_point().to_string_lossy().to_lowercase()))
        .max_by_key(|disk| disk.mount_point().as_os_str().len())
        .map(|disk| disk.available_space())
}

/// Windows cannot sync a folder; NTFS journals the rename itself.
pub fn sync_folder(_folder: &Path) -> io::Result<()> {
    Ok(())
}

/// Keeps Ctrl-C from the child: it reaches only ortalk, which ends the child in order.
pub fn own_group(command: &mut Command) {
    command.creation_flags(NEW_PROCESS_GROUP);
}

/// Ends a child. Python's launchers put what they start into a job that ends with them.
pub fn end_child(child: &mut Child) {
    let _ = child.kill();
}
