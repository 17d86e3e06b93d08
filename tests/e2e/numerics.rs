//! The model as it runs here against an independent implementation on the same weights, dequantized to float32. The
//! fixtures and what is in them: `tests/fixtures/make_reference.py`.

use std::path::Path;

use half::f16;
use ortalk::decoder::{Decoder, DecoderOptions, PlainDecoder};
use ortalk::model::{ModelConfig, ModelFolder, TemplateMessage};
use ortalk::onnx_runtime::CpuSessionOptions;
use serde::Deserialize;

use crate::support::{model, runtime};

/// The reference's best logit leads by less than this where rounding may decide.
const CLEAR_MARGIN: f32 = 0.5;

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)).unwrap()
}

fn json<T: serde::de::DeserializeOwned>(name: &str) -> T {
    serde_json::from_slice(&fixture(name)).unwrap()
}

fn folder() -> ModelFolder {
    ModelFolder::open(model()).unwrap()
}

fn decoder(folder: &ModelFolder) -> PlainDecoder {
    let session = CpuSessionOptions { threads: 2, spinning: false };
    PlainDecoder::new(&runtime(), folder, DecoderOptions { session, context: 512 }).unwrap()
}

#[derive(Deserialize)]
struct Reference {
    sequences: Vec<Vec<u32>>,
    columns: Vec<usize>,
    greedy: Vec<Greedy>,
}

#[derive(Deserialize)]
struct Greedy {
    prompt: Vec<u32>,
    continuation: Vec<u32>,
    margins: Vec<f32>,
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |x: &[f32], y: &[f32]| x.iter().zip(y).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

fn argmax(logits: &[f32]) -> u32 {
    (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b])).unwrap() as u32
}

#[test]
fn logits_agree_with_the_reference() {
    let reference: Reference = json("logits.json");
    let raw = fixture("logits.bin");
    let positions: usize = reference.sequences.iter().map(Vec::len).sum();
    let columns = reference.columns.len();
    assert!(positions >= 200, "{positions} positions");
    let (expected, rest) = raw.split_at(positions * columns * 2);
    let expected: Vec<f32> =
        expected.as_chunks::<2>().0.iter().map(|bytes| f16::from_le_bytes(*bytes).to_f32()).collect();
    let best: Vec<u32> = rest[positions * 8..].as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b)).collect();

    let folder = folder();
    let vocabulary = folder.config.model.vocab_size;
    let mut decoder = decoder(&folder);
    let (mut cosines, mut same, mut position) = (Vec::new(), 0, 0);
    for sequence in &reference.sequences {
        decoder.rewind(0);
        let logits = decoder.forward_all(sequence).unwrap();
        for row in logits.chunks_exact(vocabulary) {
            let chosen: Vec<f32> = reference.columns.iter().map(|column| row[*column]).collect();
            cosines.push(cosine(&chosen, &expected[position * columns..(position + 1) * columns]));
            same += usize::from(argmax(row) == best[position]);
            position += 1;
        }
    }
    let mean = cosines.iter().sum::<f64>() / cosines.len() as f64;
    let agreement = same as f64 / positions as f64;
    println!("mean cosine {mean:.5}, top-1 agreement {agreement:.3} over {positions} positions");
    assert!(mean >= 0.999, "mean cosine {mean}");
    assert!(agreement >= 0.95, "top-1 agreement {agreement}");
}

#[test]
fn greedy_choices_agree_where_the_reference_is_sure() {
    let reference: Reference = json("logits.json");
    let folder = folder();
    let mut decoder = decoder(&folder);
    let mut sure = 0;
    for Greedy { prompt, continuation, margins } in &reference.greedy {
        decoder.rewind(0);
        decoder.forward(prompt).unwrap();
        for (step, (expected, margin)) in continuation.iter().zip(margins).enumerate() {
            if *margin >= CLEAR_MARGIN {
                sure += 1;
                assert_eq!(argmax(decoder.logits()), *expected, "step {step}, margin {margin}");
            }
            decoder.forward(&[*expected]).unwrap();
        }
    }
    assert!(sure >= 20, "{sure} sure steps");
}

/// Splitting a prompt, and going back over a cache that holds something else, must not change the result by a bit.
#[test]
fn chunks_and_rewinding_are_exact() {
    let folder = folder();
    let mut decoder = decoder(&folder);
    let tokens: Vec<u32> = (0..100).map(|i| 1000 + 37 * i).collect();
    decoder.forward(&tokens).unwrap();
    let whole = decoder.logits().to_vec();
    decoder.rewind(0);
    decoder.forward(&tokens[..64]).unwrap();
    decoder.forward(&[5, 6, 7]).unwrap();
    decoder.rewind(64);
    decoder.forward(&tokens[64..]).unwrap();
    assert!(decoder.logits() == whole, "largest difference {}", difference(decoder.logits(), &whole));
}

/// The cache starts with room for 1024 tokens; going past that must not change the result by a bit either.
#[test]
fn a_cache_that_grows_keeps_what_is_in_it() {
    let folder = folder();
    let session = CpuSessionOptions { threads: 2, spinning: false };
    let options = DecoderOptions { session, context: 4096 };
    let mut decoder = PlainDecoder::new(&runtime(), &folder, options).unwrap();
    let tokens: Vec<u32> = (0..1100).map(|i| 1000 + 37 * i % 40_000).collect();
    // In two passes: the first fits into the cache as it starts, the second makes it grow.
    decoder.forward(&tokens[..1000]).unwrap();
    decoder.forward(&tokens[1000..]).unwrap();
    let grown = decoder.logits().to_vec();
    // In the grown cache from the start.
    decoder.rewind(0);
    decoder.forward(&tokens[..1000]).unwrap();
    decoder.forward(&tokens[1000..]).unwrap();
    assert!(decoder.logits() == grown, "largest difference {}", difference(decoder.logits(), &grown));
}

fn difference(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn bad_tokens_and_a_full_context_are_errors() {
    let folder = folder();
    let mut decoder = decoder(&folder);
    let unknown = decoder.forward(&[49152]).unwrap_err().to_string();
    assert!(unknown.contains("49152"), "{unknown}");
    let full = decoder.forward(&[1; 513]).unwrap_err().to_string();
    assert!(full.contains("513") && full.contains("512"), "{full}");
    assert!(decoder.forward(&[]).is_err());
    assert_eq!(decoder.position(), 0);
}

#[test]
fn a_configuration_that_does_not_fit_the_graph_is_refused() {
    let refusal = |change: &dyn Fn(&mut ModelConfig)| {
        let mut folder = folder();
        change(&mut folder.config.model);
        let session = CpuSessionOptions { threads: 1, spinning: false };
        let options = DecoderOptions { session, context: 64 };
        PlainDecoder::new(&runtime(), &folder, options).err().unwrap().to_string()
    };
    let narrow = refusal(&|model| model.vocab_size = 49_000);
    assert!(narrow.contains("[n, 1, 49152]") && narrow.contains("vocab_size 49000"), "{narrow}");
}

#[derive(Deserialize)]
struct Tokenized {
    text: String,
    ids: Vec<u32>,
}

#[test]
fn the_tokenizer_agrees_with_the_reference() {
    let folder = folder();
    let cases: Vec<Tokenized> = json("tokenizer.json");
    assert!(cases.len() >= 20, "{} texts", cases.len());
    for Tokenized { text, ids } in cases {
        assert_eq!(folder.tokenizer.encode(&text).unwrap(), ids, "{text:?}");
    }
}

#[derive(Deserialize)]
struct Rendered {
    messages: Vec<Message>,
    add_generation_prompt: bool,
    rendered: String,
}

#[derive(Deserialize)]
struct Message {
    role: String,
    content: String,
}

#[test]
fn the_chat_template_agrees_with_the_reference() {
    let folder = folder();
    let cases: Vec<Rendered> = json("chat_template.json");
    assert!(cases.len() >= 4, "{} conversations", cases.len());
    for Rendered { messages, add_generation_prompt, rendered } in cases {
        let messages: Vec<TemplateMessage<'_>> =
            messages.iter().map(|m| TemplateMessage { role: &m.role, content: &m.content }).collect();
        assert_eq!(folder.template.render(&messages, add_generation_prompt).unwrap(), rendered);
    }
}
