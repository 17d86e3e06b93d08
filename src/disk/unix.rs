//! Unix: statvfs, fsync of folders.

use std::fs::File;
use std::io;
use std::path::Path;

/// Bytes that this user may still write where `folder` is; `None` when the system does not say.
pub fn free_space(folder: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(folder).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Makes renames inside `folder` survive a power cut.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Makes `link` point to the file `target`.
pub fn symlink_file(target: &Path, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}
