//! Temperatures: of hwmon's chips and of thermal zones, the hottest sensor of those that belong to one thing.
//!
//! Format: <https://docs.kernel.org/hwmon/sysfs-interface.html>,
//! <https://docs.kernel.org/driver-api/thermal/sysfs-api.html>; thousandths of a degree Celsius.

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::super::Reading;
use super::files::{entries, name_of, number, numbered, text};
use super::probe::{Found, NO_SENSOR, Probe};

struct Hottest {
    files: Vec<PathBuf>,
    source: String,
}

pub fn of_cpu(root: &Path) -> [Found<f32>; 2] {
    [chips(root, is_of_cpu), zones(root, is_of_cpu, "the CPU")]
}

pub fn of_npu(root: &Path) -> Found<f32> {
    zones(root, |zone| zone.starts_with("nsp"), "the NPU")
}

/// By the names that the kernels' drivers give: Intel's coretemp, AMD's k10temp and zenpower, the thermal zones of Arm
/// systems, Apple's die sensors.
pub fn is_of_cpu(label: &str) -> bool {
    let label = label.to_lowercase();
    ["coretemp", "k10temp", "zenpower", "x86_pkg_temp", "cpu", "tdie", "soc_thermal"]
        .iter()
        .any(|name| label.contains(name))
}

fn chips(root: &Path, wanted: fn(&str) -> bool) -> Found<f32> {
    let folder = root.join("sys/class/hwmon");
    let of_chip = |chip: PathBuf| {
        let name = text(&chip.join("name")).unwrap_or_default();
        let is_wanted = move |file: &PathBuf| {
            let label = text(&file.with_file_name(name_of(file).replace("_input", "_label"))).unwrap_or_default();
            wanted(&format!("{name} {label}"))
        };
        numbered(&chip, "temp", "_input").into_iter().filter(is_wanted).collect::<Vec<_>>()
    };
    let files: Vec<_> = entries(&folder).into_iter().flat_map(of_chip).collect();
    found(files, || format!("no chip of the CPU in {}", folder.display()))
}

fn zones(root: &Path, wanted: fn(&str) -> bool, what: &str) -> Found<f32> {
    let folder = root.join("sys/class/thermal");
    let zones = entries(&folder).into_iter().filter(|zone| name_of(zone).starts_with("thermal_zone"));
    let zones = zones.filter(|zone| text(&zone.join("type")).is_ok_and(|kind| wanted(&kind)));
    found(zones.map(|zone| zone.join("temp")).collect(), || format!("no zone of {what} in {}", folder.display()))
}

fn found(files: Vec<PathBuf>, missing: impl Fn() -> String) -> Found<f32> {
    let Some(first) = files.first() else { return Err(missing()) };
    let more = if files.len() > 1 { format!(" and {} more", files.len() - 1) } else { String::new() };
    let source = format!("{}{more}", first.display());
    Ok(Box::new(Hottest { files, source }))
}

impl Probe<f32> for Hottest {
    fn source(&self) -> String {
        self.source.clone()
    }

    /// A sensor that is switched off tells 0, or cannot be read.
    fn read(&mut self, _: Instant) -> Reading<f32> {
        let told = self.files.iter().filter_map(|file| number(file).ok()).filter(|told| *told != 0.0);
        match told.reduce(f64::max) {
            Some(thousandths) => Reading::Measured((thousandths / 1e3) as f32),
            None => Reading::Unavailable(NO_SENSOR.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sensors_of_the_cpu_are_told_from_others() {
        for label in
            ["coretemp Package id 0", "k10temp Tctl", "cpu_thermal ", "PMU tdie1", "x86_pkg_temp", "thinkpad CPU"]
        {
            assert!(is_of_cpu(label), "{label}");
        }
        for label in ["nvme Composite", "acpitz ", "iwlwifi_1 ", "amdgpu edge", "BAT0"] {
            assert!(!is_of_cpu(label), "{label}");
        }
    }
}
