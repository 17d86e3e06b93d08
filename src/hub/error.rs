//! What can go wrong between this machine and the Hub, each in one message that says what to do.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::choose::ChoiceError;
use super::names::NameError;

/// A model could not be pulled.
#[derive(Debug, thiserror::Error)]
#[error("{what} was not pulled: {fault}")]
pub struct HubError {
    /// What was wanted, as a person named it.
    pub what: String,
    /// Part of the message, so not also its source: the command line prints the whole chain.
    pub fault: Box<Fault>,
}

impl HubError {
    /// Whether the person stopped it, so that nothing is wrong.
    pub fn is_cancelled(&self) -> bool {
        matches!(*self.fault, Fault::Cancelled)
    }
}

/// Why it could not be pulled.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    #[error("stopped; what was fetched is kept, and the next pull goes on from there")]
    Cancelled,
    #[error("HF_HUB_OFFLINE is set, and it is not whole in '{}'; unset it to fetch what is missing", cache.display())]
    Offline { cache: PathBuf },
    #[error(transparent)]
    Name(#[from] NameError),
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    #[error(
        "{endpoint} could not be reached ({reason}); check the network and the proxy (HTTPS_PROXY), or name a mirror with \
         HF_ENDPOINT"
    )]
    Unreachable { endpoint: String, reason: String },
    #[error(
        "the connection broke off again and again at {done} of {total} bytes of '{file}' ({reason}); what was fetched is \
         kept: the same command goes on from there"
    )]
    Cut { file: String, done: u64, total: u64, reason: String },
    #[error(
        "{endpoint} knows no repository '{repo}', or it is private{}", token_hint(*.with_token)
    )]
    NoRepository { endpoint: String, repo: String, with_token: bool },
    #[error("'{repo}' has no revision '{revision}'; expected the name of a branch or a tag, or a commit")]
    NoRevision { repo: String, revision: String },
    #[error("ortalk cannot use '{repo}'. In its config.json, {problem}. Nothing else of it was fetched")]
    Unsuitable { repo: String, problem: String },
    #[error("'{repo}' has no file '{file}' any more; run the command again")]
    NoFile { repo: String, file: String },
    #[error(
        "'{repo}' is given only to those who agreed to its licence. Agree at {endpoint}/{repo}{}",
        if *.with_token {
            ", with the account that the token is of, then run the command again"
        } else {
            ", make an access token at https://huggingface.co/settings/tokens, and set HF_TOKEN to it"
        }
    )]
    Gated { endpoint: String, repo: String, with_token: bool },
    #[error(
        "{endpoint} does not accept the access token; make a new one at https://huggingface.co/settings/tokens and set \
         HF_TOKEN to it, or unset it where none is needed"
    )]
    BadToken { endpoint: String },
    #[error("{endpoint} refuses it ({status}){said}; the access token may lack the right to read '{repo}'")]
    Forbidden { endpoint: String, repo: String, status: u16, said: String },
    #[error(
        "{endpoint} has been asked too often (429){}; what was fetched is kept{}",
        wait.map(|wait| format!(" and wants {} s of peace", wait.as_secs())).unwrap_or_default(),
        if *.with_token { "" } else { ". With an access token in HF_TOKEN it allows more" }
    )]
    TooOften { endpoint: String, wait: Option<Duration>, with_token: bool },
    #[error("{endpoint} has a fault of its own ({status}){said}; try again later")]
    Server { endpoint: String, status: u16, said: String },
    #[error("{url} answered {status}{said}, which was not expected")]
    Status { url: String, status: u16, said: String },
    #[error("{url} leads from one address to the next without end; is HF_ENDPOINT right?")]
    RedirectLoop { url: String },
    #[error("{url} leads to '{target}', {problem}; it was not followed")]
    BadRedirect { url: String, target: String, problem: &'static str },
    #[error(
        "the answer from {url} is not what the Hub sends: {problem}. Is HF_ENDPOINT right, and does no network page (a hotel's \
         login, a company's proxy) answer in its place?"
    )]
    Garbage { url: String, problem: String },
    #[error("'{repo}' lists a file named '{file}', and {problem}; nothing was written")]
    HostileName { repo: String, file: String, problem: &'static str },
    #[error(
        "'{file}' is not the file that was expected: its {kind} is {found}, expected was {expected}. It was damaged on the way \
         and was not used; run the command again"
    )]
    WrongHash { file: String, kind: &'static str, expected: String, found: String },
    #[error(
        "'{file}' is not the file that was expected: it has {found} bytes, expected were {expected}; it was not used"
    )]
    WrongSize { file: String, expected: u64, found: u64 },
    #[error(
        "not enough free space at '{}': {} MB are needed, {} MB are free. Make room, or set HF_HUB_CACHE to a folder on \
         another disk", folder.display(), needed.div_ceil(1_000_000), available / 1_000_000
    )]
    NoSpace { folder: PathBuf, needed: u64, available: u64 },
    #[error(
        "the disk filled up at '{}'; what was fetched is kept: make room and run the command again, or set HF_HUB_CACHE to a \
         folder on another disk", folder.display()
    )]
    DiskFull { folder: PathBuf },
    #[error(
        "the cache '{}' cannot be used: {problem}. Make it a folder that you may write to, or set HF_HUB_CACHE to another \
         folder", folder.display()
    )]
    Cache { folder: PathBuf, problem: String },
    #[error("{action} '{}' failed: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
}

fn token_hint(with_token: bool) -> &'static str {
    if with_token {
        " and the access token is not of one who may see it; check the name"
    } else {
        "; check the name, and set HF_TOKEN to an access token if it is private"
    }
}

impl Fault {
    /// An I/O error while doing something to a file of the cache; a full disk has its own message.
    pub fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        let folder = || path.parent().unwrap_or(path).to_path_buf();
        match source.kind() {
            // A limit on a file's size stops a download as a full disk does.
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                Self::DiskFull { folder: folder() }
            }
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied | io::ErrorKind::NotADirectory => {
                Self::Cache { folder: folder(), problem: source.to_string() }
            }
            _ => Self::Io { action, path: path.to_path_buf(), source },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_do_depends_on_the_token() {
        let gated =
            |with_token| Fault::Gated { endpoint: "https://h".into(), repo: "a/b".into(), with_token }.to_string();
        assert!(gated(false).contains("https://h/a/b") && gated(false).contains("set HF_TOKEN"));
        assert!(gated(true).contains("the account that the token is of") && !gated(true).contains("set HF_TOKEN"));
    }

    #[test]
    fn a_full_disk_is_told_from_other_errors() {
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded, io::ErrorKind::FileTooLarge] {
            let fault = Fault::io("writing", Path::new("/c/x"), kind.into());
            assert!(matches!(&fault, Fault::DiskFull { folder } if folder == Path::new("/c")), "{fault}");
        }
        let fault = Fault::io("writing", Path::new("/c/x"), io::ErrorKind::UnexpectedEof.into());
        assert!(fault.to_string().starts_with("writing '/c/x' failed"), "{fault}");
    }
}
