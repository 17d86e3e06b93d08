//! Electric power, from the first of these that tells it: RAPL's energy counters of the CPU packages, the processor's or
//! the machine's own meter in hwmon, the battery while it discharges; on Windows and macOS what the system offers.
//!
//! Files are read below one root, so any tree with the same files will do. What the watts are of differs (the CPU
//! packages, the whole machine), so they come with their source.

mod battery;
mod hwmon;
mod rapl;

use std::path::Path;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::super::Reading;
use super::native;
use super::probe::{Origin, Sensor};

/// Measured power.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Power {
    pub watts: f32,
    pub source: PowerSource,
}

/// What the measured watts are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PowerSource {
    CpuPackages,
    /// The processor with all else on its chip, as graphics and NPU.
    Chip,
    /// Everything, by a meter of its own.
    Machine,
    Battery,
}

impl std::fmt::Display for PowerSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::CpuPackages => "CPU packages",
            Self::Chip => "SoC",
            Self::Machine => "whole machine (meter)",
            Self::Battery => "whole machine (battery)",
        })
    }
}

/// Where Linux shows its sensors.
pub const SYSFS: &str = "/sys";

pub struct PowerProbe(Sensor<Power>);

impl PowerProbe {
    /// Looks for sensors below `root` (`SYSFS`), once: packages and batteries do not come and go while a chat runs. What
    /// is no file is asked only where the root is this machine's.
    pub fn new(root: &Path, now: Instant) -> Self {
        let files = [rapl::find(root, now), hwmon::find(root, now), battery::find(root)];
        let native = if root == Path::new(SYSFS) { native::power() } else { Vec::new() };
        Self(Sensor::first_of(files.into_iter().chain(native)))
    }

    pub fn read(&mut self, now: Instant) -> Reading<Power> {
        self.0.read(now)
    }

    pub fn origin(&self) -> &Origin {
        self.0.origin()
    }
}

fn measured(watts: f64, source: PowerSource) -> Reading<Power> {
    Reading::Measured(Power { watts: watts as f32, source })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

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
