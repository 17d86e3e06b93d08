//! The process of a lane, seen from ortalk: started, listened to, ended.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, PipeReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::onnx_runtime::LogSink;
use crate::provision::own_group;

/// Of what the process printed, so many lines are kept for an error's text.
const LINES: usize = 8;
/// Characters of a line that is kept.
const LINE_LENGTH: usize = 300;

/// The numbers of the processes that run now.
static RUNNING: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// The numbers of the processes that lanes run in now: their memory and load are ortalk's, too.
pub fn lane_processes() -> Vec<u32> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

pub struct LaneProcess {
    child: Child,
    /// Open as long as somebody waits for the process: when it closes, the process ends.
    input: Option<ChildStdin>,
    printed: Printed,
    reader: JoinHandle<()>,
}

/// The last lines that the process printed.
#[derive(Clone, Default)]
struct Printed(Arc<Mutex<VecDeque<String>>>);

impl LaneProcess {
    /// Starts `executable worker lane`, with a variable more in its environment where one is given, and writes the line to its
    /// standard input. What it prints goes to `log`.
    pub fn start(
        executable: &Path,
        line: &str,
        environment: Option<(&str, OsString)>,
        log: LogSink,
    ) -> io::Result<Self> {
        let (output, writer) = io::pipe()?;
        let mut command = Command::new(executable);
        command
            .args(["worker", "lane"])
            .envs(environment)
            .stdin(Stdio::piped())
            .stdout(writer.try_clone()?)
            .stderr(writer);
        // Ctrl-C is ortalk's to handle: the lane still has to say that it ends.
        own_group(&mut command);
        let mut child = command.spawn()?;
        RUNNING.lock().unwrap_or_else(PoisonError::into_inner).push(child.id());
        // It holds the pipe's other end, of which only the child's must be left.
        drop(command);
        let printed = Printed::default();
        let reader = {
            let printed = printed.clone();
            std::thread::Builder::new().name("lane-log".into()).spawn(move || printed.read(output, &log))?
        };
        let mut input = child.stdin.take();
        if let Some(input) = &mut input {
            // A process that ended at once does not read; its status says more than a broken pipe.
            let _ = writeln!(input, "{line}");
        }
        Ok(Self { child, input, printed, reader })
    }

    /// The number of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it ended by itself.
    pub fn ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Waits for its end, at most so long, then ends it. Says how it ended and what it printed last.
    pub fn end(&mut self, grace: Duration) -> String {
        let status = self.wait(grace);
        self.input = None;
        // What it printed last may still be in the pipe.
        let start = Instant::now();
        while !self.reader.is_finished() && start.elapsed() < Duration::from_millis(500) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let status = match status {
            Ok(Some(status)) => format!("its process ended with {status}"),
            Ok(None) => "its process was ended".to_owned(),
            Err(error) => format!("its process cannot be waited for: {error}"),
        };
        format!("{status}{}", self.last_words())
    }

    /// The last lines that it printed, for the end of an error's text.
    pub fn last_words(&self) -> String {
        let lines = self.printed.lock();
        let mut text = String::new();
        if !lines.is_empty() {
            text.push_str("; it printed last:");
            lines.iter().for_each(|line| text.extend(["\n  ", line]));
        }
        text
    }

    /// `None` where it did not end by itself within `grace`.
    fn wait(&mut self, grace: Duration) -> io::Result<Option<ExitStatus>> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            if start.elapsed() >= grace {
                self.child.kill()?;
                self.child.wait()?;
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for LaneProcess {
    fn drop(&mut self) {
        let _ = self.wait(Duration::ZERO);
        RUNNING.lock().unwrap_or_else(PoisonError::into_inner).retain(|running| *running != self.child.id());
    }
}

impl Printed {
    fn read(&self, output: PipeReader, log: &LogSink) {
        let mut output = BufReader::new(output);
        let mut bytes = Vec::new();
        while output.read_until(b'\n', &mut bytes).is_ok_and(|read| read > 0) {
            let line = String::from_utf8_lossy(&bytes);
            let line: String = line.trim_end().chars().filter(|c| !c.is_control()).collect();
            bytes.clear();
            if line.is_empty() {
                continue;
            }
            log(&format!("npu lane: {line}"));
            let mut lines = self.lock();
            if lines.len() == LINES {
                lines.pop_front();
            }
            lines.push_back(line.chars().take(LINE_LENGTH).collect());
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
