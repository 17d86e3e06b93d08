//! The router: which lane answers a request, by which rule, and why not the others.
//!
//! Pure: facts in, a decision out. Finding the facts (tokens, lane states, measured rates) is the engine's work.
//!
//! A policy says which of the lanes that are ready comes first, and how much of the answer must fit:
//!
//! | policy | order | fits |
//! | --- | --- | --- |
//! | `auto` | the lanes' own: NPU, CPU | prompt and expected answer |
//! | `npu`, `cpu` | that lane, then the others | the prompt and one token |
//! | `fastest` | least predicted time; a lane that was never measured comes first, once | prompt and expected answer |
//! | `efficient` | NPU before CPU | the prompt and one token |
//!
//! The expected answer is the longest one that was asked for, but at most `EXPECTED_ANSWER`: nobody knows how long an answer
//! will be, and one that outgrows its lane moves to another.
//!
//! A server, the lane `remote`, stands behind the lanes of this machine under each policy: it takes what they have no room for
//! (`Rule::Outgrown`). The settings may put it before them, where it is a lane like the others, or behind its name alone. It
//! takes nothing that its privacy does not allow.
//!
//! `efficient` decides by the kind of silicon alone, which does the same work for less power by design. No energy is
//! measured lane by lane, and the policy does not claim it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::lane::{LaneId, LaneState, LaneStatus, Privacy, RemotePlace};
use super::prompt;
use super::prompt_parts::PromptParts;

/// Tokens of an answer that a lane should have room for: more than most answers in a chat take.
pub const EXPECTED_ANSWER: usize = 128;

/// How the router chooses where nobody named a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// Short prompts on the NPU, long ones on the CPU.
    #[default]
    Auto,
    /// The NPU for every prompt that it can hold.
    Npu,
    /// The CPU for every prompt that it can hold.
    Cpu,
    /// Where the answer is predicted to be complete first, from the rates measured so far.
    Fastest,
    /// The NPU for every prompt that it can hold, because it is built to need less power.
    Efficient,
}

impl Policy {
    /// As it is typed, and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Npu => "npu",
            Self::Cpu => "cpu",
            Self::Fastest => "fastest",
            Self::Efficient => "efficient",
        }
    }

    /// Tokens that a lane must have room for besides the prompt.
    fn room(self, expected_answer: usize) -> usize {
        match self {
            Self::Auto | Self::Fastest => expected_answer,
            Self::Npu | Self::Cpu | Self::Efficient => 1,
        }
    }

    /// The lane that comes before the others.
    fn preferred(self) -> Option<(LaneId, Rule)> {
        match self {
            Self::Auto | Self::Fastest => None,
            Self::Npu => Some((LaneId::Npu, Rule::Preferred)),
            Self::Cpu => Some((LaneId::Cpu, Rule::Preferred)),
            Self::Efficient => Some((LaneId::Npu, Rule::Efficient)),
        }
    }
}

/// All that decides.
#[derive(Debug, Clone, PartialEq)]
pub struct RoutingFacts<'a> {
    /// The prompt in tokens, after the chat template.
    pub prompt_tokens: usize,
    /// The longest answer that was asked for, in tokens.
    pub answer_tokens: usize,
    /// In the order in which they are preferred.
    pub lanes: &'a [LaneFacts<'a>],
    pub policy: Policy,
    /// The user's override.
    pub requested: Option<LaneId>,
    /// Lanes on a simulator may be chosen without being named.
    pub emulation: bool,
    pub remote: RemoteUse,
}

/// What a request allows of the lane that is a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RemoteUse {
    /// A person allowed this conversation.
    pub consent: bool,
    /// Why this request is not for a server, whoever allows it.
    pub unsuited: Option<&'static str>,
}

impl RemoteUse {
    /// For work that never leaves this machine.
    pub fn never(why: &'static str) -> Self {
        Self { consent: false, unsuited: Some(why) }
    }

    /// Why a lane may not have this request; `None` where it may, and for lanes of this machine.
    pub fn objection(self, lane: &LaneStatus) -> Option<String> {
        let server = lane.remote.as_ref()?;
        match (self.unsuited, server.privacy, self.consent) {
            (Some(why), _, _) => Some(why.to_owned()),
            (None, Privacy::Allow, _) | (None, Privacy::Ask, true) => None,
            (None, Privacy::Ask, false) => Some(format!("not allowed to send this to {}", server.host)),
            (None, Privacy::Never, _) => Some("privacy is 'never'".to_owned()),
        }
    }
}

/// The lane waits until the others have no room.
pub fn is_last_resort(lane: &LaneStatus) -> bool {
    lane.remote.as_ref().is_some_and(|server| server.place != RemotePlace::First)
}

/// The lane answers nothing that does not name it.
pub fn is_only_named(lane: &LaneStatus) -> bool {
    lane.remote.as_ref().is_some_and(|server| server.place == RemotePlace::Named)
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
    pub policy: Policy,
    pub rule: Rule,
    pub prompt_tokens: usize,
    /// Those of the whole conversation, where its oldest turns are left out.
    pub whole_prompt_tokens: Option<usize>,
    /// What they are of, where the prompt is a conversation.
    pub parts: Option<PromptParts>,
    /// The longest answer that was asked for.
    pub answer_tokens: usize,
    /// What a lane had to have room for: the prompt, and as much of the answer as the policy wants.
    pub needed_tokens: usize,
    pub context_limit: usize,
    /// An estimate: the prompt's new tokens at the prefill rate that this lane measured last; `None` before its first
    /// answer.
    pub predicted_ttft: Option<Duration>,
    /// An estimate: the prompt's new tokens and the expected answer at the rates that this lane measured last.
    pub predicted_total: Option<Duration>,
    pub rejected: Vec<Rejection>,
}

impl RoutingDecision {
    /// What the lane has room for besides an answer, in tokens.
    pub fn prompt_room(&self) -> usize {
        prompt::room(self.context_limit, self.answer_tokens)
    }

    /// Tokens by which the last message, with what always stands before it, is too long: what the engine would refuse.
    /// `None` where it fits, and where that is not known.
    pub fn excess(&self) -> Option<usize> {
        let parts = self.parts.filter(|_| self.context_limit > 0)?;
        let excess = (parts.system + parts.message).saturating_sub(self.prompt_room());
        (excess > 0 && !self.may_move()).then_some(excess)
    }

    /// What outgrows the lane goes on at another, which has more room: not where this one was asked for.
    pub fn may_move(&self) -> bool {
        let stays = matches!(self.rule, Rule::Requested | Rule::OnlyReady | Rule::LongestContext);
        !stays && self.rejected.iter().any(|other| other.context_limit > self.context_limit)
    }

    /// Tokens per second that the predictions count with: of the expected answer, in the time after the first token.
    pub fn predicted_rate(&self) -> Option<f64> {
        let seconds = self.predicted_total?.checked_sub(self.predicted_ttft?)?.as_secs_f64();
        let expected = self.answer_tokens.min(EXPECTED_ANSWER);
        (seconds > 0.0 && expected > 0).then(|| expected as f64 / seconds)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// The user named the lane.
    Requested,
    /// The only lane that is ready.
    OnlyReady,
    /// The first lane, in order of preference, whose context holds prompt and expected answer.
    FirstThatFits,
    /// The policy names the lane, and it holds the prompt.
    Preferred,
    /// The lane that is built to need the least power, and it holds the prompt.
    Efficient,
    /// The least predicted time.
    Fastest,
    /// It has not been measured yet, so that nothing can be predicted of it.
    Unmeasured,
    /// No lane of this machine holds what is needed; the server does.
    Outgrown,
    /// No lane holds what is needed: the one with the longest context answers, and old turns may be dropped.
    LongestContext,
}

impl Rule {
    /// Stable names, for JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::OnlyReady => "only_ready",
            Self::FirstThatFits => "first_that_fits",
            Self::Preferred => "preferred",
            Self::Efficient => "efficient",
            Self::Fastest => "fastest",
            Self::Unmeasured => "unmeasured",
            Self::Outgrown => "outgrown",
            Self::LongestContext => "longest_context",
        }
    }

    pub fn explain(self) -> &'static str {
        match self {
            Self::Requested => "you asked for it",
            Self::OnlyReady => "the only lane ready",
            Self::FirstThatFits => "first that fits",
            Self::Preferred => "the policy names it",
            Self::Efficient => "built to need less power",
            Self::Fastest => "least predicted time",
            Self::Unmeasured => "to be measured once",
            Self::Outgrown => "outgrew this machine",
            Self::LongestContext => "longest context",
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Rejection {
    pub lane: LaneId,
    /// For people.
    pub reason: String,
    /// Tokens; 0 where there is no model for the lane.
    pub context_limit: usize,
    /// As `RoutingDecision::predicted_total`.
    pub predicted_total: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RouteError {
    #[error("the {lane} lane was asked for, but it is not ready: {reason}")]
    RequestedNotReady { lane: LaneId, reason: String },
    #[error("the {lane} lane was asked for, but this program has no such lane")]
    RequestedUnknown { lane: LaneId },
    #[error("the {lane} lane was asked for, but {reason}{}", remedy(*is_consent))]
    RequestedNotAllowed { lane: LaneId, reason: String, is_consent: bool },
    #[error("the remote lane was asked for, but no server is named: set url in [remote] of the settings")]
    NoServer,
    #[error(
        "no lane is ready: {}; a lane that failed is tried again when it is asked for",
        .0.iter().map(|r| format!("{}: {}", r.lane, r.reason)).collect::<Vec<_>>().join("; ")
    )]
    NoneReady(Vec<Rejection>),
}

/// What allows it, where anything does.
fn remedy(is_consent: bool) -> &'static str {
    if is_consent {
        "; --allow-remote allows it, and so does privacy = \"allow\" in [remote] of the settings"
    } else {
        ""
    }
}

pub fn route(facts: &RoutingFacts<'_>) -> Result<RoutingDecision, RouteError> {
    let (chosen, rule) = match facts.requested {
        Some(id) => (requested(facts, id)?, Rule::Requested),
        None => choose(facts).ok_or_else(|| RouteError::NoneReady(rejections(facts, None)))?,
    };
    let status = chosen.status;
    Ok(RoutingDecision {
        lane: status.id,
        execution_provider: status.execution_provider.clone(),
        emulated: status.emulated,
        policy: facts.policy,
        rule,
        prompt_tokens: facts.prompt_tokens,
        whole_prompt_tokens: None,
        parts: None,
        answer_tokens: facts.answer_tokens,
        needed_tokens: facts.needed(),
        context_limit: status.context_limit,
        predicted_ttft: facts.predicted_ttft(chosen),
        predicted_total: facts.predicted_total(chosen),
        rejected: rejections(facts, Some((chosen, rule))),
    })
}

/// A lane that was named may be loading, which is waited for, or broken, which is tried again.
fn requested<'a>(facts: &RoutingFacts<'a>, id: LaneId) -> Result<LaneFacts<'a>, RouteError> {
    let unknown = if id == LaneId::Remote { RouteError::NoServer } else { RouteError::RequestedUnknown { lane: id } };
    let lane = facts.lanes.iter().find(|lane| lane.status.id == id).ok_or(unknown)?;
    if let Some(reason) =
        facts.remote.objection(lane.status).filter(|_| !matches!(lane.status.state, LaneState::Absent { .. }))
    {
        let is_consent = facts.remote.unsuited.is_none();
        return Err(RouteError::RequestedNotAllowed { lane: id, reason, is_consent });
    }
    match &lane.status.state {
        LaneState::Absent { reason } => Err(RouteError::RequestedNotReady { lane: id, reason: reason.clone() }),
        LaneState::Ready | LaneState::Loading { .. } | LaneState::Failed { .. } => Ok(*lane),
    }
}

fn choose<'a>(facts: &RoutingFacts<'a>) -> Option<(LaneFacts<'a>, Rule)> {
    let usable: Vec<_> = facts.lanes.iter().copied().filter(|lane| facts.hindrance(lane.status).is_none()).collect();
    if let [only] = usable[..] {
        return Some((only, Rule::OnlyReady));
    }
    let fitting = |late: bool| -> Vec<LaneFacts<'a>> {
        let fits = |lane: &LaneFacts<'a>| facts.needed() <= lane.status.context_limit;
        usable.iter().copied().filter(fits).filter(|lane| is_last_resort(lane.status) == late).collect()
    };
    let (early, late) = (fitting(false), fitting(true));
    let preferred = facts.policy.preferred().and_then(|(id, rule)| {
        let lane = early.iter().find(|lane| lane.status.id == id)?;
        Some((*lane, rule))
    });
    let fastest = || if facts.policy == Policy::Fastest { fastest(facts, &early) } else { None };
    let first = || early.first().map(|lane| (*lane, Rule::FirstThatFits));
    let outgrown = || late.first().map(|lane| (*lane, Rule::Outgrown));
    preferred.or_else(fastest).or_else(first).or_else(outgrown).or_else(|| {
        // The first of the longest.
        let longest = usable.iter().rev().max_by_key(|lane| lane.status.context_limit)?;
        Some((*longest, Rule::LongestContext))
    })
}

/// The first lane of which nothing can be predicted, so that it is known next time; else the least predicted time.
fn fastest<'a>(facts: &RoutingFacts<'_>, fitting: &[LaneFacts<'a>]) -> Option<(LaneFacts<'a>, Rule)> {
    if let [only] = fitting {
        return Some((*only, Rule::FirstThatFits));
    }
    if let Some(unmeasured) = fitting.iter().find(|lane| facts.predicted_total(**lane).is_none()) {
        return Some((*unmeasured, Rule::Unmeasured));
    }
    fitting.iter().min_by_key(|lane| facts.predicted_total(**lane)).map(|lane| (*lane, Rule::Fastest))
}

impl RoutingFacts<'_> {
    fn expected_answer(&self) -> usize {
        self.answer_tokens.min(EXPECTED_ANSWER)
    }

    fn needed(&self) -> usize {
        self.prompt_tokens.saturating_add(self.policy.room(self.expected_answer()))
    }

    /// Why a lane cannot be chosen, whatever fits.
    fn hindrance(&self, lane: &LaneStatus) -> Option<String> {
        let emulated = || (lane.emulated && !self.emulation).then(|| "emulated, which must be asked for".to_string());
        let named = || is_only_named(lane).then(|| "only what names it".to_string());
        lane.state.hindrance().or_else(emulated).or_else(|| self.remote.objection(lane)).or_else(named)
    }

    fn predicted_ttft(&self, lane: LaneFacts<'_>) -> Option<Duration> {
        let new_tokens = self.prompt_tokens.saturating_sub(lane.reusable_tokens);
        seconds(new_tokens, lane.status.measured.prefill)
    }

    /// Where no prompt was long enough to measure prefill, its tokens count as decoded ones, which take longer.
    fn predicted_total(&self, lane: LaneFacts<'_>) -> Option<Duration> {
        let rates = lane.status.measured;
        let new_tokens = self.prompt_tokens.saturating_sub(lane.reusable_tokens);
        let prefill = seconds(new_tokens, rates.prefill.or(rates.decode))?;
        Some(prefill + seconds(self.expected_answer(), rates.decode)?)
    }
}

/// How long so many tokens take at this rate.
fn seconds(tokens: usize, tokens_per_second: Option<f64>) -> Option<Duration> {
    let rate = tokens_per_second.filter(|rate| *rate > 0.0)?;
    Duration::try_from_secs_f64(tokens as f64 / rate).ok()
}

fn rejections(facts: &RoutingFacts<'_>, chosen: Option<(LaneFacts<'_>, Rule)>) -> Vec<Rejection> {
    let others = facts.lanes.iter().filter(|lane| chosen.is_none_or(|(chosen, _)| chosen.status.id != lane.status.id));
    others
        .map(|lane| Rejection {
            lane: lane.status.id,
            reason: rejection(facts, *lane, chosen),
            context_limit: lane.status.context_limit,
            predicted_total: facts.predicted_total(*lane),
        })
        .collect()
}

fn rejection(facts: &RoutingFacts<'_>, lane: LaneFacts<'_>, chosen: Option<(LaneFacts<'_>, Rule)>) -> String {
    if let Some(reason) = facts.hindrance(lane.status) {
        return reason;
    }
    let Some((chosen, rule)) = chosen else { return "not chosen".to_string() };
    let id = chosen.status.id;
    if rule == Rule::Requested {
        return format!("you asked for {id}");
    }
    if facts.needed() > lane.status.context_limit {
        return format!("{} tokens, context of {}", facts.needed(), lane.status.context_limit);
    }
    match (rule, facts.predicted_total(lane), facts.predicted_total(chosen)) {
        (Rule::Fastest, Some(slower), Some(faster)) => {
            format!("est. {:.1} s, {id} {:.1} s", slower.as_secs_f64(), faster.as_secs_f64())
        }
        (Rule::Unmeasured, _, _) => format!("{id} is measured first"),
        _ => format!("{id} comes first"),
    }
}

#[cfg(test)]
#[path = "route_tests.rs"]
mod tests;
