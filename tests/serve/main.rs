//! `ortalk serve` over HTTP: the real binary and the real model, asked by raw requests, by OpenAI's own Python package and
//! by clients that do what they should not. The first test that needs them fetches ONNX Runtime, the model and the Python
//! packages into `target/tmp`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod api;
mod bench;
mod client;
mod faults;
mod metrics;
mod openai;
mod parameters;
mod safety;
mod server;
mod soak;
#[cfg(unix)]
mod stopping;
