//! Models built into ortalk's cache: a checkpoint that is chatted with is built once and found again.
//!
//! A folder's name tells the source's files and the recipe apart, so a changed file or a new recipe is built anew. Several
//! processes may want the same folder: one builds, the others wait for it.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::built;
use super::npu::{self, NpuBuildOptions};
use super::source::Stamp;
use super::{BuildError, BuildOptions, BuildProgress, BuildStage, build};
use crate::model::BUILD_FILE;

/// A waiting process looks this often whether the other one is done.
const WAIT: Duration = Duration::from_millis(100);

/// Held by the one process that builds into a folder of models.
const LOCK: &str = ".lock";

/// Where the models for NPUs are, below those for the CPU.
pub const NPU_MODELS: &str = "npu";

/// The model folder of `source` below `models`, built if it is not there.
///
/// Once it is there, this costs a look at the source's size and age.
pub fn cached(
    source: &Path,
    models: &Path,
    options: &BuildOptions,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<PathBuf, BuildError> {
    let name = folder_name(source, &options.precision.recipe())?;
    let mut build = |step: Step<'_>| match step {
        Step::Wait => {
            progress(BuildProgress { stage: BuildStage::Waiting, fraction: 0.0 });
            Ok(())
        }
        Step::Build(folder) => build(source, folder, options, progress).map(|_| ()),
    };
    ensure(source, models, &name, &mut build)
}

/// The same, if it is there.
pub fn find_cached(source: &Path, models: &Path, options: &BuildOptions) -> Result<Option<PathBuf>, BuildError> {
    let folder = models.join(folder_name(source, &options.precision.recipe())?);
    Ok(is_built(&folder).then_some(folder))
}

/// The same for an NPU: one folder for each chip, precision and size; `act` builds.
///
/// They are in a folder of their own, so that a build of minutes does not keep others from building for the CPU. One that
/// was stopped or killed goes on where it was.
pub fn cached_npu<E: From<BuildError>>(
    source: &Path,
    models: &Path,
    options: &NpuBuildOptions,
    act: &mut dyn FnMut(Step<'_>) -> Result<(), E>,
) -> Result<PathBuf, E> {
    ensure(source, &models.join(NPU_MODELS), &npu_folder_name(source, options)?, act)
}

/// The model folder of `source` for an NPU below `models`, if it is there.
pub fn find_npu(source: &Path, models: &Path, options: &NpuBuildOptions) -> Result<Option<PathBuf>, BuildError> {
    let folder = models.join(NPU_MODELS).join(npu_folder_name(source, options)?);
    Ok(is_built(&folder).then(|| {
        built::touch(&folder);
        folder
    }))
}

fn npu_folder_name(source: &Path, options: &NpuBuildOptions) -> Result<String, BuildError> {
    let NpuBuildOptions { target, precision, context, chunk, .. } = options;
    folder_name(source, &format!("{} {target:?} {precision:?} {context:?} {chunk:?}", npu::RECIPE))
}

/// What must be done for a folder to be there.
pub enum Step<'f> {
    /// Say that another process builds.
    Wait,
    /// Build this folder.
    Build(&'f Path),
}

/// The folder with this name below `models`, built if it is not there or not whole.
fn ensure<E: From<BuildError>>(
    source: &Path,
    models: &Path,
    name: &str,
    act: &mut dyn FnMut(Step<'_>) -> Result<(), E>,
) -> Result<PathBuf, E> {
    let failed = |path: &Path, error| BuildError::Write { path: path.to_owned(), error };
    let folder = models.join(name);
    if is_built(&folder) {
        built::touch(&folder);
        return Ok(folder);
    }
    fs::create_dir_all(models).map_err(|error| failed(models, error))?;
    let _lock = lock(&models.join(LOCK), act, |error| failed(models, error).into())?;
    if is_built(&folder) {
        return Ok(folder);
    }
    // Whoever builds here holds the lock, so what lies here half built was left by a process that was killed.
    remove_partial(models);
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|error| failed(&folder, error))?;
    }
    act(Step::Build(&folder))?;
    built::note(&folder, source);
    Ok(folder)
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
fn folder_name(source: &Path, recipe: &str) -> Result<String, BuildError> {
    let Stamp { path, files } = Stamp::of(source)?;
    let mut hasher = DefaultHasher::new();
    (&path, files, recipe, env!("CARGO_PKG_VERSION")).hash(&mut hasher);
    // By the name that was given: a link in the Hub's cache leads to a file that is called by its hash.
    let stem = super::source::name(source).to_lowercase();
    let stem = if stem.is_empty() { super::source::name(&path).to_lowercase() } else { stem };
    Ok(format!("{stem}-{:016x}", hasher.finish()))
}

fn lock<E>(
    path: &Path,
    act: &mut dyn FnMut(Step<'_>) -> Result<(), E>,
    failed: impl Fn(io::Error) -> E,
) -> Result<File, E> {
    let file = File::create(path).map_err(&failed)?;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => {
                act(Step::Wait)?;
                std::thread::sleep(WAIT);
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
    }
}

/// The lock of a folder of models, where nobody builds into it.
pub fn try_lock(models: &Path) -> io::Result<Option<File>> {
    let file = File::create(models.join(LOCK))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
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
    use crate::builder::CpuPrecision;

    #[test]
    fn the_name_follows_the_source() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("Model.Q4.gguf");
        fs::write(&path, "a").unwrap();
        let [int8, fp32] = [CpuPrecision::Int8, CpuPrecision::Fp32].map(CpuPrecision::recipe);
        let first = folder_name(&path, &int8).unwrap();
        assert!(first.starts_with("model.q4-"), "{first}");
        assert_eq!(folder_name(&path, &int8).unwrap(), first);
        fs::write(&path, "longer").unwrap();
        assert_ne!(folder_name(&path, &int8).unwrap(), first);
        assert_ne!(folder_name(&path, &fp32).unwrap(), folder_name(&path, &int8).unwrap());
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
