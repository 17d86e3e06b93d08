//! Settings that run against each other, round after round, until it is clear which of them are slower.

use serde::Serialize;

use super::{MARGIN, Timing};
use crate::engine::CpuSetting;
use crate::telemetry::statistics::{median, median_interval};

/// Fewer tell nothing.
const FIRST_LOOK: usize = 3;
/// So much slower in each of the first rounds is slower, without waiting for a confidence interval.
const FAR: f64 = 1.25;

/// How a setting stands against the fastest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    Fastest,
    Slower,
    /// It cannot be told from the fastest.
    Equal,
}

/// A setting in a race.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Entry {
    pub setting: CpuSetting,
    /// One for each round that it took part in, which are the first ones.
    pub timings: Vec<Timing>,
    pub standing: Standing,
    /// The median of its times by the fastest's, round by round.
    pub ratio: f64,
    /// The ratio's 95 % confidence interval; absent for fewer than six rounds.
    pub interval: Option<(f64, f64)>,
}

impl Entry {
    fn new(setting: CpuSetting) -> Self {
        Self { setting, timings: Vec::new(), standing: Standing::Equal, ratio: 1.0, interval: None }
    }

    /// Of a turn, or of its prefill where the race is about that.
    pub fn turn_ms(&self) -> f64 {
        self.median(|timing| Some(timing.turn_ms())).unwrap_or(f64::INFINITY)
    }

    pub fn prefill_tokens_per_second(&self) -> Option<f64> {
        self.median(|timing| Some(1e3 / timing.prefill_token_ms))
    }

    pub fn decode_tokens_per_second(&self) -> Option<f64> {
        self.median(|timing| Some(1e3 / timing.decode_token_ms?))
    }

    fn median(&self, of: impl Fn(&Timing) -> Option<f64>) -> Option<f64> {
        median(&self.timings.iter().filter_map(of).collect::<Vec<_>>())
    }
}

/// A race that was run, in the order of its settings.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RaceReport {
    pub of: &'static str,
    pub entries: Vec<Entry>,
}

impl RaceReport {
    pub fn fastest(&self) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.standing == Standing::Fastest)
    }

    /// The fastest and what cannot be told from it.
    pub fn front(&self) -> impl Iterator<Item = CpuSetting> {
        self.entries.iter().filter(|entry| entry.standing != Standing::Slower).map(|entry| entry.setting)
    }

    /// What costs least of the front: the fewest threads, then no spinning, then the smallest pass.
    pub fn cheapest(&self) -> Option<CpuSetting> {
        self.front().min()
    }

    pub fn measurements(&self) -> usize {
        self.entries.iter().map(|entry| entry.timings.len()).sum()
    }
}

/// Runs a race of at most `rounds`. `time` measures a setting once.
pub fn race<E>(
    of: &'static str,
    settings: &[CpuSetting],
    rounds: usize,
    time: &mut dyn FnMut(CpuSetting) -> Result<Timing, E>,
) -> Result<RaceReport, E> {
    let mut entries: Vec<Entry> = settings.iter().map(|setting| Entry::new(*setting)).collect();
    for round in 0..rounds.max(FIRST_LOOK) {
        let mut running: Vec<usize> =
            (0..entries.len()).filter(|index| entries[*index].standing != Standing::Slower).collect();
        if running.len() < 2 && round >= FIRST_LOOK {
            break;
        }
        // Nobody always runs behind the same one.
        let count = running.len();
        running.rotate_left(round % count.max(1));
        if round % 2 == 1 {
            running.reverse();
        }
        for index in running {
            let timing = time(entries[index].setting)?;
            entries[index].timings.push(timing);
        }
        if round + 1 >= FIRST_LOOK && judge(&mut entries) {
            break;
        }
    }
    Ok(RaceReport { of, entries })
}

/// Says how each one stands that is still running; whether that is clear for all.
fn judge(entries: &mut [Entry]) -> bool {
    let running: Vec<usize> = (0..entries.len()).filter(|index| entries[*index].standing != Standing::Slower).collect();
    let Some(&fastest) = running.iter().min_by(|a, b| entries[**a].turn_ms().total_cmp(&entries[**b].turn_ms())) else {
        return true;
    };
    let times = entries[fastest].timings.clone();
    let mut clear = true;
    for (index, entry) in entries.iter_mut().enumerate() {
        let Compared { ratio, interval, slower, same, far } = compare(&entry.timings, &times);
        if index == fastest {
            (entry.standing, entry.ratio, entry.interval) = (Standing::Fastest, 1.0, None);
            continue;
        }
        // Those that left are set beside the one that is fastest now, too.
        (entry.ratio, entry.interval) = (ratio, interval);
        if entry.standing != Standing::Slower {
            entry.standing = if slower || far { Standing::Slower } else { Standing::Equal };
            clear &= slower || far || same;
        }
    }
    clear
}

/// One setting beside another.
pub struct Compared {
    /// The median of the ratios of the times, round by round.
    pub ratio: f64,
    pub interval: Option<(f64, f64)>,
    /// By the rule of `tune`.
    pub slower: bool,
    /// It is sure that the difference is below the margin.
    pub same: bool,
    /// Much slower in every round.
    far: bool,
}

/// By the rounds that both have.
pub fn compare(times: &[Timing], against: &[Timing]) -> Compared {
    let ratios: Vec<f64> = times.iter().zip(against).map(|(a, b)| a.turn_ms() / b.turn_ms()).collect();
    let ratio = median(&ratios).unwrap_or(1.0);
    let interval = median_interval(&ratios);
    Compared {
        ratio,
        interval,
        slower: ratio >= 1.0 + MARGIN && interval.is_some_and(|(low, _)| low > 1.0),
        same: interval.is_some_and(|(low, high)| low > 1.0 / (1.0 + MARGIN) && high < 1.0 + MARGIN),
        far: ratios.len() >= FIRST_LOOK && ratios.iter().all(|ratio| *ratio >= FAR),
    }
}

#[cfg(test)]
mod tests {
    use super::super::ROUNDS;
    use super::*;

    fn times(turns: &[f64]) -> Vec<Timing> {
        // A turn of so many units: its prompt has 512 tokens.
        turns.iter().map(|turn| Timing { prefill_token_ms: turn / 512.0, decode_token_ms: None }).collect()
    }

    #[test]
    fn two_settings_are_told_apart_by_their_rounds() {
        let beside = |a: &[f64], b: &[f64]| {
            let found = compare(&times(a), &times(b));
            (found.slower, found.same)
        };
        // The rounds drift by a half, the ratio stays.
        assert_eq!(beside(&[1.1, 1.2, 1.3, 1.4, 1.5, 1.65], &[1.0, 1.1, 1.2, 1.3, 1.4, 1.5]), (true, false));
        // Too few, and one that went the other way.
        assert_eq!(beside(&[1.1; 5], &[1.0; 5]), (false, false));
        assert_eq!(beside(&[1.1, 1.1, 1.1, 1.1, 1.1, 0.9], &[1.0; 6]), (false, false));
        // Of nine, one disturbed round does not matter.
        assert_eq!(beside(&[1.1, 1.1, 1.1, 1.1, 0.5, 1.1, 1.1, 1.1, 1.1], &[1.0; 9]), (true, false));
        // A hundredth is no difference, however sure it is.
        assert_eq!(beside(&[1.01; 6], &[1.0; 6]), (false, true));
    }

    #[test]
    fn what_is_far_behind_leaves_after_three_rounds() {
        let settings = [1, 2].map(CpuSetting::with_threads);
        let mut runs = 0;
        let report = race::<()>("threads", &settings, ROUNDS, &mut |setting| {
            runs += 1;
            Ok(times(&[if setting.threads == 1 { 2.0 } else { 1.0 }])[0])
        });
        let report = report.unwrap();
        assert_eq!((runs, report.measurements()), (6, 6));
        assert_eq!(
            report.entries.iter().map(|entry| entry.standing).collect::<Vec<_>>(),
            [Standing::Slower, Standing::Fastest]
        );
        assert_eq!((report.entries[0].ratio, report.cheapest()), (2.0, Some(settings[1])));
    }

    #[test]
    fn of_equal_ones_the_cheapest_is_taken() {
        let spinning = CpuSetting { spinning: true, ..CpuSetting::with_threads(2) };
        let settings = [spinning, CpuSetting::with_threads(4), CpuSetting::with_threads(2)];
        let report = race::<()>("spinning", &settings, ROUNDS, &mut |_| Ok(times(&[1.0])[0])).unwrap();
        assert_eq!(report.cheapest(), Some(CpuSetting::with_threads(2)));
        // Six rounds are enough to see that they are equal.
        assert_eq!(report.measurements(), 18);
    }
}
