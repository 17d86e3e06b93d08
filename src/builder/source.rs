//! A checkpoint as both targets build from it, whether it is a GGUF file or a folder of Hugging Face's: opened, checked, and
//! what of it goes into every model folder. Its keys and tensors have the names that they have in a GGUF file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde_json::{Value, json};

use super::BuildOptions;
use super::architecture::{self, Architecture, Dimensions};
use super::error::{BuildError, ModelError};
use super::folder::NewFolder;
use super::genai_config::{Graphs, SamplingDefaults, genai_config};
use super::gguf::{Gguf, GgufError, Tensor};
use super::hugging_face::Checkpoint;
use super::tokenizer::Vocabulary;
use super::weights::StoreError;
use crate::mapped_file::MappedFile;
use crate::model::{CONFIG_FILE, TemplateSources, name_in_hub_cache};

/// A checkpoint's files, opened.
#[derive(Debug)]
pub struct SourceFiles {
    path: PathBuf,
    files: Files,
}

#[derive(Debug)]
enum Files {
    Gguf(MappedFile),
    Folder(Checkpoint),
}

/// A model that can be built.
pub struct Source<'a> {
    files: &'a SourceFiles,
    pub gguf: Gguf<'a>,
    pub architecture: &'static Architecture,
    pub dimensions: Dimensions,
    /// What it is called on screen.
    pub name: String,
    pub sampling: SamplingDefaults,
}

/// What a model folder has of the tokenizer, and of chats.
#[derive(Debug, Clone, PartialEq)]
pub struct Texts {
    /// `tokenizer.json`.
    pub tokenizer: Vec<u8>,
    /// `tokenizer_config.json`.
    pub config: Value,
    pub template: Option<TemplateSources>,
    pub special: SpecialTokens,
}

/// The tokens that a model's configuration names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpecialTokens {
    pub bos: Option<usize>,
    pub padding: Option<usize>,
    /// Every token that ends an answer, the model's own first.
    pub ends: Vec<usize>,
}

/// Whether a path is a folder that a model can be built from, and not a model folder.
pub fn is_checkpoint(path: &Path) -> bool {
    Checkpoint::is_at(path)
}

/// What a checkpoint is called by those who named its file or folder.
pub fn name(path: &Path) -> String {
    if path.is_dir()
        && let Some(name) = name_in_hub_cache(path)
    {
        return name;
    }
    // A folder's name may have a point in it: Qwen3-0.6B.
    let name = if path.is_dir() { path.file_name() } else { path.file_stem() };
    name.unwrap_or_default().to_string_lossy().into_owned()
}

/// What tells a checkpoint from what was at its place before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    pub path: PathBuf,
    /// Name, bytes and age (nanoseconds since 1970) of each file.
    pub files: Vec<(String, u64, String)>,
}

impl Stamp {
    pub fn of(source: &Path) -> Result<Self, BuildError> {
        let stamp = |path: &Path| -> std::io::Result<(String, u64, String)> {
            let metadata = std::fs::metadata(path)?;
            let age = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            Ok((name, metadata.len(), age.as_nanos().to_string()))
        };
        let read = || -> std::io::Result<Self> {
            let path = std::fs::canonicalize(source)?;
            if !path.is_dir() {
                return Ok(Self { files: vec![stamp(&path)?], path });
            }
            let mut files = Vec::new();
            for entry in std::fs::read_dir(&path)? {
                let entry = entry?.path();
                if entry.is_file() {
                    files.push(stamp(&entry)?);
                }
            }
            files.sort();
            Ok(Self { files, path })
        };
        read().map_err(|error| BuildError::Read { path: source.to_owned(), error })
    }
}

impl SourceFiles {
    /// Opens a GGUF file or a checkpoint folder.
    pub fn open(path: &Path) -> Result<Self, BuildError> {
        let files = if Checkpoint::is_at(path) {
            Files::Folder(Checkpoint::open(path)?)
        } else if path.is_dir() {
            let problem = "is a folder without config.json; give a GGUF file, or a folder with config.json and \
                           .safetensors files as Hugging Face's hub has them";
            return Err(BuildError::Checkpoint { path: path.to_owned(), problem: problem.to_owned() });
        } else {
            let open = MappedFile::open(path);
            Files::Gguf(open.map_err(|error| BuildError::Read { path: path.to_owned(), error })?)
        };
        Ok(Self { path: path.to_owned(), files })
    }

    fn bytes(&self) -> usize {
        match &self.files {
            Files::Gguf(file) => file.len(),
            Files::Folder(folder) => folder.bytes(),
        }
    }

    /// An error in the model itself.
    fn wrong(&self, error: ModelError) -> BuildError {
        let error = match &self.files {
            Files::Gguf(_) => error,
            Files::Folder(folder) => folder.in_own_words(error),
        };
        BuildError::Model { path: self.path.clone(), error }
    }
}

impl<'a> Source<'a> {
    pub fn read(files: &'a SourceFiles, options: &BuildOptions) -> Result<Self, BuildError> {
        let of_model = |error: ModelError| files.wrong(error);
        let mut gguf = match &files.files {
            Files::Gguf(file) => {
                let of_file = |error| BuildError::Gguf { path: files.path.clone(), error };
                let gguf = Gguf::parse(file).map_err(of_file)?;
                architecture::refuse_parts(&gguf).map_err(of_model)?;
                gguf
            }
            Files::Folder(folder) => folder.as_gguf()?,
        };
        let architecture = architecture::of(&gguf).map_err(of_model)?;
        let mut dimensions = Dimensions::read(&gguf, architecture).map_err(of_model)?;
        if let Some(context) = options.context {
            dimensions.limit_context(context).map_err(|most| BuildError::Context { found: context, most })?;
        }
        architecture::split_fused(&mut gguf, architecture, &dimensions).map_err(of_model)?;
        architecture::check_tensors(&gguf, architecture, dimensions.layers).map_err(of_model)?;
        let sampling = match (options.sampling, &files.files) {
            (Some(sampling), _) => sampling,
            (None, Files::Gguf(_)) => sampling_of(&gguf).map_err(|error| of_model(error.into()))?,
            (None, Files::Folder(folder)) => folder.sampling()?,
        };
        // The file's name is what a person knows it by; `general.name` may say "Smollm2 135M 8k Lc100K Mix1 Ep2".
        let name = options.name.clone().unwrap_or_else(|| name(&files.path));
        Ok(Self { files, gguf, architecture, dimensions, name, sampling })
    }

    pub fn texts(&self) -> Result<Texts, BuildError> {
        match &self.files.files {
            Files::Gguf(_) => {
                let vocabulary = Vocabulary::read(&self.gguf, self.dimensions.vocabulary);
                Ok(vocabulary.map_err(|error| self.wrong(error))?.texts(self.dimensions.context))
            }
            Files::Folder(folder) => folder.texts(self.dimensions.vocabulary),
        }
    }

    pub fn parameters(&self) -> u64 {
        self.gguf.tensors().map(|tensor| tensor.elements() as u64).sum()
    }

    /// Says that a tensor was used: what is in memory of it goes, so that a build needs little however large the model is.
    pub fn release(&self, tensor: &Tensor<'_>) {
        match &self.files.files {
            Files::Gguf(file) => file.release(tensor.bytes),
            Files::Folder(folder) => folder.release(tensor.bytes),
        }
    }

    /// An error in the model itself.
    pub fn wrong(&self, error: ModelError) -> BuildError {
        self.files.wrong(error)
    }

    /// An error while weights were written to `path`.
    pub fn not_stored(&self, error: StoreError, path: &Path) -> BuildError {
        match error {
            StoreError::Model(error) => self.wrong(error),
            StoreError::Write(error) => BuildError::Write { path: path.to_owned(), error },
        }
    }

    /// Where the folder comes from: what `ortalk_build.json` says for every target.
    pub fn origin(&self, recipe: &str) -> Value {
        let mut types: BTreeMap<String, usize> = BTreeMap::new();
        for tensor in self.gguf.tensors() {
            *types.entry(tensor.kind.to_string()).or_default() += 1;
        }
        json!({
            "source": {
                "file": self.files.path.file_name().unwrap_or_default().to_string_lossy(),
                "bytes": self.files.bytes(),
            },
            "architecture": self.architecture.name,
            "name": self.name,
            "parameters": self.parameters(),
            "tensor_types": types,
            "recipe": recipe,
            "builder": {"name": env!("CARGO_PKG_NAME"), "version": env!("CARGO_PKG_VERSION")},
        })
    }
}

/// Writes what every model folder has beside its graphs: configuration, tokenizer, chat template.
pub fn write_descriptions(
    source: &Source<'_>,
    folder: &NewFolder,
    texts: &Texts,
    graphs: Graphs<'_>,
) -> Result<(), BuildError> {
    let Source { architecture, dimensions, sampling, .. } = source;
    folder.write_json(CONFIG_FILE, &genai_config(architecture, dimensions, &texts.special, sampling, graphs))?;
    let context = match graphs {
        Graphs::One(_) => dimensions.context,
        Graphs::Bundle(bundle) => bundle.context,
    };
    let mut config = texts.config.clone();
    if let Some(config) = config.as_object_mut() {
        config.insert("model_max_length".to_owned(), json!(context));
    }
    folder.write_json("tokenizer_config.json", &config)?;
    folder.write("tokenizer.json", &texts.tokenizer)?;
    if let Some(TemplateSources { default, named }) = &texts.template {
        folder.write(TemplateSources::FILE, default.as_bytes())?;
        for (name, template) in named {
            folder.write(&format!("{}/{name}.jinja", TemplateSources::FOLDER), template.as_bytes())?;
        }
    }
    Ok(())
}

/// The sampling that the file recommends, filled up with moderate values.
fn sampling_of(gguf: &Gguf<'_>) -> Result<SamplingDefaults, GgufError> {
    let moderate = SamplingDefaults::default();
    let float = |key: &str, range: std::ops::RangeInclusive<f64>, default: f32| {
        Ok(gguf.float(key)?.filter(|value| range.contains(value)).map_or(default, |value| value as f32))
    };
    let top_k = gguf.unsigned("general.sampling.top_k")?.and_then(|value| u32::try_from(value).ok());
    Ok(SamplingDefaults {
        temperature: float("general.sampling.temp", 0.0..=10.0, moderate.temperature)?,
        top_p: float("general.sampling.top_p", 0.0..=1.0, moderate.top_p)?,
        top_k: top_k.unwrap_or(moderate.top_k),
    })
}
