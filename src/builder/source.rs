//! A GGUF file as both targets build from it: opened, checked, and what of it goes into every model folder.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::BuildOptions;
use super::architecture::{self, Architecture, Dimensions};
use super::error::{BuildError, ModelError};
use super::folder::NewFolder;
use super::genai_config::{Graphs, SamplingDefaults, genai_config};
use super::gguf::{Gguf, GgufError};
use super::mapped_file::MappedFile;
use super::tokenizer::Vocabulary;
use super::weights::StoreError;
use crate::model::CONFIG_FILE;

/// A model file that can be built.
pub struct Source<'a> {
    pub path: &'a Path,
    bytes: usize,
    pub gguf: Gguf<'a>,
    pub architecture: &'static Architecture,
    pub dimensions: Dimensions,
    /// What it is called on screen.
    pub name: String,
    pub sampling: SamplingDefaults,
}

impl<'a> Source<'a> {
    pub fn read(path: &'a Path, file: &'a MappedFile, options: &BuildOptions) -> Result<Self, BuildError> {
        let gguf = Gguf::parse(file).map_err(|error| BuildError::Gguf { path: path.to_owned(), error })?;
        let of_model = |error: ModelError| BuildError::Model { path: path.to_owned(), error };
        architecture::refuse_parts(&gguf).map_err(of_model)?;
        let architecture = architecture::of(&gguf).map_err(of_model)?;
        let dimensions = Dimensions::read(&gguf, architecture).map_err(of_model)?;
        architecture::check_tensors(&gguf, architecture, dimensions.layers).map_err(of_model)?;
        let sampling = match options.sampling {
            Some(sampling) => sampling,
            None => sampling_of(&gguf).map_err(|error| of_model(error.into()))?,
        };
        // The file's name is what a person knows it by; `general.name` may say "Smollm2 135M 8k Lc100K Mix1 Ep2".
        let stem = || path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let name = options.name.clone().unwrap_or_else(stem);
        Ok(Self { path, bytes: file.len(), gguf, architecture, dimensions, name, sampling })
    }

    pub fn vocabulary(&self) -> Result<Vocabulary<'_, 'a>, BuildError> {
        Vocabulary::read(&self.gguf, self.dimensions.vocabulary).map_err(|error| self.wrong(error))
    }

    pub fn parameters(&self) -> u64 {
        self.gguf.tensors().map(|tensor| tensor.elements() as u64).sum()
    }

    /// An error in the model itself.
    pub fn wrong(&self, error: ModelError) -> BuildError {
        BuildError::Model { path: self.path.to_owned(), error }
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
                "file": self.path.file_name().unwrap_or_default().to_string_lossy(),
                "bytes": self.bytes,
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
    vocabulary: &Vocabulary<'_, '_>,
    graphs: Graphs<'_>,
) -> Result<(), BuildError> {
    let Source { architecture, dimensions, sampling, .. } = source;
    let config = genai_config(architecture, dimensions, vocabulary, sampling, graphs);
    folder.write_json(CONFIG_FILE, &config)?;
    let context = match graphs {
        Graphs::One(_) => dimensions.context,
        Graphs::Bundle(bundle) => bundle.context,
    };
    folder.write_json("tokenizer_config.json", &vocabulary.config_json(context))?;
    // Fifty thousand merges, one a line, help nobody: this one is written compactly.
    folder.write("tokenizer.json", vocabulary.tokenizer_json().to_string().as_bytes())?;
    if let Some(template) = vocabulary.chat_template {
        folder.write("chat_template.jinja", template.as_bytes())?;
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
