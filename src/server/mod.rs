//! An HTTP server over the engine, with OpenAI's API.

pub mod extension;
