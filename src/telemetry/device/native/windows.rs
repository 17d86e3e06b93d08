//! Windows' performance counters: the energy meter, the engines of NPUs, thermal zones.
//!
//! They are asked through WMI, which wraps all of it safely, by a thread of its own: an answer takes a while, and a
//! connection belongs to one thread. The thread lives as long as somebody reads. The NPU is asked for least often, as its
//! counters have an instance for each program and each engine of every GPU.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use wmi::WMIConnection;

use super::super::npu::{Leaves, NpuLoad};
use super::super::power::Power;
use super::super::probe::{Found, MEASURING, Probe, reading};
use super::counters::{self, Energy};
use crate::telemetry::Reading;

/// The firmware counts energy about once a second.
const INTERVAL: Duration = Duration::from_secs(2);
/// Engines are asked at every so many looks.
const ENGINES_EVERY: u32 = 3;

const ENERGY: &str = "SELECT Name, Energy FROM Win32_PerfFormattedData_PowerMeterCounter_EnergyMeter";
const ENGINES: &str =
    "SELECT Name, UtilizationPercentage FROM Win32_PerfFormattedData_GPUPerformanceCounters_GPUEngine";
const ZONES: &str =
    "SELECT Name, HighPrecisionTemperature FROM Win32_PerfFormattedData_Counters_ThermalZoneInformation";

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Channel {
    name: String,
    energy: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Engine {
    name: String,
    utilization_percentage: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Zone {
    high_precision_temperature: u64,
}

/// What the thread saw last.
#[derive(Clone)]
struct Seen {
    power: Reading<Power>,
    npu_load: Reading<NpuLoad>,
    npu_watts: Reading<f32>,
    celsius: Reading<f32>,
}

struct Watcher {
    seen: Arc<Mutex<Seen>>,
    /// The thread ends when it is dropped.
    _stop: Sender<()>,
}

/// One for the whole process.
static WATCHER: Mutex<Weak<Watcher>> = Mutex::new(Weak::new());

fn watcher() -> Result<Arc<Watcher>, String> {
    let mut shared = WATCHER.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(watcher) = shared.upgrade() {
        return Ok(watcher);
    }
    fn measuring<T>() -> Reading<T> {
        Reading::Unavailable(MEASURING.into())
    }
    let first = Seen { power: measuring(), npu_load: measuring(), npu_watts: measuring(), celsius: measuring() };
    let seen = Arc::new(Mutex::new(first));
    let (stop, stopped) = channel();
    let told = Arc::clone(&seen);
    let watch = move || {
        let mut looker = Looker::new();
        loop {
            let now = looker.look();
            *told.lock().unwrap_or_else(PoisonError::into_inner) = now;
            if stopped.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name("counters".into()).spawn(watch);
    thread.map_err(|error| format!("no thread for Windows' performance counters: {error}"))?;
    let watcher = Arc::new(Watcher { seen, _stop: stop });
    *shared = Arc::downgrade(&watcher);
    Ok(watcher)
}

struct Looker {
    /// Or why WMI does not answer.
    connection: Result<WMIConnection, String>,
    energy: Option<(Instant, Energy)>,
    looks: u32,
    npu_load: Reading<NpuLoad>,
}

impl Looker {
    fn new() -> Self {
        let connection = WMIConnection::new().map_err(|error| format!("WMI does not answer: {error}"));
        Self { connection, energy: None, looks: 0, npu_load: Reading::Unavailable(MEASURING.into()) }
    }

    fn ask<T: DeserializeOwned>(&self, query: &str) -> Result<Vec<T>, String> {
        let connection = self.connection.as_ref().map_err(String::clone)?;
        connection.raw_query(query).map_err(|error| format!("Windows has no such performance counter: {error}"))
    }

    fn look(&mut self) -> Seen {
        let (power, npu_watts) = match self.energy() {
            Ok(seen) => seen,
            Err(reason) => (Reading::Unavailable(reason.clone()), Reading::Unavailable(reason)),
        };
        if self.looks.is_multiple_of(ENGINES_EVERY) {
            self.npu_load = self.ask::<Engine>(ENGINES).map_or_else(Reading::Unavailable, |engines| {
                let instances = engines.iter().map(|engine| (engine.name.as_str(), engine.utilization_percentage));
                or_reason(counters::npu_load(instances), "no program has an NPU open")
            });
        }
        self.looks = self.looks.wrapping_add(1);
        let celsius = self.ask::<Zone>(ZONES).map_or_else(Reading::Unavailable, |zones| {
            or_reason(counters::celsius(zones.iter().map(|zone| zone.high_precision_temperature)), "no thermal zone")
        });
        Seen { power, npu_load: self.npu_load.clone(), npu_watts, celsius }
    }

    fn energy(&mut self) -> Result<(Reading<Power>, Reading<f32>), String> {
        let channels = self.ask::<Channel>(ENERGY)?;
        if channels.is_empty() {
            return Err("this machine has no energy meter".into());
        }
        let now = Instant::now();
        let after: Energy = channels.into_iter().map(|channel| (channel.name, channel.energy)).collect();
        let Some((then, before)) = self.energy.replace((now, after.clone())) else {
            return Ok((Reading::Unavailable(MEASURING.into()), Reading::Unavailable(MEASURING.into())));
        };
        let seconds = now.saturating_duration_since(then).as_secs_f64();
        let power = reading(counters::power(&before, &after, seconds).map_err(str::to_owned));
        let npu = counters::npu_watts(&before, &after, seconds);
        Ok((power, or_reason(npu, "the energy meter does not tell the NPU")))
    }
}

fn or_reason<T>(value: Option<T>, reason: &str) -> Reading<T> {
    value.map_or_else(|| Reading::Unavailable(reason.into()), Reading::Measured)
}

/// One value of what the thread sees.
struct Counter<T> {
    watcher: Arc<Watcher>,
    source: &'static str,
    value: fn(&Seen) -> &Reading<T>,
}

fn counter<T: Clone + 'static>(source: &'static str, value: fn(&Seen) -> &Reading<T>) -> Found<T> {
    Ok(Box::new(Counter { watcher: watcher()?, source, value }))
}

impl<T: Clone> Probe<T> for Counter<T> {
    fn source(&self) -> String {
        format!("performance counter {}", self.source)
    }

    fn read(&mut self, _: Instant) -> Reading<T> {
        let seen = self.watcher.seen.lock().unwrap_or_else(PoisonError::into_inner);
        (self.value)(&seen).clone()
    }
}

pub fn power() -> Found<Power> {
    counter(r"\Energy Meter(*)\Energy", |seen| &seen.power)
}

pub fn celsius() -> Found<f32> {
    counter(r"\Thermal Zone Information(*)\High Precision Temperature", |seen| &seen.celsius)
}

pub fn offer_npu(leaves: &mut Leaves) {
    leaves.load.push(counter(r"\GPU Engine(*)\Utilization Percentage", |seen| &seen.npu_load));
    leaves.watts.push(counter(r"\Energy Meter(NPU)\Energy", |seen| &seen.npu_watts));
}
