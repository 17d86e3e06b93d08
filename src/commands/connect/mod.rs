//! `ortalk --connect URL`: the chat over a server. No model and no ONNX Runtime is needed here.
//!
//! A server that is an ortalk sends the engine's events with its answers, so the panels show what they show beside it. Of
//! any other one only texts and counts come, and what is reckoned from them says "est.".

mod backend;
mod machine;
mod models;
mod other;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};

use self::backend::Asked;
use self::models::ServerModels;
use super::{chats, session};
use crate::cli::{ChatArgs, ConnectArgs, KeepArgs, RecordArgs};
use crate::config::Settings;
use crate::engine::Sampling;
use crate::paths::Paths;
use crate::remote::{ApiKey, Client, Endpoint, Timeouts};
use crate::tui::{self, Backend, TuiOptions};

/// The variable that is looked into where none is named; `ortalk serve` looks there, too.
const KEY_VARIABLE: &str = "ORTALK_API_KEY";

pub fn run(
    url: &str,
    connect: &ConnectArgs,
    keep: &KeepArgs,
    recording: &RecordArgs,
    args: &ChatArgs,
) -> anyhow::Result<ExitCode> {
    tui::require_terminal()?;
    check(args)?;
    let endpoint = Endpoint::parse(url, key(connect.api_key_env.as_deref(), &|name| std::env::var(name).ok())?)
        .context("--connect is not right")?;
    let paths = Paths::discover()?;
    let settings = Settings::load(&paths.settings_file())?;
    tui::check(&settings, &paths.themes())?;
    let chats = chats::options(keep, args, &settings, &paths)?;
    let answers = session::answer_settings(args, &settings, &Sampling::default())?;
    let asked = Asked {
        first: Some((answers.sampling.clone(), answers.max_tokens)),
        model: args.model.as_ref().map(|model| model.to_string_lossy().into_owned()),
        temperature: args.temperature.or(settings.temperature),
        top_p: args.top_p.or(settings.top_p),
        seed: args.seed,
        max_tokens: args.max_tokens.map(|tokens| tokens as usize),
    };
    let mut machine = machine::Machine::new(Client::new(endpoint.clone(), Timeouts::default()));
    let host = endpoint.host().to_owned();
    let models = Arc::new(ServerModels::new(endpoint, asked, answers.clone()));
    let first = models.clone();
    let exit = tui::run(TuiOptions {
        answers,
        server: Some(host),
        theme: settings.theme.clone(),
        editing: settings.editing,
        history: (chats.saves && settings.history.unwrap_or(true)).then(|| paths.history_file()),
        keys: settings.keys.clone(),
        themes: paths.themes(),
        screen: settings.screen,
        chats: Some(chats),
        log_file: paths.log_file(),
        record: recording.record.clone(),
        replay: None,
        // The server's own ledger has these answers.
        books: None,
        sample: Some(Box::new(move || machine.sample())),
        models: Some(models),
        load: Box::new(move || Ok(Arc::new(first.first()?) as Arc<dyn Backend>)),
    })?;
    Ok(ExitCode::from(exit.code()))
}

/// What says how a model runs on this machine says nothing here.
fn check(args: &ChatArgs) -> anyhow::Result<()> {
    for (is_given, name) in [
        (args.threads.is_some(), "threads"),
        (args.context.is_some(), "context"),
        (args.npu_model.is_some(), "npu-model"),
        (args.emulate_npu, "emulate-npu"),
        (args.top_k.is_some(), "top-k"),
        (args.min_p.is_some(), "min-p"),
        (args.repetition_penalty.is_some(), "repetition-penalty"),
    ] {
        if is_given {
            bail!("--{name} is for a model on this machine; with --connect the server decides it");
        }
    }
    Ok(())
}

/// A variable that was named must be there; the usual one need not.
fn key(named: Option<&str>, variable: &dyn Fn(&str) -> Option<String>) -> anyhow::Result<Option<ApiKey>> {
    let name = named.unwrap_or(KEY_VARIABLE);
    match (variable(name).filter(|key| !key.trim().is_empty()), named) {
        (Some(key), _) => Ok(Some(ApiKey::parse(&key, name)?)),
        (None, None) => Ok(None),
        (None, Some(name)) => bail!("the variable {name}, which --api-key-env names, is not set"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_was_named_must_be_there() {
        let with = |name: &'static str| move |asked: &str| (asked == name).then(|| "sk-1".to_owned());
        assert!(key(None, &|_| None).unwrap().is_none());
        assert!(key(None, &with("ORTALK_API_KEY")).unwrap().is_some());
        assert!(key(Some("FAR_KEY"), &with("FAR_KEY")).unwrap().is_some());
        let error = key(Some("FAR_KEY"), &with("ORTALK_API_KEY")).unwrap_err().to_string();
        assert!(error.contains("FAR_KEY"), "{error}");
    }

    #[test]
    fn what_the_server_decides_is_refused() {
        assert!(check(&ChatArgs { seed: Some(1), ..ChatArgs::default() }).is_ok());
        let error = check(&ChatArgs { threads: Some(2), ..ChatArgs::default() }).unwrap_err().to_string();
        assert!(error.starts_with("--threads is for a model on this machine"), "{error}");
    }
}
