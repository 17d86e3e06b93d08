//! The reader's own editor, for what is typed.
//!
//! It runs in the foreground, on the terminal that was lent to it. The text goes there and back in a file of its own,
//! which nobody else may read.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::input::Pause;
use super::platform;
use super::terminal::Screen;

#[derive(Debug, thiserror::Error)]
pub enum EditorError {
    #[error("the editor '{command}' cannot be started: {error}; VISUAL or EDITOR names another")]
    Start { command: String, error: io::Error },
    #[error("the editor '{command}' ended with {status}; nothing was changed")]
    Failed { command: String, status: String },
    #[error("the text for the editor cannot be kept in '{}': {error}", path.display())]
    File { path: PathBuf, error: io::Error },
}

/// The command line that edits a file, by VISUAL, EDITOR, or what the system has.
pub fn command(variable: impl Fn(&str) -> Option<String>) -> String {
    let usual = if cfg!(windows) { "notepad" } else { "vi" };
    ["VISUAL", "EDITOR"]
        .into_iter()
        .find_map(|name| variable(name).filter(|value| !value.trim().is_empty()))
        .unwrap_or_else(|| usual.to_owned())
}

/// Lends the reader's editor the terminal, which nobody else reads meanwhile, and returns what was left there.
pub fn edit_on(screen: &mut Screen, pause: &Pause, text: &str) -> Result<String, String> {
    let command = command(|name| std::env::var(name).ok());
    let mut edited = None;
    let mut run = || {
        edited = Some(edit(&command, text));
        Ok(())
    };
    let lent = pause.during(|| platform::lend(|| screen.lend(&mut run))).and_then(|lent| lent);
    match (edited, lent) {
        (Some(edited), Ok(())) => edited.map_err(|error| error.to_string()),
        (_, Err(error)) => Err(format!("the terminal cannot be lent to an editor: {error}")),
        (None, Ok(())) => Err("the editor was not started".to_owned()),
    }
}

/// Has a person edit `text`, and returns what they left.
pub fn edit(command: &str, text: &str) -> Result<String, EditorError> {
    let file = Draft::new(text)?;
    let status = run(command, &file.0).map_err(|error| EditorError::Start { command: command.to_owned(), error })?;
    if !status.success() {
        return Err(EditorError::Failed { command: command.to_owned(), status: status.to_string() });
    }
    let edited = std::fs::read(&file.0).map_err(|error| EditorError::File { path: file.0.clone(), error })?;
    let edited = String::from_utf8_lossy(&edited).into_owned();
    // Editors end a text with a line feed, whether it had one or not.
    Ok(match edited.strip_suffix('\n') {
        Some(rest) if !text.ends_with('\n') => rest.trim_end_matches('\r').to_owned(),
        _ => edited,
    })
}

/// The variables hold a command for the shell, as Git and others read them.
#[cfg(unix)]
fn run(command: &str, file: &Path) -> io::Result<std::process::ExitStatus> {
    Command::new("sh").arg("-c").arg(format!("{command} \"$@\"")).arg(command).arg(file).status()
}

#[cfg(not(unix))]
fn run(command: &str, file: &Path) -> io::Result<std::process::ExitStatus> {
    // A path with spaces stands in quotation marks.
    let (program, arguments) = match command.trim().strip_prefix('"').and_then(|rest| rest.split_once('"')) {
        Some((program, arguments)) => (program, arguments),
        None => command.trim().split_once(' ').unwrap_or((command.trim(), "")),
    };
    Command::new(program).args(arguments.split_whitespace()).arg(file).status()
}

/// A file that goes when it is not needed any more.
struct Draft(PathBuf);

impl Draft {
    fn new(text: &str) -> Result<Self, EditorError> {
        let nanoseconds = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.subsec_nanos());
        let name = format!("ortalk-{}-{nanoseconds}.md", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut options = File::options();
        // New: nobody can have put a link in its place.
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let failed = |error| EditorError::File { path: path.clone(), error };
        let mut file = options.open(&path).map_err(failed)?;
        let draft = Self(path.clone());
        file.write_all(text.as_bytes()).map_err(failed)?;
        Ok(draft)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visual_comes_before_editor_and_nothing_is_nothing() {
        let of = |pairs: &'static [(&str, &str)]| {
            command(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
        };
        assert_eq!(of(&[("EDITOR", "ed"), ("VISUAL", "code --wait")]), "code --wait");
        assert_eq!(of(&[("EDITOR", "ed"), ("VISUAL", " ")]), "ed");
        assert_eq!(of(&[]), if cfg!(windows) { "notepad" } else { "vi" });
    }

    #[cfg(unix)]
    #[test]
    fn the_text_goes_there_and_back() {
        assert_eq!(edit("sed -i -e s/one/two/", "one three").unwrap(), "two three");
        assert_eq!(edit("true", "as it was\n").unwrap(), "as it was\n");
        // What is appended behind a text without a line feed ends in one.
        assert_eq!(edit("f() { echo more >> \"$1\"; }; f", "one\n").unwrap(), "one\nmore\n");
        let private = "f() { test \"$(stat -c %a \"$1\")\" = 600; }; f";
        assert_eq!(edit(private, "mine").unwrap(), "mine");
    }

    #[cfg(unix)]
    #[test]
    fn an_editor_that_fails_says_so() {
        let error = edit("exit 3;", "one").unwrap_err().to_string();
        assert!(error.contains("'exit 3;' ended with exit status: 3; nothing was changed"), "{error}");
        let error = edit("/no/such/editor", "one").unwrap_err().to_string();
        assert!(error.contains("/no/such/editor"), "{error}");
    }
}
