//! AMD's NPUs (XDNA), by the kernel's driver amdxdna. In sysfs it tells no load, but for each program that has the NPU
//! open it counts busy time: `drm-engine-*` in `/proc/*/fdinfo`, for the programs that one may look at. The load of the
//! whole device it tells through an ioctl alone, which takes unsafe code. Power and temperature are in hwmon, in newer
//! drivers.
//!
//! Format: <https://docs.kernel.org/gpu/drm-usage-stats.html>.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::super::files::{entries, name_of, says, text};
use super::super::probe::{MEASURING, Probe};
use super::{Gauge, Leaves, LoadOf, NpuLoad, is_asleep};
use crate::telemetry::Reading;

/// To look through all files that programs have open takes some milliseconds.
const SEARCH_INTERVAL: Duration = Duration::from_secs(5);

/// Less than this between two looks says little.
const SHORTEST_GAP: Duration = Duration::from_millis(100);

struct Clients {
    device: PathBuf,
    processes: PathBuf,
    /// As programs name it that have it open.
    node: PathBuf,
    /// One for each file by which a program has the NPU open.
    counters: Vec<PathBuf>,
    searched: Option<Instant>,
    /// Busy nanoseconds of each client, by its number, and when they were looked at.
    last: Option<(Instant, HashMap<u64, u64>)>,
}

pub fn offer(accelerator: &Path, root: &Path, leaves: &mut Leaves) {
    let device = accelerator.join("device");
    leaves.load.push(Ok(Box::new(Clients {
        node: Path::new("/dev/accel").join(name_of(accelerator)),
        processes: root.join("proc"),
        counters: Vec::new(),
        searched: None,
        last: None,
        device: device.clone(),
    })));
    leaves.mhz.push(Err(format!("{}: AMD's driver tells its frequency in no file", device.display())));
    let chips = entries(&device.join("hwmon"));
    let chip = chips.into_iter().find(|chip| says(&chip.join("name"), "amdxdna"));
    let gauge = |name: &str, unit, what| match &chip {
        Some(chip) => {
            Ok(Box::new(Gauge { file: chip.join(name), device: device.clone(), unit }) as Box<dyn Probe<f32>>)
        }
        None => Err(format!("{}: this version of AMD's driver tells no {what}", device.display())),
    };
    leaves.celsius.push(gauge("temp1_input", 1e3, "temperature"));
    leaves.watts.push(gauge("power1_input", 1e6, "power"));
}

impl Probe<NpuLoad> for Clients {
    fn source(&self) -> String {
        format!("{}/*/fdinfo, of {}", self.processes.display(), self.node.display())
    }

    fn read(&mut self, now: Instant) -> Reading<NpuLoad> {
        if is_asleep(&self.device) {
            (self.last, self.searched) = (None, None);
            return Reading::Measured(NpuLoad { percent: 0.0, of: LoadOf::Asleep });
        }
        if self.searched.is_none_or(|then| now.saturating_duration_since(then) >= SEARCH_INTERVAL) {
            self.counters = self.search();
            self.searched = Some(now);
        }
        if self.last.as_ref().is_some_and(|(then, _)| now.saturating_duration_since(*then) < SHORTEST_GAP) {
            return Reading::Unavailable(MEASURING.into());
        }
        let told: Vec<_> = self.counters.iter().filter_map(|file| busy_time(&text(file).ok()?)).collect();
        if let Some(Busy { nanoseconds: None, .. }) = told.first() {
            return Reading::Unavailable("this version of AMD's driver tells no busy time".into());
        }
        // A file that was handed on, or is open twice, is one client.
        let busy: HashMap<u64, u64> = told.iter().map(|busy| (busy.client, busy.nanoseconds.unwrap_or(0))).collect();
        let Some((then, before)) = self.last.replace((now, busy.clone())) else {
            return Reading::Unavailable(MEASURING.into());
        };
        // One that is new may have worked before this look's time: it counts from now on.
        let since = |(client, time): (&u64, &u64)| time.saturating_sub(*before.get(client).unwrap_or(time));
        let seconds = busy.iter().map(since).sum::<u64>() as f64 / 1e9;
        let share = seconds / now.saturating_duration_since(then).as_secs_f64();
        // Programs that share the NPU may be busy at once.
        Reading::Measured(NpuLoad { percent: (share * 100.0).min(100.0) as f32, of: LoadOf::OwnPrograms })
    }
}

impl Clients {
    fn search(&self) -> Vec<PathBuf> {
        let is_process = |path: &PathBuf| name_of(path).bytes().all(|byte| byte.is_ascii_digit());
        let processes = entries(&self.processes).into_iter().filter(is_process);
        let of_process = |process: PathBuf| {
            let open = entries(&process.join("fd"));
            let npu = open.into_iter().filter(|file| std::fs::read_link(file).is_ok_and(|target| target == self.node));
            npu.map(|file| process.join("fdinfo").join(name_of(&file))).collect::<Vec<_>>()
        };
        processes.flat_map(of_process).collect()
    }
}

/// What one file of `fdinfo` tells.
#[derive(Debug, PartialEq)]
struct Busy {
    client: u64,
    nanoseconds: Option<u64>,
}

fn busy_time(text: &str) -> Option<Busy> {
    let mut client = None;
    let mut nanoseconds = None;
    for (key, value) in text.lines().filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        if key == "drm-client-id" {
            client = value.parse().ok();
        } else if key.starts_with("drm-engine-") && !key.starts_with("drm-engine-capacity-") {
            // The engine's name differs between versions: npu-amdxdna, npu.
            let time: Option<u64> = value.strip_suffix("ns").and_then(|number| number.trim().parse().ok());
            nanoseconds = nanoseconds.max(time);
        }
    }
    Some(Busy { client: client?, nanoseconds })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fdinfo_tells() {
        let text = "pos:\t0\nflags:\t02100002\ndrm-driver:\tamdxdna_accel_driver\ndrm-client-id:\t3219\n\
                    drm-pdev:\t0000:c5:00.1\ndrm-engine-npu-amdxdna:\t14003870 ns\ndrm-total-memory:\t67648 KiB\n";
        assert_eq!(busy_time(text), Some(Busy { client: 3219, nanoseconds: Some(14_003_870) }));
        let older = text.replace("drm-engine-npu-amdxdna:\t14003870 ns\n", "");
        assert_eq!(busy_time(&older), Some(Busy { client: 3219, nanoseconds: None }));
        assert_eq!(busy_time("pos:\t0\n"), None);
    }

    /// Through all that programs have open, every five seconds: a hundredth of a core is 50 ms.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_search_is_cheap() {
        let clients = Clients {
            device: PathBuf::new(),
            processes: "/proc".into(),
            node: "/dev/accel/accel0".into(),
            counters: Vec::new(),
            searched: None,
            last: None,
        };
        let each = crate::telemetry::device::tests::cost(10, |_| drop(clients.search()));
        println!("{each:?} for a search");
        assert!(each < SEARCH_INTERVAL / 100, "{each:?}");
    }
}
