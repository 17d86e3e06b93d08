//! Errors as OpenAI's API has them: `{"error": {"message", "type", "param", "code"}}`.

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::engine::{EngineError, PromptError, RouteError};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    pub status: StatusCode,
    pub message: String,
    /// OpenAI's `type`.
    pub kind: &'static str,
    /// The request's field that is wrong, as in `messages[0].role`.
    pub param: Option<String>,
    pub code: Option<&'static str>,
    /// Seconds.
    pub retry_after: Option<u64>,
}

const INVALID: &str = "invalid_request_error";

impl ApiError {
    fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), kind, param: None, code: None, retry_after: None }
    }

    /// The request is wrong as a whole.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, INVALID, message)
    }

    pub fn invalid_with(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { code: Some(code), ..Self::new(status, INVALID, message) }
    }

    /// One of its fields is wrong.
    pub fn param(param: impl Into<String>, code: &'static str, message: impl Into<String>) -> Self {
        Self { param: Some(param.into()), code: Some(code), ..Self::invalid(message) }
    }

    pub fn unauthorized() -> Self {
        let message = "a key is needed: send 'Authorization: Bearer KEY' with the key that the server was started with";
        Self::invalid_with(StatusCode::UNAUTHORIZED, "invalid_api_key", message)
    }

    pub fn busy(limit: usize, retry_after: u64) -> Self {
        let message = format!(
            "{limit} answers are running or waiting, which is this server's limit; try again in {retry_after} s"
        );
        let error = Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_error", message);
        Self { code: Some("queue_full"), retry_after: Some(retry_after), ..error }
    }

    pub fn unavailable(code: &'static str, message: impl Into<String>) -> Self {
        Self { code: Some(code), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "server_error", message) }
    }

    pub fn stopping() -> Self {
        Self::unavailable("shutting_down", "the server is shutting down")
    }

    pub fn timeout(seconds: u64) -> Self {
        let message = format!("the answer took longer than {seconds} s, which is this server's limit");
        Self { code: Some("timeout"), ..Self::new(StatusCode::GATEWAY_TIMEOUT, "server_error", message) }
    }

    /// What went wrong here.
    pub fn server(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "server_error", message)
    }

    /// Why the engine refuses a request whose text is in the field `param`.
    pub fn refused(error: &EngineError, param: &str) -> Self {
        let message = error.to_string();
        match error {
            EngineError::Prompt(error) | EngineError::RequestedTooShort { error, .. } => match error {
                PromptError::TooLong { .. } | PromptError::NoRoom { .. } => {
                    Self::param(param, "context_length_exceeded", message)
                }
                _ => Self::param(param, "invalid_value", message),
            },
            EngineError::Route(RouteError::NoneReady(_)) => Self::unavailable("no_lane_ready", message),
            EngineError::Route(_) => Self::unavailable("lane_not_ready", message),
            _ => Self::server(message),
        }
    }

    pub fn body(&self) -> Value {
        let Self { message, kind, param, code, .. } = self;
        json!({"error": {"message": message, "type": kind, "param": param, "code": code}})
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.body().to_string()));
        *response.status_mut() = self.status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}
