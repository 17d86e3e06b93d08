//! The CPU's load and frequency, as Linux tells them.
//!
//! Format: <https://docs.kernel.org/filesystems/proc.html> (`/proc/stat`, in ticks),
//! <https://docs.kernel.org/admin-guide/pm/cpufreq.html> (in kHz).

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::super::Reading;
use super::files::{entries, number, text, unreadable};
use super::probe::{Found, MEASURING, NO_SENSOR, Probe, reading};

/// Ticks are 10 ms: over less than this they say nothing.
pub const SHORTEST_GAP: Duration = Duration::from_millis(100);

/// Ticks of all cores together, since the machine started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ticks {
    busy: u64,
    all: u64,
}

struct Load {
    file: PathBuf,
    last: Option<(Instant, Ticks)>,
}

pub fn load(root: &Path, now: Instant) -> Found<f32> {
    let file = root.join("proc/stat");
    let ticks = ticks(&file)?;
    Ok(Box::new(Load { file, last: Some((now, ticks)) }))
}

impl Probe<f32> for Load {
    fn source(&self) -> String {
        self.file.display().to_string()
    }

    fn read(&mut self, now: Instant) -> Reading<f32> {
        let (then, before) = match self.last {
            Some((then, _)) if now.saturating_duration_since(then) < SHORTEST_GAP => {
                return Reading::Unavailable(MEASURING.into());
            }
            Some(last) => last,
            None => (now, Ticks { busy: 0, all: 0 }),
        };
        let ticks = match ticks(&self.file) {
            Ok(ticks) => ticks,
            Err(reason) => return Reading::Unavailable(reason),
        };
        self.last = Some((now, ticks));
        let all = ticks.all.saturating_sub(before.all);
        if then == now || all == 0 {
            return Reading::Unavailable(MEASURING.into());
        }
        let busy = ticks.busy.saturating_sub(before.busy);
        Reading::Measured((busy as f64 / all as f64 * 100.0).min(100.0) as f32)
    }
}

/// The first line: `cpu user nice system idle iowait irq softirq steal guest guest_nice`. Guests are in `user` already;
/// a core that waits for a disk is idle.
fn ticks(file: &Path) -> Result<Ticks, String> {
    let text = text(file).map_err(|error| unreadable(file, &error))?;
    let numbers = text.lines().next().and_then(|line| line.strip_prefix("cpu "));
    let numbers: Vec<u64> = numbers.into_iter().flat_map(str::split_whitespace).map_while(|n| n.parse().ok()).collect();
    match numbers.get(..8) {
        Some(times) => {
            let all = times.iter().sum::<u64>();
            Ok(Ticks { busy: all - times[3] - times[4], all })
        }
        None => Err(format!("{} has no line of the kernel's form", file.display())),
    }
}

pub fn mhz(root: &Path) -> [Found<u64>; 2] {
    let policies = root.join("sys/devices/system/cpu/cpufreq");
    let found: Vec<_> =
        entries(&policies).into_iter().filter(|policy| policy.join("scaling_cur_freq").exists()).collect();
    let policies: Found<u64> = match found.is_empty() {
        true => Err(format!("no frequency in {}", policies.display())),
        false => Ok(Box::new(Policies { folder: policies, policies: found })),
    };
    let info = root.join("proc/cpuinfo");
    let info: Found<u64> = match frequencies(&info) {
        Ok(_) => Ok(Box::new(CpuInfo(info))),
        Err(reason) => Err(reason),
    };
    [policies, info]
}

/// Cores that change their frequency together are one policy.
struct Policies {
    folder: PathBuf,
    policies: Vec<PathBuf>,
}

impl Probe<u64> for Policies {
    fn source(&self) -> String {
        self.folder.join("policy*/scaling_cur_freq").display().to_string()
    }

    /// Mean over the cores.
    fn read(&mut self, _: Instant) -> Reading<u64> {
        let (mut sum, mut cores) = (0.0, 0.0);
        for policy in &self.policies {
            let Ok(khz) = number(&policy.join("scaling_cur_freq")) else { continue };
            let count = text(&policy.join("affected_cpus")).map_or(1, |cpus| cpus.split_whitespace().count().max(1));
            sum += khz * count as f64;
            cores += count as f64;
        }
        if cores > 0.0 {
            Reading::Measured((sum / cores / 1e3).round() as u64)
        } else {
            Reading::Unavailable(NO_SENSOR.into())
        }
    }
}

/// Virtual machines often have no policies, and tell a frequency here (x86 alone).
struct CpuInfo(PathBuf);

impl Probe<u64> for CpuInfo {
    fn source(&self) -> String {
        self.0.display().to_string()
    }

    fn read(&mut self, _: Instant) -> Reading<u64> {
        let mean = |mhz: Vec<f64>| (mhz.iter().sum::<f64>() / mhz.len() as f64).round() as u64;
        reading(frequencies(&self.0).map(mean))
    }
}

/// In MHz, one for each core, at least one.
fn frequencies(file: &Path) -> Result<Vec<f64>, String> {
    let text = text(file).map_err(|error| unreadable(file, &error))?;
    let lines = text.lines().filter_map(|line| line.strip_prefix("cpu MHz"));
    let told: Vec<f64> = lines.filter_map(|line| line.trim_start().strip_prefix(':')?.trim().parse().ok()).collect();
    if told.is_empty() { Err(format!("{} tells no frequency", file.display())) } else { Ok(told) }
}
