//! Folders: model folders as onnxruntime-genai lays them out, bundles for an NPU among them, and folders of safetensors.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{CpuLane, Graph, InspectError, Inspection, Kind, Memory, Sizes, onnx, safetensors};
use crate::decoder::{Contract, GraphOutline};
use crate::model::memory::LaneMemory;
use crate::model::{self, BUILD_FILE, CONFIG_FILE, Described, ModelFolder, NPU_FILE, NpuBundle, OptimumFolder};

/// Why nothing can be built from what is built.
const BUILT: &str = "this is built already";

pub fn inspect(path: &Path) -> Result<Inspection, InspectError> {
    let files = files(path)?;
    let with = |extension: &str| -> Vec<PathBuf> {
        files.iter().filter(|file| file.extension().is_some_and(|found| found == extension)).cloned().collect()
    };
    if path.join(CONFIG_FILE).exists() {
        return model_folder(path, &files, &with("onnx"));
    }
    let safetensors = with("safetensors");
    if !safetensors.is_empty() {
        return safetensors::inspect(path, &safetensors);
    }
    match OptimumFolder::find(path) {
        Ok(None) => {}
        Ok(Some(_)) => return model_folder(path, &files, &[]),
        Err(error) => return Err(InspectError::Wrong { path: path.into(), what: format!("cannot run: {error}") }),
    }
    Err(InspectError::Unknown(path.into()))
}

/// An ONNX file that is named by itself.
pub fn graph_alone(path: &Path) -> Result<Inspection, InspectError> {
    let graph = onnx::inspect(path)?;
    let kind = if graph.contexts.is_empty() { Kind::Onnx } else { Kind::EpContext };
    let mut found = Inspection::new(kind, path, size(path));
    found.weights.clone_from(&graph.weights);
    found.graphs = vec![graph];
    // One of a transformers.js folder's variants can be run by its path.
    if OptimumFolder::find(path).is_ok_and(|folder| folder.is_some())
        && let Ok(Described { root, config, notes }) = Described::at(path)
    {
        found.cpu_lane = Some(CpuLane::of(&root, &config, notes));
    }
    Ok(found.not_a_source("this is one graph"))
}

fn model_folder(path: &Path, files: &BTreeSet<PathBuf>, onnx: &[PathBuf]) -> Result<Inspection, InspectError> {
    let wrong =
        |error: model::ModelError| InspectError::Wrong { path: path.into(), what: format!("is not right: {error}") };
    let Described { root, config, notes } = Described::at(path).map_err(wrong)?;
    let bundle = path.join(NPU_FILE).exists().then(|| NpuBundle::read(path)).transpose().map_err(wrong)?;
    let kind = match &bundle {
        Some(_) => Kind::NpuBundle,
        None if path.join(CONFIG_FILE).exists() => Kind::ModelFolder,
        None => Kind::Optimum,
    };
    let mut found = Inspection::new(kind, path, files.iter().map(|file| size(file)).sum());
    let (model, decoder) = (&config.model, &config.model.decoder);
    found.architecture = Some(model.architecture.clone());
    found.sizes = Sizes {
        layers: Some(decoder.num_hidden_layers as u64),
        hidden: Some(decoder.hidden_size as u64).filter(|size| *size > 0),
        feed_forward: None,
        heads: bundle.as_ref().map(|bundle| bundle.heads as u64),
        kv_heads: Some(decoder.num_key_value_heads as u64),
        head_size: Some(decoder.head_size as u64),
        vocabulary: Some(model.vocab_size as u64),
        context: Some(model.context_length as u64),
    };
    if let Some(bundle) = &bundle {
        let target = &bundle.target;
        let chip = format!("{} (soc_model {}, htp_arch {})", target.soc, target.soc_model, target.htp_arch);
        found.built_for = Some(chip);
    }
    found.recipe = recipe(path);
    // The tokenizer and the template are small; that they can be read says more than that they are there.
    match ModelFolder::open(path) {
        Ok(folder) => {
            found.name = folder.name;
            found.tokenizer = Some("tokenizer.json".to_owned());
            found.chat_template = Some(true);
        }
        Err(error) => found.tokenizer = Some(format!("not right: {error}")),
    }
    let chosen = decoder.filename.as_ref().filter(|_| kind == Kind::Optimum).map(|graph| root.join(graph));
    if kind == Kind::Optimum && root.join("onnx").is_dir() {
        self::files(&root.join("onnx"))?.iter().for_each(|file| found.bytes += size(file));
    }
    let graphs = chosen.as_ref().map_or(onnx, std::slice::from_ref);
    found.graphs = graphs.iter().map(|file| onnx::inspect(file)).collect::<Result<Vec<Graph>, _>>()?;
    if bundle.is_none() {
        found.cpu_lane = Some(CpuLane::of(&root, &config, notes));
    }
    let all = || weight_files(files).map(|file| size(file)).sum();
    found.memory = vec![match &bundle {
        Some(bundle) => Memory::new("npu", LaneMemory::on_npu(bundle, all()), bundle.context, false),
        None => {
            let graph = decoder.filename.as_ref().map(|graph| root.join(graph)).filter(|graph| graph.is_file());
            let weights = graph.as_deref().map_or_else(all, model::graph_bytes);
            // A graph that does not run keeps nothing; `cpu_lane` says why.
            let outline = graph.as_deref().and_then(|graph| GraphOutline::read(graph).ok());
            let contract = outline.and_then(|outline| Contract::of(&outline, model).ok());
            let token = contract.map_or(0, |contract| contract.token_bytes() as u64);
            let need = LaneMemory::on_cpu(model.vocab_size, weights, token);
            Memory::new("cpu", need, model.context_length, false)
        }
    }];
    Ok(found.not_a_source(BUILT))
}

/// What `ortalk build` wrote of itself into its folder.
fn recipe(folder: &Path) -> Option<String> {
    let origin: serde_json::Value = serde_json::from_slice(&std::fs::read(folder.join(BUILD_FILE)).ok()?).ok()?;
    origin.get("recipe")?.as_str().map(str::to_owned)
}

/// Graphs, the data beside them, and binaries.
fn weight_files(files: &BTreeSet<PathBuf>) -> impl Iterator<Item = &PathBuf> {
    let name = |file: &Path| file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    files.iter().filter(move |file| name(file).contains(".onnx") || name(file).ends_with(".bin"))
}

fn files(folder: &Path) -> Result<BTreeSet<PathBuf>, InspectError> {
    let entries = std::fs::read_dir(folder).map_err(|error| InspectError::Read { path: folder.into(), error })?;
    Ok(entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect())
}

fn size(file: &Path) -> u64 {
    std::fs::metadata(file).map_or(0, |metadata| metadata.len())
}
