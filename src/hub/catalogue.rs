//! A few models that run well, by names that are easy to type. The list is `catalogue.toml`, compiled in.

use std::sync::LazyLock;

use serde::Deserialize;

use super::choose::Purpose;
use super::names::ModelRef;

/// A model of the catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What is typed.
    pub name: String,
    /// What its makers call it.
    pub title: String,
    pub licence: String,
    /// The model that ortalk chats with where none is named. For the CPU it comes with ortalk, not from the Hub.
    pub is_default: bool,
    pub cpu: Option<ModelRef>,
    pub checkpoint: ModelRef,
    /// Whether the checkpoint is given only to those who agreed to its licence.
    pub gated_checkpoint: bool,
}

impl Entry {
    /// The repository to pull; `None` where it comes with ortalk.
    pub fn source(&self, purpose: Purpose) -> Option<&ModelRef> {
        match purpose {
            Purpose::Cpu => self.cpu.as_ref(),
            Purpose::NpuBuild => Some(&self.checkpoint),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    model: Vec<Written>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    title: String,
    licence: String,
    #[serde(default)]
    default: bool,
    cpu: Option<String>,
    checkpoint: String,
    gated: Option<Gated>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Gated {
    Checkpoint,
}

/// The whole catalogue, the default model first.
pub fn catalogue() -> &'static [Entry] {
    static ENTRIES: LazyLock<Vec<Entry>> = LazyLock::new(|| read().unwrap_or_default());
    &ENTRIES
}

/// The model of this name, in upper or lower case.
pub fn entry(name: &str) -> Option<&'static Entry> {
    catalogue().iter().find(|entry| entry.name.eq_ignore_ascii_case(name))
}

/// The file is compiled in and a test reads it, so this does not fail.
fn read() -> Result<Vec<Entry>, String> {
    let file: File = toml::from_str(include_str!("catalogue.toml")).map_err(|error| error.to_string())?;
    let model = |text: &str| ModelRef::parse(text).map_err(|error| error.to_string());
    let entry = |Written { name, title, licence, default, cpu, checkpoint, gated }: Written| {
        Ok(Entry {
            name,
            title,
            licence,
            is_default: default,
            cpu: cpu.as_deref().map(model).transpose()?,
            checkpoint: model(&checkpoint)?,
            gated_checkpoint: gated.is_some(),
        })
    };
    file.model.into_iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_right() {
        let entries = read().unwrap();
        assert!(entries.len() > 1 && entries[0].is_default);
        for (at, model) in entries.iter().enumerate() {
            // A name of the catalogue is no path and no repository.
            assert!(!model.name.contains(['/', ':']) && model.name == model.name.to_lowercase(), "{model:?}");
            assert!(entries[..at].iter().all(|other| other.name != model.name), "{model:?}");
            assert_eq!(model.is_default, model.cpu.is_none(), "{model:?}");
            assert!(!model.licence.is_empty() && !model.title.is_empty(), "{model:?}");
        }
    }

    #[test]
    fn a_name_gives_the_repository_for_each_purpose() {
        let qwen = entry("Qwen3-0.6B").unwrap();
        let source = |purpose| qwen.source(purpose).map(ToString::to_string);
        assert_eq!(source(Purpose::Cpu).as_deref(), Some("onnx-community/Qwen3-0.6B-ONNX:q4"));
        assert_eq!(source(Purpose::NpuBuild).as_deref(), Some("Qwen/Qwen3-0.6B"));
        assert_eq!(entry("smollm2-135m").unwrap().source(Purpose::Cpu), None);
        assert_eq!(entry("gpt-5"), None);
    }
}
