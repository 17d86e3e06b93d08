//! What this machine is doing: CPU, memory, this process, power.
//!
//! The caller owns the timing; one or two samples a second cost well under a hundredth of a core. Each value that cannot
//! be read says why; a value that needs two looks says "measuring" until the second.

pub mod power;

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use sysinfo::{
    Components, CpuRefreshKind, MINIMUM_CPU_UPDATE_INTERVAL, MemoryRefreshKind, Pid, ProcessRefreshKind,
    ProcessesToUpdate, System,
};

use self::power::{Power, PowerProbe};
use super::Reading;

/// One look at the machine.
#[derive(Debug, Clone, PartialEq)]
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
}

const NO_SENSOR: &str = "no readable sensor";
const MEASURING: &str = "measuring";

/// Frequencies (a file for each core) and temperatures (slow chips) are looked at no more often than this.
const SLOW_INTERVAL: Duration = Duration::from_secs(2);

/// Reads the machine's sensors, each only as far as a sample needs.
pub struct DeviceSampler {
    /// Or why the system cannot be asked.
    system: Result<System, String>,
    pid: Option<Pid>,
    temperatures: Option<Components>,
    power: PowerProbe,
    /// When loads were first looked at: a load is a difference.
    start: Instant,
    /// When this process and those that work for it were last looked at, and the CPU milliseconds of each then.
    processes: Option<(Instant, HashMap<Pid, u64>)>,
    slow: Option<(Instant, Reading<u64>, Reading<f32>)>,
}

impl Default for DeviceSampler {
    fn default() -> Self {
        Self::new()
    }
}

impl DeviceSampler {
    pub fn new() -> Self {
        let mut system = System::new().map_err(|error| error.to_string());
        if let Ok(system) = &mut system {
            system.refresh_cpu_usage();
        }
        let now = Instant::now();
        let mut sampler = Self {
            system,
            pid: sysinfo::get_current_pid().ok(),
            temperatures: cpu_temperatures(),
            power: PowerProbe::new(Path::new("/sys"), now),
            start: now,
            processes: None,
            slow: None,
        };
        sampler.process_readings(now, &[]);
        sampler
    }

    /// One look. Loads and power are means since the look before. `helpers` are the numbers of the processes that work for
    /// this one.
    pub fn sample(&mut self, helpers: &[u32]) -> DeviceSample {
        let now = Instant::now();
        let (cpu_mhz, cpu_celsius) = self.slow_readings(now);
        let (process_memory, process_cpu_percent) = self.process_readings(now, helpers);
        let (memory_used, memory_total) = self.memory();
        DeviceSample {
            cpu_percent: self.cpu_percent(now),
            cpu_mhz,
            cpu_celsius,
            memory_used,
            memory_total,
            process_memory,
            process_cpu_percent,
            power: self.power.read(now),
        }
    }

    fn cpu_percent(&mut self, now: Instant) -> Reading<f32> {
        match &mut self.system {
            Err(reason) => Reading::Unavailable(reason.clone()),
            // Before this, sysinfo does not look again and would tell the mean since the machine started.
            Ok(_) if now.duration_since(self.start) < MINIMUM_CPU_UPDATE_INTERVAL => {
                Reading::Unavailable(MEASURING.into())
            }
            Ok(system) => {
                system.refresh_cpu_usage();
                Reading::Measured(system.global_cpu_usage().clamp(0.0, 100.0))
            }
        }
    }

    fn memory(&mut self) -> (Reading<u64>, Reading<u64>) {
        match &mut self.system {
            Err(reason) => (Reading::Unavailable(reason.clone()), Reading::Unavailable(reason.clone())),
            Ok(system) => {
                system.refresh_memory_specifics(MemoryRefreshKind::nothing().with_ram());
                (known(system.used_memory()), known(system.total_memory()))
            }
        }
    }

    fn process_readings(&mut self, now: Instant, helpers: &[u32]) -> (Reading<u64>, Reading<f32>) {
        let unavailable = |reason: &str| (Reading::Unavailable(reason.into()), Reading::Unavailable(reason.into()));
        let system = match &mut self.system {
            Ok(system) => system,
            Err(reason) => return unavailable(reason),
        };
        let pids: Vec<Pid> = self.pid.into_iter().chain(helpers.iter().map(|pid| Pid::from_u32(*pid))).collect();
        let wanted = ProcessRefreshKind::nothing().with_memory().with_cpu().without_tasks();
        // Processes that have ended are forgotten: their numbers may come again.
        system.refresh_processes_specifics(ProcessesToUpdate::Some(&pids), true, wanted);
        if self.pid.and_then(|pid| system.process(pid)).is_none() {
            return unavailable("the system does not tell about this process");
        }
        let found = || pids.iter().filter_map(|pid| Some((*pid, system.process(*pid)?)));
        let memory = found().map(|(_, process)| process.memory()).sum();
        let used: HashMap<Pid, u64> = found().map(|(pid, process)| (pid, process.accumulated_cpu_time())).collect();
        // Process times come in steps of 10 ms: over less than this they say nothing.
        let is_soon = |then: Instant| now.duration_since(then) < Duration::from_millis(100);
        if self.processes.as_ref().is_some_and(|(then, _)| is_soon(*then)) {
            return (known(memory), Reading::Unavailable(MEASURING.into()));
        }
        let load = match self.processes.replace((now, used.clone())) {
            Some((then, used_then)) => {
                let milliseconds = now.duration_since(then).as_secs_f64() * 1e3;
                // One that came since counts from its start.
                let since = |(pid, used): (&Pid, &u64)| used.saturating_sub(used_then.get(pid).copied().unwrap_or(0));
                Reading::Measured((used.iter().map(since).sum::<u64>() as f64 / milliseconds * 100.0) as f32)
            }
            None => Reading::Unavailable(MEASURING.into()),
        };
        (known(memory), load)
    }

    fn slow_readings(&mut self, now: Instant) -> (Reading<u64>, Reading<f32>) {
        if let Some((then, mhz, celsius)) = &self.slow
            && now.duration_since(*then) < SLOW_INTERVAL
        {
            return (mhz.clone(), celsius.clone());
        }
        let (mhz, celsius) = (self.frequency(), self.temperature());
        self.slow = Some((now, mhz.clone(), celsius.clone()));
        (mhz, celsius)
    }

    fn frequency(&mut self) -> Reading<u64> {
        match &mut self.system {
            Err(reason) => Reading::Unavailable(reason.clone()),
            Ok(system) => {
                system.refresh_cpu_specifics(CpuRefreshKind::nothing().with_frequency());
                let cores: Vec<_> = system.cpus().iter().map(|cpu| cpu.frequency()).filter(|mhz| *mhz > 0).collect();
                match cores.len() as u64 {
                    0 => Reading::Unavailable(NO_SENSOR.into()),
                    count => Reading::Measured(cores.iter().sum::<u64>() / count),
                }
            }
        }
    }

    fn temperature(&mut self) -> Reading<f32> {
        let components = self.temperatures.iter_mut().flat_map(|components| components.iter_mut());
        let hottest = components
            .filter(|component| is_cpu_sensor(component.label()))
            .filter_map(|component| {
                component.refresh();
                component.temperature().filter(|celsius| celsius.is_finite() && *celsius != 0.0)
            })
            .max_by(f32::total_cmp);
        hottest.map_or_else(|| Reading::Unavailable(NO_SENSOR.into()), Reading::Measured)
    }
}

/// The components, if one of them is of the CPU: there is no use in asking the others.
fn cpu_temperatures() -> Option<Components> {
    let components = Components::new_with_refreshed_list().ok()?;
    components.iter().any(|component| is_cpu_sensor(component.label())).then_some(components)
}

/// By the names that the kernels' drivers give: Intel's coretemp, AMD's k10temp and zenpower, the thermal zones of Arm
/// systems, Apple's die sensors.
fn is_cpu_sensor(label: &str) -> bool {
    let label = label.to_lowercase();
    ["coretemp", "k10temp", "zenpower", "x86_pkg_temp", "cpu", "tdie", "soc_thermal"]
        .iter()
        .any(|name| label.contains(name))
}

/// sysinfo tells 0 for what it cannot read; no machine and no process has 0 bytes of memory.
fn known(bytes: u64) -> Reading<u64> {
    match bytes {
        0 => Reading::Unavailable("the system does not tell".into()),
        bytes => Reading::Measured(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_look_measures_no_load_and_the_second_does() {
        let mut sampler = DeviceSampler::new();
        let first = sampler.sample(&[]);
        let measuring = Reading::Unavailable(MEASURING.to_owned());
        assert_eq!((first.cpu_percent, first.process_cpu_percent), (measuring.clone(), measuring));
        std::thread::sleep(MINIMUM_CPU_UPDATE_INTERVAL + Duration::from_millis(50));
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

    #[test]
    fn memory_that_is_not_told_is_not_zero() {
        assert!(known(0).measured().is_none());
        assert_eq!(known(5).measured(), Some(&5));
    }

    #[test]
    fn sensors_of_the_cpu_are_told_from_others() {
        for label in ["coretemp Package id 0", "k10temp Tctl", "cpu_thermal temp1", "PMU tdie1", "x86_pkg_temp"] {
            assert!(is_cpu_sensor(label), "{label}");
        }
        for label in ["nvme Composite", "acpitz temp1", "iwlwifi_1 temp1", "amdgpu edge", "BAT0"] {
            assert!(!is_cpu_sensor(label), "{label}");
        }
    }

    /// Two samples a second may cost a hundredth of a core: 5 ms each. The kernel's own account of this thread is
    /// asked, as the clock on the wall also counts what others do.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_sample_is_cheap() {
        let on_cpu = || {
            let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
            Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
        };
        let mut sampler = DeviceSampler::new();
        let start = on_cpu();
        for _ in 0..20 {
            // Also what is looked at only now and then.
            sampler.slow = None;
            sampler.sample(&[]);
        }
        let each = (on_cpu() - start) / 20;
        println!("{each:?} for a sample");
        assert!(each < Duration::from_millis(5), "{each:?}");
    }
}
