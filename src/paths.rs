//! Where ortalk keeps its files: settings, caches, logs, and what it writes down for its user.
//!
//! `ORTALK_HOME=DIR` puts everything below one folder (tests, portable use); otherwise each platform's own places are
//! used. This module only names places; whoever writes there creates the folder.

use std::path::{Path, PathBuf};

/// The environment variable that puts everything below one folder.
pub const HOME_VARIABLE: &str = "ORTALK_HOME";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// Settings that a person edits: `config.toml`.
    pub config: PathBuf,
    /// What can be fetched or built again: runtime libraries, downloads, built models.
    pub cache: PathBuf,
    /// What cannot be made again: conversations, the ledger of answers.
    pub data: PathBuf,
    /// What native libraries and ortalk itself report while the screen is in use.
    pub log: PathBuf,
}

#[derive(Debug, thiserror::Error)]
#[error("no home folder was found for this user; set {HOME_VARIABLE} to a folder that ortalk may write to")]
pub struct NoHome;

impl Paths {
    /// The places for this user: below `ORTALK_HOME` where that is set, else where the platform keeps such files.
    pub fn discover() -> Result<Self, NoHome> {
        match std::env::var_os(HOME_VARIABLE) {
            Some(home) if !home.is_empty() => Ok(Self::below(Path::new(&home))),
            _ => {
                let dirs = directories::ProjectDirs::from("", "", "ortalk").ok_or(NoHome)?;
                Ok(Self {
                    config: dirs.config_dir().to_path_buf(),
                    cache: dirs.cache_dir().to_path_buf(),
                    data: dirs.data_local_dir().to_path_buf(),
                    log: dirs.state_dir().unwrap_or(dirs.cache_dir()).to_path_buf(),
                })
            }
        }
    }

    /// Everything below one folder.
    pub fn below(home: &Path) -> Self {
        Self { config: home.to_path_buf(), cache: home.join("cache"), data: home.join("data"), log: home.join("log") }
    }

    pub fn settings_file(&self) -> PathBuf {
        self.config.join("config.toml")
    }

    /// Colour themes of the user's own, one file each.
    pub fn themes(&self) -> PathBuf {
        self.config.join("themes")
    }

    /// Model folders that ortalk built, one folder each.
    pub fn models(&self) -> PathBuf {
        self.cache.join("models")
    }

    /// Native libraries that ortalk fetched, one folder for each package and version.
    pub fn libraries(&self) -> PathBuf {
        self.cache.join("lib")
    }

    /// What lanes measured.
    pub fn rates_file(&self) -> PathBuf {
        self.cache.join("rates.json")
    }

    /// What `ortalk bench --tune` found.
    pub fn tuning_file(&self) -> PathBuf {
        self.cache.join("tuning.json")
    }

    /// What answers took, a line each.
    pub fn ledger_file(&self) -> PathBuf {
        self.data.join("ledger.jsonl")
    }

    /// Messages sent in the chat, a line each.
    pub fn history_file(&self) -> PathBuf {
        self.data.join("history.jsonl")
    }

    /// Conversations, a file each.
    pub fn chats(&self) -> PathBuf {
        self.data.join("chats")
    }

    pub fn log_file(&self) -> PathBuf {
        self.log.join("ortalk.log")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_folder_holds_everything() {
        let paths = Paths::below(Path::new("/x"));
        for place in [&paths.config, &paths.cache, &paths.data, &paths.log] {
            assert!(place.starts_with("/x"), "{place:?}");
        }
        assert_eq!(paths.settings_file(), Path::new("/x").join("config.toml"));
    }
}
