//! RAPL: energy that the processor counts for its packages, as powercap shows it. Since 2020 the kernel keeps it for root.
//!
//! Format: <https://docs.kernel.org/power/powercap/powercap.html>.

use std::path::Path;
use std::time::Instant;

use super::super::counter::Counter;
use super::super::files::{entries, name_of, text};
use super::super::probe::{Found, Probe, reading};
use super::{Power, PowerSource};
use crate::telemetry::Reading;

struct Packages {
    /// In microjoules; they go round.
    energy: Vec<Counter>,
    source: String,
}

pub fn find(root: &Path, now: Instant) -> Found<Power> {
    let folder = root.join("class/powercap");
    let packages: Vec<_> = entries(&folder)
        .into_iter()
        // `intel-rapl:0` is a package, `intel-rapl:0:1` a part of it, `intel-rapl-mmio:0` the same once more. A platform
        // zone would count packages again.
        .filter(|zone| name_of(zone).strip_prefix("intel-rapl:").is_some_and(|rest| !rest.contains(':')))
        .filter(|zone| text(&zone.join("name")).is_ok_and(|name| name.starts_with("package")))
        .collect();
    if packages.is_empty() {
        return Err(format!("no RAPL package in {}", folder.display()));
    }
    let counter =
        |zone| Counter::new(Path::join(zone, "energy_uj"), now).going_round_at(zone.join("max_energy_range_uj"));
    let source =
        packages.iter().map(|zone| zone.join("energy_uj").display().to_string()).collect::<Vec<_>>().join(", ");
    let energy = packages.iter().map(|zone| counter(zone)).collect();
    Ok(Box::new(Packages { energy, source }))
}

impl Probe<Power> for Packages {
    fn source(&self) -> String {
        self.source.clone()
    }

    fn read(&mut self, now: Instant) -> Reading<Power> {
        let of_packages = |watts| Power { watts: watts as f32, source: PowerSource::CpuPackages };
        reading(sum(&mut self.energy, now).map(of_packages))
    }
}

/// Watts of counters in microjoules.
pub fn sum(counters: &mut [Counter], now: Instant) -> Result<f64, String> {
    // Each is looked at, also where one fails: they shall cover the same time.
    let watts: Vec<_> = counters.iter_mut().map(|counter| counter.per_second(now)).collect();
    let watts = watts.into_iter().sum::<Result<f64, String>>()? / 1e6;
    // Virtual machines show counters that never move.
    if watts > 0.0 { Ok(watts) } else { Err("no readable sensor: the energy counter stands still".into()) }
}
