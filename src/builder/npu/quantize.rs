//! The stages that make the float graphs integer ones: calibration, and writing them quantized.
//!
//! Both are done twice, on text and on random numbers: the second is what the quality report compares with.

use std::path::Path;

use super::ends::Storage;
use super::export::{self, DATA};
use super::graph::Ranges;
use super::stage::{self, WorkFolder};
use super::weights::{Codes, Stored, write_codes};
use super::{Build, CalibrationData, NpuBuildError, bundle, quantized};
use crate::builder::error::BuildError;
use crate::builder::folder::NewFolder;
use crate::builder::graph::DataFile;
use crate::model::NpuBundle;

/// Where the ranges are in the working folder.
pub const RANGES: [(CalibrationData, &str); 2] =
    [(CalibrationData::Text, "ranges.json"), (CalibrationData::Random, "ranges_random.json")];

/// Where the quantized bundles are there.
pub const FOLDERS: [(CalibrationData, &str); 2] =
    [(CalibrationData::Text, "quantized"), (CalibrationData::Random, "quantized_random")];

impl Build<'_, '_> {
    pub fn calibrate(&self, work: &WorkFolder, progress: &mut dyn FnMut(f32)) -> Result<(), NpuBuildError> {
        let float = self.float_graphs(work)?;
        // Text takes most of the time.
        for ((data, name), (start, share)) in RANGES.into_iter().zip([(0.0, 0.9), (0.9, 0.1)]) {
            let ranges = self.laboratory.calibrate(&float, data, &mut |fraction| progress(start + share * fraction));
            let ranges = ranges.map_err(|error| NpuBuildError::Laboratory { what: "calibrating", error })?;
            work.write_json(name, &ranges)?;
        }
        progress(1.0);
        Ok(())
    }

    pub fn quantize(&self, work: &WorkFolder, progress: &mut dyn FnMut(f32)) -> Result<(), NpuBuildError> {
        let float = self.float_graphs(work)?;
        let [text, random] = [FOLDERS[0].1, FOLDERS[1].1];
        let [text, random] = [work.fresh(text)?, work.fresh(random)?];
        let [text, random] = [NewFolder::create(&text)?, NewFolder::create(&random)?];
        let mut write_data = || -> Result<_, crate::builder::weights::StoreError> {
            let mut data = DataFile::create(text.path(), DATA)?;
            let weights = write_codes(&self.source.gguf, &float.prefill.graph, &mut data, progress)?;
            Ok((weights, data))
        };
        let (weights, mut data) = write_data().map_err(|error| self.source.not_stored(error, text.path()))?;
        self.write_ends(Storage::Blocks, text.path())?;
        for (folder, (_, ranges)) in [&text, &random].into_iter().zip(RANGES) {
            let ranges = work.read_json(ranges)?;
            data = self.write_quantized(&float.bundle, &ranges, &weights, data, folder)?;
        }
        // All but the graphs is the same in both.
        for name in shared_files(text.path())? {
            stage::place(&text.path().join(&name), &random.path().join(&name))?;
        }
        if let Some(sink) = &float.bundle.sink {
            for folder in [&text, &random] {
                stage::place(&work.at(export::FOLDER).join(&sink.file), &folder.path().join(&sink.file))?;
            }
        }
        text.publish()?;
        random.publish()?;
        Ok(())
    }

    /// Writes both graphs and the description of the bundle.
    fn write_quantized(
        &self,
        float: &NpuBundle,
        ranges: &Ranges,
        weights: &Stored<Codes>,
        mut data: DataFile,
        folder: &NewFolder,
    ) -> Result<DataFile, NpuBuildError> {
        let mut quantization = None;
        for (graph, name) in self.graphs().iter().zip([&float.files.prefill, &float.files.decode]) {
            let codes = graph.quantize(ranges)?;
            quantization = quantized::description(graph, &codes);
            let path = folder.path().join(name);
            data = quantized::write(graph, &codes, weights, data, folder.path(), name)
                .map_err(|error| BuildError::Write { path, error })?;
        }
        let bundle = NpuBundle { quantization, ..float.clone() };
        bundle::write(self.source, folder, &bundle)?;
        Ok(data)
    }
}

/// The names of the files that do not depend on ranges: the weights, and the ends.
fn shared_files(folder: &Path) -> Result<Vec<String>, BuildError> {
    let files = bundle::files();
    let is_end = |name: &String| *name == files.embeddings || *name == files.lm_head;
    Ok(stage::files(folder)?.into_keys().filter(|name| name.ends_with(".data") || is_end(name)).collect())
}
