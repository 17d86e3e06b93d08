//! `ortalk` without a command: opens the chat.

use std::process::ExitCode;
use std::sync::Arc;

use super::faults;
use super::fetch::AfterFetch;
use super::session;
use crate::cli::ChatArgs;
use crate::decoder::lane_processes;
use crate::telemetry::device::DeviceSampler;
use crate::tui::{self, Backend, TuiOptions};

pub fn run(args: &ChatArgs) -> anyhow::Result<ExitCode> {
    // Before anything is fetched: a script that meant `run` should not wait for a download to hear it.
    tui::require_terminal()?;
    let prepared = session::prepare(args, AfterFetch::LeaveSignals)?;
    let mut sampler = DeviceSampler::new();
    let paths = prepared.paths.clone();
    let exit = tui::run(TuiOptions {
        answers: prepared.answers.clone(),
        server: None,
        theme: prepared.settings.theme.clone(),
        editing: prepared.settings.editing,
        history: prepared.settings.history.unwrap_or(true).then(|| prepared.paths.history_file()),
        keys: prepared.settings.keys.clone(),
        themes: prepared.paths.themes(),
        screen: prepared.settings.screen,
        log_file: prepared.paths.log_file(),
        books: Some(prepared.books("chat")),
        sample: Some(Box::new(move || sampler.sample(&lane_processes()))),
        load: Box::new(move || {
            let engine = prepared.load(None).map_err(|error| {
                let error = format!("{error:#}");
                faults::keep(&paths, "chat", &error);
                error
            })?;
            Ok(Arc::new(engine) as Arc<dyn Backend>)
        }),
    })?;
    Ok(ExitCode::from(exit.code()))
}
