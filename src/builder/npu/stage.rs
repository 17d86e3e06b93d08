//! The stages of a build, and the working folder in which each leaves what the next ones need.
//!
//! The folder stands beside the output as `.NAME.work`. Its manifest says what is built from what and which stages are
//! done, so that a build that was stopped or killed goes on where it was. A stage counts as done when it is recorded;
//! whatever one left that is not recorded is made anew.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::NpuBuildError;
use crate::builder::error::BuildError;

/// In the order of running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum NpuStage {
    /// Writes the decoder as float32 graphs.
    Export,
    /// Finds the range of each activation.
    Calibrate,
    /// Writes the graphs in integers.
    Quantize,
    /// Makes context binaries for the chip.
    Compile,
    /// Compares the quantized model with the float one.
    Judge,
    /// Puts the folder together.
    #[value(skip)]
    Assemble,
}

/// A stage that is done.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StageRecord {
    pub stage: NpuStage,
    pub seconds: f64,
    /// Of what it wrote.
    pub bytes: u64,
}

const MANIFEST: &str = "manifest.json";
const LOCK: &str = "lock";

#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    /// What is built, from what, and how: all that would make the stages' results others.
    identity: Value,
    done: Vec<StageRecord>,
}

/// Whether a build works in this folder now.
pub fn is_worked_in(folder: &Path) -> std::io::Result<bool> {
    let Ok(lock) = File::open(folder.join(LOCK)) else { return Ok(false) };
    match lock.try_lock() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// The folder in which a build works; nobody else does while this lives.
#[derive(Debug)]
pub struct WorkFolder {
    path: PathBuf,
    manifest: Manifest,
    _lock: File,
}

impl WorkFolder {
    /// Opens the folder for a build, or makes it. What it holds of another build than `identity` goes.
    pub fn open(path: &Path, identity: Value) -> Result<Self, NpuBuildError> {
        let path = path.to_owned();
        let failed = write_error(&path);
        fs::create_dir_all(&path).map_err(&failed)?;
        let lock = File::create(path.join(LOCK)).map_err(&failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(NpuBuildError::Busy { path }),
            Err(TryLockError::Error(error)) => return Err(failed(error).into()),
        }
        let known: Option<Manifest> =
            fs::read(path.join(MANIFEST)).ok().and_then(|text| serde_json::from_slice(&text).ok());
        let manifest = match known {
            Some(manifest) if manifest.identity == identity => manifest,
            _ => {
                for entry in fs::read_dir(&path).map_err(&failed)? {
                    let entry = entry.map_err(&failed)?;
                    if entry.file_name() != LOCK {
                        remove(&entry.path()).map_err(&failed)?;
                    }
                }
                Manifest { identity, done: Vec::new() }
            }
        };
        Ok(Self { path, manifest, _lock: lock })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where something with this name is, or will be.
    pub fn at(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The same, and nothing is there.
    pub fn fresh(&self, name: &str) -> Result<PathBuf, BuildError> {
        let path = self.at(name);
        if fs::symlink_metadata(&path).is_ok() {
            remove(&path).map_err(write_error(&path))?;
        }
        Ok(path)
    }

    pub fn done(&self) -> &[StageRecord] {
        &self.manifest.done
    }

    /// Runs a stage unless it is done. `products` are the names of the files and folders that it makes.
    pub fn run(
        &mut self,
        stage: NpuStage,
        products: &[&str],
        work: impl FnOnce(&Self) -> Result<(), NpuBuildError>,
    ) -> Result<StageRecord, NpuBuildError> {
        if let Some(record) = self.manifest.done.iter().find(|record| record.stage == stage) {
            return Ok(*record);
        }
        let started = Instant::now();
        work(self)?;
        let mut bytes = 0;
        for product in products {
            let path = self.at(product);
            bytes += size(&path).map_err(write_error(&path))?;
        }
        let record = StageRecord { stage, seconds: started.elapsed().as_secs_f64(), bytes };
        self.manifest.done.push(record);
        self.write_json(MANIFEST, &self.manifest)?;
        Ok(record)
    }

    /// Writes a file that is there as a whole or not at all.
    pub fn write_json<T: Serialize>(&self, name: &str, value: &T) -> Result<(), BuildError> {
        let (path, partial) = (self.at(name), self.at(&format!("{name}.partial")));
        let text = serde_json::to_vec_pretty(value).unwrap_or_default();
        let write = || {
            fs::write(&partial, text)?;
            File::open(&partial)?.sync_all()?;
            fs::rename(&partial, &path)
        };
        write().map_err(write_error(&path))
    }

    /// Reads what an earlier stage wrote.
    pub fn read_json<T: serde::de::DeserializeOwned>(&self, name: &str) -> Result<T, BuildError> {
        let path = self.at(name);
        let read = || Ok(serde_json::from_slice(&fs::read(&path)?)?);
        read().map_err(|error: std::io::Error| BuildError::Read { path: path.clone(), error })
    }

    /// The build is done and nothing is kept.
    pub fn remove(self) -> Result<(), BuildError> {
        fs::remove_dir_all(&self.path).map_err(write_error(&self.path))
    }
}

/// Links `from` to `to`, or copies it where the file system has no links.
pub fn place(from: &Path, to: &Path) -> Result<(), BuildError> {
    let linked = fs::hard_link(from, to).or_else(|_| fs::copy(from, to).map(|_| ()));
    linked.map_err(write_error(to))
}

/// The files of a folder by name, with their bytes.
pub fn files(folder: &Path) -> Result<BTreeMap<String, u64>, BuildError> {
    let read = || -> std::io::Result<BTreeMap<String, u64>> {
        let entries = fs::read_dir(folder)?;
        entries
            .map(|entry| {
                let entry = entry?;
                Ok((entry.file_name().to_string_lossy().into_owned(), entry.metadata()?.len()))
            })
            .collect()
    };
    read().map_err(|error| BuildError::Read { path: folder.to_owned(), error })
}

/// The bytes of a file, or of all files in a folder.
fn size(path: &Path) -> std::io::Result<u64> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_dir() {
        return Ok(metadata.len());
    }
    fs::read_dir(path)?.map(|entry| Ok(entry?.metadata()?.len())).sum()
}

fn remove(path: &Path) -> std::io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}

fn write_error(path: &Path) -> impl Fn(std::io::Error) -> BuildError + use<> {
    let path = path.to_owned();
    move |error| BuildError::Write { path: path.clone(), error }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn run(work: &mut WorkFolder, runs: &Cell<u32>) -> StageRecord {
        let stage = |work: &WorkFolder| {
            runs.set(runs.get() + 1);
            Ok(work.write_json("ranges.json", &[1.5])?)
        };
        work.run(NpuStage::Calibrate, &["ranges.json"], stage).unwrap()
    }

    #[test]
    fn a_stage_that_is_done_is_not_run_again() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("model");
        let runs = Cell::new(0);
        let mut work = WorkFolder::open(&folder, json!("a")).unwrap();
        let first = run(&mut work, &runs);
        assert!(first.bytes > 0);
        drop(work);
        let mut work = WorkFolder::open(&folder, json!("a")).unwrap();
        assert_eq!((run(&mut work, &runs), runs.get()), (first, 1));
        assert_eq!(work.read_json::<Vec<f32>>("ranges.json").unwrap(), [1.5]);
        drop(work);
        // Something else is built: nothing of the old is left.
        let mut work = WorkFolder::open(&folder, json!("b")).unwrap();
        assert!(!work.at("ranges.json").exists());
        run(&mut work, &runs);
        assert_eq!(runs.get(), 2);
        work.remove().unwrap();
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_stage_that_failed_is_run_again() {
        let home = tempfile::tempdir().unwrap();
        let mut work = WorkFolder::open(&home.path().join("model"), json!("a")).unwrap();
        let broken = |work: &WorkFolder| Err(NpuBuildError::Busy { path: work.at("x") });
        work.run(NpuStage::Calibrate, &[], broken).unwrap_err();
        let runs = Cell::new(0);
        run(&mut work, &runs);
        assert_eq!(runs.get(), 1);
    }

    #[test]
    fn two_builds_do_not_share_a_folder() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("model");
        let work = WorkFolder::open(&folder, json!("a")).unwrap();
        let error = WorkFolder::open(&folder, json!("a")).unwrap_err().to_string();
        assert!(error.contains("another ortalk"), "{error}");
        drop(work);
        WorkFolder::open(&folder, json!("a")).unwrap();
    }
}
