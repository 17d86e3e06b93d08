//! What is reported of a server. As JSON it is this, described by `docs/server-bench.schema.json`.

use std::time::Duration;

use serde::Serialize;

use super::super::measure::milliseconds;
use crate::remote::RemoteError;
use crate::telemetry::machine::Machine;
use crate::telemetry::statistics::Summary;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServerReport {
    /// Grows when a field changes its meaning.
    pub schema_version: u32,
    pub started_unix_s: u64,
    /// The interface's address.
    pub server: String,
    pub model: String,
    /// Who asked; it may be the server's machine, too.
    pub client: Asker,
    pub plan: ServerPlan,
    pub levels: Vec<Level>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Asker {
    pub ortalk: &'static str,
    pub machine: Machine,
    /// The server is on the same machine: both share its cores.
    pub is_server: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ServerPlan {
    /// Clients at once, level by level.
    pub concurrency: Vec<usize>,
    /// For each level.
    pub requests: usize,
    /// The longest answer, in tokens.
    pub max_tokens: usize,
    /// Requests before the first level, which do not count.
    pub warmup: usize,
}

/// So many clients at once.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Level {
    pub concurrency: usize,
    pub duration_s: f64,
    pub completed: usize,
    /// By kind, those that came most often first.
    pub errors: Vec<ErrorCount>,
    /// Absent where the server does not count them.
    pub prompt_tokens: Option<usize>,
    pub completion_tokens: usize,
    /// The server did not count the answers' tokens: pieces were counted.
    pub tokens_estimated: bool,
    /// These and all below are absent where no request was completed.
    pub tokens_per_second: Option<f64>,
    pub requests_per_second: Option<f64>,
    /// tokens_per_second by that of the first level.
    pub scaling: Option<f64>,
    pub request_ttft_duration_ms: Option<Summary>,
    /// Over all pieces of all answers; the others have one value for each request.
    pub inter_token_latency_ms: Option<Summary>,
    pub steady_state_tpot_ms: Option<Summary>,
    pub request_duration_ms: Option<Summary>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErrorCount {
    pub kind: &'static str,
    pub count: usize,
    /// What the first of them said.
    pub first: String,
}

/// One request that was answered to its end.
#[derive(Debug, Clone, PartialEq)]
pub struct Shot {
    /// From sending it to the first piece with text.
    pub ttft: Duration,
    /// Between one piece with text and the next.
    pub gaps: Vec<Duration>,
    pub took: Duration,
    pub prompt_tokens: Option<usize>,
    /// The server's count.
    pub completion_tokens: Option<usize>,
}

/// One that was not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub kind: &'static str,
    pub said: String,
}

impl Failure {
    pub fn of(error: &RemoteError) -> Self {
        let kind = match error {
            RemoteError::Unreachable { .. } => "unreachable",
            RemoteError::Key { .. } | RemoteError::Forbidden { .. } => "not allowed",
            RemoteError::NotFound { .. } => "not found",
            RemoteError::Busy { .. } => "busy",
            RemoteError::Refused { .. } => "refused",
            RemoteError::Server { .. } | RemoteError::Reported { .. } => "server error",
            RemoteError::Redirect { .. } | RemoteError::NotAStream { .. } | RemoteError::Garbage { .. } => "no sense",
            RemoteError::Cut { .. } => "cut",
            RemoteError::Silent { .. } => "silent",
            RemoteError::Stopped => "stopped",
        };
        Self { kind, said: error.to_string() }
    }

    /// It ended well, and without a word.
    pub fn empty() -> Self {
        Self { kind: "empty answer", said: "the answer has no text".into() }
    }
}

impl Level {
    pub fn of(concurrency: usize, duration: Duration, shots: &[Shot], failures: &[Failure]) -> Self {
        let seconds = duration.as_secs_f64();
        let all =
            |value: &dyn Fn(&Shot) -> Option<f64>| Summary::of(&shots.iter().filter_map(value).collect::<Vec<_>>());
        let pieces = |shot: &Shot| shot.completion_tokens.unwrap_or(shot.gaps.len() + 1);
        let tpot = |shot: &Shot| {
            let after = pieces(shot).checked_sub(1).filter(|tokens| *tokens > 0)?;
            Some(milliseconds(shot.gaps.iter().sum()) / after as f64)
        };
        let gaps: Vec<f64> = shots.iter().flat_map(|shot| &shot.gaps).map(|gap| milliseconds(*gap)).collect();
        let completion_tokens = shots.iter().map(pieces).sum();
        let rate = |count: usize| (!shots.is_empty() && seconds > 0.0).then(|| count as f64 / seconds);
        Self {
            concurrency,
            duration_s: milliseconds(duration) / 1e3,
            completed: shots.len(),
            errors: counted(failures),
            prompt_tokens: shots.iter().map(|shot| shot.prompt_tokens).sum(),
            completion_tokens,
            tokens_estimated: shots.iter().any(|shot| shot.completion_tokens.is_none()),
            tokens_per_second: rate(completion_tokens),
            requests_per_second: rate(shots.len()),
            scaling: None,
            request_ttft_duration_ms: all(&|shot| Some(milliseconds(shot.ttft))),
            inter_token_latency_ms: Summary::of(&gaps),
            steady_state_tpot_ms: all(&tpot),
            request_duration_ms: all(&|shot| Some(milliseconds(shot.took))),
        }
    }
}

fn counted(failures: &[Failure]) -> Vec<ErrorCount> {
    let mut errors: Vec<ErrorCount> = Vec::new();
    for Failure { kind, said } in failures {
        match errors.iter_mut().find(|error| error.kind == *kind) {
            Some(error) => error.count += 1,
            None => errors.push(ErrorCount { kind, count: 1, first: said.clone() }),
        }
    }
    errors.sort_by_key(|error| std::cmp::Reverse(error.count));
    errors
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn shot(ttft: u64, gaps: &[u64], tokens: Option<usize>) -> Shot {
        let ms = Duration::from_millis;
        let gaps: Vec<Duration> = gaps.iter().map(|gap| ms(*gap)).collect();
        let took = ms(ttft) + gaps.iter().sum::<Duration>() + ms(1);
        Shot { ttft: ms(ttft), gaps, took, prompt_tokens: Some(10), completion_tokens: tokens }
    }

    /// Two answers in 2 s: 5 tokens in three pieces and 3 in three, so 4 tokens/s and one request a second.
    #[test]
    fn a_level_s_numbers_are_those_of_its_requests() {
        let failures = [("cut", "a"), ("busy", "b"), ("busy", "c")];
        let failures = failures.map(|(kind, said)| Failure { kind, said: said.into() });
        let shots = [shot(100, &[20, 60], Some(5)), shot(300, &[10, 10], Some(3))];
        let level = Level::of(4, Duration::from_secs(2), &shots, &failures);
        assert_eq!((level.completed, level.prompt_tokens, level.completion_tokens), (2, Some(20), 8));
        assert_eq!((level.tokens_per_second, level.requests_per_second), (Some(4.0), Some(1.0)));
        let ttft = level.request_ttft_duration_ms.unwrap();
        assert_eq!((ttft.mean, ttft.p50, ttft.p99), (200.0, 100.0, 300.0));
        let gaps = level.inter_token_latency_ms.unwrap();
        assert_eq!((gaps.count, gaps.mean, gaps.p50), (4, 25.0, 10.0));
        // 80 ms by four tokens, 20 by two.
        assert_eq!(level.steady_state_tpot_ms.unwrap().mean, 15.0);
        let errors: Vec<_> = level.errors.iter().map(|error| (error.kind, error.count, error.first.as_str())).collect();
        assert_eq!(errors, [("busy", 2, "b"), ("cut", 1, "a")]);
        assert!(!level.tokens_estimated);
    }

    #[test]
    fn without_counts_pieces_are_counted_and_without_answers_nothing_is() {
        let level = Level::of(1, Duration::from_secs(1), &[shot(5, &[5, 5, 5], None), shot(5, &[], Some(1))], &[]);
        assert_eq!((level.completion_tokens, level.tokens_estimated), (5, true));
        assert_eq!(level.steady_state_tpot_ms.unwrap().count, 1);
        let level = Level::of(1, Duration::from_secs(1), &[], &[Failure::empty()]);
        assert_eq!((level.tokens_per_second, level.request_ttft_duration_ms), (None, None));
        assert_eq!(level.errors[0].kind, "empty answer");
    }
}
