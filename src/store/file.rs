//! A conversation's file that is written to, and the lock that says so to other programs.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};

use super::record::{Record, VERSION};
use crate::disk;

#[derive(Debug)]
pub struct Appender {
    id: String,
    path: PathBuf,
    file: File,
    /// Held as long as this lives. A file beside the conversation: on Windows, what is locked cannot be read.
    _lock: Option<File>,
}

impl Appender {
    /// `AlreadyExists` where there is such a file.
    pub(super) fn create(path: PathBuf, lock: &Path, id: &str, now: DateTime<Utc>) -> io::Result<Self> {
        let lock = lock_file(lock)?.ok_or(io::ErrorKind::AlreadyExists)?;
        let file = disk::private(File::options().append(true).create_new(true)).open(&path)?;
        let mut appender = Self { id: id.to_owned(), path, file, _lock: lock };
        let begin = Record::Begin { id: id.to_owned(), version: VERSION, time: now };
        appender.write(&mut begin.line().into_bytes())?;
        Ok(appender)
    }

    /// `None` where another program writes to it.
    pub(super) fn open(path: PathBuf, lock: &Path, id: &str) -> io::Result<Option<Self>> {
        let Some(lock) = lock_file(lock)? else { return Ok(None) };
        let mut file = File::options().append(true).read(true).open(&path)?;
        // A line that a kill cut is closed, so that the next one is none of it.
        if !ends_a_line(&mut file)? {
            file.write_all(b"\n")?;
        }
        Ok(Some(Self { id: id.to_owned(), path, file, _lock: lock }))
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes these bytes and takes away what was written. After an error the rest is still there, and can be tried again:
    /// a disk that was full for a while leaves no hole.
    pub fn write(&mut self, waiting: &mut Vec<u8>) -> io::Result<()> {
        let mut written = 0;
        let result = loop {
            if written == waiting.len() {
                break Ok(());
            }
            match self.file.write(&waiting[written..]) {
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        waiting.drain(..written);
        result
    }

    /// What was written outlasts a power cut.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// `None` where another program holds it; `Some(None)` where the file system has no locks.
fn lock_file(path: &Path) -> io::Result<Option<Option<File>>> {
    let file = disk::private(File::options().create(true).append(true)).open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(Some(file))),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => Ok(Some(None)),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Another program holds it.
pub(super) fn is_locked(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

fn ends_a_line(file: &mut File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(true);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}
