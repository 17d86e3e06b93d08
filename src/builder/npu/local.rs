//! The laboratory on this machine: float and quantized graphs run on ONNX Runtime's CPU execution provider, compiled ones
//! on QNN, which for want of an NPU is a simulator.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::calibrate::{self, CalibrateError};
use super::corpus::{self, CorpusError};
use super::graph::Ranges;
use super::judge::Reference;
use super::quality::{Column, Engine, Report};
use super::{BoxedError, CalibrationData, Candidate, FloatGraphs, Laboratory, ObservedGraph, Verdict, sink};
use crate::decoder::{DecodeError, StaticDecoder};
use crate::model::{ModelError, ModelFolder, NpuBundle, NpuOptions, NpuTarget};
use crate::onnx_runtime::{CompileError, CompileRequest, CpuSessionOptions, OnnxRuntime, QnnPlugin, compile_in_child};

/// What compiling a graph may take. The default model's takes ten seconds on an idle machine.
const COMPILE_LIMIT: Duration = Duration::from_secs(3600);

pub struct LocalLaboratory {
    pub runtime: OnnxRuntime,
    /// Of the float and quantized graphs.
    pub cpu: CpuSessionOptions,
    pub plugin: QnnPlugin,
    /// This program, which is started again for compiling.
    pub executable: PathBuf,
    /// ONNX Runtime's library, for it.
    pub library: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum LaboratoryError {
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Corpus(#[from] CorpusError),
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error(transparent)]
    Calibrate(#[from] CalibrateError),
    #[error(transparent)]
    Compile(#[from] CompileError),
    #[error("there is nothing to compare: the model's tokenizer makes no more than one token of each of the texts")]
    NoPositions,
}

impl Laboratory for LocalLaboratory {
    fn sink(&self, folder: &Path, bundle: &NpuBundle) -> Result<Option<(u32, Vec<u8>)>, BoxedError> {
        let Some(token) = sink::first_token(&ModelFolder::open(folder)?) else { return Ok(None) };
        Ok(Some((token, sink::keys_and_values(&self.runtime, folder, bundle, token, self.cpu)?)))
    }

    fn calibrate(
        &self,
        float: &FloatGraphs,
        data: CalibrationData,
        progress: &mut dyn FnMut(f32),
    ) -> Result<Ranges, BoxedError> {
        match data {
            CalibrationData::Text => Ok(self.calibrate_on_text(float, progress)?),
            CalibrationData::Random => {
                let open = |graph: &ObservedGraph| Ok(self.runtime.cpu_session(&graph.file, self.cpu)?);
                Ok(calibrate::on_random(float, &open, progress)?)
            }
        }
    }

    fn compile(
        &self,
        model: &Path,
        output: &Path,
        target: &NpuTarget,
        progress: &mut dyn FnMut(f32),
    ) -> Result<usize, BoxedError> {
        let request = CompileRequest {
            library: self.library.clone(),
            plugin: self.plugin.clone(),
            model: model.to_owned(),
            output: output.to_owned(),
            options: NpuOptions { target: Some(target.clone()), ..NpuOptions::default() },
        };
        // The compiler does not say how far it is.
        let mut waiting = |_| ControlFlow::Continue(());
        progress(0.0);
        let report = compile_in_child(&self.executable, &request, COMPILE_LIMIT, &mut waiting)?;
        progress(1.0);
        Ok(report.nodes)
    }

    fn judge(
        &self,
        float: &FloatGraphs,
        candidates: &[Candidate],
        progress: &mut dyn FnMut(f32),
    ) -> Result<Verdict, BoxedError> {
        let report = self.compare(float, candidates, progress)?;
        Ok(Verdict { report: serde_json::to_value(&report)?, text: report.to_string(), missed: report.missed() })
    }
}

impl LocalLaboratory {
    fn calibrate_on_text(&self, float: &FloatGraphs, progress: &mut dyn FnMut(f32)) -> Result<Ranges, LaboratoryError> {
        let model = ModelFolder::open(&float.folder)?;
        let texts = corpus::calibration(&model, float.bundle.context)?;
        let mut bundle = NpuBundle { sink: None, ..float.bundle.clone() };
        // The observed graphs are beside the bundle's.
        for (file, observed) in [(&mut bundle.files.prefill, &float.prefill), (&mut bundle.files.decode, &float.decode)]
        {
            *file = observed.file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        }
        let mut decoder = self.on_cpu(&float.folder, bundle)?;
        Ok(calibrate::on_text(&mut decoder, float, &texts, &model.ends, progress)?)
    }

    fn compare(
        &self,
        float: &FloatGraphs,
        candidates: &[Candidate],
        progress: &mut dyn FnMut(f32),
    ) -> Result<Report, LaboratoryError> {
        // The float model and each candidate take about as long as another.
        let share = 1.0 / (candidates.len() + 1) as f32;
        let model = ModelFolder::open(&float.folder)?;
        let texts = corpus::held_out(&model, float.bundle.context)?;
        let decoder = self.on_cpu(&float.folder, NpuBundle { sink: None, ..float.bundle.clone() })?;
        let stops = &model.ends;
        let mut reference = Reference::new(decoder, &texts, stops, &mut |done| progress(share * done))?;
        let mut columns = Vec::new();
        for (index, candidate) in candidates.iter().enumerate() {
            let mut at = |done: f32| progress(share * (done + (index + 1) as f32));
            let bundle = NpuBundle::read(&candidate.folder)?;
            let (engine, quality) = if candidate.compiled {
                let mut decoder = self.on_npu(&candidate.folder, bundle)?;
                (self.npu_engine(), reference.compare_part(&mut decoder, &mut at)?)
            } else {
                let mut decoder = self.on_cpu(&candidate.folder, bundle)?;
                (Engine::Cpu, reference.compare(&mut decoder, &mut at)?)
            };
            let quality = quality.ok_or(LaboratoryError::NoPositions)?;
            columns.push(Column { calibration: candidate.calibration, engine, quality });
        }
        Ok(Report::new(columns))
    }

    fn on_cpu(&self, folder: &Path, bundle: NpuBundle) -> Result<StaticDecoder, DecodeError> {
        let session = |model: &Path| self.runtime.cpu_session(model, self.cpu);
        StaticDecoder::new(&self.runtime, folder, bundle, self.cpu, &session)
    }

    fn on_npu(&self, folder: &Path, bundle: NpuBundle) -> Result<StaticDecoder, DecodeError> {
        let options = NpuOptions { target: Some(bundle.target.clone()), ..NpuOptions::default() };
        let session = |model: &Path| self.runtime.npu_session(model, &self.plugin, &options);
        StaticDecoder::new(&self.runtime, folder, bundle, self.cpu, &session)
    }

    /// Known as soon as a session was made.
    fn npu_engine(&self) -> Engine {
        let emulated = self.runtime.qnn_device().is_none_or(|device| device.emulated);
        if emulated { Engine::HtpSimulator } else { Engine::Htp }
    }
}
