//! Finds the user's Python and runs it with nothing of ours or of the current folder in its way.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use super::{Fault, platform};

/// A command that may start Python.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    program: &'static str,
    arguments: &'static [&'static str],
}

/// Tried in this order.
pub const CANDIDATES: [Candidate; 3] = [
    Candidate { program: "python3", arguments: &[] },
    Candidate { program: "python", arguments: &[] },
    Candidate { program: "py", arguments: &["-3"] },
];

impl std::fmt::Display for Candidate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.program)?;
        self.arguments.iter().try_for_each(|argument| write!(f, " {argument}"))
    }
}

/// How a run of Python ended, and all that it printed.
#[derive(Debug)]
pub struct Finished {
    pub status: ExitStatus,
    pub output: String,
}

impl Candidate {
    /// Runs Python in `folder`, which must be ours and is also its place for temporary files; `log` takes what it prints.
    /// `tick` is called ten times a second, and its error ends Python. `None` when there is no such Python.
    pub fn run(
        &self,
        arguments: &[&str],
        folder: &Path,
        log: &Path,
        tick: &mut dyn FnMut() -> Result<(), Fault>,
    ) -> Result<Option<Finished>, Fault> {
        let temporary = folder.join("tmp");
        fs::create_dir_all(&temporary).map_err(|source| Fault::io("creating", &temporary, source))?;
        let failed = |source| Fault::io("writing", log, source);
        let output = File::create(log).map_err(failed)?;
        let mut command = Command::new(self.program);
        command
            .args(self.arguments)
            .args(arguments)
            // `-m` and `-c` look for modules in the current folder first: there must be nothing in it that could be run.
            .current_dir(folder)
            .env("TMPDIR", &temporary)
            .env("TEMP", &temporary)
            .env("TMP", &temporary)
            .env("PYTHONUNBUFFERED", "1")
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(output.try_clone().map_err(failed)?)
            .stderr(output);
        platform::own_group(&mut command);
        let mut child = match command.spawn() {
            Ok(child) => Running(child),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {
                return Ok(None);
            }
            Err(source) => return Err(Fault::Io { action: "starting", path: self.program.into(), source }),
        };
        let status = loop {
            if let Some(status) = child.0.try_wait().map_err(failed)? {
                break status;
            }
            tick()?;
            std::thread::sleep(Duration::from_millis(100));
        };
        let output = fs::read(log).map_err(|source| Fault::io("reading", log, source))?;
        let output = String::from_utf8_lossy(&output).into_owned();
        if is_stand_in(status.code(), &output) { Ok(None) } else { Ok(Some(Finished { status, output })) }
    }
}

/// Commands that exist only to say that there is no Python: the Windows Store's alias, and version managers' shims.
fn is_stand_in(code: Option<i32>, output: &str) -> bool {
    matches!(code, Some(127 | 9009)) || (code != Some(0) && output.contains("Python was not found"))
}

/// Ends the child when it is dropped before it has ended by itself.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        if !matches!(self.0.try_wait(), Ok(Some(_))) {
            platform::end_child(&mut self.0);
            let _ = self.0.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_only_say_there_is_no_python() {
        assert!(is_stand_in(Some(127), "pyenv: python3: command not found"));
        assert!(is_stand_in(Some(9009), "Python was not found; run without arguments to install from the Store"));
        assert!(!is_stand_in(Some(1), "/usr/bin/python3: No module named pip"));
        assert!(!is_stand_in(Some(0), "Python was not found"));
    }

    #[test]
    fn candidates_are_shown_as_they_are_typed() {
        assert_eq!(CANDIDATES.map(|candidate| candidate.to_string()), ["python3", "python", "py -3"]);
    }
}
