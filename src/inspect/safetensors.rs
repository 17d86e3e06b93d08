//! Safetensors files, alone or as a folder has them, with Hugging Face's `config.json` beside them.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{InspectError, Inspection, Kind, Sizes, TARGETS, Target, gguf, group};
use crate::builder::safetensors;
use crate::mapped_file::MappedFile;

const ALONE: &str = "this is one file; give the folder with config.json and the tokenizer";

/// `path` is what the user named; `files` are in one folder.
pub fn inspect(path: &Path, files: &[PathBuf]) -> Result<Inspection, InspectError> {
    let mut found = Inspection::new(Kind::Safetensors, path, 0);
    let mut tensors = Vec::new();
    for file in files {
        found.bytes += std::fs::metadata(file).map_or(0, |metadata| metadata.len());
        let mapped = MappedFile::open(file).map_err(|error| InspectError::Read { path: file.clone(), error })?;
        let entries = safetensors::parse(&mapped)
            .map_err(|error| InspectError::Wrong { path: file.clone(), what: error.to_string() })?;
        let facts = |entry: safetensors::Entry<'_>| {
            let values = entry.elements() as u64;
            (entry.dtype, values, Some(entry.bytes.len() as u64))
        };
        tensors.extend(entries.into_iter().map(facts));
    }
    found.weights = group(tensors.into_iter());
    let folder = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new("")) };
    let config = read_json(&folder.join("config.json"));
    found.architecture = config.get("model_type").and_then(Value::as_str).map(str::to_owned);
    found.sizes = sizes(&config);
    let tokenizer = ["tokenizer.json", "tokenizer.model"].into_iter().find(|name| folder.join(name).is_file());
    found.tokenizer = tokenizer.map(str::to_owned);
    let tokenizer_config = read_json(&folder.join("tokenizer_config.json"));
    let in_config = || tokenizer_config.get("chat_template").is_some();
    found.chat_template = Some(folder.join("chat_template.jinja").is_file() || in_config());
    if !path.is_dir() {
        return Ok(found.not_a_source(ALONE));
    }
    let obstacle = gguf::obstacle(path);
    found.targets = TARGETS.map(|target| Target { target, obstacle: obstacle.clone() }).into();
    Ok(found)
}

fn sizes(config: &Value) -> Sizes {
    let key = |name: &str| config.get(name).and_then(Value::as_u64);
    let (hidden, heads) = (key("hidden_size"), key("num_attention_heads"));
    let of_heads = || hidden?.checked_div(heads?);
    Sizes {
        layers: key("num_hidden_layers"),
        hidden,
        feed_forward: key("intermediate_size"),
        heads,
        kv_heads: key("num_key_value_heads").or(heads),
        head_size: key("head_dim").or_else(of_heads),
        vocabulary: key("vocab_size"),
        context: key("max_position_embeddings"),
    }
}

/// Nothing where the file is missing or wrong: it only adds to what is known.
fn read_json(path: &Path) -> Value {
    std::fs::read(path).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or(Value::Null)
}
