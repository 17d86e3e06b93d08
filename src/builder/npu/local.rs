//! The laboratory on this machine: float and quantized graphs run on ONNX Runtime's CPU execution provider, compiled ones
//! on QNN, which for want of an NPU is a simulator.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::calibrate::{self, CalibrateError};
use super::compiled::CompiledRun;
use super::corpus::{self, CorpusError};
use super::graph::Ranges;
use super::judge::{Effort, Found, Part, Reference};
use super::quality::{Column, Engine, Report};
use super::{BoxedError, CalibrationData, Candidate, FloatGraphs, Laboratory, ObservedGraph, Verdict, sink};
use crate::decoder::{DecodeError, StaticDecoder};
use crate::model::{ModelError, ModelFolder, NpuBundle, NpuOptions, NpuTarget};
use crate::onnx_runtime::{
    ChildError, CompileError, CompileRequest, CpuSessionOptions, OnnxRuntime, QnnPlugin, compile_in_child,
};

/// What compiling a graph, or running a compiled one, may take. The default model's takes ten seconds on an idle machine.
const CHILD_LIMIT: Duration = Duration::from_secs(3600);

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
    #[error("the compiled graphs in '{}' could not be run: {error}", folder.display())]
    Compiled { folder: PathBuf, error: ChildError },
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
        let report = compile_in_child(&self.executable, &request, CHILD_LIMIT, &mut waiting)?;
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
        // The float model, each candidate and the logits of all take about as long as another.
        let share = 1.0 / (candidates.len() + 2) as f32;
        let model = ModelFolder::open(&float.folder)?;
        let texts = corpus::held_out(&model, float.bundle.context)?;
        let effort = Effort::of(weights(float));
        let decoder = self.on_cpu(&float.folder, NpuBundle { sink: None, ..float.bundle.clone() })?;
        let stops = &model.ends;
        let mut reference = Reference::new(decoder, &texts, stops, effort, &mut |done| progress(share * done))?;
        // Compiled ones run beside the others: most of a simulator's time is one thread's.
        let (engines, found) = std::thread::scope(|scope| -> Result<(Vec<_>, Vec<_>), LaboratoryError> {
            let mut running = HashMap::new();
            for (index, candidate) in candidates.iter().enumerate().filter(|(_, candidate)| candidate.compiled) {
                let bundle = NpuBundle::read(&candidate.folder)?;
                let part = reference.part(bundle.chunk, bundle.sink.is_some()).ok_or(LaboratoryError::NoPositions)?;
                let run = self.compiled_run(&candidate.folder, &part);
                let child = scope.spawn(move || run.in_child(&self.executable, CHILD_LIMIT));
                running.insert(index, (part, child));
            }
            let (mut engines, mut found) = (Vec::new(), Vec::new());
            for (index, candidate) in candidates.iter().enumerate() {
                let mut at = |done: f32| progress(share * (done + (index + 1) as f32));
                engines.push(Engine::Cpu);
                if candidate.compiled {
                    found.push(Found::default());
                    continue;
                }
                let positions = match candidate.calibration {
                    CalibrationData::Text => usize::MAX,
                    CalibrationData::Random => effort.random(),
                };
                let mut decoder = self.on_cpu(&candidate.folder, NpuBundle::read(&candidate.folder)?)?;
                found.push(reference.run(&mut decoder, positions, &mut at)?);
            }
            for (index, (part, child)) in running {
                let ran = child.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                let folder = candidates[index].folder.clone();
                let ran = ran.map_err(|error| LaboratoryError::Compiled { folder, error })?;
                engines[index] = if ran.emulated { Engine::HtpSimulator } else { Engine::Htp };
                found[index] = part.found(ran.rows());
            }
            Ok((engines, found))
        })?;
        let Some(first) = candidates.first() else { return Ok(Report::new(Vec::new())) };
        // All of them have the same.
        let mut head =
            StaticDecoder::head_of(&self.runtime, &first.folder, &NpuBundle::read(&first.folder)?, self.cpu)?;
        let mut at = |done: f32| progress(share * (done + (candidates.len() + 1) as f32));
        let qualities = reference.compare(&mut head, &found, &mut at)?;
        let columns = candidates.iter().zip(engines).zip(qualities).map(|((candidate, engine), quality)| {
            let quality = quality.ok_or(LaboratoryError::NoPositions)?;
            Ok(Column { calibration: candidate.calibration, engine, quality })
        });
        Ok(Report::new(columns.collect::<Result<_, LaboratoryError>>()?))
    }

    fn compiled_run(&self, folder: &Path, part: &Part<'_>) -> CompiledRun {
        CompiledRun {
            library: self.library.clone(),
            plugin: self.plugin.clone(),
            folder: folder.to_owned(),
            threads: self.cpu.threads,
            prompt: part.prompt.to_vec(),
            rest: part.rest.to_vec(),
        }
    }

    fn on_cpu(&self, folder: &Path, bundle: NpuBundle) -> Result<StaticDecoder, DecodeError> {
        let decode = folder.join(&bundle.files.decode);
        let session = |model: &Path| match *model == decode {
            true => self.runtime.mapped_cpu_session(model, self.cpu),
            false => self.runtime.cpu_session(model, self.cpu),
        };
        StaticDecoder::new(&self.runtime, folder, bundle, self.cpu, &session)
    }
}

/// Of the layers and the embedding.
fn weights(float: &FloatGraphs) -> usize {
    let layers = float.prefill.graph.nodes.iter().filter_map(|node| node.operation.weight());
    let layers: usize = layers.map(|weight| weight.shape.iter().product::<usize>()).sum();
    layers + float.bundle.hidden * float.bundle.vocabulary
}
