//! The log file: what native libraries and ortalk itself report while nobody should see it on the screen.
//!
//! Several handles may be open at once, those of the redirected standard output and error among them. All of them append,
//! and an old log is emptied, never replaced, so none goes on writing into a file that has no name any more.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use chrono::{SecondsFormat, Utc};

/// A log that has grown past this is begun anew, in bytes.
const LONGEST: u64 = 4 << 20;

/// Opens the log for appending; makes its folder.
pub fn open(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let file = File::options().create(true).append(true).open(path)?;
    if file.metadata()?.len() > LONGEST {
        // Not every system lets a handle that only appends do that.
        File::options().write(true).truncate(true).open(path)?;
    }
    Ok(file)
}

/// Says once in a process's life that it began: what stands above is from another.
pub fn begin(mut log: &File) -> io::Result<()> {
    static BEGUN: AtomicBool = AtomicBool::new(false);
    if BEGUN.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    let now = Utc::now().to_rfc3339_opts(SecondsFormat::Secs, true);
    writeln!(log, "---- ortalk {}, process {}, {now} ----", env!("CARGO_PKG_VERSION"), std::process::id())
}

/// The end of a log: whole lines, at most `bytes` of them. A log that is not there is empty.
pub fn tail(path: &Path, bytes: u64) -> io::Result<String> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        Err(error) => return Err(error),
    };
    let start = file.metadata()?.len().saturating_sub(bytes);
    file.seek(SeekFrom::Start(start))?;
    let mut text = Vec::new();
    file.take(bytes).read_to_end(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    Ok(match text.split_once('\n') {
        Some((_, whole)) if start > 0 => whole.to_owned(),
        _ => text.into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_long_log_is_emptied_and_all_handles_stay_good() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log/ortalk.log");
        let mut first = open(&path).unwrap();
        first.write_all(&vec![b'x'; LONGEST as usize]).unwrap();
        first.write_all(b"y").unwrap();
        let mut second = open(&path).unwrap();
        first.write_all(b"one ").unwrap();
        second.write_all(b"two").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one two");
    }

    #[test]
    fn the_end_of_a_log_begins_with_a_whole_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ortalk.log");
        assert_eq!(tail(&path, 10).unwrap(), "");
        std::fs::write(&path, "first\nsecond\nthird\n").unwrap();
        assert_eq!(tail(&path, 100).unwrap(), "first\nsecond\nthird\n");
        assert_eq!(tail(&path, 10).unwrap(), "third\n");
        assert!(tail(dir.path(), 10).is_err());
    }
}
