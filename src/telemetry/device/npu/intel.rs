//! Intel's NPUs, by the kernel's driver intel_vpu (ivpu), from Linux 6.11 on. It tells the time that the device spent with
//! jobs, whoever gave them, and does not wake it for that. Power and temperature it does not tell.
//!
//! Format: the kernel's Documentation/ABI/testing/sysfs-driver-ivpu.

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::super::counter::Counter;
use super::super::probe::{Probe, Silent, reading};
use super::{ASLEEP, Gauge, Leaves, LoadOf, NpuLoad, is_asleep};
use crate::telemetry::Reading;

struct BusyTime {
    file: PathBuf,
    device: PathBuf,
    /// In microseconds.
    counter: Counter,
}

pub fn offer(device: &Path, now: Instant, leaves: &mut Leaves) {
    let file = device.join("npu_busy_time_us");
    leaves.load.push(match file.exists() {
        true => Ok(Box::new(BusyTime { device: device.into(), counter: Counter::new(file.clone(), now), file })),
        false => Ok(Box::new(Silent {
            source: device.display().to_string(),
            reason: "the driver is older than Linux 6.11 and tells no load".into(),
        })),
    });
    // The second is the name before Linux 7.2.
    let frequency = ["freq/current_freq", "npu_current_frequency_mhz"].map(|name| device.join(name));
    leaves.mhz.push(match frequency.into_iter().find(|file| file.exists()) {
        Some(file) => Ok(Box::new(Frequency(Gauge { file, device: device.into(), unit: 1.0 }))),
        None => Err(format!("{}: the driver is older than Linux 6.15 and tells no frequency", device.display())),
    });
    leaves.celsius.push(Err(format!("{}: Intel's driver tells no temperature", device.display())));
    leaves.watts.push(Err(format!("{}: Intel's driver tells no power", device.display())));
}

impl Probe<NpuLoad> for BusyTime {
    fn source(&self) -> String {
        self.file.display().to_string()
    }

    fn read(&mut self, now: Instant) -> Reading<NpuLoad> {
        let of = if is_asleep(&self.device) { LoadOf::Asleep } else { LoadOf::Device };
        let load = |micros: f64| {
            let percent = (micros / 1e4).min(100.0) as f32;
            // It may have worked since the last look.
            NpuLoad { percent, of: if percent > 0.0 { LoadOf::Device } else { of } }
        };
        reading(self.counter.per_second(now).map(load))
    }
}

struct Frequency(Gauge);

impl Probe<u64> for Frequency {
    fn source(&self) -> String {
        Probe::source(&self.0)
    }

    /// The driver says 0 while the device does nothing.
    fn read(&mut self, _: Instant) -> Reading<u64> {
        let awake = |mhz: f64| if mhz > 0.0 { Ok(mhz as u64) } else { Err(ASLEEP.into()) };
        reading(self.0.value().and_then(awake))
    }
}
