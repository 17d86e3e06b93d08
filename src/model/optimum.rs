//! Folders that Optimum exports for transformers.js: `config.json` and the like as on Hugging Face's hub, and one graph or
//! several variants of it in `onnx/`. What onnxruntime-genai says in one file is put together here from four.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::config::{DecoderConfig, GenaiConfig, ModelConfig, SearchConfig, TokenIds};
use super::{ModelError, read_json, read_optional};

const CONFIG: &str = "config.json";

/// What a variant's name ends with, the best on a CPU first, and what it is. In 16-bit floating point CPUs have hardly any
/// kernels, and each operator is wrapped in conversions.
const VARIANTS: [(&str, &str); 8] = [
    ("_q4", "blocks of 4 bits"),
    ("_quantized", "8 bits"),
    ("_int8", "8 bits"),
    ("_uint8", "8 bits"),
    ("", "float32"),
    ("_bnb4", "blocks of 4 bits as bitsandbytes has them"),
    ("_q4f16", "blocks of 4 bits, activations in float16"),
    ("_fp16", "float16"),
];

/// What graphs of decoders are called. The second is two graphs in one, with a past and without.
const GRAPHS: [&str; 2] = ["model", "decoder_model_merged"];

/// A folder and the graph in it that runs.
#[derive(Debug, Clone, PartialEq)]
pub struct OptimumFolder {
    /// Where `config.json` is.
    pub root: PathBuf,
    /// Relative to the root, with `/`.
    pub graph: String,
    /// Which graph was chosen and why, for people.
    pub choice: String,
}

impl OptimumFolder {
    /// The folder at `path`, or the one that the graph at `path` belongs to; `None` where there is no such folder.
    pub fn find(path: &Path) -> Result<Option<Self>, ModelError> {
        if path.extension().is_some_and(|extension| extension == "onnx") {
            return Ok(Self::of_graph(path));
        }
        if !path.join(CONFIG).is_file() {
            return Ok(None);
        }
        let graphs = ["onnx/", ""].map(|folder| (folder, onnx_files(&path.join(folder))));
        if graphs.iter().all(|(_, files)| files.is_empty()) {
            return Ok(None);
        }
        for (folder, files) in &graphs {
            if let Some(found) = Self::choose(path, folder, files) {
                return Ok(Some(found));
            }
        }
        let names: Vec<_> =
            graphs.iter().flat_map(|(folder, files)| files.iter().map(move |f| format!("{folder}{f}"))).collect();
        Err(ModelError::Invalid { path: path.into(), reason: why_none(&names) })
    }

    fn of_graph(graph: &Path) -> Option<Self> {
        let folder = graph.parent()?;
        // The parent of "onnx" is "".
        let here = |folder: &Path| if folder == Path::new("") { PathBuf::from(".") } else { folder.to_path_buf() };
        let root =
            [Some(folder), folder.parent()].into_iter().flatten().map(here).find(|root| root.join(CONFIG).is_file())?;
        let file = graph.file_name()?.to_string_lossy().into_owned();
        let below =
            if here(folder) == root { file } else { format!("{}/{file}", folder.file_name()?.to_string_lossy()) };
        Some(Self { root, choice: format!("the graph {below} was named"), graph: below })
    }

    fn choose(root: &Path, folder: &str, files: &BTreeSet<String>) -> Option<Self> {
        let variants: Vec<(&str, String, &str)> = VARIANTS
            .iter()
            .flat_map(|(suffix, what)| GRAPHS.iter().map(move |stem| (*suffix, format!("{stem}{suffix}.onnx"), *what)))
            .filter(|(_, file, _)| files.contains(file))
            .collect();
        let (suffix, file, what) = variants.first()?;
        let others: Vec<&str> = variants[1..].iter().map(|(_, file, _)| file.as_str()).collect();
        let why = match (others.is_empty(), suffix.ends_with("16")) {
            (true, false) => String::new(),
            (true, true) => "; it is the only one, and slow on a CPU".to_owned(),
            (false, false) => format!("; best on a CPU among it and {}", others.join(", ")),
            (false, true) => format!("; slow on a CPU, as the others are: {}", others.join(", ")),
        };
        Some(Self {
            root: root.into(),
            choice: format!("{folder}{file}, {what}{why}"),
            graph: format!("{folder}{file}"),
        })
    }

    /// What a `genai_config.json` would say.
    pub fn config(&self) -> Result<GenaiConfig, ModelError> {
        let path = self.root.join(CONFIG);
        let config: Map<String, Value> = read_json(&path)?;
        let wrong = |reason: String| ModelError::Invalid { path: path.clone(), reason };
        if config.get("is_encoder_decoder") == Some(&Value::Bool(true)) {
            return Err(wrong("this is an encoder-decoder model; only decoders by themselves run here".into()));
        }
        let generation: Map<String, Value> =
            read_optional(&self.root.join("generation_config.json"))?.unwrap_or_default();
        let tokenizer: Map<String, Value> =
            read_optional(&self.root.join("tokenizer_config.json"))?.unwrap_or_default();
        let sizes = Sizes::of(&config);
        let model = sizes.model(&config, &tokenizer, &self.graph).map_err(wrong)?;
        let eos_token_id = stop_tokens(&config, &generation, &tokenizer).map_err(wrong)?;
        let search: SearchConfig = serde_json::from_value(Value::Object(generation)).map_err(|error| {
            ModelError::Invalid { path: self.root.join("generation_config.json"), reason: error.to_string() }
        })?;
        Ok(GenaiConfig { model: ModelConfig { eos_token_id, ..model }, search })
    }
}

fn onnx_files(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.ends_with(".onnx")).collect()
}

/// Graphs that are not those of a decoder by itself.
fn why_none(names: &[String]) -> String {
    let has = |part: &str| names.iter().any(|name| name.contains(part));
    let why = if has("vision") || has("audio_encoder") || has("embed_tokens") {
        "it is a vision-language or audio model in several graphs, and only text models in one graph run here"
    } else if has("encoder_model") {
        "it is an encoder-decoder model, and only decoders by themselves run here"
    } else if has("decoder_with_past_model") {
        "it is in two graphs, one for the prompt and one for tokens; export it in one"
    } else {
        "expected onnx/model.onnx, or that with one of the endings that transformers.js knows, such as _q4"
    };
    format!("none of its graphs is a decoder's ({}): {why}", names.join(", "))
}

/// Where sizes are looked for: multimodal configurations have those of the text model apart.
struct Sizes<'c>([Option<&'c Map<String, Value>>; 2]);

impl<'c> Sizes<'c> {
    fn of(config: &'c Map<String, Value>) -> Self {
        Self([Some(config), config.get("text_config").and_then(Value::as_object)])
    }

    /// The first of these keys that there is. The architectures' older names come behind.
    fn size(&self, keys: &[&str]) -> Result<Option<usize>, String> {
        for config in self.0.iter().flatten() {
            let found = keys.iter().find_map(|key| Some((key, config.get(*key).filter(|value| !value.is_null())?)));
            if let Some((key, value)) = found {
                let size = value.as_u64().and_then(|size| usize::try_from(size).ok());
                return size.map(Some).ok_or_else(|| format!("{key} is {value}; expected a whole number"));
            }
        }
        Ok(None)
    }

    fn needed(&self, keys: &[&str]) -> Result<usize, String> {
        self.size(keys)?.ok_or_else(|| format!("it has no {}, which is needed to run the model", keys.join(" nor ")))
    }

    fn model(
        &self,
        config: &Map<String, Value>,
        tokenizer: &Map<String, Value>,
        graph: &str,
    ) -> Result<ModelConfig, String> {
        let heads = self.needed(&["num_attention_heads", "n_head", "n_heads", "num_heads"])?;
        let hidden = self.needed(&["hidden_size", "n_embd", "d_model"])?;
        let length =
            ["max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length", "max_sequence_length"];
        let architecture = config.get("model_type").and_then(Value::as_str).unwrap_or("unknown").to_owned();
        Ok(ModelConfig {
            architecture,
            context_length: match self.size(&length)?.or_else(|| longest_text(tokenizer)) {
                Some(length) => length,
                None => self.needed(&length)?,
            },
            vocab_size: self.needed(&["vocab_size"])?,
            eos_token_id: TokenIds::default(),
            decoder: DecoderConfig {
                filename: Some(graph.to_owned()),
                pipeline: Default::default(),
                sliding_window: None,
                session_options: Default::default(),
                hidden_size: hidden,
                head_size: match self.size(&["head_dim"])? {
                    Some(size) => size,
                    None => hidden.checked_div(heads).unwrap_or(0),
                },
                num_hidden_layers: self.needed(&["num_hidden_layers", "n_layer", "n_layers", "num_layers"])?,
                num_key_value_heads: self.size(&["num_key_value_heads", "num_kv_heads"])?.unwrap_or(heads),
                inputs: Default::default(),
                outputs: Default::default(),
            },
        })
    }
}

/// Tokenizers without a limit write 1e30, which is none.
fn longest_text(tokenizer: &Map<String, Value>) -> Option<usize> {
    tokenizer.get("model_max_length")?.as_u64().and_then(|length| usize::try_from(length).ok())
}

/// From every file that names one: each of them is incomplete in some model.
fn stop_tokens(
    config: &Map<String, Value>,
    generation: &Map<String, Value>,
    tokenizer: &Map<String, Value>,
) -> Result<TokenIds, String> {
    let mut found = Vec::new();
    let text_config = config.get("text_config").and_then(Value::as_object);
    for source in [Some(generation), Some(config), text_config].into_iter().flatten() {
        if let Some(ids) = source.get("eos_token_id").filter(|ids| !ids.is_null()) {
            let TokenIds(ids) = serde_json::from_value(ids.clone())
                .map_err(|_| format!("eos_token_id is {ids}; expected a token's number or a list of them"))?;
            found.extend(ids);
        }
    }
    // The tokenizer names its by its text.
    let text = tokenizer.get("eos_token").and_then(|token| token.as_str().or_else(|| token.get("content")?.as_str()));
    let added = tokenizer.get("added_tokens_decoder").and_then(Value::as_object);
    let of_text = added
        .into_iter()
        .flatten()
        .filter(|(_, token)| text.is_some() && token.get("content").and_then(Value::as_str) == text);
    found.extend(of_text.filter_map(|(id, _)| id.parse::<u32>().ok()));
    let mut seen = BTreeSet::new();
    found.retain(|id| seen.insert(*id));
    Ok(TokenIds(found))
}

#[cfg(test)]
mod tests;
