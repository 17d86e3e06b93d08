//! What the probes read on whole machines: trees of files (`tests/fixtures/sensors`) with numbers whose results were
//! worked out by hand.

use std::fs;
use std::time::{Duration, Instant};

use super::npu::{LoadOf, NpuLoad};
use super::power::{Power, PowerSource};
use super::probe::{MEASURING, NO_SENSOR};
use super::*;

/// A tree below a folder of its own, and a clock that is turned by hand.
struct Machine {
    root: tempfile::TempDir,
    later: &'static str,
    start: Instant,
}

const SNAPDRAGON: &str = include_str!("../../../tests/fixtures/sensors/snapdragon.txt");
const CORE_ULTRA: &str = include_str!("../../../tests/fixtures/sensors/core-ultra.txt");
const RYZEN_AI: &str = include_str!("../../../tests/fixtures/sensors/ryzen-ai.txt");
const RASPBERRY_PI: &str = include_str!("../../../tests/fixtures/sensors/raspberry-pi.txt");
const CONTAINER: &str = include_str!("../../../tests/fixtures/sensors/container.txt");

const OWN: u32 = 4242;

impl Machine {
    fn new(tree: &'static str) -> Self {
        let (now, later) = tree.split_once("#### one second later\n").unwrap_or((tree, ""));
        let machine = Self { root: tempfile::tempdir().unwrap(), later, start: Instant::now() };
        machine.write(now);
        machine
    }

    fn write(&self, tree: &str) {
        for file in tree.split("\n== ").skip(1) {
            let (head, content) = file.split_once('\n').unwrap_or((file, ""));
            let (path, target) = head.split_once(" -> ").map_or((head, None), |(path, target)| (path, Some(target)));
            if path.ends_with('/') {
                fs::create_dir_all(self.root.path().join(path)).unwrap();
            } else if let Some(target) = target {
                let path = self.root.path().join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::os::unix::fs::symlink(target, path).unwrap();
            } else {
                self.set(path, content);
            }
        }
    }

    fn set(&self, path: &str, content: &str) {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn sampler(&self) -> DeviceSampler {
        DeviceSampler::below(self.root.path(), OWN, self.start)
    }

    /// A look now, and one a second later.
    fn two_looks(&self, sampler: &mut DeviceSampler) -> [DeviceSample; 2] {
        let first = sampler.sample_at(self.start, &[4243]);
        self.write(&format!("\n{}", self.later));
        [first, sampler.sample_at(self.start + Duration::from_secs(1), &[4243])]
    }

    /// As the machine itself would name it.
    fn named(&self, origin: &Origin) -> (Option<String>, Vec<String>) {
        let root = self.root.path().display().to_string();
        let own = |text: &String| text.replace(&root, "");
        (origin.source.as_ref().map(own), origin.reasons.iter().map(own).collect())
    }

    fn source(&self, origin: &Origin) -> String {
        self.named(origin).0.unwrap()
    }
}

fn why<T: std::fmt::Debug>(reading: &Reading<T>) -> &str {
    match reading {
        Reading::Unavailable(reason) => reason,
        Reading::Measured(value) => panic!("{value:?}"),
    }
}

fn power(watts: f32, source: PowerSource) -> Reading<Power> {
    Reading::Measured(Power { watts, source })
}

fn load(percent: f32, of: LoadOf) -> Reading<NpuLoad> {
    Reading::Measured(NpuLoad { percent, of })
}

/// Of 1200 ticks (12 cores for a second) 240 + 30 + 60 + 20 were busy, and 846 + 4 idle.
#[test]
fn a_snapdragon_laptop() {
    let machine = Machine::new(SNAPDRAGON);
    let mut sampler = machine.sampler();
    let [first, sample] = machine.two_looks(&mut sampler);
    assert_eq!((why(&first.cpu_percent), why(&first.process_cpu_percent)), (MEASURING, MEASURING));
    let percent = *sample.cpu_percent.measured().unwrap();
    assert!((percent - 350.0 / 12.0).abs() < 1e-4, "{percent}");
    // Four cores at each of 1017.6, 3417.6 and 710.4 MHz.
    assert_eq!(sample.cpu_mhz, Reading::Measured(1715));
    assert_eq!(sample.cpu_celsius, Reading::Measured(52.3));
    assert_eq!(sample.memory_total, Reading::Measured(32_000_000 * 1024));
    assert_eq!(sample.memory_used, Reading::Measured(8_000_000 * 1024));
    assert_eq!(sample.process_memory, Reading::Measured(1_600_000 * 1024));
    // 30 + 20 ticks of this process, and all 200 of its helper, which the first look came too soon to count.
    assert_eq!(sample.process_cpu_percent, Reading::Measured(250.0));
    assert_eq!(sample.power, power(7.84, PowerSource::Battery));
    assert_eq!(why(&sample.npu.load), "Qualcomm's driver tells no load");
    assert_eq!(sample.npu.celsius, Reading::Measured(45.6));
    assert_eq!((why(&sample.npu.mhz), why(&sample.npu.watts)), (NO_SENSOR, NO_SENSOR));

    let origins = sampler.origins();
    assert_eq!(machine.source(&origins.cpu_load), "/proc/stat");
    assert_eq!(machine.source(&origins.cpu_mhz), "/sys/devices/system/cpu/cpufreq/policy*/scaling_cur_freq");
    assert_eq!(machine.source(&origins.cpu_celsius), "/sys/class/hwmon/hwmon1/temp1_input and 1 more");
    let (battery, reasons) = machine.named(&origins.power);
    assert_eq!(battery.as_deref(), Some("/sys/class/power_supply/qcom-battmgr-bat"));
    assert_eq!(reasons, Vec::<String>::new());
    assert_eq!(machine.source(&origins.npu_celsius), "/sys/class/thermal/thermal_zone40/temp and 1 more");
    assert_eq!(machine.named(&origins.npu_watts).1, ["/dev/fastrpc-cdsp: Qualcomm's driver tells no power"]);
}

/// 120 of 240 ticks. The package's counter goes round: 3 J before its end, 8.25 J after its start.
#[test]
fn an_intel_core_ultra() {
    let machine = Machine::new(CORE_ULTRA);
    let mut sampler = machine.sampler();
    let [first, sample] = machine.two_looks(&mut sampler);
    assert_eq!((why(&first.power), why(&first.npu.load)), (MEASURING, MEASURING));
    assert_eq!(sample.cpu_percent, Reading::Measured(50.0));
    assert_eq!((sample.cpu_mhz, sample.cpu_celsius), (Reading::Measured(2500), Reading::Measured(61.0)));
    assert_eq!(sample.memory_used, Reading::Measured(4_000_000 * 1024));
    assert_eq!(sample.process_memory, Reading::Measured(500_000 * 1024));
    assert_eq!(sample.process_cpu_percent, Reading::Measured(125.0));
    assert_eq!(sample.power, power(11.25, PowerSource::CpuPackages));
    // 420 ms of a second.
    assert_eq!(sample.npu.load, load(42.0, LoadOf::Device));
    assert_eq!(sample.npu.mhz, Reading::Measured(1400));
    assert_eq!((why(&sample.npu.celsius), why(&sample.npu.watts)), (NO_SENSOR, NO_SENSOR));

    let origins = sampler.origins();
    assert_eq!(machine.source(&origins.power), "/sys/class/powercap/intel-rapl:0/energy_uj");
    assert_eq!(machine.source(&origins.npu_load), "/sys/class/accel/accel0/device/npu_busy_time_us");
    let (_, reasons) = machine.named(&origins.npu_watts);
    assert_eq!(reasons, ["/sys/class/accel/accel0/device: Intel's driver tells no power"]);
}

/// Intel's driver says 0 MHz when its device does nothing, and newer ones have the frequency elsewhere.
#[test]
fn an_intel_npu_falls_asleep() {
    let machine = Machine::new(CORE_ULTRA);
    let device = "sys/class/accel/accel0/device";
    machine.set(&format!("{device}/freq/current_freq"), "0\n");
    machine.set(&format!("{device}/power/runtime_status"), "suspended\n");
    let mut sampler = machine.sampler();
    let at = |seconds| machine.start + Duration::from_secs(seconds);
    sampler.sample_at(at(1), &[]);
    let sample = sampler.sample_at(at(2), &[]);
    assert_eq!(sample.npu.load, load(0.0, LoadOf::Asleep));
    assert_eq!(why(&sample.npu.mhz), "the NPU sleeps");
    // It worked for a tenth of a second since and sleeps again.
    machine.set(&format!("{device}/npu_busy_time_us"), "5100000\n");
    assert_eq!(sampler.sample_at(at(3), &[]).npu.load, load(10.0, LoadOf::Device));
    machine.set(&format!("{device}/power/runtime_status"), "active\n");
    machine.set(&format!("{device}/freq/current_freq"), "950\n");
    assert_eq!(sampler.sample_at(at(5), &[]).npu.mhz, Reading::Measured(950));
}

/// Of the NPU's second, client 11 had 250 ms and client 12 100 ms.
#[test]
fn an_amd_ryzen_ai() {
    let machine = Machine::new(RYZEN_AI);
    let mut sampler = machine.sampler();
    let [first, sample] = machine.two_looks(&mut sampler);
    assert_eq!(why(&first.npu.load), MEASURING);
    // 50 + 50 of 400 ticks.
    assert_eq!(sample.cpu_percent, Reading::Measured(25.0));
    assert_eq!((sample.cpu_mhz, sample.cpu_celsius), (Reading::Measured(3000), Reading::Measured(63.25)));
    assert_eq!(sample.memory_used, Reading::Measured(12_000_000 * 1024));
    assert_eq!(sample.process_cpu_percent, Reading::Measured(0.0));
    assert_eq!(sample.power, power(18.25, PowerSource::Chip));
    assert_eq!(sample.npu.load, load(35.0, LoadOf::OwnPrograms));
    assert_eq!((sample.npu.celsius, sample.npu.watts), (Reading::Measured(47.0), Reading::Measured(1.85)));
    assert_eq!(why(&sample.npu.mhz), NO_SENSOR);

    let origins = sampler.origins();
    let (source, reasons) = machine.named(&origins.power);
    assert_eq!(source.as_deref(), Some("/sys/class/hwmon/hwmon5/power1_average (amdgpu)"));
    assert!(reasons[0].starts_with("/sys/class/powercap/intel-rapl:0/energy_uj cannot be read"), "{reasons:?}");
    assert_eq!(machine.source(&origins.npu_load), "/proc/*/fdinfo, of /dev/accel/accel0");
}

/// A graphics card's own power is not the processor's.
#[test]
fn a_graphics_card_is_no_processor() {
    let machine = Machine::new(RYZEN_AI);
    fs::remove_file(machine.root.path().join("sys/class/hwmon/hwmon5/in1_input")).unwrap();
    let reading = machine.sampler().sample_at(machine.start, &[]).power;
    assert!(why(&reading).contains("intel-rapl:0/energy_uj cannot be read"), "{reading:?}");
}

/// What would wake it is not read: here the files hold what would be an error.
#[test]
fn a_sleeping_amd_npu_is_left_alone() {
    for asleep in ["power/runtime_status", "power_state"] {
        let machine = Machine::new(RYZEN_AI);
        let device = "sys/class/accel/accel0/device";
        machine.set(&format!("{device}/power/runtime_status"), "suspended\n");
        if asleep == "power_state" {
            fs::remove_file(machine.root.path().join(device).join("power/runtime_status")).unwrap();
            machine.set(&format!("{device}/power_state"), "D3hot\n");
        }
        for file in ["hwmon/hwmon8/power1_input", "hwmon/hwmon8/temp1_input"] {
            machine.set(&format!("{device}/{file}"), "woken\n");
        }
        machine.set("proc/4300/fdinfo/7", "drm-client-id:\t1\n");
        let mut sampler = machine.sampler();
        let sample = sampler.sample_at(machine.start, &[]);
        assert_eq!(sample.npu.load, load(0.0, LoadOf::Asleep), "{asleep}");
        assert_eq!((why(&sample.npu.celsius), why(&sample.npu.watts)), ("the NPU sleeps", "the NPU sleeps"));
    }
}

#[test]
fn an_older_amd_driver_is_no_zero() {
    let machine = Machine::new(RYZEN_AI);
    for file in ["proc/4300/fdinfo/7", "proc/4300/fdinfo/9", "proc/4301/fdinfo/3"] {
        machine.set(file, "drm-driver:\tamdxdna_accel_driver\ndrm-client-id:\t11\n");
    }
    let sample = machine.sampler().sample_at(machine.start, &[]);
    assert_eq!(why(&sample.npu.load), "this version of AMD's driver tells no busy time");
}

/// 300 of 400 ticks.
#[test]
fn a_raspberry_pi() {
    let machine = Machine::new(RASPBERRY_PI);
    let mut sampler = machine.sampler();
    let [_, sample] = machine.two_looks(&mut sampler);
    assert_eq!(sample.cpu_percent, Reading::Measured(75.0));
    assert_eq!((sample.cpu_mhz, sample.cpu_celsius), (Reading::Measured(2400), Reading::Measured(48.75)));
    assert_eq!(sample.memory_used, Reading::Measured(1_000_000 * 1024));
    assert_eq!(sample.process_memory, Reading::Measured(250_000 * 1024));
    assert_eq!((why(&sample.power), why(&sample.npu.load)), (NO_SENSOR, "no NPU found"));
    let reasons = [
        "no RAPL package in /sys/class/powercap",
        "no power meter of the processor or the machine in /sys/class/hwmon",
        "no battery in /sys/class/power_supply",
    ];
    assert_eq!(machine.named(&sampler.origins().power), (None, reasons.map(str::to_owned).to_vec()));
}

#[test]
fn an_empty_container_tells_nothing_and_why() {
    let machine = Machine::new(CONTAINER);
    let mut sampler = machine.sampler();
    let [_, sample] = machine.two_looks(&mut sampler);
    for reading in [&sample.cpu_percent, &sample.cpu_celsius, &sample.npu.celsius, &sample.npu.watts] {
        assert_eq!(why(reading), NO_SENSOR);
    }
    for reading in [&sample.cpu_mhz, &sample.memory_used, &sample.memory_total, &sample.npu.mhz] {
        assert_eq!(why(reading), NO_SENSOR);
    }
    assert_eq!((why(&sample.power), why(&sample.npu.load)), (NO_SENSOR, "no NPU found"));
    let unknown = "the system does not tell about this process";
    assert_eq!((why(&sample.process_memory), why(&sample.process_cpu_percent)), (unknown, unknown));

    let origins = sampler.origins();
    let told = |origin: &Origin| machine.named(origin).1;
    assert!(told(&origins.cpu_load)[0].starts_with("/proc/stat cannot be read"), "{:?}", origins.cpu_load);
    assert_eq!(told(&origins.cpu_mhz)[0], "no frequency in /sys/devices/system/cpu/cpufreq");
    assert_eq!(
        told(&origins.cpu_celsius),
        ["no chip of the CPU in /sys/class/hwmon", "no zone of the CPU in /sys/class/thermal"]
    );
    assert_eq!(told(&origins.memory), ["there is no /proc/meminfo"]);
    assert_eq!(told(&origins.power).len(), 3);
    assert_eq!(told(&origins.npu_load), ["neither /sys/class/accel nor /dev/fastrpc-cdsp shows one"]);
}

/// Two samples a second may cost a hundredth of a core: 5 ms each, here with all probes of each machine, and also what is
/// looked at only now and then.
#[cfg(target_os = "linux")]
#[test]
fn all_probes_of_a_machine_are_cheap() {
    for tree in [SNAPDRAGON, CORE_ULTRA, RYZEN_AI, RASPBERRY_PI, CONTAINER] {
        let machine = Machine::new(tree);
        let mut sampler = machine.sampler();
        let each = super::tests::cost(200, |look| {
            sampler.sample_at(machine.start + Duration::from_secs(5) * look, &[4243]);
        });
        println!("{each:?} for a sample");
        assert!(each < Duration::from_millis(5), "{each:?}: {}", &tree[..40.min(tree.len())]);
    }
}
