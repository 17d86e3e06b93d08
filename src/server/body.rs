//! Bodies of requests and responses.

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use serde_json::Value;

use super::error::ApiError;
use super::fields::Fields;

/// A request's body as an object. What is nested deeper than 128 levels is refused by the parser.
pub fn json_object(body: &[u8]) -> Result<Fields, ApiError> {
    let value: Value = serde_json::from_slice(body).map_err(|error| {
        let what = match error.classify() {
            serde_json::error::Category::Eof => "it ends too early",
            _ => "it is not right",
        };
        let place = format!("line {}, column {}", error.line(), error.column());
        ApiError { code: Some("invalid_json"), ..ApiError::invalid(format!("the body is no JSON: {what} at {place}")) }
    })?;
    Fields::of(value, "")
}

pub fn json_response(value: &Value) -> Response {
    let mut response = Response::new(Body::from(value.to_string()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
