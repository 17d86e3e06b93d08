//! A race: one prompt down several lanes with one clock. [`plan`] says who runs and in which order, [`run`] runs them and
//! reports, a [`Race`] is what the reports add up to, and [`verdict`] compares the lanes. Front ends draw.
//!
//! Lanes that compute on the same cores would measure each other, so they run one after the other. All of them get the
//! same request, with the same seed, and nothing that a lane has in its cache is reused.

mod run;
mod standing;
pub mod table;
pub mod verdict;

use serde::{Deserialize, Serialize};

use crate::engine::{ChatRequest, EngineSnapshot, LaneId, LaneState, LaneStatus, Sampling};

pub use run::{RaceEvent, Track, run};
pub use standing::{Figures, Race, Racer, Run, Standing};

/// ONNX Runtime's own provider, which computes on the cores.
const CPU_PROVIDER: &str = "CPUExecutionProvider";

/// With this seed both lanes draw, where nobody named one.
const SEED: u64 = 1;

/// What is run.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub request: ChatRequest,
    pub start: Start,
}

/// What is known before the first token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// What is asked, without what was said before.
    pub prompt: String,
    /// The model's short name.
    pub model: String,
    pub entrants: Vec<Entrant>,
    /// How often each lane runs.
    pub rounds: usize,
    pub order: Order,
}

/// A lane that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entrant {
    pub lane: LaneId,
    pub execution_provider: String,
    pub device: Option<String>,
    pub emulated: bool,
    /// Why it cannot run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum Order {
    /// All lanes at once.
    SideBySide,
    /// One after the other; in every second round the other way round.
    InTurn { why: String },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RaceError {
    #[error("a race is between two lanes at least; {0} was named alone")]
    Alone(LaneId),
    #[error("{0} was named twice; a race is between different lanes")]
    Twice(LaneId),
    #[error("a race is between two lanes at least, and {}", too_few(.0))]
    TooFew(Vec<(LaneId, Option<String>)>),
    #[error("none of the lanes can run: {}", reasons(.0))]
    None(Vec<(LaneId, Option<String>)>),
}

/// How to race.
#[derive(Debug, Clone, Default)]
pub struct Wishes {
    /// Empty for all lanes on this machine.
    pub lanes: Vec<LaneId>,
    pub rounds: usize,
    /// One after the other, also where they could run at once.
    pub in_turn: bool,
}

/// Whether the lane is being opened.
pub fn is_loading(engine: &EngineSnapshot, id: LaneId) -> bool {
    engine.lanes.iter().any(|lane| lane.id == id && matches!(lane.state, LaneState::Loading { .. }))
}

/// Who runs this request and in which order.
pub fn plan(request: ChatRequest, wishes: &Wishes, engine: &EngineSnapshot) -> Result<Plan, RaceError> {
    let statuses = asked(&wishes.lanes, engine)?;
    let absent = |lane: &LaneStatus| match &lane.state {
        LaneState::Absent { reason } => Some(reason.clone()),
        // Whoever names a lane waits for it, and has one that failed opened again.
        LaneState::Ready | LaneState::Loading { .. } | LaneState::Failed { .. } => None,
    };
    let entrants: Vec<Entrant> = statuses
        .iter()
        .map(|lane| Entrant {
            lane: lane.id,
            execution_provider: lane.execution_provider.clone(),
            device: lane.device.clone(),
            emulated: lane.emulated,
            absent: absent(lane),
        })
        .collect();
    if entrants.iter().all(|entrant| entrant.absent.is_some()) {
        return Err(RaceError::None(entrants.into_iter().map(|entrant| (entrant.lane, entrant.absent)).collect()));
    }
    let running: Vec<&LaneStatus> = statuses.into_iter().filter(|lane| absent(lane).is_none()).collect();
    let order = if wishes.in_turn { Order::InTurn { why: "as asked".to_owned() } } else { order(&running) };
    let prompt = request.messages.last().map(|message| message.content.clone()).unwrap_or_default();
    let seed = request.sampling.seed.or(Some(SEED));
    let request = ChatRequest { sampling: Sampling { seed, ..request.sampling }, fresh: true, ..request };
    let start = Start { prompt, model: engine.model.clone(), entrants, rounds: wishes.rounds.max(1), order };
    Ok(Plan { request, start })
}

/// Why a server is not in a race by itself: what goes there may cost something.
const UNNAMED: &str = "races only where it is named, as by `ortalk race --lanes cpu,remote`";

/// The lanes that were named; without names, those of this machine that can run.
fn asked<'a>(names: &[LaneId], engine: &'a EngineSnapshot) -> Result<Vec<&'a LaneStatus>, RaceError> {
    let status = |id: LaneId| engine.lanes.iter().find(|lane| lane.id == id);
    if names.is_empty() {
        let own = || engine.lanes.iter().filter(|lane| lane.remote.is_none());
        let able: Vec<_> = own().filter(|lane| !matches!(lane.state, LaneState::Absent { .. })).collect();
        if able.len() < 2 {
            let told = own().map(|lane| {
                let able = able.iter().any(|other| other.id == lane.id);
                (lane.id, lane.state.hindrance().filter(|_| !able))
            });
            let servers = engine.lanes.iter().filter(|lane| lane.remote.is_some());
            let unnamed = servers.map(|lane| (lane.id, Some(UNNAMED.to_owned())));
            return Err(RaceError::TooFew(told.chain(unnamed).collect()));
        }
        return Ok(able);
    }
    for (at, name) in names.iter().enumerate() {
        if names[..at].contains(name) {
            return Err(RaceError::Twice(*name));
        }
    }
    if let [one] = names {
        return Err(RaceError::Alone(*one));
    }
    let missing = |id: LaneId| match id {
        LaneId::Remote => "the settings name no server",
        LaneId::Npu | LaneId::Cpu => "there is no such lane here",
    };
    let unknown = names.iter().find(|id| status(**id).is_none());
    if let Some(id) = unknown {
        return Err(RaceError::None(vec![(*id, Some(missing(*id).to_owned()))]));
    }
    Ok(names.iter().filter_map(|id| status(*id)).collect())
}

/// One after the other where two of them compute on the same cores.
pub fn order(lanes: &[&LaneStatus]) -> Order {
    let sharing: Vec<String> = lanes.iter().filter(|lane| uses_cores(lane)).map(|lane| spoken(lane)).collect();
    match sharing.as_slice() {
        [] | [_] => Order::SideBySide,
        [others @ .., last] => {
            Order::InTurn { why: format!("{} and {last} compute on the same cores", others.join(", ")) }
        }
    }
}

/// Whether a lane's work is done by this machine's cores.
fn uses_cores(lane: &LaneStatus) -> bool {
    match &lane.remote {
        Some(server) => is_here(&server.host),
        None => lane.emulated || lane.id == LaneId::Cpu || lane.execution_provider == CPU_PROVIDER,
    }
}

/// Whether a server's host, with or without its port, is this machine by its name.
fn is_here(host: &str) -> bool {
    let name = host.strip_prefix('[').and_then(|rest| rest.split(']').next());
    let name = name.unwrap_or_else(|| host.split(':').next().unwrap_or(host));
    name == "localhost" || name == "::1" || name.starts_with("127.")
}

fn spoken(lane: &LaneStatus) -> String {
    match (&lane.remote, lane.emulated) {
        (Some(server), _) => format!("the server at {}", server.host),
        (None, true) => format!("the emulated {}", lane.id),
        (None, false) => lane.id.to_string(),
    }
}

fn reasons(lanes: &[(LaneId, Option<String>)]) -> String {
    let each = lanes.iter().filter_map(|(lane, reason)| Some(format!("{lane}: {}", reason.as_ref()?)));
    each.collect::<Vec<_>>().join("; ")
}

fn too_few(lanes: &[(LaneId, Option<String>)]) -> String {
    let able: Vec<String> = lanes.iter().filter(|(_, reason)| reason.is_none()).map(|(id, _)| id.to_string()).collect();
    let able =
        if able.is_empty() { "no lane can run here".to_owned() } else { format!("only {} can run", able.join(", ")) };
    match reasons(lanes) {
        reasons if reasons.is_empty() => able,
        reasons => format!("{able} ({reasons})"),
    }
}

#[cfg(test)]
mod tests;
