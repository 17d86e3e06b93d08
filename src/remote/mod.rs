//! A small client of servers that speak OpenAI's HTTP interface: an answer as a stream of pieces, the list of models, and
//! plain documents besides.
//!
//! It knows nothing of lanes and prompts: what is asked is a JSON object, what comes are texts. One exchange at a time,
//! blocking, and whoever waits is asked a few times a second whether to go on.

mod client;
mod endpoint;
mod error;
mod exchange;
mod sse;
mod stream;
mod wire;

pub use client::{Client, Timeouts};
pub use endpoint::{ApiKey, Endpoint, EndpointError};
pub use error::RemoteError;
pub use sse::{SseError, SseParser};
pub use stream::{ChatStream, Piece, Summary};
pub use wire::{ChatBody, ModelEntry, ServerUsage};
