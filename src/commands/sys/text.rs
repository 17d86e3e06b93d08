//! The report as a person reads it.

use std::fmt::Write;

use super::report::{Device, Library, Missing, Server, State, SystemReport, TunedModel};
use super::sensors::{Sensor, Unit};
use crate::engine::TokenPrice;
use crate::onnx_runtime::DeviceKind;

/// Columns of the labels below a device.
const LABEL: usize = 10;
/// Columns before them.
const INDENT: usize = 5;

pub fn text(report: &SystemReport) -> String {
    let machine = &report.machine;
    let system = machine.system.as_deref().unwrap_or("unknown system");
    let kernel = machine.kernel.as_ref().map(|version| format!(", kernel {version}")).unwrap_or_default();
    let mut text = format!("ortalk {} on {system}{kernel}, {}\n", report.ortalk, machine.architecture);
    for device in &report.devices {
        text += "\n";
        write_device(&mut text, device, &about_processor(report));
    }
    text += "\n";
    write_libraries(&mut text, &report.libraries);
    for TunedModel { folder, setting } in &report.tuned {
        let name = folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy();
        let _ = writeln!(text, "tuned for the CPU: {name}: {setting}");
    }
    text += "\nSensors\n";
    write_sensors(&mut text, &report.sensors);
    if let Some(server) = &report.server {
        text += "\n";
        write_server(&mut text, server);
    }
    text
}

fn write_server(text: &mut String, server: &Server) {
    let open = if server.private { "" } else { ", not encrypted" };
    let _ = writeln!(text, "Server {}{open}", server.url);
    let mut line = |label: &str, value: &str| {
        let _ = writeln!(text, "{:INDENT$}{label:LABEL$}{value}", "");
    };
    line("model", server.model.as_deref().unwrap_or("the first one that it has"));
    line("privacy", server.privacy);
    line("when", server.when);
    match server.price_per_million {
        Some(TokenPrice { input, output }) => {
            let currency = server.currency.as_ref().map(|currency| format!(" {currency}")).unwrap_or_default();
            line("price", &format!("{input} in, {output} out{currency} for a million tokens"));
        }
        None => line("price", "not in the settings"),
    }
    if let Some(reason) = &server.missing {
        line("missing", reason);
    }
}

fn about_processor(report: &SystemReport) -> String {
    let machine = &report.machine;
    let count = |number: Option<usize>, one: &str, many: &str| match number {
        Some(1) => Some(format!("1 {one}")),
        Some(number) => Some(format!("{number} {many}")),
        None => None,
    };
    let cores = count(machine.cores, "core", "cores");
    let threads = count(machine.threads.filter(|threads| Some(*threads) != machine.cores), "thread", "threads");
    let memory = machine.memory.map(|bytes| format!("{:.1} GiB of memory", bytes as f64 / (1_u64 << 30) as f64));
    [cores, threads, memory].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn write_device(text: &mut String, device: &Device, about_processor: &str) {
    let kind = match device.kind {
        DeviceKind::Npu => "NPU",
        DeviceKind::Gpu => "GPU",
        DeviceKind::Cpu => "CPU",
        DeviceKind::Other => "???",
    };
    let state = match device.state {
        // That a processor is there goes without saying.
        State::Hardware => (device.kind != DeviceKind::Cpu).then_some("hardware"),
        State::Emulated => Some("emulated"),
        State::Unavailable => Some("not available"),
    };
    let name = device.name.as_deref();
    let head = [name, state].into_iter().flatten().collect::<Vec<_>>().join(", ");
    let _ = writeln!(text, "{kind:INDENT$}{head}");
    let mut line = |label: &str, value: &str| {
        // A reason may have several lines.
        for (index, part) in value.lines().enumerate() {
            let label = if index == 0 { label } else { "" };
            let _ = writeln!(text, "{:INDENT$}{label:LABEL$}{part}", "");
        }
    };
    if device.kind == DeviceKind::Cpu && !about_processor.is_empty() {
        line("has", about_processor);
    }
    for provider in &device.execution_providers {
        let version = provider.version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
        let sdk = provider.qnn_sdk.as_ref().map(|version| format!(", QNN SDK {version}")).unwrap_or_default();
        line("provider", &format!("{}{version}{sdk}", provider.name));
    }
    for (index, path) in device.drivers.iter().enumerate() {
        line(if index == 0 { "driver" } else { "" }, &path.display().to_string());
    }
    for missing in &device.missing {
        for (label, value) in explained(missing) {
            line(label, value);
        }
    }
}

fn explained(missing: &Missing) -> impl Iterator<Item = (&'static str, &str)> {
    let remedy = missing.remedy.as_deref().map(|remedy| ("remedy", remedy));
    std::iter::once(("missing", missing.reason.as_str())).chain(remedy)
}

fn write_libraries(text: &mut String, libraries: &[Library]) {
    let width =
        |column: fn(&Library) -> &str| libraries.iter().map(|row| column(row).chars().count()).max().unwrap_or(0);
    let version: fn(&Library) -> &str = |library| library.version.as_deref().unwrap_or("-");
    let origin: fn(&Library) -> &str = |library| library.origin.as_deref().unwrap_or("not found");
    let (names, versions, origins) = (width(|library| &library.name), width(version), width(origin));
    for library in libraries {
        let path = library.path.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
        let (name, version, origin) = (&library.name, version(library), origin(library));
        let row = format!("{name:names$}  {version:versions$}  {origin:origins$}  {path}");
        let _ = writeln!(text, "{}", row.trim_end());
        for (label, value) in library.missing.iter().flat_map(explained) {
            for (index, part) in value.lines().enumerate() {
                let label = if index == 0 { label } else { "" };
                let _ = writeln!(text, "{:names$}  {label:LABEL$}{part}", "");
            }
        }
    }
}

fn write_sensors(text: &mut String, sensors: &[Sensor]) {
    let rows: Vec<_> = sensors.iter().map(|sensor| (sensor, shown(sensor))).collect();
    let names = sensors.iter().map(|sensor| sensor.name.len()).max().unwrap_or(0);
    let values = rows.iter().map(|(_, value)| value.chars().count()).max().unwrap_or(0);
    for (sensor, value) in rows {
        // Behind a value, what gave none stands in brackets.
        let reason = |reason: &String| if sensor.value.is_some() { format!("({reason})") } else { reason.clone() };
        let lines = sensor.source.iter().cloned().chain(sensor.reasons.iter().map(reason));
        for (index, line) in lines.enumerate() {
            let (name, value) = if index == 0 { (sensor.name, value.as_str()) } else { ("", "") };
            let _ = writeln!(text, "{:INDENT$}{name:names$}  {value:values$}  {line}", "");
        }
    }
}

fn shown(sensor: &Sensor) -> String {
    let Some(value) = sensor.value else { return "-".into() };
    let of = sensor.of.as_ref().map(|of| format!(", {of}")).unwrap_or_default();
    let number = match sensor.unit {
        Unit::Percent => format!("{value:.0} %"),
        Unit::PercentOfCore => format!("{value:.0} % of a core"),
        Unit::Megahertz => format!("{value:.0} MHz"),
        Unit::Celsius => format!("{value:.0} °C"),
        Unit::Bytes => format!("{:.1} GiB", value / (1_u64 << 30) as f64),
        Unit::Watts => format!("{value:.1} W"),
    };
    format!("{number}{of}")
}

#[cfg(test)]
mod tests {
    use super::super::report::{Provider, SCHEMA};
    use super::*;
    use crate::engine::CpuSetting;
    use crate::telemetry::machine::Machine;

    fn machine() -> Machine {
        Machine {
            system: Some("Debian GNU/Linux 12".into()),
            kernel: Some("6.6.1".into()),
            architecture: "x86_64",
            processor: Some("AMD EPYC 7B13".into()),
            cores: Some(2),
            threads: Some(4),
            memory: Some(24 << 30),
        }
    }

    fn device(kind: DeviceKind, state: State, name: Option<&str>) -> Device {
        Device {
            kind,
            state,
            name: name.map(Into::into),
            execution_providers: vec![],
            drivers: vec![],
            missing: vec![],
        }
    }

    fn provider(name: &str, version: Option<&str>, sdk: Option<&str>) -> Provider {
        Provider { name: name.into(), version: version.map(Into::into), qnn_sdk: sdk.map(Into::into), library: None }
    }

    fn missing(reason: &str, remedy: Option<&str>) -> Missing {
        Missing { reason: reason.into(), remedy: remedy.map(Into::into) }
    }

    fn library(name: &str, version: Option<&str>, origin: Option<&str>, path: Option<&str>) -> Library {
        Library {
            name: name.into(),
            version: version.map(Into::into),
            origin: origin.map(Into::into),
            path: path.map(Into::into),
            missing: None,
        }
    }

    /// A machine that simulates an NPU, and has a GPU that nothing can use.
    fn simulating() -> SystemReport {
        let mut npu = device(DeviceKind::Npu, State::Emulated, Some("simulator on AMD processor"));
        npu.execution_providers = vec![provider("QNNExecutionProvider", None, Some("2.51.0"))];
        npu.missing = vec![missing("an NPU in this machine", None)];
        let mut gpu = device(DeviceKind::Gpu, State::Unavailable, None);
        gpu.drivers = vec!["/dev/dri/renderD128".into(), "/dev/nvidia0".into()];
        gpu.missing = vec![missing("an execution provider", Some("name one in the settings"))];
        let mut cpu = device(DeviceKind::Cpu, State::Hardware, Some("AMD EPYC 7B13"));
        cpu.execution_providers = vec![provider("CPUExecutionProvider", Some("1.31.1"), None)];
        SystemReport {
            schema: SCHEMA,
            ortalk: "0.1.0".into(),
            machine: machine(),
            devices: vec![npu, gpu, cpu],
            libraries: vec![
                library(
                    "ONNX Runtime",
                    Some("1.31.1"),
                    Some("in ortalk's cache"),
                    Some("/c/lib/libonnxruntime.so.1.31.1"),
                ),
                library("QNN plug-in", Some("2.7.0"), Some("named in the settings"), Some("/q/libplugin.so")),
            ],
            sensors: vec![
                sensor("cpu load", Unit::Percent, Some(12.5), None, "/proc/stat"),
                sensor("cpu frequency", Unit::Megahertz, Some(2596.0), None, "/proc/cpuinfo"),
                sensor("memory", Unit::Bytes, Some(25_769_803_776.0), None, "/proc/meminfo"),
                Sensor {
                    reasons: vec!["needs permission: /sys/class/powercap/intel-rapl:0/energy_uj".into()],
                    ..sensor("power", Unit::Watts, Some(18.25), Some("SoC"), "/sys/class/hwmon/hwmon5/power1_average")
                },
                Sensor {
                    source: None,
                    reasons: vec!["no chip of the CPU".into(), "no zone of the CPU".into()],
                    ..sensor("cpu temperature", Unit::Celsius, None, None, "")
                },
            ],
            tuned: vec![TunedModel {
                folder: "/c/models/smollm2".into(),
                setting: CpuSetting { threads: 2, spinning: true, prefill_chunk: 64 },
            }],
            server: Some(Server {
                url: "http://10.0.0.2:8080/v1".into(),
                model: None,
                private: false,
                privacy: "ask",
                when: "outgrown",
                price_per_million: Some(TokenPrice { input: 0.5, output: 2.0 }),
                currency: Some("EUR".into()),
                missing: Some("the variable FAR_KEY, which api-key-env names, is not set".into()),
            }),
        }
    }

    fn sensor(name: &'static str, unit: Unit, value: Option<f64>, of: Option<&str>, source: &str) -> Sensor {
        Sensor { name, value, unit, of: of.map(Into::into), source: Some(source.into()), reasons: vec![] }
    }

    #[test]
    fn it_looks_composed() {
        insta::assert_snapshot!("simulating", text(&simulating()));

        let mut bare = simulating();
        bare.machine = Machine { kernel: None, cores: None, threads: Some(1), memory: None, ..machine() };
        bare.server = None;
        bare.devices = vec![
            device(DeviceKind::Npu, State::Unavailable, None),
            device(DeviceKind::Gpu, State::Unavailable, None),
            device(DeviceKind::Cpu, State::Unavailable, Some("AMD EPYC 7B13")),
        ];
        for device in &mut bare.devices {
            device.missing = vec![missing("ONNX Runtime", Some("ortalk setup"))];
        }
        let mut broken = library("ONNX Runtime", None, Some("named by ORT_DYLIB_PATH"), Some("/x.so"));
        broken.missing = Some(missing("it cannot be loaded:\nno such symbol", Some("name another")));
        bare.libraries = vec![broken, library("QNN plug-in", None, None, None)];
        bare.sensors.truncate(1);
        bare.tuned.clear();
        insta::assert_snapshot!("bare", text(&bare));
    }

    #[test]
    fn the_json_has_the_documented_names() {
        let json = serde_json::to_value(simulating()).unwrap();
        assert_eq!((&json["schema"], &json["machine"]["cores"]), (&1.into(), &2.into()));
        let kinds: Vec<_> = json["devices"].as_array().unwrap().iter().map(|device| device["kind"].clone()).collect();
        assert_eq!(kinds, ["npu", "gpu", "cpu"]);
        assert_eq!(json["devices"][0]["state"], "emulated");
        assert_eq!(json["devices"][0]["execution_providers"][0]["name"], "QNNExecutionProvider");
        assert_eq!(json["devices"][1]["missing"][0]["remedy"], "name one in the settings");
        assert_eq!(json["libraries"][1]["origin"], "named in the settings");
        let power = &json["sensors"][3];
        assert_eq!((&power["value"], &power["unit"], &power["of"]), (&18.25.into(), &"W".into(), &"SoC".into()));
        assert_eq!(json["sensors"][4]["value"], serde_json::Value::Null);
        assert_eq!(json["sensors"][4]["reasons"][1], "no zone of the CPU");
    }
}
