//! How much memory a process may take here: the machine's, or less where a container has a limit of its own.

use sysinfo::{MemoryRefreshKind, ProcessRefreshKind, ProcessesToUpdate, System};

/// In bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    pub total: u64,
    /// What nobody uses now, or only as a cache of files.
    pub available: u64,
}

impl Memory {
    /// `None` where the system does not tell.
    pub fn look() -> Option<Self> {
        let mut system = System::new().ok()?;
        system.refresh_memory_specifics(MemoryRefreshKind::nothing().with_ram());
        let machine = Self { total: system.total_memory(), available: system.available_memory() };
        let machine = Some(machine).filter(|memory| memory.total > 0)?;
        let Ok(own) = sysinfo::get_current_pid() else { return Some(machine) };
        system.refresh_processes_specifics(ProcessesToUpdate::Some(&[own]), false, ProcessRefreshKind::nothing());
        let limits = system.process(own).and_then(|process| process.cgroup_limits());
        Some(limits.map_or(machine, |limits| machine.within(limits.total_memory, limits.rss)))
    }

    /// The same for one who may take `limit`, of which `taken` is gone.
    fn within(self, limit: u64, taken: u64) -> Self {
        let total = self.total.min(limit);
        Self { total, available: self.available.min(total.saturating_sub(taken)) }
    }
}

/// What is resident of this process, in bytes; `None` where the system does not tell.
pub fn own() -> Option<u64> {
    let mut system = System::new().ok()?;
    let own = sysinfo::get_current_pid().ok()?;
    let kind = ProcessRefreshKind::nothing().with_memory();
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&[own]), false, kind);
    system.process(own).map(sysinfo::Process::memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_some() {
        let memory = Memory::look().unwrap();
        assert!(memory.total > 1 << 28 && memory.available <= memory.total, "{memory:?}");
    }

    #[test]
    fn this_process_takes_some() {
        assert!(own().unwrap() > 1 << 20);
    }

    #[test]
    fn a_container_s_limit_counts() {
        let machine = Memory { total: 100, available: 60 };
        for (limit, taken, total, available) in
            [(1000, 10, 100, 60), (80, 10, 80, 60), (50, 10, 50, 40), (50, 51, 50, 0)]
        {
            assert_eq!(machine.within(limit, taken), Memory { total, available });
        }
    }
}
