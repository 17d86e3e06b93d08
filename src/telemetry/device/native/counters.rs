//! What the instances of Windows' performance counters mean. Only their texts and numbers: it is tested everywhere.

use std::collections::HashMap;

use super::super::npu::{LoadOf, NpuLoad};
use super::super::power::{Power, PowerSource};

/// A picowatt-hour, as the energy meter counts, in joules.
const PICOWATT_HOUR: f64 = 3.6e-9;

/// Energy counted so far by each channel of the energy meter, by name, in picowatt-hours.
pub type Energy = HashMap<String, u64>;

/// Watts of one channel over that time.
fn watts(name: &str, before: &Energy, after: &Energy, seconds: f64) -> Option<f64> {
    let used = after.get(name)?.checked_sub(*before.get(name)?)?;
    (seconds > 0.0).then(|| used as f64 * PICOWATT_HOUR / seconds)
}

/// Which channels count together, and what they are of.
type Kind = (fn(&str) -> bool, PowerSource);

/// Of the whole machine where the meter tells it (Snapdragon: SYS), else of the processor's packages (x86: RAPL) or
/// clusters of cores.
pub fn power(before: &Energy, after: &Energy, seconds: f64) -> Result<Power, &'static str> {
    let kinds: [Kind; 3] = [
        (|name| name == "SYS" || name == "SYSTEM", PowerSource::Machine),
        (|name| name.starts_with("RAPL_Package") && name.ends_with("_PKG"), PowerSource::CpuPackages),
        (|name| name.starts_with("CPU_CLUSTER_"), PowerSource::CpuPackages),
    ];
    for (wanted, source) in kinds {
        let channels: Vec<_> = after.keys().filter(|name| wanted(name)).collect();
        if !channels.is_empty() {
            let watts = channels.into_iter().map(|name| watts(name, before, after, seconds)).sum::<Option<f64>>();
            let watts = watts.filter(|watts| *watts > 0.0).ok_or("the energy meter stands still")?;
            return Ok(Power { watts: watts as f32, source });
        }
    }
    Err("the energy meter tells neither the machine nor the processor")
}

pub fn npu_watts(before: &Energy, after: &Energy, seconds: f64) -> Option<f32> {
    watts("NPU", before, after, seconds).map(|watts| watts as f32)
}

/// How busy engines are, from the counters' instances and their percentages, one for each program and engine:
/// `pid_1234_luid_0x00000000_0x000128A6_phys_0_eng_0_engtype_Neural`. An NPU is an adapter that has engines for
/// computing only; a GPU has others, too. Its load is that of its busiest engine, as the task manager shows it. `None`
/// where no program has an NPU open.
pub fn npu_load<'a>(instances: impl IntoIterator<Item = (&'a str, u64)>) -> Option<NpuLoad> {
    let mut adapters: HashMap<&str, Option<HashMap<&str, u64>>> = HashMap::new();
    for (name, percent) in instances {
        let Some((adapter, engine, kind)) = engine(name) else { continue };
        let engines = adapters.entry(adapter).or_insert_with(|| Some(HashMap::new()));
        if !kind.starts_with("Compute") && !kind.starts_with("Neural") {
            *engines = None;
        }
        // Some drivers let their clock run back, and the counter tells thousands.
        if let Some(engines) = engines.as_mut() {
            *engines.entry(engine).or_default() += if percent <= 100 { percent } else { 0 };
        }
    }
    let npus = adapters.into_values().flatten();
    let busiest = npus.flat_map(HashMap::into_values).max()?;
    Some(NpuLoad { percent: busiest.min(100) as f32, of: LoadOf::Device })
}

/// The adapter, the engine and its type.
fn engine(instance: &str) -> Option<(&str, &str, &str)> {
    let (_, rest) = instance.split_once("luid_")?;
    let (adapter, rest) = rest.split_once("_eng_")?;
    let (engine, kind) = rest.split_once("_engtype_")?;
    Some((adapter, engine, kind))
}

/// The hottest zone, in degrees Celsius, from tenths of a kelvin. Zones without a sensor tell 0.
pub fn celsius(zones: impl IntoIterator<Item = u64>) -> Option<f32> {
    let hottest = zones.into_iter().filter(|tenths| *tenths > 0).max()?;
    Some((hottest as f64 / 10.0 - 273.15) as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn energy(channels: &[(&str, u64)]) -> Energy {
        channels.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    /// 10 W for 2 s are 20 J, or 5 555 555 556 pWh.
    #[test]
    fn the_meter_s_best_channel_is_taken() {
        let zero =
            energy(&[("SYS", 7), ("CPU_CLUSTER_0", 7), ("CPU_CLUSTER_1", 7), ("RAPL_Package0_PKG", 7), ("NPU", 7)]);
        let after = |wanted: &[&str]| {
            zero.iter()
                .filter(|(name, _)| wanted.contains(&name.as_str()))
                .map(|(name, count)| (name.clone(), count + 5_555_555_556))
                .collect::<Energy>()
        };
        let seen = |wanted| power(&zero, &after(wanted), 2.0).map(|power| (power.watts.round(), power.source));
        assert_eq!(seen(&["SYS", "CPU_CLUSTER_0", "NPU"]), Ok((10.0, PowerSource::Machine)));
        assert_eq!(seen(&["CPU_CLUSTER_0", "CPU_CLUSTER_1"]), Ok((20.0, PowerSource::CpuPackages)));
        assert_eq!(seen(&["RAPL_Package0_PKG"]), Ok((10.0, PowerSource::CpuPackages)));
        assert_eq!(seen(&["NPU"]), Err("the energy meter tells neither the machine nor the processor"));
        assert_eq!(npu_watts(&zero, &after(&["NPU"]), 2.0).map(f32::round), Some(10.0));
        assert_eq!(power(&zero, &zero, 0.5), Err("the energy meter stands still"));
    }

    #[test]
    fn an_npu_is_an_adapter_that_only_computes() {
        let gpu = "pid_4_luid_0x00000000_0x000124A5_phys_0_eng_0_engtype_3D";
        let gpu_neural = "pid_9_luid_0x00000000_0x000124A5_phys_0_eng_3_engtype_Neural";
        let npu =
            |pid, engine, kind| format!("pid_{pid}_luid_0x00000000_0x000128A6_phys_0_eng_{engine}_engtype_{kind}");
        let (a, b, c) = (npu(9, 0, "Neural"), npu(10, 0, "Neural"), npu(9, 1, "Compute"));
        let load = |instances: &[(&str, u64)]| npu_load(instances.iter().copied()).map(|load| load.percent);
        assert_eq!(load(&[(gpu, 50), (gpu_neural, 99)]), None);
        assert_eq!(load(&[(gpu, 50), (&a, 0)]), Some(0.0));
        // Two programs on one engine, and another engine beside it.
        assert_eq!(load(&[(gpu_neural, 99), (&a, 30), (&b, 25), (&c, 40), (gpu, 5)]), Some(55.0));
        assert_eq!(load(&[(&a, 80), (&b, 70)]), Some(100.0));
        assert_eq!(load(&[(&a, 279_947), (&c, 12), ("_Total", 100)]), Some(12.0));
    }

    #[test]
    fn zones_tell_tenths_of_a_kelvin() {
        assert_eq!(celsius([0, 3012, 3282]).map(f32::round), Some(55.0));
        assert_eq!(celsius([0]), None);
    }
}
