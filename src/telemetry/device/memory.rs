//! The machine's memory, as Linux tells it.
//!
//! Format: <https://docs.kernel.org/filesystems/proc.html> (`/proc/meminfo`).

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::super::Reading;
use super::files::{text, unreadable};
use super::probe::{Found, Probe, reading};

/// In bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryUse {
    /// What could not be given to a program that asks for it.
    pub used: u64,
    pub total: u64,
}

struct MemInfo(PathBuf);

pub fn find(root: &Path) -> Found<MemoryUse> {
    let file = root.join("proc/meminfo");
    match file.exists() {
        true => Ok(Box::new(MemInfo(file))),
        false => Err(format!("there is no {}", file.display())),
    }
}

impl Probe<MemoryUse> for MemInfo {
    fn source(&self) -> String {
        self.0.display().to_string()
    }

    fn read(&mut self, _: Instant) -> Reading<MemoryUse> {
        let told = text(&self.0).map_err(|error| unreadable(&self.0, &error));
        reading(told.and_then(|text| {
            let bytes = |name| kibibytes(&text, name).map(|kib| kib * 1024);
            let told = bytes("MemTotal").zip(bytes("MemAvailable"));
            let used = told.map(|(total, available)| MemoryUse { used: total.saturating_sub(available), total });
            used.ok_or_else(|| format!("{} tells no MemTotal and MemAvailable", self.0.display()))
        }))
    }
}

/// Of a line such as `MemTotal:       16085268 kB`.
pub fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    value.trim().strip_suffix("kB")?.trim().parse().ok()
}
