//! QNN for real: the plug-in's simulator of a Hexagon NPU, on graphs small enough to compile in a moment.
//!
//! Only the x86-64 plug-in for Linux has a simulator that is known to run. What the tests fetch stays in `target/tmp/home`.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;
mod truncated;
mod two_layers;

#[path = "../support/bundle.rs"]
#[allow(dead_code, reason = "the lane's tests on the CPU use all of it")]
mod bundle;
#[path = "../support/json_schema.rs"]
mod json_schema;
#[path = "../support/answers.rs"]
mod known_answers;
#[path = "../support/pty.rs"]
#[allow(dead_code, reason = "the tests of the screen alone use more of it")]
mod pty;
#[path = "../support/tiny_llama.rs"]
#[allow(dead_code, reason = "likewise")]
mod tiny_llama;

mod agreement;
mod answers;
mod architectures;
mod bench;
mod build;
mod chat;
mod compile;
mod faults;
mod lane;
mod qwen3_shape;
mod race;
mod session;
mod sys;
