//! Folders that onnxruntime-genai's model builder made (`tests/fixtures/make_genai_folders.py`), run here and there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ortalk::decoder::{CacheKind, Decoder, DecoderOptions, PlainDecoder};
use ortalk::model::ModelFolder;
use serde::Deserialize;

use crate::bundle::ONE_THREAD;
use crate::support::runtime;

/// The fixtures' prompt; what follows is decoded token by token.
pub const PROMPT: usize = 16;

#[derive(Deserialize)]
struct Expected {
    checkpoint: String,
    /// What onnxruntime-genai chooses behind the prompt.
    tokens: Vec<u32>,
    /// Of its logits from those of transformers, relative to the largest of them.
    distance: f32,
}

pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

pub fn tokens() -> Vec<u32> {
    serde_json::from_slice(&std::fs::read(fixtures().join("models/tokens.json")).unwrap()).unwrap()
}

fn expected() -> BTreeMap<String, Expected> {
    let found: BTreeMap<_, _> =
        serde_json::from_slice(&std::fs::read(fixtures().join("genai/expected.json")).unwrap()).unwrap();
    assert!(found.len() >= 4);
    found
}

/// Rows of logits.
pub fn rows(file: &Path, count: usize) -> Vec<Vec<f32>> {
    let bytes = std::fs::read(file).unwrap();
    let values: Vec<f32> = bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    values.chunks(values.len() / count).map(<[f32]>::to_vec).collect()
}

pub fn open(path: &Path) -> PlainDecoder {
    let folder = ModelFolder::open(path).unwrap();
    let context = folder.config.model.context_length;
    PlainDecoder::new(&runtime(), &folder, DecoderOptions { session: ONE_THREAD, context }).unwrap()
}

/// The largest difference of the logits after the prompt, which is run in these parts, and after each token behind it.
pub fn largest_difference(decoder: &mut PlainDecoder, expected: &[Vec<f32>], parts: &[usize]) -> f32 {
    let tokens = tokens();
    assert_eq!((parts.iter().sum::<usize>(), expected.len()), (PROMPT, tokens.len() - PROMPT + 1));
    decoder.rewind(0);
    let mut start = 0;
    for length in parts {
        decoder.forward(&tokens[start..start + length]).unwrap();
        start += length;
    }
    let mut largest = difference(decoder.logits(), &expected[0]);
    for (token, expected) in tokens[PROMPT..].iter().zip(&expected[1..]) {
        decoder.forward(&[*token]).unwrap();
        largest = largest.max(difference(decoder.logits(), expected));
    }
    largest
}

pub fn difference(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len());
    found.iter().zip(expected).map(|(found, expected)| (found - expected).abs()).fold(0.0, f32::max)
}

/// Going back in the cache and on with other tokens, and back again, leaves no trace.
pub fn check_rewinding(decoder: &mut PlainDecoder, name: &str) {
    let tokens = tokens();
    decoder.rewind(0);
    decoder.forward(&tokens[..PROMPT]).unwrap();
    decoder.forward(&tokens[PROMPT..PROMPT + 4]).unwrap();
    let first = decoder.logits().to_vec();
    decoder.forward(&tokens[20..30]).unwrap();
    assert_eq!(decoder.position(), 30);
    decoder.rewind(9);
    decoder.forward(&[5, 6, 7]).unwrap();
    decoder.rewind(40);
    assert_eq!(decoder.position(), 12, "there is nothing to go forward to");
    decoder.rewind(0);
    decoder.forward(&tokens[..PROMPT]).unwrap();
    decoder.forward(&tokens[PROMPT..PROMPT + 4]).unwrap();
    assert_eq!(decoder.logits(), first, "{name}: the same work, the same bits");
    decoder.rewind(PROMPT);
    decoder.forward(&tokens[PROMPT..PROMPT + 4]).unwrap();
    assert_eq!(decoder.logits(), first, "{name}: the kept part of the cache is as it was");
}

fn argmax(logits: &[f32]) -> u32 {
    (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b])).unwrap() as u32
}

#[test]
fn logits_and_tokens_are_those_of_onnxruntime_genai() {
    for (name, expected) in expected() {
        let mut decoder = open(&fixtures().join("genai").join(&name));
        let logits = rows(&fixtures().join(format!("genai/{name}.logits")), tokens().len() - PROMPT + 1);
        let largest = logits.iter().flatten().fold(0.0_f32, |largest, logit| largest.max(logit.abs()));
        // Activations in 8 bits and in float16 are rounded otherwise in other chunks.
        let rounding = if name.ends_with("fp32") {
            1e-5
        } else if name.ends_with("fp16") {
            4e-3
        } else {
            0.02
        };
        for (parts, most) in
            [(&[PROMPT][..], 1e-5), (&[8, 8], rounding), (&[3, 1, 12], rounding), (&[1; PROMPT], rounding)]
        {
            let found = largest_difference(&mut decoder, &logits, parts) / largest;
            println!("{name} {parts:?} {found}");
            assert!(found <= most, "{name} in {parts:?}: {found}");
        }
        decoder.rewind(0);
        decoder.forward(&tokens()[..PROMPT]).unwrap();
        for (step, token) in expected.tokens.iter().enumerate() {
            assert_eq!(argmax(decoder.logits()), *token, "{name}, step {step}");
            decoder.forward(&[*token]).unwrap();
        }
        check_rewinding(&mut decoder, &name);
    }
}

#[test]
fn logits_are_as_far_from_transformers_as_those_of_onnxruntime_genai() {
    for (name, Expected { checkpoint, distance, .. }) in expected() {
        let mut decoder = open(&fixtures().join("genai").join(&name));
        let reference = rows(&fixtures().join(format!("models/{checkpoint}.logits")), tokens().len());
        let largest = reference.iter().flatten().fold(0.0_f32, |largest, logit| largest.max(logit.abs()));
        let found = largest_difference(&mut decoder, &reference[PROMPT - 1..], &[PROMPT]) / largest;
        assert!((found - distance).abs() < 1e-5, "{name}: {found}, not {distance}");
        if name.ends_with("fp32") {
            assert!(found < 1e-4, "{name}: {found}");
        }
    }
}

#[test]
fn the_graph_says_how_its_cache_is_kept() {
    for (name, _) in expected() {
        let kind = if name.starts_with("growing") { CacheKind::Growing } else { CacheKind::Shared };
        assert_eq!(open(&fixtures().join("genai").join(&name)).cache_kind(), kind, "{name}");
    }
}
