//! What was built into ortalk's cache: which models, from which files, and which of them are of no more use.
//!
//! Beside what the builder writes, a folder in the cache has a note of the files that it was built from. Whoever uses the
//! folder touches the note, so its age says when that was.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::cache::{NPU_MODELS, is_built, try_lock};
use super::error::BuildError;
use super::npu::{self, WORK};
use super::source::Stamp;
use crate::model::BUILD_FILE;

/// What a folder in the cache was built from.
const NOTE: &str = "ortalk_cached.json";

/// A folder that ortalk built into its cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Built {
    /// The folder's name, by which it can be chatted with, shown and removed.
    pub name: String,
    /// What the model is called on screen.
    pub title: String,
    pub folder: PathBuf,
    pub for_npu: bool,
    pub bytes: u64,
    pub last_used: Option<SystemTime>,
    /// The GGUF file or checkpoint folder; folders of older versions do not say.
    pub source: Option<PathBuf>,
    /// Why it will not be used again.
    pub stale: Option<&'static str>,
}

#[derive(Serialize, Deserialize)]
struct Note {
    source: PathBuf,
    files: Vec<(String, u64, String)>,
}

/// Notes what a folder was built from. A note that cannot be written is no reason to stop.
pub fn note(folder: &Path, source: &Path) {
    let Ok(Stamp { path, files }) = Stamp::of(source) else { return };
    if let Ok(text) = serde_json::to_string(&Note { source: path, files }) {
        let _ = fs::write(folder.join(NOTE), text);
    }
}

/// Notes that a folder is used now.
pub fn touch(folder: &Path) {
    if let Ok(file) = File::options().append(true).open(folder.join(NOTE)) {
        let _ = file.set_modified(SystemTime::now());
    }
}

/// All that was built below `models`, for the CPU first, in the order of their names.
pub fn built(models: &Path) -> Vec<Built> {
    let of = |folder: &Path, for_npu| {
        let mut found: Vec<Built> = folders(folder).into_iter().filter_map(|folder| read(folder, for_npu)).collect();
        found.sort_by(|a, b| a.name.cmp(&b.name));
        found
    };
    let mut found = of(models, false);
    found.extend(of(&models.join(NPU_MODELS), true));
    found
}

/// What builds left below `models` that were killed or failed; a build for an NPU would go on from its own.
pub fn leftovers(models: &Path) -> Vec<Built> {
    let mut found = Vec::new();
    for (parent, for_npu) in [(models.to_path_buf(), false), (models.join(NPU_MODELS), true)] {
        for folder in folders(&parent) {
            let Some(name) = folder.file_name().and_then(|name| name.to_str()).map(str::to_string) else { continue };
            let inner = name.strip_prefix('.').unwrap_or_default();
            if inner.contains(".partial-") || inner.ends_with(WORK) {
                found.push(Built {
                    title: name.clone(),
                    name,
                    for_npu,
                    bytes: bytes_below(&folder),
                    last_used: None,
                    source: None,
                    stale: Some("a build left it that did not end"),
                    folder,
                });
            }
        }
    }
    found.sort_by(|a, b| (a.for_npu, &a.name).cmp(&(b.for_npu, &b.name)));
    found
}

/// The folder of this name below `models`.
pub fn built_named(models: &Path, name: &str) -> Option<PathBuf> {
    built(models).into_iter().find(|built| built.name == name).map(|built| built.folder)
}

/// Removes a folder; `None` where a build is going on that might want it.
pub fn remove_built(built: &Built) -> Result<Option<()>, BuildError> {
    let failed = |error: io::Error| BuildError::Write { path: built.folder.clone(), error };
    let parent = built.folder.parent().unwrap_or(&built.folder);
    let Some(_lock) = try_lock(parent).map_err(failed)? else { return Ok(None) };
    // Whoever started a build may be gone, and the build itself go on.
    if npu::is_worked_in(&built.folder).map_err(failed)? {
        return Ok(None);
    }
    // Under another name first: a folder that is half removed should not look whole.
    let gone = parent.join(format!(".{}.partial-{}", built.name, std::process::id()));
    fs::rename(&built.folder, &gone).and_then(|()| fs::remove_dir_all(&gone)).map_err(failed)?;
    Ok(Some(()))
}

fn folders(parent: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
}

fn read(folder: PathBuf, for_npu: bool) -> Option<Built> {
    let name = folder.file_name()?.to_str()?.to_string();
    let origin: serde_json::Value = serde_json::from_slice(&fs::read(folder.join(BUILD_FILE)).ok()?).ok()?;
    let note_path = folder.join(NOTE);
    let note: Option<Note> = fs::read(&note_path).ok().and_then(|text| serde_json::from_slice(&text).ok());
    let own_version = origin["builder"]["version"] == env!("CARGO_PKG_VERSION");
    let stale = match &note {
        _ if !own_version => Some("another version of ortalk built it"),
        _ if !is_built(&folder) => Some("it is not whole"),
        Some(note) => match Stamp::of(&note.source) {
            Err(_) => Some("what it was built from is gone"),
            Ok(stamp) if stamp.files != note.files => Some("what it was built from has changed"),
            Ok(_) => None,
        },
        None => None,
    };
    Some(Built {
        title: origin["name"].as_str().unwrap_or(&name).to_string(),
        name,
        for_npu,
        bytes: folder_bytes(&folder),
        last_used: fs::metadata(&note_path).and_then(|found| found.modified()).ok(),
        source: note.map(|note| note.source),
        stale,
        folder,
    })
}

fn bytes_below(folder: &Path) -> u64 {
    folders(folder).iter().fold(folder_bytes(folder), |sum, inner| sum + bytes_below(inner))
}

fn folder_bytes(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).filter(|found| found.is_file()).map(|found| found.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder as the cache has it after a build.
    fn folder(parent: &Path, name: &str, version: &str) -> PathBuf {
        let folder = parent.join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("model.onnx"), "graph").unwrap();
        let origin = serde_json::json!({
            "name": "A model", "files": {"model.onnx": 5}, "builder": {"name": "ortalk", "version": version},
        });
        fs::write(folder.join(BUILD_FILE), origin.to_string()).unwrap();
        folder
    }

    fn stale(models: &Path) -> Vec<(String, Option<&'static str>)> {
        built(models).into_iter().map(|built| (built.name, built.stale)).collect()
    }

    #[test]
    fn what_is_of_no_more_use_says_why() {
        let dir = tempfile::tempdir().unwrap();
        let (models, source) = (dir.path().join("models"), dir.path().join("a.gguf"));
        fs::write(&source, "one").unwrap();
        let version = env!("CARGO_PKG_VERSION");
        note(&folder(&models, "a-1", version), &source);
        folder(&models, "b-unknown", version);
        folder(&models, "c-old", "0.0.0");
        folder(&models.join(NPU_MODELS), "d-npu", version);
        fs::create_dir_all(models.join(".e.partial-1")).unwrap();
        let expected = |a| {
            let old = Some("another version of ortalk built it");
            [("a-1", a), ("b-unknown", None), ("c-old", old), ("d-npu", None)]
                .map(|(name, stale)| (name.to_string(), stale))
        };
        assert_eq!(stale(&models), expected(None));
        assert!(
            built(&models)[3].for_npu
                && built(&models)[0].source.as_deref() == Some(&fs::canonicalize(&source).unwrap())
        );
        fs::write(&source, "longer").unwrap();
        assert_eq!(stale(&models), expected(Some("what it was built from has changed")));
        fs::remove_file(&source).unwrap();
        assert_eq!(stale(&models), expected(Some("what it was built from is gone")));
        fs::write(models.join("a-1/model.onnx"), "gra").unwrap();
        assert_eq!(stale(&models), expected(Some("it is not whole")));
    }

    #[test]
    fn a_folder_is_removed_unless_someone_builds() {
        let dir = tempfile::tempdir().unwrap();
        let path = folder(dir.path(), "a-1", env!("CARGO_PKG_VERSION"));
        let found = built(dir.path()).remove(0);
        assert_eq!(built_named(dir.path(), "a-1"), Some(path.clone()));
        let lock = try_lock(dir.path()).unwrap().unwrap();
        assert_eq!(remove_built(&found).unwrap(), None);
        drop(lock);
        assert_eq!(remove_built(&found).unwrap(), Some(()));
        assert!(!path.exists() && built(dir.path()).is_empty());
    }

    #[test]
    fn what_builds_left_is_found_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let models = dir.path();
        folder(models, "whole-1", env!("CARGO_PKG_VERSION"));
        let work = models.join(NPU_MODELS).join(".b-2.work");
        for (folder, file) in [(&models.join(".a-1.partial-7"), "model.onnx"), (&work.join("export"), "x.onnx")] {
            fs::create_dir_all(folder).unwrap();
            fs::write(folder.join(file), "12345").unwrap();
        }
        fs::create_dir_all(models.join(".other")).unwrap();
        let names = || leftovers(models).into_iter().map(|left| (left.name, left.bytes)).collect::<Vec<_>>();
        assert_eq!(names(), [(".a-1.partial-7".to_string(), 5), (".b-2.work".to_string(), 5)]);
        let lock = File::create(work.join("lock")).unwrap();
        lock.lock().unwrap();
        let found = leftovers(models);
        assert_eq!(remove_built(&found[1]).unwrap(), None);
        drop(lock);
        for left in &found {
            assert_eq!(remove_built(left).unwrap(), Some(()), "{}", left.name);
        }
        assert_eq!(names(), []);
        assert!(models.join("whole-1").exists() && models.join(".other").exists());
    }

    #[test]
    fn use_is_noted() {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("a.gguf");
        fs::write(&source, "one").unwrap();
        let folder = folder(dir.path(), "a-1", env!("CARGO_PKG_VERSION"));
        assert_eq!(built(dir.path())[0].last_used, None);
        note(&folder, &source);
        let old = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
        File::options().append(true).open(folder.join(NOTE)).unwrap().set_modified(old).unwrap();
        assert_eq!(built(dir.path())[0].last_used, Some(old));
        touch(&folder);
        assert!(built(dir.path())[0].last_used.unwrap() > old);
    }
}
