//! The latest benchmark, kept for `ortalk report`. A cache: what cannot be written or read is not there.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::markdown;
use crate::bench::Report;
use crate::ledger::Entry;
use crate::paths::Paths;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeptBench {
    /// UTC, by RFC 3339.
    pub time: String,
    /// As `--markdown` prints it.
    pub markdown: String,
    /// As `--json` prints it.
    pub report: Value,
}

fn file(paths: &Paths) -> std::path::PathBuf {
    paths.cache.join("bench.json")
}

/// In place of the one before.
pub fn keep(paths: &Paths, report: &Report) {
    let kept = KeptBench {
        time: Entry::timestamp(chrono::Utc::now()),
        markdown: markdown::markdown(report),
        report: serde_json::to_value(report).unwrap_or_default(),
    };
    let (file, staged) = (file(paths), paths.cache.join(format!("bench.json.{}", std::process::id())));
    let write = || -> std::io::Result<()> {
        std::fs::write(&staged, serde_json::to_vec(&kept)?)?;
        std::fs::rename(&staged, &file)
    };
    if write().is_err() {
        let _ = std::fs::remove_file(&staged);
    }
}

pub fn latest(paths: &Paths) -> Option<KeptBench> {
    serde_json::from_slice(&std::fs::read(file(paths)).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::super::fixtures;
    use super::*;

    #[test]
    fn the_latest_one_is_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::below(dir.path());
        // Without a folder for it there is none.
        keep(&paths, &fixtures::report());
        assert_eq!(latest(&paths), None);
        std::fs::create_dir_all(&paths.cache).unwrap();
        keep(&paths, &fixtures::report());
        let kept = latest(&paths).unwrap();
        assert_eq!(kept.report["schema_version"], crate::bench::SCHEMA_VERSION);
        assert_eq!(kept.markdown, markdown::markdown(&fixtures::report()));
        assert_eq!(std::fs::read_dir(&paths.cache).unwrap().count(), 1);
    }
}
