//! The last stages: compiling for the chip, judging what was made, and putting the model folder together.

use std::path::Path;
use std::time::Instant;

use serde_json::json;

use super::ends::Storage;
use super::quantize::FOLDERS;
use super::stage::{self, StageRecord, WorkFolder};
use super::{Build, CalibrationData, Candidate, NpuBuildError, NpuStage, RECIPE, Verdict, bundle, export};
use crate::builder::error::BuildError;
use crate::builder::folder::NewFolder;
use crate::model::{BUILD_FILE, CompiledNodes, NpuBundle, Precision};

/// Where the compiled bundle is in the working folder: all of the model folder but its origin.
pub const COMPILED: &str = "compiled";
/// What `judge` found.
pub const QUALITY: &str = "quality.json";

impl Build<'_, '_> {
    pub fn compile(&self, work: &WorkFolder, progress: &mut dyn FnMut(f32)) -> Result<(), NpuBuildError> {
        let (from, storage) = match self.options.precision {
            Precision::W8a16 => (work.at(FOLDERS[0].1), None),
            Precision::Fp16 => (work.at(export::FOLDER), Some(Storage::Blocks)),
        };
        let mut bundle = NpuBundle::read(&from)
            .map_err(|error| BuildError::Read { path: from.clone(), error: std::io::Error::other(error) })?;
        let folder = NewFolder::create(&work.fresh(COMPILED)?)?;
        let mut compile = |file: &str, part: f32| {
            let (graph, output) = (from.join(file), folder.path().join(file));
            let mut at = |fraction: f32| progress(part + fraction / 2.0);
            let compiled = self.laboratory.compile(&graph, &output, &self.options.target, &mut at);
            compiled.map_err(|error| NpuBuildError::Laboratory { what: "compiling", error })
        };
        let prefill = compile(&bundle.files.prefill, 0.0)?;
        let decode = compile(&bundle.files.decode, 0.5)?;
        bundle.compiled_nodes = Some(CompiledNodes { prefill, decode });
        let files = &bundle.files;
        match storage {
            Some(storage) => self.write_ends(storage, folder.path())?,
            None => {
                for name in [&files.embeddings, &files.lm_head, super::ends::DATA] {
                    stage::place(&from.join(name), &folder.path().join(name))?;
                }
            }
        }
        if let Some(sink) = &bundle.sink {
            stage::place(&from.join(&sink.file), &folder.path().join(&sink.file))?;
        }
        bundle::write(self.source, &folder, &bundle)?;
        folder.publish()?;
        progress(1.0);
        Ok(())
    }

    pub fn judge(&self, work: &WorkFolder, progress: &mut dyn FnMut(f32)) -> Result<(), NpuBuildError> {
        let float = self.float_graphs(work)?;
        let on_cpu = |(calibration, folder): (CalibrationData, &str)| Candidate {
            calibration,
            folder: work.at(folder),
            compiled: false,
        };
        let compiled = Candidate { calibration: CalibrationData::Text, folder: work.at(COMPILED), compiled: true };
        let [text, random] = FOLDERS.map(on_cpu);
        let verdict = self.laboratory.judge(&float, &[text, compiled, random], progress);
        let verdict = verdict.map_err(|error| NpuBuildError::Laboratory { what: "judging the quality", error })?;
        work.write_json(QUALITY, &verdict)?;
        if verdict.missed.is_empty() {
            Ok(())
        } else {
            Err(NpuBuildError::NotGood { text: verdict.text, missed: verdict.missed })
        }
    }

    /// Makes the model folder. Not recorded: when it is there, the build is over.
    pub fn assemble(
        &self,
        work: &WorkFolder,
        output: &Path,
        progress: &mut dyn FnMut(f32),
    ) -> Result<StageRecord, NpuBuildError> {
        let started = Instant::now();
        progress(0.0);
        let folder = NewFolder::create(output)?;
        let compiled = work.at(COMPILED);
        for name in stage::files(&compiled)?.into_keys() {
            stage::place(&compiled.join(&name), &folder.path().join(&name))?;
        }
        let mut origin = self.source.origin(RECIPE);
        origin["target"] = json!(self.options.target);
        origin["precision"] = json!(self.options.precision);
        origin["stages"] = json!(work.done());
        if self.options.precision == Precision::W8a16 {
            origin["quality"] = work.read_json::<Verdict>(QUALITY)?.report;
        }
        let sizes = folder.sizes()?;
        origin["files"] = json!(sizes);
        folder.write_json(BUILD_FILE, &origin)?;
        folder.publish()?;
        progress(1.0);
        let bytes = sizes.values().sum();
        Ok(StageRecord { stage: NpuStage::Assemble, seconds: started.elapsed().as_secs_f64(), bytes })
    }
}
