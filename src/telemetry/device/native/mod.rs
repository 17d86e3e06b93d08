//! What is read through an interface of the system's and not from files.
//!
//! - `system`: loads, frequency, temperature, memory and processes through sysinfo, where there is no `/proc`
//! - `battery`: the battery of Windows and macOS
//! - `windows`: Windows' performance counters

#[cfg(any(windows, target_os = "macos"))]
mod battery;
#[cfg(any(windows, test))]
mod counters;
#[cfg(any(not(target_os = "linux"), test))]
pub mod system;
#[cfg(windows)]
mod windows;

use super::npu::Leaves;
use super::power::Power;
use super::probe::Found;

/// The best first.
pub fn power() -> Vec<Found<Power>> {
    #[cfg(windows)]
    return vec![windows::power(), battery::find()];
    #[cfg(target_os = "macos")]
    return vec![battery::find()];
    #[cfg(not(any(windows, target_os = "macos")))]
    return Vec::new();
}

pub fn offer_npu(leaves: &mut Leaves) {
    #[cfg(windows)]
    windows::offer_npu(leaves);
    // The load of Apple's is told to root alone (powermetrics).
    #[cfg(target_os = "macos")]
    leaves.load.push(Err("macOS tells the load of the Neural Engine to root alone".into()));
    #[cfg(not(any(windows, target_os = "macos")))]
    let _ = leaves;
}

/// Beside what sysinfo finds.
#[cfg(not(target_os = "linux"))]
pub fn cpu_celsius() -> Vec<Found<f32>> {
    #[cfg(windows)]
    return vec![windows::celsius()];
    #[cfg(not(windows))]
    return Vec::new();
}
