//! A pull, from a repository's name to a model that can be opened.

use std::path::PathBuf;

use super::blob;
use super::cache::{CachedFile, RepoCache};
use super::choose::{Purpose, choose};
use super::client::{Client, RemoteFile};
use super::error::{Fault, HubError};
use super::names::{ModelRef, check_revision, unwritable};
use super::progress::{Meter, PullReport};
use super::settings::HubSettings;
use super::snapshot;
use super::variants::{FileEntry, Format, Variant};
use crate::disk;

/// Left free on the disk beside what the files need.
const SPARE_BYTES: u64 = 16_000_000;

/// What describes a model, beside its weights.
const CONFIG: &str = "config.json";

/// What is wanted of a repository.
#[derive(Debug, Clone)]
pub struct PullRequest {
    pub model: ModelRef,
    /// A branch, a tag or a commit.
    pub revision: String,
    pub purpose: Purpose,
    /// This machine's memory, in bytes.
    pub memory: u64,
}

/// What a pull chose, before it fetches it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub commit: String,
    pub variant: Variant,
    /// Why this variant, for people.
    pub why: String,
    /// Of these, so many bytes are not here yet.
    pub missing_bytes: u64,
}

/// What is there after a pull.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pulled {
    /// What ortalk opens: a file or a folder.
    pub path: PathBuf,
    pub commit: String,
    pub variant: String,
    pub format: Format,
    pub bytes: u64,
    /// So many of them were fetched by this pull.
    pub fetched_bytes: u64,
}

/// Whether a model with this `config.json` can be used; the error is for people.
pub type Suits<'f> = &'f dyn Fn(Format, &[u8]) -> Result<(), String>;

/// Makes sure that a repository's model is in the Hub's cache; `decide` hears what was chosen before it is fetched, and
/// `suits` judges by the little file that describes a model whether the large ones are worth it.
///
/// What was fetched before a fault, a stop or a kill is kept, and the next pull goes on from there.
pub fn pull(
    settings: &HubSettings,
    request: &PullRequest,
    suits: Suits<'_>,
    decide: &mut dyn FnMut(&Plan),
    report: PullReport<'_>,
) -> Result<Pulled, HubError> {
    let what = format!("'{}'", request.model);
    let failed = |fault| HubError { what: what.clone(), fault: Box::new(fault) };
    run(settings, request, suits, decide, report).map_err(failed)
}

fn run(
    settings: &HubSettings,
    request: &PullRequest,
    suits: Suits<'_>,
    decide: &mut dyn FnMut(&Plan),
    report: PullReport<'_>,
) -> Result<Pulled, Fault> {
    let PullRequest { model: ModelRef { repo, variant: wanted }, revision, purpose, memory } = request;
    check_revision(revision)?;
    if settings.offline {
        return offline(settings, request);
    }
    let mut meter = Meter::new(request.model.to_string(), report);
    let client = Client::new(settings.clone());
    let listing = client.listing(repo, revision, &mut meter)?;
    let entries: Vec<FileEntry> = listing
        .files
        .iter()
        .map(|file| FileEntry { path: file.path.clone(), bytes: file.bytes.unwrap_or_default() })
        .collect();
    let choice = choose(&entries, wanted.as_deref(), *purpose, *memory)?;
    let cache = RepoCache::new(settings, repo);
    let mut files = Vec::with_capacity(choice.variant.files.len());
    for chosen in &choice.variant.files {
        if let Some(problem) = unwritable(&chosen.path) {
            return Err(Fault::HostileName { repo: repo.to_string(), file: chosen.path.clone(), problem });
        }
        let listed = listing.files.iter().find(|file| file.path == chosen.path);
        let mut file = listed.cloned().unwrap_or(RemoteFile { path: chosen.path.clone(), bytes: None, etag: None });
        if file.bytes.is_none() || file.etag.is_none() {
            client.describe(repo, &listing.commit, &mut file, &mut meter)?;
        }
        let (bytes, etag) = (file.bytes.unwrap_or_default(), file.etag.unwrap_or_default());
        files.push(CachedFile { path: file.path, bytes, etag });
    }
    let variant = Variant {
        files: files.iter().map(|file| FileEntry { path: file.path.clone(), bytes: file.bytes }).collect(),
        ..choice.variant
    };
    let total = variant.bytes();
    let missing = files
        .iter()
        .map(|file| file.bytes - cache.bytes_here(&listing.commit, file))
        .fold(0u64, |sum, bytes| sum.saturating_add(bytes));
    let plan = Plan { commit: listing.commit, variant, why: choice.why, missing_bytes: missing };
    decide(&plan);
    let Plan { commit, variant, .. } = plan;
    if missing > 0 {
        cache.prepare()?;
        expect_space(&cache, settings, missing)?;
    }
    meter.set_total(total);
    if let Some(config) = files.iter().find(|file| file.path == CONFIG).filter(|_| missing > 0) {
        blob::ensure(&client, &cache, repo, &commit, config, 0, &mut meter)?;
        let text = cache.read(&commit, config)?;
        if let Err(problem) = suits(variant.format, &text) {
            cache.forget(&commit, config);
            return Err(Fault::Unsuitable { repo: repo.to_string(), problem });
        }
    }
    let mut before = 0;
    for file in &files {
        blob::ensure(&client, &cache, repo, &commit, file, before, &mut meter)?;
        before += file.bytes;
    }
    cache.place(&commit, &files)?;
    // A cache that others filled may be one that nobody may write to.
    match cache.set_ref(revision, &commit) {
        Err(_) if missing == 0 => {}
        result => result?,
    }
    let path = if variant.opens.is_empty() { cache.snapshot(&commit) } else { cache.pointer(&commit, &variant.opens) };
    let (variant, format) = (variant.name, variant.format);
    Ok(Pulled { path, commit, variant, format, bytes: total, fetched_bytes: missing })
}

fn expect_space(cache: &RepoCache, settings: &HubSettings, missing: u64) -> Result<(), Fault> {
    let needed = missing.saturating_add(SPARE_BYTES);
    match disk::free_space(&cache.folder()) {
        Some(available) if available < needed => {
            Err(Fault::NoSpace { folder: settings.cache.clone(), needed, available })
        }
        _ => Ok(()),
    }
}

fn offline(settings: &HubSettings, request: &PullRequest) -> Result<Pulled, Fault> {
    let found = snapshot::find(settings, &request.model, request.purpose)?;
    let found = found.ok_or_else(|| Fault::Offline { cache: settings.cache.clone() })?;
    let bytes = found.variant.bytes();
    let (commit, variant, format) = (found.commit, found.variant.name, found.variant.format);
    Ok(Pulled { path: found.path, commit, variant, format, bytes, fetched_bytes: 0 })
}

impl Plan {
    /// Whether nothing has to be fetched.
    pub fn is_here(&self) -> bool {
        self.missing_bytes == 0
    }
}
