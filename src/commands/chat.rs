//! `ortalk` without a command: opens the chat.

use std::process::ExitCode;
use std::sync::Arc;

use super::chats;
use super::faults;
use super::fetch::AfterFetch;
use super::local_models::LocalModels;
use super::session;
use crate::cli::{ChatArgs, KeepArgs, RecordArgs};
use crate::config::Settings;
use crate::decoder::lane_processes;
use crate::paths::Paths;
use crate::recording::Recorder;
use crate::telemetry::device::DeviceSampler;
use crate::tui::{self, Backend, TuiOptions};

pub fn run(keep: &KeepArgs, recording: &RecordArgs, args: &ChatArgs) -> anyhow::Result<ExitCode> {
    // Before anything is fetched: a script that meant `run` should not wait for a download to hear it.
    tui::require_terminal()?;
    // What is wrong in the settings, and a conversation that is not there, too.
    let paths = Paths::discover()?;
    let settings = Settings::load(&paths.settings_file())?;
    tui::check(&settings, &paths.themes())?;
    recording.record.as_deref().map(Recorder::check).transpose()?;
    let chats = chats::options(keep, args, &settings, &paths)?;
    let prepared = session::prepare(args, AfterFetch::LeaveSignals)?;
    let mut sampler = DeviceSampler::new();
    let settings = prepared.settings.clone();
    let (answers, books) = (prepared.answers.clone(), prepared.books("chat"));
    let models = Arc::new(LocalModels::new(args, prepared));
    let first = models.clone();
    let exit = tui::run(TuiOptions {
        answers,
        server: None,
        theme: settings.theme,
        editing: settings.editing,
        // Who keeps no conversations keeps no words of them, either.
        history: (chats.saves && settings.history.unwrap_or(true)).then(|| paths.history_file()),
        keys: settings.keys,
        themes: paths.themes(),
        screen: settings.screen,
        chats: Some(chats),
        log_file: paths.log_file(),
        record: recording.record.clone(),
        replay: None,
        books: Some(books),
        sample: Some(Box::new(move || sampler.sample(&lane_processes()))),
        models: Some(models),
        load: Box::new(move || {
            let engine = first.load_first().map_err(|error| {
                let error = format!("{error:#}");
                faults::keep(&paths, "chat", &error);
                error
            })?;
            Ok(Arc::new(engine) as Arc<dyn Backend>)
        }),
    })?;
    Ok(ExitCode::from(exit.code()))
}
