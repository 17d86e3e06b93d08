//! The stages from end to end on a tiny model, with a laboratory that runs nothing: which stages run, what they leave, and
//! what the files say. That graphs with these files run is tested with real sessions.

use std::cell::{Cell, RefCell};
use std::fs;
use std::path::{Path, PathBuf};

use pretty_assertions::assert_eq;

use super::super::*;
use super::tiny_qwen2;
use crate::builder::Step;
use crate::builder::blocks::TensorType;
use crate::builder::testing::tiny_llama;
use crate::model::{BUILD_FILE, CompiledNodes, ModelFolder};

/// Invents what graphs would give, and takes notes.
#[derive(Default)]
pub struct Invented {
    asked: RefCell<Vec<String>>,
    missed: RefCell<Vec<String>>,
    /// Compiling fails.
    broken: Cell<bool>,
}

impl Invented {
    fn note(&self, what: String) {
        self.asked.borrow_mut().push(what);
    }

    /// What was asked for since the last time.
    fn notes(&self) -> Vec<String> {
        self.asked.take()
    }
}

/// Of a compiled graph.
const NODES: usize = 7;

impl Laboratory for Invented {
    fn sink(&self, folder: &Path, bundle: &NpuBundle) -> Result<Option<(u32, Vec<u8>)>, BoxedError> {
        // Whoever runs the graphs finds a whole model folder.
        ModelFolder::open(folder)?;
        assert_eq!(*bundle, NpuBundle::read(folder)?);
        self.note("sink".into());
        Ok(Some((1, vec![7; bundle.layers * 2 * bundle.kv_heads * bundle.head_size * 4])))
    }

    fn calibrate(
        &self,
        float: &FloatGraphs,
        data: CalibrationData,
        _progress: &mut dyn FnMut(f32),
    ) -> Result<graph::Ranges, BoxedError> {
        assert!(float.prefill.file.is_file() && float.decode.file.is_file() && float.bundle.sink.is_some());
        self.note(format!("calibrate on {data:?}"));
        let high = if data == CalibrationData::Text { 4.0 } else { 40.0 };
        Ok(graph::Ranges(float.prefill.graph.observed().map(|(t, _)| (t.name.clone(), (-4.0, high))).collect()))
    }

    fn compile(
        &self,
        model: &Path,
        output: &Path,
        target: &NpuTarget,
        _progress: &mut dyn FnMut(f32),
    ) -> Result<usize, BoxedError> {
        if self.broken.get() {
            return Err("the compiler is ill".into());
        }
        self.note(format!("compile {} for {}", model.file_name().unwrap().display(), target.soc));
        fs::write(output, fs::read(model)?)?;
        fs::write(output.with_extension("bin"), "binary")?;
        Ok(NODES)
    }

    fn judge(
        &self,
        float: &FloatGraphs,
        candidates: &[Candidate],
        _progress: &mut dyn FnMut(f32),
    ) -> Result<Verdict, BoxedError> {
        for candidate in candidates {
            let bundle = NpuBundle::read(&candidate.folder)?;
            assert_eq!(bundle.sink, float.bundle.sink);
            ModelFolder::open(&candidate.folder)?;
        }
        let list: Vec<_> = candidates.iter().map(|c| format!("{:?} {}", c.calibration, c.compiled)).collect();
        self.note(format!("judge {}", list.join(", ")));
        let missed = self.missed.borrow().clone();
        Ok(Verdict { report: json!({"cosine": 0.5}), text: "the report".into(), missed })
    }
}

pub fn options(precision: Precision) -> NpuBuildOptions {
    NpuBuildOptions {
        common: BuildOptions::default(),
        target: NpuTarget::named("x-elite").unwrap(),
        precision,
        context: Some(32),
        chunk: Some(8),
        stop_after: None,
        keep: false,
    }
}

/// A model's file in a folder of its own, and what is built of it.
pub struct Home {
    pub folder: tempfile::TempDir,
    pub laboratory: Invented,
}

impl Home {
    pub fn new(bytes: &[u8]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("tiny.gguf"), bytes).unwrap();
        Self { folder, laboratory: Invented::default() }
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn build(&self, options: &NpuBuildOptions) -> Result<(NpuBuildReport, Vec<NpuStage>), NpuBuildError> {
        let mut before = Vec::new();
        let mut hear = |progress| {
            if let NpuProgress::DoneBefore(record) = progress {
                before.push(record.stage);
            }
        };
        build(&self.at("tiny.gguf"), &self.at("out"), options, &self.laboratory, &mut hear)
            .map(|report| (report, before))
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[test]
fn all_stages_make_a_folder() {
    for file in [tiny_llama(TensorType::Q4_1), tiny_qwen2()] {
        let home = Home::new(&file.bytes());
        let (report, before) = home.build(&options(Precision::W8a16)).unwrap();
        assert_eq!(
            home.laboratory.notes(),
            [
                "sink",
                "calibrate on Text",
                "calibrate on Random",
                "compile prefill.onnx for x-elite",
                "compile decode.onnx for x-elite",
                "judge Text false, Text true, Random false",
            ]
        );
        assert_eq!((before, report.stages.len()), (vec![], 6));
        assert_eq!(report.quality.as_deref(), Some("the report"));
        assert_eq!(home.names(), ["out", "tiny.gguf"]);
        let out = home.at("out");
        let mut files: Vec<_> = stage::files(&out).unwrap().into_keys().collect();
        files.retain(|name| !name.contains("token") && !name.ends_with(".jinja"));
        assert_eq!(
            files,
            [
                "decode.bin",
                "decode.onnx",
                "embeddings.onnx",
                "genai_config.json",
                "lm_head.onnx",
                BUILD_FILE,
                "ortalk_npu.json",
                "prefill.bin",
                "prefill.onnx",
                "sink.bin",
                "vocabulary.onnx.data",
            ]
        );
        let bundle = NpuBundle::read(&out).unwrap();
        let quantization = bundle.quantization.unwrap();
        assert_eq!((bundle.context, bundle.chunk, quantization.keys.len()), (32, 8, 2));
        // What was calibrated on text, not on random numbers.
        assert_eq!(quantization.hidden_states, graph::covering(crate::model::IntegerType::U16, -4.0, 4.0));
        let origin: serde_json::Value = serde_json::from_slice(&fs::read(out.join(BUILD_FILE)).unwrap()).unwrap();
        assert_eq!(origin["quality"]["cosine"], 0.5);
        assert_eq!(origin["target"]["htp_arch"], 73);
        assert_eq!(origin["stages"][3]["stage"], "compile");
        assert_eq!(origin["files"]["sink.bin"], 2 * 2 * 2 * 16 * 4);
        let config = crate::model::read_config(&out).unwrap();
        assert_eq!(config.model.context_length, 32);
    }
}

#[test]
fn a_build_goes_on_where_it_was_stopped_or_failed() {
    let home = Home::new(&tiny_llama(TensorType::Q8_0).bytes());
    let stopped = NpuBuildOptions { stop_after: Some(NpuStage::Quantize), ..options(Precision::W8a16) };
    let (report, _) = home.build(&stopped).unwrap();
    assert_eq!(report.stages.len(), 3);
    assert_eq!(home.names(), [".out.work", "tiny.gguf"]);
    assert_eq!(home.laboratory.notes().len(), 3);

    home.laboratory.broken.set(true);
    let error = home.build(&options(Precision::W8a16)).unwrap_err().to_string();
    assert_eq!(error, "compiling failed: the compiler is ill");
    assert_eq!((home.laboratory.notes(), home.names()), (vec![], vec![".out.work".to_owned(), "tiny.gguf".to_owned()]));

    home.laboratory.broken.set(false);
    let (_, before) = home.build(&NpuBuildOptions { keep: true, ..options(Precision::W8a16) }).unwrap();
    assert_eq!(before, [NpuStage::Export, NpuStage::Calibrate, NpuStage::Quantize]);
    assert_eq!(home.laboratory.notes().len(), 3, "compiled twice, judged once");
    assert_eq!(home.names(), [".out.work", "out", "tiny.gguf"]);
}

/// A stage that was killed leaves something that is not recorded.
#[test]
fn what_a_killed_stage_left_is_made_anew() {
    let home = Home::new(&tiny_llama(TensorType::Q8_0).bytes());
    home.build(&NpuBuildOptions { stop_after: Some(NpuStage::Export), ..options(Precision::W8a16) }).unwrap();
    fs::create_dir(home.at(".out.work/quantized")).unwrap();
    fs::write(home.at(".out.work/quantized/prefill.onnx"), "half").unwrap();
    fs::write(home.at(".out.work/ranges.json"), "{").unwrap();
    let (_, before) = home.build(&options(Precision::W8a16)).unwrap();
    assert_eq!(before, [NpuStage::Export]);
    assert!(fs::metadata(home.at("out/prefill.onnx")).unwrap().len() > 1000);
}

#[test]
fn other_options_begin_anew() {
    let home = Home::new(&tiny_llama(TensorType::Q8_0).bytes());
    let stopped = NpuBuildOptions { stop_after: Some(NpuStage::Export), ..options(Precision::W8a16) };
    home.build(&stopped).unwrap();
    let (_, before) = home.build(&NpuBuildOptions { context: Some(48), ..stopped }).unwrap();
    assert_eq!(before, []);
}

#[test]
fn a_poor_model_is_refused_and_no_folder_is_left() {
    let home = Home::new(&tiny_llama(TensorType::Q8_0).bytes());
    *home.laboratory.missed.borrow_mut() = vec!["KL divergence is 0.5, expected at most 0.006".into()];
    let error = home.build(&options(Precision::W8a16)).unwrap_err().to_string();
    assert!(error.starts_with("the report\nthe quantized model is not good enough: KL divergence is 0.5"), "{error}");
    assert_eq!(home.names(), [".out.work", "tiny.gguf"]);
    // Judged again, and refused again.
    home.laboratory.notes();
    home.build(&options(Precision::W8a16)).unwrap_err();
    assert_eq!(home.laboratory.notes().len(), 1);
}

#[test]
fn floating_point_is_exported_and_compiled_only() {
    let home = Home::new(&tiny_llama(TensorType::Q8_0).bytes());
    let (report, _) = home.build(&options(Precision::Fp16)).unwrap();
    assert_eq!(home.laboratory.notes().len(), 3);
    assert_eq!((report.stages.len(), report.quality), (3, None));
    let bundle = NpuBundle::read(&home.at("out")).unwrap();
    assert_eq!((bundle.precision, bundle.quantization), (Precision::Fp16, None));
    assert_eq!(bundle.compiled_nodes, Some(CompiledNodes { prefill: NODES, decode: NODES }));
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    let home = Home::new(&tiny_llama(TensorType::Q8_0).bytes());
    for (context, chunk, expected) in [
        (Some(513), None, "--context is 513; expected 2 to 512"),
        (Some(1), None, "--context is 1; expected 2 to 512"),
        (Some(32), Some(33), "--chunk is 33; expected 2 to 32, the context"),
        (Some(32), Some(1), "--chunk is 1"),
    ] {
        let error = home.build(&NpuBuildOptions { context, chunk, ..options(Precision::W8a16) }).unwrap_err();
        assert!(error.to_string().starts_with(expected), "{error}");
    }
    assert_eq!(home.names(), ["tiny.gguf"]);
    // Without a word, as much as is usual and the model was trained for.
    let unsaid = NpuBuildOptions { context: None, chunk: None, ..options(Precision::Fp16) };
    home.build(&unsaid).unwrap();
    let bundle = NpuBundle::read(&home.at("out")).unwrap();
    assert_eq!((bundle.context, bundle.chunk), (512, 64));
}

#[test]
fn the_cache_has_a_folder_for_each_chip_and_precision() {
    let home = Home::new(&tiny_llama(TensorType::Q8_0).bytes());
    let mut folders = std::collections::HashSet::new();
    let models = home.at("models");
    for (chip, precision) in [("x-elite", Precision::Fp16), ("8-elite", Precision::Fp16), ("x-elite", Precision::W8a16)]
    {
        let options = NpuBuildOptions { target: NpuTarget::named(chip).unwrap(), ..options(precision) };
        let source = home.at("tiny.gguf");
        let cached = || {
            crate::builder::cached_npu(&source, &models, &options, &mut |step| match step {
                Step::Wait => panic!("nobody else builds"),
                Step::Build(folder) => build(&source, folder, &options, &home.laboratory, &mut |_| ()).map(|_| ()),
            })
            .unwrap()
        };
        let folder = cached();
        assert!(!home.laboratory.notes().is_empty());
        assert_eq!(cached(), folder);
        assert!(home.laboratory.notes().is_empty(), "found again");
        folders.insert(folder);
    }
    assert_eq!(folders.len(), 3);
}
