//! `ortalk sys`: which devices this machine has, what runs on them, what its sensors tell, and what is missing. Nothing is
//! fetched, and each foreign library is loaded in a child process, so that a bad one is a line of the report and not its
//! end.

mod report;
mod sensors;
mod text;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;

pub use self::report::SystemReport;
use self::report::{Device, Library, Missing, Provider, SCHEMA, Server, State, TunedModel};
pub use self::text::text;
use super::lanes;
use super::run::print_now;
use super::tuning::Tunings;
use crate::cli::SysArgs;
use crate::config::Settings;
use crate::engine::LaneSource;
use crate::onnx_runtime::{
    ChildError, DeviceKind, DeviceListing, ProbeRequest, Probed, ProbedPlugin, QNN_PROVIDER, QnnPlugin, SdkVersion,
    probe,
};
use crate::paths::Paths;
use crate::provision::{self, FoundPlugin, LibraryOrigin, NamedLibraryError, QNN_PLUGIN_VERSION};
use crate::telemetry::drivers;
use crate::telemetry::machine::Machine;

pub fn run(args: &SysArgs) -> anyhow::Result<ExitCode> {
    let paths = Paths::discover()?;
    let settings = Settings::load(&paths.settings_file())?;
    let executable = std::env::current_exe().context("ortalk's own file cannot be found")?;
    let report = look(&settings, &paths, &executable);
    let text = if args.json { format!("{}\n", serde_json::to_string_pretty(&report)?) } else { text(&report) };
    print_now(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Looks at this machine. `executable` is ortalk's own file.
pub fn look(settings: &Settings, paths: &Paths, executable: &Path) -> SystemReport {
    Looker { settings, paths, executable }.look()
}

struct Looker<'a> {
    settings: &'a Settings,
    paths: &'a Paths,
    executable: &'a Path,
}

impl Looker<'_> {
    fn look(&self) -> SystemReport {
        let machine = Machine::look();
        let (runtime, on_cpu) = self.runtime();
        let library = runtime.path.clone().filter(|_| on_cpu.is_some());
        let (mut libraries, on_npu) = self.qnn(library.as_deref());
        libraries.insert(0, runtime);
        let mut others = Vec::new();
        for plugin in &self.settings.plugins {
            let probed = ProbedPlugin { name: plugin.name.clone(), library: plugin.library.clone() };
            let (row, devices) = self.other_plugin(library.as_deref(), probed);
            libraries.push(row);
            others.extend(devices);
        }
        let root = drivers::root();
        let npu = npu(on_npu, &others, drivers::npu(&root), &libraries);
        let gpu = gpu(&others, drivers::gpu(&root));
        let cpu = cpu(machine.processor.clone(), on_cpu.as_ref(), &others, &libraries);
        SystemReport {
            schema: SCHEMA,
            ortalk: env!("CARGO_PKG_VERSION").into(),
            machine,
            devices: vec![npu, gpu, cpu],
            libraries,
            server: server(self.settings),
            tuned: library.map_or_else(Vec::new, |library| self.tuned(&library)),
            sensors: sensors::look(),
        }
    }

    fn tuned(&self, library: &Path) -> Vec<TunedModel> {
        let tunings = Tunings::open(self.paths.tuning_file());
        let model = |(folder, setting): (&Path, _)| TunedModel { folder: folder.to_path_buf(), setting };
        tunings.all(library).into_iter().map(model).collect()
    }

    /// ONNX Runtime, and what it offers by itself.
    fn runtime(&self) -> (Library, Option<Probed>) {
        let mut row = row(ONNX_RUNTIME);
        match provision::find_onnx_runtime(self.settings, self.paths) {
            Ok(Some(found)) => {
                row.origin = Some(found.origin.to_string());
                row.path = Some(found.path.clone());
                match self.probe(&found.path, None) {
                    Ok(probed) => {
                        row.version = probed.version().map(Into::into);
                        return (row, Some(probed));
                    }
                    Err(error) => {
                        row.missing = Some(broken(&error, "`ortalk setup` fetches another where none is named"))
                    }
                }
            }
            Ok(None) => row.missing = Some(missing("not installed", Some("`ortalk setup` fetches it"))),
            Err(error) => named_wrongly(&mut row, error),
        }
        (row, None)
    }

    /// The QNN plug-in and its backend, and what they offer with this ONNX Runtime.
    fn qnn(&self, runtime: Option<&Path>) -> (Vec<Library>, Option<Npu>) {
        let mut plugin_row = row(QNN_PLUGIN);
        let found = match provision::find_qnn_plugin(self.settings, self.paths) {
            Ok(Some(found)) => found,
            Ok(None) => {
                plugin_row.missing = Some(plugin_missing());
                return (vec![plugin_row], None);
            }
            Err(error) => {
                named_wrongly(&mut plugin_row, error);
                return (vec![plugin_row], None);
            }
        };
        let FoundPlugin { plugin, origin } = found;
        plugin_row.origin = Some(origin.to_string());
        plugin_row.path = Some(plugin.library.clone());
        // The library does not say its version; that of the cache is pinned.
        plugin_row.version = (origin == LibraryOrigin::Cache).then(|| QNN_PLUGIN_VERSION.to_owned());
        let sdk = SdkVersion::of_backend(&plugin.backend);
        let mut backend_row = row(QNN_BACKEND);
        backend_row.version = sdk.map(|version| version.to_string());
        if plugin.backend.is_file() {
            backend_row.origin =
                Some(if self.settings.npu.backend.is_some() { LibraryOrigin::Setting } else { origin }.to_string());
            backend_row.path = Some(plugin.backend.clone());
        } else {
            let reason = format!("there is no '{}'", plugin.backend.display());
            backend_row.missing = Some(missing(&reason, Some("name it as backend below [npu] in the settings")));
        }
        let npu = runtime.and_then(|runtime| {
            let asked = ProbedPlugin { name: QNN_PROVIDER.into(), library: plugin.library.clone() };
            match self.probe(runtime, Some(asked)) {
                Ok(probed) => Some(Npu { probed, plugin: plugin.clone(), sdk }),
                Err(error) => {
                    plugin_row.missing =
                        Some(broken(&error, "`ortalk setup --npu` fetches another where none is named"));
                    None
                }
            }
        });
        (vec![plugin_row, backend_row], npu)
    }

    fn other_plugin(&self, runtime: Option<&Path>, plugin: ProbedPlugin) -> (Library, Vec<DeviceListing>) {
        let mut row = row(&plugin.name);
        row.origin = Some(LibraryOrigin::Setting.to_string());
        row.path = Some(plugin.library.clone());
        let Some(runtime) = runtime else { return (row, Vec::new()) };
        let name = plugin.name.clone();
        match self.probe(runtime, Some(plugin)) {
            Ok(probed) => {
                let offered = probed.devices.into_iter().filter(|device| device.execution_provider == name);
                let devices: Vec<_> = offered.collect();
                row.version = devices.iter().find_map(|device| device.provider_version.clone());
                if devices.is_empty() {
                    row.missing = Some(missing("it offers no device on this machine", None));
                }
                (row, devices)
            }
            Err(error) => {
                row.missing = Some(broken(&error, "correct or remove its [[plugins]] table in the settings"));
                (row, Vec::new())
            }
        }
    }

    fn probe(&self, library: &Path, plugin: Option<ProbedPlugin>) -> Result<Probed, ChildError> {
        probe(self.executable, &ProbeRequest { library: library.into(), plugin })
    }
}

const ONNX_RUNTIME: &str = "ONNX Runtime";
const QNN_PLUGIN: &str = "QNN plug-in";
const QNN_BACKEND: &str = "QNN backend";

const NO_NPU: &str = if cfg!(windows) {
    "an NPU: Windows has no driver package qcnspmcdm, as a Snapdragon's NPU needs"
} else {
    "an NPU: there is neither /dev/fastrpc-cdsp, as of a Snapdragon's NPU, nor /dev/accel"
};

/// What QNN offers.
struct Npu {
    probed: Probed,
    plugin: QnnPlugin,
    sdk: Option<SdkVersion>,
}

fn npu(qnn: Option<Npu>, others: &[DeviceListing], drivers: Vec<PathBuf>, libraries: &[Library]) -> Device {
    let mut providers = providers_for(DeviceKind::Npu, others);
    let mut name = others.iter().find(|device| device.kind == DeviceKind::Npu).map(named_by_maker);
    let mut state = if providers.is_empty() { State::Unavailable } else { State::Hardware };
    if let Some(qnn) = &qnn
        && let Some(device) = &qnn.probed.qnn
    {
        let sdk = qnn.sdk.map(|sdk| sdk.to_string());
        let library = Some(qnn.plugin.library.clone());
        // The version that it says is 0.1.0 in every release.
        providers.insert(0, Provider { name: QNN_PROVIDER.into(), version: None, qnn_sdk: sdk, library });
        if state == State::Unavailable {
            state = if device.emulated { State::Emulated } else { State::Hardware };
            name = Some(device.name.clone());
        }
    }
    let mut gaps = Vec::new();
    if state == State::Unavailable {
        // What is wrong with them is said where they are listed.
        let broken = libraries.iter().filter(|library| library.missing.is_some() && is_for_npu(library));
        gaps.extend(broken.map(needed));
    }
    if drivers.is_empty() && state != State::Hardware {
        let simulated = (state == State::Emulated).then_some("--emulate-npu has the simulator answer, slowly");
        gaps.push(missing(NO_NPU, simulated.or(Some("if this machine has one, install its driver"))));
    }
    Device { kind: DeviceKind::Npu, state, name, execution_providers: providers, drivers, missing: gaps }
}

/// ONNX Runtime and QNN's own, not other plug-ins.
fn is_for_npu(library: &Library) -> bool {
    [ONNX_RUNTIME, QNN_PLUGIN, QNN_BACKEND].contains(&library.name.as_str())
}

/// A library that a device needs and that does not work.
fn needed(library: &Library) -> Missing {
    Missing {
        reason: library.name.clone(),
        remedy: library.missing.as_ref().and_then(|missing| missing.remedy.clone()),
    }
}

fn gpu(others: &[DeviceListing], drivers: Vec<PathBuf>) -> Device {
    let providers = providers_for(DeviceKind::Gpu, others);
    let name = others.iter().find(|device| device.kind == DeviceKind::Gpu).map(named_by_maker);
    let state = if providers.is_empty() { State::Unavailable } else { State::Hardware };
    let gap = match (state, drivers.is_empty()) {
        (State::Unavailable, true) => {
            Some(missing("a GPU with a driver that ortalk knows", Some("if this machine has one, install its driver")))
        }
        (State::Unavailable, false) => Some(missing(
            "an execution provider for it",
            Some(
                "ortalk has no lane for a GPU; name a library in a [[plugins]] table of the settings to see what it offers",
            ),
        )),
        _ => None,
    };
    let missing = gap.into_iter().collect();
    Device { kind: DeviceKind::Gpu, state, name, execution_providers: providers, drivers, missing }
}

fn cpu(processor: Option<String>, runtime: Option<&Probed>, others: &[DeviceListing], libraries: &[Library]) -> Device {
    let built_in = runtime.map(|probed| providers_for(DeviceKind::Cpu, &probed.devices)).unwrap_or_default();
    let providers: Vec<_> = built_in.into_iter().chain(providers_for(DeviceKind::Cpu, others)).collect();
    let state = if providers.is_empty() { State::Unavailable } else { State::Hardware };
    let runtime = libraries.iter().find(|library| library.name == ONNX_RUNTIME).filter(|_| providers.is_empty());
    let missing = runtime.map(needed).into_iter().collect();
    Device { kind: DeviceKind::Cpu, state, name: processor, execution_providers: providers, drivers: vec![], missing }
}

fn providers_for(kind: DeviceKind, devices: &[DeviceListing]) -> Vec<Provider> {
    let of_kind = devices.iter().filter(|device| device.kind == kind);
    let provider = |device: &DeviceListing| Provider {
        name: device.execution_provider.clone(),
        version: device.provider_version.clone(),
        qnn_sdk: None,
        library: device.library.clone(),
    };
    let mut providers: Vec<Provider> = of_kind.map(provider).collect();
    // Two devices of one kind have one provider.
    providers.dedup();
    providers
}

fn named_by_maker(device: &DeviceListing) -> String {
    let kind = if device.kind == DeviceKind::Npu { "NPU" } else { "GPU" };
    format!("{} {kind}", device.vendor)
}

/// The settings' server. What is wrong with its table is told as any other thing that is missing.
fn server(settings: &Settings) -> Option<Server> {
    settings.remote.url.as_ref()?;
    let lane = lanes::remote(settings, &|variable| std::env::var(variable).ok());
    let (status, missing) = match lane {
        Ok(lane) => {
            let lane = lane?;
            let missing = match lane.source {
                LaneSource::Absent { reason } => Some(reason),
                LaneSource::Open(_) | LaneSource::Server(_) => None,
            };
            (lane.remote, missing)
        }
        Err(error) => (None, Some(format!("{error:#}"))),
    };
    let price = status.as_ref().and_then(|status| status.price.clone());
    Some(Server {
        // An address that is wrong may have a secret in it.
        url: status.as_ref().map_or_else(|| "(wrong address)".to_owned(), |status| status.url.clone()),
        model: settings.remote.model.clone(),
        private: status.as_ref().is_some_and(|status| status.is_private),
        privacy: settings.remote.privacy.name(),
        when: settings.remote.when.name(),
        price_per_million: price.as_ref().map(|price| price.per_million),
        currency: price.and_then(|price| price.currency),
        missing,
    })
}

fn row(name: &str) -> Library {
    Library { name: name.into(), version: None, origin: None, path: None, missing: None }
}

fn missing(reason: &str, remedy: Option<&str>) -> Missing {
    Missing { reason: reason.into(), remedy: remedy.map(Into::into) }
}

fn plugin_missing() -> Missing {
    match provision::qnn_plugin_exists() {
        true => missing("not installed", Some("`ortalk setup --npu` fetches it")),
        false => {
            let (system, arch) = (std::env::consts::OS, std::env::consts::ARCH);
            missing(&format!("Qualcomm makes none for {system} on {arch}"), Some("none; the CPU answers"))
        }
    }
}

fn broken(error: &ChildError, remedy: &str) -> Missing {
    missing(&format!("it does not work: {error}"), Some(remedy))
}

fn named_wrongly(row: &mut Library, error: NamedLibraryError) {
    row.path = Some(error.path.clone());
    let reason = format!("{} names it, but {}", error.by, error.problem);
    row.missing = Some(missing(&reason, Some("correct it, or remove it to let ortalk find one")));
}
