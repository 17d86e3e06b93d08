//! An answer while it comes: pieces of text, then what the server said of it as a whole.

use std::collections::VecDeque;
use std::time::Instant;

use serde_json::Value;

use super::endpoint::ApiKey;
use super::error::{RemoteError, quoted};
use super::exchange::Exchange;
use super::sse::SseParser;
use super::wire::{Chunk, ServerUsage, fault};

/// The end of a stream.
const DONE: &str = "[DONE]";

/// What one chunk adds. Servers send a token at a time, or several.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece {
    pub text: String,
    pub thinking: String,
    /// What ortalk's own server sends besides.
    pub extension: Option<Value>,
    /// When its bytes came.
    pub at: Instant,
}

/// What is known of an answer once all of it has come.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Summary {
    /// `stop`, `length` and others, by the interface's names.
    pub finish_reason: Option<String>,
    pub usage: Option<ServerUsage>,
    /// The header `x-ortalk-route`.
    pub route: Option<String>,
}

pub struct ChatStream {
    /// `None` once the answer is over.
    exchange: Option<Exchange>,
    host: String,
    key: Option<ApiKey>,
    parser: SseParser,
    pieces: VecDeque<Piece>,
    /// Comes behind the pieces that came before it.
    failure: Option<RemoteError>,
    summary: Summary,
}

impl ChatStream {
    pub(super) fn new(exchange: Exchange, host: String, key: Option<ApiKey>, route: Option<String>) -> Self {
        let summary = Summary { route, ..Summary::default() };
        let (parser, pieces) = (SseParser::default(), VecDeque::new());
        Self { exchange: Some(exchange), host, key, parser, pieces, failure: None, summary }
    }

    /// The next piece; `None` at the answer's end. Pieces without text come, too: they say that the server is at work.
    pub fn next(&mut self, stop: &dyn Fn() -> bool) -> Result<Option<Piece>, RemoteError> {
        loop {
            if let Some(piece) = self.pieces.pop_front() {
                return Ok(Some(piece));
            }
            if let Some(failure) = self.failure.take() {
                return Err(failure);
            }
            let Some(exchange) = &mut self.exchange else { return Ok(None) };
            let taken = match exchange.bytes(stop) {
                Ok(Some((bytes, at))) => self.take(&bytes, at),
                Ok(None) => {
                    self.exchange = None;
                    // Some servers leave out the last line.
                    match self.summary.finish_reason {
                        Some(_) => Ok(()),
                        None => Err(self.cut("the stream ended in the middle")),
                    }
                }
                Err(error) => Err(error),
            };
            if let Err(error) = taken {
                self.exchange = None;
                self.failure = Some(error);
            }
        }
    }

    /// What was said of the answer so far; complete when `next` has given `None`.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    fn take(&mut self, bytes: &[u8], at: Instant) -> Result<(), RemoteError> {
        let events = self.parser.push(bytes).map_err(|error| self.garbage(error.to_string()))?;
        for data in events {
            if data.trim() == DONE {
                if let Some(exchange) = self.exchange.take() {
                    exchange.leave();
                }
                return match self.summary.finish_reason {
                    Some(_) => Ok(()),
                    None => Err(self.cut("it said that it was done without saying how the answer ended")),
                };
            }
            self.take_chunk(&data, at)?;
        }
        Ok(())
    }

    fn take_chunk(&mut self, data: &str, at: Instant) -> Result<(), RemoteError> {
        let chunk: Chunk = serde_json::from_str(data)
            .map_err(|error| self.garbage(format!("a chunk of the answer is none: {error}")))?;
        if chunk.error.is_some() {
            let said = quoted(&fault(data).0, self.key.as_ref().map(ApiKey::secret));
            return Err(RemoteError::Reported { host: self.host.clone(), said });
        }
        if let Some(usage) = chunk.usage {
            self.summary.usage = Some(usage.into());
        }
        let mut piece = Piece { text: String::new(), thinking: String::new(), extension: chunk.ortalk, at };
        // Only one answer was asked for.
        if let Some(choice) = chunk.choices.into_iter().next() {
            piece.text = choice.delta.content.unwrap_or_default();
            piece.thinking = choice.delta.reasoning_content.or(choice.delta.reasoning).unwrap_or_default();
            self.summary.finish_reason = choice.finish_reason.or(self.summary.finish_reason.take());
        }
        self.pieces.push_back(piece);
        Ok(())
    }

    fn garbage(&self, problem: String) -> RemoteError {
        RemoteError::Garbage { host: self.host.clone(), problem }
    }

    fn cut(&self, reason: &str) -> RemoteError {
        RemoteError::Cut { host: self.host.clone(), reason: reason.to_owned() }
    }
}
