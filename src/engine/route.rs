//! The router: which lane answers a request, by which rule, and why not the others.
//!
//! Pure: facts in, a decision out. Finding the facts (tokens, lane states, measured rates) is the engine's work.

use std::time::Duration;

use super::lane::{LaneId, LaneState, LaneStatus};

/// All that decides.
#[derive(Debug, Clone, PartialEq)]
pub struct RoutingFacts<'a> {
    /// The prompt in tokens, after the chat template.
    pub prompt_tokens: usize,
    /// The longest answer that was asked for, in tokens.
    pub answer_tokens: usize,
    /// In the order in which they are preferred.
    pub lanes: &'a [LaneFacts<'a>],
    /// The user's override.
    pub requested: Option<LaneId>,
}

/// What decides about one lane.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LaneFacts<'a> {
    pub status: &'a LaneStatus,
    /// Prompt tokens whose keys and values it has already.
    pub reusable_tokens: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RoutingDecision {
    pub lane: LaneId,
    pub execution_provider: String,
    pub emulated: bool,
    pub rule: Rule,
    pub prompt_tokens: usize,
    /// The longest answer that was asked for.
    pub answer_tokens: usize,
    pub context_limit: usize,
    /// An estimate: the prompt's new tokens at the prefill rate that this lane measured last; `None` before its first
    /// answer.
    pub predicted_ttft: Option<Duration>,
    pub rejected: Vec<Rejection>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The user named the lane.
    Requested,
    /// The only lane that is ready.
    OnlyReady,
    /// The first lane, in order of preference, whose context holds prompt and answer.
    FirstThatFits,
    /// No lane holds prompt and answer: the one with the longest context answers, and old turns may be dropped.
    LongestContext,
}

impl Rule {
    /// Stable names, for JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::OnlyReady => "only_ready",
            Self::FirstThatFits => "first_that_fits",
            Self::LongestContext => "longest_context",
        }
    }

    pub fn explain(self) -> &'static str {
        match self {
            Self::Requested => "you asked for it",
            Self::OnlyReady => "the only lane ready",
            Self::FirstThatFits => "first that fits",
            Self::LongestContext => "longest context",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    pub lane: LaneId,
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    #[error("the {lane} lane was asked for, but it is not ready: {reason}")]
    RequestedNotReady { lane: LaneId, reason: String },
    #[error("the {lane} lane was asked for, but this program has no such lane")]
    RequestedUnknown { lane: LaneId },
    #[error("no lane is ready: {}", .0.iter().map(|r| format!("{}: {}", r.lane, r.reason)).collect::<Vec<_>>().join("; "))]
    NoneReady(Vec<Rejection>),
}

pub fn route(facts: &RoutingFacts<'_>) -> Result<RoutingDecision, RouteError> {
    let needed = facts.prompt_tokens.saturating_add(facts.answer_tokens);
    let ready: Vec<LaneFacts<'_>> =
        facts.lanes.iter().copied().filter(|lane| lane.status.state == LaneState::Ready).collect();

    let (chosen, rule) = if let Some(id) = facts.requested {
        let lane =
            facts.lanes.iter().find(|lane| lane.status.id == id).ok_or(RouteError::RequestedUnknown { lane: id })?;
        if let Some(reason) = not_ready(lane.status) {
            return Err(RouteError::RequestedNotReady { lane: id, reason });
        }
        (*lane, Rule::Requested)
    } else if let [only] = ready[..] {
        (only, Rule::OnlyReady)
    } else if let Some(fits) = ready.iter().find(|lane| needed <= lane.status.context_limit) {
        (*fits, Rule::FirstThatFits)
    } else if let Some(longest) = ready.iter().rev().max_by_key(|lane| lane.status.context_limit) {
        (*longest, Rule::LongestContext)
    } else {
        return Err(RouteError::NoneReady(rejections(facts, None, needed)));
    };
    let new_tokens = facts.prompt_tokens.saturating_sub(chosen.reusable_tokens);
    let chosen = chosen.status;

    Ok(RoutingDecision {
        lane: chosen.id,
        execution_provider: chosen.execution_provider.clone(),
        emulated: chosen.emulated,
        rule,
        prompt_tokens: facts.prompt_tokens,
        answer_tokens: facts.answer_tokens,
        context_limit: chosen.context_limit,
        predicted_ttft: chosen
            .measured
            .prefill
            .filter(|rate| *rate > 0.0)
            .map(|rate| Duration::from_secs_f64(new_tokens as f64 / rate)),
        rejected: rejections(facts, Some((chosen.id, rule)), needed),
    })
}

fn not_ready(lane: &LaneStatus) -> Option<String> {
    match &lane.state {
        LaneState::Ready => None,
        LaneState::Absent { reason } => Some(reason.clone()),
        LaneState::Failed { reason } => Some(format!("failed: {reason}")),
    }
}

fn rejections(facts: &RoutingFacts<'_>, chosen: Option<(LaneId, Rule)>, needed: usize) -> Vec<Rejection> {
    facts
        .lanes
        .iter()
        .map(|lane| lane.status)
        .filter(|lane| chosen.is_none_or(|(id, _)| id != lane.id))
        .map(|lane| Rejection {
            lane: lane.id,
            reason: not_ready(lane).unwrap_or_else(|| match chosen {
                Some((id, Rule::Requested)) => format!("you asked for {id}"),
                _ if needed > lane.context_limit => format!("{needed} tokens, context of {}", lane.context_limit),
                Some((id, _)) => format!("{id} comes first"),
                None => "not chosen".to_string(),
            }),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::lane::MeasuredRates;
    use super::*;

    fn lane(id: LaneId, context_limit: usize, state: LaneState) -> LaneStatus {
        LaneStatus {
            id,
            execution_provider: format!("{id} provider"),
            device: None,
            emulated: false,
            state,
            context_limit,
            threads: None,
            placement: None,
            measured: MeasuredRates::default(),
        }
    }

    fn facts(lanes: &[LaneStatus], reusable_tokens: usize) -> Vec<LaneFacts<'_>> {
        lanes.iter().map(|status| LaneFacts { status, reusable_tokens }).collect()
    }

    fn absent() -> LaneState {
        LaneState::Absent { reason: "no NPU found".into() }
    }

    fn failed() -> LaneState {
        LaneState::Failed { reason: "it hung".into() }
    }

    fn decide(
        lanes: &[LaneStatus],
        prompt_tokens: usize,
        requested: Option<LaneId>,
    ) -> Result<(LaneId, Rule, Vec<String>), RouteError> {
        let lanes = facts(lanes, 0);
        route(&RoutingFacts { prompt_tokens, answer_tokens: 100, lanes: &lanes, requested }).map(|decision| {
            let rejected = decision.rejected.into_iter().map(|r| format!("{}: {}", r.lane, r.reason)).collect();
            (decision.lane, decision.rule, rejected)
        })
    }

    fn rejected(text: &str) -> Vec<String> {
        vec![text.to_string()]
    }

    #[test]
    fn decisions() {
        use LaneId::{Cpu, Npu};
        use LaneState::Ready;
        let two = |npu: LaneState, cpu: LaneState| [lane(Npu, 512, npu), lane(Cpu, 8192, cpu)];
        type Expected = (LaneId, Rule, Vec<String>);
        type Case = (&'static str, [LaneStatus; 2], usize, Option<LaneId>, Expected);
        let cases: Vec<Case> = vec![
            (
                "only one is ready",
                two(absent(), Ready),
                50,
                None,
                (Cpu, Rule::OnlyReady, rejected("npu: no NPU found")),
            ),
            ("short", two(Ready, Ready), 412, None, (Npu, Rule::FirstThatFits, rejected("cpu: npu comes first"))),
            (
                "one token too many",
                two(Ready, Ready),
                413,
                None,
                (Cpu, Rule::FirstThatFits, rejected("npu: 513 tokens, context of 512")),
            ),
            (
                "too long for all",
                two(Ready, Ready),
                9000,
                None,
                (Cpu, Rule::LongestContext, rejected("npu: 9100 tokens, context of 512")),
            ),
            ("asked for", two(Ready, Ready), 50, Some(Cpu), (Cpu, Rule::Requested, rejected("npu: you asked for cpu"))),
            (
                "the other broke",
                two(failed(), Ready),
                50,
                None,
                (Cpu, Rule::OnlyReady, rejected("npu: failed: it hung")),
            ),
        ];
        for (name, lanes, prompt_tokens, requested, expected) in cases {
            assert_eq!(decide(&lanes, prompt_tokens, requested), Ok(expected), "{name}");
        }
    }

    #[test]
    fn a_lane_that_is_not_ready_is_never_taken_silently() {
        let lanes = [lane(LaneId::Npu, 0, absent()), lane(LaneId::Cpu, 8192, LaneState::Ready)];
        let error = decide(&lanes, 50, Some(LaneId::Npu)).unwrap_err();
        assert_eq!(error.to_string(), "the npu lane was asked for, but it is not ready: no NPU found");
    }

    #[test]
    fn no_lane_at_all_says_why_for_each() {
        let lanes = [lane(LaneId::Npu, 0, absent()), lane(LaneId::Cpu, 0, failed())];
        let error = decide(&lanes, 50, None).unwrap_err().to_string();
        assert_eq!(error, "no lane is ready: npu: no NPU found; cpu: failed: it hung");
    }

    #[test]
    fn the_prediction_is_of_the_new_tokens_at_the_measured_rate() {
        let mut cpu = lane(LaneId::Cpu, 8192, LaneState::Ready);
        let predict = |lane: &LaneStatus, reusable_tokens| {
            let lanes = facts(std::slice::from_ref(lane), reusable_tokens);
            let facts = RoutingFacts { prompt_tokens: 300, answer_tokens: 10, lanes: &lanes, requested: None };
            route(&facts).unwrap().predicted_ttft
        };
        assert_eq!(predict(&cpu, 0), None);
        cpu.measured.prefill = Some(600.0);
        assert_eq!(predict(&cpu, 0), Some(Duration::from_millis(500)));
        assert_eq!(predict(&cpu, 240), Some(Duration::from_millis(100)));
    }
}
