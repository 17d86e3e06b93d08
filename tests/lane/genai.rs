//! A folder that is built here answers in onnxruntime-genai as it does here: `tests/fixtures/make_genai_tokens.py` wrote down
//! what it says there.

use std::collections::BTreeMap;
use std::path::Path;

use ortalk::builder::{self, BuildOptions, CpuPrecision, FourBits};
use ortalk::decoder::{Decoder, DecoderOptions, SharedBufferDecoder};
use ortalk::model::ModelFolder;

use crate::bundle::ONE_THREAD;
use crate::support::runtime;

const PROMPT: usize = 16;
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
    let answers: BTreeMap<String, BTreeMap<String, Vec<u32>>> =
        serde_json::from_slice(&std::fs::read(fixtures.join("genai_tokens.json")).unwrap()).unwrap();
    let (mut clear, mut all) = (0, 0);
    for (source, answers) in &answers {
        assert_eq!(answers.len(), 4, "{source}");
        for (name, expected) in answers {
            let home = tempfile::tempdir().unwrap();
            let folder = home.path().join("model");
            let options = BuildOptions { precision: precision(name), ..BuildOptions::default() };
            assert_eq!(options.precision.to_string(), *name);
            builder::build(&fixtures.join("models").join(source), &folder, &options, &mut |_| {}).unwrap();
            let model = ModelFolder::open(&folder).unwrap();
            let options = DecoderOptions { session: ONE_THREAD, context: PROMPT + expected.len() };
            let mut decoder = SharedBufferDecoder::new(&runtime(), &model, options).unwrap();
            decoder.forward(&tokens[..PROMPT]).unwrap();
            for (step, expected) in expected.iter().enumerate() {
                let mut order: Vec<usize> = (0..decoder.logits().len()).collect();
                order.sort_by(|a, b| decoder.logits()[*b].total_cmp(&decoder.logits()[*a]));
                let [best, second] = [order[0], order[1]].map(|token| decoder.logits()[token]);
                all += 1;
                if best - second > CLEAR * best.abs() {
                    clear += 1;
                    assert_eq!(order[0] as u32, *expected, "{source} in {name}, step {step}");
                }
                decoder.forward(&[*expected]).unwrap();
            }
        }
    }
    assert!(clear * 10 >= all * 9 && all >= 200, "{clear} of {all} steps are clear");
}
