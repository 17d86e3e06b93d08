//! Writes a recording on a thread of its own, so that a slow disk does not hold up the screen. Each line is handed to the
//! system when nothing else waits, so a kill loses a moment.

use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use super::{Header, Line, RecordingError, Timed};

pub struct Recorder {
    began: Instant,
    /// Of the last line: none may be earlier.
    last: Cell<Instant>,
    sender: Option<Sender<Timed>>,
    thread: Option<JoinHandle<()>>,
    failure: Arc<Mutex<Option<RecordingError>>>,
}

impl Recorder {
    /// Whether a file of this name can be begun later.
    pub fn check(path: &Path) -> Result<(), RecordingError> {
        if path.exists() { Err(RecordingError::Exists(path.to_owned())) } else { Ok(()) }
    }

    /// Begins a file that must not be there, readable by its owner alone.
    pub fn create(path: &Path, header: &Header) -> Result<Self, RecordingError> {
        let failed = |error: std::io::Error| match error.kind() {
            ErrorKind::AlreadyExists => RecordingError::Exists(path.to_owned()),
            _ => RecordingError::Write { path: path.to_owned(), error },
        };
        let file = private(path).map_err(failed)?;
        let mut file = BufWriter::new(file);
        write_line(&mut file, header).and_then(|()| file.flush()).map_err(failed)?;
        let (sender, lines) = channel();
        let failure = Arc::new(Mutex::new(None));
        let thread = std::thread::Builder::new().name("recording".into()).spawn({
            let (failure, path) = (failure.clone(), path.to_owned());
            move || keep(file, &lines, path, &failure)
        });
        let began = Instant::now();
        let last = Cell::new(began);
        Ok(Self { began, last, sender: Some(sender), thread: Some(thread.map_err(failed)?), failure })
    }

    /// What happened at that time.
    pub fn note(&self, at: Instant, line: Line) {
        let at = at.max(self.last.get());
        self.last.set(at);
        let at_ms = at.saturating_duration_since(self.began).into();
        if let Some(sender) = &self.sender {
            // A thread that is gone has left its failure.
            let _ = sender.send(Timed { at_ms, line });
        }
    }

    /// What went wrong, the first time that it is asked for.
    pub fn failure(&self) -> Option<RecordingError> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Ends the file.
    pub fn finish(mut self) -> Option<RecordingError> {
        self.close();
        self.failure()
    }

    fn close(&mut self) {
        if self.sender.is_some() {
            self.note(Instant::now(), Line::End);
        }
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.close();
    }
}

fn private(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn keep(mut file: BufWriter<File>, lines: &Receiver<Timed>, path: PathBuf, failure: &Mutex<Option<RecordingError>>) {
    let result = (|| {
        while let Ok(first) = lines.recv() {
            write_line(&mut file, &first)?;
            while let Ok(line) = lines.try_recv() {
                write_line(&mut file, &line)?;
            }
            file.flush()?;
        }
        Ok(())
    })();
    if let Err(error) = result {
        *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(RecordingError::Write { path, error });
    }
}

fn write_line(file: &mut impl Write, line: &impl serde::Serialize) -> std::io::Result<()> {
    serde_json::to_writer(&mut *file, line)?;
    file.write_all(b"\n")
}
