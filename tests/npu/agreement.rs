//! How far the NPU's answers agree with those of the float model, as numbers: both are given the same text, token by token,
//! and asked for the next one each time.

use std::path::Path;

use ortalk::decoder::{Decoder, DecoderOptions, PlainDecoder, StaticDecoder};
use ortalk::model::{ModelFolder, NpuBundle, TemplateMessage};
use ortalk::onnx_runtime::{CpuSessionOptions, OnnxRuntime, RuntimeError};

use crate::support::{home, ortalk, plugin, runtime, x_elite};
use crate::two_layers::two_layers;

const CPU: CpuSessionOptions = CpuSessionOptions { threads: 2, spinning: false };

/// A chat that neither calibration nor the build's own judge has seen.
const QUESTION: &str = "Why does bread rise, and what happens to it in the oven?";
const ANSWER: &str = "Yeast eats the sugar in the dough and gives off carbon dioxide. The gluten holds the gas in small \
    bubbles, so the dough grows. In the oven the gas expands, the water turns to steam, and at about 60 °C the starch sets: \
    the crumb keeps its shape. Above 140 °C the crust browns.";

/// How close two models' predictions are.
#[derive(Debug)]
struct Agreement {
    positions: usize,
    /// Of the positions: both take the same token for the most likely.
    same_top: f64,
    /// Mean cosine of the logits.
    cosine: f64,
    /// Mean Kullback-Leibler divergence from the reference, in nats.
    divergence: f64,
}

impl Agreement {
    /// No worse than `limits`, over at least as many positions; or all the numbers are printed.
    fn assert_within(&self, limits: Self, what: &str) {
        let within = self.positions >= limits.positions
            && self.same_top >= limits.same_top
            && self.cosine >= limits.cosine
            && self.divergence <= limits.divergence;
        assert!(within, "{what}: {self:?}; expected no worse than {limits:?}");
        println!("{what}: {self:?}");
    }
}

fn compare(reference: &[Vec<f32>], found: &[Vec<f32>]) -> Agreement {
    assert_eq!(reference.len(), found.len());
    let mut sums = [0.0; 3];
    for (p, q) in reference.iter().zip(found) {
        assert!(p.len() == q.len() && q.iter().all(|logit| logit.is_finite()));
        let top = |row: &[f32]| (0..row.len()).reduce(|best, at| if row[at] > row[best] { at } else { best });
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
        let (ln_p, ln_q) = (log_softmax(p), log_softmax(q));
        sums[0] += f64::from(u8::from(top(p) == top(q)));
        sums[1] += dot(p, q) / (dot(p, p) * dot(q, q)).sqrt();
        sums[2] += ln_p.iter().zip(&ln_q).map(|(p, q)| p.exp() * (p - q)).sum::<f64>();
    }
    let positions = reference.len();
    let [same_top, cosine, divergence] = sums.map(|sum| sum / positions as f64);
    Agreement { positions, same_top, cosine, divergence }
}

/// ln softmax(x)_i = x_i - m - ln sum exp(x_j - m), with m the largest of them.
fn log_softmax(logits: &[f32]) -> Vec<f64> {
    let largest = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    let sum: f64 = logits.iter().map(|x| (f64::from(*x) - largest).exp()).sum();
    logits.iter().map(|x| f64::from(*x) - largest - sum.ln()).collect()
}

/// The prompt's tokens, and the answer's behind it.
fn tokens(folder: &Path, question: &str, answer: &str) -> (Vec<u32>, Vec<u32>) {
    let folder = ModelFolder::open(folder).unwrap();
    let message = TemplateMessage { role: "user", content: question };
    let prompt = folder.template.render(&[message], true).unwrap();
    (folder.tokenizer.encode(&prompt).unwrap(), folder.tokenizer.encode(answer).unwrap())
}

/// Logits after the prompt and after each token of the answer, one token a pass as in a chat.
fn teacher_forced(decoder: &mut dyn Decoder, prompt: &[u32], answer: &[u32]) -> Vec<Vec<f32>> {
    decoder.rewind(0);
    prompt.chunks(decoder.prefill_chunk()).for_each(|tokens| decoder.forward(tokens).unwrap());
    let mut logits = vec![decoder.logits().to_vec()];
    for token in answer {
        decoder.forward(&[*token]).unwrap();
        logits.push(decoder.logits().to_vec());
    }
    logits
}

type OpenSession<'a> = &'a dyn Fn(&OnnxRuntime, &Path) -> Result<ort::session::Session, RuntimeError>;

fn open(folder: &Path, session: OpenSession<'_>) -> StaticDecoder {
    let bundle = NpuBundle::read(folder).unwrap();
    StaticDecoder::new(&runtime(), folder, bundle, CPU, &|path| session(&runtime(), path)).unwrap()
}

fn on_cpu(runtime: &OnnxRuntime, path: &Path) -> Result<ort::session::Session, RuntimeError> {
    runtime.cpu_session(path, CPU)
}

fn on_npu(runtime: &OnnxRuntime, path: &Path) -> Result<ort::session::Session, RuntimeError> {
    runtime.npu_session(path, &plugin(), &x_elite())
}

/// Measured for both, over 73 and 16 positions: the same top token everywhere, cosine 0.999996, divergence 0.0002. The
/// limits leave room for other processors' rounding.
#[test]
fn the_npu_s_predictions_agree_with_the_float_model_s() {
    let two_layers = two_layers();
    let (prompt, answer) = tokens(&two_layers.bundle, QUESTION, ANSWER);
    let on = |folder: &Path, session: OpenSession<'_>, answer: &[u32]| {
        teacher_forced(&mut open(folder, session), &prompt, answer)
    };
    let float = on(&two_layers.work.join("float"), &on_cpu, &answer);
    let quantized = on(&two_layers.work.join("quantized"), &on_cpu, &answer);
    // The simulator needs most of a second for a token.
    let few = &answer[..15];
    let compiled = on(&two_layers.bundle, &on_npu, few);
    for (what, found) in [("the integer graphs on the CPU", quantized), ("the compiled graphs on QNN", compiled)] {
        let agreement = compare(&float[..found.len()], &found);
        agreement.assert_within(Agreement { positions: 16, same_top: 0.9, cosine: 0.9995, divergence: 0.003 }, what);
    }
}

/// The NPU's predictions beside those of the CPU lane, which rounds in its own way, on what the CPU lane says; then the
/// answer itself.
#[test]
#[ignore = "builds the whole default model and runs it on the simulator, which takes a quarter of an hour"]
fn the_whole_model_on_the_npu_says_what_the_cpu_lane_says() {
    let (source, model) = whole::sources();
    let bundle = whole::bundle(&source);
    let folder = ModelFolder::open(&model).unwrap();
    let options = DecoderOptions { session: CPU, context: 512 };
    let mut cpu = PlainDecoder::new(&runtime(), &folder, options).unwrap();
    let mut npu = open(&bundle, &on_npu);
    let (mut expected, mut found) = (Vec::new(), Vec::new());
    for question in ["What is the capital of France?", "Name three rivers.", "Why is the sky blue?"] {
        let (prompt, _) = tokens(&model, question, "");
        let answer = whole::greedy(&mut cpu, &prompt, 8);
        expected.extend(teacher_forced(&mut cpu, &prompt, &answer));
        found.extend(teacher_forced(&mut npu, &prompt, &answer));
    }
    let limits = Agreement { positions: 27, same_top: 0.95, cosine: 0.998, divergence: 0.015 };
    compare(&expected, &found).assert_within(limits, "the whole model on QNN beside the CPU lane");
    drop(npu);

    let question = "What is the capital of France?";
    let arguments = ["run", question, "--lane", "npu", "--emulate-npu", "--temperature", "0", "--json", "-n", "8"];
    let output = ortalk(&home(), &arguments).arg("--npu-model").arg(&bundle).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(answer["text"].as_str().unwrap().contains("Paris"), "{answer}");
    assert_eq!((&answer["routing"]["lane"], &answer["routing"]["emulated"]), (&"npu".into(), &true.into()));
    for graph in answer["lanes"][0]["placement"].as_array().unwrap() {
        let nodes: Vec<_> = graph["nodes"].as_object().unwrap().keys().collect();
        assert_eq!(nodes, ["QNNExecutionProvider"], "{graph}");
    }
}

/// The default model with all its layers.
mod whole {
    use std::fs;
    use std::path::{Path, PathBuf};

    use ortalk::commands::fetch::{AfterFetch, FetchDisplay};
    use ortalk::commands::session;
    use ortalk::config::Settings;
    use ortalk::decoder::Decoder;
    use ortalk::paths::Paths;
    use ortalk::provision;

    use crate::support::{home, library, ortalk, plugin};

    /// The GGUF file and the CPU lane's model folder.
    pub fn sources() -> (PathBuf, PathBuf) {
        let (paths, mut display) = (Paths::below(&home()), FetchDisplay::new(AfterFetch::Exit));
        let model = session::model(None, &Settings::default(), &paths, &mut display).unwrap();
        let source = provision::ensure_default_model_source(&paths, &mut |progress| display.report(progress)).unwrap();
        (source.path, model)
    }

    /// Built as a person would, and kept for the next time.
    pub fn bundle(source: &Path) -> PathBuf {
        library();
        plugin();
        let bundle = Path::new(env!("CARGO_TARGET_TMPDIR")).join("whole-model");
        if !bundle.exists() {
            let mut build = ortalk(&home(), &["build", "--target", "npu", "--soc", "x-elite"]);
            let output = build.arg(source).arg("--output").arg(&bundle).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{said}");
            println!("{said}");
        }
        assert!(fs::metadata(bundle.join("prefill_qnn.bin")).unwrap().len() > 50_000_000);
        bundle
    }

    /// The most likely tokens behind a prompt, one after the other.
    pub fn greedy(decoder: &mut dyn Decoder, prompt: &[u32], count: usize) -> Vec<u32> {
        decoder.rewind(0);
        decoder.forward(prompt).unwrap();
        let mut chosen = Vec::new();
        while chosen.len() < count {
            let logits = decoder.logits();
            let best = (0..logits.len()).reduce(|best, at| if logits[at] > logits[best] { at } else { best }).unwrap();
            chosen.push(best as u32);
            decoder.forward(&[best as u32]).unwrap();
        }
        chosen
    }
}
