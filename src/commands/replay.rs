//! `ortalk replay`: plays a recording in the chat's screen. It needs no device, no model and no library.

use std::process::ExitCode;

use crate::cli::ReplayArgs;
use crate::config::Settings;
use crate::engine::{AnswerSettings, Policy, Sampling};
use crate::paths::Paths;
use crate::recording::{Completeness, read};
use crate::tui::{self, TuiOptions};

pub fn run(args: &ReplayArgs) -> anyhow::Result<ExitCode> {
    tui::require_terminal()?;
    let completeness = if args.partial { Completeness::Partial } else { Completeness::Whole };
    let recording = read(&args.file, completeness)?;
    let paths = Paths::discover()?;
    let settings = Settings::load(&paths.settings_file())?;
    let exit = tui::run(TuiOptions {
        answers: AnswerSettings {
            system: None,
            sampling: Sampling::GREEDY,
            max_tokens: 1,
            thinking: None,
            policy: Policy::default(),
            lane: None,
            allow_remote: false,
        },
        server: None,
        models: None,
        editing: settings.editing,
        history: None,
        chats: None,
        keys: settings.keys.clone(),
        theme: settings.theme.clone(),
        themes: paths.themes(),
        screen: settings.screen,
        log_file: paths.log_file(),
        books: None,
        sample: None,
        load: Box::new(|| Err("a replay has no engine".to_owned())),
        record: None,
        replay: Some((recording, args.speed)),
    })?;
    Ok(ExitCode::from(exit.code()))
}
