//! What a model folder is: its configuration, tokenizer and chat template, as onnxruntime-genai lays them out, or Optimum
//! for transformers.js (`optimum`).
//!
//! Running its graphs is the decoder's work; making one is the builder's.

mod chips;
mod config;
mod ends;
pub mod memory;
mod npu_bundle;
mod npu_options;
mod optimum;
mod pipeline;
mod session_options;
mod spelling;
mod template;
mod thinking;
mod tokenizer;
mod tool_style;

use std::path::{Path, PathBuf};

pub use chips::UnknownChip;
pub use config::{DecoderConfig, GenaiConfig, ModelConfig, SearchConfig};
pub use ends::end_tokens;
pub use npu_bundle::{
    BundleFiles, CompiledNodes, IntegerType, NPU_FILE, NPU_FORMAT, NpuBundle, NpuTarget, Precision, Quantization, Sink,
    TensorQuantization, WindowLayers,
};
pub use npu_options::{NpuOptionError, NpuOptions, ProviderOptions};
pub use optimum::OptimumFolder;
pub use pipeline::{Alignment, Pipeline, PipelineStage, SlidingWindow, StageGraph};
pub use session_options::{GraphOptimization, SessionOptions};
pub use template::{ChatTemplate, SourcesError, TemplateError, TemplateInputs, TemplateMessage, TemplateSources};
pub use thinking::Thinking;
pub use tokenizer::{Tokenizer, TokenizerError};
pub use tool_style::{ARGS, CALL_ID, CallStyle, PYTHON_TAG, TAG, TOOL_CALLS, ToolStyle};

/// The file that makes a folder a model folder.
pub const CONFIG_FILE: &str = "genai_config.json";
/// Where ortalk's builder records what a folder was built from.
pub const BUILD_FILE: &str = "ortalk_build.json";

/// A model folder, read and checked; its graphs are not loaded.
pub struct ModelFolder {
    pub path: PathBuf,
    /// For people: the name the builder recorded, else the folder's.
    pub name: String,
    pub config: GenaiConfig,
    /// What was chosen and what is left alone in it, for people.
    pub notes: Vec<String>,
    pub tokenizer: Tokenizer,
    pub template: ChatTemplate,
    /// The tokens that end an answer.
    pub ends: Vec<u32>,
    /// `None` for a model that does not think before it answers.
    pub thinking: Option<Thinking>,
    pub tools: ToolStyle,
}

#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    #[error("'{}' is no model folder: it has neither {CONFIG_FILE} nor config.json with onnx/model*.onnx; `ortalk build` makes one from a GGUF file or a checkpoint folder", .0.display())]
    NotAModelFolder(PathBuf),
    #[error("'{}' is one graph of a model; give the folder that it is in", .0.display())]
    GraphAlone(PathBuf),
    #[error("'{}' cannot be read: {error}", path.display())]
    Read { path: PathBuf, error: std::io::Error },
    #[error("'{}' is not right: {reason}", path.display())]
    Invalid { path: PathBuf, reason: String },
    #[error(
        "'{}' has no chat template: neither chat_template.jinja nor chat_template in tokenizer_config.json. Models that are \
         not trained for chats have none; take the model's instruct form", .0.display()
    )]
    NoTemplate(PathBuf),
    #[error(transparent)]
    TemplateSource(#[from] SourcesError),
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    #[error(transparent)]
    Template(#[from] TemplateError),
}

/// The folder's configuration alone, which takes no time.
pub fn read_config(path: &Path) -> Result<GenaiConfig, ModelError> {
    Ok(Described::at(path)?.config)
}

/// A folder's configuration, in whatever layout.
pub struct Described {
    /// Where tokenizer and template are, and from where graphs are named.
    pub root: PathBuf,
    pub config: GenaiConfig,
    /// What was chosen and what is left alone in it, for people.
    pub notes: Vec<String>,
}

impl Described {
    pub fn at(path: &Path) -> Result<Self, ModelError> {
        let config_path = path.join(CONFIG_FILE);
        if config_path.is_file() {
            let config: GenaiConfig = read_json(&config_path)?;
            let mut checked = config.check();
            // A bundle for an NPU has a description of its own.
            if !path.join(NPU_FILE).exists() {
                checked = checked.and_then(|()| config.check_graphs());
            }
            checked.map_err(|reason| ModelError::Invalid { path: config_path, reason })?;
            let notes = config.model.decoder.session_options.ignored.clone();
            return Ok(Self { root: path.into(), config, notes });
        }
        let Some(folder) = OptimumFolder::find(path)? else {
            let has_folder = path.parent().is_some_and(|folder| folder.join(CONFIG_FILE).is_file());
            return Err(match has_folder && path.is_file() {
                true => ModelError::GraphAlone(path.into()),
                false => ModelError::NotAModelFolder(path.into()),
            });
        };
        let config = folder.config()?;
        config.check().map_err(|reason| ModelError::Invalid { path: folder.root.join("config.json"), reason })?;
        Ok(Self { root: folder.root, config, notes: vec![format!("runs {}", folder.choice)] })
    }
}

impl ModelFolder {
    /// Opens a model folder in onnxruntime-genai's layout or in Optimum's; of the latter, a path to one of its graphs
    /// chooses that one.
    pub fn open(path: &Path) -> Result<Self, ModelError> {
        let Described { root, config, notes } = Described::at(path)?;
        let tokenizer = Tokenizer::open(&root.join("tokenizer.json"))?;
        let tokenizer_config: serde_json::Value =
            read_optional(&root.join("tokenizer_config.json"))?.unwrap_or(serde_json::Value::Null);
        let sources =
            TemplateSources::read(&root, &tokenizer_config)?.ok_or_else(|| ModelError::NoTemplate(root.clone()))?;
        let template = ChatTemplate::new(&sources, &tokenizer_config)?;
        let configs = [read_optional(&root.join("generation_config.json"))?, read_optional(&root.join("config.json"))?];
        let configs: Vec<serde_json::Value> = configs.into_iter().flatten().collect();
        let mut ends = config.model.eos_token_id.0.clone();
        for id in end_tokens(&configs, &tokenizer_config, &template, &tokenizer) {
            if !ends.contains(&id) {
                ends.push(id);
            }
        }
        let thinking = Thinking::of(&template, &tokenizer);
        let tools = ToolStyle::of(&template, &tokenizer);
        Ok(Self { name: name(&root)?, path: root, config, notes, tokenizer, template, ends, thinking, tools })
    }

    /// The size of the graph and its data, or of all graphs where the model is in several, in bytes.
    pub fn weight_bytes(&self) -> u64 {
        let graph = self.config.model.decoder.filename.as_ref().map(|graph| self.path.join(graph));
        match graph.filter(|graph| graph.is_file()) {
            Some(graph) => graph_bytes(&graph),
            None => onnx_bytes(&self.path, ""),
        }
    }
}

/// The size of a graph and of the files beside it whose names go on from its: `model.onnx`, `model.onnx_data`.
pub fn graph_bytes(graph: &Path) -> u64 {
    let name = graph.file_name().unwrap_or_default().to_string_lossy();
    onnx_bytes(graph.parent().unwrap_or(Path::new("")), &name)
}

fn onnx_bytes(folder: &Path, start: &str) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.filter(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        name.contains(".onnx") && name.starts_with(start)
    });
    // Of what links lead to: Hugging Face's cache is made of them.
    files.filter_map(|entry| std::fs::metadata(entry.path()).ok()).map(|metadata| metadata.len()).sum()
}

fn name(path: &Path) -> Result<String, ModelError> {
    let recorded = read_optional::<serde_json::Value>(&path.join(BUILD_FILE))?
        .and_then(|build| Some(build.get("name")?.as_str()?.to_string()));
    let folder = || path.file_name().map_or_else(|| path.display().to_string(), |n| n.to_string_lossy().into_owned());
    Ok(recorded.or_else(|| name_in_hub_cache(path)).unwrap_or_else(folder))
}

/// The repository's name of a folder in the Hub's cache, whose own name is that of a commit.
pub fn name_in_hub_cache(path: &Path) -> Option<String> {
    let snapshots = path.ancestors().find(|folder| folder.file_name().is_some_and(|name| name == "snapshots"))?;
    let repo = snapshots.parent()?.file_name()?.to_str()?.strip_prefix("models--")?;
    repo.split_once("--").map(|(_, name)| name.to_string())
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, ModelError> {
    let text = std::fs::read(path).map_err(|error| ModelError::Read { path: path.into(), error })?;
    serde_json::from_slice(&text).map_err(|error| ModelError::Invalid { path: path.into(), reason: error.to_string() })
}

fn read_optional<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Option<T>, ModelError> {
    if path.exists() { read_json(path).map(Some) } else { Ok(None) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_configuration_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let error = ModelFolder::open(dir.path()).err().unwrap().to_string();
        assert!(error.contains("genai_config.json") && error.contains("ortalk build"), "{error}");
    }

    #[test]
    fn a_graph_of_a_model_folder_leads_to_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        let graph = dir.path().join("model.onnx");
        std::fs::write(&graph, "").unwrap();
        let error = || ModelFolder::open(&graph).err().unwrap();
        assert!(matches!(error(), ModelError::NotAModelFolder(_)));
        std::fs::write(dir.path().join(CONFIG_FILE), "{}").unwrap();
        assert!(error().to_string().contains("give the folder that it is in"));
    }

    #[test]
    fn a_snapshot_is_called_by_its_repository() {
        let cache = Path::new("/c/hub/models--Qwen--Qwen3-0.6B/snapshots/0123");
        assert_eq!(name_in_hub_cache(cache).as_deref(), Some("Qwen3-0.6B"));
        assert_eq!(name_in_hub_cache(&cache.join("cpu/int4")).as_deref(), Some("Qwen3-0.6B"));
        assert_eq!(name_in_hub_cache(Path::new("/c/snapshots/0123")), None);
    }

    #[test]
    fn a_broken_configuration_is_named() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(CONFIG_FILE), "{\"model\": 3}").unwrap();
        let error = ModelFolder::open(dir.path()).err().unwrap().to_string();
        assert!(error.contains(CONFIG_FILE), "{error}");
    }
}
