//! What the system knows of disks: how much is free, renames that last, files that are private.

#[cfg(unix)]
#[path = "disk/unix.rs"]
mod system;
#[cfg(windows)]
#[path = "disk/windows.rs"]
mod system;

pub use system::{create_private_folders, free_space, private, symlink_file, sync_folder};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disk_says_how_much_is_free() {
        let free = free_space(&std::env::temp_dir());
        assert!(free.is_some_and(|bytes| bytes > 0), "{free:?}");
    }
}
