//! The ledger: a line of JSON for each answer, so that what was spent can be summed up across conversations.
//!
//! Only numbers and names are written, nothing that anybody said. Lines are appended, each in one write, so that two
//! processes' lines do not run into each other and a kill costs one line at the most; a line that a full disk or a kill cut
//! short is closed by the next one. What cannot be read is counted and left out.

mod entry;
mod prices;
mod totals;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

pub use entry::{Entry, EntryEnergy, VERSION};
pub use prices::{Prices, TokenPrices, money};
pub use totals::{Money, Total};

/// Longer than any line that is written here, in bytes.
const LONGEST_LINE: u64 = 64 << 10;

/// The file, which need not be there.
#[derive(Debug, Clone)]
pub struct Ledger {
    path: PathBuf,
}

/// What could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeftOut {
    /// Lines that are no entries.
    pub damaged: usize,
    /// Lines that a newer ortalk wrote.
    pub newer: usize,
}

#[derive(Debug, thiserror::Error)]
#[error("the ledger '{}' cannot be {what}: {error}", path.display())]
pub struct LedgerError {
    path: PathBuf,
    what: &'static str,
    error: io::Error,
}

impl Ledger {
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends one line; makes the folder and the file.
    pub fn append(&self, entry: &Entry) -> Result<(), LedgerError> {
        self.try_append(entry).map_err(|error| self.error("written", error))
    }

    fn try_append(&self, entry: &Entry) -> io::Result<()> {
        if let Some(folder) = self.path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let mut file = File::options().create(true).append(true).read(true).open(&self.path)?;
        let mut line = serde_json::to_string(entry)?;
        line.push('\n');
        if !ends_a_line(&mut file)? {
            line.insert(0, '\n');
        }
        file.write_all(line.as_bytes())
    }

    /// Hands over each entry, oldest first. A ledger that is not there has none.
    pub fn read(&self, mut each: impl FnMut(Entry)) -> Result<LeftOut, LedgerError> {
        let file = match File::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(LeftOut::default()),
            file => file.map_err(|error| self.error("read", error))?,
        };
        let (mut reader, mut line, mut left_out) = (BufReader::new(file), Vec::new(), LeftOut::default());
        loop {
            line.clear();
            let count = reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line);
            match count.map_err(|error| self.error("read", error))? {
                0 => return Ok(left_out),
                count if count as u64 == LONGEST_LINE && !line.ends_with(b"\n") => {
                    reader.skip_until(b'\n').map_err(|error| self.error("read", error))?;
                    left_out.damaged += 1;
                }
                _ if line.trim_ascii().is_empty() => {}
                _ => match Entry::parse(&line) {
                    Ok(entry) => each(entry),
                    Err(entry::Unreadable::Damaged) => left_out.damaged += 1,
                    Err(entry::Unreadable::Newer) => left_out.newer += 1,
                },
            }
        }
    }

    fn error(&self, what: &'static str, error: io::Error) -> LedgerError {
        LedgerError { path: self.path.clone(), what, error }
    }
}

/// Whether the next line can begin.
fn ends_a_line(file: &mut File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(true);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

#[cfg(test)]
mod tests {
    use super::entry::tests::entry;
    use super::*;

    fn ledger() -> (tempfile::TempDir, Ledger) {
        let dir = tempfile::tempdir().unwrap();
        let ledger = Ledger::new(dir.path().join("data/ledger.jsonl"));
        (dir, ledger)
    }

    fn entries(ledger: &Ledger) -> (Vec<Entry>, LeftOut) {
        let mut entries = Vec::new();
        let left_out = ledger.read(|entry| entries.push(entry)).unwrap();
        (entries, left_out)
    }

    #[test]
    fn what_was_written_is_read_in_its_order() {
        let (_dir, ledger) = ledger();
        assert_eq!(entries(&ledger), (vec![], LeftOut::default()));
        let (first, second) = (entry(), Entry { tokens_out: 7, ..entry() });
        ledger.append(&first).unwrap();
        ledger.append(&second).unwrap();
        assert_eq!(entries(&ledger), (vec![first, second], LeftOut::default()));
        assert_eq!(std::fs::read_to_string(ledger.path()).unwrap().lines().count(), 2);
    }

    /// A line that was cut in the middle, bytes that are no text, JSON that is no entry, an endless line, a newer version.
    #[test]
    fn damaged_lines_cost_themselves_and_no_others() {
        let (_dir, ledger) = ledger();
        ledger.append(&entry()).unwrap();
        let whole = std::fs::read(ledger.path()).unwrap();
        let mut bytes = whole.clone();
        bytes.extend(b"\n\n\xff\xfe\x00\n[]\n{\"v\":1}\n{\"v\":2,\"time\":\"then\"}\n");
        bytes.extend(vec![b'x'; 3 * LONGEST_LINE as usize]);
        bytes.push(b'\n');
        bytes.extend(&whole);
        bytes.extend(&whole[..40]);
        std::fs::write(ledger.path(), bytes).unwrap();
        assert_eq!(entries(&ledger), (vec![entry(); 2], LeftOut { damaged: 5, newer: 1 }));
        // The next line closes the one that was cut.
        ledger.append(&entry()).unwrap();
        assert_eq!(entries(&ledger), (vec![entry(); 3], LeftOut { damaged: 5, newer: 1 }));
    }

    #[test]
    fn writers_at_the_same_time_do_not_mix() {
        let (_dir, ledger) = ledger();
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let ledger = &ledger;
                scope.spawn(move || {
                    for index in 0..50 {
                        let entry = Entry { tokens_in: writer, tokens_out: index, ..entry() };
                        // A handle of its own, as another process has.
                        ledger.append(&entry).unwrap();
                    }
                });
            }
        });
        let (found, left_out) = entries(&ledger);
        assert_eq!((found.len(), left_out), (400, LeftOut::default()));
        for writer in 0..8 {
            let own = found.iter().filter(|entry| entry.tokens_in == writer).map(|entry| entry.tokens_out);
            assert!(own.eq(0..50), "{writer}");
        }
    }

    #[test]
    fn a_place_that_cannot_be_written_is_an_error_that_names_it() {
        let (dir, _) = ledger();
        let ledger = Ledger::new(dir.path().to_path_buf());
        let error = ledger.append(&entry()).unwrap_err().to_string();
        assert!(error.starts_with("the ledger '") && error.contains("cannot be written"), "{error}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_an_error() {
        let error = Ledger::new("/dev/full".into()).append(&entry()).unwrap_err().to_string();
        assert!(error.contains("cannot be written: No space left"), "{error}");
    }
}
