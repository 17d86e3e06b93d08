//! Which files of a repository make a model that ortalk runs, by their names alone: one [`Variant`] for each such model.
//!
//! | format | a variant is | its name |
//! | --- | --- | --- |
//! | GGUF | one file | its quantization, from the file's name: `Q8_0` |
//! | onnxruntime-genai | a folder with `genai_config.json` | the folder: `cpu_and_mobile/cpu-int4-rtn-block-32` |
//! | transformers.js, Optimum | one graph below `onnx/` with its data | what its name ends with: `q4`, `fp32` where it is `model.onnx` |
//! | checkpoint | safetensors with `config.json` | `checkpoint` |

use std::fmt;

use serde::Serialize;

/// A repository's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEntry {
    /// With `/` between folders.
    pub path: String,
    pub bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// Built here for either target.
    Gguf,
    /// A model folder, as it is.
    Genai,
    /// A graph with `config.json` beside its folder, as it is.
    Optimum,
    /// Built here for either target.
    Checkpoint,
}

/// A model in a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variant {
    pub name: String,
    pub format: Format,
    /// What ortalk opens, below the snapshot: a file or a folder; empty for the snapshot itself.
    pub opens: String,
    /// All that it needs; the last one is what makes it look whole, so it comes last.
    pub files: Vec<FileEntry>,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Gguf => "GGUF",
            Self::Genai => "onnxruntime-genai",
            Self::Optimum => "ONNX",
            Self::Checkpoint => "checkpoint",
        })
    }
}

impl Variant {
    /// Saturating: whoever lists such sizes is told that the disk is too small.
    pub fn bytes(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.bytes))
    }
}

const GENAI_CONFIG: &str = "genai_config.json";

/// The only name that a checkpoint's variant has.
pub const CHECKPOINT: &str = "checkpoint";

/// What describes a model beside its weights, at the top of a repository.
const DESCRIPTIONS: [&str; 13] = [
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
    "chat_template.json",
    "LICENSE",
    "LICENSE.txt",
    "LICENSE.md",
];

/// The models among these files, those of one format after each other.
pub fn find(files: &[FileEntry]) -> Vec<Variant> {
    let mut found = gguf(files);
    found.extend(genai(files));
    found.extend(optimum(files));
    found.extend(checkpoint(files));
    found
}

fn gguf(files: &[FileEntry]) -> Vec<Variant> {
    let whole = |file: &&FileEntry| {
        let name = file_name(&file.path).to_ascii_lowercase();
        // Projectors and importance matrices are no models; ortalk reads no model in parts.
        name.ends_with(".gguf")
            && !["mmproj", "imatrix"].iter().any(|word| name.contains(word))
            && shard(&name).is_none()
    };
    let variant = |file: &FileEntry| {
        let stem = file_name(&file.path);
        let stem = &stem[..stem.len() - ".gguf".len()];
        let name = quantization(stem).unwrap_or(stem).to_string();
        Variant { name, format: Format::Gguf, opens: file.path.clone(), files: vec![file.clone()] }
    };
    let mut found: Vec<Variant> = files.iter().filter(whole).map(variant).collect();
    // Several models in one repository: only their whole names tell them apart.
    let names: Vec<String> = found.iter().map(|variant| variant.name.clone()).collect();
    for variant in &mut found {
        if names.iter().filter(|name| **name == variant.name).count() > 1 {
            variant.name = variant.opens[..variant.opens.len() - ".gguf".len()].to_string();
        }
    }
    found
}

/// The quantization at the end of a GGUF file's name: `Q4_K_M`, `UD-Q4_K_XL`, `BF16`.
fn quantization(stem: &str) -> Option<&str> {
    let start = stem.rfind(['-', '.']).map_or(0, |at| at + 1);
    let last = &stem[start..];
    let upper = last.to_ascii_uppercase();
    let numbered =
        |prefix: &str| upper.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    if !["Q", "IQ", "TQ", "F", "BF", "MXFP"].into_iter().any(numbered) {
        return None;
    }
    let dynamic = start.checked_sub("UD-".len()).filter(|at| stem[*at..].to_ascii_uppercase().starts_with("UD-"));
    Some(&stem[dynamic.unwrap_or(start)..])
}

fn genai(files: &[FileEntry]) -> Vec<Variant> {
    let configs: Vec<&FileEntry> = files.iter().filter(|file| file_name(&file.path) == GENAI_CONFIG).collect();
    let folders: Vec<&str> = configs.iter().map(|file| folder(&file.path)).collect();
    let variant = |config: &&FileEntry| {
        let own = folder(&config.path);
        let is_own = |file: &&FileEntry| {
            let inside = folder(&file.path);
            let deeper = inside.strip_prefix(own).is_some_and(|rest| rest.starts_with('/')) && !own.is_empty();
            let nested = folders
                .iter()
                .any(|other| *other != own && (inside == *other || inside.starts_with(&format!("{other}/"))));
            let wanted = !file.path.ends_with(".md") && !file_name(&file.path).starts_with('.');
            (inside == own || (deeper && !nested)) && wanted && file.path != config.path
        };
        let mut own_files: Vec<FileEntry> = files.iter().filter(is_own).cloned().collect();
        // A configuration whose graphs are elsewhere is no folder that could be opened.
        own_files.iter().any(|file| file.path.ends_with(".onnx")).then(|| {
            own_files.push((*config).clone());
            let name = if own.is_empty() { "genai" } else { own };
            Variant { name: name.to_string(), format: Format::Genai, opens: own.to_string(), files: own_files }
        })
    };
    configs.iter().filter_map(variant).collect()
}

fn optimum(files: &[FileEntry]) -> Vec<Variant> {
    let Some(config) = at(files, "config.json") else { return Vec::new() };
    let stems: Vec<(&FileEntry, &str)> = files
        .iter()
        .filter_map(|file| Some((file, file.path.strip_prefix("onnx/")?.strip_suffix(".onnx")?)))
        .filter(|(_, stem)| !stem.contains('/'))
        .collect();
    let of_kind = |kind: &str| -> Vec<(&FileEntry, String)> {
        let name = |stem: &str| match stem.strip_prefix(kind)? {
            "" => Some("fp32".to_string()),
            rest => rest.strip_prefix('_').map(str::to_string),
        };
        stems.iter().filter_map(|(file, stem)| Some((*file, name(stem)?))).collect()
    };
    // Older exports have decoders whose name says that both of their halves are one graph.
    let mut graphs = of_kind("model");
    // Beside an encoder or an embedding it is only a part of a model that hears or sees.
    let is_part = || stems.iter().any(|(_, stem)| stem.starts_with("encoder") || stem.contains("embed_tokens"));
    if graphs.is_empty() && !is_part() {
        graphs = of_kind("decoder_model_merged");
    }
    let variant = |(graph, name): (&FileEntry, String)| {
        let is_data = |file: &&FileEntry| {
            file.path.strip_prefix(graph.path.as_str()).is_some_and(|rest| rest.starts_with(['_', '.']))
        };
        let mut own: Vec<FileEntry> = files.iter().filter(is_data).cloned().collect();
        own.extend(descriptions(files));
        own.push(config.clone());
        own.push(graph.clone());
        Variant { name, format: Format::Optimum, opens: graph.path.clone(), files: own }
    };
    graphs.into_iter().map(variant).collect()
}

fn checkpoint(files: &[FileEntry]) -> Option<Variant> {
    const INDEX: &str = "model.safetensors.index.json";
    let config = at(files, "config.json")?;
    let mut own: Vec<FileEntry> = match at(files, INDEX) {
        Some(index) => {
            let shards: Vec<(&FileEntry, (usize, usize))> = files
                .iter()
                .filter(|file| file.path.starts_with("model-") && file.path.ends_with(".safetensors"))
                .filter_map(|file| Some((file, shard(&file.path)?)))
                .collect();
            let (_, (_, count)) = shards.first()?;
            if shards.len() != *count {
                return None;
            }
            shards.into_iter().map(|(file, _)| file).chain([index]).cloned().collect()
        }
        None => vec![at(files, "model.safetensors")?.clone()],
    };
    own.extend(descriptions(files));
    own.push(config.clone());
    Some(Variant { name: CHECKPOINT.to_string(), format: Format::Checkpoint, opens: String::new(), files: own })
}

fn descriptions(files: &[FileEntry]) -> impl Iterator<Item = FileEntry> {
    files.iter().filter(|file| DESCRIPTIONS.contains(&file.path.as_str())).cloned()
}

fn at<'f>(files: &'f [FileEntry], path: &str) -> Option<&'f FileEntry> {
    files.iter().find(|file| file.path == path)
}

/// The 2 and 5 of `x-00002-of-00005.gguf`.
fn shard(name: &str) -> Option<(usize, usize)> {
    let stem = name.rsplit_once('.')?.0;
    let (rest, count) = stem.rsplit_once("-of-")?;
    Some((rest.rsplit_once('-')?.1.parse().ok()?, count.parse().ok()?))
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Files of a hundred bytes each.
    pub fn files(paths: &[&str]) -> Vec<FileEntry> {
        paths.iter().map(|path| FileEntry { path: path.to_string(), bytes: 100 }).collect()
    }

    fn found(paths: &[&str]) -> Vec<(String, Format, String, Vec<String>)> {
        let parts = |v: Variant| (v.name, v.format, v.opens, v.files.into_iter().map(|file| file.path).collect());
        find(&files(paths)).into_iter().map(parts).collect()
    }

    fn names(paths: &[&str]) -> Vec<String> {
        found(paths).into_iter().map(|(name, ..)| name).collect()
    }

    #[test]
    fn gguf_files_are_named_by_their_quantization() {
        let paths = [
            "README.md",
            "Qwen3-0.6B-Q8_0.gguf",
            "SmolLM2-135M-Instruct.Q4_1.gguf",
            "x-UD-Q4_K_XL.gguf",
            "x-BF16.gguf",
            "qwen2.5-0.5b-instruct-q5_k_m.gguf",
            "x-IQ4_XS.gguf",
            "gemma-3-1b-it.gguf",
            "config.json",
        ];
        let expected = ["Q8_0", "Q4_1", "UD-Q4_K_XL", "BF16", "q5_k_m", "IQ4_XS", "gemma-3-1b-it"];
        assert_eq!(names(&paths), expected);
        assert_eq!(found(&paths)[0].3, ["Qwen3-0.6B-Q8_0.gguf"]);
    }

    #[test]
    fn parts_projectors_and_matrices_are_no_models() {
        assert_eq!(
            names(&["mmproj-model-f16.gguf", "x-00001-of-00002.gguf", "x-00002-of-00002.gguf", "x.imatrix.gguf"]),
            [""; 0]
        );
    }

    #[test]
    fn two_models_of_one_quantization_keep_their_names() {
        assert_eq!(names(&["a-Q8_0.gguf", "b-Q8_0.gguf", "b-Q4_0.gguf"]), ["a-Q8_0", "b-Q8_0", "Q4_0"]);
    }

    #[test]
    fn every_folder_of_onnxruntime_genai_is_one_model() {
        let found = found(&[
            "README.md",
            "cpu_and_mobile/cpu-int4/genai_config.json",
            "cpu_and_mobile/cpu-int4/model.onnx",
            "cpu_and_mobile/cpu-int4/model.onnx.data",
            "cpu_and_mobile/cpu-int4/README.md",
            "gpu/gpu-int4/genai_config.json",
            "gpu/gpu-int4/model.onnx",
            "elsewhere/genai_config.json",
        ]);
        assert_eq!(found.len(), 2);
        let (name, format, opens, files) = &found[0];
        assert_eq!(
            (name.as_str(), *format, opens.as_str()),
            ("cpu_and_mobile/cpu-int4", Format::Genai, "cpu_and_mobile/cpu-int4")
        );
        let own = ["model.onnx", "model.onnx.data", "genai_config.json"]
            .map(|name| format!("cpu_and_mobile/cpu-int4/{name}"));
        assert_eq!(files, &own);
    }

    #[test]
    fn a_model_folder_may_be_the_whole_repository() {
        let found = found(&[".gitattributes", "genai_config.json", "model.onnx", "tokenizer.json", "other/x.onnx"]);
        assert_eq!((found[0].0.as_str(), found[0].2.as_str()), ("genai", ""));
        assert_eq!(found[0].3, ["model.onnx", "tokenizer.json", "genai_config.json"]);
    }

    #[test]
    fn each_graph_of_optimum_has_its_data_and_the_descriptions() {
        let paths = [
            "config.json",
            "tokenizer.json",
            "onnx/model.onnx",
            "onnx/model.onnx_data",
            "onnx/model_q4.onnx",
            "onnx/model_q4.onnx_data",
            "onnx/model_q4.onnx_data_1",
            "onnx/model_q4f16.onnx",
            "onnx/model_q4f16.onnx_data",
            "onnx/vision_encoder.onnx",
            "README.md",
        ];
        assert_eq!(names(&paths), ["fp32", "q4", "q4f16"]);
        let found = found(&paths);
        assert_eq!(found[1].2, "onnx/model_q4.onnx");
        let q4 = [
            "onnx/model_q4.onnx_data",
            "onnx/model_q4.onnx_data_1",
            "tokenizer.json",
            "config.json",
            "onnx/model_q4.onnx",
        ];
        assert_eq!(found[1].3, q4);
        // Without config.json nobody knows what the graph is.
        assert_eq!(names(&paths[1..]), [""; 0]);
    }

    #[test]
    fn decoders_of_older_exports_are_found_too() {
        let paths = ["config.json", "onnx/decoder_model_merged_quantized.onnx", "onnx/decoder_model.onnx"];
        assert_eq!(names(&paths), ["quantized"]);
        for other in ["onnx/encoder_model.onnx", "onnx/embed_tokens_q4.onnx"] {
            assert_eq!(names(&[&paths[..], &[other]].concat()), [""; 0], "{other}");
        }
    }

    #[test]
    fn a_checkpoint_is_one_file_or_all_of_its_parts() {
        let one = found(&["config.json", "model.safetensors", "tokenizer.json", "consolidated.safetensors"]);
        assert_eq!((one[0].0.as_str(), one[0].2.as_str()), (CHECKPOINT, ""));
        assert_eq!(one[0].3, ["model.safetensors", "tokenizer.json", "config.json"]);
        let parts = [
            "config.json",
            "model.safetensors.index.json",
            "model-00001-of-00002.safetensors",
            "model-00002-of-00002.safetensors",
        ];
        assert_eq!(found(&parts)[0].3.len(), 4);
        assert_eq!(names(&parts[..3]), [""; 0]);
        assert_eq!(names(&["config.json", "pytorch_model.bin"]), [""; 0]);
    }
}
