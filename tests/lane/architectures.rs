//! Each architecture as transformers computes it: tiny random models, and the logits that `tests/fixtures/make_tiny_models.py`
//! wrote for them in float32.

use std::path::{Path, PathBuf};

use ortalk::builder::npu::NpuStage;
use ortalk::builder::{self, BuildOptions, CpuPrecision};
use ortalk::decoder::{Decoder, DecoderOptions, PlainDecoder, StaticDecoder};
use ortalk::model::{ModelFolder, NpuBundle};

use crate::bundle::{CHUNK, CONTEXT, ONE_THREAD, run_stages};
use crate::support::runtime;

/// The fixtures' prompt; what follows is decoded token by token.
const PROMPT: usize = 16;

/// GGUF files, and checkpoint folders: two sizes of each architecture.
const MODELS: [&str; 15] = [
    "llama3-bf16",
    "llama-f32",
    "mistral-f16",
    "qwen2-f16",
    "qwen2-window",
    "qwen2-yarn",
    "qwen3-odd.gguf",
    "qwen3-even.gguf",
    "qwen3-bf16",
    "gemma3-period.gguf",
    "gemma3-odd",
    "gemma3-wide",
    "phi3-partial.gguf",
    "phi3-window",
    "phi3-long",
];

/// Models that turn positions differently where no text is longer than so many tokens.
const SHORT: usize = 32;
const WITH_SHORT_TEXTS: [&str; 2] = ["phi3-partial.gguf", "phi3-long"];

struct Fixture {
    source: PathBuf,
    tokens: Vec<u32>,
    /// After each token.
    logits: Vec<Vec<f32>>,
}

/// The logits over all tokens, or over a short text's.
fn fixture(source: &str, short: bool) -> Fixture {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/models");
    let mut tokens: Vec<u32> = serde_json::from_slice(&std::fs::read(folder.join("tokens.json")).unwrap()).unwrap();
    assert_eq!(tokens.len(), PROMPT + 32);
    if short {
        tokens.truncate(SHORT);
    }
    let (name, end) = (source.strip_suffix(".gguf").unwrap_or(source), if short { ".short.logits" } else { ".logits" });
    let bytes = std::fs::read(folder.join(format!("{name}{end}"))).unwrap();
    let values: Vec<f32> = bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    let logits = values.chunks(values.len() / tokens.len()).map(<[f32]>::to_vec).collect();
    Fixture { source: folder.join(source), tokens, logits }
}

/// All models, then those that have short texts, too.
fn fixtures() -> impl Iterator<Item = (&'static str, Fixture)> {
    let long = MODELS.into_iter().map(|source| (source, fixture(source, false)));
    long.chain(WITH_SHORT_TEXTS.into_iter().map(|source| (source, fixture(source, true))))
}

fn difference(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len());
    found.iter().zip(expected).map(|(found, expected)| (found - expected).abs()).fold(0.0, f32::max)
}

/// Compares the logits after the prompt and after each token behind it, for prompts that are run at once or in parts of
/// these lengths; returns the largest difference.
fn largest_difference(decoder: &mut impl Decoder, fixture: &Fixture, parts: &[usize]) -> f32 {
    decoder.rewind(0);
    let mut largest = 0.0_f32;
    let mut start = 0;
    let prompt: usize = parts.iter().sum();
    let ones = vec![1; fixture.tokens.len() - prompt];
    for length in parts.iter().chain(&ones) {
        decoder.forward(&fixture.tokens[start..start + length]).unwrap();
        start += length;
        largest = largest.max(difference(decoder.logits(), &fixture.logits[start - 1]));
    }
    assert_eq!(start, fixture.tokens.len());
    largest
}

#[test]
fn float_graphs_compute_what_transformers_does() {
    assert_eq!(CONTEXT, PROMPT + 32);
    for (source, fixture) in fixtures() {
        let home = tempfile::tempdir().unwrap();
        let work =
            run_stages(&fixture.source, &home.path().join("model"), NpuStage::Export, None, fixture.tokens.len());
        let folder = work.join("float");
        let session = |graph: &Path| runtime().cpu_session(graph, ONE_THREAD);
        let bundle = NpuBundle::read(&folder).unwrap();
        let mut decoder = StaticDecoder::new(&runtime(), &folder, bundle, ONE_THREAD, &session).unwrap();
        for parts in [&[PROMPT][..], &[CHUNK, CHUNK], &[3, 1, 12], &[1; PROMPT]] {
            let found = largest_difference(&mut decoder, &fixture, parts);
            assert!(found < 1e-3, "{source} in {parts:?}: {found}");
        }
    }
}

#[test]
fn the_cpu_target_in_float32_computes_what_transformers_does() {
    for (source, fixture) in fixtures() {
        let found = relative_difference(&fixture, CpuPrecision::Fp32);
        assert!(found < 1e-4, "{source}: {found}");
    }
}

#[test]
fn the_cpu_target_stays_near_transformers_in_fewer_bits() {
    for (source, fixture) in fixtures() {
        // Matrices in Q8_0 keep their values; what is left is activations in 8 bits.
        for (precision, most) in [(CpuPrecision::Fp16, 0.003), (CpuPrecision::Int8, 0.08)] {
            let found = relative_difference(&fixture, precision);
            assert!(found < most, "{source} in {precision}: {found}");
        }
    }
}

/// The largest difference of logits after a build for the CPU, relative to the largest logit.
fn relative_difference(fixture: &Fixture, precision: CpuPrecision) -> f32 {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("model");
    let context = fixture.tokens.len();
    let options = BuildOptions { precision, context: Some(context), ..BuildOptions::default() };
    builder::build(&fixture.source, &folder, &options, &mut |_| {}).unwrap();
    let model = ModelFolder::open(&folder).unwrap();
    let options = DecoderOptions { session: ONE_THREAD, context };
    let mut decoder = PlainDecoder::new(&runtime(), &model, options).unwrap();
    let largest = fixture.logits.iter().flatten().fold(0.0_f32, |largest, logit| largest.max(logit.abs()));
    let parts = [&[PROMPT][..], &[CHUNK, CHUNK], &[3, 1, 12], &[1; PROMPT]];
    let differences = parts.map(|parts| largest_difference(&mut decoder, fixture, parts));
    differences.into_iter().fold(0.0, f32::max) / largest
}
