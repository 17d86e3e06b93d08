//! The lanes as a chat would open them, with all that was logged meanwhile; in a child process, as opening may end it.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::answer_json;
use super::super::faults;
use super::super::fetch::AfterFetch;
use super::super::session;
use crate::cli::{ChatArgs, ReportArgs};
use crate::onnx_runtime::{LogSink, answer_parent, ask_child};

/// Opening a large model from a slow disk takes a while.
const LIMIT: Duration = Duration::from_secs(180);
/// Lines that a report may have of what was logged.
const MOST_LINES: usize = 60;

/// What the child is to open.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Request {
    model: Option<PathBuf>,
    emulate_npu: bool,
    npu_model: Option<PathBuf>,
}

impl Request {
    fn chat_args(self) -> ChatArgs {
        let Self { model, emulate_npu, npu_model } = self;
        ChatArgs { model, emulate_npu, npu_model, ..ChatArgs::default() }
    }
}

/// Opens what a chat with these arguments would, or says why not.
pub fn open(executable: &Path, args: &ReportArgs) -> Result<Value, String> {
    let ReportArgs { model, emulate_npu, npu_model, json: _ } = args.clone();
    let request = Request { model, emulate_npu, npu_model };
    let wait = &mut |_: Duration| ControlFlow::Continue(());
    ask_child(executable, "open", &request, None, LIMIT, wait)
        .map_err(|error| faults::without_quotations(&error.to_string()))
}

/// The child's side.
pub fn serve_open(request: &str) -> std::io::Result<()> {
    answer_parent(request, |request: Request| look(request).map_err(|error| format!("{error:#}")))
}

fn look(request: Request) -> anyhow::Result<Value> {
    let args = request.chat_args();
    // Nothing is fetched or built for a report.
    if let Some(missing) = session::missing(&args)? {
        anyhow::bail!("{missing}");
    }
    let mut prepared = session::prepare(&args, AfterFetch::Exit)?;
    let lines = Arc::new(Mutex::new(Vec::new()));
    prepared.log = collector(&lines);
    let began = Instant::now();
    let engine = prepared.load(None)?;
    engine.wait_for_lanes(None);
    let took = began.elapsed();
    let snapshot = engine.snapshot();
    let lines = lines.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok(json!({
        "model": snapshot.model,
        "architecture": snapshot.architecture,
        "weight_bytes": snapshot.weight_bytes,
        "load_duration_ms": took.as_millis() as u64,
        "lanes": snapshot.lanes.iter().map(answer_json::lane).collect::<Vec<_>>(),
        "log": lines,
    }))
}

/// The last of them would say little without the first, so both are kept.
fn collector(lines: &Arc<Mutex<Vec<String>>>) -> LogSink {
    let lines = lines.clone();
    Arc::new(move |line| {
        let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == MOST_LINES {
            lines.remove(MOST_LINES / 2);
        }
        lines.push(line.chars().filter(|c| !c.is_control() || *c == '\n').collect());
    })
}
