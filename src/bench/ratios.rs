//! One lane beside another.

use serde::Serialize;

use super::report::{Case, Kind, LaneReport};
use crate::telemetry::statistics::Summary;

/// A case that both lanes ran, each number as the first lane's by the second lane's.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ratio {
    pub lane: String,
    pub against: String,
    /// One of them ran on a simulator.
    pub emulated: bool,
    pub kind: Kind,
    pub prompt_tokens: usize,
    /// Of the means.
    pub prefill_tokens_per_second: Option<f64>,
    pub steady_state_decode_tokens_per_second: Option<f64>,
    pub request_ttft_duration_ms: Option<f64>,
    /// Of the standard deviations: below 1, the first lane is steadier.
    pub stability: Stability,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stability {
    pub prefill_duration_ms: Option<f64>,
    pub token_latency_ms: Option<f64>,
}

/// Each lane against the ones after it.
pub fn ratios(lanes: &[LaneReport]) -> Vec<Ratio> {
    let pairs =
        lanes.iter().enumerate().flat_map(|(index, lane)| lanes[index + 1..].iter().map(move |other| (lane, other)));
    let both = |(lane, other): (&LaneReport, &LaneReport)| -> Vec<Ratio> {
        let cases = lane.cases.iter().filter_map(|case| {
            let same = |candidate: &&Case| (candidate.kind, candidate.prompt_tokens) == (case.kind, case.prompt_tokens);
            Some(ratio(lane, case, other, other.cases.iter().find(same)?))
        });
        cases.collect()
    };
    pairs.flat_map(both).collect()
}

fn ratio(lane: &LaneReport, case: &Case, other_lane: &LaneReport, other: &Case) -> Ratio {
    let part = |a: f64, b: f64| (b > 0.0).then(|| a / b);
    let means = |a: &Summary, b: &Summary| part(a.mean, b.mean);
    let deviations = |a: &Summary, b: &Summary| part(a.std_dev, b.std_dev);
    let optional = |a: &Option<Summary>, b: &Option<Summary>, of: &dyn Fn(&Summary, &Summary) -> Option<f64>| {
        of(a.as_ref()?, b.as_ref()?)
    };
    Ratio {
        lane: lane.lane.clone(),
        against: other_lane.lane.clone(),
        emulated: lane.emulated || other_lane.emulated,
        kind: case.kind,
        prompt_tokens: case.prompt_tokens,
        prefill_tokens_per_second: means(&case.prefill_tokens_per_second, &other.prefill_tokens_per_second),
        steady_state_decode_tokens_per_second: optional(
            &case.steady_state_decode_tokens_per_second,
            &other.steady_state_decode_tokens_per_second,
            &means,
        ),
        request_ttft_duration_ms: means(&case.request_ttft_duration_ms, &other.request_ttft_duration_ms),
        stability: Stability {
            prefill_duration_ms: deviations(&case.prefill_duration_ms, &other.prefill_duration_ms),
            token_latency_ms: optional(&case.token_latency_ms, &other.token_latency_ms, &deviations),
        },
    }
}
