//! Electric power from what Linux exports: RAPL's energy counters of the CPU packages, or the battery while it discharges.
//!
//! Reads files below one root, so any tree with the same files will do; where there is none, as on other systems, it says
//! so. What the watts are of differs (the CPU packages, the whole machine), so they come with their source.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::super::Reading;

/// Measured power.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Power {
    pub watts: f32,
    pub source: PowerSource,
}

/// What the measured watts are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PowerSource {
    CpuPackages,
    Battery,
}

impl std::fmt::Display for PowerSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::CpuPackages => "CPU packages",
            Self::Battery => "whole machine (battery)",
        })
    }
}

/// Longer than this between two looks and an energy counter may have gone round more than once, unseen.
const LONGEST_GAP: Duration = Duration::from_secs(60);

/// Shorter than this and the counter's own steps are too much of the difference.
const SHORTEST_GAP: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub struct PowerProbe {
    packages: Vec<Counter>,
    batteries: Vec<PathBuf>,
}

impl PowerProbe {
    /// Looks for sensors below `root` (`/sys`), once: packages and batteries do not come and go while a chat runs.
    pub fn new(root: &Path, now: Instant) -> Self {
        let mut packages: Vec<_> = entries(&root.join("class/powercap"))
            .into_iter()
            // `intel-rapl:0` is a package, `intel-rapl:0:1` a part of it. A platform zone would count packages again.
            .filter(|zone| name_of(zone).strip_prefix("intel-rapl:").is_some_and(|rest| !rest.contains(':')))
            .filter(|zone| text(&zone.join("name")).is_ok_and(|name| name.starts_with("package")))
            .map(|zone| Counter { zone, last: None })
            .collect();
        for package in &mut packages {
            let _ = package.watts(now);
        }
        let batteries = entries(&root.join("class/power_supply"))
            .into_iter()
            .filter(|supply| text(&supply.join("type")).is_ok_and(|kind| kind == "Battery"))
            // A mouse's or a pen's battery is not what the machine runs on.
            .filter(|supply| !text(&supply.join("scope")).is_ok_and(|scope| scope == "Device"))
            .collect();
        Self { packages, batteries }
    }

    pub fn read(&mut self, now: Instant) -> Reading<Power> {
        let measured = |watts: f64, source| Reading::Measured(Power { watts: watts as f32, source });
        let packages = self.packages.iter_mut().map(|package| package.watts(now)).collect::<Vec<_>>();
        let reason = match packages.into_iter().collect::<Result<Vec<_>, _>>() {
            Ok(watts) if !watts.is_empty() => return measured(watts.iter().sum(), PowerSource::CpuPackages),
            Ok(_) => None,
            Err(reason) => Some(reason),
        };
        match self.battery_watts() {
            Ok(watts) => measured(watts, PowerSource::Battery),
            Err(battery_reason) => Reading::Unavailable(reason.unwrap_or(battery_reason)),
        }
    }

    /// What flows out of all batteries together. While one charges, its flow is not what the machine uses.
    fn battery_watts(&self) -> Result<f64, String> {
        let is_discharging = |battery: &&PathBuf| text(&battery.join("status")).is_ok_and(|s| s == "Discharging");
        let discharging: Vec<_> = self.batteries.iter().filter(is_discharging).collect();
        if self.batteries.is_empty() {
            return Err("no readable sensor".into());
        }
        if discharging.is_empty() {
            return Err("no readable sensor: on mains, the battery does not tell".into());
        }
        let watts = discharging.into_iter().map(|battery| battery_watts(battery)).sum::<Option<f64>>();
        watts
            .filter(|watts| *watts > 0.0)
            .ok_or_else(|| "no readable sensor: the battery does not tell its flow".into())
    }
}

/// Some batteries tell power, some current and voltage; some drivers give a discharge as negative.
fn battery_watts(battery: &Path) -> Option<f64> {
    let micro = |file: &str| number(&battery.join(file)).ok().map(|value| value.abs() / 1e6);
    micro("power_now").or_else(|| Some(micro("current_now")? * micro("voltage_now")?))
}

/// One package's energy counter, in microjoules; it goes round.
#[derive(Debug)]
struct Counter {
    zone: PathBuf,
    last: Option<(Instant, f64)>,
}

impl Counter {
    /// Mean power since the last look that gave a value.
    fn watts(&mut self, now: Instant) -> Result<f64, String> {
        let path = self.zone.join("energy_uj");
        let energy = number(&path).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => format!("needs permission: {}", path.display()),
            _ => format!("{} cannot be read: {error}", path.display()),
        })?;
        let Some((then, before)) = self.last else {
            self.last = Some((now, energy));
            return Err("measuring".into());
        };
        let gap = now.saturating_duration_since(then);
        if gap < SHORTEST_GAP {
            return Err("measuring".into());
        }
        self.last = Some((now, energy));
        if gap > LONGEST_GAP {
            return Err("measuring".into());
        }
        let mut used = energy - before;
        if used < 0.0 {
            used += number(&self.zone.join("max_energy_range_uj")).unwrap_or(0.0);
        }
        // Virtual machines show counters that never move.
        if used <= 0.0 {
            return Err("no readable sensor: the energy counter stands still".into());
        }
        Ok(used / 1e6 / gap.as_secs_f64())
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn text(path: &Path) -> io::Result<String> {
    Ok(fs::read_to_string(path)?.trim().to_owned())
}

fn number(path: &Path) -> io::Result<f64> {
    text(path)?.parse::<i64>().map(|value| value as f64).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree like /sys, and a clock that is turned by hand.
    struct Machine {
        root: tempfile::TempDir,
        now: Instant,
    }

    impl Machine {
        fn new(files: &[(&str, &str)]) -> Self {
            let machine = Self { root: tempfile::tempdir().unwrap(), now: Instant::now() };
            files.iter().for_each(|(path, content)| machine.set(path, content));
            machine
        }

        fn set(&self, path: &str, content: &str) {
            let path = self.root.path().join("class").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{content}\n")).unwrap();
        }

        fn probe(&self) -> PowerProbe {
            PowerProbe::new(self.root.path(), self.now)
        }

        fn read_after(&mut self, probe: &mut PowerProbe, milliseconds: u64) -> Reading<Power> {
            self.now += Duration::from_millis(milliseconds);
            probe.read(self.now)
        }
    }

    const PACKAGE: [(&str, &str); 3] = [
        ("powercap/intel-rapl:0/name", "package-0"),
        ("powercap/intel-rapl:0/energy_uj", "1000000"),
        ("powercap/intel-rapl:0/max_energy_range_uj", "262143328850"),
    ];

    fn packages(watts: f32) -> Reading<Power> {
        Reading::Measured(Power { watts, source: PowerSource::CpuPackages })
    }

    fn battery(watts: f32) -> Reading<Power> {
        Reading::Measured(Power { watts, source: PowerSource::Battery })
    }

    fn unavailable(reading: Reading<Power>) -> String {
        match reading {
            Reading::Unavailable(reason) => reason,
            Reading::Measured(power) => panic!("{power:?}"),
        }
    }

    #[test]
    fn no_sensor_is_said_and_is_not_zero() {
        let mut machine = Machine::new(&[]);
        let mut probe = machine.probe();
        assert_eq!(unavailable(machine.read_after(&mut probe, 500)), "no readable sensor");
    }

    /// 6 J in 0.5 s are 12 W. Parts of the package and the platform zone are not added to it.
    #[test]
    fn energy_over_time_is_power() {
        let mut machine = Machine::new(&PACKAGE);
        machine.set("powercap/intel-rapl:0:0/name", "core");
        machine.set("powercap/intel-rapl:0:0/energy_uj", "0");
        machine.set("powercap/intel-rapl:1/name", "psys");
        machine.set("powercap/intel-rapl:1/energy_uj", "0");
        let mut probe = machine.probe();
        machine.set("powercap/intel-rapl:0/energy_uj", "7000000");
        machine.set("powercap/intel-rapl:0:0/energy_uj", "5000000");
        machine.set("powercap/intel-rapl:1/energy_uj", "9000000");
        assert_eq!(machine.read_after(&mut probe, 500), packages(12.0));
    }

    #[test]
    fn packages_add_up() {
        let mut machine = Machine::new(&PACKAGE);
        machine.set("powercap/intel-rapl:1/name", "package-1");
        machine.set("powercap/intel-rapl:1/energy_uj", "500");
        let mut probe = machine.probe();
        machine.set("powercap/intel-rapl:0/energy_uj", "4000000");
        machine.set("powercap/intel-rapl:1/energy_uj", "2000500");
        assert_eq!(machine.read_after(&mut probe, 1000), packages(5.0));
    }

    /// From 2 J before its end to 1 J after its start are 3 J.
    #[test]
    fn a_counter_that_went_round() {
        let mut machine = Machine::new(&PACKAGE);
        machine.set("powercap/intel-rapl:0/energy_uj", "262141328850");
        let mut probe = machine.probe();
        machine.set("powercap/intel-rapl:0/energy_uj", "1000000");
        assert_eq!(machine.read_after(&mut probe, 1000), packages(3.0));
    }

    #[test]
    fn too_soon_and_too_late_give_no_value() {
        let mut machine = Machine::new(&PACKAGE);
        let mut probe = machine.probe();
        machine.set("powercap/intel-rapl:0/energy_uj", "2000000");
        assert_eq!(unavailable(machine.read_after(&mut probe, 1)), "measuring");
        // The look that was too soon did not swallow its joule.
        machine.set("powercap/intel-rapl:0/energy_uj", "3000000");
        assert_eq!(machine.read_after(&mut probe, 999), packages(2.0));
        // The machine slept for an hour.
        machine.set("powercap/intel-rapl:0/energy_uj", "9000000");
        assert_eq!(unavailable(machine.read_after(&mut probe, 3_600_000)), "measuring");
    }

    #[test]
    fn a_counter_that_stands_still_is_no_sensor() {
        let mut machine = Machine::new(&PACKAGE);
        let mut probe = machine.probe();
        assert!(unavailable(machine.read_after(&mut probe, 500)).contains("stands still"));
    }

    #[test]
    fn a_discharging_battery_tells_power_or_current_and_voltage() {
        let mut machine = Machine::new(&[
            ("power_supply/AC/type", "Mains"),
            ("power_supply/BAT0/type", "Battery"),
            ("power_supply/BAT0/status", "Discharging"),
            ("power_supply/BAT0/power_now", "7500000"),
            ("power_supply/BAT1/type", "Battery"),
            ("power_supply/BAT1/status", "Discharging"),
            ("power_supply/BAT1/current_now", "-500000"),
            ("power_supply/BAT1/voltage_now", "12000000"),
            ("power_supply/mouse/type", "Battery"),
            ("power_supply/mouse/scope", "Device"),
            ("power_supply/mouse/status", "Discharging"),
            ("power_supply/mouse/power_now", "1000000"),
        ]);
        let mut probe = machine.probe();
        assert_eq!(machine.read_after(&mut probe, 500), battery(13.5));
        // Plugged in: the flow is now the charger's.
        machine.set("power_supply/BAT0/status", "Charging");
        machine.set("power_supply/BAT1/status", "Full");
        assert!(unavailable(machine.read_after(&mut probe, 500)).contains("on mains"));
    }

    /// Root may read everything, so the file is made unreadable in another way: a folder in its place.
    #[test]
    fn an_unreadable_counter_is_named_and_the_battery_steps_in() {
        let mut machine = Machine::new(&PACKAGE);
        let energy = machine.root.path().join("class/powercap/intel-rapl:0/energy_uj");
        fs::remove_file(&energy).unwrap();
        fs::create_dir(&energy).unwrap();
        let mut probe = machine.probe();
        let reason = unavailable(machine.read_after(&mut probe, 500));
        assert!(reason.contains("intel-rapl:0/energy_uj cannot be read"), "{reason}");
        machine.set("power_supply/BAT0/type", "Battery");
        machine.set("power_supply/BAT0/status", "Discharging");
        machine.set("power_supply/BAT0/power_now", "4000000");
        let mut probe = machine.probe();
        assert_eq!(machine.read_after(&mut probe, 500), battery(4.0));
    }
}
