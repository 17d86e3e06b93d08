//! `GET /v1/models` and `GET /v1/models/{id}`: the model, and each lane of it by `@` and the lane's name.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use serde_json::{Value, json};

use super::app::App;
use super::body::json_response;
use super::error::ApiError;
use crate::engine::{LaneState, LaneStatus};

pub async fn list(State(app): State<Arc<App>>) -> Response {
    json_response(&json!({"object": "list", "data": all(&app)}))
}

pub async fn show(State(app): State<Arc<App>>, id: Result<Path<String>, PathRejection>) -> Result<Response, ApiError> {
    let Path(id) = id.map_err(|_| ApiError::invalid("the model's name in the address is no UTF-8"))?;
    let lane = app.lane_of_model(&id)?;
    let lanes = app.engine.snapshot().lanes;
    let found = match lane {
        None => of_model(&app, &lanes),
        Some(lane) => match lanes.iter().find(|known| known.id == lane) {
            Some(status) => of_lane(&app, status),
            None => return Err(ApiError::server("the lane is gone")),
        },
    };
    Ok(json_response(&found))
}

fn all(app: &App) -> Vec<Value> {
    let lanes = app.engine.snapshot().lanes;
    let there = lanes.iter().filter(|lane| !matches!(lane.state, LaneState::Absent { .. }));
    std::iter::once(of_model(app, &lanes)).chain(there.map(|lane| of_lane(app, lane))).collect()
}

fn of_model(app: &App, lanes: &[LaneStatus]) -> Value {
    let ready = lanes.iter().filter(|lane| lane.state == LaneState::Ready);
    entry(app, app.model().to_owned(), ready.map(|lane| lane.context_limit).max(), None)
}

fn of_lane(app: &App, lane: &LaneStatus) -> Value {
    let limit = (lane.context_limit > 0).then_some(lane.context_limit);
    let more = json!({"lane": lane.id.name(), "state": lane.state.name(), "emulated": lane.emulated});
    entry(app, format!("{}@{}", app.model(), lane.id), limit, Some(more))
}

fn entry(app: &App, id: String, context_length: Option<usize>, ortalk: Option<Value>) -> Value {
    let mut entry = json!({
        "id": id,
        "object": "model",
        "created": app.started,
        "owned_by": "ortalk",
        "context_length": context_length,
    });
    if let Some(ortalk) = ortalk {
        entry["ortalk"] = ortalk;
    }
    entry
}
