//! One exchange with a server, on a thread of its own, so that whoever waits for it can stop, and silence is noticed.
//!
//! An exchange that is dropped before its end closes its connection at once: the server hears it, and stops as well.

use std::io::Read;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ureq::{Agent, Body};

use super::client::Timeouts;
use super::endpoint::Endpoint;
use super::error::RemoteError;
use crate::http::{self, Head};

/// How often whoever waits is asked whether to go on.
const TICK: Duration = Duration::from_millis(20);

const CHUNK: usize = 1 << 14;

/// Chunks that may wait to be read.
const QUEUE: usize = 64;

pub struct Question {
    pub url: String,
    /// `None` asks with GET.
    pub body: Option<Vec<u8>>,
}

enum Event {
    Head(Head),
    Bytes(Vec<u8>, Instant),
    End,
    Failed(String),
}

/// The connections to one server; those that were used to their end are used again.
#[derive(Clone)]
pub struct Connections {
    agent: Arc<Mutex<Agent>>,
    timeouts: Timeouts,
    is_loopback: bool,
}

impl Connections {
    pub fn new(endpoint: &Endpoint, timeouts: Timeouts) -> Self {
        let is_loopback = endpoint.is_loopback();
        Self { agent: Arc::new(Mutex::new(agent(timeouts, is_loopback))), timeouts, is_loopback }
    }

    fn current(&self) -> Agent {
        self.agent.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Closes all of them; what is asked next opens new ones.
    fn close(&self) {
        let fresh = agent(self.timeouts, self.is_loopback);
        let old = std::mem::replace(&mut *self.agent.lock().unwrap_or_else(PoisonError::into_inner), fresh);
        old.shutdown();
    }
}

fn agent(timeouts: Timeouts, is_loopback: bool) -> Agent {
    let config = http::agent(timeouts.connect);
    // No proxy leads back to this machine.
    let config = if is_loopback { config.proxy(None) } else { config };
    config.build().new_agent()
}

/// An exchange whose answer has begun.
pub struct Exchange {
    events: Receiver<Event>,
    connections: Connections,
    host: String,
    /// When bytes came last.
    heard: Instant,
    /// Nothing more will come, or nobody minds what does.
    over: bool,
}

impl Exchange {
    /// Asks, and waits until the answer begins.
    pub fn begin(
        endpoint: &Endpoint,
        connections: &Connections,
        question: Question,
        stop: &dyn Fn() -> bool,
    ) -> Result<(Self, Head), RemoteError> {
        let host = endpoint.host().to_owned();
        let agent = connections.current();
        let key = endpoint.key.as_ref().map(|key| format!("Bearer {}", key.secret()));
        let (sender, events) = sync_channel(QUEUE);
        let started =
            std::thread::Builder::new().name("remote".into()).spawn(move || run(&agent, question, key, &sender));
        if let Err(error) = started {
            return Err(RemoteError::Unreachable { host, reason: format!("no thread could be started: {error}") });
        }
        let mut exchange = Self { events, connections: connections.clone(), host, heard: Instant::now(), over: false };
        match exchange.next(stop)? {
            Event::Head(head) => Ok((exchange, head)),
            Event::Bytes(..) | Event::End => Err(exchange.unreachable("it answered nothing".into())),
            Event::Failed(reason) => Err(exchange.unreachable(reason)),
        }
    }

    /// The next bytes and when they came; `None` at the end.
    pub fn bytes(&mut self, stop: &dyn Fn() -> bool) -> Result<Option<(Vec<u8>, Instant)>, RemoteError> {
        if self.over {
            return Ok(None);
        }
        match self.next(stop)? {
            Event::Bytes(bytes, at) => Ok(Some((bytes, at))),
            Event::Head(_) | Event::End => {
                self.over = true;
                Ok(None)
            }
            Event::Failed(reason) => {
                self.over = true;
                Err(RemoteError::Cut { host: self.host.clone(), reason })
            }
        }
    }

    /// All of a short answer, up to `limit` bytes.
    pub fn rest(&mut self, limit: usize, stop: &dyn Fn() -> bool) -> Result<Vec<u8>, RemoteError> {
        let mut all = Vec::new();
        while let Some((bytes, _)) = self.bytes(stop)? {
            all.extend(bytes);
            if all.len() > limit {
                return Err(RemoteError::Garbage { host: self.host.clone(), problem: "it does not end".into() });
            }
        }
        Ok(all)
    }

    /// What still comes is read by its thread alone, and the connection can be used again.
    pub fn leave(mut self) {
        self.over = true;
    }

    fn next(&mut self, stop: &dyn Fn() -> bool) -> Result<Event, RemoteError> {
        let limit = self.connections.timeouts.silence;
        loop {
            if stop() {
                return Err(RemoteError::Stopped);
            }
            match self.events.recv_timeout(TICK) {
                Ok(event) => {
                    self.heard = Instant::now();
                    return Ok(event);
                }
                Err(RecvTimeoutError::Timeout) if self.heard.elapsed() >= limit => {
                    return Err(RemoteError::Silent { host: self.host.clone(), waited: limit });
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(Event::Failed("it ended without a word".into())),
            }
        }
    }

    fn unreachable(&mut self, reason: String) -> RemoteError {
        self.over = true;
        RemoteError::Unreachable { host: self.host.clone(), reason }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if !self.over {
            self.connections.close();
        }
    }
}

/// The thread: it ends when the answer does, when its connection is closed, or when the server is silent for ever and the
/// process ends.
fn run(agent: &Agent, question: Question, key: Option<String>, sender: &SyncSender<Event>) {
    let last = match ask(agent, question, key) {
        Ok((head, body)) => match pass_on(head, body, sender) {
            Some(last) => last,
            None => return,
        },
        Err(error) => Event::Failed(plainly(error)),
    };
    let _ = sender.send(last);
}

fn ask(agent: &Agent, question: Question, key: Option<String>) -> Result<(Head, Body), ureq::Error> {
    let response = match question.body {
        Some(body) => {
            let mut message = agent.post(&question.url).header("Content-Type", "application/json");
            message = message.header("Accept", "text/event-stream, application/json");
            if let Some(key) = key {
                message = message.header("Authorization", key);
            }
            message.send(&body[..])?
        }
        None => {
            let mut message = agent.get(&question.url);
            if let Some(key) = key {
                message = message.header("Authorization", key);
            }
            message.call()?
        }
    };
    let (parts, body) = response.into_parts();
    Ok((parts.into(), body))
}

/// `None` where nobody listens any more.
fn pass_on(head: Head, body: Body, sender: &SyncSender<Event>) -> Option<Event> {
    sender.send(Event::Head(head)).ok()?;
    let mut reader = body.into_reader();
    let mut chunk = vec![0; CHUNK];
    let mut listens = true;
    loop {
        match reader.read(&mut chunk) {
            Ok(0) => return Some(Event::End),
            // A few bytes may still come behind the last event; a connection that was read to its end is used again.
            Ok(_) if !listens => return None,
            Ok(n) => listens = sender.send(Event::Bytes(chunk[..n].to_vec(), Instant::now())).is_ok(),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Some(Event::Failed(error.to_string())),
        }
    }
}

/// The cause alone: which server it is, is said where it is shown.
fn plainly(error: ureq::Error) -> String {
    match error {
        ureq::Error::Io(error) => error.to_string(),
        ureq::Error::HostNotFound => "its name is not known".into(),
        ureq::Error::Timeout(_) => "it did not take the connection in time".into(),
        error => error.to_string(),
    }
}
