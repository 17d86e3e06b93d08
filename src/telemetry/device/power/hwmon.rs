//! Meters that drivers of known chips show in hwmon. Others are left out: what their watts are of is not known.
//!
//! Format: <https://docs.kernel.org/hwmon/sysfs-interface.html>; power in microwatts, energy in microjoules.

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::super::counter::Counter;
use super::super::files::{entries, name_of, numbered, text, value};
use super::super::probe::{Found, Probe, reading};
use super::rapl::sum;
use super::{Power, PowerSource};
use crate::telemetry::Reading;

/// A chip's name, the channels that count by how their labels start (none: all), and what they are of together. The
/// best first.
const METERS: &[(&str, &str, PowerSource)] = &[
    // Sockets of EPYC; the first counts energy, of cores, too.
    ("amd_energy", "Esocket", PowerSource::CpuPackages),
    ("amd_hsmp_hwmon", "", PowerSource::CpuPackages),
    ("fam15h_power", "", PowerSource::CpuPackages),
    // Ryzen, by a driver that is not the kernel's own.
    ("zenpower", "SVI2_P_", PowerSource::CpuPackages),
    // Of the whole chip in an APU.
    ("amdgpu", "", PowerSource::Chip),
    // Apple's computers under Linux.
    ("macsmc_hwmon", "Total System Power", PowerSource::Machine),
    // Of the firmware (ACPI).
    ("power_meter", "", PowerSource::Machine),
];

enum Meter {
    Power(Vec<PathBuf>),
    Energy(Vec<Counter>),
}

struct Hwmon {
    meter: Meter,
    of: PowerSource,
    source: String,
}

pub fn find(root: &Path, now: Instant) -> Found<Power> {
    let folder = root.join("class/hwmon");
    let chips: Vec<_> =
        entries(&folder).into_iter().filter_map(|chip| Some((text(&chip.join("name")).ok()?, chip))).collect();
    for (name, label, of) in METERS {
        let chips = chips.iter().filter(|(found, chip)| found == name && tells_of_the_processor(found, chip));
        let files: Vec<_> = chips.flat_map(|(_, chip)| channels(chip, label)).collect();
        let Some(first) = files.first() else { continue };
        let source = format!("{} ({name})", first.display());
        let meter = match *name == "amd_energy" {
            true => Meter::Energy(files.into_iter().map(|file| Counter::new(file, now)).collect()),
            false => Meter::Power(files),
        };
        return Ok(Box::new(Hwmon { meter, of: *of, source }));
    }
    Err(format!("no power meter of the processor or the machine in {}", folder.display()))
}

/// A graphics card tells only of itself; a chip that has the processor, too, alone has a voltage of its north bridge:
/// <https://docs.kernel.org/gpu/amdgpu/thermal.html>.
fn tells_of_the_processor(name: &str, chip: &Path) -> bool {
    name != "amdgpu" || chip.join("in1_input").exists()
}

fn channels(chip: &Path, label: &str) -> Vec<PathBuf> {
    let by_kind = |start, end| {
        let files = numbered(chip, start, end).into_iter();
        files.map(|file| (chip.join(name_of(&file).replace(end, "_label")), file)).collect::<Vec<_>>()
    };
    // Some have only a mean, some only the value of the moment, some both.
    let kinds = [by_kind("energy", "_input"), by_kind("power", "_input"), by_kind("power", "_average")];
    let wanted = |(labelled, _): &(PathBuf, PathBuf)| {
        label.is_empty() || text(labelled).is_ok_and(|found| found.starts_with(label))
    };
    let mut kinds =
        kinds.into_iter().map(|kind| kind.into_iter().filter(wanted).map(|(_, file)| file).collect::<Vec<_>>());
    kinds.find(|files| !files.is_empty()).unwrap_or_default()
}

impl Probe<Power> for Hwmon {
    fn source(&self) -> String {
        self.source.clone()
    }

    fn read(&mut self, now: Instant) -> Reading<Power> {
        let watts = match &mut self.meter {
            Meter::Energy(counters) => sum(counters, now),
            Meter::Power(files) => {
                files.iter().map(|file| value(file)).sum::<Result<f64, _>>().map(|micro| micro / 1e6)
            }
        };
        let told = watts.and_then(|watts| match watts > 0.0 {
            true => Ok(Power { watts: watts as f32, source: self.of }),
            false => Err(format!("{} is 0", self.source)),
        });
        reading(told)
    }
}
