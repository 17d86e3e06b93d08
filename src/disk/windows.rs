//! Windows: free space by drive; links to files, which need a right that most people do not have.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;

use sysinfo::{DiskRefreshKind, Disks};

/// Bytes that this user may still write where `folder` is; `None` when the system does not say (a network share).
pub fn free_space(folder: &Path) -> Option<u64> {
    // canonicalize gives \\?\C:\...; drives are listed as C:\.
    let full = folder.canonicalize().ok()?;
    let full = full.to_str()?.trim_start_matches(r"\\?\").to_lowercase();
    let disks = Disks::new_with_refreshed_list_specifics(DiskRefreshKind::nothing().with_storage()).ok()?;
    disks
        .iter()
        .filter(|disk| full.starts_with(&disk.mount_point().to_string_lossy().to_lowercase()))
        .max_by_key(|disk| disk.mount_point().as_os_str().len())
        .map(|disk| disk.available_space())
}

/// Windows cannot sync a folder; NTFS journals the rename itself.
pub fn sync_folder(_folder: &Path) -> io::Result<()> {
    Ok(())
}

/// Makes `link` point to the file `target`. Fails for who has neither developer mode nor an administrator's rights.
pub fn symlink_file(target: &Path, link: &Path) -> io::Result<()> {
    std::os::windows::fs::symlink_file(target, link)
}

/// A user's own folders are private already.
pub fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Makes a folder, and those above it that are missing.
pub fn create_private_folders(folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)
}
