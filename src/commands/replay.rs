//! `ortalk replay`: plays a recording in the chat's screen. It needs no device, no model and no library.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, bail};

use crate::cli::ReplayArgs;
use crate::config::Settings;
use crate::engine::{AnswerSettings, Policy, Sampling};
use crate::paths::Paths;
use crate::recording::{Completeness, Recording, read, read_from};
use crate::tui::{self, TuiOptions};

/// In place of a file: standard input.
const STANDARD_INPUT: &str = "-";

/// A file is read sooner; whoever waits longer is told for what.
const PATIENCE: Duration = Duration::from_secs(1);

pub fn run(args: &ReplayArgs) -> anyhow::Result<ExitCode> {
    let paths = Paths::discover()?;
    let settings = Settings::load(&paths.settings_file())?;
    tui::check(&settings, &paths.themes())?;
    let is_piped = args.file.as_os_str() == STANDARD_INPUT;
    if is_piped && std::io::stdin().is_terminal() {
        bail!(
            "'-' plays what comes from a pipe, as in `ortalk replay - < talk.jsonl`, and standard input is a terminal"
        );
    }
    if !is_piped {
        tui::require_terminal()?;
    }
    let completeness = if args.partial { Completeness::Partial } else { Completeness::Whole };
    let recording = patiently(&args.file, is_piped, completeness)?;
    if is_piped {
        tui::read_keys_from_terminal()
            .context("the keys cannot be read from the terminal; name a file in place of '-'")?;
    }
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

/// Reads on a thread of its own, so that what has no end, or a pipe that nobody writes to, is not waited for in silence.
fn patiently(file: &Path, is_piped: bool, completeness: Completeness) -> anyhow::Result<Recording> {
    let (name, is_file) = match is_piped {
        true => (PathBuf::from("standard input"), false),
        false => (file.to_owned(), std::fs::metadata(file).is_ok_and(|file| file.is_file())),
    };
    let (send, result) = mpsc::channel();
    let path = name.clone();
    std::thread::Builder::new().name("read".into()).spawn(move || {
        let read = match is_piped {
            true => read_from(std::io::stdin().lock(), &path, completeness),
            false => read(&path, completeness),
        };
        let _ = send.send(read);
    })?;
    match result.recv_timeout(PATIENCE) {
        Ok(recording) => return Ok(recording?),
        Err(_) if is_file => eprintln!("ortalk: reading '{}'; Ctrl-C stops", name.display()),
        Err(_) => eprintln!("ortalk: waiting for the end of '{}', which is no file; Ctrl-C stops", name.display()),
    }
    Ok(result.recv().context("the recording cannot be read")??)
}
