//! The file of messages sent in earlier sessions, which Up and the history search find again: a JSON string a line, the
//! oldest first, for its owner alone.
//!
//! A message is appended by one write, so several ortalks may do it. A file that has grown long is replaced by its newer
//! part when it is read.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};

/// A file that has grown past this, in bytes, loses the older part.
const LONGEST: usize = 2 << 20;
/// What is kept of it then.
const KEPT: usize = LONGEST / 2;

/// The messages, the oldest first. A file that is not there has none; lines that are none are left out.
pub fn read(path: &Path) -> io::Result<Vec<String>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut lines: Vec<Vec<u8>> = BufReader::new(file).split(b'\n').collect::<io::Result<_>>()?;
    let length: usize = lines.iter().map(|line| line.len() + 1).sum();
    if length > LONGEST {
        let mut kept = 0;
        let newer = lines.iter().rposition(|line| {
            kept += line.len() + 1;
            kept > KEPT
        });
        lines.drain(..newer.map_or(0, |at| at + 1));
        replace(path, &lines)?;
    }
    Ok(lines.iter().filter_map(|line| serde_json::from_slice(line).ok()).collect())
}

fn replace(path: &Path, lines: &[Vec<u8>]) -> io::Result<()> {
    let beside = path.with_extension(format!("new-{}", std::process::id()));
    let mut text = lines.join(&b'\n');
    text.push(b'\n');
    let mut file = private().create(true).write(true).truncate(true).open(&beside)?;
    file.write_all(&text)?;
    std::fs::rename(&beside, path)
}

fn append(path: &Path, message: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut line = serde_json::to_string(message)?;
    line.push('\n');
    private().create(true).append(true).open(path)?.write_all(line.as_bytes())
}

/// A file that is made is for its owner alone; Windows' folders of a user are already.
fn private() -> std::fs::OpenOptions {
    #[allow(unused_mut)] // where there are no modes
    let mut options = File::options();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Appends on a thread of its own.
#[derive(Debug)]
pub struct HistoryFile(Sender<String>);

impl HistoryFile {
    /// Reads what is there, tells `loaded` of it, and then appends what `remember` is given; `failed` hears once of a
    /// file that cannot be used.
    pub fn open(
        path: PathBuf,
        loaded: impl FnOnce(Vec<String>) + Send + 'static,
        failed: impl FnOnce(String) + Send + 'static,
    ) -> io::Result<Self> {
        let (sender, messages) = channel::<String>();
        std::thread::Builder::new().name("history".into()).spawn(move || {
            let mut failed = Some(failed);
            let mut complain = |error: io::Error| {
                if let Some(failed) = failed.take() {
                    failed(format!("the history '{}' is not kept: {error}", path.display()));
                }
            };
            match read(&path) {
                Ok(earlier) => loaded(earlier),
                Err(error) => complain(error),
            }
            for message in messages {
                if let Err(error) = append(&path, &message) {
                    complain(error);
                }
            }
        })?;
        Ok(Self(sender))
    }

    pub fn remember(&self, message: String) {
        let _ = self.0.send(message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_appended_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data/history.jsonl");
        assert_eq!(read(&path).unwrap(), [""; 0]);
        append(&path, "one\n\"two\" \u{2028}").unwrap();
        // Torn by a kill, and foreign.
        std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{}\n\xff\n\"torn").unwrap();
        std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"\n").unwrap();
        append(&path, "three").unwrap();
        assert_eq!(read(&path).unwrap(), ["one\n\"two\" \u{2028}", "three"]);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn a_long_file_loses_its_older_part() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.jsonl");
        let message = |number: usize| format!("{number:04} {}", "x".repeat(10_000));
        let count = LONGEST / 10_000 + 10;
        (0..count).for_each(|number| append(&path, &message(number)).unwrap());
        let kept = read(&path).unwrap();
        assert!(kept.len() < count && kept.len() > KEPT / 10_100, "{}", kept.len());
        assert_eq!(kept.last(), Some(&message(count - 1)));
        assert!(std::fs::metadata(&path).unwrap().len() as usize <= KEPT);
        assert_eq!(read(&path).unwrap(), kept);
    }
}
