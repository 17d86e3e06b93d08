//! What this machine is: system, processor, memory. Nothing of it changes while ortalk runs.

use serde::Serialize;
use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

/// `None` stands for what the system does not tell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// Name and version, as "Debian GNU/Linux 12".
    pub system: Option<String>,
    pub kernel: Option<String>,
    /// The architecture that ortalk was built for.
    pub architecture: &'static str,
    pub processor: Option<String>,
    pub cores: Option<usize>,
    pub threads: Option<usize>,
    /// In bytes.
    pub memory: Option<u64>,
}

impl Machine {
    pub fn look() -> Self {
        let wanted = RefreshKind::nothing()
            .with_cpu(CpuRefreshKind::nothing())
            .with_memory(MemoryRefreshKind::nothing().with_ram());
        let system = System::new_with_specifics(wanted).ok();
        let text = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        let processor = system.as_ref().and_then(|system| text(system.cpus().first()?.brand()));
        let threads = system.as_ref().map(|system| system.cpus().len()).filter(|count| *count > 0);
        Self {
            system: text(&[System::name(), System::os_version()].map(Result::unwrap_or_default).join(" ")),
            kernel: System::kernel_version().ok().and_then(|version| text(&version)),
            architecture: std::env::consts::ARCH,
            processor,
            cores: System::physical_core_count().ok(),
            threads,
            memory: system.map(|system| system.total_memory()).filter(|bytes| *bytes > 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_threads_and_memory() {
        let machine = Machine::look();
        assert!(machine.threads.is_some_and(|threads| threads >= machine.cores.unwrap_or(1)), "{machine:?}");
        assert!(machine.memory.is_some_and(|bytes| bytes > 1 << 28), "{machine:?}");
        assert!(machine.processor.as_ref().is_none_or(|name| name.trim() == name), "{machine:?}");
    }
}
