//! What this machine is doing: CPU, memory, this process, power.

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
    /// Resident memory of this process, in bytes.
    pub process_memory: Reading<u64>,
    /// Load of this process, in percent of one core (so 200 is two cores).
    pub process_cpu_percent: Reading<f32>,
    /// Watts.
    pub power: Reading<f32>,
}
