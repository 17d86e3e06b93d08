//! How the CPU lane runs fastest, kept for each model as `ortalk bench --tune` found it on this machine.
//!
//! A cache and no more: what is lost, or was found on another machine, with another ONNX Runtime or for other files, is
//! not used, and the lane runs with the defaults.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::engine::CpuSetting;
use crate::telemetry::machine::Machine;

/// Grows when a field changes its meaning; files of other versions are not used.
const VERSION: u32 = 1;

pub struct Tunings {
    file: PathBuf,
    known: BTreeMap<PathBuf, Kept>,
}

#[derive(Deserialize, Serialize)]
struct File {
    version: u32,
    /// By model folder.
    models: BTreeMap<PathBuf, Kept>,
}

#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
struct Kept {
    setting: CpuSetting,
    circumstances: Circumstances,
}

/// What the best setting hangs on.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
struct Circumstances {
    processor: Option<String>,
    cores: Option<usize>,
    /// Those that the process may use, which a container may limit.
    threads: usize,
    /// The library; its version is part of its name.
    onnx_runtime: PathBuf,
    /// Graphs and weights: name, bytes, and seconds since 1970 of their last change.
    files: Vec<(String, u64, u64)>,
}

impl Circumstances {
    fn look(model: &Path, library: &Path) -> Self {
        let machine = Machine::look();
        let mut files: Vec<_> = std::fs::read_dir(model).into_iter().flatten().flatten().filter_map(graph).collect();
        files.sort();
        Self {
            processor: machine.processor,
            cores: machine.cores,
            threads: super::session::usable_threads(),
            onnx_runtime: library.to_path_buf(),
            files,
        }
    }
}

fn graph(entry: std::fs::DirEntry) -> Option<(String, u64, u64)> {
    let name = entry.file_name().to_string_lossy().into_owned();
    // A cache's files are links.
    let metadata = std::fs::metadata(entry.path()).ok()?;
    let changed = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?.as_secs();
    name.contains(".onnx").then_some((name, metadata.len(), changed))
}

impl Tunings {
    pub fn open(file: PathBuf) -> Self {
        let read = std::fs::read(&file).ok().and_then(|text| serde_json::from_slice::<File>(&text).ok());
        let known = read.filter(|read| read.version == VERSION).map(|read| read.models).unwrap_or_default();
        Self { file, known }
    }

    /// What was found for this model folder with this ONNX Runtime, where nothing has changed since.
    pub fn of(&self, model: &Path, library: &Path) -> Option<CpuSetting> {
        let kept = self.known.get(model)?;
        let CpuSetting { threads, prefill_chunk, .. } = kept.setting;
        let sound = threads > 0 && threads <= kept.circumstances.threads && prefill_chunk > 0;
        (sound && kept.circumstances == Circumstances::look(model, library)).then_some(kept.setting)
    }

    /// All that is used with this ONNX Runtime, by model folder.
    pub fn all(&self, library: &Path) -> Vec<(&Path, CpuSetting)> {
        self.known.keys().filter_map(|model| Some((model.as_path(), self.of(model, library)?))).collect()
    }

    /// Writes the file anew.
    pub fn keep(&mut self, model: &Path, library: &Path, setting: CpuSetting) -> anyhow::Result<()> {
        let kept = Kept { setting, circumstances: Circumstances::look(model, library) };
        self.known.insert(model.to_path_buf(), kept);
        let text = serde_json::to_vec_pretty(&File { version: VERSION, models: self.known.clone() })?;
        let staged = self.file.with_extension(format!("json.{}", std::process::id()));
        let folder = self.file.parent().map_or(Ok(()), std::fs::create_dir_all);
        let written =
            folder.and_then(|()| std::fs::write(&staged, text)).and_then(|()| std::fs::rename(&staged, &self.file));
        if written.is_err() {
            let _ = std::fs::remove_file(&staged);
        }
        written.with_context(|| format!("'{}' cannot be written", self.file.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTING: CpuSetting = CpuSetting { threads: 1, spinning: true, prefill_chunk: 64 };

    struct Place {
        dir: tempfile::TempDir,
    }

    impl Place {
        /// A model folder beside the file.
        fn new() -> Self {
            let place = Self { dir: tempfile::tempdir().unwrap() };
            std::fs::create_dir(place.model()).unwrap();
            for name in ["model.onnx", "model.onnx.data", "tokenizer.json"] {
                std::fs::write(place.model().join(name), name).unwrap();
            }
            place
        }

        fn model(&self) -> PathBuf {
            self.dir.path().join("model")
        }

        fn file(&self) -> PathBuf {
            self.dir.path().join("tuning.json")
        }

        fn open(&self) -> Tunings {
            Tunings::open(self.file())
        }

        fn kept(&self) -> Option<CpuSetting> {
            self.open().of(&self.model(), Path::new("/lib.so.1"))
        }

        fn change(&self, change: impl FnOnce(&mut serde_json::Value)) {
            let mut value = serde_json::from_slice(&std::fs::read(self.file()).unwrap()).unwrap();
            change(&mut value);
            std::fs::write(self.file(), value.to_string()).unwrap();
        }
    }

    fn tuned() -> Place {
        let place = Place::new();
        place.open().keep(&place.model(), Path::new("/lib.so.1"), SETTING).unwrap();
        place
    }

    #[test]
    fn what_was_found_is_used_until_something_changes() {
        let place = tuned();
        assert_eq!(place.kept(), Some(SETTING));
        assert_eq!(place.open().all(Path::new("/lib.so.1")), [(place.model().as_path(), SETTING)]);
        assert_eq!(place.open().all(Path::new("/lib.so.2")), []);
        assert_eq!(place.open().of(&place.model(), Path::new("/lib.so.2")), None);
        assert_eq!(place.open().of(Path::new("/other"), Path::new("/lib.so.1")), None);
        std::fs::write(place.model().join("tokenizer.json"), "longer than before").unwrap();
        assert_eq!(place.kept(), Some(SETTING));
        std::fs::write(place.model().join("model.onnx"), "longer than before").unwrap();
        assert_eq!(place.kept(), None);
        place.open().keep(&place.model(), Path::new("/lib.so.1"), SETTING).unwrap();
        assert_eq!(place.kept(), Some(SETTING));
    }

    #[test]
    fn another_machine_or_version_and_nonsense_are_not_used() {
        let of_model = |key: &'static str, value: serde_json::Value| {
            move |file: &mut serde_json::Value| {
                let models = file["models"].as_object_mut().unwrap();
                *models.values_mut().next().unwrap().pointer_mut(key).unwrap() = value;
            }
        };
        let place = tuned();
        place.change(of_model("/circumstances/processor", "Another".into()));
        assert_eq!(place.kept(), None);
        let place = tuned();
        place.change(of_model("/circumstances/threads", 1000.into()));
        assert_eq!(place.kept(), None);
        let place = tuned();
        place.change(of_model("/setting/threads", 0.into()));
        assert_eq!(place.kept(), None);
        let place = tuned();
        place.change(|file| file["version"] = 2.into());
        assert_eq!(place.kept(), None);
        std::fs::write(place.file(), "{").unwrap();
        assert_eq!(place.kept(), None);
    }
}
