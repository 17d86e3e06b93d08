//! Reads a recording. Any bytes give a recording or an error that says which line is wrong.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use super::{FORMAT, Header, LARGEST, Line, RecordingError, Timed, VERSION};

/// No run is longer; a number beyond it is nonsense.
const LONGEST_MS: f64 = 365.0 * 86_400e3;

#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    pub header: Header,
    /// Without the end, and without lines of a later version.
    pub lines: Vec<Timed>,
}

/// Whether a file that was cut off is good enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completeness {
    Whole,
    /// As far as it goes.
    Partial,
}

impl Recording {
    /// How long it is.
    pub fn length(&self) -> Duration {
        self.lines.last().map_or(Duration::ZERO, |timed| timed.at_ms.into())
    }
}

pub fn read(path: &Path, completeness: Completeness) -> Result<Recording, RecordingError> {
    let unreadable = |error| RecordingError::Read { path: path.to_owned(), error };
    let file = File::open(path).map_err(unreadable)?;
    match file.metadata().map_err(unreadable)?.len() {
        0..=LARGEST => read_from(file, path, completeness),
        _ => Err(RecordingError::TooLarge(path.to_owned())),
    }
}

/// Reads to the end of what may have none, as devices do; `path` is for errors.
pub fn read_from(source: impl Read, path: &Path, completeness: Completeness) -> Result<Recording, RecordingError> {
    let mut text = Vec::new();
    let read = source.take(LARGEST + 1).read_to_end(&mut text);
    read.map_err(|error| RecordingError::Read { path: path.to_owned(), error })?;
    match text.len() as u64 {
        0..=LARGEST => parse(&text, path, completeness),
        _ => Err(RecordingError::TooLarge(path.to_owned())),
    }
}

/// `path` is for errors.
pub fn parse(text: &[u8], path: &Path, completeness: Completeness) -> Result<Recording, RecordingError> {
    let mut rows = text.split(|byte| *byte == b'\n').enumerate().filter(|(_, row)| !row.trim_ascii().is_empty());
    let header = rows.next().and_then(|(_, row)| serde_json::from_slice::<Header>(row).ok());
    let header = header.filter(|header| header.format == FORMAT).ok_or_else(|| RecordingError::Foreign(path.into()))?;
    if header.v > VERSION {
        return Err(RecordingError::Newer { path: path.into(), version: header.v });
    }
    let (mut lines, mut last, mut ended) = (Vec::new(), 0.0, false);
    let wrong = |index: usize, problem: String| RecordingError::Line { path: path.into(), number: index + 1, problem };
    let is_terminated = text.ends_with(b"\n");
    let count = text.split(|byte| *byte == b'\n').count();
    for (index, row) in rows {
        let timed: Timed = match serde_json::from_slice(row) {
            Ok(timed) => timed,
            // The last line of a file that was cut off in its middle.
            Err(_) if index + 1 == count && !is_terminated => break,
            Err(error) => return Err(wrong(index, error.to_string())),
        };
        let at = timed.at_ms.0;
        if !(0.0..=LONGEST_MS).contains(&at) {
            return Err(wrong(index, format!("at_ms is '{at}'; expected milliseconds since the beginning")));
        }
        if at < last {
            return Err(wrong(index, format!("at_ms is '{at}', and the line before it came at {last}")));
        }
        last = at;
        match timed.line {
            Line::End => {
                ended = true;
                break;
            }
            Line::Unknown => {}
            _ => lines.push(timed),
        }
    }
    if lines.is_empty() {
        return Err(RecordingError::Empty(path.into()));
    }
    if !ended && completeness == Completeness::Whole {
        let lines = text.split(|byte| *byte == b'\n').filter(|row| !row.trim_ascii().is_empty()).count();
        return Err(RecordingError::Cut { path: path.into(), lines, seconds: last / 1e3 });
    }
    Ok(Recording { header, lines })
}
