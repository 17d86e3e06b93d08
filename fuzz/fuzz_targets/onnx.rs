//! Any bytes as an ONNX file: its outline must end without a panic and keep no more than the file has, and so must what a
//! decoder makes of it.
#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use ortalk::decoder::{Contract, GraphOutline};
use ortalk::model::ModelConfig;

const MODEL: &str = r#"{"type": "llama", "context_length": 128, "vocab_size": 36, "decoder": {"filename": "model.onnx",
    "hidden_size": 32, "head_size": 16, "num_hidden_layers": 2, "num_key_value_heads": 2}}"#;

fuzz_target!(|data: &[u8]| {
    let Ok(outline) = GraphOutline::parse(Cursor::new(data), data.len() as u64) else { return };
    assert!(outline.nodes.len() + outline.inputs.len() + outline.outputs.len() <= data.len());
    if let Ok(model) = serde_json::from_str::<ModelConfig>(MODEL) {
        let _ = Contract::of(&outline, &model);
    }
});
