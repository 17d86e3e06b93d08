//! What is reported. As JSON it is this, described by `docs/bench.schema.json`; `schema_version` grows when a field changes
//! its meaning.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Comparison, Conditions, ModelFile, Ratio};
use crate::telemetry::Reading;
use crate::telemetry::statistics::Summary;

pub const SCHEMA_VERSION: u32 = 1;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    pub schema_version: u32,
    /// When it began, in seconds since 1970.
    pub started_unix_s: u64,
    pub plan: Plan,
    pub model: String,
    pub conditions: Conditions,
    pub lanes: Vec<LaneReport>,
    pub not_measured: Vec<NotMeasured>,
    pub ratios: Vec<Ratio>,
    /// What makes these numbers less sure, for people; empty where nothing was seen.
    pub noise: Vec<String>,
    pub comparison: Option<Comparison>,
}

/// What is measured on each lane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// Tokens.
    pub prompt_lengths: Vec<usize>,
    /// Tokens.
    pub pass_lengths: Vec<usize>,
    /// Tokens generated after each prompt.
    pub generated_tokens: usize,
    pub warmup: usize,
    /// Those that count.
    pub repetitions: usize,
}

/// A lane that cannot run, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotMeasured {
    pub lane: String,
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LaneReport {
    pub lane: String,
    pub execution_provider: String,
    pub device: Option<String>,
    /// It ran on a simulator: its times say nothing about the hardware.
    pub emulated: bool,
    pub threads: Option<usize>,
    /// Threads that wait for work keep their cores busy; `None` for a lane without threads of its own, as the next.
    pub spinning: Option<bool>,
    /// `default`, `user` or `tuning`.
    pub threads_chosen_by: Option<&'static str>,
    /// Tokens.
    pub context_limit: usize,
    /// The model folder that this lane runs.
    pub folder: PathBuf,
    pub files: Vec<ModelFile>,
    /// Tokenizer, template, graphs and weights, until the lane could answer.
    pub load_duration_ms: f64,
    /// Of ortalk and its lane's process, from loading to the last case.
    pub peak_memory_bytes: Reported<u64>,
    pub cases: Vec<Case>,
    pub skipped: Vec<Skipped>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Prompt,
    Pass,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Pass => "pass",
        }
    }
}

/// A length that does not fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Skipped {
    pub kind: Kind,
    pub prompt_tokens: usize,
    pub reason: String,
}

/// A value, or the reason why there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reported<T> {
    pub value: Option<T>,
    pub reason: Option<String>,
}

impl<T> From<Reading<T>> for Reported<T> {
    fn from(reading: Reading<T>) -> Self {
        match reading {
            Reading::Measured(value) => Self { value: Some(value), reason: None },
            Reading::Unavailable(reason) => Self { value: None, reason: Some(reason) },
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Case {
    pub kind: Kind,
    pub prompt_tokens: usize,
    pub generated_tokens: usize,
    /// As the lane's, so that no figure stands without it.
    pub emulated: bool,
    pub request_ttft_duration_ms: Summary,
    pub model_ttft_duration_ms: Summary,
    pub prefill_duration_ms: Summary,
    pub request_duration_ms: Summary,
    pub prefill_tokens_per_second: Summary,
    /// These three are absent where fewer than two tokens were generated.
    pub steady_state_decode_tokens_per_second: Option<Summary>,
    pub steady_state_tpot_ms: Option<Summary>,
    /// Over all requests; the others have one value for each request.
    pub token_latency_ms: Option<Summary>,
    pub peak_memory_bytes: Reported<u64>,
    /// Of all requests that count together.
    pub energy_joules: Reported<f64>,
    /// What the joules are of.
    pub energy_source: Option<String>,
    pub samples: Vec<Sample>,
}

/// One request that counts, in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sample {
    pub request_ttft_duration_ms: f64,
    pub model_ttft_duration_ms: f64,
    pub prefill_duration_ms: f64,
    pub request_duration_ms: f64,
    pub decode_token_durations_ms: Vec<f64>,
}

impl Sample {
    /// Tokens after the first by the time that they took.
    pub fn decode_rate(&self) -> Option<f64> {
        let milliseconds: f64 = self.decode_token_durations_ms.iter().sum();
        (milliseconds > 0.0).then(|| self.decode_token_durations_ms.len() as f64 / milliseconds * 1e3)
    }
}

/// What `Case` has besides the statistics of its samples.
pub struct CaseFacts {
    pub kind: Kind,
    pub prompt_tokens: usize,
    pub generated_tokens: usize,
    pub emulated: bool,
    pub peak_memory_bytes: Reported<u64>,
    pub energy_joules: Reported<f64>,
    pub energy_source: Option<String>,
}

impl Case {
    /// `None` without samples, or where a prefill took no time.
    pub fn new(facts: CaseFacts, samples: Vec<Sample>) -> Option<Self> {
        let all = |value: &dyn Fn(&Sample) -> f64| Summary::of(&samples.iter().map(value).collect::<Vec<_>>());
        let decode: Vec<f64> = samples.iter().filter_map(Sample::decode_rate).collect();
        let per_token: Vec<f64> = decode.iter().map(|rate| 1e3 / rate).collect();
        let latencies: Vec<f64> = samples.iter().flat_map(|sample| sample.decode_token_durations_ms.clone()).collect();
        Some(Self {
            kind: facts.kind,
            prompt_tokens: facts.prompt_tokens,
            generated_tokens: facts.generated_tokens,
            emulated: facts.emulated,
            request_ttft_duration_ms: all(&|sample| sample.request_ttft_duration_ms)?,
            model_ttft_duration_ms: all(&|sample| sample.model_ttft_duration_ms)?,
            prefill_duration_ms: all(&|sample| sample.prefill_duration_ms)?,
            request_duration_ms: all(&|sample| sample.request_duration_ms)?,
            prefill_tokens_per_second: all(&|sample| facts.prompt_tokens as f64 / sample.prefill_duration_ms * 1e3)?,
            steady_state_decode_tokens_per_second: Summary::of(&decode),
            steady_state_tpot_ms: Summary::of(&per_token),
            token_latency_ms: Summary::of(&latencies),
            peak_memory_bytes: facts.peak_memory_bytes,
            energy_joules: facts.energy_joules,
            energy_source: facts.energy_source,
            samples,
        })
    }

    /// The numbers by the name that the JSON gives them; the first ones are shown first.
    pub fn numbers(&self) -> Vec<(&'static str, Option<&Summary>)> {
        vec![
            ("request_ttft_duration_ms", Some(&self.request_ttft_duration_ms)),
            ("model_ttft_duration_ms", Some(&self.model_ttft_duration_ms)),
            ("prefill_duration_ms", Some(&self.prefill_duration_ms)),
            ("prefill_tokens_per_second", Some(&self.prefill_tokens_per_second)),
            ("steady_state_decode_tokens_per_second", self.steady_state_decode_tokens_per_second.as_ref()),
            ("steady_state_tpot_ms", self.steady_state_tpot_ms.as_ref()),
            ("token_latency_ms", self.token_latency_ms.as_ref()),
            ("request_duration_ms", Some(&self.request_duration_ms)),
        ]
    }
}
