//! The builder's NPU target: from a checkpoint to a bundle as `model::NpuBundle` describes it.
//!
//! `layers` says what the decoder computes, as a static `graph`; `float` and `quantized` write it as ONNX (`operators`,
//! `weights`), `ends` the parts that run on the CPU, `bundle` and `sink` the rest of a folder. `export`, `quantize` and
//! `finish` are the stages that write; what runs graphs is behind `laboratory`. This module runs the stages one after the
//! other, in a working folder (`stage`) from which a later run goes on.

mod bundle;
mod calibrate;
mod compiled;
mod corpus;
mod ends;
mod error;
mod export;
mod finish;
mod float;
pub mod graph;
mod judge;
mod laboratory;
mod layers;
mod local;
mod operators;
mod quality;
mod quantize;
mod quantized;
mod ranges;
pub mod sink;
mod stage;
#[cfg(test)]
mod tests;
mod weights;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::json;

use super::BuildOptions;
use super::error::BuildError;
use super::folder::NewFolder;
use super::source::{Source, SourceFiles, Stamp};
use crate::model::{NpuBundle, NpuTarget, Precision};
use graph::StaticGraph;
use stage::WorkFolder;

pub use compiled::serve_judge;
pub use error::NpuBuildError;
pub use laboratory::{BoxedError, CalibrationData, Candidate, Laboratory, Verdict};
pub use local::LocalLaboratory;
pub use stage::{NpuStage, StageRecord, is_worked_in};

/// How graphs are written and quantized. A folder built by another recipe differs in accuracy, so this name must change
/// with what the modules here write.
pub const RECIPE: &str = "npu-1";

/// Slots of the past where nobody says otherwise.
const CONTEXT: usize = 512;
/// Tokens in one pass of the prefill graph where nobody says otherwise.
const CHUNK: usize = 64;

/// What may be chosen when building for an NPU.
#[derive(Debug, Clone)]
pub struct NpuBuildOptions {
    pub common: BuildOptions,
    pub target: NpuTarget,
    pub precision: Precision,
    /// The longest sequence, in tokens; without it 512, or what the model was trained for if that is less.
    pub context: Option<usize>,
    /// Tokens in one pass over a prompt; without it 64, or the context if that is less.
    pub chunk: Option<usize>,
    /// The last stage to run; the working folder stays for a later build.
    pub stop_after: Option<NpuStage>,
    /// Whether the working folder stays in any case.
    pub keep: bool,
}

impl NpuBuildOptions {
    /// What is chosen where nobody says otherwise.
    pub fn new(target: NpuTarget) -> Self {
        Self {
            common: BuildOptions::default(),
            target,
            precision: Precision::W8a16,
            context: None,
            chunk: None,
            stop_after: None,
            keep: false,
        }
    }
}

/// What the builder is doing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NpuProgress {
    /// A stage begins, or has come so far, from 0 to 1.
    At(NpuStage, f32),
    Done(StageRecord),
    /// A stage that an earlier build has done.
    DoneBefore(StageRecord),
}

/// What was built.
#[derive(Debug, Clone, PartialEq)]
pub struct NpuBuildReport {
    /// The model folder, or the working folder of a build that was stopped.
    pub folder: PathBuf,
    /// `general.architecture` of the file.
    pub architecture: String,
    /// What it is called on screen.
    pub model: String,
    pub parameters: u64,
    pub stages: Vec<StageRecord>,
    /// How good the quantized model is, for people; none without quantization, or before the model is judged.
    pub quality: Option<String>,
    /// Bytes of the model folder, or of what the stages wrote.
    pub bytes: u64,
    pub seconds: f64,
}

/// The decoder as float32 graphs: a whole bundle by the contract, without quantization and not compiled, with float32 ends.
/// It is calibrated on, it is the reference of the quality report, and compiled it is the bundle in fp16.
#[derive(Debug, Clone)]
pub struct FloatGraphs {
    /// A model folder: graphs, weights, tokenizer, template, genai_config.json, ortalk_npu.json.
    pub folder: PathBuf,
    pub bundle: NpuBundle,
    pub prefill: ObservedGraph,
    pub decode: ObservedGraph,
}

/// A graph beside the bundle's that computes the same, with one output more for each of `graph.observed()` that is not an
/// input or output already, of its name and shape (float32).
#[derive(Debug, Clone)]
pub struct ObservedGraph {
    pub file: PathBuf,
    pub graph: StaticGraph,
}

/// The sizes of the static graphs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    context: usize,
    chunk: usize,
}

/// One build: what the stages read.
struct Build<'b, 'a> {
    source: &'b Source<'a>,
    options: &'b NpuBuildOptions,
    shape: Shape,
    laboratory: &'b dyn Laboratory,
}

/// Builds a bundle for an NPU from a GGUF file or a checkpoint folder.
///
/// `output` must not exist or be an empty folder; it appears whole, by a rename, when everything is done and the quantized
/// model is good enough. The working folder beside it stays when the build fails, so that the next one goes on from there.
pub fn build(
    source: &Path,
    output: &Path,
    options: &NpuBuildOptions,
    laboratory: &dyn Laboratory,
    progress: &mut dyn FnMut(NpuProgress),
) -> Result<NpuBuildReport, NpuBuildError> {
    let started = Instant::now();
    let files = SourceFiles::open(source)?;
    let mut model = Source::read(&files, &options.common)?;
    let shape = Shape::choose(options, model.dimensions.context)?;
    model.dimensions.context = shape.context;
    // Better now than after minutes; the folder itself is made at the end.
    drop(NewFolder::create(output)?);
    // A vocabulary that cannot be written, likewise.
    model.texts()?;
    let mut work = WorkFolder::open(&work_folder(output)?, identity(source, options, shape)?)?;
    let build = Build { source: &model, options, shape, laboratory };

    let last = options.stop_after.unwrap_or(NpuStage::Assemble);
    let mut stages = Vec::new();
    for stage in stages_of(options.precision).into_iter().filter(|stage| *stage <= last) {
        let was_done = work.done().iter().any(|record| record.stage == stage);
        let record = build.run(stage, &mut work, output, progress)?;
        progress(if was_done { NpuProgress::DoneBefore(record) } else { NpuProgress::Done(record) });
        stages.push(record);
    }
    let judged = options.precision == Precision::W8a16 && last >= NpuStage::Judge;
    let quality = if judged { Some(work.read_json::<Verdict>(finish::QUALITY)?.text) } else { None };
    let finished = last == NpuStage::Assemble;
    let bytes = stages.iter().rev().take(if finished { 1 } else { stages.len() }).map(|stage| stage.bytes).sum();
    let folder = if finished { output.to_owned() } else { work.path().to_owned() };
    if finished && !options.keep {
        work.remove()?;
    }
    Ok(NpuBuildReport {
        folder,
        architecture: model.architecture.name.to_owned(),
        parameters: model.parameters(),
        model: model.name,
        stages,
        quality,
        bytes,
        seconds: started.elapsed().as_secs_f64(),
    })
}

/// The end of a working folder's name.
pub const WORK: &str = ".work";

/// Where a build of `output` works, which stays when it fails or is stopped: `.NAME.work` beside it.
pub fn work_folder(output: &Path) -> Result<PathBuf, BuildError> {
    let failed = |error| BuildError::Write { path: output.to_owned(), error };
    let absolute = std::path::absolute(output).map_err(failed)?;
    match (absolute.parent(), absolute.file_name()) {
        (Some(parent), Some(name)) => Ok(parent.join(format!(".{}{WORK}", name.to_string_lossy()))),
        _ => Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "expected a path that ends in a name"))),
    }
}

/// What is not quantized needs no ranges and no judgement.
fn stages_of(precision: Precision) -> Vec<NpuStage> {
    use NpuStage::{Assemble, Calibrate, Compile, Export, Judge, Quantize};
    match precision {
        Precision::W8a16 => vec![Export, Calibrate, Quantize, Compile, Judge, Assemble],
        Precision::Fp16 => vec![Export, Compile, Assemble],
    }
}

impl Build<'_, '_> {
    fn run(
        &self,
        stage: NpuStage,
        work: &mut WorkFolder,
        output: &Path,
        progress: &mut dyn FnMut(NpuProgress),
    ) -> Result<StageRecord, NpuBuildError> {
        let mut at = |fraction| progress(NpuProgress::At(stage, fraction));
        match stage {
            NpuStage::Export => work.run(stage, &[export::FOLDER], |work| self.export(work, &mut at)),
            NpuStage::Calibrate => {
                work.run(stage, &quantize::RANGES.map(|(_, name)| name), |work| self.calibrate(work, &mut at))
            }
            NpuStage::Quantize => {
                work.run(stage, &quantize::FOLDERS.map(|(_, name)| name), |work| self.quantize(work, &mut at))
            }
            NpuStage::Compile => work.run(stage, &[finish::COMPILED], |work| self.compile(work, &mut at)),
            NpuStage::Judge => work.run(stage, &[finish::QUALITY], |work| self.judge(work, &mut at)),
            NpuStage::Assemble => self.assemble(work, output, &mut at),
        }
    }
}

impl Shape {
    fn choose(options: &NpuBuildOptions, trained: usize) -> Result<Self, NpuBuildError> {
        let context = options.context.unwrap_or(CONTEXT.min(trained));
        if !(2..=trained).contains(&context) {
            return Err(NpuBuildError::Context { found: context, least: 2, most: trained });
        }
        let chunk = options.chunk.unwrap_or(CHUNK.min(context));
        if !(2..=context).contains(&chunk) {
            return Err(NpuBuildError::Chunk { found: chunk, most: context });
        }
        Ok(Self { context, chunk })
    }
}

/// All that makes the stages' results what they are.
fn identity(source: &Path, options: &NpuBuildOptions, shape: Shape) -> Result<serde_json::Value, BuildError> {
    let Stamp { path, files } = Stamp::of(source)?;
    let sampling = options.common.sampling.map(|s| (s.temperature, s.top_p, s.top_k));
    Ok(json!({
        "source": path.to_string_lossy(),
        "files": files,
        "target": options.target,
        "precision": options.precision,
        "context": shape.context,
        "chunk": shape.chunk,
        "name": options.common.name,
        "sampling": sampling.map(|sampling| format!("{sampling:?}")),
        "recipe": RECIPE,
        "version": env!("CARGO_PKG_VERSION"),
    }))
}
