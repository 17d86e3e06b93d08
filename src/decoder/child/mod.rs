//! A decoder in a process of its own. An NPU's libraries may crash or hang; there, that is an error of one lane and not
//! the end of the chat.
//!
//! The process is the `ortalk` executable as `ortalk worker lane`. It gets an invitation as one line on standard input,
//! connects to a local socket, opens the model, and runs one forward pass after the other. Its standard output and error,
//! where native libraries print what they like, go to the log. It ends when it is told to, and when its standard input
//! closes, as it does when ortalk dies.

mod frame;
mod lane;
mod process;
mod serve;

use std::hash::{BuildHasher, RandomState};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use interprocess::local_socket::traits::Listener as _;
use interprocess::local_socket::{
    GenericNamespaced, Listener, ListenerNonblockingMode, ListenerOptions, Stream, ToNsName,
};

use super::{DecodeError, Decoder};
use crate::onnx_runtime::LogSink;
use frame::{FrameError, Reply, Request};
use process::LaneProcess;
pub use process::lane_processes;
use serve::Invitation;

pub use lane::{LaneProvider, LaneReady, LaneRequest};
pub use serve::{ServeError, serve_lane};

/// How long a lane's process may take before it counts as hung and is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// To load the libraries and open the graphs.
    pub opening: Duration,
    /// For one pass: a chunk of a prompt, or a token.
    pub pass: Duration,
    /// The same on a simulator, which is a hundred times slower and more.
    pub emulated_pass: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { opening: seconds(180), pass: seconds(20), emulated_pass: seconds(300) }
    }
}

pub struct ChildOptions {
    /// `ortalk` itself.
    pub executable: PathBuf,
    /// Gets what the process prints.
    pub log: LogSink,
    pub deadlines: Deadlines,
}

/// A process that was told to end has so long to do it.
const GRACE: Duration = Duration::from_secs(2);

pub struct ChildDecoder {
    process: LaneProcess,
    connection: Connection,
    ready: LaneReady,
    /// For one pass.
    deadline: Duration,
    position: usize,
    logits: Vec<f32>,
    /// Why it does not run any more.
    dead: Option<String>,
}

impl ChildDecoder {
    /// Starts the process and waits until its model is open.
    pub fn open(lane: LaneRequest, options: ChildOptions) -> Result<Self, DecodeError> {
        let deadlines = options.deadlines;
        let (process, connection, ready) = start(lane, options).map_err(DecodeError::Lane)?;
        let deadline = if ready.emulated { deadlines.emulated_pass } else { deadlines.pass };
        Ok(Self { process, connection, ready, deadline, position: 0, logits: Vec::new(), dead: None })
    }

    /// Takes at most so many tokens from now on.
    pub fn limit_context(&mut self, tokens: usize) {
        self.ready.limits.context = self.ready.limits.context.min(tokens);
    }

    /// What was opened, and where its nodes run.
    pub fn ready(&self) -> &LaneReady {
        &self.ready
    }

    /// The process's number, for tools that look at it from outside.
    pub fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// One pass in the child.
    fn pass(&mut self, tokens: &[u32]) -> Result<Vec<f32>, String> {
        let position = u32::try_from(self.position).map_err(|error| error.to_string())?;
        let request = Request::Forward { position, tokens: tokens.to_vec() };
        if request.send(&mut &*self.connection.stream).is_err() {
            return Err(self.process.end(GRACE));
        }
        let expected = self.ready.limits.vocabulary;
        match self.connection.receive(&mut self.process, self.deadline)? {
            Reply::Logits(logits) if logits.len() == expected => Ok(logits),
            Reply::Logits(logits) => Err(format!("it sent {} logits in place of {expected}", logits.len())),
            Reply::Failed(reason) => Err(reason),
            other => Err(format!("it sent {} in place of logits", other.name())),
        }
    }
}

/// Returns when the lane is ready, or with what went wrong.
fn start(lane: LaneRequest, options: ChildOptions) -> Result<(LaneProcess, Connection, LaneReady), String> {
    let start = Instant::now();
    let environment = match &lane.provider {
        LaneProvider::Qnn { plugin, .. } => plugin.environment(),
        LaneProvider::Cpu => None,
    };
    let (listener, invitation) = listen(lane)?;
    let line = serde_json::to_string(&invitation).map_err(|error| error.to_string())?;
    let mut process = LaneProcess::start(&options.executable, &line, environment, options.log)
        .map_err(|error| format!("'{}' could not be started: {error}", options.executable.display()))?;
    let opening = options.deadlines.opening;
    let connection = accept(&listener, &invitation.key, &mut process, opening)?;
    match connection.receive(&mut process, opening.saturating_sub(start.elapsed()))? {
        Reply::Ready(json) => {
            let ready = serde_json::from_slice(&json).map_err(|error| format!("it said what is not known: {error}"))?;
            Ok((process, connection, ready))
        }
        Reply::Failed(reason) => Err(reason),
        other => Err(format!("it sent {} before it was ready", other.name())),
    }
}

/// Listens at a socket with a name that nobody can guess.
fn listen(lane: LaneRequest) -> Result<(Listener, Invitation), String> {
    // The hasher's keys come from the operating system's random numbers.
    let random = RandomState::new();
    let [name, low, high] = [0, 1, 2].map(|n| random.hash_one(n));
    let socket = format!("ortalk-{}-{name:016x}.sock", std::process::id());
    let listener = socket
        .as_str()
        .to_ns_name::<GenericNamespaced>()
        .and_then(|name| ListenerOptions::new().name(name).nonblocking(ListenerNonblockingMode::Accept).create_sync())
        .map_err(|error| format!("the socket '{socket}' could not be made: {error}"))?;
    Ok((listener, Invitation { socket, key: format!("{low:016x}{high:016x}"), lane }))
}

/// Waits for the process to connect. Whoever does not know the key is not that process.
fn accept(listener: &Listener, key: &str, process: &mut LaneProcess, deadline: Duration) -> Result<Connection, String> {
    let start = Instant::now();
    loop {
        // Before the look at the socket: a process that has ended may have connected and said why.
        let ended = process.ended();
        match listener.accept() {
            Ok(stream) => {
                let connection = Connection::new(stream).map_err(|error| error.to_string())?;
                match connection.receive(process, deadline.saturating_sub(start.elapsed()))? {
                    Reply::Hello(said) if said == key.as_bytes() => return Ok(connection),
                    _ => continue,
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(format!("its connection failed: {error}")),
        }
        if ended {
            return Err(process.end(GRACE));
        }
        if start.elapsed() > deadline {
            return Err(hung(process, deadline));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn hung(process: &mut LaneProcess, deadline: Duration) -> String {
    let last_words = process.last_words();
    process.end(Duration::ZERO);
    format!("it did not answer within {deadline:?} and was ended{last_words}")
}

/// A socket with a thread that reads replies from it, so that they can be waited for with a deadline on every system.
struct Connection {
    stream: Arc<Stream>,
    replies: Receiver<Result<Reply, FrameError>>,
}

impl Connection {
    fn new(stream: Stream) -> std::io::Result<Self> {
        let stream = Arc::new(stream);
        let (sender, replies) = channel();
        let from = stream.clone();
        std::thread::Builder::new().name("lane-replies".into()).spawn(move || {
            while let Some(reply) = Reply::receive(&mut &*from).transpose() {
                let last = reply.is_err();
                if sender.send(reply).is_err() || last {
                    break;
                }
            }
        })?;
        Ok(Self { stream, replies })
    }

    /// The next reply; where none comes, the process is ended.
    fn receive(&self, process: &mut LaneProcess, deadline: Duration) -> Result<Reply, String> {
        match self.replies.recv_timeout(deadline) {
            Ok(Ok(reply)) => Ok(reply),
            // A crash cuts a frame or resets the connection: how the process ended says more.
            Ok(Err(FrameError::Io(_) | FrameError::Cut)) | Err(RecvTimeoutError::Disconnected) => {
                Err(process.end(GRACE))
            }
            Ok(Err(error)) => Err(format!("{error}; {}", process.end(Duration::ZERO))),
            Err(RecvTimeoutError::Timeout) => Err(hung(process, deadline)),
        }
    }
}

impl Decoder for ChildDecoder {
    fn context_limit(&self) -> usize {
        self.ready.limits.context
    }

    fn prefill_chunk(&self) -> usize {
        self.ready.prefill_chunk
    }

    fn position(&self) -> usize {
        self.position
    }

    fn rewind(&mut self, position: usize) {
        self.position = self.position.min(position);
    }

    /// Errors of the process are for good: each later call returns the same one.
    fn forward(&mut self, tokens: &[u32]) -> Result<(), DecodeError> {
        if let Some(reason) = &self.dead {
            return Err(DecodeError::Lane(reason.clone()));
        }
        self.ready.limits.check(tokens, self.position)?;
        let start = self.position;
        // A pass each, so that the deadline is one pass's.
        for tokens in tokens.chunks(self.ready.prefill_chunk.max(1)) {
            match self.pass(tokens) {
                Ok(logits) => self.logits = logits,
                Err(reason) => {
                    self.position = start;
                    self.dead = Some(reason.clone());
                    self.process.end(Duration::ZERO);
                    return Err(DecodeError::Lane(reason));
                }
            }
            self.position += tokens.len();
        }
        Ok(())
    }

    fn logits(&self) -> &[f32] {
        &self.logits
    }
}

impl Drop for ChildDecoder {
    fn drop(&mut self) {
        if self.dead.is_none() && Request::Close.send(&mut &*self.connection.stream).is_ok() {
            self.process.end(GRACE);
        }
    }
}
