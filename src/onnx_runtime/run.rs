//! Runs a session on tensors that are bound already.
//!
//! `ort`'s own `run_binding` wraps every output anew after each run: type, memory and allocator of 61 tensors for a model
//! of 30 layers, most of a millisecond for each token. Whoever bound the outputs has them.
#![allow(unsafe_code)]

use std::ptr;

use ort::AsPointer;
use ort::session::{IoBinding, Session};

/// `session` is borrowed exclusively because ONNX Runtime allows no two runs on one binding at a time.
pub fn run_bound(session: &mut Session, binding: &IoBinding) -> Result<(), String> {
    // SAFETY: session and binding are alive for the whole call, and the binding keeps the tensors that it names alive. No
    // run options are passed, which the interface allows as null.
    let status = unsafe { (ort::api().RunWithBinding)(session.ptr().cast_mut(), ptr::null(), binding.ptr()) };
    super::status::check(status)
}
