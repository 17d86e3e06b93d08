//! Servers that speak OpenAI's interface, as they are and as they fail.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../support/openai.rs"]
#[allow(dead_code, reason = "the engine's tests use more of it")]
mod openai;

mod bench;
mod client;
#[path = "../support/json_schema.rs"]
mod json_schema;
