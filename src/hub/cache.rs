//! The Hub's cache as all of its programs keep it, and how files get into it.
//!
//! ```text
//! models--owner--name/blobs/ETAG                       a file's bytes, named by their hash
//!                    /blobs/ETAG.incomplete            the same, as far as it is fetched
//!                    /snapshots/COMMIT/config.json     a link to ../../blobs/ETAG
//!                    /refs/main                        the commit that the branch had
//! .locks/models--owner--name/ETAG.lock                 held by whoever fetches the file
//! ```
//!
//! Where links are not to be had (most people's Windows), a file is moved into its snapshot, or copied from another one.
//! Bytes are in their place only when they are whole; a snapshot has all of a pull's files or, but for a moment, none.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::error::Fault;
use super::names::RepoId;
use super::progress::{Meter, PullStage};
use super::settings::HubSettings;
use crate::disk;

/// The part of the cache that one repository has.
#[derive(Debug, Clone)]
pub struct RepoCache {
    cache: PathBuf,
    name: String,
    without_links: bool,
}

/// A file as the cache keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedFile {
    /// With `/` between folders.
    pub path: String,
    pub bytes: u64,
    pub etag: String,
}

impl RepoCache {
    pub fn new(settings: &HubSettings, repo: &RepoId) -> Self {
        let HubSettings { cache, without_links, .. } = settings;
        Self { cache: cache.clone(), name: repo.folder_name(), without_links: *without_links }
    }

    pub fn folder(&self) -> PathBuf {
        self.cache.join(&self.name)
    }

    pub fn locks(&self) -> PathBuf {
        self.cache.join(".locks").join(&self.name)
    }

    pub fn blob(&self, etag: &str) -> PathBuf {
        self.folder().join("blobs").join(etag)
    }

    pub fn incomplete(&self, etag: &str) -> PathBuf {
        self.folder().join("blobs").join(format!("{etag}.incomplete"))
    }

    pub fn snapshot(&self, commit: &str) -> PathBuf {
        self.folder().join("snapshots").join(commit)
    }

    /// Where a file of a snapshot is; `path` has `/` between folders.
    pub fn pointer(&self, commit: &str, path: &str) -> PathBuf {
        path.split('/').fold(self.snapshot(commit), |folder, part| folder.join(part))
    }

    /// Whether the file is there, as a blob or in its snapshot.
    pub fn has(&self, commit: &str, file: &CachedFile) -> bool {
        has_size(&self.blob(&file.etag), file.bytes) || has_size(&self.pointer(commit, &file.path), file.bytes)
    }

    /// A small file that is there.
    pub fn read(&self, commit: &str, file: &CachedFile) -> Result<Vec<u8>, Fault> {
        let (blob, pointer) = (self.blob(&file.etag), self.pointer(commit, &file.path));
        let path = if blob.exists() { blob } else { pointer };
        fs::read(&path).map_err(|error| Fault::io("reading", &path, error))
    }

    /// Removes a blob that no snapshot has, and the repository's folders where nothing else is in them.
    pub fn forget(&self, commit: &str, file: &CachedFile) {
        if self.pointer(commit, &file.path).exists() {
            return;
        }
        // What cannot be removed takes little room.
        let _ = fs::remove_file(self.blob(&file.etag));
        for folder in [self.folder().join("blobs"), self.folder()] {
            let _ = fs::remove_dir(folder);
        }
        if !self.folder().exists() {
            let _ = fs::remove_dir_all(self.locks());
        }
    }

    /// Bytes of the file that are here already, whole or not.
    pub fn bytes_here(&self, commit: &str, file: &CachedFile) -> u64 {
        if self.has(commit, file) {
            return file.bytes;
        }
        fs::metadata(self.incomplete(&file.etag)).map_or(0, |found| found.len().min(file.bytes))
    }

    /// Makes the folders that a pull writes to.
    pub fn prepare(&self) -> Result<(), Fault> {
        let blobs = self.folder().join("blobs");
        for folder in [&blobs, &self.locks()] {
            fs::create_dir_all(folder).map_err(|error| match Fault::io("creating", folder, error) {
                Fault::Io { source, .. } => Fault::Cache { folder: self.cache.clone(), problem: source.to_string() },
                Fault::Cache { problem, .. } => Fault::Cache { folder: self.cache.clone(), problem },
                other => other,
            })?;
        }
        Ok(())
    }

    /// Waits until no other program fetches this file. `None` where the file system has no locks: the bytes are checked anyway.
    pub fn lock(&self, etag: &str, meter: &mut Meter<'_>) -> Result<Option<File>, Fault> {
        let path = self.locks().join(format!("{etag}.lock"));
        let open = || File::options().create(true).append(true).open(&path);
        let file = open().map_err(|error| Fault::io("creating", &path, error))?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Some(file)),
                Err(TryLockError::WouldBlock) => {
                    meter.at(PullStage::Waiting, 0)?;
                    std::thread::sleep(std::time::Duration::from_millis(100));
                }
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(Fault::io("locking", &path, error)),
            }
        }
    }

    /// Puts whole files into their snapshot, in this order; what is there already stays.
    pub fn place(&self, commit: &str, files: &[CachedFile]) -> Result<(), Fault> {
        for (at, file) in files.iter().enumerate() {
            let pointer = self.pointer(commit, &file.path);
            if has_size(&pointer, file.bytes) {
                continue;
            }
            let folder = pointer.parent().unwrap_or(&pointer);
            fs::create_dir_all(folder).map_err(|error| Fault::io("creating", folder, error))?;
            self.place_one(commit, file, &pointer, &files[..at])?;
        }
        Ok(())
    }

    fn place_one(&self, commit: &str, file: &CachedFile, pointer: &Path, before: &[CachedFile]) -> Result<(), Fault> {
        let blob = self.blob(&file.etag);
        let beside = beside(pointer);
        let failed = |error| Fault::io("writing", pointer, error);
        let _ = fs::remove_file(&beside);
        let linked = !self.without_links && blob.exists() && {
            let ups = "../".repeat(2 + file.path.matches('/').count());
            disk::symlink_file(Path::new(&format!("{ups}blobs/{}", file.etag)), &beside).is_ok() && beside.exists()
        };
        if !linked {
            let _ = fs::remove_file(&beside);
            // The same bytes may have gone into the snapshot under another name.
            let twin = before.iter().find(|other| other.etag == file.etag).map(|twin| self.pointer(commit, &twin.path));
            match (blob.exists(), twin) {
                (false, Some(twin)) => fs::copy(twin, &beside).map(|_| ()).map_err(failed)?,
                _ => fs::rename(&blob, &beside).map_err(failed)?,
            }
        }
        fs::rename(&beside, pointer).map_err(failed)
    }

    /// Records which commit a branch or tag has.
    pub fn set_ref(&self, revision: &str, commit: &str) -> Result<(), Fault> {
        if revision == commit {
            return Ok(());
        }
        let path = revision.split('/').fold(self.folder().join("refs"), |folder, part| folder.join(part));
        if fs::read_to_string(&path).is_ok_and(|known| known == commit) {
            return Ok(());
        }
        let folder = path.parent().unwrap_or(&path);
        fs::create_dir_all(folder).map_err(|error| Fault::io("creating", folder, error))?;
        let beside = beside(&path);
        let write = || fs::write(&beside, commit).and_then(|()| fs::rename(&beside, &path));
        write().map_err(|error| Fault::io("writing", &path, error))
    }
}

/// A name for what becomes `path` by a rename.
fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{name}.{}.tmp", std::process::id()))
}

pub fn has_size(path: &Path, bytes: u64) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() == bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(folder: &Path, without_links: bool) -> RepoCache {
        RepoCache { cache: folder.into(), name: "models--a--b".into(), without_links }
    }

    fn file(path: &str, text: &str, etag: &str) -> CachedFile {
        CachedFile { path: path.into(), bytes: text.len() as u64, etag: etag.into() }
    }

    #[test]
    fn files_lie_in_the_snapshot_with_links_and_without() {
        for without_links in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let cache = cache(dir.path(), without_links);
            cache.prepare().unwrap();
            fs::write(cache.blob("e1"), "one").unwrap();
            fs::write(cache.blob("e2"), "second").unwrap();
            let files = [file("d/x/one", "one", "e1"), file("two", "second", "e2"), file("twin", "one", "e1")];
            assert!(files.iter().all(|file| cache.has("c0", file)));
            cache.place("c0", &files).unwrap();
            for (path, text) in [("d/x/one", "one"), ("two", "second"), ("twin", "one")] {
                assert_eq!(fs::read_to_string(cache.pointer("c0", path)).unwrap(), text, "{without_links}");
            }
            let is_link = fs::symlink_metadata(cache.pointer("c0", "two")).unwrap().is_symlink();
            assert_eq!((is_link, cache.blob("e2").exists()), (!without_links, !without_links));
            // Again changes nothing, and all is still found.
            cache.place("c0", &files).unwrap();
            assert!(files.iter().all(|file| cache.has("c0", file)));
            let names: Vec<_> = fs::read_dir(cache.snapshot("c0")).unwrap().map(|e| e.unwrap().file_name()).collect();
            assert_eq!(names.len(), 3, "{names:?}");
        }
    }

    #[test]
    fn a_link_to_nothing_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache(dir.path(), false);
        cache.prepare().unwrap();
        fs::write(cache.blob("e1"), "one").unwrap();
        let one = [file("one", "one", "e1")];
        cache.place("c0", &one).unwrap();
        fs::rename(cache.blob("e1"), cache.blob("e2")).unwrap();
        assert!(!cache.has("c0", &one[0]));
        cache.place("c0", &[file("one", "one", "e2")]).unwrap();
        assert_eq!(fs::read_to_string(cache.pointer("c0", "one")).unwrap(), "one");
    }

    #[test]
    fn a_branch_is_recorded_and_a_commit_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache(dir.path(), false);
        cache.set_ref("refs/pr/1", "c0").unwrap();
        cache.set_ref("refs/pr/1", "c1").unwrap();
        cache.set_ref("c1", "c1").unwrap();
        assert_eq!(fs::read_to_string(cache.folder().join("refs/refs/pr/1")).unwrap(), "c1");
        assert_eq!(fs::read_dir(cache.folder().join("refs/refs/pr")).unwrap().count(), 1);
        assert!(!cache.folder().join("refs/c1").exists());
    }

    #[test]
    fn a_cache_that_is_a_file_is_explained() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("hub"), "a file").unwrap();
        let error = cache(&dir.path().join("hub"), false).prepare().unwrap_err().to_string();
        assert!(error.contains("hub' cannot be used") && error.contains("HF_HUB_CACHE"), "{error}");
    }
}
