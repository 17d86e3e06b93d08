//! What can go wrong while fetching, each in one message that says what to do.

use std::io;
use std::path::{Path, PathBuf};

use crate::paths::HOME_VARIABLE;

/// Something that ortalk needs could not be fetched.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.message())]
pub struct ProvisionError {
    /// What was being fetched, as a person calls it.
    pub what: String,
    /// Part of the message, so not also its source: the command line prints the whole chain.
    pub fault: Box<Fault>,
    /// How to do without the download; empty where that is no help.
    pub instead: String,
}

impl ProvisionError {
    fn message(&self) -> String {
        let Self { what, fault, instead } = self;
        match **fault {
            // The person did this: there is nothing to explain, and no other way to offer.
            Fault::Cancelled => format!("{what} was not fetched: {fault}"),
            _ if instead.is_empty() => format!("{what} could not be fetched: {fault}"),
            _ => format!("{what} could not be fetched: {fault}\n{instead}"),
        }
    }

    /// Whether the person stopped it, so that nothing is wrong.
    pub fn is_cancelled(&self) -> bool {
        matches!(*self.fault, Fault::Cancelled)
    }
}

/// Why it could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    #[error("stopped; what was complete is kept, and the next run goes on from there")]
    Cancelled,
    #[error(
        "there is no wheel of it for {system} on {arch} (there are wheels for: {offered}); \
         build or install it for this platform"
    )]
    NoWheel { system: String, arch: String, offered: String },
    #[error(
        "no Python was found (tried: {tried}); ortalk downloads with Python's package client pip: \
         install Python 3 with pip (on Debian and Ubuntu: apt install python3 python3-pip) and run ortalk again"
    )]
    NoPython { tried: String },
    #[error(
        "Python has no pip ({pythons}); install it (on Debian and Ubuntu: apt install python3-pip; \
         elsewhere: python3 -m ensurepip --user) and run ortalk again"
    )]
    NoPip { pythons: String },
    #[error(
        "pip could not reach the package registry; check the network, the proxy and pip's settings \
         (python3 -m pip config list), then run ortalk again. pip said:\n{said}"
    )]
    Network { said: String },
    #[error(
        "pip's package registry does not offer {requirement} for {platform}; if pip is set to use a mirror \
         (python3 -m pip config list), that mirror may lack it; a pip older than 19.2 (python3 -m pip --version) does \
         not see it. pip said:\n{said}"
    )]
    NotOffered { requirement: String, platform: String, said: String },
    #[error("pip failed ({status}). pip said:\n{said}")]
    Pip { status: String, said: String },
    #[error("pip reported success but did not leave '{expected}'; it left: {found}")]
    OtherWheel { expected: String, found: String },
    #[error(
        "'{file}' is not the file that was expected: it has {found} bytes, expected were {expected}. It was damaged on \
         the way or replaced by the mirror; it was not used. Run ortalk again, with another mirror if this repeats"
    )]
    WrongSize { file: String, expected: u64, found: u64 },
    #[error(
        "'{file}' is not the file that was expected: its SHA-256 is {found}, expected was {expected}. It was damaged on \
         the way or replaced by the mirror; it was not used. Run ortalk again, with another mirror if this repeats"
    )]
    WrongHash { file: String, expected: String, found: String },
    #[error("the wheel '{wheel}' cannot be unpacked: {problem}; it was not used. Run ortalk again")]
    BadWheel { wheel: String, problem: String },
    #[error(
        "not enough free space at '{}': {} MB are needed, {} MB are free. Make room, or set {HOME_VARIABLE} to a folder \
         on another disk", folder.display(), megabytes(*.needed), available / 1_000_000
    )]
    NoSpace { folder: PathBuf, needed: u64, available: u64 },
    #[error(
        "the disk filled up at '{}'; the half-done files were removed. Make room, or set {HOME_VARIABLE} to a folder on \
         another disk", folder.display()
    )]
    DiskFull { folder: PathBuf },
    #[error(
        "the cache folder '{}' cannot be used: {problem}. Make it a folder that you may write to, or set {HOME_VARIABLE} \
         to another folder", folder.display()
    )]
    Cache { folder: PathBuf, problem: String },
    #[error("what was fetched into '{}' is gone; run ortalk again", folder.display())]
    Vanished { folder: PathBuf },
    #[error("{action} '{}' failed: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
}

/// Rounded up, so that the number asked for is enough.
fn megabytes(bytes: u64) -> u64 {
    bytes.div_ceil(1_000_000)
}

impl Fault {
    /// An I/O error while doing something to a file of ours; a full disk has its own message.
    pub fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::DiskFull { folder: path.parent().unwrap_or(path).to_path_buf() }
            }
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
                Self::Cache { folder: path.to_path_buf(), problem: source.to_string() }
            }
            _ => Self::Io { action, path: path.to_path_buf(), source },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_from_other_errors() {
        let fault = Fault::io("writing", Path::new("/c/x"), io::ErrorKind::StorageFull.into());
        assert!(matches!(&fault, Fault::DiskFull { folder } if folder == Path::new("/c")), "{fault}");
        let fault = Fault::io("writing", Path::new("/c/x"), io::ErrorKind::UnexpectedEof.into());
        assert!(fault.to_string().starts_with("writing '/c/x' failed"), "{fault}");
    }

    #[test]
    fn a_way_around_is_offered_unless_the_person_stopped_it() {
        let message = |fault| {
            let error =
                ProvisionError { what: "x".into(), fault: Box::new(fault), instead: "Or bring your own.".into() };
            error.to_string()
        };
        assert!(message(Fault::NoPip { pythons: "python3".into() }).ends_with("\nOr bring your own."));
        assert!(!message(Fault::Cancelled).contains("bring your own"));
    }

    #[test]
    fn space_is_quoted_in_numbers_that_suffice() {
        let fault = Fault::NoSpace { folder: "/c".into(), needed: 1_000_001, available: 1_999_999 };
        assert!(fault.to_string().contains("2 MB are needed, 1 MB are free"), "{fault}");
    }
}
