//! Any bytes as a recording: a recording whose times never go back, or an error.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use ortalk::recording::{Completeness, parse};

fuzz_target!(|data: &[u8]| {
    for completeness in [Completeness::Whole, Completeness::Partial] {
        match parse(data, Path::new("fuzz"), completeness) {
            Ok(recording) => {
                assert!(recording.lines.windows(2).all(|pair| pair[0].at_ms.0 <= pair[1].at_ms.0));
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
});
