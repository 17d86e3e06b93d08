//! What every request is answered from: the engine, the limits, and what was counted.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::HeaderValue;
use tokio::sync::watch;

use super::admission::Admission;
use super::auth::Key;
use super::error::ApiError;
use super::log::Log;
use super::metrics::Metrics;
use crate::bill::Books;
use crate::engine::{AnswerSettings, ChatMessage, Engine, LaneId, LaneState, Role};

/// What is told when the server is started.
pub struct ServerOptions {
    /// What a request does not say.
    pub defaults: AnswerSettings,
    /// Names that lead to the model besides its own.
    pub names: Vec<String>,
    pub limits: Limits,
    /// `None`: everybody may ask.
    pub key: Option<Key>,
    /// The origin whose pages may read answers.
    pub cors: Option<HeaderValue>,
    /// Where it is written what answers took.
    pub books: Option<Books>,
    pub log: Log,
}

/// What keeps one client from taking all there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Answers that run or wait.
    pub answers: usize,
    pub connections: usize,
    pub body_bytes: usize,
    pub messages: usize,
    /// For an answer, from its submission to its end.
    pub answer_time: Duration,
    /// For a request's head, from the end of the one before it on.
    pub head_time: Duration,
    pub body_time: Duration,
    /// For a client to take what is sent to it.
    pub write_time: Duration,
    /// For answers that are running when the server is told to stop.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            answers: 64,
            connections: 256,
            body_bytes: 4 << 20,
            messages: 2048,
            answer_time: Duration::from_secs(600),
            head_time: Duration::from_secs(30),
            body_time: Duration::from_secs(30),
            write_time: Duration::from_secs(30),
            grace: Duration::from_secs(30),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Running,
    /// No new requests; running answers go on.
    Draining,
    /// Running answers end now.
    Cut,
}

pub struct App {
    pub engine: Engine,
    pub defaults: AnswerSettings,
    pub limits: Limits,
    pub key: Option<Key>,
    pub cors: Option<HeaderValue>,
    /// Who asks may be a web page that a browser on this machine was made to take for one of this server's.
    pub guards_host: bool,
    pub books: Option<Books>,
    pub metrics: Arc<Metrics>,
    pub admission: Arc<Admission>,
    pub phase: watch::Receiver<Phase>,
    pub log: Log,
    /// Unix seconds.
    pub started: u64,
    model: String,
    names: Vec<String>,
}

impl App {
    pub fn new(engine: Engine, options: ServerOptions, is_loopback: bool, phase: watch::Receiver<Phase>) -> Arc<Self> {
        let ServerOptions { defaults, names, limits, key, cors, books, log } = options;
        Arc::new(Self {
            model: engine.snapshot().model,
            names,
            engine,
            defaults,
            limits,
            guards_host: is_loopback && key.is_none(),
            key,
            cors,
            books,
            metrics: Arc::default(),
            admission: Admission::new(limits.answers),
            phase,
            log,
            started: unix_seconds(),
        })
    }

    /// The model's own name, which answers carry.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// A conversation with the server's own instructions before it, where it has none.
    pub fn instructed(&self, messages: Vec<ChatMessage>) -> Vec<ChatMessage> {
        let has_own = messages.iter().any(|message| message.role == Role::System);
        let ours = self.defaults.system.as_deref().filter(|_| !has_own);
        ours.map(|text| ChatMessage::new(Role::System, text)).into_iter().chain(messages).collect()
    }

    /// What a request's `model` says: `None` or a lane, for the name with `@lane` behind it.
    pub fn lane_of_model(&self, name: &str) -> Result<Option<LaneId>, ApiError> {
        if self.is_model(name) {
            return Ok(None);
        }
        let lane = name.rsplit_once('@').and_then(|(model, lane)| {
            let lanes = self.engine.snapshot().lanes;
            let lane = lanes.into_iter().find(|known| known.id.name() == lane)?;
            self.is_model(model).then_some(lane.id)
        });
        lane.map(Some).ok_or_else(|| {
            let quoted: String = name.chars().take(100).collect();
            let message = format!(
                "there is no model '{quoted}' here; this server has '{}', and lanes of it by '@' and their names, which \
                 GET /v1/models lists",
                self.model
            );
            let status = axum::http::StatusCode::NOT_FOUND;
            ApiError { param: Some("model".to_owned()), ..ApiError::invalid_with(status, "model_not_found", message) }
        })
    }

    fn is_model(&self, name: &str) -> bool {
        std::iter::once(&self.model).chain(&self.names).any(|known| known.eq_ignore_ascii_case(name))
    }

    /// A lane that was asked for must be there; one that is loading is waited for, one that failed is tried again.
    pub fn check_lane(&self, lane: LaneId, param: &str) -> Result<(), ApiError> {
        let lanes = self.engine.snapshot().lanes;
        match lanes.iter().find(|known| known.id == lane).map(|known| &known.state) {
            Some(LaneState::Absent { reason }) => {
                let message = format!("the {lane} lane was asked for, but it is not there: {reason}");
                Err(ApiError::param(param, "lane_not_available", message))
            }
            Some(LaneState::Loading { .. } | LaneState::Ready | LaneState::Failed { .. }) => Ok(()),
            None => {
                let message = format!("the {lane} lane was asked for, but this server has no such lane");
                Err(ApiError::param(param, "lane_not_available", message))
            }
        }
    }
}

pub fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
