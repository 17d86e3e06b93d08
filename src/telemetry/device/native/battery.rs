//! The battery of Windows (its battery class driver) and macOS (IOKit), while it discharges: then its flow is what the
//! whole machine uses.

use std::time::{Duration, Instant};

use starship_battery::units::power::watt;
use starship_battery::{Manager, State};

use super::super::power::{Power, PowerSource};
use super::super::probe::{Found, Probe};
use crate::telemetry::Reading;

/// To find the batteries takes some calls, and they tell no more often anyway.
const INTERVAL: Duration = Duration::from_secs(1);

struct Batteries(Option<(Instant, Reading<Power>)>);

pub fn find() -> Found<Power> {
    match Manager::new().and_then(|manager| Ok(manager.batteries()?.next().is_some())) {
        Ok(true) => Ok(Box::new(Batteries(None))),
        Ok(false) => Err("no battery".into()),
        Err(error) => Err(format!("the battery cannot be asked: {error}")),
    }
}

impl Probe<Power> for Batteries {
    fn source(&self) -> String {
        if cfg!(windows) { "Windows' battery driver" } else { "IOKit's AppleSmartBattery" }.into()
    }

    fn read(&mut self, now: Instant) -> Reading<Power> {
        if let Some((then, reading)) = &self.0
            && now.saturating_duration_since(*then) < INTERVAL
        {
            return reading.clone();
        }
        let reading =
            look().unwrap_or_else(|error| Reading::Unavailable(format!("the battery cannot be asked: {error}")));
        self.0 = Some((now, reading.clone()));
        reading
    }
}

fn look() -> Result<Reading<Power>, starship_battery::Error> {
    let batteries = Manager::new()?.batteries()?.collect::<Result<Vec<_>, _>>()?;
    let discharging: Vec<_> = batteries.iter().filter(|battery| battery.state() == State::Discharging).collect();
    if discharging.is_empty() {
        return Ok(Reading::Unavailable("no readable sensor: on mains, the battery does not tell".into()));
    }
    let watts = discharging.iter().map(|battery| battery.energy_rate().get::<watt>().abs()).sum::<f32>();
    Ok(match watts > 0.0 {
        true => Reading::Measured(Power { watts, source: PowerSource::Battery }),
        false => Reading::Unavailable("no readable sensor: the battery does not tell its flow".into()),
    })
}
