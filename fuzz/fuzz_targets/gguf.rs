//! Any bytes as a GGUF file: parsing must end without a panic, without much memory, and within the bytes.
//!
//! `cargo +nightly fuzz run gguf` runs it. Without that tool, `RUSTC_BOOTSTRAP=1 cargo build` in `fuzz/` compiles it, and
//! the program replays the files it is given; it finds new inputs only when built with coverage counters, as the tool does.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ortalk::builder::gguf::Gguf;

fuzz_target!(|data: &[u8]| {
    let Ok(gguf) = Gguf::parse(data) else { return };
    for tensor in gguf.tensors() {
        let mut row = vec![0.0; tensor.shape[0].min(4096)];
        tensor.kind.dequantize(tensor.bytes, &mut row);
    }
    for key in ["general.architecture", "tokenizer.ggml.tokens", "llama.block_count"] {
        let _ = (gguf.string(key), gguf.strings(key), gguf.unsigned(key), gguf.integers(key), gguf.float(key));
    }
});
