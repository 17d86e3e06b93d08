//! ortalk: chat in the terminal with a language model on your own machine, and see which silicon answers.
//!
//! The library is laid out in floors; each module uses only those below it (see `ARCHITECTURE.md`).

pub mod bench;
pub mod bill;
pub mod builder;
pub mod cli;
pub mod commands;
pub mod config;
pub mod decoder;
pub mod disk;
pub mod engine;
mod http;
pub mod hub;
pub mod inspect;
pub mod ledger;
mod log_file;
pub mod mapped_file;
pub mod model;
mod onnx_file;
pub mod onnx_runtime;
pub mod paths;
pub mod provision;
pub mod race;
pub mod recording;
pub mod remote;
pub mod server;
pub mod store;
pub mod telemetry;
pub mod tui;
pub mod wire;
