//! Bundles for an NPU, built from the tiny llama without measuring anything.

use std::path::{Path, PathBuf};

use ortalk::builder::BuildOptions;
use ortalk::builder::npu::graph::Ranges;
use ortalk::builder::npu::{
    self, BoxedError, CalibrationData, Candidate, FloatGraphs, Laboratory, NpuBuildOptions, NpuStage, Verdict,
};
use ortalk::decoder::{DecodeError, StaticDecoder};
use ortalk::model::{NpuBundle, NpuTarget, Precision};
use ortalk::onnx_runtime::CpuSessionOptions;

use crate::support::runtime;
use crate::tiny_llama::TinyLlama;

pub const CONTEXT: usize = 48;
pub const CHUNK: usize = 8;

/// The first token of the conversations of bundles that have one.
pub const SINK: u32 = 1;

pub const ONE_THREAD: CpuSessionOptions = CpuSessionOptions { threads: 1, spinning: false };

/// A bundle, and the model that it was made from. Its files go with it.
pub struct Built {
    pub model: TinyLlama,
    pub folder: PathBuf,
    #[expect(dead_code, reason = "keeps the folder until the test ends")]
    home: tempfile::TempDir,
}

/// The model as float32 graphs, without a sink.
pub fn float() -> Built {
    build(NpuStage::Export, "float", None)
}

/// The model as float32 graphs behind a constant first token.
pub fn float_with_sink() -> Built {
    build(NpuStage::Export, "float", Some(SINK))
}

/// The model as integer graphs behind a constant first token.
pub fn quantized() -> Built {
    build(NpuStage::Quantize, "quantized", Some(SINK))
}

/// Takes no measurements: every tensor's range is the same and wide.
struct WideRanges {
    sink: Option<u32>,
}

impl Laboratory for WideRanges {
    fn sink(&self, folder: &Path, bundle: &NpuBundle) -> Result<Option<(u32, Vec<u8>)>, BoxedError> {
        let Some(token) = self.sink else { return Ok(None) };
        let rows = npu::sink::keys_and_values(&runtime(), folder, bundle, token, ONE_THREAD)?;
        Ok(Some((token, rows)))
    }

    fn calibrate(
        &self,
        float: &FloatGraphs,
        _data: CalibrationData,
        _progress: &mut dyn FnMut(f32),
    ) -> Result<Ranges, BoxedError> {
        let observed = float.prefill.graph.observed();
        Ok(Ranges(observed.map(|(tensor, _)| (tensor.name.clone(), (-12.0, 12.0))).collect()))
    }

    fn compile(
        &self,
        _model: &Path,
        _output: &Path,
        _target: &NpuTarget,
        _progress: &mut dyn FnMut(f32),
    ) -> Result<usize, BoxedError> {
        Err("not compiled here".into())
    }

    fn judge(
        &self,
        _float: &FloatGraphs,
        _candidates: &[Candidate],
        _progress: &mut dyn FnMut(f32),
    ) -> Result<Verdict, BoxedError> {
        Err("not judged here".into())
    }
}

fn build(last: NpuStage, folder: &str, sink: Option<u32>) -> Built {
    let model = TinyLlama::new(7);
    let home = tempfile::tempdir().unwrap();
    let source = home.path().join("tiny.gguf");
    std::fs::write(&source, model.gguf()).unwrap();
    let work = run_stages(&source, &home.path().join("model"), last, sink, CONTEXT);
    Built { model, folder: work.join(folder), home }
}

/// Runs a build's stages up to `last`, and returns the working folder.
pub fn run_stages(source: &Path, output: &Path, last: NpuStage, sink: Option<u32>, context: usize) -> PathBuf {
    let options = NpuBuildOptions {
        common: BuildOptions::default(),
        target: NpuTarget { soc: "x-elite".into(), soc_model: 60, htp_arch: 73 },
        precision: Precision::W8a16,
        context: Some(context),
        chunk: Some(CHUNK),
        stop_after: Some(last),
        keep: true,
    };
    npu::build(source, output, &options, &WideRanges { sink }, &mut |_| {}).unwrap().folder
}

impl Built {
    /// Some text's tokens, the same every time: the sink, then anything.
    pub fn tokens(&self, count: usize) -> Vec<u32> {
        let token = |index: usize| (index * index * 31 + index * 17 + 5) % self.model.vocabulary();
        (0..count).map(|index| if index == 0 { SINK } else { token(index) as u32 }).collect()
    }

    pub fn bundle(&self) -> NpuBundle {
        NpuBundle::read(&self.folder).unwrap()
    }

    pub fn decoder(&self) -> StaticDecoder {
        self.decoder_of(self.bundle()).unwrap()
    }

    /// For a bundle that says something else than the folder.
    pub fn decoder_of(&self, bundle: NpuBundle) -> Result<StaticDecoder, DecodeError> {
        let session = |graph: &Path| runtime().cpu_session(graph, ONE_THREAD);
        StaticDecoder::new(&runtime(), &self.folder, bundle, ONE_THREAD, &session)
    }
}
