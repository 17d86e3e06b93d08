//! The NPU lane's decoders on tiny models that are built here: static graphs on the CPU, in this process and in one of
//! their own, compared with what a llama's definition gives.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../support/bundle.rs"]
mod bundle;
#[path = "../support/tiny_llama.rs"]
mod tiny_llama;

mod architectures;
mod child;
mod engine;
mod genai;
mod genai_folders;
mod optimum_folders;
mod pipeline;
mod quality;
mod static_bundle;
mod support;
