//! Calibrating and judging on this machine, on the tiny llama.

use std::cell::RefCell;
use std::fs;
use std::path::Path;

use ortalk::builder::BuildOptions;
use ortalk::builder::npu::graph::Ranges;
use ortalk::builder::npu::{
    self, BoxedError, CalibrationData, Candidate, FloatGraphs, Laboratory, LocalLaboratory, NpuBuildOptions, NpuStage,
    Verdict,
};
use ortalk::model::{NPU_FILE, NpuBundle, NpuTarget, Precision};
use ortalk::onnx_runtime::QnnPlugin;

use crate::bundle::{CHUNK, CONTEXT, ONE_THREAD};
use crate::support::runtime;
use crate::tiny_llama::TinyLlama;

/// Everything but compiling, and keeps what calibration was given and found.
struct Uncompiled {
    local: LocalLaboratory,
    float: RefCell<Option<FloatGraphs>>,
    ranges: RefCell<Option<Ranges>>,
}

impl Laboratory for Uncompiled {
    fn sink(&self, folder: &Path, bundle: &NpuBundle) -> Result<Option<(u32, Vec<u8>)>, BoxedError> {
        self.local.sink(folder, bundle)
    }

    fn calibrate(
        &self,
        float: &FloatGraphs,
        data: CalibrationData,
        progress: &mut dyn FnMut(f32),
    ) -> Result<Ranges, BoxedError> {
        let ranges = self.local.calibrate(float, data, progress)?;
        self.float.replace(Some(float.clone()));
        if data == CalibrationData::Text {
            self.ranges.replace(Some(ranges.clone()));
        }
        Ok(ranges)
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
        float: &FloatGraphs,
        candidates: &[Candidate],
        progress: &mut dyn FnMut(f32),
    ) -> Result<Verdict, BoxedError> {
        self.local.judge(float, candidates, progress)
    }
}

#[test]
fn what_is_calibrated_on_text_is_close_to_the_float_model_and_what_is_not_is_refused() {
    let none = || "none".into();
    let local = LocalLaboratory {
        runtime: runtime(),
        cpu: ONE_THREAD,
        plugin: QnnPlugin { library: none(), backend: none() },
        executable: none(),
        library: none(),
    };
    let laboratory = Uncompiled { local, float: RefCell::default(), ranges: RefCell::default() };
    let home = tempfile::tempdir().unwrap();
    let source = home.path().join("tiny.gguf");
    fs::write(&source, TinyLlama::new(7).gguf()).unwrap();
    let options = NpuBuildOptions {
        common: BuildOptions::default(),
        target: NpuTarget { soc: "x-elite".into(), soc_model: 60, htp_arch: 73 },
        precision: Precision::W8a16,
        context: Some(CONTEXT),
        chunk: Some(CHUNK),
        stop_after: Some(NpuStage::Quantize),
        keep: true,
    };
    let work = npu::build(&source, &home.path().join("model"), &options, &laboratory, &mut |_| {}).unwrap().folder;
    let (float, ranges) = (laboratory.float.take().unwrap(), laboratory.ranges.take().unwrap());

    // Every tensor that quantization asks for was seen in one graph or the other.
    for (tensor, _) in float.prefill.graph.observed().chain(float.decode.graph.observed()) {
        assert!(ranges.0.contains_key(&tensor.name), "{}", tensor.name);
    }
    // The constant first token's keys and values fit into the cache's codes.
    let sink = float.bundle.sink.as_ref().unwrap();
    let rows: Vec<f32> = fs::read(float.folder.join(&sink.file))
        .unwrap()
        .chunks_exact(4)
        .map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()))
        .collect();
    let width = float.bundle.kv_heads * float.bundle.head_size;
    for (index, rows) in rows.chunks_exact(width).enumerate() {
        let name = format!("present.{}.{}", index / 2, ["key", "value"][index % 2]);
        let (low, high) = ranges.0[&name];
        assert!(rows.iter().all(|value| (low..=high).contains(value)), "{name}: {low} to {high}");
    }

    let judge = |folder: &Path| {
        let candidate = Candidate { calibration: CalibrationData::Text, folder: folder.to_owned(), compiled: false };
        let verdict = laboratory.judge(&float, &[candidate], &mut |_| {}).unwrap();
        let quality = verdict.report["columns"][0]["quality"].clone();
        let number = move |name: &str| quality[name].as_f64().unwrap();
        (number, verdict.missed)
    };
    // The float model is its own equal, whatever runs: all of a prompt at once, or its answer token by token.
    let (number, missed) = judge(&float.folder);
    assert!(number("positions") > 200.0, "{}", number("positions"));
    assert!(number("divergence") < 1e-6 && number("cosine") > 0.999_999, "{}", number("divergence"));
    assert_eq!((number("agreement") > 99.0, missed), (true, vec![]));

    let quantized = work.join("quantized");
    let (number, _) = judge(&quantized);
    assert!(number("divergence") < 0.01 && number("cosine") > 0.999, "{} {}", number("divergence"), number("cosine"));

    // Scales that are not those of the graph's outputs give other predictions.
    let mut bundle = NpuBundle::read(&quantized).unwrap();
    bundle.quantization.as_mut().unwrap().output_hidden_states.scale *= 2.0;
    fs::write(quantized.join(NPU_FILE), serde_json::to_vec(&bundle).unwrap()).unwrap();
    let (number, missed) = judge(&quantized);
    assert!(missed.iter().any(|what| what.contains("KL divergence")), "{missed:?} {}", number("divergence"));
}
