//! How the machine stands before and after something is measured: what would make the numbers differ the next time.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::Reading;
use super::device::DeviceSampler;

/// Over which the CPU's load is looked at.
const LOOK: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, PartialEq)]
pub struct Surroundings {
    /// Load of all cores together, 0 to 100 percent, over half a second in which this program slept.
    pub cpu_percent: Reading<f64>,
    /// Runnable tasks, over the last minute.
    pub load_average: Reading<f64>,
    pub cpu_mhz: Reading<u64>,
    pub cpu_celsius: Reading<f64>,
    /// How Linux chooses the CPU's frequency: `performance`, `powersave`, `schedutil`.
    pub governor: Reading<String>,
    pub on_battery: Reading<bool>,
}

impl Surroundings {
    /// Takes half a second.
    pub fn look() -> Self {
        let mut sampler = DeviceSampler::new();
        std::thread::sleep(LOOK);
        let sample = sampler.sample(&[]);
        let sensors = Path::new("/sys");
        Self {
            cpu_percent: as_f64(sample.cpu_percent),
            load_average: load_average(),
            cpu_mhz: sample.cpu_mhz,
            cpu_celsius: as_f64(sample.cpu_celsius),
            governor: governor(sensors),
            on_battery: on_battery(sensors),
        }
    }
}

fn as_f64(reading: Reading<f32>) -> Reading<f64> {
    match reading {
        // The digits that were meant, not those of the nearest number in 24 bits.
        Reading::Measured(value) => Reading::Measured((f64::from(value) * 10.0).round() / 10.0),
        Reading::Unavailable(reason) => Reading::Unavailable(reason),
    }
}

fn load_average() -> Reading<f64> {
    if cfg!(windows) {
        return Reading::Unavailable("Windows has none".into());
    }
    match sysinfo::System::load_average() {
        Ok(load) => Reading::Measured(load.one),
        Err(error) => Reading::Unavailable(error.to_string()),
    }
}

/// All of them, where the cores have different ones.
fn governor(sensors: &Path) -> Reading<String> {
    let cores = children(&sensors.join("devices/system/cpu"));
    let mut governors: Vec<String> =
        cores.iter().filter_map(|core| text(&core.join("cpufreq/scaling_governor"))).collect();
    governors.sort();
    governors.dedup();
    match governors.is_empty() {
        true => Reading::Unavailable("the system does not tell".into()),
        false => Reading::Measured(governors.join(", ")),
    }
}

/// Whether a battery of this machine discharges.
fn on_battery(sensors: &Path) -> Reading<bool> {
    let supplies = children(&sensors.join("class/power_supply"));
    let is_battery = |supply: &&std::path::PathBuf| {
        // A mouse's battery is not what the machine runs on.
        text(&supply.join("type")).as_deref() == Some("Battery")
            && text(&supply.join("scope")).as_deref() != Some("Device")
    };
    let batteries: Vec<_> = supplies.iter().filter(is_battery).collect();
    if batteries.is_empty() {
        return Reading::Unavailable("no battery that the system tells about".into());
    }
    Reading::Measured(batteries.iter().any(|battery| text(&battery.join("status")).as_deref() == Some("Discharging")))
}

fn children(folder: &Path) -> Vec<std::path::PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn text(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{content}\n")).unwrap();
        }
        root
    }

    #[test]
    fn governors_are_told_once_each() {
        let root = machine(&[
            ("devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave"),
            ("devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance"),
            ("devices/system/cpu/cpu2/cpufreq/scaling_governor", "powersave"),
            ("devices/system/cpu/online", "0-2"),
        ]);
        assert_eq!(governor(root.path()), Reading::Measured("performance, powersave".into()));
        assert!(governor(machine(&[]).path()).measured().is_none());
    }

    #[test]
    fn a_machine_is_on_battery_where_one_of_its_own_discharges() {
        let mouse = [("class/power_supply/m/type", "Battery"), ("class/power_supply/m/scope", "Device")];
        let status = |status| {
            [("class/power_supply/B/type", "Battery"), ("class/power_supply/B/status", status), mouse[0], mouse[1]]
        };
        assert!(on_battery(machine(&mouse).path()).measured().is_none());
        assert_eq!(on_battery(machine(&status("Discharging")).path()), Reading::Measured(true));
        assert_eq!(on_battery(machine(&status("Charging")).path()), Reading::Measured(false));
    }

    #[test]
    fn the_load_of_this_machine_is_plausible() {
        let seen = Surroundings::look();
        assert!(seen.cpu_percent.measured().is_some_and(|percent| (0.0..=100.0).contains(percent)), "{seen:?}");
        assert!(cfg!(windows) || seen.load_average.measured().is_some_and(|load| *load >= 0.0), "{seen:?}");
    }
}
