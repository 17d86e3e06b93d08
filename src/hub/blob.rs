//! One file of a repository into the cache: fetched from where an earlier pull ended, checked by its hash, and in its place
//! only when it is whole.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::cache::{CachedFile, RepoCache};
use super::client::Client;
use super::error::Fault;
use super::names::RepoId;
use super::progress::{Meter, PullStage};

/// Makes sure that the file is in the cache. `before` is what of the pull was done before, for the progress.
pub fn ensure(
    client: &Client,
    cache: &RepoCache,
    repo: &RepoId,
    commit: &str,
    file: &CachedFile,
    before: u64,
    meter: &mut Meter<'_>,
) -> Result<(), Fault> {
    if cache.has(commit, file) {
        return Ok(());
    }
    let _lock = cache.lock(&file.etag, meter)?;
    // Another program may have fetched it while this one waited.
    if cache.has(commit, file) {
        return Ok(());
    }
    let path = cache.incomplete(&file.etag);
    let mut part = Part::open(&path, file, before, meter)?;
    let resumed = part.have > 0;
    fetch(client, repo, commit, file, &mut part, before, meter)?;
    if let Err(fault) = part.check(&file.path) {
        // What was here before may have been what is wrong.
        part.restart()?;
        if !resumed {
            drop(part);
            let _ = fs::remove_file(&path);
            return Err(fault);
        }
        fetch(client, repo, commit, file, &mut part, before, meter)?;
        if let Err(fault) = part.check(&file.path) {
            let _ = fs::remove_file(&path);
            return Err(fault);
        }
    }
    part.file.sync_all().map_err(|error| Fault::io("writing", &path, error))?;
    drop(part);
    let blob = cache.blob(&file.etag);
    fs::rename(&path, &blob).map_err(|error| Fault::io("moving", &path, error))
}

fn fetch(
    client: &Client,
    repo: &RepoId,
    commit: &str,
    file: &CachedFile,
    part: &mut Part<'_>,
    before: u64,
    meter: &mut Meter<'_>,
) -> Result<(), Fault> {
    let mut sink = |bytes: Option<&[u8]>, meter: &mut Meter<'_>| {
        match bytes {
            Some(bytes) => part.append(bytes, &file.path)?,
            None => part.restart()?,
        }
        meter.at(PullStage::Downloading, before + part.have)?;
        Ok(part.have)
    };
    let have = sink(Some(&[]), meter)?;
    client.download(repo, commit, (&file.path, file.bytes), have, meter, &mut sink)
}

/// A file in the making, with the hash of what is there.
struct Part<'p> {
    path: &'p Path,
    file: File,
    have: u64,
    expected: &'p CachedFile,
    hash: Hash,
}

impl<'p> Part<'p> {
    fn open(path: &'p Path, expected: &'p CachedFile, before: u64, meter: &mut Meter<'_>) -> Result<Self, Fault> {
        let failed = |error| Fault::io("opening", path, error);
        let options = || File::options().read(true).write(true).create(true).truncate(false).open(path);
        let mut file = options().map_err(failed)?;
        let mut hash = Hash::of(expected);
        let mut have = 0;
        if file.metadata().map_err(failed)?.len() > expected.bytes {
            file.set_len(0).map_err(failed)?;
        }
        let mut chunk = vec![0; 1 << 20];
        loop {
            match file.read(&mut chunk) {
                Ok(0) => break,
                Ok(n) => {
                    hash.update(&chunk[..n]);
                    have += n as u64;
                    meter.at(PullStage::Verifying, before + have)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Fault::io("reading", path, error)),
            }
        }
        Ok(Self { path, file, have, expected, hash })
    }

    fn append(&mut self, bytes: &[u8], name: &str) -> Result<(), Fault> {
        let found = self.have + bytes.len() as u64;
        if found > self.expected.bytes {
            let (file, expected) = (name.to_string(), self.expected.bytes);
            // Where it went wrong is not known, so nothing of it is kept.
            self.restart()?;
            return Err(Fault::WrongSize { file, expected, found });
        }
        self.file.write_all(bytes).map_err(|error| Fault::io("writing", self.path, error))?;
        self.hash.update(bytes);
        self.have = found;
        Ok(())
    }

    fn restart(&mut self) -> Result<(), Fault> {
        let failed = |error| Fault::io("emptying", self.path, error);
        self.file.set_len(0).map_err(failed)?;
        self.file.seek(SeekFrom::Start(0)).map_err(failed)?;
        (self.have, self.hash) = (0, Hash::of(self.expected));
        Ok(())
    }

    fn check(&mut self, name: &str) -> Result<(), Fault> {
        let (kind, found) = std::mem::replace(&mut self.hash, Hash::of(self.expected)).finish();
        if found == self.expected.etag {
            return Ok(());
        }
        Err(Fault::WrongHash { file: name.to_string(), kind, expected: self.expected.etag.clone(), found })
    }
}

/// The hash that names a file: SHA-256 of a large one, that of git's blob of a small one.
enum Hash {
    Large(Sha256),
    Small(Sha1),
}

impl Hash {
    fn of(file: &CachedFile) -> Self {
        if file.etag.len() == 64 {
            return Self::Large(Sha256::new());
        }
        let mut hash = Sha1::new();
        hash.update(format!("blob {}\0", file.bytes));
        Self::Small(hash)
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Large(hash) => hash.update(bytes),
            Self::Small(hash) => hash.update(bytes),
        }
    }

    fn finish(self) -> (&'static str, String) {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        match self {
            Self::Large(hash) => ("SHA-256", hex(&hash.finalize())),
            Self::Small(hash) => ("git hash", hex(&hash.finalize())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_by_its_hash() {
        let file = |etag: &str| CachedFile { path: "x".into(), bytes: 6, etag: etag.into() };
        for (etag, expected) in [
            // `printf 'hello\n' | git hash-object --stdin` and `sha256sum`.
            (&"0".repeat(40), "ce013625030ba8dba906f756967f9e9ca394464a"),
            (&"0".repeat(64), "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"),
        ] {
            let mut hash = Hash::of(&file(etag));
            hash.update(b"hel");
            hash.update(b"lo\n");
            assert_eq!(hash.finish().1, expected);
        }
    }
}
