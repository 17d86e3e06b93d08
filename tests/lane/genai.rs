//! A folder that is built here answers in onnxruntime-genai as it does here: `tests/fixtures/make_genai_tokens.py` wrote down
//! what it says there.

use std::collections::BTreeMap;
use std::path::Path;

use ortalk::builder::{self, BuildOptions, CpuPrecision, FourBits};
use ortalk::decoder::{Decoder, DecoderOptions, PlainDecoder};
use ortalk::model::ModelFolder;

use crate::bundle::ONE_THREAD;
use crate::support::runtime;

/// Where the prompts begin, as the script has it, and how long they are.
const STARTS: [usize; 6] = [0, 6, 12, 18, 24, 30];
const PROMPT: usize = 12;
/// Where the best logit leads by less than this part of the largest one, another processor's rounding may decide.
const CLEAR: f32 = 1e-3;

fn precision(name: &str) -> CpuPrecision {
    match name {
        "int4" => CpuPrecision::Int4(FourBits::default()),
        "int8" => CpuPrecision::Int8,
        "fp16" => CpuPrecision::Fp16,
        _ => CpuPrecision::Fp32,
    }
}

#[test]
fn genai_continues_as_this_decoder_does() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let tokens: Vec<u32> =
        serde_json::from_slice(&std::fs::read(fixtures.join("models/tokens.json")).unwrap()).unwrap();
    let answers: BTreeMap<String, BTreeMap<String, Vec<Vec<u32>>>> =
        serde_json::from_slice(&std::fs::read(fixtures.join("genai_tokens.json")).unwrap()).unwrap();
    let (mut clear, mut all) = (0, 0);
    for (source, answers) in &answers {
        assert_eq!(answers.len(), 4, "{source}");
        for (name, answers) in answers {
            let home = tempfile::tempdir().unwrap();
            let folder = home.path().join("model");
            let options = BuildOptions { precision: precision(name), ..BuildOptions::default() };
            assert_eq!(options.precision.to_string(), *name);
            builder::build(&fixtures.join("models").join(source), &folder, &options, &mut |_| {}).unwrap();
            let model = ModelFolder::open(&folder).unwrap();
            let options = DecoderOptions { session: ONE_THREAD, context: 32 };
            let mut decoder = PlainDecoder::new(&runtime(), &model, options).unwrap();
            assert_eq!(answers.len(), STARTS.len());
            for (start, expected) in STARTS.into_iter().zip(answers) {
                decoder.rewind(0);
                decoder.forward(&tokens[start..start + PROMPT]).unwrap();
                for (step, expected) in expected.iter().enumerate() {
                    let (best, lead) = best(decoder.logits());
                    all += 1;
                    if lead > CLEAR {
                        clear += 1;
                        assert_eq!(best, *expected, "{source} in {name}, prompt at {start}, step {step}");
                    }
                    decoder.forward(&[*expected]).unwrap();
                }
            }
        }
    }
    assert!(clear * 10 >= all * 9 && all >= 200, "{clear} of {all} steps are clear");
}

/// The most likely token, and how far its logit is above the next one, relative to itself.
fn best(logits: &[f32]) -> (u32, f32) {
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|a, b| logits[*b].total_cmp(&logits[*a]));
    let [best, second] = [order[0], order[1]].map(|token| logits[token]);
    (order[0] as u32, (best - second) / best.abs())
}
