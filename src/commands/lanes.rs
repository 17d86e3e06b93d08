//! Which lanes there are: from arguments, settings and what is on this machine to what the engine opens. The one place
//! that decides it.
//!
//! | | the NPU lane |
//! | --- | --- |
//! | an NPU, the plug-in and a model built for it | opened in a process of its own |
//! | no NPU, `--emulate-npu` | the same on QNN's simulator; what is missing is fetched first |
//! | else | absent, with the reason and what to do |

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};

use super::fetch::{FetchDisplay, Interrupted};
use super::room::Room;
use super::session;
use crate::builder::npu::NpuBuildOptions;
use crate::builder::{self, Step};
use crate::cli::ChatArgs;
use crate::config::{RemotePlace, RemoteSettings, Settings, TokenPriceSettings};
use crate::decoder::{ChildDecoder, ChildOptions, Deadlines, DecodeError, LaneProvider, LaneRequest};
use crate::engine::{
    ChosenBy, CpuSetting, LaneId, LaneOpener, LaneSource, LaneSpec, MeasuredRates, OpenLane, Price, RemoteOptions,
    TokenPrice, cpu_lane, remote_lane,
};
use crate::model::{
    CONFIG_FILE, ModelConfig, ModelFolder, NPU_FILE, NpuBundle, NpuOptions, NpuTarget, ProviderOptions, read_config,
};
use crate::onnx_runtime::{CPU_PROVIDER, LogSink, OnnxRuntime, QNN_PROVIDER, QnnPlugin};
use crate::paths::Paths;
use crate::provision;
use crate::remote::{ApiKey, Endpoint, Timeouts};

/// The chip whose NPU is simulated.
const SIMULATED_CHIP: &str = "x-elite";

/// The exit status of an `ortalk` that was stopped.
const INTERRUPTED: i32 = 130;

/// What the NPU lane needs, as far as it is here.
pub struct NpuParts {
    /// A model folder built for the NPU.
    pub bundle: Option<PathBuf>,
    pub plugin: Option<QnnPlugin>,
    options: ProviderOptions,
    /// `--emulate-npu`.
    pub emulation: bool,
}

/// Everything that lanes are made of.
pub struct LaneParts<'a> {
    pub runtime: OnnxRuntime,
    /// ONNX Runtime's library.
    pub library: &'a Path,
    /// The model that is chatted with.
    pub model: &'a Arc<ModelFolder>,
    /// How the CPU lane runs.
    pub cpu: (CpuSetting, ChosenBy),
    pub room: &'a Room,
    pub npu: &'a NpuParts,
    /// The server that may answer, too.
    pub remote: Option<LaneSpec>,
    /// Where a plug-in may lie that nobody named.
    pub plugin_folders: &'a [PathBuf],
    pub log: LogSink,
}

/// Whether a model folder is one for the NPU: ortalk's own, or a pipeline as WinML CLI, Olive and Foundry Local make them.
pub fn is_for_npu(folder: &Path) -> bool {
    folder.join(NPU_FILE).is_file()
        || read_config(folder).is_ok_and(|config| !config.model.decoder.pipeline.0.is_empty())
}

/// Finds what the NPU lane needs, and fetches it where `--emulate-npu` asks for that. `model` is the model folder that is
/// chatted with.
pub fn npu_parts(
    args: &ChatArgs,
    model: &Path,
    settings: &Settings,
    paths: &Paths,
    display: &mut FetchDisplay,
) -> anyhow::Result<NpuParts> {
    let named = match (&args.npu_model, &settings.npu.model) {
        (Some(folder), _) => Some((folder, "--npu-model".to_string())),
        (None, Some(folder)) => Some((folder, format!("npu.model in '{}'", paths.settings_file().display()))),
        (None, None) => None,
    };
    if let Some((folder, by)) = &named
        && !is_for_npu(folder)
    {
        bail!(
            "{by} names '{}', which is no model folder for the NPU: it has neither {NPU_FILE} nor a decoder.pipeline in \
             its {CONFIG_FILE}; `ortalk build --target npu` makes one",
            folder.display()
        );
    }
    let named = named.map(|(folder, _)| folder.clone()).or_else(|| is_for_npu(model).then(|| model.to_path_buf()));
    let source = match named {
        Some(_) => None,
        None => npu_source(args, settings, paths, display)?,
    };
    let plugin = if args.emulate_npu {
        Some(session::qnn_plugin(settings, paths, display)?.plugin)
    } else {
        provision::find_qnn_plugin(settings, paths)?.map(|found| found.plugin)
    };
    let bundle = match (named, source) {
        (Some(folder), _) => Some(folder),
        (None, Some(source)) => cached_bundle(&source, args.emulate_npu, paths, display)?,
        (None, None) => None,
    };
    Ok(NpuParts { bundle, plugin, options: settings.npu.options.clone(), emulation: args.emulate_npu })
}

/// What a bundle of this model is built from. `--emulate-npu` needs it, and says so before anything is fetched.
fn npu_source(
    args: &ChatArgs,
    settings: &Settings,
    paths: &Paths,
    display: &mut FetchDisplay,
) -> anyhow::Result<Option<PathBuf>> {
    let source = session::model_source(args.model.as_deref(), settings, paths, args.emulate_npu, display)?;
    if source.is_none() && args.emulate_npu {
        bail!(
            "a model folder cannot be built for the NPU; name its source with --model, or a built one with --npu-model"
        );
    }
    Ok(source)
}

/// The bundle of this source in ortalk's cache. Where it is not there, `--emulate-npu` builds it.
fn cached_bundle(
    source: &Path,
    emulation: bool,
    paths: &Paths,
    display: &mut FetchDisplay,
) -> anyhow::Result<Option<PathBuf>> {
    let options = NpuBuildOptions::new(NpuTarget::named(SIMULATED_CHIP)?);
    if let Some(folder) = builder::find_npu(source, &paths.models(), &options)? {
        return Ok(Some(folder));
    }
    if !emulation {
        return Ok(None);
    }
    display.finish();
    let mut waited = false;
    let folder = builder::cached_npu(source, &paths.models(), &options, &mut |step| match step {
        Step::Wait => {
            if !std::mem::replace(&mut waited, true) {
                eprintln!("waiting for another ortalk, which builds the model for the simulated NPU");
            }
            anyhow::Ok(())
        }
        Step::Build(folder) => {
            eprintln!("building the model for the simulated NPU, once; this takes minutes");
            build(source, folder)
        }
    })?;
    Ok(Some(folder))
}

/// Runs `ortalk build` as a person would: it shows its stages and their times, its memory goes with it, and a build that
/// was stopped is gone on with the next time.
fn build(source: &Path, folder: &Path) -> anyhow::Result<()> {
    let status = Command::new(executable()?)
        .arg("build")
        .arg(source)
        .arg("--output")
        .arg(folder)
        .args(["--target", "npu", "--soc", SIMULATED_CHIP])
        .stdin(Stdio::null())
        // Standard output is for answers.
        .stdout(std::io::stderr())
        .status()
        .context("ortalk could not be started to build the model")?;
    match status.code() {
        Some(0) => Ok(()),
        Some(INTERRUPTED) | None => Err(Interrupted.into()),
        Some(code) => bail!("the model could not be built for the NPU: `ortalk build` ended with status {code}"),
    }
}

fn executable() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("ortalk does not know where it is itself")
}

/// The lanes, in the order in which the router prefers them. With `only`, no other one is opened.
pub fn lanes(mut parts: LaneParts<'_>, only: Option<LaneId>) -> anyhow::Result<Vec<LaneSpec>> {
    let npu = npu_lane(&parts)?;
    let npu_alone = is_for_npu(&parts.model.path);
    if only == Some(LaneId::Npu) || npu_alone {
        parts.room.check_only(LaneId::Npu, npu.context_limit)?;
    }
    let cpu = if npu_alone {
        absent(LaneId::Cpu, CPU_PROVIDER, None, "this model folder is for the NPU alone".to_string())
    } else {
        let taken = npu.memory.filter(|_| only.is_none()).map_or(0, |memory| memory.bytes);
        match parts.room.on_cpu(parts.model, taken)? {
            Ok((context, memory)) => LaneSpec {
                memory: Some(memory),
                ..cpu_lane(parts.runtime, parts.model.clone(), parts.cpu, Some(context), memory.kept_tokens)
            },
            Err(reason) => absent(LaneId::Cpu, CPU_PROVIDER, None, reason),
        }
    };
    let mut lanes = vec![npu, cpu];
    if let Some(remote) = parts.remote.take() {
        let is_first = remote.remote.as_ref().is_some_and(|server| server.place == RemotePlace::First);
        lanes.insert(if is_first { 0 } else { lanes.len() }, remote);
    }
    if let Some(only) = only {
        for lane in lanes.iter_mut().filter(|lane| lane.id != only) {
            if matches!(lane.source, LaneSource::Open(_) | LaneSource::Server(_)) {
                lane.source = LaneSource::Absent { reason: format!("not opened: {only} was asked for") };
            }
        }
    }
    Ok(lanes)
}

/// The lane of the settings' server; `None` where they name none. `variable` reads the environment.
pub fn remote(settings: &Settings, variable: &dyn Fn(&str) -> Option<String>) -> anyhow::Result<Option<LaneSpec>> {
    let remote = &settings.remote;
    let Some(url) = &remote.url else {
        if *remote != RemoteSettings::default() {
            bail!("it names no url");
        }
        return Ok(None);
    };
    let unset = remote.api_key_env.as_ref().filter(|name| variable(name).is_none_or(|key| key.trim().is_empty()));
    let key = match &remote.api_key_env {
        Some(name) if unset.is_none() => Some(ApiKey::parse(&variable(name).unwrap_or_default(), name)?),
        _ => None,
    };
    let timeouts = Timeouts::default();
    let seconds = remote.silence.map(|seconds| Duration::from_secs(seconds.get() as u64));
    let lane = remote_lane(RemoteOptions {
        endpoint: Endpoint::parse(url, key)?,
        timeouts: Timeouts { silence: seconds.unwrap_or(timeouts.silence), ..timeouts },
        model: remote.model.clone(),
        context: remote.context.map(NonZeroUsize::get),
        privacy: remote.privacy,
        place: remote.when,
        price: remote.price_per_million.map(|TokenPriceSettings { input, output }| Price {
            per_million: TokenPrice { input, output },
            currency: settings.cost.currency.clone(),
        }),
    });
    Ok(Some(match (unset, &lane.source) {
        (Some(name), LaneSource::Server(_)) => {
            let reason = format!("the variable {name}, which api-key-env names, is not set");
            LaneSpec { source: LaneSource::Absent { reason }, ..lane }
        }
        _ => lane,
    }))
}

fn npu_lane(parts: &LaneParts<'_>) -> anyhow::Result<LaneSpec> {
    let npu = parts.npu;
    let found = parts.runtime.npu_absence(parts.plugin_folders);
    let device = found.device.clone();
    let missing = |reason: String| Ok(absent(LaneId::Npu, QNN_PROVIDER, device.clone(), reason));
    if device.is_none() && !npu.emulation {
        return missing(format!("{found}; --emulate-npu simulates one"));
    }
    let Some(plugin) = &npu.plugin else {
        return missing(format!("{found}; `ortalk setup --npu` fetches it"));
    };
    let Some(folder) = &npu.bundle else {
        return missing(
            "no model built for the NPU: `ortalk build --target npu` makes one for --npu-model".to_string(),
        );
    };
    let (longest, bundle) = match usable_folder(folder, parts.model) {
        Ok(found) => found,
        Err(reason) => return missing(reason),
    };
    let (context_limit, memory) = match bundle.as_ref().map(|bundle| parts.room.on_npu(folder, bundle)).transpose()? {
        Some(Ok((context, memory))) => (context, Some(memory)),
        Some(Err(reason)) => return missing(reason),
        None => (parts.room.within(longest), None),
    };
    let target = bundle.map(|bundle| bundle.target);
    let request = LaneRequest {
        folder: folder.clone(),
        library: parts.library.to_path_buf(),
        provider: LaneProvider::Qnn {
            plugin: plugin.clone(),
            options: NpuOptions { target, provider: npu.options.clone() },
        },
        threads: parts.cpu.0.threads,
    };
    Ok(LaneSpec {
        id: LaneId::Npu,
        execution_provider: QNN_PROVIDER.to_string(),
        emulated: device.is_none(),
        device,
        context_limit,
        threads: None,
        memory,
        measured: MeasuredRates::default(),
        remote: None,
        source: LaneSource::Open(opener(request, context_limit, npu.emulation, parts.log.clone())?),
    })
}

/// Opens the lane in a process of its own.
fn opener(request: LaneRequest, context: usize, emulation: bool, log: LogSink) -> anyhow::Result<LaneOpener> {
    let executable = executable()?;
    Ok(Box::new(move || {
        let options =
            ChildOptions { executable: executable.clone(), log: log.clone(), deadlines: Deadlines::default() };
        let mut child = ChildDecoder::open(request.clone(), options).map_err(|error| match error {
            // Which lane it is, is said where the reason is shown.
            DecodeError::Lane(reason) => reason,
            error => error.to_string(),
        })?;
        child.limit_context(context);
        let ready = child.ready().clone();
        if ready.emulated && !emulation {
            return Err("QNN has no NPU here, but a simulator; --emulate-npu allows it".to_string());
        }
        Ok(OpenLane {
            decoder: Box::new(child),
            placement: ready.placement,
            device: ready.device,
            emulated: ready.emulated,
        })
    }))
}

fn absent(id: LaneId, provider: &str, device: Option<String>, reason: String) -> LaneSpec {
    LaneSpec {
        id,
        execution_provider: provider.to_string(),
        device,
        emulated: false,
        context_limit: 0,
        threads: None,
        memory: None,
        measured: MeasuredRates::default(),
        remote: None,
        source: LaneSource::Absent { reason },
    }
}

/// The folder's context and its bundle, if it is whole and the NPU's form of the model. Pipelines have no bundle, and do not
/// say which chip they are for; the settings may. The error is for people.
fn usable_folder(folder: &Path, model: &ModelFolder) -> Result<(usize, Option<NpuBundle>), String> {
    let again = |fault: String| format!("{fault}; build the folder again with `ortalk build --target npu`");
    let config = read_config(folder).map_err(|error| again(error.to_string()))?;
    check_same_model(model, folder, &config.model)?;
    if !folder.join(NPU_FILE).is_file() {
        return Ok((config.model.context_length, None));
    }
    let bundle = NpuBundle::read(folder).map_err(|error| again(error.to_string()))?;
    if let Some(file) = bundle.missing_file(folder) {
        let fault = format!("'{}' is not whole: it has no '{file}', which {NPU_FILE} names", folder.display());
        return Err(again(fault));
    }
    Ok((bundle.context, Some(bundle)))
}

/// An answer that moves between lanes must stay with the same model.
fn check_same_model(model: &ModelFolder, folder: &Path, npu: &ModelConfig) -> Result<(), String> {
    let cpu = &model.config.model;
    for (what, npu, cpu) in [
        ("vocabulary", npu.vocab_size, cpu.vocab_size),
        ("number of layers", npu.decoder.num_hidden_layers, cpu.decoder.num_hidden_layers),
        ("number of key-value heads", npu.decoder.num_key_value_heads, cpu.decoder.num_key_value_heads),
        ("head size", npu.decoder.head_size, cpu.decoder.head_size),
    ] {
        if npu != cpu {
            return Err(format!(
                "'{}' is not the NPU's form of '{}': its {what} is {npu}, not {cpu}; build it from the same file",
                folder.display(),
                model.path.display()
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(settings: &str, key: Option<&str>) -> anyhow::Result<Option<LaneSpec>> {
        let settings: Settings = toml::from_str(&format!("[remote]\n{settings}"))?;
        remote(&settings, &|name| key.filter(|_| name == "FAR_KEY").map(str::to_owned))
    }

    #[test]
    fn a_server_is_a_lane_where_the_settings_name_one() {
        assert!(lane("", None).unwrap().is_none());
        let spec = lane(
            "url = 'https://h.example/v1'\nmodel = 'm'\nprice-per-million = { input = 1, output = 2 }\n[cost]\ncurrency = 'EUR'",
            None,
        );
        let spec = spec.unwrap().unwrap();
        let server = spec.remote.unwrap();
        assert!(matches!(spec.source, LaneSource::Server(_)));
        assert_eq!(server.price.unwrap().currency.as_deref(), Some("EUR"));
        assert_eq!((server.host.as_str(), server.model.as_deref(), server.is_private), ("h.example", Some("m"), true));
        let server = lane("url = 'http://10.0.0.1:80'", None).unwrap().unwrap().remote.unwrap();
        assert!(!server.is_private);
    }

    #[test]
    fn what_keeps_it_from_being_one_is_said() {
        for (settings, key, words) in [
            ("url = 'http://h'\nprivacy = 'never'", None, "privacy is 'never'"),
            (
                "url = 'http://h'\napi-key-env = 'FAR_KEY'",
                None,
                "the variable FAR_KEY, which api-key-env names, is not set",
            ),
            ("url = 'http://h'\napi-key-env = 'FAR_KEY'", Some(" "), "FAR_KEY"),
            ("url = 'http://h'\napi-key-env = 'FAR_KEY'\nprivacy = 'never'", None, "privacy is 'never'"),
        ] {
            let LaneSource::Absent { reason } = lane(settings, key).unwrap().unwrap().source else {
                panic!("{settings}")
            };
            assert!(reason.contains(words), "{reason}");
        }
        assert!(matches!(
            lane("url = 'http://h'\napi-key-env = 'FAR_KEY'", Some("k")).unwrap().unwrap().source,
            LaneSource::Server(_)
        ));
        for (settings, key, words) in [
            ("model = 'm'", None, "it names no url"),
            ("url = 'h'", None, "'h' is no server's address"),
            ("url = 'http://h'\napi-key-env = 'FAR_KEY'", Some("a secret"), "FAR_KEY is no key"),
        ] {
            let error = lane(settings, key).err().unwrap().to_string();
            assert!(error.contains(words) && !error.contains("a secret"), "{error}");
        }
    }
}
