//! Reads a checkpoint folder as Hugging Face's hub has them: `config.json`, one or several safetensors files, and the
//! tokenizer's files.
//!
//! Keys and tensors are given the names that llama.cpp's converter gives them, so that everything else knows one set of
//! names; errors are put back into the folder's own. `texts` reads what concerns text.

mod config;
mod rope;
#[cfg(test)]
mod tests;
mod texts;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::architecture::{Architecture, EMBEDDING, OUTPUT, OUTPUT_NORM};
use super::blocks::TensorType;
use super::error::{BuildError, ModelError};
use super::gguf::{Gguf, GgufError, Tensor};
use super::safetensors;
use crate::mapped_file::MappedFile;

const CONFIG: &str = "config.json";
const WEIGHTS: &str = "model.safetensors";
/// Says in which file each tensor is, where there are several.
const INDEX: &str = "model.safetensors.index.json";

/// An opened folder.
#[derive(Debug)]
pub struct Checkpoint {
    folder: PathBuf,
    config: Value,
    files: Vec<(PathBuf, MappedFile)>,
    /// Vectors that llama.cpp's converter computes, as a GGUF file has them: their names there, and float32.
    computed: BTreeMap<String, Vec<u8>>,
    architecture: &'static Architecture,
}

/// Tensors outside the layers.
const TENSORS: [(&str, &str); 3] =
    [("model.embed_tokens.weight", EMBEDDING), ("model.norm.weight", OUTPUT_NORM), (HEAD, OUTPUT)];
const HEAD: &str = "lm_head.weight";

/// What is in `model.layers.N.` and in `blk.N.`, before `.weight` or `.bias`.
const LAYER_PARTS: [(&str, &str); 10] = [
    ("input_layernorm", "attn_norm"),
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.q_norm", "attn_q_norm"),
    ("self_attn.k_norm", "attn_k_norm"),
    ("self_attn.o_proj", "attn_output"),
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.up_proj", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
];

/// The same of some architectures; what holds for all others is last. The first of two with a name on one side is meant.
const OWN_PARTS: [(&str, &[(&str, &str)]); 3] = [
    (
        "gemma3",
        &[
            ("post_attention_layernorm", "post_attention_norm"),
            ("pre_feedforward_layernorm", "ffn_norm"),
            ("post_feedforward_layernorm", "post_ffw_norm"),
        ],
    ),
    (
        "phi3",
        &[
            ("post_attention_layernorm", "ffn_norm"),
            ("self_attn.qkv_proj", "attn_qkv"),
            ("mlp.gate_up_proj", "ffn_up"),
            // Where it lies when it is cut.
            ("self_attn.qkv_proj", "attn_q"),
            ("self_attn.qkv_proj", "attn_k"),
            ("self_attn.qkv_proj", "attn_v"),
            ("mlp.gate_up_proj", "ffn_gate"),
        ],
    ),
    ("", &[("post_attention_layernorm", "ffn_norm")]),
];

/// Where the part that writes has its tensors in a model that has others, too: transformers 4's and 5's names.
const TEXT_PARTS: [(&str, &str); 3] =
    [("language_model.model.", "model."), ("model.language_model.", "model."), ("language_model.lm_head.", "lm_head.")];
/// What the other parts have.
const OTHER_PARTS: [&str; 4] =
    ["vision_tower.", "multi_modal_projector.", "model.vision_tower.", "model.multi_modal_projector."];

impl Checkpoint {
    /// Whether a path is a folder that a model can be built from; model folders are not.
    pub fn is_at(path: &Path) -> bool {
        path.join(CONFIG).is_file() && !path.join(crate::model::CONFIG_FILE).exists()
    }

    pub fn open(folder: &Path) -> Result<Self, BuildError> {
        let config = config::complete(read_json(&folder.join(CONFIG))?.unwrap_or_default());
        let of_model = |error| BuildError::Model { path: folder.join(CONFIG), error };
        // Whether the architecture is known is the better complaint.
        let architecture = config::architecture(&config).map_err(of_model)?;
        let factors = rope::Rope::read(&config).map_err(of_model)?.factors(&config);
        let open = |name: String| {
            let path = folder.join(name);
            match MappedFile::open(&path) {
                Ok(file) => Ok((path, file)),
                Err(error) => Err(BuildError::Read { path, error }),
            }
        };
        let files = weight_files(folder)?.into_iter().map(open).collect::<Result<_, _>>()?;
        let computed = factors.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect();
        let mut checkpoint = Self { folder: folder.to_owned(), config, files, architecture, computed };
        if architecture.norms_around_one {
            checkpoint.shift_norms()?;
        }
        Ok(checkpoint)
    }

    /// Adds 1 to the weights of all norms, as llama.cpp's converter does.
    fn shift_norms(&mut self) -> Result<(), BuildError> {
        let mut shifted = Vec::new();
        for (_, tensor) in self.tensors()? {
            if self.architecture.is_norm(&tensor.name) {
                let mut values = vec![0.0; tensor.elements()];
                tensor.kind.dequantize(tensor.bytes, &mut values);
                let bytes = values.into_iter().flat_map(|weight| (weight + 1.0).to_le_bytes()).collect();
                shifted.push((tensor.name.into_owned(), bytes));
            }
        }
        self.computed.extend(shifted);
        Ok(())
    }

    /// All tensors of the part that writes, and the file of each.
    fn tensors(&self) -> Result<Vec<(&Path, Tensor<'_>)>, BuildError> {
        let mut tensors = Vec::new();
        for (path, file) in &self.files {
            let entries =
                safetensors::parse(file).map_err(|error| BuildError::Safetensors { path: path.clone(), error })?;
            for entry in entries.into_iter().filter(|entry| !is_other_part(&entry.name)) {
                let found = tensor(entry, self.architecture);
                let found = found.map_err(|error| BuildError::Model { path: path.clone(), error })?;
                tensors.push((path.as_path(), found));
            }
        }
        Ok(tensors)
    }

    /// Of all weights' files.
    pub fn bytes(&self) -> usize {
        self.files.iter().map(|(_, file)| file.len()).sum()
    }

    /// See `MappedFile::release`.
    pub fn release(&self, part: &[u8]) {
        self.files.iter().for_each(|(_, file)| file.release(part));
    }

    /// What a GGUF file of this model would say of its sizes, and its tensors; nothing of its vocabulary.
    pub fn as_gguf(&self) -> Result<Gguf<'_>, BuildError> {
        let of_model = |error| BuildError::Model { path: self.folder.join(CONFIG), error };
        let metadata = config::metadata(&self.config).map_err(of_model)?;
        let tied = self.config.get("tie_word_embeddings").and_then(Value::as_bool);
        let mut tensors = BTreeMap::new();
        for (path, tensor) in self.tensors()? {
            // A copy of what the embedding has already.
            if tensor.name == OUTPUT && tied == Some(true) {
                continue;
            }
            let name = tensor.name.clone();
            if tensors.insert(name.clone(), tensor).is_some() {
                let error = GgufError::DuplicateTensor { tensor: own_tensor(&name, self.architecture) };
                return Err(BuildError::Model { path: path.to_owned(), error: error.into() });
            }
        }
        if tied == Some(false) && !tensors.contains_key(OUTPUT) {
            return Err(of_model(ModelError::MissingTensor { tensor: HEAD.to_owned() }));
        }
        for (name, bytes) in &self.computed {
            let (name, shape) = (Cow::Borrowed(name.as_str()), vec![bytes.len() / 4]);
            tensors.insert(name.clone(), Tensor { name, kind: TensorType::F32, shape, bytes });
        }
        Ok(Gguf::assemble(metadata, tensors))
    }

    /// Puts an error about a GGUF file's keys and tensors into the words of a checkpoint.
    pub fn in_own_words(&self, error: ModelError) -> ModelError {
        match error {
            ModelError::Gguf(GgufError::MissingKey { key }) => {
                let (key, expected) = (config::own_key(&key), format!("a value in {CONFIG}"));
                ModelError::Value { key, found: "missing".to_owned(), expected }
            }
            ModelError::Gguf(GgufError::WrongValue { key, found, expected }) => {
                ModelError::Value { key: config::own_key(&key), found, expected: expected.to_owned() }
            }
            ModelError::Value { key, found, expected } => {
                ModelError::Value { key: config::own_key(&key), found, expected }
            }
            ModelError::MissingTensor { tensor } => {
                ModelError::MissingTensor { tensor: own_tensor(&tensor, self.architecture) }
            }
            ModelError::NotFinite { tensor } => {
                ModelError::NotFinite { tensor: own_tensor(&tensor, self.architecture) }
            }
            ModelError::TensorShape { tensor, found, expected } => {
                let turned = |shape: Vec<usize>| shape.into_iter().rev().collect();
                ModelError::TensorShape {
                    tensor: own_tensor(&tensor, self.architecture),
                    found: turned(found),
                    expected: turned(expected),
                }
            }
            ModelError::UnknownTensors { architecture, first, others } => {
                ModelError::UnknownTensors { architecture, first: own_tensor(&first, self.architecture), others }
            }
            other => other,
        }
    }
}

/// The names of the files with weights.
fn weight_files(folder: &Path) -> Result<Vec<String>, BuildError> {
    let wrong = |problem: String| BuildError::Checkpoint { path: folder.to_owned(), problem };
    let Some(index) = read_json(&folder.join(INDEX))? else {
        return match folder.join(WEIGHTS).is_file() {
            true => Ok(vec![WEIGHTS.to_owned()]),
            false => Err(wrong(format!("has neither {WEIGHTS} nor {INDEX}; other formats of weights are not read"))),
        };
    };
    let map = index.get("weight_map").and_then(Value::as_object);
    let map = map.ok_or_else(|| wrong(format!("has no \"weight_map\" in its {INDEX}")))?;
    let mut files = BTreeSet::new();
    for (tensor, file) in map {
        // A name, and nothing that leads out of the folder.
        let name = file.as_str().filter(|name| !name.contains(['/', '\\']) && name.ends_with(".safetensors"));
        let name = name.ok_or_else(|| {
            wrong(format!("has {tensor:?} in {file} by its {INDEX}, expected the name of a .safetensors file"))
        })?;
        files.insert(name.to_owned());
    }
    if files.is_empty() {
        Err(wrong(format!("has no tensors by its {INDEX}")))
    } else {
        Ok(files.into_iter().collect())
    }
}

/// Nothing where the file is missing.
fn read_json(path: &Path) -> Result<Option<Value>, BuildError> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(BuildError::Read { path: path.to_owned(), error }),
    };
    match serde_json::from_slice(&text) {
        Ok(value) => Ok(Some(value)),
        Err(error) => Err(BuildError::Read { path: path.to_owned(), error: error.into() }),
    }
}

fn tensor<'a>(entry: safetensors::Entry<'a>, architecture: &Architecture) -> Result<Tensor<'a>, ModelError> {
    let kind = match entry.dtype.as_str() {
        "F32" => TensorType::F32,
        "F16" => TensorType::F16,
        "BF16" => TensorType::Bf16,
        _ => return Err(ModelError::TensorType { tensor: entry.name, found: entry.dtype }),
    };
    let elements = entry.elements();
    if elements == 0 || elements.checked_mul(kind.block_bytes()) != Some(entry.bytes.len()) {
        let (tensor, found) = (entry.name, entry.bytes.len());
        return Err(ModelError::TensorBytes { tensor, shape: entry.shape, found });
    }
    let shape = entry.shape.iter().rev().copied().collect();
    Ok(Tensor { name: Cow::Owned(gguf_tensor(entry.name, architecture)), kind, shape, bytes: entry.bytes })
}

/// llama.cpp's name of a tensor, or its own where it has none.
fn gguf_tensor(name: String, architecture: &Architecture) -> String {
    let inner = TEXT_PARTS.iter().find_map(|(start, text)| Some(format!("{text}{}", name.strip_prefix(start)?)));
    let name = inner.unwrap_or(name);
    if let Some((_, known)) = TENSORS.iter().find(|(own, _)| *own == name) {
        return (*known).to_owned();
    }
    let in_layer = || {
        let (layer, rest) = name.strip_prefix("model.layers.")?.split_once('.')?;
        let (part, end) = rest.rsplit_once('.')?;
        let (_, known) = layer_parts(architecture).find(|(own, _)| *own == part)?;
        Some(format!("blk.{layer}.{known}.{end}"))
    };
    in_layer().unwrap_or(name)
}

/// The reverse of `gguf_tensor`.
fn own_tensor(name: &str, architecture: &Architecture) -> String {
    if let Some((own, _)) = TENSORS.iter().find(|(_, known)| *known == name) {
        return (*own).to_owned();
    }
    let in_layer = || {
        let (layer, rest) = name.strip_prefix("blk.")?.split_once('.')?;
        let (part, end) = rest.rsplit_once('.')?;
        let (own, _) = layer_parts(architecture).find(|(_, known)| *known == part)?;
        Some(format!("model.layers.{layer}.{own}.{end}"))
    };
    in_layer().unwrap_or_else(|| name.to_owned())
}

/// Whether a tensor is of a part that is not read here.
fn is_other_part(tensor: &str) -> bool {
    OTHER_PARTS.iter().any(|start| tensor.starts_with(start))
}

/// The names of the parts of a layer, here and there.
fn layer_parts(architecture: &Architecture) -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    let own = OWN_PARTS.iter().find(|(name, _)| *name == architecture.name || name.is_empty());
    own.into_iter().flat_map(|(_, parts)| *parts).chain(&LAYER_PARTS)
}
