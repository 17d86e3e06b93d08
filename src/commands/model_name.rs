//! What a model's name on the command line or in the settings leads to. The one place that decides it.
//!
//! A path that exists comes first; then a name of the catalogue, a repository in the Hub's cache (`owner/name[:variant]`), and
//! a folder that ortalk built into its cache. Nothing is fetched here: what is missing is an error that says what fetches it.

use std::path::{Path, PathBuf};

use anyhow::bail;

use crate::builder;
use crate::hub::{self, Entry, HubSettings, ModelRef, Purpose};
use crate::paths::Paths;

/// Where a name leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Named {
    /// A file or a folder, to be opened or built from.
    Path(PathBuf),
    /// The model that comes with ortalk.
    Default,
}

/// Where `name` leads; the error says what was looked for and what to do.
pub fn resolve(name: &Path, purpose: Purpose, paths: &Paths) -> anyhow::Result<Named> {
    if name.exists() {
        return Ok(Named::Path(name.to_path_buf()));
    }
    let text = name.to_string_lossy();
    if let Some(entry) = hub::entry(&text) {
        return of_catalogue(entry, purpose);
    }
    if let Some(built) = builder::built_named(&paths.models(), &text) {
        return Ok(Named::Path(built));
    }
    if let Ok(model) = ModelRef::parse(&text) {
        let settings = HubSettings::discover()?;
        return match hub::find(&settings, &model, purpose)? {
            Some(found) => Ok(Named::Path(found.path)),
            None => {
                let what = match purpose {
                    Purpose::Cpu => "has no such model",
                    Purpose::NpuBuild => "has nothing of such a model to build from",
                };
                let option = if model.variant.is_some() { "" } else { option(purpose) };
                bail!(
                    "there is no file or folder '{text}', and the Hub's cache ('{}') {what}; `ortalk pull {text}{option}` \
                     fetches it from the Hub",
                    settings.cache.display()
                )
            }
        };
    }
    let close = hub::catalogue()
        .iter()
        .map(|entry| entry.name.as_str())
        .filter(|known| similar(known, &text))
        .min_by(|a, b| strsim::damerau_levenshtein(a, &text).cmp(&strsim::damerau_levenshtein(b, &text)));
    match close {
        Some(close) => bail!("there is no file or folder '{text}'; did you mean the model '{close}'?"),
        None => bail!(
            "there is no file or folder '{text}', and no model of this name; `ortalk models` lists those there are, and \
             `ortalk pull owner/name` fetches one from the Hub"
        ),
    }
}

/// A path for who needs one: the default model's is its GGUF file, which `default` gives.
pub fn resolve_path(
    name: &Path,
    purpose: Purpose,
    paths: &Paths,
    default: impl FnOnce() -> anyhow::Result<PathBuf>,
) -> anyhow::Result<PathBuf> {
    match resolve(name, purpose, paths)? {
        Named::Path(path) => Ok(path),
        Named::Default => default(),
    }
}

/// What was pulled for this purpose, else what was pulled for another and serves this one, too.
fn of_catalogue(entry: &Entry, purpose: Purpose) -> anyhow::Result<Named> {
    let settings = HubSettings::discover()?;
    for model in entry.source(purpose).into_iter().chain([&entry.checkpoint]) {
        if let Some(found) = hub::find(&settings, model, purpose)? {
            return Ok(Named::Path(found.path));
        }
    }
    if entry.is_default {
        return Ok(Named::Default);
    }
    let what = match purpose {
        Purpose::Cpu => "the model",
        Purpose::NpuBuild => "the checkpoint of the model",
    };
    let (name, option) = (&entry.name, option(purpose));
    bail!("{what} '{name}' is not on this machine; `ortalk pull {name}{option}` fetches it from the Hub")
}

/// What `ortalk pull` needs to be told.
fn option(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Cpu => "",
        Purpose::NpuBuild => " --for npu",
    }
}

fn similar(known: &str, text: &str) -> bool {
    strsim::damerau_levenshtein(known, &text.to_lowercase()) <= 3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(name: &str) -> String {
        let home = tempfile::tempdir().unwrap();
        resolve(Path::new(name), Purpose::Cpu, &Paths::below(home.path())).unwrap_err().to_string()
    }

    #[test]
    fn a_path_that_exists_wins() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("qwen3-0.6b");
        std::fs::write(&path, "").unwrap();
        let named = resolve(&path, Purpose::Cpu, &Paths::below(home.path())).unwrap();
        assert_eq!(named, Named::Path(path));
    }

    #[test]
    fn a_name_that_leads_nowhere_says_what_to_do() {
        assert!(message("qwen3-0.6").contains("did you mean the model 'qwen3-0.6b'"));
        assert!(message("no-such-model").contains("`ortalk models` lists"));
        let repository = message("nobody-has/this-model:q4");
        assert!(repository.contains("`ortalk pull nobody-has/this-model:q4` fetches"), "{repository}");
    }

    #[test]
    fn what_a_build_needs_has_an_option_of_its_own() {
        let home = tempfile::tempdir().unwrap();
        for (name, expected) in [
            ("qwen3-0.6b", "`ortalk pull qwen3-0.6b --for npu`"),
            ("nobody-has/this-model", "`ortalk pull nobody-has/this-model --for npu`"),
            ("nobody-has/this-model:Q8_0", "`ortalk pull nobody-has/this-model:Q8_0` fetches"),
        ] {
            let error =
                resolve(Path::new(name), Purpose::NpuBuild, &Paths::below(home.path())).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
