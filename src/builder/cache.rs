//! Models built into ortalk's cache: a GGUF file that is chatted with is built once and found again.
//!
//! A folder's name tells the source file and the recipe apart, so a changed file or a new recipe is built anew. Several
//! processes may want the same folder: one builds, the others wait for it.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{BuildError, BuildOptions, BuildProgress, BuildStage, RECIPE, build};
use crate::model::BUILD_FILE;

/// A waiting process looks this often whether the other one is done.
const WAIT: Duration = Duration::from_millis(100);

/// The model folder of `source` below `models`, built if it is not there.
///
/// Once it is there, this costs a look at the source's size and age.
pub fn cached(
    source: &Path,
    models: &Path,
    options: &BuildOptions,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<PathBuf, BuildError> {
    let failed = |path: &Path, error| BuildError::Write { path: path.to_owned(), error };
    let name = folder_name(source, RECIPE).map_err(|error| BuildError::Read { path: source.to_owned(), error })?;
    let folder = models.join(&name);
    if is_built(&folder) {
        return Ok(folder);
    }
    fs::create_dir_all(models).map_err(|error| failed(models, error))?;
    let _lock = lock(&models.join(".lock"), progress).map_err(|error| failed(models, error))?;
    if is_built(&folder) {
        return Ok(folder);
    }
    // Whoever builds here holds the lock, so what lies here half built was left by a process that was killed.
    remove_partial(models);
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|error| failed(&folder, error))?;
    }
    build(source, &folder, options, progress)?;
    Ok(folder)
}

/// Where the model folder of `source` that another recipe makes has its place below `models`. `None` stands for a source
/// that cannot be looked at.
pub fn place(source: &Path, models: &Path, recipe: &str) -> Option<PathBuf> {
    Some(models.join(folder_name(source, recipe).ok()?))
}

/// Whether every file that the builder recorded is there with its size. A folder that lost one is built anew.
pub fn is_built(folder: &Path) -> bool {
    let recorded = || -> Option<BTreeMap<String, u64>> {
        let origin: serde_json::Value = serde_json::from_slice(&fs::read(folder.join(BUILD_FILE)).ok()?).ok()?;
        serde_json::from_value(origin.get("files")?.clone()).ok()
    };
    recorded().is_some_and(|files| {
        files.iter().all(|(name, bytes)| fs::metadata(folder.join(name)).is_ok_and(|found| found.len() == *bytes))
    })
}

/// The source's name, and a number made from what would make the folder out of date.
fn folder_name(source: &Path, recipe: &str) -> io::Result<String> {
    let source = fs::canonicalize(source)?;
    let metadata = fs::metadata(&source)?;
    let mut hasher = DefaultHasher::new();
    (&source, metadata.len(), metadata.modified().ok(), recipe, env!("CARGO_PKG_VERSION")).hash(&mut hasher);
    let stem = source.file_stem().unwrap_or_default().to_string_lossy().to_lowercase();
    Ok(format!("{stem}-{:016x}", hasher.finish()))
}

fn lock(path: &Path, progress: &mut dyn FnMut(BuildProgress)) -> io::Result<File> {
    let file = File::create(path)?;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => {
                progress(BuildProgress { stage: BuildStage::Waiting, fraction: 0.0 });
                std::thread::sleep(WAIT);
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

fn remove_partial(models: &Path) {
    let Ok(entries) = fs::read_dir(models) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().contains(".partial-") {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_follows_the_source() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("Model.Q4.gguf");
        fs::write(&path, "a").unwrap();
        let first = folder_name(&path, "a").unwrap();
        assert!(first.starts_with("model.q4-"), "{first}");
        assert_eq!(folder_name(&path, "a").unwrap(), first);
        assert_ne!(folder_name(&path, "b").unwrap(), first);
        fs::write(&path, "longer").unwrap();
        assert_ne!(folder_name(&path, "a").unwrap(), first);
    }

    #[test]
    fn what_a_killed_build_left_goes_and_a_broken_source_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let models = dir.path().join("models");
        fs::create_dir_all(models.join(".x.partial-1")).unwrap();
        let source = dir.path().join("broken.gguf");
        fs::write(&source, "no model").unwrap();
        cached(&source, &models, &BuildOptions::default(), &mut |_| ()).unwrap_err();
        let left: Vec<_> = fs::read_dir(&models).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, [".lock"]);
    }

    #[test]
    fn a_folder_is_whole_while_its_files_have_their_sizes() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!is_built(dir.path()));
        fs::write(dir.path().join("model.onnx"), "graph").unwrap();
        fs::write(dir.path().join(BUILD_FILE), r#"{"files": {"model.onnx": 5}}"#).unwrap();
        assert!(is_built(dir.path()));
        fs::write(dir.path().join("model.onnx"), "gra").unwrap();
        assert!(!is_built(dir.path()));
    }

    #[test]
    fn a_source_that_is_not_there_is_named() {
        let error = cached(Path::new("/no/such.gguf"), Path::new("/no"), &BuildOptions::default(), &mut |_| ());
        assert!(error.unwrap_err().to_string().contains("/no/such.gguf"));
    }
}
