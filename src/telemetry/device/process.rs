//! This process and those that work for it: memory and CPU time, as Linux tells them.
//!
//! Format: <https://docs.kernel.org/filesystems/proc.html> (`/proc/PID/stat`, in ticks, and `/proc/PID/status`).

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::super::Reading;
use super::cpu::SHORTEST_GAP;
use super::files::text;
use super::memory::kibibytes;
use super::probe::MEASURING;

/// How long a tick is, on all architectures that ortalk runs on.
const TICK_MILLISECONDS: u64 = 10;

/// How one process stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Resident, in bytes.
    pub memory: u64,
    pub cpu_time: Duration,
    /// When it started, in whatever unit: numbers of processes come again.
    pub started: u64,
}

/// Looks at one process.
pub trait Processes: Send {
    fn source(&self) -> String;
    /// Those that are there, by number.
    fn look(&mut self, pids: &[u32]) -> HashMap<u32, Usage>;
}

pub struct ProcFiles(pub PathBuf);

impl ProcFiles {
    pub fn below(root: &Path) -> Self {
        Self(root.join("proc"))
    }

    fn usage(&self, pid: u32) -> Option<Usage> {
        let folder = self.0.join(pid.to_string());
        let stat = text(&folder.join("stat")).ok()?;
        // The program's name may have spaces and brackets in it.
        let (_, fields) = stat.rsplit_once(')')?;
        // The first is the third of the kernel's documentation, the state.
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        let ticks = number(14)? + number(15)?;
        let memory = kibibytes(&text(&folder.join("status")).ok()?, "VmRSS")? * 1024;
        Some(Usage { memory, cpu_time: Duration::from_millis(ticks * TICK_MILLISECONDS), started: number(22)? })
    }
}

impl Processes for ProcFiles {
    fn source(&self) -> String {
        self.0.join("PID/stat").display().to_string()
    }

    fn look(&mut self, pids: &[u32]) -> HashMap<u32, Usage> {
        pids.iter().filter_map(|pid| Some((*pid, self.usage(*pid)?))).collect()
    }
}

pub struct ProcessProbe {
    processes: Box<dyn Processes>,
    own: u32,
    last: Option<(Instant, HashMap<u32, Usage>)>,
}

impl ProcessProbe {
    pub fn new(mut processes: Box<dyn Processes>, own: u32, now: Instant) -> Self {
        let last = Some((now, processes.look(&[own]))).filter(|(_, seen)| !seen.is_empty());
        Self { processes, own, last }
    }

    pub fn source(&self) -> String {
        self.processes.source()
    }

    /// Memory in bytes, and load in percent of one core since the look before, of this process and the `helpers`.
    pub fn read(&mut self, now: Instant, helpers: &[u32]) -> (Reading<u64>, Reading<f32>) {
        let pids: Vec<u32> = std::iter::once(self.own).chain(helpers.iter().copied()).collect();
        let seen = self.processes.look(&pids);
        if !seen.contains_key(&self.own) {
            let unknown = "the system does not tell about this process";
            return (Reading::Unavailable(unknown.into()), Reading::Unavailable(unknown.into()));
        }
        let memory = Reading::Measured(seen.values().map(|usage| usage.memory).sum());
        let measuring = Reading::Unavailable(MEASURING.into());
        if self.last.as_ref().is_some_and(|(then, _)| now.saturating_duration_since(*then) < SHORTEST_GAP) {
            return (memory, measuring);
        }
        let Some((then, before)) = self.last.replace((now, seen.clone())) else { return (memory, measuring) };
        // One that came since counts from its start.
        let since = |(pid, usage): (&u32, &Usage)| {
            let before = before.get(pid).filter(|before| before.started == usage.started);
            usage.cpu_time.saturating_sub(before.map_or(Duration::ZERO, |before| before.cpu_time))
        };
        let used = seen.iter().map(since).sum::<Duration>().as_secs_f64();
        let load = used / now.saturating_duration_since(then).as_secs_f64() * 100.0;
        (memory, Reading::Measured(load as f32))
    }
}
