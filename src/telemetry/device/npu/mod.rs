//! The NPU: how busy it is, its frequency, temperature and power, as far as its driver tells. Each maker's driver tells
//! other things, so there is a leaf for each.

mod amd;
mod intel;
mod qualcomm;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::super::{Reading, drivers};
use super::files::{entries, text, value};
use super::probe::{Found, Origin, Probe, Sensor, reading};
use super::{SLOW_INTERVAL, native};

/// How busy an NPU is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct NpuLoad {
    /// 0 to 100.
    pub percent: f32,
    pub of: LoadOf,
}

/// What the load is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadOf {
    Device,
    /// Only of programs that this user may look at.
    OwnPrograms,
    /// The NPU sleeps.
    Asleep,
}

impl std::fmt::Display for LoadOf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Device => "whole NPU",
            Self::OwnPrograms => "own programs",
            Self::Asleep => "asleep",
        })
    }
}

/// One look at the NPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NpuSample {
    pub load: Reading<NpuLoad>,
    pub mhz: Reading<u64>,
    /// In degrees Celsius.
    pub celsius: Reading<f32>,
    pub watts: Reading<f32>,
}

/// Intel's documentation asks not to read more often, and a search through processes takes a while.
const LOAD_INTERVAL: Duration = Duration::from_secs(1);

pub struct NpuProbe {
    load: Sensor<NpuLoad>,
    mhz: Sensor<u64>,
    celsius: Sensor<f32>,
    watts: Sensor<f32>,
}

/// What the leaves offer, and what they cannot.
#[derive(Default)]
pub struct Leaves {
    pub load: Vec<Found<NpuLoad>>,
    pub mhz: Vec<Found<u64>>,
    pub celsius: Vec<Found<f32>>,
    pub watts: Vec<Found<f32>>,
}

impl NpuProbe {
    /// Looks for drivers below `root` (`/`), once. What is no file is asked only where the root is this machine's.
    pub fn new(root: &Path, now: Instant) -> Self {
        let mut leaves = Leaves::default();
        for accelerator in entries(&root.join("sys/class/accel")) {
            let device = accelerator.join("device");
            match driver(&device).as_deref() {
                Some("intel_vpu") => intel::offer(&device, now, &mut leaves),
                Some("amdxdna") => amd::offer(&accelerator, root, &mut leaves),
                Some(other) => leaves.load.push(Err(format!("{}: ortalk does not know {other}", device.display()))),
                None => {}
            }
        }
        if let Some(node) = drivers::compute_dsp(root) {
            qualcomm::offer(root, &node, &mut leaves);
        }
        if root == Path::new("/") {
            native::offer_npu(&mut leaves);
        }
        let none = "no NPU found";
        if leaves.load.is_empty() {
            let (accelerators, dsp) = (root.join("sys/class/accel"), root.join("dev/fastrpc-cdsp"));
            leaves.load.push(Err(format!("neither {} nor {} shows one", accelerators.display(), dsp.display())));
        }
        Self {
            load: Sensor::first_of(leaves.load).at_most_every(LOAD_INTERVAL).otherwise(none),
            mhz: Sensor::first_of(leaves.mhz).at_most_every(SLOW_INTERVAL),
            celsius: Sensor::first_of(leaves.celsius).at_most_every(SLOW_INTERVAL),
            watts: Sensor::first_of(leaves.watts).at_most_every(LOAD_INTERVAL),
        }
    }

    pub fn read(&mut self, now: Instant) -> NpuSample {
        NpuSample {
            load: self.load.read(now),
            mhz: self.mhz.read(now),
            celsius: self.celsius.read(now),
            watts: self.watts.read(now),
        }
    }

    /// Of load, frequency, temperature and power.
    pub fn origins(&self) -> [&Origin; 4] {
        [self.load.origin(), self.mhz.origin(), self.celsius.origin(), self.watts.origin()]
    }
}

/// The name of the kernel's driver, from the device's `uevent`.
fn driver(device: &Path) -> Option<String> {
    let text = text(&device.join("uevent")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("DRIVER=")).map(str::to_owned)
}

const ASLEEP: &str = "the NPU sleeps";

/// Whether the kernel has put the device to sleep. To ask this does not wake it; to ask its driver might.
fn is_asleep(device: &Path) -> bool {
    match text(&device.join("power/runtime_status")) {
        Ok(status) => status == "suspended" || status == "suspending",
        // In PCI's words.
        Err(_) => text(&device.join("power_state")).is_ok_and(|state| state.starts_with("D3")),
    }
}

/// A file that is read only while the device is awake.
struct Gauge {
    file: PathBuf,
    device: PathBuf,
    /// What the file's number is divided by.
    unit: f64,
}

impl Gauge {
    fn value(&self) -> Result<f64, String> {
        if is_asleep(&self.device) { Err(ASLEEP.into()) } else { Ok(value(&self.file)? / self.unit) }
    }
}

impl Probe<f32> for Gauge {
    fn source(&self) -> String {
        self.file.display().to_string()
    }

    fn read(&mut self, _: Instant) -> Reading<f32> {
        reading(self.value().map(|value| value as f32))
    }
}
