//! Servers that speak OpenAI's interface, as they are and as they fail.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../support/openai.rs"]
mod openai;

mod client;
