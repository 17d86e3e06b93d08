//! Files in which the kernel counts up: energy used, time spent.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::files::{number, value};
use super::probe::MEASURING;

/// Shorter than this and the counter's own steps are too much of the difference.
const SHORTEST_GAP: Duration = Duration::from_millis(50);

/// Longer than this between two looks and a counter that goes round may have done so more than once, unseen.
const LONGEST_GAP: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct Counter {
    file: PathBuf,
    /// The file that says where the counter starts again at zero, for one that does.
    goes_round_at: Option<PathBuf>,
    last: Option<(Instant, f64)>,
}

impl Counter {
    /// Its first look is now.
    pub fn new(file: PathBuf, now: Instant) -> Self {
        let last = number(&file).ok().map(|count| (now, count));
        Self { file, goes_round_at: None, last }
    }

    pub fn going_round_at(mut self, file: PathBuf) -> Self {
        self.goes_round_at = Some(file);
        self
    }

    /// Mean growth a second since the last look that gave a value, never negative.
    pub fn per_second(&mut self, now: Instant) -> Result<f64, String> {
        let count = value(&self.file)?;
        let measuring = || Err(MEASURING.to_owned());
        let Some((then, before)) = self.last else {
            self.last = Some((now, count));
            return measuring();
        };
        let gap = now.saturating_duration_since(then);
        if gap < SHORTEST_GAP {
            return measuring();
        }
        self.last = Some((now, count));
        if self.goes_round_at.is_some() && gap > LONGEST_GAP {
            return measuring();
        }
        let range = || self.goes_round_at.as_ref().and_then(|file| number(file).ok());
        let growth = if count < before { range().map(|range| count - before + range) } else { Some(count - before) };
        // Smaller without going round: the driver was loaded anew.
        growth.filter(|growth| *growth >= 0.0).map_or_else(measuring, |growth| Ok(growth / gap.as_secs_f64()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_told_for_each_second_and_never_negative() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("count");
        let set = |count: u64| std::fs::write(&file, format!("{count}\n")).unwrap();
        set(100);
        let start = Instant::now();
        let mut counter = Counter::new(file.clone(), start);
        let mut at = |seconds| counter.per_second(start + Duration::from_secs(seconds));
        set(400);
        assert_eq!(at(2), Ok(150.0));
        assert_eq!(at(3), Ok(0.0));
        set(50);
        assert_eq!(at(4), Err(MEASURING.into()));
        set(60);
        // One that does not go round may be left alone for an hour.
        assert_eq!(at(14), Ok(1.0));
        std::fs::remove_file(&file).unwrap();
        assert!(at(15).unwrap_err().contains("count cannot be read"));
    }
}
