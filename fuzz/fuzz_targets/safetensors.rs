//! Any bytes as a safetensors file: reading must end without a panic, and each tensor must lie in the file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ortalk::builder::safetensors;

fuzz_target!(|data: &[u8]| {
    for entry in safetensors::parse(data).into_iter().flatten() {
        assert!(entry.bytes.len() <= data.len());
        let _ = entry.elements();
    }
});
