//! Which models there are: the default one, what was pulled, what was built, and what the catalogue has besides.

use std::path::PathBuf;
use std::time::SystemTime;

use serde::Serialize;

use crate::builder;
use crate::commands::fetch::megabytes;
use crate::hub::{self, Entry, HubSettings, Purpose};
use crate::paths::Paths;
use crate::provision;

/// All models that ortalk knows of.
#[derive(Debug, Serialize)]
pub struct Models {
    pub models: Vec<Model>,
    pub catalogue: Vec<CatalogueModel>,
}

/// A model on this machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Model {
    /// What `--model`, `show` and `remove` take.
    pub name: String,
    /// The catalogue's name for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catalogue_name: Option<String>,
    pub kind: Kind,
    pub format: String,
    pub bytes: u64,
    pub path: PathBuf,
    /// As far as it is known.
    pub last_used_unix_s: Option<u64>,
    /// Why a built folder will not be used again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale: Option<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Comes with ortalk.
    Default,
    /// In the Hub's cache.
    Pulled,
    /// In ortalk's cache, made from one of the others or from a file of the person's.
    Built,
}

#[derive(Debug, Serialize)]
pub struct CatalogueModel {
    pub name: String,
    pub title: String,
    pub licence: String,
    pub cpu: Option<String>,
    pub checkpoint: String,
    pub gated_checkpoint: bool,
    pub on_this_machine: bool,
}

pub fn models(paths: &Paths, settings: &HubSettings) -> Models {
    let mut models: Vec<Model> = default_model(paths).into_iter().collect();
    for repo in hub::repositories(settings) {
        models.extend(repo.models.into_iter().map(|found| {
            let name = format!("{}:{}", repo.repo, found.variant.name);
            Model {
                catalogue_name: catalogue_name(&name, &repo.repo.to_string()),
                name,
                kind: Kind::Pulled,
                format: found.variant.format.to_string(),
                bytes: found.variant.bytes(),
                path: found.path,
                last_used_unix_s: found.last_used.and_then(unix_seconds),
                stale: None,
            }
        }));
    }
    models.extend(builder::built(&paths.models()).into_iter().map(|built| Model {
        name: built.name,
        catalogue_name: None,
        kind: Kind::Built,
        format: if built.for_npu { "built, NPU" } else { "built, CPU" }.to_string(),
        bytes: built.bytes,
        path: built.folder,
        last_used_unix_s: built.last_used.and_then(unix_seconds),
        stale: built.stale,
    }));
    let catalogue = hub::catalogue().iter().map(|entry| of_catalogue(entry, settings)).collect();
    Models { models, catalogue }
}

fn default_model(paths: &Paths) -> Option<Model> {
    let path = provision::default_model_file(paths)?;
    let metadata = std::fs::metadata(&path).ok()?;
    let entry = hub::catalogue().iter().find(|entry| entry.is_default)?;
    Some(Model {
        name: entry.name.clone(),
        catalogue_name: None,
        kind: Kind::Default,
        format: "GGUF, the default".to_string(),
        bytes: metadata.len(),
        last_used_unix_s: metadata.accessed().ok().and_then(unix_seconds),
        path,
        stale: None,
    })
}

/// The catalogue's name of a repository's variant.
fn catalogue_name(name: &str, repo: &str) -> Option<String> {
    let is_it = |entry: &&Entry| {
        let cpu = entry.source(Purpose::Cpu).map(ToString::to_string);
        // A repository that is both has a variant for each.
        cpu.is_some_and(|cpu| cpu == name || (cpu == repo && !cpu.contains(':')))
            || (entry.checkpoint.to_string() == repo && name.ends_with(":checkpoint"))
    };
    hub::catalogue().iter().find(is_it).map(|entry| entry.name.clone())
}

fn of_catalogue(entry: &Entry, settings: &HubSettings) -> CatalogueModel {
    let is_here =
        |purpose| entry.source(purpose).is_some_and(|model| matches!(hub::find(settings, model, purpose), Ok(Some(_))));
    CatalogueModel {
        name: entry.name.clone(),
        title: entry.title.clone(),
        licence: entry.licence.clone(),
        cpu: entry.cpu.as_ref().map(ToString::to_string),
        checkpoint: entry.checkpoint.to_string(),
        gated_checkpoint: entry.gated_checkpoint,
        on_this_machine: is_here(Purpose::Cpu) || is_here(Purpose::NpuBuild),
    }
}

fn unix_seconds(time: SystemTime) -> Option<u64> {
    Some(time.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs())
}

impl Models {
    /// The list for people. `now` is in seconds since 1970.
    pub fn text(&self, now: u64) -> String {
        let mut text = String::new();
        if self.models.is_empty() {
            text.push_str("No model is on this machine yet; `ortalk setup` fetches the default one.\n");
        } else {
            let rows = self.models.iter().map(|model| row(model, now)).collect::<Vec<_>>();
            text.push_str(&table(&["MODEL", "FORMAT", "SIZE", "USED", "WHERE"], &rows));
        }
        let stale = self.models.iter().filter(|model| model.stale.is_some()).count();
        if stale > 0 {
            text.push_str(&format!(
                "\n{stale} of them will not be used again: `ortalk models prune` removes what is out of date.\n"
            ));
        }
        let rows: Vec<Vec<String>> = self
            .catalogue
            .iter()
            .filter(|entry| !entry.on_this_machine && entry.cpu.is_some())
            .map(|entry| {
                let gated = if entry.gated_checkpoint { " (its checkpoint is gated)" } else { "" };
                vec![entry.name.clone(), format!("{}{gated}", entry.title), entry.licence.clone()]
            })
            .collect();
        if !rows.is_empty() {
            text.push_str("\n`ortalk pull NAME` fetches one of these; `--for npu`, its checkpoint:\n\n");
            text.push_str(&table(&["NAME", "MODEL", "LICENCE"], &rows));
        }
        text
    }
}

fn row(model: &Model, now: u64) -> Vec<String> {
    let name = match &model.catalogue_name {
        Some(short) => format!("{} ({short})", model.name),
        None => model.name.clone(),
    };
    let format = match model.stale {
        Some(_) => format!("{}, out of date", model.format),
        None => model.format.clone(),
    };
    vec![
        name,
        format,
        format!("{:>11}", megabytes(model.bytes)),
        used(model.last_used_unix_s, now),
        model.path.display().to_string(),
    ]
}

/// When it was last used, as one would say it.
pub fn used(last: Option<u64>, now: u64) -> String {
    const DAY: u64 = 24 * 60 * 60;
    match last.map(|last| now.saturating_sub(last) / DAY) {
        None => "?".to_string(),
        Some(0) => "today".to_string(),
        Some(1) => "yesterday".to_string(),
        Some(days) => format!("{days} days ago"),
    }
}

fn table(heads: &[&str], rows: &[Vec<String>]) -> String {
    let cell = |row: &[String], column: usize| row.get(column).cloned().unwrap_or_default();
    let heads: Vec<String> = heads.iter().map(ToString::to_string).collect();
    let width = |column: usize| {
        rows.iter()
            .map(|row| row.as_slice())
            .chain([heads.as_slice()])
            .map(|row| cell(row, column).chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let line = |row: &[String]| {
        let cells: Vec<String> =
            widths.iter().enumerate().map(|(column, width)| format!("{:width$}", cell(row, column))).collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    std::iter::once(heads.as_slice()).chain(rows.iter().map(Vec::as_slice)).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn use_is_said_in_days() {
        const NOW: u64 = 10_000_000;
        for (ago, expected) in [(0, "today"), (86_399, "today"), (86_400, "yesterday"), (3 * 86_400, "3 days ago")] {
            assert_eq!(used(Some(NOW - ago), NOW), expected);
        }
        assert_eq!(used(None, NOW), "?");
        // A clock that was set back.
        assert_eq!(used(Some(NOW + 5), NOW), "today");
    }

    #[test]
    fn what_was_pulled_by_a_name_of_the_catalogue_shows_it() {
        let name = |variant: &str, repo: &str| catalogue_name(&format!("{repo}:{variant}"), repo);
        assert_eq!(name("q4", "onnx-community/Qwen3-0.6B-ONNX").as_deref(), Some("qwen3-0.6b"));
        assert_eq!(name("checkpoint", "Qwen/Qwen3-0.6B").as_deref(), Some("qwen3-0.6b"));
        assert_eq!(name("fp16", "onnx-community/Qwen3-0.6B-ONNX"), None);
        assert_eq!(name("cpu_and_mobile/x", "microsoft/Phi-4-mini-instruct-onnx").as_deref(), Some("phi-4-mini"));
    }

    #[test]
    fn the_list_reads_well() {
        let model = |name: &str, kind, format: &str, bytes, stale| Model {
            name: name.into(),
            catalogue_name: (kind == Kind::Pulled).then(|| "qwen3-0.6b".to_string()),
            kind,
            format: format.into(),
            bytes,
            path: format!("/cache/{name}").into(),
            last_used_unix_s: Some(0),
            stale,
        };
        let entry = |name: &str, here| CatalogueModel {
            name: name.into(),
            title: "A Model".into(),
            licence: "MIT".into(),
            cpu: Some("a/b".into()),
            checkpoint: "a/b".into(),
            gated_checkpoint: name.starts_with('l'),
            on_this_machine: here,
        };
        let models = Models {
            models: vec![
                model("smollm2-135m", Kind::Default, "GGUF, the default", 98_362_432, None),
                model("onnx-community/Qwen3-0.6B-ONNX:q4", Kind::Pulled, "ONNX", 919_096_585, None),
                model("old-0123456789abcdef", Kind::Built, "built, CPU", 150_000_000, Some("it is gone")),
            ],
            catalogue: vec![entry("qwen3-0.6b", true), entry("llama-3.2-1b", false), entry("phi-4-mini", false)],
        };
        insta::assert_snapshot!(models.text(2 * 86_400));
        let empty = Models { models: Vec::new(), catalogue: Vec::new() };
        assert_eq!(empty.text(0), "No model is on this machine yet; `ortalk setup` fetches the default one.\n");
    }
}
