//! A folder that appears at its place whole or not at all: it is written as a hidden sibling and renamed at the end.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::BuildError;

/// Siblings that nobody has touched for so long were left by a build that was killed.
const ABANDONED: Duration = Duration::from_secs(24 * 60 * 60);

/// A folder in the making; dropped before it is published, it is removed.
#[derive(Debug)]
pub struct NewFolder {
    output: PathBuf,
    partial: PathBuf,
    published: bool,
}

impl NewFolder {
    /// Starts a folder that will be `output`, which must not exist or be an empty folder.
    pub fn create(output: &Path) -> Result<Self, BuildError> {
        let failed = |error| BuildError::Write { path: output.to_owned(), error };
        let absolute = match fs::read_dir(output) {
            Ok(mut entries) => {
                if entries.next().is_some() {
                    return Err(BuildError::OutputExists { path: output.to_owned() });
                }
                // Through a link to the folder itself, which is what will be replaced.
                fs::canonicalize(output).map_err(failed)?
            }
            // A file, or a link to nothing.
            Err(_) if fs::symlink_metadata(output).is_ok_and(|metadata| !metadata.is_dir()) => {
                return Err(BuildError::OutputExists { path: output.to_owned() });
            }
            // Whether it can be made is seen when its parent is.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                std::path::absolute(output).map_err(failed)?
            }
            Err(error) => return Err(failed(error)),
        };
        // `a/..` and the like name a folder, but not a name that a sibling could be renamed to.
        let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name()) else {
            return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "expected a path that ends in a name")));
        };
        fs::create_dir_all(parent).map_err(|error| BuildError::Parent { path: parent.to_owned(), error })?;
        let stem = format!(".{}.partial-", name.to_string_lossy());
        remove_abandoned(parent, &stem);
        let partial = parent.join(format!("{stem}{}", std::process::id()));
        // Only a build of this very process, or of a dead one with its number, can have left it.
        if partial.exists() {
            fs::remove_dir_all(&partial).map_err(|error| BuildError::Write { path: partial.clone(), error })?;
        }
        fs::create_dir(&partial).map_err(|error| BuildError::Parent { path: parent.to_owned(), error })?;
        Ok(Self { output: absolute, partial, published: false })
    }

    /// Where files are written until the folder is published.
    pub fn path(&self) -> &Path {
        &self.partial
    }

    /// Writes a file, which may be in a folder within.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), BuildError> {
        let path = self.partial.join(name);
        let write = || {
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            let mut file = File::create_new(&path)?;
            file.write_all(bytes)?;
            file.sync_all()
        };
        write().map_err(|error| BuildError::Write { path: path.clone(), error })
    }

    /// Writes JSON, indented for people.
    pub fn write_json(&self, name: &str, value: &serde_json::Value) -> Result<(), BuildError> {
        self.write(name, format!("{value:#}\n").as_bytes())
    }

    /// The names and sizes, in bytes, of the files written so far, without those in folders within.
    pub fn sizes(&self) -> Result<BTreeMap<String, u64>, BuildError> {
        let read = || -> io::Result<BTreeMap<String, u64>> {
            fs::read_dir(&self.partial)?
                .map(|entry| {
                    let entry = entry?;
                    Ok((entry.file_name().to_string_lossy().into_owned(), entry.metadata()?))
                })
                .filter(|file| file.as_ref().map_or(true, |(_, metadata)| metadata.is_file()))
                .map(|file| file.map(|(name, metadata)| (name, metadata.len())))
                .collect()
        };
        read().map_err(|error| BuildError::Write { path: self.partial.clone(), error })
    }

    /// Puts the folder at its place.
    pub fn publish(mut self) -> Result<(), BuildError> {
        let failed = |error| BuildError::Write { path: self.output.clone(), error };
        // Not every system renames onto an empty folder.
        if self.output.exists() {
            fs::remove_dir(&self.output).map_err(failed)?;
        }
        fs::rename(&self.partial, &self.output).map_err(failed)?;
        self.published = true;
        Ok(())
    }
}

impl Drop for NewFolder {
    fn drop(&mut self) {
        if !self.published {
            // Nothing can be done about a failure here, and the error that led here matters more.
            let _ = fs::remove_dir_all(&self.partial);
        }
    }
}

fn remove_abandoned(parent: &Path, stem: &str) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let is_old = || entry.metadata().ok()?.modified().ok()?.elapsed().ok().map(|age| age > ABANDONED);
        if entry.file_name().to_string_lossy().starts_with(stem) && is_old() == Some(true) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
