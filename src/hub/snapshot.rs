//! What the Hub's cache has, whoever put it there: which repositories, which models in them, and how to be rid of them.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::cache::RepoCache;
use super::choose::{ChoiceError, Purpose, choose, named};
use super::error::Fault;
use super::names::{ModelRef, RepoId, is_commit};
use super::settings::HubSettings;
use super::variants::{FileEntry, Variant, find as find_variants};

/// A model in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// What ortalk opens.
    pub path: PathBuf,
    pub commit: String,
    pub variant: Variant,
    /// When one of its files was last read, as far as the file system records that.
    pub last_used: Option<SystemTime>,
}

/// A repository in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedRepo {
    pub repo: RepoId,
    pub folder: PathBuf,
    /// All that lies in its folder, in bytes.
    pub bytes: u64,
    /// Its models, those of the newest snapshot first. One that several snapshots have is there once.
    pub models: Vec<Found>,
}

/// A repository's model in the cache, where its files are all there.
///
/// The newest state of the branch comes first; a variant that only an older one has is found there. An error says what a
/// name that fits nothing could have meant.
pub fn find(settings: &HubSettings, model: &ModelRef, purpose: Purpose) -> Result<Option<Found>, ChoiceError> {
    let cache = RepoCache::new(settings, &model.repo);
    let mut refused = None;
    for commit in commits(&cache) {
        let files = files(&cache.snapshot(&commit));
        if find_variants(&files).is_empty() {
            continue;
        }
        // What is here was chosen before, so the memory was thought of then.
        match choose(&files, model.variant.as_deref(), purpose, u64::MAX) {
            Ok(choice) => return Ok(Some(found(&cache, &commit, choice.variant))),
            Err(error) => {
                refused.get_or_insert(error);
            }
        }
    }
    // What was asked for by name may be at the Hub; what was not, is what there is here.
    match refused {
        Some(error @ (ChoiceError::Several { .. } | ChoiceError::Unreadable { .. })) => Err(error),
        _ => Ok(None),
    }
}

/// Every repository that has a model which ortalk knows, in the order of their names.
pub fn repositories(settings: &HubSettings) -> Vec<CachedRepo> {
    let mut repos: Vec<RepoId> =
        entries(&settings.cache).filter_map(|entry| RepoId::of_folder(&name_of(&entry)?)).collect();
    repos.sort();
    repos.into_iter().map(|repo| repository(settings, repo)).filter(|repo| !repo.models.is_empty()).collect()
}

/// A repository as it is in the cache; without models where it is not there.
pub fn repository(settings: &HubSettings, repo: RepoId) -> CachedRepo {
    let cache = RepoCache::new(settings, &repo);
    let mut models: Vec<Found> = Vec::new();
    for commit in commits(&cache) {
        for variant in find_variants(&files(&cache.snapshot(&commit))) {
            if !models.iter().any(|known| known.variant.name == variant.name) {
                models.push(found(&cache, &commit, variant));
            }
        }
    }
    let folder = cache.folder();
    CachedRepo { repo, bytes: bytes_below(&folder), folder, models }
}

/// Removes a repository from the cache, or one of its variants where one is named. Gives the bytes that are free now.
pub fn remove(settings: &HubSettings, model: &ModelRef) -> Result<u64, Fault> {
    let cache = RepoCache::new(settings, &model.repo);
    let folder = cache.folder();
    let before = bytes_below(&folder);
    let failed = |path: &Path, error| Fault::io("removing", path, error);
    let Some(wanted) = &model.variant else {
        fs::remove_dir_all(&folder).map_err(|error| failed(&folder, error))?;
        // Locks of nothing; they take no room.
        let _ = fs::remove_dir_all(cache.locks());
        return Ok(before);
    };
    let mut blobs = BTreeSet::new();
    for commit in commits(&cache) {
        let snapshot = cache.snapshot(&commit);
        let all = find_variants(&files(&snapshot));
        let Ok(choice) = named(all.clone(), wanted) else { continue };
        let shared: Vec<&FileEntry> = all
            .iter()
            .filter(|variant| variant.name != choice.variant.name)
            .flat_map(|variant| &variant.files)
            .collect();
        // What makes it look whole goes first.
        for file in choice.variant.files.iter().rev().filter(|file| !shared.contains(file)) {
            let pointer = cache.pointer(&commit, &file.path);
            blobs.extend(
                fs::read_link(&pointer)
                    .ok()
                    .and_then(|target| target.file_name().map(|name| cache.folder().join("blobs").join(name))),
            );
            fs::remove_file(&pointer).map_err(|error| failed(&pointer, error))?;
        }
        remove_empty(&snapshot);
    }
    let used: BTreeSet<PathBuf> =
        commits(&cache).iter().flat_map(|commit| link_targets(&cache.snapshot(commit))).collect();
    for blob in blobs.iter().filter(|blob| !used.iter().any(|used| used.file_name() == blob.file_name())) {
        match fs::remove_file(blob) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(blob, error)),
            _ => {}
        }
    }
    // Without a snapshot the rest is of no use to anyone.
    if commits(&cache).is_empty() {
        fs::remove_dir_all(&folder).map_err(|error| failed(&folder, error))?;
    }
    Ok(before.saturating_sub(bytes_below(&folder)))
}

/// The snapshots, that of the main branch first, then by age.
fn commits(cache: &RepoCache) -> Vec<String> {
    let main = fs::read_to_string(cache.folder().join("refs").join("main")).unwrap_or_default();
    let mut found: Vec<(bool, SystemTime, String)> = entries(&cache.folder().join("snapshots"))
        .filter_map(|entry| {
            let name = name_of(&entry).filter(|name| is_commit(name))?;
            let age = entry.metadata().ok()?.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            Some((name == main.trim(), age, name))
        })
        .collect();
    found.sort_by(|a, b| b.cmp(a));
    found.into_iter().map(|(_, _, name)| name).collect()
}

fn found(cache: &RepoCache, commit: &str, variant: Variant) -> Found {
    let path = if variant.opens.is_empty() { cache.snapshot(commit) } else { cache.pointer(commit, &variant.opens) };
    let used = |file: &FileEntry| fs::metadata(cache.pointer(commit, &file.path)).ok()?.accessed().ok();
    let last_used = variant.files.iter().filter_map(used).max();
    Found { path, commit: commit.to_string(), variant, last_used }
}

/// The files of a snapshot whose bytes are there.
fn files(snapshot: &Path) -> Vec<FileEntry> {
    let mut found = Vec::new();
    let mut folders = vec![(snapshot.to_path_buf(), String::new())];
    while let Some((folder, prefix)) = folders.pop() {
        for entry in entries(&folder) {
            let Some(name) = name_of(&entry) else { continue };
            let path = format!("{prefix}{name}");
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push((entry.path(), format!("{path}/"))),
                _ => {
                    if let Some(file) = fs::metadata(entry.path()).ok().filter(fs::Metadata::is_file) {
                        found.push(FileEntry { path, bytes: file.len() });
                    }
                }
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn link_targets(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in entries(folder) {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(link_targets(&entry.path())),
            Ok(kind) if kind.is_symlink() => found.extend(fs::read_link(entry.path())),
            _ => {}
        }
    }
    found
}

/// What the files below a folder take. Links count nothing: what they point to is here, too, or somebody else's.
pub fn bytes_below(folder: &Path) -> u64 {
    entries(folder)
        .map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => bytes_below(&entry.path()),
            Ok(kind) if kind.is_file() => entry.metadata().map_or(0, |found| found.len()),
            _ => 0,
        })
        .sum()
}

/// Removes a folder and those in it that have no files.
fn remove_empty(folder: &Path) {
    for entry in entries(folder) {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_empty(&entry.path());
        }
    }
    let _ = fs::remove_dir(folder);
}

fn entries(folder: &Path) -> impl Iterator<Item = fs::DirEntry> {
    fs::read_dir(folder).into_iter().flatten().flatten()
}

fn name_of(entry: &fs::DirEntry) -> Option<String> {
    entry.file_name().into_string().ok()
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::super::settings::tests::settings_in;
    use super::*;

    const OLD: &str = "1111111111111111111111111111111111111111";
    const NEW: &str = "2222222222222222222222222222222222222222";

    /// A cache with links, as `huggingface_hub` leaves it; each file is (commit, path, blob).
    fn cache(files: &[(&str, &str, &str)]) -> (tempfile::TempDir, HubSettings) {
        let dir = tempfile::tempdir().unwrap();
        let repo = dir.path().join("models--a--b");
        fs::create_dir_all(repo.join("blobs")).unwrap();
        fs::create_dir_all(repo.join("refs")).unwrap();
        fs::write(repo.join("refs/main"), NEW).unwrap();
        for (commit, path, blob) in files {
            fs::write(repo.join("blobs").join(blob), blob.repeat(10)).unwrap();
            let pointer = repo.join("snapshots").join(commit).join(path);
            fs::create_dir_all(pointer.parent().unwrap()).unwrap();
            let ups = "../".repeat(2 + path.matches('/').count());
            std::os::unix::fs::symlink(format!("{ups}blobs/{blob}"), pointer).unwrap();
        }
        let settings = settings_in(dir.path());
        (dir, settings)
    }

    fn model(text: &str) -> ModelRef {
        ModelRef::parse(text).unwrap()
    }

    fn place(settings: &HubSettings, text: &str) -> Option<String> {
        let found = find(settings, &model(text), Purpose::Cpu).unwrap()?;
        Some(found.path.strip_prefix(&settings.cache).unwrap().to_str().unwrap().to_string())
    }

    #[test]
    fn a_model_is_found_at_the_branch_and_else_where_it_is() {
        let (_dir, settings) =
            cache(&[(OLD, "x-Q8_0.gguf", "aa"), (OLD, "x-Q4_0.gguf", "bb"), (NEW, "x-Q4_0.gguf", "cc")]);
        let at = |commit: &str, file: &str| Some(format!("models--a--b/snapshots/{commit}/{file}"));
        assert_eq!(place(&settings, "a/b:Q4_0"), at(NEW, "x-Q4_0.gguf"));
        assert_eq!(place(&settings, "a/b:Q8_0"), at(OLD, "x-Q8_0.gguf"));
        assert_eq!(place(&settings, "a/b"), at(NEW, "x-Q4_0.gguf"));
        assert_eq!((place(&settings, "a/b:Q6_K"), place(&settings, "a/c")), (None, None));
    }

    #[test]
    fn a_snapshot_that_lacks_files_is_no_model() {
        let files =
            [(NEW, "config.json", "aa"), (NEW, "onnx/model_q4.onnx", "bb"), (NEW, "onnx/model_q4.onnx_data", "cc")];
        let (_dir, settings) = cache(&files);
        assert!(place(&settings, "a/b:q4").is_some());
        // A link to bytes that are gone.
        fs::remove_file(settings.cache.join("models--a--b/blobs/bb")).unwrap();
        assert_eq!(place(&settings, "a/b:q4"), None);
    }

    #[test]
    fn each_variant_is_listed_once() {
        let (_dir, settings) =
            cache(&[(OLD, "x-Q8_0.gguf", "aa"), (NEW, "x-Q8_0.gguf", "bb"), (NEW, "x-Q4_0.gguf", "cc")]);
        fs::create_dir_all(settings.cache.join("models--only--config/snapshots").join(NEW)).unwrap();
        fs::create_dir_all(settings.cache.join("datasets--a--b")).unwrap();
        let found = repositories(&settings);
        assert_eq!(found.len(), 1);
        let names: Vec<_> =
            found[0].models.iter().map(|found| (found.variant.name.as_str(), found.commit.as_str())).collect();
        assert_eq!(names, [("Q4_0", NEW), ("Q8_0", NEW)]);
        assert_eq!(found[0].bytes, 20 * 3 + 40);
    }

    #[test]
    fn a_variant_goes_with_its_bytes_and_leaves_what_others_need() {
        let (_dir, settings) = cache(&[
            (OLD, "onnx/model_q4.onnx", "aa"),
            (OLD, "config.json", "dd"),
            (NEW, "onnx/model_q4.onnx", "bb"),
            (NEW, "onnx/model_q4.onnx_data", "cc"),
            (NEW, "config.json", "dd"),
            (NEW, "onnx/model.onnx", "ee"),
            (NEW, "README.md", "cc"),
        ]);
        assert_eq!(remove(&settings, &model("a/b:q4")).unwrap(), 40);
        let blobs = settings.cache.join("models--a--b/blobs");
        let left: BTreeSet<_> = entries(&blobs).filter_map(|entry| name_of(&entry)).collect();
        // "cc" is the README's, too; the old snapshot needs "dd" no more, but the new one does.
        assert_eq!(left, ["cc", "dd", "ee"].map(String::from).into());
        assert_eq!((place(&settings, "a/b:q4"), place(&settings, "a/b:fp32").is_some()), (None, true));
        assert_eq!(remove(&settings, &model("a/b")).unwrap(), 60 + 40);
        assert!(!settings.cache.join("models--a--b").exists());
    }

    #[test]
    fn the_last_variant_takes_the_repository_with_it() {
        let (_dir, settings) = cache(&[(NEW, "x-Q8_0.gguf", "aa")]);
        remove(&settings, &model("a/b:Q8_0")).unwrap();
        assert!(!settings.cache.join("models--a--b").exists());
    }

    #[test]
    fn nothing_outside_the_cache_is_touched() {
        let (dir, settings) = cache(&[(NEW, "x-Q8_0.gguf", "aa")]);
        let outside = tempfile::tempdir().unwrap();
        let precious = outside.path().join("precious-Q4_0.gguf");
        fs::write(&precious, "keep").unwrap();
        let snapshot = dir.path().join("models--a--b/snapshots").join(NEW);
        std::os::unix::fs::symlink(&precious, snapshot.join("precious-Q4_0.gguf")).unwrap();
        std::os::unix::fs::symlink(outside.path(), snapshot.join("folder")).unwrap();
        remove(&settings, &model("a/b:Q4_0")).unwrap();
        remove(&settings, &model("a/b")).unwrap();
        assert_eq!(fs::read_to_string(&precious).unwrap(), "keep");
    }
}
