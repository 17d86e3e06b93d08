//! Conversations on the disk: one file each, of JSON lines that are only ever appended.
//!
//! Every piece of an answer is a line, written when it comes, so a kill costs the piece that is on its way and no more. A
//! file is read as far as it can be understood: a line that was cut, or that somebody else wrote, costs itself. What a
//! conversation's lines make is a [`Tree`], so that edits and second answers keep what was there before.
//!
//! The files are private to their user. One program writes to a conversation at a time; a second one that opens it goes on
//! in a copy ([`keeper`]).

pub mod export;
mod file;
pub mod keeper;
mod library;
mod message;
mod outline;
mod read;
mod record;
mod tree;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use chrono::{DateTime, Utc};

use crate::disk;

pub use file::Appender;
pub use library::{Found, Library, Snippet};
pub use message::{Answer, Made, Message, Piece};
pub use outline::Outline;
pub use read::{LeftOut, Reading, read};
pub use record::{End, LongPiece, Record, Shown, TokenTime, Unreadable, VERSION, timestamp};
pub use tree::Tree;

const EXTENSION: &str = "jsonl";
const DELETED: &str = "deleted";
const LOCKS: &str = "locks";

/// A deleted conversation can be had back for so long.
pub const KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// No conversation is larger, in bytes; what is, is something else.
const LARGEST: u64 = 1 << 30;

/// The folder with the conversations, which need not be there.
#[derive(Debug, Clone)]
pub struct Store {
    folder: PathBuf,
}

/// A file of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub id: String,
    pub path: PathBuf,
    /// When it was written to; of a deleted one, when it was deleted.
    pub changed: SystemTime,
    pub bytes: u64,
}

/// A conversation that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    pub id: String,
    pub tree: Tree,
    pub left_out: LeftOut,
}

impl Stored {
    /// Another program has it open, and may be writing the answer that has no end.
    fn say_unfinished(&mut self) {
        if let Some(id) = self.tree.unfinished() {
            let end = End::unfinished("unfinished: another ortalk was still writing to this conversation");
            self.tree.apply(&Record::End { id, end });
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("no conversation is kept here; the chat keeps what is said in '{}'", .0.display())]
    Empty(PathBuf),
    #[error("no conversation has '{0}' in its name; `ortalk chats` lists them")]
    Unknown(String),
    #[error("no deleted conversation has '{0}' in its name; `ortalk chats --deleted` lists them")]
    NotDeleted(String),
    #[error("'{name}' may be {}; give more of the name", .found.join(", "))]
    Ambiguous { name: String, found: Vec<String> },
    #[error("'{}' is no conversation of ortalk's", .0.display())]
    Foreign(PathBuf),
    #[error("'{}' was written by a newer ortalk (format {version}, this one reads {VERSION})", path.display())]
    Newer { path: PathBuf, version: u32 },
    #[error("another ortalk writes to the conversation '{0}'; end that one first")]
    Busy(String),
    #[error("'{}' cannot be {what}: {error}", path.display())]
    Io { path: PathBuf, what: &'static str, error: io::Error },
}

impl StoreError {
    fn io(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |error| Self::Io { path, what, error }
    }
}

impl Store {
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn path(&self, id: &str) -> PathBuf {
        self.folder.join(format!("{id}.{EXTENSION}"))
    }

    fn deleted_path(&self, id: &str) -> PathBuf {
        self.folder.join(DELETED).join(format!("{id}.{EXTENSION}"))
    }

    fn lock_path(&self, id: &str) -> PathBuf {
        self.folder.join(LOCKS).join(id)
    }

    /// All conversations, the one that was written to last first. A store that is not there has none.
    pub fn list(&self) -> Result<Vec<Entry>, StoreError> {
        entries(&self.folder)
    }

    /// Those that were deleted, the last one first.
    pub fn list_deleted(&self) -> Result<Vec<Entry>, StoreError> {
        entries(&self.folder.join(DELETED))
    }

    /// The conversation that is meant by its name, or by a part of it that no other one has; without one, the latest.
    pub fn find(&self, name: Option<&str>) -> Result<String, StoreError> {
        let entries = self.list()?;
        let Some(name) = name else {
            // One that a kill left empty is none to go on with.
            let is_emptied = |entry: &Entry| self.load(&entry.id).is_ok_and(|stored| stored.tree.is_emptied());
            let latest = entries.into_iter().find(|entry| !is_emptied(entry));
            return latest.map(|entry| entry.id).ok_or_else(|| StoreError::Empty(self.folder.clone()));
        };
        match one(entries, name)? {
            Some(id) => Ok(id),
            None => Err(StoreError::Unknown(name.to_owned())),
        }
    }

    pub fn find_deleted(&self, name: &str) -> Result<String, StoreError> {
        one(self.list_deleted()?, name)?.ok_or_else(|| StoreError::NotDeleted(name.to_owned()))
    }

    pub fn load(&self, id: &str) -> Result<Stored, StoreError> {
        load(&self.path(id), id)
    }

    /// As one that is only looked at: an answer that another program may be writing just now says so.
    pub fn look(&self, id: &str) -> Result<Stored, StoreError> {
        let mut stored = self.load(id)?;
        if stored.tree.unfinished().is_some() && file::is_locked(&self.lock_path(id)) {
            stored.say_unfinished();
        }
        Ok(stored)
    }

    pub fn load_deleted(&self, id: &str) -> Result<Stored, StoreError> {
        load(&self.deleted_path(id), id)
    }

    /// A new file, with its first line. `seed` is part of its name, so that two that begin in one second differ.
    pub fn begin(&self, now: DateTime<Utc>, seed: u16) -> Result<Appender, StoreError> {
        disk::create_private_folders(&self.folder.join(LOCKS)).map_err(StoreError::io(&self.folder, "created"))?;
        let mut seed = seed;
        loop {
            let id = format!("{}-{seed:04x}", now.format("%Y%m%d-%H%M%S"));
            let path = self.path(&id);
            match Appender::create(path.clone(), &self.lock_path(&id), &id, now) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => seed = seed.wrapping_add(1),
                made => return made.map_err(StoreError::io(&path, "written")),
            }
        }
    }

    /// To go on with it. `None` where another program writes to it.
    pub fn open(&self, id: &str) -> Result<Option<Appender>, StoreError> {
        let path = self.path(id);
        disk::create_private_folders(&self.folder.join(LOCKS)).map_err(StoreError::io(&self.folder, "written"))?;
        Appender::open(path.clone(), &self.lock_path(id), id).map_err(StoreError::io(&path, "written"))
    }

    /// Says what a conversation is called. `Busy` where another program writes to it.
    pub fn rename(&self, id: &str, title: &str) -> Result<(), StoreError> {
        let mut file = self.open(id)?.ok_or_else(|| StoreError::Busy(id.to_owned()))?;
        let line = Record::Title(title.trim().to_owned()).line();
        let mut waiting = line.into_bytes();
        file.write(&mut waiting).map_err(StoreError::io(&self.path(id), "written"))
    }

    /// Puts it away; it can be had back for [`KEPT`].
    pub fn delete(&self, id: &str) -> Result<(), StoreError> {
        let (from, to) = (self.path(id), self.deleted_path(id));
        // Its lock says whether somebody writes to it.
        if self.open(id)?.is_none() {
            return Err(StoreError::Busy(id.to_owned()));
        }
        self.put_away(&from, &to)
    }

    fn put_away(&self, from: &Path, to: &Path) -> Result<(), StoreError> {
        disk::create_private_folders(&self.folder.join(DELETED)).map_err(StoreError::io(from, "deleted"))?;
        fs::rename(from, to).map_err(StoreError::io(from, "deleted"))?;
        // The time that it is kept counts from now.
        let _ = fs::File::options().append(true).open(to).and_then(|file| file.set_modified(SystemTime::now()));
        Ok(())
    }

    /// One that was deleted because it was empty has its last message back.
    pub fn undelete(&self, id: &str) -> Result<(), StoreError> {
        let (from, to) = (self.deleted_path(id), self.path(id));
        fs::rename(&from, &to).map_err(StoreError::io(&from, "taken back"))?;
        let emptied = self.load(id).ok().filter(|stored| stored.tree.is_emptied());
        let Some(message) = emptied.and_then(|stored| stored.tree.newest_deleted()) else { return Ok(()) };
        let mut file = self.open(id)?.ok_or_else(|| StoreError::Busy(id.to_owned()))?;
        let mut line = Record::Restore(message).line().into_bytes();
        file.write(&mut line).map_err(StoreError::io(&to, "written"))
    }

    /// Removes a deleted conversation for good.
    pub fn forget(&self, id: &str) -> Result<(), StoreError> {
        let path = self.deleted_path(id);
        fs::remove_file(&path).map_err(StoreError::io(&path, "removed"))?;
        let _ = fs::remove_file(self.lock_path(id));
        Ok(())
    }

    /// Removes for good what was deleted long ago.
    pub fn tidy(&self) {
        let now = SystemTime::now();
        for entry in self.list_deleted().unwrap_or_default() {
            if now.duration_since(entry.changed).is_ok_and(|age| age > KEPT) {
                let _ = self.forget(&entry.id);
            }
        }
    }
}

fn entries(folder: &Path) -> Result<Vec<Entry>, StoreError> {
    let files = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        files => files.map_err(StoreError::io(folder, "read"))?,
    };
    let entry = |file: fs::DirEntry| {
        let path = file.path();
        let id = path.file_stem()?.to_str()?.to_owned();
        let metadata = file.metadata().ok().filter(fs::Metadata::is_file)?;
        let is_ours = path.extension().is_some_and(|extension| extension == EXTENSION);
        is_ours.then_some(Entry { id, changed: metadata.modified().ok()?, bytes: metadata.len(), path })
    };
    let mut entries: Vec<Entry> = files.flatten().filter_map(entry).collect();
    entries.sort_by(|one, other| (other.changed, &other.id).cmp(&(one.changed, &one.id)));
    Ok(entries)
}

/// The one entry that is meant.
fn one(entries: Vec<Entry>, name: &str) -> Result<Option<String>, StoreError> {
    if entries.iter().any(|entry| entry.id == name) {
        return Ok(Some(name.to_owned()));
    }
    let meant = |entry: &Entry| !name.is_empty() && entry.id.contains(name);
    let mut found: Vec<String> = entries.into_iter().filter(meant).map(|entry| entry.id).collect();
    match found.len() {
        0 | 1 => Ok(found.pop()),
        more => {
            found.truncate(3);
            if more > 3 {
                found.push("others".to_owned());
            }
            Err(StoreError::Ambiguous { name: name.to_owned(), found })
        }
    }
}

fn load(path: &Path, id: &str) -> Result<Stored, StoreError> {
    let size = fs::metadata(path).map_err(StoreError::io(path, "read"))?.len();
    if size > LARGEST {
        return Err(StoreError::Foreign(path.to_path_buf()));
    }
    let bytes = fs::read(path).map_err(StoreError::io(path, "read"))?;
    let Reading { tree, version, left_out } = read(&bytes);
    match version {
        Some(version) if version > VERSION => Err(StoreError::Newer { path: path.to_path_buf(), version }),
        None if tree.is_empty() => Err(StoreError::Foreign(path.to_path_buf())),
        _ => Ok(Stored { id: id.to_owned(), tree, left_out }),
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
