//! The first stage: the decoder as float32 graphs, in a whole bundle.

use std::io;
use std::path::Path;

use super::ends::{self, Storage};
use super::graph::StaticGraph;
use super::stage::WorkFolder;
use super::{Build, FloatGraphs, NpuBuildError, ObservedGraph, bundle, float, layers, weights};
use crate::builder::error::BuildError;
use crate::builder::folder::NewFolder;
use crate::builder::graph::DataFile;
use crate::builder::weights::StoreError;
use crate::model::{NpuBundle, Sink};

/// Where the float graphs are in the working folder.
pub const FOLDER: &str = "float";

/// The file of the weights that prefill and decode share, in every bundle that is not compiled.
pub const DATA: &str = "decoder.onnx.data";

/// Of the graphs with all observed tensors as outputs.
const OBSERVED: [&str; 2] = ["prefill_observed.onnx", "decode_observed.onnx"];

impl Build<'_, '_> {
    pub fn export(&self, work: &WorkFolder, progress: &mut dyn FnMut(f32)) -> Result<(), NpuBuildError> {
        let folder = NewFolder::create(&work.fresh(FOLDER)?)?;
        let path = folder.path();
        self.write_float(path, progress).map_err(|error| self.source.not_stored(error, path))?;
        self.write_ends(Storage::Floats, path)?;
        let mut bundle = bundle::describe(self.source, self.options, self.shape, None, None);
        bundle::write(self.source, &folder, &bundle)?;
        let sink = self.laboratory.sink(path, &bundle);
        let sink = sink.map_err(|error| NpuBuildError::Laboratory { what: "computing the first token", error })?;
        if let Some((token, rows)) = sink {
            folder.write(bundle::SINK_FILE, &rows)?;
            bundle.sink = Some(Sink { token, file: bundle::SINK_FILE.to_owned() });
            bundle::write_bundle(path, &bundle)?;
        }
        folder.publish()?;
        Ok(())
    }

    /// What `export` wrote.
    pub fn float_graphs(&self, work: &WorkFolder) -> Result<FloatGraphs, NpuBuildError> {
        let folder = work.at(FOLDER);
        let bundle = NpuBundle::read(&folder)
            .map_err(|error| BuildError::Read { path: folder.clone(), error: io::Error::other(error) })?;
        let [prefill, decode] = self.graphs().map(|graph| {
            let file = OBSERVED[usize::from(graph.tokens == 1)];
            ObservedGraph { file: folder.join(file), graph }
        });
        Ok(FloatGraphs { folder, bundle, prefill, decode })
    }

    /// The static graphs of prefill and decode.
    pub fn graphs(&self) -> [StaticGraph; 2] {
        let source = self.source;
        let graph =
            |tokens| layers::decoder(&source.gguf, source.architecture, &source.dimensions, tokens, self.shape.context);
        [graph(self.shape.chunk), graph(1)]
    }

    /// Writes the graphs that run on the CPU in every bundle.
    pub fn write_ends(&self, storage: Storage, folder: &Path) -> Result<(), BuildError> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        ends::write(&self.source.gguf, &self.source.dimensions, storage, folder, &bundle::files(), threads)
            .map_err(|error| self.source.not_stored(error, folder))
    }

    fn write_float(&self, folder: &Path, progress: &mut dyn FnMut(f32)) -> Result<(), StoreError> {
        let graphs = self.graphs();
        let files = bundle::files();
        let mut data = DataFile::create(folder, DATA)?;
        let weights = weights::write_floats(&self.source.gguf, &graphs[0], &mut data, progress)?;
        for (graph, plain, observed) in
            [(&graphs[0], &files.prefill, OBSERVED[0]), (&graphs[1], &files.decode, OBSERVED[1])]
        {
            data = float::write(graph, &weights, data, folder, plain, false)?;
            data = float::write(graph, &weights, data, folder, observed, true)?;
        }
        Ok(())
    }
}
