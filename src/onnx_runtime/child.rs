//! One task in a child process: what crashes, hangs or fills the memory there is an error here, not the end of the program.
//!
//! The child is the `ortalk` executable as `ortalk worker TASK`. It gets the request as one line of JSON on standard input,
//! which stays open as long as the parent waits: when it closes, the child ends. Native libraries print what they like, so
//! the outcome is a line that starts with a mark.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, PipeReader, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Why there is no outcome.
#[derive(Debug, thiserror::Error)]
pub enum ChildError {
    /// The task itself says so.
    #[error("{0}")]
    Failed(String),
    #[error("the child process ended with {status}{}", last_words(last))]
    Died { status: String, last: String },
    #[error("it took longer than {} s and was stopped{}", limit.as_secs(), last_words(last))]
    TooLong { limit: Duration, last: String },
    #[error("stopped")]
    Stopped,
    #[error("'{}' could not be started: {error}", executable.display())]
    Start { executable: PathBuf, error: io::Error },
}

fn last_words(last: &str) -> String {
    if last.is_empty() { String::new() } else { format!("; its last words were:\n{last}") }
}

/// Begins the line with the outcome.
const MARK: &str = "ortalk-outcome: ";

/// Has `ortalk worker TASK` do something, with a variable more in its environment where one is given. `report` is called several times a second with the time since the start; `Break`
/// ends the child.
pub fn ask<Outcome: DeserializeOwned>(
    executable: &Path,
    task: &str,
    request: &impl Serialize,
    environment: Option<(&str, OsString)>,
    limit: Duration,
    report: &mut dyn FnMut(Duration) -> ControlFlow<()>,
) -> Result<Outcome, ChildError> {
    let failed = |error| ChildError::Start { executable: executable.into(), error };
    let request = serde_json::to_string(request).map_err(|error| failed(error.into()))?;
    let (output, writer) = io::pipe().map_err(failed)?;
    let mut command = Command::new(executable);
    command
        .args(["worker", task])
        .envs(environment)
        .stdin(Stdio::piped())
        .stdout(writer.try_clone().map_err(failed)?)
        .stderr(writer);
    let mut child = Running(command.spawn().map_err(failed)?);
    // The command holds the writing ends; only when all are closed does the reader come to an end.
    drop(command);
    let reader = std::thread::spawn(move || Heard::read(output));
    // Held until the child has ended. One that ends at once does not read; its status says more than a broken pipe.
    let mut input = child.0.stdin.take();
    if let Some(input) = &mut input {
        let _ = writeln!(input, "{request}");
    }
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.0.try_wait().map_err(failed)? {
            break status;
        }
        if report(start.elapsed()).is_break() {
            return Err(ChildError::Stopped);
        }
        if start.elapsed() > limit {
            drop(child);
            return Err(ChildError::TooLong { limit, last: heard(reader).last_lines() });
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let heard = heard(reader);
    // The outcome counts, not the status: Qualcomm's libraries have been seen to crash when a process ends well.
    match heard.outcome.as_deref().and_then(|text| serde_json::from_str(text).ok()) {
        Some(Ok(outcome)) => Ok(outcome),
        Some(Err(reason)) => Err(ChildError::Failed(reason)),
        None => Err(ChildError::Died { status: status.to_string(), last: heard.last_lines() }),
    }
}

/// The child's side: does the work that the line asks for, and prints the outcome.
pub fn answer<Request: DeserializeOwned, Outcome: Serialize>(
    request: &str,
    work: impl FnOnce(Request) -> Result<Outcome, String>,
) -> io::Result<()> {
    let outcome = work(serde_json::from_str(request)?);
    let text = serde_json::to_string(&outcome)?;
    let mut output = io::stdout().lock();
    // What was printed before may not have ended its line.
    writeln!(output, "\n{MARK}{text}")?;
    output.flush()
}

fn heard(reader: JoinHandle<Heard>) -> Heard {
    reader.join().unwrap_or_default()
}

/// What a child printed, as far as it matters.
#[derive(Debug, Default)]
struct Heard {
    outcome: Option<String>,
    last: VecDeque<String>,
}

impl Heard {
    const MOST_LINES: usize = 8;
    const LONGEST: usize = 300;

    fn read(output: PipeReader) -> Self {
        let mut heard = Self::default();
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            heard.line(&String::from_utf8_lossy(&line));
        }
        heard
    }

    fn line(&mut self, line: &str) {
        if let Some(outcome) = line.strip_prefix(MARK) {
            self.outcome = Some(outcome.to_owned());
            return;
        }
        // Without control characters, which would reach the terminal.
        let clean: String = line.trim_end().chars().filter(|c| !c.is_control()).take(Self::LONGEST).collect();
        if !clean.is_empty() {
            self.last.push_back(clean);
            if self.last.len() > Self::MOST_LINES {
                self.last.pop_front();
            }
        }
    }

    fn last_lines(&self) -> String {
        self.last.iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
    }
}

/// Ends the child when it is dropped before it has ended by itself.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        if !matches!(self.0.try_wait(), Ok(Some(_))) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outcome_is_found_among_noise_and_the_last_words_are_kept() {
        let mut heard = Heard::default();
        for number in 0..20 {
            heard.line(&format!("\u{1b}[31mline {number}\r"));
        }
        heard.line("");
        heard.line("ortalk-outcome: {\"Ok\":1}");
        heard.line("# LIBNATIVE: bye");
        assert_eq!(heard.outcome.as_deref(), Some("{\"Ok\":1}"));
        let last = heard.last_lines();
        assert!(last.starts_with("  [31mline 13\n") && last.ends_with("line 19\n  # LIBNATIVE: bye"), "{last}");
        heard.line(&"x".repeat(1000));
        assert!(heard.last_lines().ends_with(&format!("  {}", "x".repeat(300))));
    }

    /// A program of the system that takes any arguments, in place of ortalk.
    #[cfg(unix)]
    #[test]
    fn a_child_without_an_outcome_is_told_by_its_status() {
        let go_on = &mut |_: Duration| ControlFlow::Continue(());
        let asked = ask::<u32>(Path::new("false"), "x", &1, None, Duration::from_secs(20), go_on).unwrap_err();
        assert_eq!(asked.to_string(), "the child process ended with exit status: 1");
        let echoed = ask::<u32>(Path::new("echo"), "hello", &1, None, Duration::from_secs(20), go_on).unwrap_err();
        assert!(echoed.to_string().ends_with("exit status: 0; its last words were:\n  worker hello"), "{echoed}");
    }
}
