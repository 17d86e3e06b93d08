//! `ortalk build` for the CPU and `ortalk run` on what it built, for models of each architecture: the answer is the one that
//! transformers gives.

use serde_json::Value;

use ortalk::model::ModelFolder;

use crate::answers::{Answer, PROMPT, answers, model};
use crate::support::succeed;

/// For a text as short as the prompt transformers takes LongRoPE's short table; a graph does so where none is longer.
const SHORT: [&str; 2] = ["--context", "32"];

/// Builds a model, asks it, and compares its answer as far as all tokens lead by more than `lead`; returns how far.
fn check(name: &str, expected: &Answer, precision: &[&str], lead: f32) -> usize {
    let home = tempfile::tempdir().unwrap();
    let (source, folder) = (model(name), home.path().join("model"));
    let (source, named) = (source.to_str().unwrap(), folder.to_str().unwrap());
    let context: &[&str] = if name.starts_with("phi3") { &SHORT } else { &[] };
    succeed(&[&["build", source, "-o", named, "--target", "cpu"], precision, context].concat());
    let run = ["run", "--model", named, "--json", "--temperature", "0", "-n", "8", "--threads", "1", PROMPT];
    let answer: Value = serde_json::from_slice(&succeed(&run).stdout).unwrap();

    let sure = expected.sure(lead);
    let text = ModelFolder::open(&folder).unwrap().tokenizer.decode(sure).unwrap();
    let found = answer["text"].as_str().unwrap();
    assert!(found.starts_with(&text), "{name} {precision:?}: {found:?} should start with {text:?}");
    if sure.len() == expected.tokens.len() {
        let ended = if sure.len() < 8 { "stop" } else { "length" };
        assert_eq!((found, &answer["finish_reason"]), (text.as_str(), &ended.into()), "{name} {precision:?}");
    }
    let nodes = answer["lanes"][1]["placement"][0]["nodes"].as_object().unwrap();
    assert_eq!(nodes.keys().collect::<Vec<_>>(), ["CPUExecutionProvider"], "{name}");
    sure.len()
}

#[test]
fn every_architecture_answers_as_in_transformers() {
    let [trained, random] = answers();
    // Models that are sure of what they say say it in every precision.
    for (name, expected) in &trained {
        for precision in [&[][..], &["--precision", "int4"], &["--precision", "fp32"]] {
            assert_eq!(check(name, expected, precision, 0.25), 8, "{name}");
        }
    }
    // Random ones' likeliest tokens are close to each other; in float32 they are the same still, and in 8 bits some.
    let mut compared = [0; 2];
    for (name, expected) in &random {
        compared[0] += check(name, expected, &["--precision", "fp32"], 1e-3);
        compared[1] += check(name, expected, &[], 0.2);
    }
    assert!(compared[0] >= 7 * random.len() && compared[1] >= random.len(), "{compared:?} of {}", random.len());
}
