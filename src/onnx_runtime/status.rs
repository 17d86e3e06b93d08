//! What ONNX Runtime's C functions answer: nothing, or a status with a message, which is ours to release.
#![allow(unsafe_code)]

use std::ffi::CStr;

use ort::sys::OrtStatusPtr;

/// The message of an error status.
pub fn check(status: OrtStatusPtr) -> Result<(), String> {
    if status.0.is_null() {
        return Ok(());
    }
    let api = ort::api();
    // SAFETY: a status that is not null is valid until it is released, which happens here and only once; its message is
    // copied before.
    unsafe {
        let message = CStr::from_ptr((api.GetErrorMessage)(status.0)).to_string_lossy().into_owned();
        (api.ReleaseStatus)(status.0);
        Err(message)
    }
}
