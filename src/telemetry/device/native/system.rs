//! Loads, frequency, temperature, memory and processes through sysinfo, where there is no `/proc`.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use sysinfo::{
    Components, CpuRefreshKind, MINIMUM_CPU_UPDATE_INTERVAL, MemoryRefreshKind, Pid, ProcessRefreshKind,
    ProcessesToUpdate, System,
};

use super::super::memory::MemoryUse;
use super::super::probe::{Found, MEASURING, NO_SENSOR, Probe};
use super::super::process::{Processes, Usage};
use super::super::temperature::is_of_cpu;
use crate::telemetry::Reading;

fn system() -> Result<System, String> {
    System::new().map_err(|error| error.to_string())
}

const SOURCE: &str = if cfg!(windows) {
    "Windows' system calls"
} else if cfg!(target_os = "macos") {
    "macOS' system calls"
} else {
    "system calls"
};

struct Load {
    system: System,
    last: Instant,
}

pub fn cpu_load(now: Instant) -> Found<f32> {
    let mut system = system()?;
    system.refresh_cpu_usage();
    Ok(Box::new(Load { system, last: now }))
}

impl Probe<f32> for Load {
    fn source(&self) -> String {
        SOURCE.into()
    }

    fn read(&mut self, now: Instant) -> Reading<f32> {
        // Before this, sysinfo does not look again and would tell the mean since the machine started.
        if now.saturating_duration_since(self.last) < MINIMUM_CPU_UPDATE_INTERVAL {
            return Reading::Unavailable(MEASURING.into());
        }
        self.last = now;
        self.system.refresh_cpu_usage();
        Reading::Measured(self.system.global_cpu_usage().clamp(0.0, 100.0))
    }
}

struct Frequency(System);

pub fn cpu_mhz() -> Found<u64> {
    Ok(Box::new(Frequency(system()?)))
}

impl Probe<u64> for Frequency {
    fn source(&self) -> String {
        SOURCE.into()
    }

    /// Mean over the cores.
    fn read(&mut self, _: Instant) -> Reading<u64> {
        self.0.refresh_cpu_specifics(CpuRefreshKind::nothing().with_frequency());
        let cores: Vec<_> = self.0.cpus().iter().map(|cpu| cpu.frequency()).filter(|mhz| *mhz > 0).collect();
        match cores.len() as u64 {
            0 => Reading::Unavailable(NO_SENSOR.into()),
            count => Reading::Measured(cores.iter().sum::<u64>() / count),
        }
    }
}

struct Temperature(Components);

pub fn cpu_celsius() -> Found<f32> {
    let components = Components::new_with_refreshed_list().map_err(|error| error.to_string())?;
    // There is no use in asking the others.
    match components.iter().any(|component| is_of_cpu(component.label())) {
        true => Ok(Box::new(Temperature(components))),
        false => Err(format!("{SOURCE} tell no sensor of the CPU")),
    }
}

impl Probe<f32> for Temperature {
    fn source(&self) -> String {
        SOURCE.into()
    }

    fn read(&mut self, _: Instant) -> Reading<f32> {
        let hottest = self.0.iter_mut().filter(|component| is_of_cpu(component.label()));
        let told = hottest.filter_map(|component| {
            component.refresh();
            component.temperature().filter(|celsius| celsius.is_finite() && *celsius != 0.0)
        });
        told.max_by(f32::total_cmp).map_or_else(|| Reading::Unavailable(NO_SENSOR.into()), Reading::Measured)
    }
}

struct Memory(System);

pub fn memory() -> Found<MemoryUse> {
    Ok(Box::new(Memory(system()?)))
}

impl Probe<MemoryUse> for Memory {
    fn source(&self) -> String {
        SOURCE.into()
    }

    fn read(&mut self, _: Instant) -> Reading<MemoryUse> {
        self.0.refresh_memory_specifics(MemoryRefreshKind::nothing().with_ram());
        match self.0.total_memory() {
            // sysinfo's word for what it cannot read.
            0 => Reading::Unavailable("the system does not tell".into()),
            total => Reading::Measured(MemoryUse { used: self.0.used_memory(), total }),
        }
    }
}

/// Or, without a system to ask, one that knows no process.
pub struct SystemProcesses(Option<System>);

impl SystemProcesses {
    pub fn new() -> Self {
        Self(system().ok())
    }
}

impl Processes for SystemProcesses {
    fn source(&self) -> String {
        SOURCE.into()
    }

    fn look(&mut self, pids: &[u32]) -> HashMap<u32, Usage> {
        let Some(system) = &mut self.0 else { return HashMap::new() };
        let asked: Vec<Pid> = pids.iter().copied().map(Pid::from_u32).collect();
        let wanted = ProcessRefreshKind::nothing().with_memory().with_cpu().without_tasks();
        // Processes that have ended are forgotten: their numbers may come again.
        system.refresh_processes_specifics(ProcessesToUpdate::Some(&asked), true, wanted);
        let usage = |pid: &u32| {
            let process = system.process(Pid::from_u32(*pid)).filter(|process| process.memory() > 0)?;
            let cpu_time = Duration::from_millis(process.accumulated_cpu_time());
            Some((*pid, Usage { memory: process.memory(), cpu_time, started: process.start_time() }))
        };
        pids.iter().filter_map(usage).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same machine, asked in both ways.
    #[test]
    fn it_tells_what_the_kernel_s_files_tell() {
        let Reading::Measured(memory) = memory().unwrap().read(Instant::now()) else { panic!("no memory") };
        assert!(memory.used > 0 && memory.used < memory.total, "{memory:?}");
        let own = std::process::id();
        let seen = SystemProcesses::new().look(&[own]);
        assert!(seen[&own].memory > 1_000_000 && seen[&own].memory < memory.total, "{seen:?}");
        assert!(cpu_mhz().is_ok());
        // Many machines have no sensor, and say so.
        assert!(cpu_celsius().is_ok_and(|probe| !probe.source().is_empty()) || cpu_celsius().is_err());
        let start = Instant::now();
        let mut load = cpu_load(start).unwrap();
        assert_eq!(load.read(start), Reading::Unavailable(MEASURING.into()));
        std::thread::sleep(MINIMUM_CPU_UPDATE_INTERVAL);
        let percent = load.read(start + MINIMUM_CPU_UPDATE_INTERVAL);
        assert!(percent.measured().is_some_and(|percent| (0.0..=100.0).contains(percent)), "{percent:?}");
    }
}
