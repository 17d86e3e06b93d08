//! The battery, while it discharges: then its flow is what the whole machine uses.
//!
//! Format: <https://docs.kernel.org/power/power_supply_class.html>; microwatts, microamperes, microvolts.

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::super::files::{entries, number, says};
use super::super::probe::{Found, Probe};
use super::{Power, PowerSource, measured};
use crate::telemetry::Reading;

struct Batteries(Vec<PathBuf>);

pub fn find(root: &Path) -> Found<Power> {
    let folder = root.join("class/power_supply");
    let batteries: Vec<_> = entries(&folder)
        .into_iter()
        .filter(|supply| says(&supply.join("type"), "Battery"))
        // A mouse's or a pen's battery is not what the machine runs on.
        .filter(|supply| !says(&supply.join("scope"), "Device"))
        .collect();
    if batteries.is_empty() {
        Err(format!("no battery in {}", folder.display()))
    } else {
        Ok(Box::new(Batteries(batteries)))
    }
}

impl Probe<Power> for Batteries {
    fn source(&self) -> String {
        self.0.iter().map(|battery| battery.display().to_string()).collect::<Vec<_>>().join(", ")
    }

    /// What flows out of all of them together. While one charges, its flow is not what the machine uses.
    fn read(&mut self, _: Instant) -> Reading<Power> {
        let discharging: Vec<_> =
            self.0.iter().filter(|battery| says(&battery.join("status"), "Discharging")).collect();
        if discharging.is_empty() {
            return Reading::Unavailable("no readable sensor: on mains, the battery does not tell".into());
        }
        let watts = discharging.into_iter().map(|battery| watts(battery)).sum::<Option<f64>>();
        match watts.filter(|watts| *watts > 0.0) {
            Some(watts) => measured(watts, PowerSource::Battery),
            None => Reading::Unavailable("no readable sensor: the battery does not tell its flow".into()),
        }
    }
}

/// Some batteries tell power, some current and voltage; some drivers give a discharge as negative.
fn watts(battery: &Path) -> Option<f64> {
    let micro = |file: &str| number(&battery.join(file)).ok().map(|value| value.abs() / 1e6);
    micro("power_now").or_else(|| Some(micro("current_now")? * micro("voltage_now")?))
}
