//! What the machine's sensors tell now, where each value is read, and why others cannot be.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::telemetry::Reading;
use crate::telemetry::device::npu::NpuLoad;
use crate::telemetry::device::power::Power;
use crate::telemetry::device::{DeviceOrigins, DeviceSample, DeviceSampler, Origin, is_measuring};

/// Between two looks; a load is a difference.
const INTERVAL: Duration = Duration::from_millis(250);
/// Windows' counters take the longest.
const PATIENCE: Duration = Duration::from_secs(4);

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sensor {
    pub name: &'static str,
    pub value: Option<f64>,
    pub unit: Unit,
    /// What the value is of, where sources differ in it: power, the NPU's load.
    pub of: Option<String>,
    /// A path, or the name of an interface of the system's.
    pub source: Option<String>,
    /// Why there is no value, or why a source that would have been preferred gives none.
    pub reasons: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Unit {
    #[serde(rename = "percent")]
    Percent,
    /// 100 is one core.
    #[serde(rename = "percent of a core")]
    PercentOfCore,
    #[serde(rename = "MHz")]
    Megahertz,
    #[serde(rename = "degrees Celsius")]
    Celsius,
    #[serde(rename = "bytes")]
    Bytes,
    #[serde(rename = "W")]
    Watts,
}

/// Takes a quarter of a second, on Windows some seconds.
pub fn look() -> Vec<Sensor> {
    let start = Instant::now();
    let mut sampler = DeviceSampler::new();
    loop {
        std::thread::sleep(INTERVAL);
        let sample = sampler.sample(&[]);
        if !is_incomplete(&sample) || start.elapsed() > PATIENCE {
            return sensors(sample, sampler.origins());
        }
    }
}

fn is_incomplete(sample: &DeviceSample) -> bool {
    let loads = [&sample.cpu_percent, &sample.process_cpu_percent, &sample.cpu_celsius, &sample.npu.watts];
    loads.into_iter().any(is_measuring) || is_measuring(&sample.power) || is_measuring(&sample.npu.load)
}

fn sensors(sample: DeviceSample, from: DeviceOrigins) -> Vec<Sensor> {
    let float = |reading: Reading<f32>| plain(reading, |value| rounded(*value));
    let whole = |reading: Reading<u64>| plain(reading, |value| *value as f64);
    let power = told(sample.power, |Power { watts, source }| (rounded(*watts), Some(source.to_string())));
    let npu = told(sample.npu.load, |NpuLoad { percent, of }| (rounded(*percent), Some(of.to_string())));
    vec![
        row("cpu load", Unit::Percent, float(sample.cpu_percent), from.cpu_load),
        row("cpu frequency", Unit::Megahertz, whole(sample.cpu_mhz), from.cpu_mhz),
        row("cpu temperature", Unit::Celsius, float(sample.cpu_celsius), from.cpu_celsius),
        row("memory used", Unit::Bytes, whole(sample.memory_used), from.memory.clone()),
        row("memory", Unit::Bytes, whole(sample.memory_total), from.memory),
        row("ortalk's memory", Unit::Bytes, whole(sample.process_memory), from.process.clone()),
        row("ortalk's load", Unit::PercentOfCore, float(sample.process_cpu_percent), from.process),
        row("power", Unit::Watts, power, from.power),
        row("npu load", Unit::Percent, npu, from.npu_load),
        row("npu frequency", Unit::Megahertz, whole(sample.npu.mhz), from.npu_mhz),
        row("npu temperature", Unit::Celsius, float(sample.npu.celsius), from.npu_celsius),
        row("npu power", Unit::Watts, float(sample.npu.watts), from.npu_watts),
    ]
}

/// A value and what it is of, or why there is none.
type Told = Result<(f64, Option<String>), String>;

fn told<T>(reading: Reading<T>, value: impl Fn(&T) -> (f64, Option<String>)) -> Told {
    match reading {
        Reading::Measured(measured) => Ok(value(&measured)),
        Reading::Unavailable(reason) => Err(reason),
    }
}

fn plain<T>(reading: Reading<T>, value: impl Fn(&T) -> f64) -> Told {
    told(reading, |measured| (value(measured), None))
}

/// The digits that were meant, not those of the nearest number in 24 bits.
fn rounded(value: f32) -> f64 {
    (f64::from(value) * 100.0).round() / 100.0
}

fn row(name: &'static str, unit: Unit, told: Told, origin: Origin) -> Sensor {
    let Origin { source, mut reasons } = origin;
    let (value, of, source) = match told {
        Ok((value, of)) => (Some(value), of, source),
        Err(reason) => {
            // The general one only where there is none that says more.
            if reasons.is_empty() {
                reasons.push(reason);
            }
            (None, None, None)
        }
    };
    Sensor { name, value, unit, of, source, reasons }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever machine this is: each sensor has a value with its source, or a reason.
    #[test]
    fn each_says_what_it_reads_or_why_not() {
        let sensors = look();
        assert_eq!(sensors.len(), 12);
        for sensor in &sensors {
            assert_eq!(sensor.value.is_some(), sensor.source.is_some(), "{sensor:?}");
            assert!(sensor.value.is_some() || !sensor.reasons.is_empty(), "{sensor:?}");
        }
        let used = sensors.iter().find(|sensor| sensor.name == "memory used").unwrap();
        assert!(used.value.is_some_and(|bytes| bytes > 1e6), "{used:?}");
    }
}
