//! What a server tells of its machine: `/metrics`, in Prometheus' text form.

use std::time::{Duration, Instant};

use crate::remote::Client;
use crate::telemetry::Reading;
use crate::telemetry::device::DeviceSample;
use crate::telemetry::device::npu::NpuSample;

/// A page of metrics comes at once, or not this time.
const PATIENCE: Duration = Duration::from_millis(900);

const UNTOLD: &str = "server does not say";

pub struct Machine {
    client: Client,
}

impl Machine {
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Of the server's machine, not of this one.
    pub fn sample(&mut self) -> DeviceSample {
        let asked = Instant::now();
        let page = self.client.document("/metrics", &|| asked.elapsed() >= PATIENCE);
        let page = page.ok().and_then(|page| String::from_utf8(page).ok()).unwrap_or_default();
        let memory = value(&page, "process_resident_memory_bytes");
        DeviceSample {
            cpu_percent: untold(),
            cpu_mhz: untold(),
            cpu_celsius: untold(),
            memory_used: untold(),
            memory_total: untold(),
            process_memory: memory.map_or_else(untold, |bytes| Reading::Measured(bytes as u64)),
            process_cpu_percent: untold(),
            power: untold(),
            npu: NpuSample { load: untold(), mhz: untold(), celsius: untold(), watts: untold() },
        }
    }
}

fn untold<T>() -> Reading<T> {
    Reading::Unavailable(UNTOLD.into())
}

/// A metric without labels.
fn value(page: &str, name: &str) -> Option<f64> {
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    line.split_whitespace().next()?.parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_found_by_its_whole_name() {
        let page =
            "# HELP a b\n# TYPE memory gauge\nmemory_total 9\nmemory{x=\"1\"} 5\nmemory 1.5e3 1700000000\nnan NaN\n";
        assert_eq!(value(page, "memory"), Some(1500.0));
        assert_eq!((value(page, "mem"), value(page, "nan"), value("<html>", "memory")), (None, None, None));
    }
}
