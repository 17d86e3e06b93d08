//! Answers as server-sent events: <https://html.spec.whatwg.org/multipage/server-sent-events.html>.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream::unfold;
use serde_json::Value;

use super::answers::Answers;
use super::error::ApiError;
use crate::engine::GenerationEvent;

/// Proxies end connections on which nothing comes for a minute.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// How an endpoint writes what happens; each method adds frames to what is sent.
pub trait Encoder: Send + 'static {
    /// Before the first event.
    fn open(&mut self, frames: &mut Frames);
    fn event(&mut self, index: usize, event: &GenerationEvent, frames: &mut Frames);
    /// All answers are complete.
    fn done(&mut self, frames: &mut Frames);
    /// Nothing comes after it.
    fn failed(&mut self, error: &ApiError, frames: &mut Frames);
}

#[derive(Debug, Default)]
pub struct Frames {
    text: String,
}

impl Frames {
    /// JSON has no bare line breaks, so one line of data is enough.
    pub fn data(&mut self, value: &Value) {
        self.text.push_str(&format!("data: {value}\n\n"));
    }

    pub fn named(&mut self, event: &str, value: &Value) {
        self.text.push_str(&format!("event: {event}\ndata: {value}\n\n"));
    }

    /// OpenAI's end of a stream of completions.
    pub fn end(&mut self) {
        self.text.push_str("data: [DONE]\n\n");
    }
}

struct Stream<E> {
    answers: Answers,
    encoder: E,
    opened: bool,
    ended: bool,
}

impl<E: Encoder> Stream<E> {
    /// What is to be sent next; `None` at the end.
    async fn next(&mut self) -> Option<String> {
        let mut frames = Frames::default();
        if !self.opened {
            self.opened = true;
            self.encoder.open(&mut frames);
        }
        while frames.text.is_empty() && !self.ended {
            match tokio::time::timeout(KEEP_ALIVE, self.answers.next()).await {
                Err(_) => frames.text.push_str(": keep-alive\n\n"),
                Ok(Ok(Some((index, event)))) => self.encoder.event(index, &event, &mut frames),
                Ok(Ok(None)) => {
                    self.ended = true;
                    self.encoder.done(&mut frames);
                }
                Ok(Err(error)) => {
                    self.ended = true;
                    self.encoder.failed(&error, &mut frames);
                }
            }
        }
        (!frames.text.is_empty()).then_some(frames.text)
    }
}

/// A response whose body is the answers as they come.
pub fn respond(answers: Answers, encoder: impl Encoder) -> Response {
    let stream = Stream { answers, encoder, opened: false, ended: false };
    let frames = unfold(stream, |mut stream| async {
        let text = stream.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(text)), stream))
    });
    let mut response = Response::new(Body::from_stream(frames));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
