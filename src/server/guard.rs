//! What every request passes before its endpoint sees it: the host's name, the key, the body's size and the time that it
//! takes to come; and what is said of every response: its count, its line in the log, the headers for browsers.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, CONNECTION, CONTENT_TYPE, ORIGIN, VARY, WWW_AUTHENTICATE,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt, LengthLimitError, Limited};

use super::app::{App, Phase};
use super::auth::host_is_local;
use super::error::ApiError;
use super::id::unique;

/// What a proxy in front would call a client that left before its answer's headers.
const CLIENT_LEFT: u16 = 499;

const REQUEST_ID: &str = "x-request-id";

pub async fn guard(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let mut counted = Counted::new(&app, &request);
    let origin = request.headers().get(ORIGIN).cloned();
    let preflight = app.cors.is_some() && request.method() == Method::OPTIONS;
    let mut response = if preflight {
        StatusCode::NO_CONTENT.into_response()
    } else {
        match pass(&app, request).await {
            Ok(request) => next.run(request).await,
            Err(error) => error.into_response(),
        }
    };
    let headers = response.headers_mut();
    allow_origin(app.cors.as_ref(), origin.as_ref(), headers);
    if let Ok(id) = HeaderValue::from_str(&unique("req")) {
        headers.insert(REQUEST_ID, id);
    }
    if *app.phase.borrow() != Phase::Running {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    if response.status() == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    counted.status = response.status().as_u16();
    response
}

/// The request with its body read, if it may pass.
async fn pass(app: &App, request: Request) -> Result<Request, ApiError> {
    if app.guards_host && !host_is_local(request.headers()) {
        let message = "this server answers to localhost and to addresses; another name needs a key, so that no web page can \
                       lead a browser here";
        return Err(ApiError::invalid_with(StatusCode::FORBIDDEN, "host_not_allowed", message));
    }
    let is_probe = request.uri().path() == "/health";
    if let Some(key) = &app.key
        && !is_probe
        && !key.opens(request.headers())
    {
        return Err(ApiError::unauthorized());
    }
    if request.method() != Method::POST {
        return Ok(request);
    }
    if !is_json(request.headers()) {
        let message = "the body must be JSON, and the header 'Content-Type: application/json' must say so";
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return Err(ApiError::invalid_with(status, "unsupported_media_type", message));
    }
    let (head, body) = request.into_parts();
    let limit = app.limits.body_bytes;
    let read = tokio::time::timeout(app.limits.body_time, Limited::new(body, limit).collect());
    let body = match read.await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let message = format!("the body is larger than {limit} bytes, which is this server's limit");
            return Err(ApiError::invalid_with(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message));
        }
        Ok(Err(_)) => return Err(ApiError::invalid("the body did not come whole")),
        Err(_) => {
            let message = format!("the body took longer than {} s", app.limits.body_time.as_secs());
            return Err(ApiError::invalid_with(StatusCode::REQUEST_TIMEOUT, "body_too_slow", message));
        }
    };
    Ok(Request::from_parts(head, Body::from(body)))
}

/// A page of another origin can send other types without asking first.
fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = value.and_then(|value| value.split(';').next());
    media_type.is_some_and(|media_type| media_type.trim().eq_ignore_ascii_case("application/json"))
}

fn allow_origin(allowed: Option<&HeaderValue>, origin: Option<&HeaderValue>, headers: &mut HeaderMap) {
    let Some(allowed) = allowed else { return };
    headers.insert(VARY, HeaderValue::from_static("origin"));
    if allowed != "*" && Some(allowed) != origin {
        return;
    }
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, allowed.clone());
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, OPTIONS"));
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("authorization, content-type"));
    let ours = HeaderValue::from_static("x-ortalk-lane, x-ortalk-route, x-ortalk-emulated, x-request-id");
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, ours);
}

/// Counts and logs a request when it is over.
struct Counted<'a> {
    app: &'a App,
    method: &'static str,
    endpoint: &'static str,
    status: u16,
    since: Instant,
}

impl<'a> Counted<'a> {
    fn new(app: &'a App, request: &Request) -> Self {
        let path = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
        let endpoint = super::ENDPOINTS.iter().find(|known| Some(**known) == path).copied();
        let method = match *request.method() {
            Method::GET => "GET",
            Method::POST => "POST",
            Method::OPTIONS => "OPTIONS",
            _ => "OTHER",
        };
        Self { app, method, endpoint: endpoint.unwrap_or("other"), status: CLIENT_LEFT, since: Instant::now() }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.app.metrics.request(self.endpoint, self.status);
        self.app.log.request(self.method, self.endpoint, self.status, self.since.elapsed());
    }
}
