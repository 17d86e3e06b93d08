//! Measures how fast each lane is, over the engine that chats use: what is reported is what a chat gets.
//!
//! A case is one kind of work on one lane, done several times; the first ones warm up and do not count. Every time starts
//! with an empty cache and another text, and generates all of its tokens, whatever the model would like
//! (`engine::MeasureRequest`). There are two kinds:
//!
//! - a **prompt**: a user's message of exactly so many tokens with its template, and tokens after it;
//! - a **pass**: exactly so many tokens handed to the lane's decoder in one call, and nothing after them.
//!
//! | number | definition |
//! | --- | --- |
//! | request TTFT | from handing the request over to its first token: template, tokenizer, routing, prefill, sampling |
//! | model TTFT | from the start of the first forward pass to the first token |
//! | prefill | the forward passes over the prompt |
//! | prefill tokens/s | the prompt's tokens by the prefill |
//! | decode tokens/s | n - 1 tokens by the time from the first token to the last |
//! | TPOT | the inverse of that: mean time per token of one request |
//! | token latency | the time between two tokens, over all requests of a case |
//! | stability ratio | the standard deviation on one lane by that on another; below 1, the first is steadier |
//!
//! They are `winml perf`'s, whose names the JSON uses where it has one. Standard deviations are of the population, as there.
//! Percentiles are by nearest rank, `ceil(n p / 100)`; where `n p / 100` is whole, `winml perf` takes the value after that.

mod compare;
mod conditions;
mod measure;
mod noise;
mod prompts;
mod ratios;
mod report;
pub mod server;
pub mod tune;

pub use compare::{Comparison, Difference, OldReport, OldReportError};
pub use conditions::{Conditions, ModelFile, Standing, Versions, model_files};
pub use measure::{BenchError, Measured, measure, milliseconds};
pub use noise::noise;
pub use ratios::{Ratio, ratios};
pub use report::{
    Case, CaseFacts, Kind, LaneReport, NotMeasured, Plan, Report, Reported, SCHEMA_VERSION, Sample, Skipped,
};
