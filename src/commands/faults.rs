//! The last thing that went wrong, kept for `ortalk report`: one small file beside the log.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::ledger::Entry;
use crate::paths::Paths;

/// More of a message tells nobody more, in bytes.
const LONGEST: usize = 4000;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// UTC, by RFC 3339.
    pub time: String,
    /// Of ortalk.
    pub version: String,
    /// What it happened in: `chat`, `run`, `bench`.
    pub within: String,
    pub message: String,
}

fn file(paths: &Paths) -> PathBuf {
    paths.log.join("last-error.json")
}

/// Replaces the one before. What cannot be written is no second fault.
pub fn keep(paths: &Paths, within: &str, message: &str) {
    let fault = Fault {
        time: Entry::timestamp(chrono::Utc::now()),
        version: env!("CARGO_PKG_VERSION").into(),
        within: within.into(),
        message: without_quotations(message),
    };
    let (file, staged) = (file(paths), paths.log.join(format!("last-error.json.{}", std::process::id())));
    let write = || -> std::io::Result<()> {
        std::fs::create_dir_all(&paths.log)?;
        std::fs::write(&staged, serde_json::to_vec_pretty(&fault)?)?;
        std::fs::rename(&staged, file)
    };
    if write().is_err() {
        let _ = std::fs::remove_file(Path::new(&staged));
    }
}

/// `None` where nothing went wrong yet, or nobody can tell any more.
pub fn last(paths: &Paths) -> Option<Fault> {
    serde_json::from_slice(&std::fs::read(file(paths)).ok()?).ok()
}

/// An error in the settings quotes their line, which may be a system prompt: `3 | sytsem = "..."`.
pub fn without_quotations(message: &str) -> String {
    let is_quotation = |line: &&str| {
        let line = line.trim_start();
        line.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start().starts_with('|')
    };
    let kept: Vec<&str> = message.lines().filter(|line| !is_quotation(line)).collect();
    let mut text = kept.join("\n");
    let end = (0..=LONGEST.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text.truncate(end);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;

    #[test]
    fn the_last_fault_is_kept_and_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::below(dir.path());
        assert_eq!(last(&paths), None);
        keep(&paths, "run", "first");
        keep(&paths, "chat", &"é".repeat(LONGEST));
        let fault = last(&paths).unwrap();
        assert_eq!((fault.within.as_str(), fault.message.len()), ("chat", LONGEST));
        assert_eq!(std::fs::read_dir(&paths.log).unwrap().count(), 1);
        std::fs::write(file(&paths), "half").unwrap();
        assert_eq!(last(&paths), None);
    }

    /// The settings' own error, whatever it looks like.
    #[test]
    fn what_the_settings_say_is_not_quoted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.toml");
        for text in ["sytsem = 'You are my secret'", "threads = 2\nsystem = ['my secret']", "system = 'my secret"] {
            std::fs::write(&path, text).unwrap();
            let error = Settings::load(&path).unwrap_err().to_string();
            assert!(error.contains("secret"), "the error quotes it: {error}");
            let kept = without_quotations(&error);
            assert!(!kept.contains("secret") && kept.contains("config.toml"), "{kept}");
        }
    }
}
