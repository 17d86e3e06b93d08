//! What the server prints about its work: one line for each request and each answer, with numbers and names of its own
//! alone. No text of a conversation, no path, no key.
//!
//! Lines are written on a thread of their own, so that a reader who does not read stops no answer; what does not fit is
//! dropped and counted.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use chrono::{SecondsFormat, Utc};

use crate::engine::{Finished, LaneId};

/// Lines that may wait.
const WAITING: usize = 256;

/// Cheap to clone; silent by default.
#[derive(Clone, Default)]
pub struct Log {
    lines: Option<SyncSender<String>>,
    dropped: Arc<AtomicU64>,
}

impl Log {
    /// Writes to standard error.
    pub fn to_stderr() -> std::io::Result<Self> {
        let (lines, written) = sync_channel::<String>(WAITING);
        let dropped = Arc::<AtomicU64>::default();
        let counted = dropped.clone();
        std::thread::Builder::new().name("log".into()).spawn(move || {
            for line in written {
                let lost = counted.swap(0, Ordering::Relaxed);
                let lost = if lost > 0 { format!(" ({lost} lines before it were dropped)") } else { String::new() };
                let _ = writeln!(std::io::stderr(), "{line}{lost}");
            }
        })?;
        Ok(Self { lines: Some(lines), dropped })
    }

    pub fn request(&self, method: &str, endpoint: &str, status: u16, took: Duration) {
        self.line(|| format!("{method} {endpoint} {status} {:.3} s", took.as_secs_f64()));
    }

    /// `lane` is where it ended; `None` where it never began.
    pub fn answer(&self, lane: Option<LaneId>, finished: &Finished, took: Duration) {
        let usage = finished.usage;
        let lane = lane.map(|lane| format!(" on {lane}")).unwrap_or_default();
        self.line(|| {
            format!(
                "answer {}{lane}: {} prompt tokens ({} cached), {} tokens, {:.3} s",
                finished.reason.name(),
                usage.prompt_tokens,
                usage.reused_tokens,
                usage.completion_tokens,
                took.as_secs_f64()
            )
        });
    }

    fn line(&self, text: impl FnOnce() -> String) {
        let Some(lines) = &self.lines else { return };
        let now = Utc::now().to_rfc3339_opts(SecondsFormat::Millis, true);
        if lines.try_send(format!("{now} {}", text())).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}
