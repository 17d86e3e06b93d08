//! End to end: the real binary and the real model. The first test that needs them fetches ONNX Runtime and the model
//! into `target/tmp`, where later runs find them.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod numerics;
mod run;
mod support;
