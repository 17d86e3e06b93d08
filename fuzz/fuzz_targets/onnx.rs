//! Any bytes as an ONNX file: its outline must end without a panic and keep no more than the file has, and so must what a
//! decoder makes of it.
#![no_main]

use std::fs;

use libfuzzer_sys::fuzz_target;
use ortalk::decoder::{Contract, GraphOutline};
use ortalk::model::ModelConfig;

const MODEL: &str = r#"{"type": "llama", "context_length": 128, "vocab_size": 36, "decoder": {"filename": "model.onnx",
    "hidden_size": 32, "head_size": 16, "num_hidden_layers": 2, "num_key_value_heads": 2}}"#;

fuzz_target!(|data: &[u8]| {
    // One for each process, since a fuzzer starts several.
    let path = std::env::temp_dir().join(format!("ortalk-fuzz-{}.onnx", std::process::id()));
    if fs::write(&path, data).is_err() {
        return;
    }
    let Ok(outline) = GraphOutline::read(&path) else { return };
    assert!(outline.nodes.len() + outline.inputs.len() + outline.outputs.len() <= data.len());
    if let Ok(model) = serde_json::from_str::<ModelConfig>(MODEL) {
        let _ = Contract::of(&outline, &model);
    }
});
