//! Any text as the three files that say what a model of transformers.js is, one behind the other with a zero between: their
//! configuration must be within bounds, or an error.
#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use ortalk::model::read_config;

const FILES: [&str; 3] = ["config.json", "generation_config.json", "tokenizer_config.json"];

/// One for each process, since a fuzzer starts several.
fn folder() -> &'static PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = std::env::temp_dir().join(format!("ortalk-fuzz-{}", std::process::id()));
        let _ = fs::create_dir_all(folder.join("onnx"));
        let _ = fs::write(folder.join("onnx/model.onnx"), "");
        folder
    })
}

fuzz_target!(|data: &[u8]| {
    let texts = data.splitn(FILES.len(), |byte| *byte == 0).chain(std::iter::repeat(&b"{}"[..]));
    for (file, text) in FILES.into_iter().zip(texts) {
        if fs::write(folder().join(file), text).is_err() {
            return;
        }
    }
    if let Ok(config) = read_config(folder()) {
        let decoder = &config.model.decoder;
        assert!(decoder.num_hidden_layers * decoder.num_key_value_heads <= 1 << 28);
    }
});
