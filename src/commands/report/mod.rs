//! `ortalk report`: one text that can be pasted into an issue. What this machine is, which devices and execution providers
//! it has, what was logged while lanes were opened and where their nodes run, what the sensors say, the last error and the
//! latest benchmark. Nothing of a conversation, and nothing that tells who its reader is (`redact`).

mod opened;
mod redact;
mod text;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use serde_json::{Value, json};

use self::redact::Redactor;
use super::bench::kept::{self, KeptBench};
use super::faults::{self, Fault};
use super::run::print_now;
use super::sys::{self, SystemReport};
use crate::cli::ReportArgs;
use crate::config::{Settings, SettingsError};
use crate::paths::Paths;

pub use opened::serve_open;

/// The version of the JSON; it grows when a field changes its meaning.
const SCHEMA: u32 = 1;

/// What is said of the environment. Of a secret only that it is set.
const VARIABLES: [&str; 14] = [
    "ORTALK_HOME",
    "ORT_DYLIB_PATH",
    "HF_HOME",
    "HF_HUB_CACHE",
    "HF_ENDPOINT",
    "HF_HUB_OFFLINE",
    "HF_TOKEN",
    "HTTPS_PROXY",
    "ADSP_LIBRARY_PATH",
    "TERM",
    "COLORTERM",
    "NO_COLOR",
    "LANG",
    "WSL_DISTRO_NAME",
];
const SECRETS: [&str; 2] = ["HF_TOKEN", "HTTPS_PROXY"];

struct Report {
    system: SystemReport,
    environment: Vec<(&'static str, String)>,
    settings: Result<Vec<(&'static str, String)>, String>,
    /// The lanes, or why they could not be opened.
    opened: Result<Value, String>,
    last_error: Option<Fault>,
    bench: Option<KeptBench>,
}

pub fn run(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    let paths = Paths::discover()?;
    let executable = std::env::current_exe().context("ortalk's own file cannot be found")?;
    let report = gather(args, &paths, &executable);
    let redactor = Redactor::of_this_machine();
    let text = match args.json {
        true => {
            let mut value = as_json(&report);
            redactor.json(&mut value);
            format!("{}\n", serde_json::to_string_pretty(&value)?)
        }
        false => redactor.text(&text::text(&report)),
    };
    print_now(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn gather(args: &ReportArgs, paths: &Paths, executable: &Path) -> Report {
    // Settings that are not right are part of the report, and not its end.
    let loaded = Settings::load(&paths.settings_file());
    let said = loaded.as_ref().map(set).map_err(without_quotation);
    let settings = loaded.unwrap_or_default();
    Report {
        system: sys::look(&settings, paths, executable),
        environment: environment(),
        settings: said,
        opened: opened::open(executable, args),
        last_error: faults::last(paths),
        bench: kept::latest(paths),
    }
}

fn environment() -> Vec<(&'static str, String)> {
    let value = |name: &&'static str| {
        let value = std::env::var_os(name)?;
        let shown = if SECRETS.contains(name) { "(set)".into() } else { value.to_string_lossy().into_owned() };
        Some((*name, shown))
    };
    VARIABLES.iter().filter_map(value).collect()
}

/// What the settings set, but for the system prompt, of which it says that there is one.
fn set(settings: &Settings) -> Vec<(&'static str, String)> {
    let path = |path: &Option<std::path::PathBuf>| path.as_ref().map(|path| path.display().to_string());
    let count = |count: Option<std::num::NonZeroUsize>| count.map(|count| count.to_string());
    let number = |number: Option<f32>| number.map(|number| number.to_string());
    let npu = &settings.npu;
    let options: Vec<String> = npu.options.iter().map(|(key, value)| format!("{key} = {value}")).collect();
    let plugins: Vec<String> =
        settings.plugins.iter().map(|plugin| format!("{} = {}", plugin.name, plugin.library.display())).collect();
    let listed = |texts: Vec<String>| (!texts.is_empty()).then(|| texts.join(", "));
    let all = [
        ("model", path(&settings.model)),
        ("onnx-runtime", path(&settings.onnx_runtime)),
        ("threads", count(settings.threads)),
        ("context", count(settings.context)),
        ("max-tokens", count(settings.max_tokens)),
        ("system", settings.system.as_ref().map(|_| "(set)".into())),
        ("think", settings.think.map(|think| think.to_string())),
        ("temperature", number(settings.temperature)),
        ("policy", settings.policy.clone()),
        ("npu.model", path(&npu.model)),
        ("npu.plugin", path(&npu.plugin)),
        ("npu.backend", path(&npu.backend)),
        ("npu", listed(options)),
        ("plugins", listed(plugins)),
    ];
    all.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
}

fn without_quotation(error: &SettingsError) -> String {
    faults::without_quotations(&error.to_string())
}

fn as_json(report: &Report) -> Value {
    let pairs = |pairs: &[(&str, String)]| {
        pairs.iter().map(|(name, value)| json!({"name": name, "value": value})).collect::<Vec<_>>()
    };
    json!({
        "schema": SCHEMA,
        "system": report.system,
        "environment": pairs(&report.environment),
        "settings": report.settings.as_ref().ok().map(|settings| pairs(settings)),
        "settings_error": report.settings.as_ref().err(),
        "opened": report.opened.as_ref().ok(),
        "not_opened": report.opened.as_ref().err(),
        "last_error": report.last_error,
        "bench": report.bench,
    })
}
