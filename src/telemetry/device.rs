//! What this machine is doing: CPU, memory, this process, power, NPU.
//!
//! A leaf file for each source, behind one interface (`probe`). On Linux all of them read files below one root, so any tree
//! with the same files will do; elsewhere the system is asked (`native`). The caller owns the timing; one or two samples a
//! second cost well under a hundredth of a core. Each value that cannot be read says why; a value that needs two looks says
//! "measuring" until the second.

mod counter;
mod cpu;
mod files;
#[cfg(unix)]
#[cfg(test)]
mod machine_tests;
mod memory;
mod native;
pub mod npu;
pub mod power;
mod probe;
mod process;
mod temperature;

use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use self::memory::MemoryUse;
use self::npu::{NpuProbe, NpuSample};
use self::power::{Power, PowerProbe};
use self::probe::Sensor;
pub use self::probe::{Origin, is_measuring};
use self::process::ProcessProbe;
use super::Reading;

/// One look at the machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceSample {
    /// Load of all cores together, 0 to 100 percent.
    pub cpu_percent: Reading<f32>,
    /// Mean frequency over the cores, in MHz.
    pub cpu_mhz: Reading<u64>,
    /// Hottest CPU sensor, in degrees Celsius.
    pub cpu_celsius: Reading<f32>,
    /// In bytes.
    pub memory_used: Reading<u64>,
    pub memory_total: Reading<u64>,
    /// Resident memory of this process and those that work for it, in bytes.
    pub process_memory: Reading<u64>,
    /// Load of the same, in percent of one core (so 200 is two cores).
    pub process_cpu_percent: Reading<f32>,
    pub power: Reading<Power>,
    pub npu: NpuSample,
}

/// Where the last sample's values came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceOrigins {
    pub cpu_load: Origin,
    pub cpu_mhz: Origin,
    pub cpu_celsius: Origin,
    pub memory: Origin,
    pub process: Origin,
    pub power: Origin,
    pub npu_load: Origin,
    pub npu_mhz: Origin,
    pub npu_celsius: Origin,
    pub npu_watts: Origin,
}

/// Frequencies (a file for each core) and temperatures (slow chips) are looked at no more often than this.
const SLOW_INTERVAL: Duration = Duration::from_secs(2);

/// Reads the machine's sensors, each only as far as a sample needs.
pub struct DeviceSampler {
    cpu_load: Sensor<f32>,
    cpu_mhz: Sensor<u64>,
    cpu_celsius: Sensor<f32>,
    memory: Sensor<MemoryUse>,
    process: ProcessProbe,
    power: PowerProbe,
    npu: NpuProbe,
}

impl Default for DeviceSampler {
    fn default() -> Self {
        Self::new()
    }
}

impl DeviceSampler {
    /// Of this machine.
    pub fn new() -> Self {
        let (own, now) = (std::process::id(), Instant::now());
        #[cfg(target_os = "linux")]
        return Self::below(Path::new("/"), own, now);
        #[cfg(not(target_os = "linux"))]
        return Self::of_system(own, now);
    }

    /// Of a Linux machine whose files lie below `root`. `own` is this process's number there.
    pub fn below(root: &Path, own: u32, now: Instant) -> Self {
        Self {
            cpu_load: Sensor::first_of([cpu::load(root, now)]),
            cpu_mhz: Sensor::first_of(cpu::mhz(root)).at_most_every(SLOW_INTERVAL),
            cpu_celsius: Sensor::first_of(temperature::of_cpu(root)).at_most_every(SLOW_INTERVAL),
            memory: Sensor::first_of([memory::find(root)]),
            process: ProcessProbe::new(Box::new(process::ProcFiles::below(root)), own, now),
            power: PowerProbe::new(&root.join("sys"), now),
            npu: NpuProbe::new(root, now),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn of_system(own: u32, now: Instant) -> Self {
        use self::native::system;
        let celsius = std::iter::once(system::cpu_celsius()).chain(native::cpu_celsius());
        Self {
            cpu_load: Sensor::first_of([system::cpu_load(now)]),
            cpu_mhz: Sensor::first_of([system::cpu_mhz()]).at_most_every(SLOW_INTERVAL),
            cpu_celsius: Sensor::first_of(celsius).at_most_every(SLOW_INTERVAL),
            memory: Sensor::first_of([system::memory()]),
            process: ProcessProbe::new(Box::new(system::SystemProcesses::new()), own, now),
            power: PowerProbe::new(Path::new(power::SYSFS), now),
            npu: NpuProbe::new(Path::new("/"), now),
        }
    }

    /// One look. Loads and power are means since the look before. `helpers` are the numbers of the processes that work for
    /// this one.
    pub fn sample(&mut self, helpers: &[u32]) -> DeviceSample {
        self.sample_at(Instant::now(), helpers)
    }

    fn sample_at(&mut self, now: Instant, helpers: &[u32]) -> DeviceSample {
        let (process_memory, process_cpu_percent) = self.process.read(now, helpers);
        let (memory_used, memory_total) = match self.memory.read(now) {
            Reading::Measured(memory) => (Reading::Measured(memory.used), Reading::Measured(memory.total)),
            Reading::Unavailable(reason) => (Reading::Unavailable(reason.clone()), Reading::Unavailable(reason)),
        };
        DeviceSample {
            cpu_percent: self.cpu_load.read(now),
            cpu_mhz: self.cpu_mhz.read(now),
            cpu_celsius: self.cpu_celsius.read(now),
            memory_used,
            memory_total,
            process_memory,
            process_cpu_percent,
            power: self.power.read(now),
            npu: self.npu.read(now),
        }
    }

    pub fn origins(&self) -> DeviceOrigins {
        let [npu_load, npu_mhz, npu_celsius, npu_watts] = self.npu.origins().map(Clone::clone);
        DeviceOrigins {
            cpu_load: self.cpu_load.origin().clone(),
            cpu_mhz: self.cpu_mhz.origin().clone(),
            cpu_celsius: self.cpu_celsius.origin().clone(),
            memory: self.memory.origin().clone(),
            process: Origin { source: Some(self.process.source()), reasons: Vec::new() },
            power: self.power.origin().clone(),
            npu_load,
            npu_mhz,
            npu_celsius,
            npu_watts,
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::probe::MEASURING;
    use super::*;

    #[test]
    fn the_first_look_measures_no_load_and_the_second_does() {
        let mut sampler = DeviceSampler::new();
        let first = sampler.sample(&[]);
        let measuring = Reading::Unavailable(MEASURING.to_owned());
        assert_eq!((first.cpu_percent, first.process_cpu_percent), (measuring.clone(), measuring));
        std::thread::sleep(Duration::from_millis(250));
        let second = sampler.sample(&[]);
        let load = second.cpu_percent.measured().copied();
        assert!(load.is_some_and(|percent| (0.0..=100.0).contains(&percent)), "{load:?}");
        assert!(second.process_cpu_percent.measured().is_some(), "{:?}", second.process_cpu_percent);
    }

    #[test]
    fn memory_is_plausible() {
        let sample = DeviceSampler::new().sample(&[]);
        let read = |reading: &Reading<u64>| *reading.measured().unwrap();
        let (used, total) = (read(&sample.memory_used), read(&sample.memory_total));
        assert!(used < total && read(&sample.process_memory) < total, "{sample:?}");
        // A running Rust test has a megabyte at the very least.
        assert!(read(&sample.process_memory) > 1_000_000, "{sample:?}");
    }

    /// One thread that does nothing but count is about one core: 100 percent, less where others want the core.
    #[test]
    fn a_busy_thread_is_seen_in_the_load_of_this_process() {
        let mut sampler = DeviceSampler::new();
        let start = Instant::now();
        let mut count = 0_u64;
        while start.elapsed() < Duration::from_millis(600) {
            count = std::hint::black_box(count + 1);
        }
        let sample = sampler.sample(&[]);
        let cores = std::thread::available_parallelism().unwrap().get() as f32;
        let load = *sample.process_cpu_percent.measured().unwrap();
        assert!((10.0..=cores * 105.0).contains(&load), "{load}");
    }

    #[cfg(unix)]
    #[test]
    fn a_process_that_works_for_this_one_counts() {
        let mut busy = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let mut sampler = DeviceSampler::new();
        std::thread::sleep(Duration::from_millis(600));
        let sample = sampler.sample(&[busy.id()]);
        busy.kill().unwrap();
        busy.wait().unwrap();
        let load = *sample.process_cpu_percent.measured().unwrap();
        assert!(load > 5.0, "{load}");
        // What has ended is left out, and no reason to know nothing.
        assert!(sampler.sample(&[busy.id()]).process_memory.measured().is_some());
    }

    /// What `look` costs each time. The kernel's own account of this thread is asked, as the clock on the wall also
    /// counts what others do.
    #[cfg(target_os = "linux")]
    pub fn cost(looks: u32, mut look: impl FnMut(u32)) -> Duration {
        let on_cpu = || {
            let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
            Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
        };
        let start = on_cpu();
        (0..looks).for_each(&mut look);
        (on_cpu() - start) / looks
    }

    /// Two samples a second may cost a hundredth of a core: 5 ms each, also with what is looked at only now and then.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_sample_of_this_machine_is_cheap() {
        let mut sampler = DeviceSampler::new();
        let start = Instant::now();
        let each = cost(200, |look| {
            sampler.sample_at(start + Duration::from_secs(5) * look, &[]);
        });
        println!("{each:?} for a sample");
        assert!(each < Duration::from_millis(5), "{each:?}");
    }
}
