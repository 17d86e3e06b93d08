//! The rates that lanes measured, kept from one run to the next, so that `--policy fastest` knows this machine.
//!
//! A cache and no more: a file that is lost, or that two processes wrote at once, costs a measurement.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::engine::{LaneId, MeasuredRates, Threads};

pub struct Rates {
    file: PathBuf,
    model: PathBuf,
    known: Mutex<Known>,
}

/// By model folder, then by lane.
type Known = BTreeMap<PathBuf, BTreeMap<String, Kept>>;

/// Tokens per second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Kept {
    prefill: Option<f64>,
    decode: Option<f64>,
}

impl Rates {
    /// Those of this model folder.
    pub fn open(file: PathBuf, model: &Path) -> Self {
        let known = std::fs::read(&file).ok().and_then(|text| serde_json::from_slice(&text).ok());
        Self { file, model: model.to_path_buf(), known: Mutex::new(known.unwrap_or_default()) }
    }

    pub fn of(&self, lane: LaneId, emulated: bool, threads: Option<Threads>) -> MeasuredRates {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = known.get(&self.model).and_then(|lanes| lanes.get(&key(lane, emulated, threads)));
        // A rate that is none would never be measured again.
        let rate = |rate: Option<f64>| rate.filter(|rate| rate.is_finite() && *rate > 0.0);
        kept.map_or_else(MeasuredRates::default, |kept| MeasuredRates {
            prefill: rate(kept.prefill),
            decode: rate(kept.decode),
        })
    }

    /// Writes the file anew; what cannot be written is measured again.
    pub fn keep(&self, lane: LaneId, emulated: bool, threads: Option<Threads>, rates: MeasuredRates) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = Kept { prefill: rates.prefill, decode: rates.decode };
        known.entry(self.model.clone()).or_default().insert(key(lane, emulated, threads), kept);
        let staged = self.file.with_extension(format!("json.{}", std::process::id()));
        let write = || -> std::io::Result<()> {
            std::fs::write(&staged, serde_json::to_vec_pretty(&*known)?)?;
            std::fs::rename(&staged, &self.file)
        };
        if write().is_err() {
            let _ = std::fs::remove_file(&staged);
        }
    }
}

/// What makes a lane faster or slower.
fn key(lane: LaneId, emulated: bool, threads: Option<Threads>) -> String {
    let emulated = if emulated { " emulated" } else { "" };
    let threads = threads.map(|Threads { count, spinning, .. }| {
        let spinning = if spinning { " spinning" } else { "" };
        format!(" {count}{spinning} threads")
    });
    let threads = threads.unwrap_or_default();
    format!("{lane}{emulated}{threads}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::ChosenBy;

    const RATES: MeasuredRates = MeasuredRates { prefill: Some(900.5), decode: Some(80.25) };

    fn threads(count: usize) -> Option<Threads> {
        Some(Threads { count, spinning: false, chosen_by: ChosenBy::Default })
    }

    #[test]
    fn what_was_kept_is_found_again_by_model_and_lane() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("rates.json");
        let open = |model: &str| Rates::open(file.clone(), Path::new(model));
        open("/a").keep(LaneId::Cpu, false, threads(2), RATES);
        open("/b").keep(LaneId::Npu, true, None, MeasuredRates { prefill: None, ..RATES });
        assert_eq!(open("/a").of(LaneId::Cpu, false, threads(2)), RATES);
        assert_eq!(open("/b").of(LaneId::Npu, true, None), MeasuredRates { prefill: None, ..RATES });
        for (model, lane, emulated, threads) in [
            ("/b", LaneId::Cpu, false, threads(2)),
            ("/a", LaneId::Cpu, false, threads(1)),
            ("/b", LaneId::Npu, false, None),
            ("/a", LaneId::Npu, true, None),
        ] {
            assert_eq!(open(model).of(lane, emulated, threads), MeasuredRates::default(), "{model} {lane}");
        }
        let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["rates.json"]);
    }

    #[test]
    fn a_file_that_is_not_right_costs_a_measurement() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("rates.json");
        for text in ["", "[]", r#"{"/a": {"cpu": {"prefill": -1, "decode": 0}}}"#] {
            std::fs::write(&file, text).unwrap();
            let rates = Rates::open(file.clone(), Path::new("/a"));
            assert_eq!(rates.of(LaneId::Cpu, false, None), MeasuredRates::default(), "{text}");
        }
        Rates::open(dir.path().join("no/such/folder"), Path::new("/a")).keep(LaneId::Cpu, false, None, RATES);
    }
}
