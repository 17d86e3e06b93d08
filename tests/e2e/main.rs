//! End to end: the real binary and the real model. The first test that needs them fetches ONNX Runtime and the model
//! into `target/tmp`, where later runs find them.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../support/answers.rs"]
mod answers;
mod architectures;
mod bench;
#[cfg(unix)]
mod chat;
#[cfg(unix)]
mod chats;
#[cfg(unix)]
mod cost;
#[path = "../support/json_schema.rs"]
mod json_schema;
mod lanes;
mod numerics;
#[cfg(unix)]
#[path = "../support/openai.rs"]
#[allow(dead_code, reason = "the client's own tests use more of it")]
mod openai;
#[cfg(unix)]
#[path = "../support/pty.rs"]
#[allow(dead_code, reason = "the tests of the screen alone use more of it")]
mod pty;
#[cfg(unix)]
mod remote;
#[cfg(unix)]
mod report;
mod requests;
mod run;
#[cfg(unix)]
mod second;
mod support;
mod tune;
