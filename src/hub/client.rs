//! What is asked of the Hub: which files a repository has, and their bytes from a given one on.
//!
//! Faults that may pass (a cut connection, an overloaded server) are waited out a few times; those that last become a
//! [`Fault`] that says what to do.

use std::fmt::Write;
use std::time::{Duration, Instant};

use serde::Deserialize;
use ureq::Agent;

use super::error::Fault;
use super::names::{RepoId, hostile, is_commit, is_hex};
use super::progress::Meter;
use super::settings::HubSettings;
use super::transfer::{self, Request, Trouble};
use crate::http::Head;

/// Tries that bring nothing, one after the other, before it is given up.
const TRIES: u32 = 5;

/// The wait after the first try; it doubles with each.
const FIRST_WAIT: Duration = Duration::from_millis(300);

/// A server that asks for a longer rest is not waited for.
const LONGEST_WAIT: Duration = Duration::from_secs(90);

/// Lists of files are far smaller.
const LONGEST_LIST: usize = 64 << 20;

/// A try that brought less counts as one that brought nothing: a server that sends a byte at a time would go on for ever.
const ENOUGH_TO_GO_ON: u64 = 1 << 16;

/// Takes bytes, or `None` where the file begins anew; gives how many are here now.
pub type Sink<'f> = &'f mut dyn FnMut(Option<&[u8]>, &mut Meter<'_>) -> Result<u64, Fault>;

pub struct Client {
    pub settings: HubSettings,
    agent: Agent,
}

/// What a repository has at one commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    pub commit: String,
    pub files: Vec<RemoteFile>,
}

/// One file of a repository. A file that the list does not describe is asked for by [`Client::describe`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteFile {
    /// With `/` between folders.
    pub path: String,
    pub bytes: Option<u64>,
    /// The file's name in the cache: the SHA-256 of a large file, the git blob's SHA-1 of a small one.
    pub etag: Option<String>,
}

#[derive(Deserialize)]
struct ModelInfo {
    sha: String,
    siblings: Vec<Sibling>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sibling {
    rfilename: String,
    size: Option<u64>,
    blob_id: Option<String>,
    lfs: Option<Lfs>,
}

#[derive(Deserialize)]
struct Lfs {
    sha256: String,
    size: u64,
}

/// How often something failed without a step forward.
#[derive(Default)]
struct Patience {
    failures: u32,
}

impl Listing {
    /// Reads what the Hub answers at `url` when it is asked for a revision with its files. No name in it leads out of the
    /// repository's folder.
    pub fn parse(json: &[u8], repo: &RepoId, url: &str) -> Result<Self, Fault> {
        let garbage = |problem: String| Fault::Garbage { url: url.to_string(), problem };
        let info: ModelInfo = serde_json::from_slice(json).map_err(|error| garbage(error.to_string()))?;
        if !is_commit(&info.sha) {
            return Err(garbage("its commit is no commit's name".into()));
        }
        let mut files = Vec::with_capacity(info.siblings.len());
        for Sibling { rfilename: path, size, blob_id, lfs } in info.siblings {
            if let Some(problem) = hostile(&path) {
                return Err(Fault::HostileName { repo: repo.to_string(), file: path, problem });
            }
            let (bytes, etag) = match lfs {
                Some(lfs) => (Some(lfs.size), Some(lfs.sha256)),
                None => (size, blob_id),
            };
            let etag = etag.filter(|etag| is_etag(etag));
            files.push(RemoteFile { path, bytes, etag });
        }
        Ok(Self { commit: info.sha, files })
    }
}

impl Client {
    pub fn new(settings: HubSettings) -> Self {
        let agent = transfer::agent(&settings);
        Self { settings, agent }
    }

    /// The files of a revision.
    pub fn listing(&self, repo: &RepoId, revision: &str, meter: &mut Meter<'_>) -> Result<Listing, Fault> {
        let url = format!("{}/api/models/{repo}/revision/{}?blobs=true", self.settings.endpoint, escaped(revision, ""));
        let garbage = |problem: String| Fault::Garbage { url: url.clone(), problem };
        let mut text = Vec::new();
        let mut patience = Patience::default();
        loop {
            text.clear();
            let result = transfer::exchange(
                &self.agent,
                self.request(url.clone(), 0),
                self.settings.silence,
                meter,
                &mut |head| self.check(head, repo, revision, None, &url),
                &mut |bytes, _| {
                    text.extend_from_slice(bytes);
                    if text.len() > LONGEST_LIST { Err(garbage("it does not end".into())) } else { Ok(()) }
                },
            );
            match result {
                Ok(_) => break,
                Err(trouble) => patience.after(trouble, meter, |reason| self.unreachable(reason))?,
            }
        }
        Listing::parse(&text, repo, &url)
    }

    /// Size and name of a file that the list did not describe, as some mirrors do not.
    pub fn describe(
        &self,
        repo: &RepoId,
        commit: &str,
        file: &mut RemoteFile,
        meter: &mut Meter<'_>,
    ) -> Result<(), Fault> {
        let url = self.file_url(repo, commit, &file.path);
        let mut patience = Patience::default();
        let head = loop {
            let request = Request { header_only: true, ..self.request(url.clone(), 0) };
            let check = &mut |head: &Head| match head.status {
                302 | 307 => Ok(()),
                _ => self.check(head, repo, commit, Some(&file.path), &url),
            };
            match transfer::exchange(&self.agent, request, self.settings.silence, meter, check, &mut |_, _| Ok(())) {
                Ok(head) => break head,
                Err(trouble) => patience.after(trouble, meter, |reason| self.unreachable(reason))?,
            }
        };
        let own = |name: &str| head.header(name).filter(|_| head.status == 200);
        let bytes = head.header("X-Linked-Size").or(own("Content-Length")).and_then(|text| text.parse().ok());
        let etag = head.header("X-Linked-Etag").or(own("ETag"));
        let etag = etag.map(|etag| etag.trim_start_matches("W/").trim_matches('"').to_string());
        match (head.header("X-Repo-Commit"), bytes, etag.filter(|etag| is_etag(etag))) {
            (Some(found), Some(bytes), Some(etag)) if found == commit => {
                (file.bytes, file.etag) = (Some(bytes), Some(etag));
                Ok(())
            }
            _ => Err(Fault::Garbage { url, problem: "it lacks a file's commit, size or ETag".into() }),
        }
    }

    /// Passes a file's bytes from `have` on to `sink`, until the server has sent all of them; what it sends is not checked.
    pub fn download(
        &self,
        repo: &RepoId,
        commit: &str,
        file: (&str, u64),
        mut have: u64,
        meter: &mut Meter<'_>,
        sink: Sink<'_>,
    ) -> Result<(), Fault> {
        let (path, total) = file;
        let url = self.file_url(repo, commit, path);
        let mut patience = Patience::default();
        while have < total {
            let started = have;
            // Both closures below go by what the answer's head said.
            let anew = std::cell::Cell::new(false);
            let mut accept = |head: &Head| {
                self.check(head, repo, commit, Some(path), &url)?;
                anew.set(head.status != 206);
                let from = head.header("Content-Range").map(range_start);
                match from {
                    _ if head.header("Content-Encoding").is_some_and(|coding| coding != "identity") => {
                        Err(Fault::Garbage { url: url.clone(), problem: "the file is compressed".into() }.into())
                    }
                    Some(Some(from)) if !anew.get() && from != started => {
                        Err(Trouble::Passing(format!("the server went on at byte {from}, not {started}")))
                    }
                    None | Some(None) if !anew.get() => Err(Trouble::Passing("a part without its place".into())),
                    _ => Ok(()),
                }
            };
            let mut take = |bytes: &[u8], meter: &mut Meter<'_>| {
                if anew.replace(false) && have > 0 {
                    have = sink(None, meter)?;
                }
                have = sink(Some(bytes), meter)?;
                Ok(())
            };
            let request = self.request(url.clone(), started);
            let result = transfer::exchange(&self.agent, request, self.settings.silence, meter, &mut accept, &mut take);
            let trouble = match result {
                Ok(_) if have >= total => return Ok(()),
                Ok(_) => Trouble::Passing("the server ended it too early".into()),
                // The server's file is shorter than what is here.
                Err(Trouble::Lasting(Fault::Status { status: 416, .. })) => {
                    have = sink(None, meter)?;
                    Trouble::Passing("the server does not go on there".into())
                }
                Err(trouble) => trouble,
            };
            if have.saturating_sub(started) >= ENOUGH_TO_GO_ON {
                patience = Patience::default();
            }
            let file = path.to_string();
            patience.after(trouble, meter, |reason| Fault::Cut { file, done: have, total, reason })?;
        }
        Ok(())
    }

    fn request(&self, url: String, from: u64) -> Request {
        Request { url, token: self.settings.token.clone(), from, header_only: false }
    }

    fn file_url(&self, repo: &RepoId, commit: &str, path: &str) -> String {
        format!("{}/{repo}/resolve/{commit}/{}", self.settings.endpoint, escaped(path, "/"))
    }

    fn unreachable(&self, reason: String) -> Fault {
        Fault::Unreachable { endpoint: self.settings.endpoint.clone(), reason }
    }

    /// Puts a status that is no success into words.
    fn check(&self, head: &Head, repo: &RepoId, revision: &str, file: Option<&str>, url: &str) -> Result<(), Trouble> {
        let (endpoint, with_token) = (self.settings.endpoint.clone(), self.settings.token.is_some());
        let repo = repo.to_string();
        let said =
            head.header("X-Error-Message").map(|said| format!(", saying \"{}\"", short(said))).unwrap_or_default();
        let code = head.header("X-Error-Code").unwrap_or_default();
        Err(Trouble::Lasting(match (head.status, code) {
            (200 | 206, _) => return Ok(()),
            (401 | 403, "GatedRepo") => Fault::Gated { endpoint, repo, with_token },
            (401, "RepoNotFound") | (404, "RepoNotFound") => Fault::NoRepository { endpoint, repo, with_token },
            // Whom the Hub does not know, it does not tell what there is.
            (401, _) if with_token => Fault::BadToken { endpoint },
            (401, _) => Fault::NoRepository { endpoint, repo, with_token },
            (403, _) => Fault::Forbidden { endpoint, repo, status: 403, said },
            (404, "RevisionNotFound") => Fault::NoRevision { repo, revision: revision.to_string() },
            (404, _) => match file {
                Some(file) => Fault::NoFile { repo, file: file.to_string() },
                None => Fault::NoRepository { endpoint, repo, with_token },
            },
            (429, _) => {
                let wait = rest(head);
                let fault = Fault::TooOften { endpoint, wait, with_token };
                return Err(Trouble::Busy { fault, wait });
            }
            (408 | 500..=504, _) => {
                let fault = Fault::Server { endpoint, status: head.status, said };
                return Err(Trouble::Busy { fault, wait: rest(head) });
            }
            (status, _) => Fault::Status { url: url.to_string(), status, said },
        }))
    }
}

impl Patience {
    /// Waits before the next try, or gives up.
    fn after(
        &mut self,
        trouble: Trouble,
        meter: &mut Meter<'_>,
        give_up: impl FnOnce(String) -> Fault,
    ) -> Result<(), Fault> {
        self.failures += 1;
        let backoff = FIRST_WAIT * 2u32.saturating_pow(self.failures - 1);
        let (reason, fault, wait) = match trouble {
            Trouble::Lasting(fault) => return Err(fault),
            Trouble::Passing(reason) => (reason.clone(), give_up(reason), backoff),
            Trouble::Busy { fault, wait } => ("the server is busy".into(), fault, wait.unwrap_or(backoff).max(backoff)),
        };
        if self.failures >= TRIES || wait > LONGEST_WAIT {
            return Err(fault);
        }
        let until = Instant::now() + wait;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            meter.tick(Some(format!("{reason}; trying again in {} s", left.as_secs() + 1)))?;
            std::thread::sleep(left.min(Duration::from_millis(100)));
        }
        Ok(())
    }
}

/// How long the server wants to be left alone: `Retry-After`, or the Hub's own header.
fn rest(head: &Head) -> Option<Duration> {
    let seconds = match head.header("Retry-After") {
        Some(text) => text.parse().ok(),
        None => head
            .header("RateLimit")
            .and_then(|text| text.split(';').find_map(|part| part.trim().strip_prefix("t=")?.parse().ok())),
    };
    seconds.map(Duration::from_secs)
}

fn range_start(text: &str) -> Option<u64> {
    text.strip_prefix("bytes ")?.split('-').next()?.trim().parse().ok()
}

/// Whether this may be a file's name in the cache.
fn is_etag(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && is_hex(text)
}

/// For an address: all but letters, digits, `-_.~` and what `keep` has becomes %XX.
fn escaped(text: &str, keep: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match char::from(byte) {
            c if c.is_ascii_alphanumeric() || "-_.~".contains(c) || keep.contains(c) => escaped.push(c),
            _ => {
                // Writing to a string cannot fail.
                let _ = write!(escaped, "%{byte:02X}");
            }
        }
    }
    escaped
}

/// What a server says is shown in one line, and not at any length.
fn short(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}

#[cfg(test)]
mod tests {
    use std::path::{Component, Path};

    use proptest::prelude::*;

    use super::*;

    fn read(json: &str) -> Result<Listing, String> {
        Listing::parse(json.as_bytes(), &RepoId::parse("a/b").unwrap(), "https://hub")
            .map_err(|fault| fault.to_string())
    }

    #[test]
    fn a_list_gives_sizes_and_names() {
        let (sha, large) = ("a".repeat(40), "b".repeat(64));
        let list = read(&format!(
            r#"{{"sha": "{sha}", "extra": 1, "siblings": [
                {{"rfilename": "x.json", "size": 3, "blobId": "{sha}"}},
                {{"rfilename": "d/y.bin", "size": 9, "blobId": "{sha}", "lfs": {{"sha256": "{large}", "size": 9, "pointerSize": 1}}}},
                {{"rfilename": "z"}}]}}"#
        ))
        .unwrap();
        let file =
            |path: &str, bytes, etag: Option<&str>| RemoteFile { path: path.into(), bytes, etag: etag.map(Into::into) };
        let expected =
            [file("x.json", Some(3), Some(&sha)), file("d/y.bin", Some(9), Some(&large)), file("z", None, None)];
        assert_eq!((list.commit, list.files), (sha, expected.to_vec()));
    }

    #[test]
    fn a_list_that_leads_elsewhere_is_refused() {
        let sha = "a".repeat(40);
        let list = |path: &str| read(&format!(r#"{{"sha": "{sha}", "siblings": [{{"rfilename": "{path}"}}]}}"#));
        for bad in ["../x", "/etc/passwd", "a/../../x"] {
            assert!(list(bad).unwrap_err().contains("nothing was written"), "{bad}");
        }
        let error = read(r#"{"sha": "../../x", "siblings": []}"#).unwrap_err();
        assert!(error.contains("no commit's name"), "{error}");
        assert!(read("<html>").is_err());
        // An ETag becomes a file's name, too.
        let list =
            read(&format!(r#"{{"sha": "{sha}", "siblings": [{{"rfilename": "x", "size": 1, "blobId": "../x"}}]}}"#));
        assert_eq!(list.unwrap().files[0].etag, None);
    }

    proptest! {
        /// Whatever a server says: an error, or names that stay below the folder that they are joined to.
        #[test]
        fn no_list_leads_out_of_its_folder(
            path in prop_oneof![".{0,12}", "[a./\\\\:]{0,8}", r"(\.\.|a|/|\\|c:){0,5}"],
            etag in prop_oneof![".{0,6}", "[0-9a-f]{40}", "[0-9a-f/.]{40}"],
            sha in prop_oneof!["[0-9a-f]{40}", "[0-9a-f/.]{40}"],
            cut in any::<prop::sample::Index>(),
            change in any::<(prop::sample::Index, u8)>(),
        ) {
            let file = serde_json::json!({"rfilename": path, "size": 1, "blobId": etag});
            let json = serde_json::json!({"sha": sha, "siblings": [file]}).to_string().into_bytes();
            let mut changed = json.clone();
            changed[change.0.index(json.len())] = change.1;
            let repo = RepoId::parse("a/b").unwrap();
            for json in [&json[..], &json[..cut.index(json.len())], &changed] {
                let Ok(listing) = Listing::parse(json, &repo, "https://hub") else { continue };
                prop_assert!(is_commit(&listing.commit));
                for file in listing.files {
                    let mut parts = Path::new(&file.path).components();
                    prop_assert!(parts.all(|part| matches!(part, Component::Normal(_))), "{:?}", file.path);
                    prop_assert!(file.etag.is_none_or(|etag| is_etag(&etag)));
                }
            }
        }
    }

    #[test]
    fn addresses_are_escaped() {
        assert_eq!(escaped("onnx/a b#?.bin", "/"), "onnx/a%20b%23%3F.bin");
        assert_eq!(escaped("refs/pr/1", ""), "refs%2Fpr%2F1");
        assert_eq!(escaped("ä", ""), "%C3%A4");
    }

    #[test]
    fn parts_say_where_they_begin() {
        assert_eq!(range_start("bytes 5-9/10"), Some(5));
        assert_eq!(range_start("bytes */10"), None);
    }
}
