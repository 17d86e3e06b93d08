//! From settings and arguments to a loaded engine: what the chat, `run` and `setup` have in common.

use std::io::{IsTerminal, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, anyhow, bail};
use clap::ValueEnum;

use super::faults;
use super::fetch::{AfterFetch, FetchDisplay};
use super::lanes::{self, LaneParts, NpuParts};
use super::model_name::{self, Named};
use super::rates::Rates;
use super::room::Room;
use super::tuning::Tunings;
use crate::bill::Books;
use crate::builder::{self, BuildOptions, SamplingDefaults};
use crate::cli::ChatArgs;
use crate::config::Settings;
use crate::engine::{
    AnswerSettings, ChosenBy, CpuSetting, Engine, EngineOptions, LaneId, LaneSource, LaneSpec, Parameter, Policy,
    RatesListener, RouteError, Sampling,
};
use crate::hub::Purpose;
use crate::ledger::Ledger;
use crate::log_file;
use crate::model::{ModelFolder, read_config};
use crate::onnx_runtime::{LogSink, OnnxRuntime};
use crate::paths::Paths;
use crate::provision::{self, DEFAULT_MODEL_NAME, FoundLibrary, FoundPlugin, LibraryOrigin, ObtainError, QNN_LICENCE};
use crate::telemetry::device::power::SYSFS;
use crate::telemetry::memory::Memory;
use crate::tui::Tell;

/// The longest answer where nobody said otherwise, in tokens; the help says it, too.
const DEFAULT_MAX_TOKENS: usize = 1024;

/// More than any machine's cores. ONNX Runtime takes a minute to start and end some thousands of threads.
const MOST_THREADS: usize = 1024;

/// As SmolLM2's model card samples.
const DEFAULT_MODEL_SAMPLING: SamplingDefaults = SamplingDefaults { temperature: 0.2, top_p: 0.9, top_k: 50 };

/// Everything that is needed is on this machine; only loading is left.
pub struct Prepared {
    pub paths: Paths,
    pub settings: Settings,
    pub answers: AnswerSettings,
    /// The model folder.
    pub model: PathBuf,
    pub library: PathBuf,
    /// Where messages of native libraries and ours go.
    pub log: LogSink,
    npu: NpuParts,
    /// How the CPU lane runs.
    pub cpu: (CpuSetting, ChosenBy),
    room: Room,
    /// Whether standard error is seen while a model is loaded.
    tells: bool,
}

/// Finds or fetches ONNX Runtime, and finds, fetches or builds the model. Shows progress on standard error where that
/// takes time. `after` says who minds Ctrl-C when that is done.
pub fn prepare(args: &ChatArgs, after: AfterFetch) -> anyhow::Result<Prepared> {
    let paths = Paths::discover()?;
    let settings = Settings::load(&paths.settings_file())?;
    prepare_with(args, paths, settings, FetchDisplay::new(after))
}

/// The same while a screen is there, which is told what takes its time.
pub fn prepare_again(args: &ChatArgs, tell: &Tell) -> anyhow::Result<Prepared> {
    let paths = Paths::discover()?;
    let settings = Settings::load(&paths.settings_file())?;
    prepare_with(args, paths, settings, FetchDisplay::telling(tell))
}

/// The same for another model than the one that arguments and settings speak of: of them holds what is no model's own.
/// The simulator runs what is built for it already, since a build would take minutes.
pub fn prepare_other(args: &ChatArgs, name: &Path, tell: &Tell) -> anyhow::Result<Prepared> {
    let model = Some(name.to_path_buf());
    let emulates = args.emulate_npu;
    let args = ChatArgs { model, npu_model: None, emulate_npu: false, lane: None, ..args.clone() };
    let paths = Paths::discover()?;
    model_name::resolve(name, Purpose::Cpu, &paths)?;
    let mut settings = Settings::load(&paths.settings_file())?;
    settings.npu.model = None;
    let mut prepared = prepare_with(&args, paths, settings, FetchDisplay::telling(tell))?;
    prepared.npu.emulation = emulates && prepared.npu.bundle.is_some();
    Ok(prepared)
}

fn prepare_with(
    args: &ChatArgs,
    paths: Paths,
    settings: Settings,
    mut display: FetchDisplay,
) -> anyhow::Result<Prepared> {
    // What is wrong in arguments or settings is said before anything is fetched.
    check(args, &settings, &paths)?;
    let library = library(&settings, &paths, &mut display)?.path;
    let model = model(args.model.as_deref(), &settings, &paths, &mut display)?;
    let room = Room::new(args.context, &settings, Memory::look());
    let npu = lanes::npu_parts(args, &model, &settings, &paths, &mut display)?;
    display.finish();
    display.go_on()?;
    let answers = answer_settings(args, &settings, &Sampling::suggested(&read_config(&model)?.search))?;
    let threads = threads(args, &settings)?;
    let tuned = || Tunings::open(paths.tuning_file()).of(&model, &library);
    let cpu = match threads {
        Some(threads) => (CpuSetting::with_threads(threads), ChosenBy::User),
        None => tuned().map_or_else(|| (default_cpu(), ChosenBy::Default), |tuned| (tuned, ChosenBy::Tuning)),
    };
    let tells = matches!(display.after(), AfterFetch::Exit);
    let log = log_sink(&paths.log_file());
    Ok(Prepared { paths, settings, answers, model, library, log, npu, cpu, room, tells })
}

/// Everything that can be wrong without the model being here: its name, the numbers, the policy, the server.
fn check(args: &ChatArgs, settings: &Settings, paths: &Paths) -> anyhow::Result<()> {
    named(args.model.as_deref(), settings, paths)?;
    answer_settings(args, settings, &Sampling::default())?;
    threads(args, settings)?;
    let has_server = remote(settings, paths)?.is_some();
    if !has_server && args.lane == Some(LaneId::Remote) {
        bail!(RouteError::NoServer);
    }
    Ok(())
}

/// The lane of the settings' server.
fn remote(settings: &Settings, paths: &Paths) -> anyhow::Result<Option<LaneSpec>> {
    lanes::remote(settings, &|variable| std::env::var(variable).ok())
        .with_context(|| format!("[remote] in '{}' is not right", paths.settings_file().display()))
}

/// How many a person asked for.
fn threads(args: &ChatArgs, settings: &Settings) -> anyhow::Result<Option<usize>> {
    let threads = args.threads.map(usize::from).or(settings.threads.map(NonZeroUsize::get));
    check_count("threads", threads, MOST_THREADS)?;
    Ok(threads)
}

/// What `prepare` would fetch or build first, with the remedy; `None` where everything is here.
pub fn missing(args: &ChatArgs) -> anyhow::Result<Option<String>> {
    let paths = Paths::discover()?;
    let settings = Settings::load(&paths.settings_file())?;
    if provision::find_onnx_runtime(&settings, &paths)?.is_none() {
        return Ok(Some("ONNX Runtime is not installed; `ortalk setup` fetches it".into()));
    }
    let source = match named(args.model.as_deref(), &settings, &paths)? {
        Named::Path(path) if is_ready(&path) => None,
        Named::Path(path) => Some(path),
        Named::Default => match provision::default_model_file(&paths) {
            Some(file) => Some(file),
            None => return Ok(Some("the default model is not here; `ortalk setup` fetches it".into())),
        },
    };
    if let Some(source) = source
        && builder::find_cached(&source, &paths.models(), &BuildOptions::default())?.is_none()
    {
        return Ok(Some("the model is not built yet; the first chat with it does that".into()));
    }
    if args.emulate_npu {
        if provision::find_qnn_plugin(&settings, &paths)?.is_none() {
            return Ok(Some("QNN's plug-in is not installed; `ortalk setup --npu` fetches it".into()));
        }
        if args.npu_model.is_none() {
            return Ok(Some("--emulate-npu needs --npu-model here: a report builds nothing".into()));
        }
    }
    Ok(None)
}

impl Prepared {
    /// Loads the library and the model; with a lane, no other one is opened.
    pub fn load(&self, only: Option<LaneId>) -> anyhow::Result<Engine> {
        self.engine(self.runtime()?, only)
    }

    /// Whether the model runs without giving up one that runs already. An NPU holds one.
    pub fn has_room_beside(&self) -> anyhow::Result<bool> {
        let takes_npu = self.npu.bundle.is_some() && self.npu.plugin.is_some() && !self.npu.emulation;
        let granted = self.room.on_cpu(&ModelFolder::open(&self.model)?, 0)?;
        Ok(!takes_npu && granted.is_ok_and(|(_, plan)| plan.cut_from.is_none()))
    }

    /// What was free when this was prepared may be taken, or the other way round.
    pub fn look_at_memory(&mut self) {
        self.room.look_again();
    }

    /// Nothing is said while models are loaded.
    pub fn silent(self) -> Self {
        Self { tells: false, ..self }
    }

    /// With this setting of the CPU lane.
    pub fn engine_with(&self, runtime: OnnxRuntime, cpu: (CpuSetting, ChosenBy)) -> anyhow::Result<Engine> {
        self.engine_on(runtime, Some(LaneId::Cpu), cpu)
    }

    /// Loads the library, which a process can do once.
    pub fn runtime(&self) -> anyhow::Result<OnnxRuntime> {
        Ok(OnnxRuntime::load(&self.library, self.log.clone())?)
    }

    /// Loads the model; with a lane, no other one is opened.
    pub fn engine(&self, runtime: OnnxRuntime, only: Option<LaneId>) -> anyhow::Result<Engine> {
        self.engine_on(runtime, only, self.cpu)
    }

    fn engine_on(
        &self,
        runtime: OnnxRuntime,
        only: Option<LaneId>,
        cpu: (CpuSetting, ChosenBy),
    ) -> anyhow::Result<Engine> {
        let log = self.log.clone();
        let model = Arc::new(ModelFolder::open(&self.model)?);
        model.notes.iter().for_each(|note| log(&format!("'{}': {note}", self.model.display())));
        let beside = self.library.parent().map(Path::to_path_buf);
        let folders: Vec<PathBuf> = beside.into_iter().chain([self.paths.libraries()]).collect();
        let parts = LaneParts {
            runtime,
            library: &self.library,
            model: &model,
            cpu,
            room: &self.room,
            npu: &self.npu,
            remote: remote(&self.settings, &self.paths)?,
            plugin_folders: &folders,
            log,
        };
        let mut lanes = lanes::lanes(parts, only)?;
        if let Some(asked) = lanes.iter().find(|lane| Some(lane.id) == self.answers.lane)
            && let LaneSource::Absent { reason } = &asked.source
        {
            bail!("the {} lane was asked for, but it is not there: {reason}", asked.id);
        }
        lanes.iter().filter_map(|lane| self.room.said(lane)).for_each(|(text, is_cut)| self.tell(&text, is_cut));
        let rates = Rates::open(self.paths.rates_file(), &self.model);
        for lane in &mut lanes {
            lane.measured = rates.of(lane.id, lane.emulated, lane.threads);
        }
        let listener: RatesListener =
            Box::new(move |lane| rates.keep(lane.id, lane.emulated, lane.threads, lane.measured));
        Ok(Engine::load(EngineOptions { model, lanes, emulation: self.npu.emulation, listener: Some(listener) })?)
    }

    /// What answers take is measured and written down here. `via` names what asks: `chat`, `run`, `serve`.
    pub fn books(&self, via: &'static str) -> Books {
        let ledger = Ledger::new(self.paths.ledger_file());
        let paths = self.paths.clone();
        Books::new(Path::new(SYSFS), ledger, &self.settings.cost, via)
            .tell_faults(Box::new(move |within, fault| faults::keep(&paths, within, fault)))
    }

    /// Logs what a person may want to know before loading, and shows it: to one who watches, or to all where it matters.
    fn tell(&self, text: &str, matters: bool) {
        (self.log)(text);
        if self.tells && (matters || std::io::stderr().is_terminal()) {
            eprintln!("ortalk: {text}");
        }
    }

    /// The model folder that a lane runs.
    pub fn folder(&self, lane: LaneId) -> Option<&Path> {
        match lane {
            LaneId::Npu => self.npu.bundle.as_deref(),
            LaneId::Cpu => Some(&self.model),
            LaneId::Remote => None,
        }
    }

    pub fn qnn_backend(&self) -> Option<&Path> {
        self.npu.plugin.as_ref().map(|plugin| plugin.backend.as_path())
    }
}

/// One thread for each physical core that this process may use: two on one core mostly slow each other down.
pub fn default_cpu() -> CpuSetting {
    let usable = usable_threads();
    CpuSetting::with_threads(sysinfo::System::physical_core_count().map_or(usable, |cores| cores.min(usable)).max(1))
}

/// Threads that this process may run at once.
pub fn usable_threads() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

pub fn library(settings: &Settings, paths: &Paths, display: &mut FetchDisplay) -> anyhow::Result<FoundLibrary> {
    provision::obtain_onnx_runtime(settings, paths, &mut |progress| display.report(progress)).map_err(plainly)
}

/// The QNN plug-in, fetched where it is not there.
pub fn qnn_plugin(settings: &Settings, paths: &Paths, display: &mut FetchDisplay) -> anyhow::Result<FoundPlugin> {
    let found =
        provision::obtain_qnn_plugin(settings, paths, &mut |progress| display.report(progress)).map_err(plainly)?;
    if found.origin == LibraryOrigin::Fetched {
        display.say(QNN_LICENCE);
    }
    Ok(found)
}

/// The error itself, by whose type `main` knows what a person stopped.
fn plainly(error: ObtainError) -> anyhow::Error {
    match error {
        ObtainError::Provision(error) => error.into(),
        ObtainError::Named(error) => error.into(),
    }
}

/// The model folder to chat with: what the argument or the settings name, else the default model.
pub fn model(
    argument: Option<&Path>,
    settings: &Settings,
    paths: &Paths,
    display: &mut FetchDisplay,
) -> anyhow::Result<PathBuf> {
    let Named::Path(named) = named(argument, settings, paths)? else { return default_model(paths, display) };
    if is_ready(&named) {
        return Ok(named);
    }
    let name = builder::name(&named);
    builder::cached(&named, &paths.models(), &BuildOptions::default(), &mut |progress| {
        display.report_build(&name, progress)
    })
    .with_context(|| {
        // The name was typed, in the chat or as --model, or stands in the settings, which are named.
        let subject = match argument {
            Some(_) => format!("'{}' is", named.display()),
            None => format!("{} names '{}', which is", named_by(argument, paths), named.display()),
        };
        format!("{subject} neither a model folder nor a GGUF file or checkpoint folder that can be built")
    })
}

/// Where the name of the model to chat with leads.
fn named(argument: Option<&Path>, settings: &Settings, paths: &Paths) -> anyhow::Result<Named> {
    let Some(name) = argument.or(settings.model.as_deref()) else { return Ok(Named::Default) };
    model_name::resolve(name, Purpose::Cpu, paths)
        .with_context(|| format!("{} cannot be found", named_by(argument, paths)))
}

/// What named the model.
fn named_by(argument: Option<&Path>, paths: &Paths) -> String {
    match argument {
        Some(_) => "--model".to_string(),
        None => format!("model in '{}'", paths.settings_file().display()),
    }
}

/// The default model's folder, fetched and built where it is not there.
fn default_model(paths: &Paths, display: &mut FetchDisplay) -> anyhow::Result<PathBuf> {
    let source = default_model_source(paths, display)?;
    let options = BuildOptions {
        name: Some(DEFAULT_MODEL_NAME.to_string()),
        sampling: Some(DEFAULT_MODEL_SAMPLING),
        ..BuildOptions::default()
    };
    Ok(builder::cached(&source, &paths.models(), &options, &mut |progress| {
        display.report_build(DEFAULT_MODEL_NAME, progress);
    })?)
}

/// The default model's GGUF file, fetched where it is not there.
pub fn default_model_source(paths: &Paths, display: &mut FetchDisplay) -> anyhow::Result<PathBuf> {
    Ok(provision::ensure_default_model_source(paths, &mut |progress| display.report(progress))?.path)
}

/// Whether the model is opened as it is, and not built first: a model folder, a folder of Optimum's, or one graph of it.
pub fn is_ready(path: &Path) -> bool {
    let is_graph = path.extension().is_some_and(|extension| extension == "onnx");
    let has_graphs_alone = || path.join("onnx").is_dir() && !has_safetensors(path);
    if path.is_dir() { !builder::is_checkpoint(path) || has_graphs_alone() } else { is_graph }
}

fn has_safetensors(folder: &Path) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).any(|path| path.extension().is_some_and(|extension| extension == "safetensors"))
}

/// The GGUF file or checkpoint folder of the model to chat with. What is chatted with may lack one: that is `None`, or an
/// error where one is needed and its name says where to get it.
pub fn model_source(
    argument: Option<&Path>,
    settings: &Settings,
    paths: &Paths,
    is_needed: bool,
    display: &mut FetchDisplay,
) -> anyhow::Result<Option<PathBuf>> {
    let named = match argument.or(settings.model.as_deref()) {
        Some(named) => match model_name::resolve(named, Purpose::NpuBuild, paths) {
            Ok(named) => named,
            Err(error) if is_needed => {
                return Err(error.context("what the NPU's model would be built from cannot be found"));
            }
            Err(_) => return Ok(None),
        },
        None => Named::Default,
    };
    match named {
        Named::Path(path) => Ok((!is_ready(&path)).then_some(path)),
        Named::Default => default_model_source(paths, display).map(Some),
    }
}

/// Arguments come before settings, settings before what the model's folder suggests.
pub fn answer_settings(args: &ChatArgs, settings: &Settings, suggested: &Sampling) -> anyhow::Result<AnswerSettings> {
    let sampling = Sampling {
        temperature: args.temperature.or(settings.temperature).unwrap_or(suggested.temperature),
        top_k: args.top_k.or(settings.top_k).unwrap_or(suggested.top_k),
        top_p: args.top_p.or(settings.top_p).unwrap_or(suggested.top_p),
        min_p: args.min_p.or(settings.min_p).unwrap_or(suggested.min_p),
        repetition_penalty: args
            .repetition_penalty
            .or(settings.repetition_penalty)
            .unwrap_or(suggested.repetition_penalty),
        seed: args.seed,
        ..Sampling::GREEDY
    };
    Parameter::check(&sampling)?;
    let max_tokens = args.max_tokens.map(|n| n as usize).or(settings.max_tokens.map(NonZeroUsize::get));
    check_count("max-tokens", max_tokens, u32::MAX as usize)?;
    Ok(AnswerSettings {
        system: args.system.clone().or(settings.system.clone()),
        sampling,
        max_tokens: max_tokens.unwrap_or(DEFAULT_MAX_TOKENS),
        thinking: args.think.or(settings.think),
        policy: args.policy.map_or_else(|| policy(settings.policy.as_deref()), Ok)?,
        lane: args.lane,
        allow_remote: args.allow_remote,
    })
}

/// The settings' policy.
fn policy(named: Option<&str>) -> anyhow::Result<Policy> {
    let Some(named) = named else { return Ok(Policy::default()) };
    Policy::from_str(named, false).map_err(|_| {
        let names: Vec<&str> = Policy::value_variants().iter().map(|policy| policy.name()).collect();
        anyhow!("policy in the settings is '{named}'; expected one of {}", names.join(", "))
    })
}

/// A count that no machine could keep to would only exhaust it.
fn check_count(name: &str, value: Option<usize>, most: usize) -> anyhow::Result<()> {
    match value {
        Some(value) if value > most => bail!("{name} is '{value}'; it must be between 1 and {most}"),
        _ => Ok(()),
    }
}

/// Appends what native libraries report to the log file; a log that cannot be written is no reason to stop.
pub fn log_sink(path: &Path) -> LogSink {
    let file = Mutex::new(log_file::open(path).ok());
    Arc::new(move |line| {
        if let Some(file) = file.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            let _ = log_file::begin(file).and_then(|()| writeln!(file, "{line}"));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_named_in_the_settings_as_on_the_command_line() {
        assert_eq!(policy(None).unwrap(), Policy::Auto);
        assert_eq!(policy(Some("fastest")).unwrap(), Policy::Fastest);
        let error = policy(Some("best")).unwrap_err().to_string();
        assert_eq!(error, "policy in the settings is 'best'; expected one of auto, npu, cpu, fastest, efficient");
    }

    #[test]
    fn counts_that_exhaust_the_machine_are_refused() {
        for (value, good) in [(Some(1), true), (Some(4), true), (Some(5), false), (None, true)] {
            assert_eq!(check_count("threads", value, 4).is_ok(), good, "{value:?}");
        }
        let error = check_count("threads", Some(5), 4).unwrap_err().to_string();
        assert_eq!(error, "threads is '5'; it must be between 1 and 4");
    }
}
