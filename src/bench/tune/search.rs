//! The three races, and what comes of them.

use serde::Serialize;

use super::race::{RaceReport, Standing, race};
use super::{Space, Timing};
use crate::engine::CpuSetting;

/// Up to so many threads each count runs; above, steps grow with the count.
const EACH: usize = 8;

/// What is about to run, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// What the race is of.
    pub of: &'static str,
    pub setting: CpuSetting,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tuned {
    pub chosen: CpuSetting,
    pub default: CpuSetting,
    /// In the order in which they were run.
    pub races: Vec<RaceReport>,
}

impl Tuned {
    pub fn measurements(&self) -> usize {
        self.races.iter().map(RaceReport::measurements).sum()
    }

    /// The race of what was chosen against the default, where that is another setting.
    pub fn check(&self) -> Option<&RaceReport> {
        self.races.iter().find(|race| race.of == "default")
    }
}

/// Runs the races. `time` measures a setting once: its prefill, and its decode where the flag says so.
pub fn search<E>(space: &Space, time: &mut dyn FnMut(Progress, bool) -> Result<Timing, E>) -> Result<Tuned, E> {
    let default = space.default;
    let mut races = Vec::new();
    let mut run = |of: &'static str, settings: &[CpuSetting], decodes: bool| -> Result<RaceReport, E> {
        let report = race(of, settings, space.rounds, &mut |setting| time(Progress { of, setting }, decodes))?;
        races.push(report.clone());
        Ok(report)
    };
    let grid = grid(space.threads, default.threads);
    let of_threads = |threads: &usize| CpuSetting { threads: *threads, ..default };
    let counts = run("threads", &grid.iter().map(of_threads).collect::<Vec<_>>(), true)?;

    let mut left: Vec<usize> = counts.front().map(|setting| setting.threads).collect();
    let best = counts.fastest().map_or(default.threads, |entry| entry.setting.threads);
    left.extend(between(&grid, best));
    left.sort_unstable();
    // A single thread has none to wait for.
    let spinning = left.iter().filter(|threads| **threads > 1);
    let spinning = spinning.map(|threads| CpuSetting { spinning: true, ..of_threads(threads) });
    let settings: Vec<_> = left.iter().map(of_threads).chain(spinning).collect();
    let chosen = match settings[..] {
        [only] => only,
        _ => run("spinning", &settings, true)?.cheapest().unwrap_or(default),
    };

    let with_chunk = |chunk: &usize| CpuSetting { prefill_chunk: *chunk, ..chosen };
    let chunks = run("pass", &space.chunks.iter().map(with_chunk).collect::<Vec<_>>(), false)?;
    let mut chosen = chunks.cheapest().unwrap_or(chosen);

    if chosen != default {
        let check = run("default", &[chosen, default], true)?;
        let slower =
            |setting| check.entries.iter().any(|entry| entry.setting == setting && entry.standing == Standing::Slower);
        let costs_less = (chosen.threads, chosen.spinning) < (default.threads, default.spinning);
        if slower(chosen) || !costs_less && !slower(default) {
            chosen = default;
        }
    }
    Ok(Tuned { chosen, default, races })
}

/// The thread counts of the first race: all, or for many 1, 2, 3, 4, 6, 8, 12, 16 and so on; the default and the most are
/// among them.
fn grid(most: usize, default: usize) -> Vec<usize> {
    let doubled = std::iter::successors(Some(1_usize), |count| count.checked_mul(2)).take_while(|count| *count <= most);
    let mut counts: Vec<usize> = match most {
        ..=EACH => (1..=most.max(1)).collect(),
        _ => doubled.flat_map(|count| [count, count + count / 2]).filter(|count| *count <= most).collect(),
    };
    counts.extend([most.max(1), default]);
    counts.sort_unstable();
    counts.dedup();
    counts
}

/// The middles between the best count and those beside it.
fn between(grid: &[usize], best: usize) -> Vec<usize> {
    let Some(at) = grid.iter().position(|count| *count == best) else { return Vec::new() };
    let beside = [at.checked_sub(1), Some(at + 1)].into_iter().flatten().filter_map(|index| grid.get(index));
    beside.map(|count| count.midpoint(best)).filter(|middle| !grid.contains(middle)).collect()
}

#[cfg(test)]
mod tests {
    use rand::{Rng, RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::super::ROUNDS;
    use super::*;

    /// A machine with so many cores whose threads share so much memory bandwidth, and which spinning helps.
    #[derive(Clone, Copy)]
    struct Machine {
        cores: f64,
        /// Threads beyond it bring decode nothing.
        bandwidth: f64,
        /// A decode's time with spinning, as a part of that without.
        spinning: f64,
        best_chunk: f64,
    }

    impl Machine {
        fn turn(&self, setting: CpuSetting) -> Timing {
            let threads = setting.threads as f64;
            let over = (threads - self.cores).max(0.0);
            let waiting = 0.01 * (threads - 1.0) * if setting.spinning { self.spinning } else { 1.0 };
            let decode = 20.0 * (1.0 / threads.min(self.bandwidth) + waiting + 0.05 * over);
            let chunk = 1.0 + 0.1 * (setting.prefill_chunk as f64 / self.best_chunk).log2().abs();
            let prefill = (1.0 / threads.min(self.cores) + 0.05 * over) * chunk;
            Timing { prefill_token_ms: prefill, decode_token_ms: Some(decode) }
        }

        fn time(&self, setting: CpuSetting, decodes: bool) -> Timing {
            let whole = self.turn(setting);
            Timing { decode_token_ms: whole.decode_token_ms.filter(|_| decodes), ..whole }
        }

        fn settings(space: &Space) -> Vec<CpuSetting> {
            let mut all = Vec::new();
            for threads in 1..=space.threads {
                for spinning in [false, true] {
                    for prefill_chunk in &space.chunks {
                        all.push(CpuSetting { threads, spinning, prefill_chunk: *prefill_chunk });
                    }
                }
            }
            all
        }
    }

    const CHUNKS: [usize; 5] = [32, 64, 128, 256, 512];

    fn space(threads: usize, default: usize) -> Space {
        Space { default: CpuSetting::with_threads(default), threads, chunks: CHUNKS.into(), rounds: ROUNDS }
    }

    /// Each time is longer by up to a fifth, the whole machine drifts by a third, and now and then something takes as long
    /// again.
    fn noise(random: &mut impl Rng, run: usize) -> f64 {
        let burst = if random.random_range(0..12) == 0 { 2.0 } else { 1.0 };
        let drift = 1.0 + 0.33 * (run as f64 / 40.0).sin().abs();
        (1.0 + random.random_range(0.0..0.2)) * burst * drift
    }

    #[test]
    fn noise_leads_to_a_setting_that_is_hardly_worse_than_the_best_at_a_part_of_the_cost() {
        let machines = [
            (Machine { cores: 2.0, bandwidth: 2.0, spinning: 0.2, best_chunk: 128.0 }, space(2, 2)),
            (Machine { cores: 8.0, bandwidth: 3.0, spinning: 0.5, best_chunk: 64.0 }, space(8, 8)),
            (Machine { cores: 8.0, bandwidth: 6.0, spinning: 3.0, best_chunk: 512.0 }, space(16, 8)),
            (Machine { cores: 64.0, bandwidth: 11.0, spinning: 1.0, best_chunk: 256.0 }, space(64, 64)),
        ];
        for (index, (machine, space)) in machines.iter().enumerate() {
            for seed in 0..8 {
                let mut random = ChaCha8Rng::seed_from_u64(seed);
                let mut runs = 0;
                let tuned = search::<()>(space, &mut |progress, decodes| {
                    runs += 1;
                    let Timing { prefill_token_ms, decode_token_ms } = machine.time(progress.setting, decodes);
                    let noise = noise(&mut random, runs);
                    let decode_token_ms = decode_token_ms.map(|time| time * noise);
                    Ok(Timing { prefill_token_ms: prefill_token_ms * noise, decode_token_ms })
                });
                let tuned = tuned.unwrap();
                let all = Machine::settings(space);
                let best = all.iter().map(|setting| machine.turn(*setting).turn_ms()).fold(f64::INFINITY, f64::min);
                let loss = machine.turn(tuned.chosen).turn_ms() / best;
                assert!(loss < 1.12, "machine {index}, seed {seed}: {loss} with {:?}", tuned.chosen);
                assert_eq!(runs, tuned.measurements());
                assert!(runs < all.len() * 12, "machine {index}: {runs} of {}", all.len() * 12);
            }
        }
    }

    #[test]
    fn a_quiet_machine_s_best_is_found_exactly() {
        let machine = Machine { cores: 4.0, bandwidth: 3.0, spinning: 0.5, best_chunk: 64.0 };
        let tuned =
            search::<()>(&space(4, 4), &mut |progress, decodes| Ok(machine.time(progress.setting, decodes))).unwrap();
        let best = Machine::settings(&space(4, 4))
            .into_iter()
            .min_by(|a, b| machine.turn(*a).turn_ms().total_cmp(&machine.turn(*b).turn_ms()));
        assert_eq!(Some(tuned.chosen), best);
        assert_eq!(
            tuned.races.iter().map(|race| race.of).collect::<Vec<_>>(),
            ["threads", "spinning", "pass", "default"]
        );
    }

    #[test]
    fn where_nothing_differs_the_cheapest_is_taken() {
        let same = Timing { prefill_token_ms: 1.0, decode_token_ms: Some(10.0) };
        let tuned = search::<()>(&space(4, 4), &mut |_, _| Ok(same)).unwrap();
        assert_eq!(tuned.chosen, CpuSetting { threads: 1, spinning: false, prefill_chunk: 32 });
    }

    /// Where nothing but chance speaks for another pass, the default stays.
    #[test]
    fn what_costs_as_much_as_the_default_must_be_faster() {
        let mut runs = 0_u32;
        let tuned = search::<()>(&space(1, 1), &mut |progress, decodes| {
            runs += 1;
            // In its own race the small pass is faster; for a turn it is not.
            let small = progress.setting.prefill_chunk == 32 && progress.of == "pass";
            let prefill = if small { 1.0 } else { 2.0 + f64::from(runs % 2) };
            Ok(Timing { prefill_token_ms: prefill, decode_token_ms: decodes.then_some(10.0) })
        });
        let tuned = tuned.unwrap();
        assert_eq!((tuned.chosen, tuned.check().is_some()), (CpuSetting::with_threads(1), true));
    }

    #[test]
    fn one_core_has_one_count() {
        let machine = Machine { cores: 1.0, bandwidth: 1.0, spinning: 1.0, best_chunk: 128.0 };
        let tuned =
            search::<()>(&space(1, 1), &mut |progress, decodes| Ok(machine.time(progress.setting, decodes))).unwrap();
        assert_eq!(tuned.chosen, CpuSetting::with_threads(1));
        assert_eq!(tuned.races.iter().map(|race| race.of).collect::<Vec<_>>(), ["threads", "pass"]);
    }

    #[test]
    fn the_grid_of_thread_counts() {
        assert_eq!(grid(1, 1), [1]);
        assert_eq!(grid(6, 3), [1, 2, 3, 4, 5, 6]);
        assert_eq!(grid(20, 10), [1, 2, 3, 4, 6, 8, 10, 12, 16, 20]);
        assert_eq!(between(&grid(20, 10), 16), [14, 18]);
        assert_eq!(between(&grid(20, 10), 1), Vec::<usize>::new());
        assert_eq!(between(&grid(20, 10), 20), [18]);
    }
}
