//! Safetensors files, alone or as a folder has them, with Hugging Face's `config.json` beside them.
//!
//! A file starts with the length of its header (8 bytes, little endian) and the header, a JSON object of tensors by name.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::{InspectError, Inspection, Kind, Sizes, group};

/// The format's own limit for the header.
const LONGEST_HEADER: u64 = 100_000_000;

const OBSTACLE: &str = "only GGUF files are built so far; llama.cpp's convert_hf_to_gguf.py makes one from this";

/// `path` is what the user named; `files` are in one folder.
pub fn inspect(path: &Path, files: &[PathBuf]) -> Result<Inspection, InspectError> {
    let mut found = Inspection::new(Kind::Safetensors, path, 0);
    let mut tensors = Vec::new();
    for file in files {
        found.bytes += std::fs::metadata(file).map_or(0, |metadata| metadata.len());
        let header = header(file)?;
        for (name, tensor) in header.iter().filter(|(name, _)| *name != "__metadata__") {
            tensors.push(describe(tensor).ok_or_else(|| InspectError::Wrong {
                path: file.clone(),
                what: format!("describes its tensor {name:?} as {tensor}; expected dtype, shape and data_offsets"),
            })?);
        }
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
    Ok(found.not_a_source(OBSTACLE))
}

fn header(path: &Path) -> Result<Map<String, Value>, InspectError> {
    let wrong = |what: String| InspectError::Wrong { path: path.into(), what };
    let unread = |error| InspectError::Read { path: path.into(), error };
    let mut file = File::open(path).map_err(unread)?;
    let length = file.metadata().map_err(unread)?.len();
    let mut start = [0; 8];
    file.read_exact(&mut start).map_err(|_| wrong(format!("has {length} bytes; a safetensors file has at least 8")))?;
    let header = u64::from_le_bytes(start);
    if header > LONGEST_HEADER.min(length - 8) {
        let most = LONGEST_HEADER.min(length - 8);
        return Err(wrong(format!(
            "says that its header has {header} bytes, expected at most {most}; it is cut, or damaged"
        )));
    }
    let mut text = Vec::new();
    file.take(header).read_to_end(&mut text).map_err(unread)?;
    serde_json::from_slice(&text).map_err(|error| wrong(format!("has a header that is not right: {error}")))
}

/// Type, values and bytes.
fn describe(tensor: &Value) -> Option<(String, u64, Option<u64>)> {
    let kind = tensor.get("dtype")?.as_str()?.to_owned();
    let shape = tensor.get("shape")?.as_array()?;
    let values = shape.iter().try_fold(1_u64, |product, size| product.checked_mul(size.as_u64()?))?;
    let offset = |index: usize| tensor.get("data_offsets")?.get(index)?.as_u64();
    Some((kind, values, Some(offset(1)?.checked_sub(offset(0)?)?)))
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
