//! From settings and arguments to a loaded engine: what the chat and `run` have in common.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, bail};

use crate::cli::ChatArgs;
use crate::config::Settings;
use crate::engine::{Engine, EngineOptions, LaneId, Sampling};
use crate::onnx_runtime::{LogSink, OnnxRuntime};
use crate::paths::Paths;

/// The longest answer where nobody said otherwise, in tokens.
const DEFAULT_MAX_TOKENS: usize = 1024;

/// What each request of this session starts from.
pub struct ChatDefaults {
    pub system: Option<String>,
    pub sampling: Sampling,
    pub max_tokens: usize,
    pub lane: Option<LaneId>,
}

pub fn open(args: &ChatArgs) -> anyhow::Result<(Engine, ChatDefaults)> {
    let paths = Paths::discover()?;
    let settings = Settings::load(&paths.settings_file())?;
    let library: PathBuf = std::env::var_os("ORT_DYLIB_PATH").context("ORT_DYLIB_PATH")?.into();
    let model = args.model.clone().or(settings.model.clone()).context("model")?;
    let engine = load(&library, &model, args, &settings, &paths)?;
    let defaults = defaults(args, &settings, &engine)?;
    Ok((engine, defaults))
}

fn load(library: &Path, model: &Path, args: &ChatArgs, settings: &Settings, paths: &Paths) -> anyhow::Result<Engine> {
    let runtime = OnnxRuntime::load(library, log_sink(&paths.log_file()))?;
    let plugin_folders = library.parent().into_iter().map(Path::to_path_buf).chain([paths.libraries()]).collect();
    Ok(Engine::load(EngineOptions {
        runtime,
        model: model.into(),
        threads: args.threads.map(usize::from).or(settings.threads),
        plugin_folders,
    })?)
}

/// Arguments come before settings, settings before what the model's folder suggests.
fn defaults(args: &ChatArgs, settings: &Settings, engine: &Engine) -> anyhow::Result<ChatDefaults> {
    let suggested = engine.suggested_sampling();
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
    };
    check_sampling(&sampling)?;
    Ok(ChatDefaults {
        system: args.system.clone().or(settings.system.clone()),
        sampling,
        max_tokens: args.max_tokens.map(|n| n as usize).or(settings.max_tokens).unwrap_or(DEFAULT_MAX_TOKENS),
        lane: args.lane,
    })
}

fn check_sampling(sampling: &Sampling) -> anyhow::Result<()> {
    let checks = [
        ("temperature", sampling.temperature, 0.0, f32::MAX, "0 or more"),
        ("top-p", sampling.top_p, 0.0, 1.0, "between 0 and 1"),
        ("min-p", sampling.min_p, 0.0, 1.0, "between 0 and 1"),
        ("repetition-penalty", sampling.repetition_penalty, f32::MIN_POSITIVE, f32::MAX, "more than 0"),
    ];
    for (name, value, low, high, expected) in checks {
        // NaN is in no range.
        if !(low..=high).contains(&value) {
            bail!("{name} is '{value}'; it must be {expected}");
        }
    }
    Ok(())
}

/// Appends what native libraries report to the log file; a log that cannot be written is no reason to stop.
fn log_sink(path: &Path) -> LogSink {
    let file = path
        .parent()
        .and_then(|folder| std::fs::create_dir_all(folder).ok())
        .and_then(|()| std::fs::OpenOptions::new().create(true).append(true).open(path).ok());
    let file = Mutex::new(file);
    Arc::new(move |line| {
        if let Some(file) = file.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            let _ = writeln!(file, "{line}");
        }
    })
}
