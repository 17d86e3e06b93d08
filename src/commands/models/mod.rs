//! `ortalk models`: lists the models on this machine and those of the catalogue, shows one, removes one, and removes what is
//! of no more use. Nothing outside ortalk's cache and the Hub's is touched.

pub mod list;

use std::io::{BufRead, IsTerminal};
use std::path::Path;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use serde_json::json;

use self::list::{Kind, Model, models, used};
use super::fetch::megabytes;
use super::run::print_now;
use crate::builder::{self, Built};
use crate::cli::{ModelsAction, ModelsArgs};
use crate::hub::{self, HubSettings, ModelRef, Purpose};
use crate::paths::Paths;

pub fn run(args: &ModelsArgs) -> anyhow::Result<ExitCode> {
    let paths = Paths::discover()?;
    let settings = HubSettings::discover()?;
    match &args.action {
        None => list(args.json, &paths, &settings)?,
        Some(ModelsAction::Show { name, json }) => show(name, *json || args.json, &paths, &settings)?,
        Some(ModelsAction::Remove { name, yes }) => remove(name, *yes, &paths, &settings)?,
        Some(ModelsAction::Prune { yes }) => prune(*yes, &paths)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn list(json: bool, paths: &Paths, settings: &HubSettings) -> anyhow::Result<()> {
    let models = models(paths, settings);
    let text = if json { format!("{}\n", serde_json::to_string_pretty(&models)?) } else { models.text(now()) };
    print_now(&text)
}

/// Whether a person means this model: by its own name, its repository's or the catalogue's.
fn is_meant(model: &Model, name: &str) -> bool {
    let of_repo = || model.kind == Kind::Pulled && model.name.split(':').next() == Some(name);
    model.name.eq_ignore_ascii_case(name) || of_repo() || model.catalogue_name.as_deref() == Some(name)
}

fn show(name: &str, json: bool, paths: &Paths, settings: &HubSettings) -> anyhow::Result<()> {
    let all = models(paths, settings);
    let meant: Vec<&Model> = all.models.iter().filter(|model| is_meant(model, name)).collect();
    let entry = all.catalogue.iter().find(|entry| entry.name.eq_ignore_ascii_case(name));
    if meant.is_empty() && entry.is_none() {
        bail!("no model is named '{name}'; `ortalk models` lists the names");
    }
    if json {
        let models: Vec<serde_json::Value> = meant
            .iter()
            .map(|model| {
                let mut value = json!(model);
                value["files"] =
                    files(&model.path).into_iter().map(|(path, bytes)| json!({"path": path, "bytes": bytes})).collect();
                value
            })
            .collect();
        return print_now(&format!("{:#}\n", json!({"models": models, "catalogue": entry})));
    }
    let mut text = String::new();
    if let Some(entry) = entry {
        text.push_str(&format!("{}: {} ({})\n", entry.name, entry.title, entry.licence));
        text.push_str(&format!("  for the CPU    {}\n", entry.cpu.as_deref().unwrap_or("comes with ortalk")));
        let gated = if entry.gated_checkpoint { " (gated)" } else { "" };
        text.push_str(&format!("  checkpoint     {}{gated}\n", entry.checkpoint));
    }
    for model in meant {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&format!("{}: {}, {}\n", model.name, model.format, megabytes(model.bytes)));
        text.push_str(&format!("  path           {}\n", model.path.display()));
        text.push_str(&format!("  last used      {}\n", used(model.last_used_unix_s, now())));
        if let Some(stale) = model.stale {
            text.push_str(&format!("  out of date    {stale}\n"));
        }
        for (path, bytes) in files(&model.path) {
            text.push_str(&format!("  {:>12}   {path}\n", megabytes(bytes)));
        }
    }
    print_now(&text)
}

/// A model's files: itself, or those right in its folder.
fn files(path: &Path) -> Vec<(String, u64)> {
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let bytes = |path: &Path| std::fs::metadata(path).ok().filter(|found| found.is_file()).map(|found| found.len());
    if let Some(bytes) = bytes(path) {
        return vec![(name(path), bytes)];
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<(String, u64)> = entries.filter_map(|path| Some((name(&path), bytes(&path)?))).collect();
    found.sort();
    found
}

fn remove(name: &str, yes: bool, paths: &Paths, settings: &HubSettings) -> anyhow::Result<()> {
    if let Some(built) = builder::built(&paths.models()).into_iter().find(|built| built.name == name) {
        confirm(&format!("remove '{}' ({}), which ortalk built", built.name, megabytes(built.bytes)), yes)?;
        remove_built(&built)?;
        eprintln!("removed {name}: {} are free now", megabytes(built.bytes));
        return Ok(());
    }
    let here = pulled(name, settings)?;
    let mut freed = 0;
    for model in &here {
        let repo = hub::repository(settings, model.repo.clone());
        let bytes = match &model.variant {
            None => repo.bytes,
            Some(_) => hub::find(settings, model, Purpose::Cpu)?.map_or(0, |found| found.variant.bytes()),
        };
        let what = format!(
            "remove '{model}' ({}) from '{}', where other programs find it, too",
            megabytes(bytes),
            repo.folder.display()
        );
        confirm(&what, yes)?;
        freed += hub::remove(settings, model)?;
    }
    eprintln!("removed {name}: {} are free now", megabytes(freed));
    let stale = builder::built(&paths.models()).iter().filter(|built| built.stale.is_some()).count();
    if stale > 0 {
        eprintln!("{stale} of what ortalk built is out of date: `ortalk models prune` removes it");
    }
    Ok(())
}

/// What of the Hub's cache a name means, as far as it is there.
fn pulled(name: &str, settings: &HubSettings) -> anyhow::Result<Vec<ModelRef>> {
    let named = match hub::entry(name) {
        Some(entry) if entry.is_default => {
            bail!(
                "'{name}' comes with ortalk, and the next chat without a model would fetch it again; it is not removed"
            )
        }
        Some(entry) => entry.cpu.iter().chain([&entry.checkpoint]).map(of_this_variant).collect(),
        None => vec![ModelRef::parse(name).with_context(|| format!("no model is named '{name}'"))?],
    };
    let mut here = Vec::new();
    for model in named {
        let is_here = match &model.variant {
            None => !hub::repository(settings, model.repo.clone()).models.is_empty(),
            Some(_) => hub::find(settings, &model, Purpose::Cpu)?.is_some(),
        };
        if is_here {
            here.push(model);
        }
    }
    if here.is_empty() {
        bail!("'{name}' is not on this machine; `ortalk models` lists what is");
    }
    Ok(here)
}

/// A repository may hold the graphs and the checkpoint of a model; the catalogue's name without a variant means the checkpoint.
fn of_this_variant(model: &ModelRef) -> ModelRef {
    let is_shared = hub::catalogue().iter().any(|entry| entry.cpu.as_ref().is_some_and(|cpu| cpu.repo == model.repo));
    match (&model.variant, is_shared && hub::catalogue().iter().any(|entry| entry.checkpoint.repo == model.repo)) {
        (None, true) => ModelRef { repo: model.repo.clone(), variant: Some("checkpoint".to_string()) },
        _ => model.clone(),
    }
}

fn prune(yes: bool, paths: &Paths) -> anyhow::Result<()> {
    let mut stale = builder::built(&paths.models());
    stale.retain(|built| built.stale.is_some());
    stale.extend(builder::leftovers(&paths.models()));
    if stale.is_empty() {
        eprintln!("nothing is out of date");
        return Ok(());
    }
    for built in &stale {
        eprintln!("{}: {} ({})", built.name, built.stale.unwrap_or_default(), megabytes(built.bytes));
    }
    let bytes = stale.iter().map(|built| built.bytes).sum();
    confirm(&format!("remove these {} ({})", stale.len(), megabytes(bytes)), yes)?;
    stale.iter().try_for_each(remove_built)?;
    eprintln!("removed: {} are free now", megabytes(bytes));
    Ok(())
}

fn remove_built(built: &Built) -> anyhow::Result<()> {
    match builder::remove_built(built)? {
        Some(()) => Ok(()),
        None => bail!("another ortalk builds a model; '{}' was not removed. Try again when it is done", built.name),
    }
}

/// Asks, unless the answer came with the command.
fn confirm(what: &str, yes: bool) -> anyhow::Result<()> {
    if yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        bail!("would {what}; nobody is there to be asked: add --yes");
    }
    eprint!("{what}? [y/N] ");
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    if !matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") {
        bail!("nothing was removed");
    }
    Ok(())
}
