//! An HTTP server over the engine, with OpenAI's API: the chat API and the older completions, responses, models; and
//! health, metrics, and the engine's snapshot.
//!
//! A request passes the guard (`guard`: host, key, body), is read and checked by its endpoint (`chat`, `completions`,
//! `responses`: every field is taken, ignored on purpose, or refused by name), waits for admission (`admission`) and becomes
//! `answers` of the engine, whose events are collected or streamed (`sse`). Dropping a response cancels its answers.

mod admission;
mod answers;
mod app;
mod auth;
mod body;
mod chat;
mod completions;
mod error;
mod fields;
mod guard;
mod id;
mod listener;
mod log;
mod messages;
mod metrics;
mod models;
mod parameters;
mod prometheus;
mod responses;
mod sse;

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;

pub use app::{Limits, ServerOptions};
pub use auth::Key;
pub use log::Log;

use crate::engine::{Engine, LaneState};
use crate::telemetry::memory;
use crate::wire::Snapshot;
use app::{App, Phase};
use body::json_response;
use error::ApiError;

/// All there are, as the metrics name them.
const ENDPOINTS: [&str; 8] = [
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/models",
    "/v1/models/{id}",
    "/health",
    "/metrics",
    "/ortalk/snapshot",
];

/// Serves until `stop` says so: the first time, running answers may end within the time that the limits give them; the
/// second time, they end now.
pub async fn serve(listener: TcpListener, engine: Engine, options: ServerOptions, mut stop: UnboundedReceiver<()>) {
    let (phase, followed) = watch::channel(Phase::Running);
    let is_loopback = listener.local_addr().is_ok_and(|address| address.ip().is_loopback());
    let app = App::new(engine, options, is_loopback, followed);
    let grace = app.limits.grace;
    let serving = listener::serve(listener, router(app.clone()), app);
    let stopping = async {
        stopped(&mut stop).await;
        let _ = phase.send(Phase::Draining);
        let _ = tokio::time::timeout(grace, stopped(&mut stop)).await;
        let _ = phase.send(Phase::Cut);
        std::future::pending::<()>().await;
    };
    tokio::select! { () = serving => {}, () = stopping => {} }
}

/// Who cannot stop the server any more has not stopped it.
async fn stopped(stop: &mut UnboundedReceiver<()>) {
    if stop.recv().await.is_none() {
        std::future::pending().await
    }
}

fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(chat::create))
        .route("/v1/completions", post(completions::create))
        .route("/v1/responses", post(responses::create))
        .route("/v1/models", get(models::list))
        .route("/v1/models/{id}", get(models::show))
        .route("/health", get(health))
        .route("/metrics", get(metrics))
        .route("/ortalk/snapshot", get(snapshot))
        .method_not_allowed_fallback(wrong_method)
        .fallback(not_found)
        // The guard has a limit of its own.
        .layer(DefaultBodyLimit::disable())
        .layer(from_fn_with_state(app.clone(), guard::guard))
        .with_state(app)
}

async fn health(State(app): State<Arc<App>>) -> Response {
    let ready = app.engine.snapshot().lanes.iter().any(|lane| lane.state == LaneState::Ready);
    let status = match *app.phase.borrow() {
        Phase::Running if ready => "ok",
        Phase::Running => "no lane is ready",
        Phase::Draining | Phase::Cut => "shutting down",
    };
    let mut response = json_response(&json!({"status": status}));
    if status != "ok" {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    response
}

async fn metrics(State(app): State<Arc<App>>) -> Response {
    let page = app.metrics.page(&metrics::Standing {
        engine: &app.engine.snapshot(),
        limit: app.admission.limit(),
        resident: memory::own(),
        stopping: *app.phase.borrow() != Phase::Running,
    });
    let mut response = page.into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(prometheus::CONTENT_TYPE));
    response
}

async fn snapshot(State(app): State<Arc<App>>) -> Response {
    json_response(&json!(Snapshot::of(&app.engine.snapshot(), Instant::now())))
}

async fn not_found() -> ApiError {
    let message = format!("there is no such endpoint; there are {}", ENDPOINTS.join(", "));
    ApiError::invalid_with(StatusCode::NOT_FOUND, "unknown_url", message)
}

async fn wrong_method() -> ApiError {
    let message = "this endpoint takes another method: GET for what is read, POST for what is answered";
    ApiError::invalid_with(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
}
