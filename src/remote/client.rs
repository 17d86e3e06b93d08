//! What is asked of a server, and what its answers' statuses mean.

use std::time::Duration;

use super::endpoint::Endpoint;
use super::error::{RemoteError, quoted};
use super::exchange::{Connections, Exchange, Question};
use super::stream::ChatStream;
use super::wire::{ChatBody, ModelEntry, fault};
use crate::http::Head;

/// A list of models or a page of metrics is far smaller, in bytes.
const LONGEST_DOCUMENT: usize = 16 << 20;

/// Of an error's text, in bytes.
const LONGEST_FAULT: usize = 1 << 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// To find a server's address, and to connect.
    pub connect: Duration,
    /// Without a byte from the server, before its answer and within. A server that reads a long prompt is silent, too.
    pub silence: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { connect: Duration::from_secs(10), silence: Duration::from_secs(120) }
    }
}

/// Asks one server. An exchange that is stopped closes all of the client's connections, so that the server notices; who asks
/// several things at once uses a client for each.
pub struct Client {
    endpoint: Endpoint,
    connections: Connections,
}

impl Client {
    /// Connects to nothing yet.
    pub fn new(endpoint: Endpoint, timeouts: Timeouts) -> Self {
        let connections = Connections::new(&endpoint, timeouts);
        Self { endpoint, connections }
    }

    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Asks for an answer and returns when it begins. `stop` is asked a few times a second whether to give up.
    pub fn chat(&self, body: &ChatBody, stop: &dyn Fn() -> bool) -> Result<ChatStream, RemoteError> {
        let question = Question { url: self.endpoint.api("/chat/completions"), body: Some(body.to_json()) };
        let (mut exchange, head) = self.ask(question, stop)?;
        let found = head.header("Content-Type").unwrap_or("nothing");
        if !found.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("text/event-stream")) {
            let found = found.to_owned();
            let text = exchange.rest(LONGEST_FAULT, stop).unwrap_or_default();
            let said = self.quote(&fault(&String::from_utf8_lossy(&text)).0);
            return Err(RemoteError::NotAStream { host: self.host(), found, said });
        }
        let key = self.endpoint.key.clone();
        Ok(ChatStream::new(exchange, self.host(), key, head.header("x-ortalk-route").map(str::to_owned)))
    }

    /// The server's models.
    pub fn models(&self, stop: &dyn Fn() -> bool) -> Result<Vec<ModelEntry>, RemoteError> {
        let text = self.get(self.endpoint.api("/models"), stop)?;
        ModelEntry::list(&text).map_err(|error| RemoteError::Garbage {
            host: self.host(),
            problem: format!("its list of models is none: {error}"),
        })
    }

    /// A document of the server's outside of OpenAI's interface: `/metrics`.
    pub fn document(&self, path: &str, stop: &dyn Fn() -> bool) -> Result<Vec<u8>, RemoteError> {
        self.get(self.endpoint.root(path), stop)
    }

    fn get(&self, url: String, stop: &dyn Fn() -> bool) -> Result<Vec<u8>, RemoteError> {
        let (mut exchange, _) = self.ask(Question { url, body: None }, stop)?;
        exchange.rest(LONGEST_DOCUMENT, stop)
    }

    fn ask(&self, question: Question, stop: &dyn Fn() -> bool) -> Result<(Exchange, Head), RemoteError> {
        let url = question.url.clone();
        let (mut exchange, head) = Exchange::begin(&self.endpoint, &self.connections, question, stop)?;
        if head.status == 200 {
            return Ok((exchange, head));
        }
        // What it says is worth a little time; that it cannot be read changes nothing.
        let text = exchange.rest(LONGEST_FAULT, stop).unwrap_or_default();
        Err(self.error(url, &head, &String::from_utf8_lossy(&text)))
    }

    /// Puts a status that is no success into words.
    fn error(&self, url: String, head: &Head, body: &str) -> RemoteError {
        let (message, param) = fault(body);
        let (host, status, said) = (self.host(), head.status, self.quote(&message));
        let wait = head.header("Retry-After").and_then(|text| text.parse().ok()).map(Duration::from_secs);
        match status {
            401 => RemoteError::Key { host, with_key: self.endpoint.key.is_some(), said },
            403 => RemoteError::Forbidden { host, status, said },
            404 => RemoteError::NotFound { url, said },
            429 => RemoteError::Busy { host, wait, said },
            300..=399 => {
                let target = head.header("Location").unwrap_or("nowhere").to_owned();
                RemoteError::Redirect { host, status, target }
            }
            408 | 500..=599 => RemoteError::Server { host, status, wait, said },
            400..=499 => RemoteError::Refused { host, status, param, said },
            status => RemoteError::Garbage { host, problem: format!("its status is {status}{said}") },
        }
    }

    fn quote(&self, message: &str) -> String {
        quoted(message, self.endpoint.key.as_ref().map(|key| key.secret()))
    }

    fn host(&self) -> String {
        self.endpoint.host().to_owned()
    }
}
