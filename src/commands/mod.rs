//! One file a subcommand. This one parses the command line, runs the command and turns its error into a message and an
//! exit status.

mod answer_json;
mod bench;
mod bill_json;
mod build;
mod chat;
mod chats;
mod connect;
mod cost;
mod faults;
pub mod fetch;
mod inspect;
mod lanes;
mod local_models;
mod model_name;
mod models;
mod pull;
mod race;
mod rates;
mod replay;
mod report;
mod room;
mod run;
mod serve;
pub mod session;
mod setup;
mod sys;
mod tuning;
mod worker;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};
use crate::hub::HubError;
use crate::paths::Paths;
use crate::provision::ProvisionError;

pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let within = name(cli.command.as_ref());
    match dispatch(cli) {
        Ok(code) => code,
        // The reader of a pipe has seen enough, as `head` does: no error of ours.
        Err(error) if is_broken_pipe(&error) => ExitCode::from(BROKEN_PIPE),
        Err(error) => {
            eprintln!("ortalk: {error:#}");
            let cancelled = error.downcast_ref::<ProvisionError>().is_some_and(ProvisionError::is_cancelled)
                || error.downcast_ref::<HubError>().is_some_and(HubError::is_cancelled);
            if cancelled || error.is::<fetch::Interrupted>() {
                return fetch::interrupted();
            }
            if let Ok(paths) = Paths::discover() {
                faults::keep(&paths, within, &format!("{error:#}"));
            }
            ExitCode::FAILURE
        }
    }
}

/// The exit status that shells give a program ended by SIGPIPE.
const BROKEN_PIPE: u8 = 141;

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
    })
}

/// What a fault is said to be within.
fn name(command: Option<&Command>) -> &'static str {
    match command {
        Some(Command::Bench(_)) => "bench",
        Some(Command::Build(_)) => "build",
        Some(Command::Chats(_)) => "chats",
        Some(Command::Cost(_)) => "cost",
        Some(Command::Inspect(_)) => "inspect",
        Some(Command::Models(_)) => "models",
        Some(Command::Pull(_)) => "pull",
        Some(Command::Race(_)) => "race",
        Some(Command::Replay(_)) => "replay",
        Some(Command::Report(_)) => "report",
        Some(Command::Run(_)) => "run",
        Some(Command::Serve(_)) => "serve",
        Some(Command::Setup(_)) => "setup",
        Some(Command::Sys(_)) => "sys",
        Some(Command::Worker(_)) => "worker",
        None => "chat",
    }
}

fn dispatch(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command {
        Some(Command::Bench(args)) => bench::run(&args),
        Some(Command::Build(args)) => build::run(&args),
        Some(Command::Chats(args)) => chats::run(&args),
        Some(Command::Cost(args)) => cost::run(&args),
        Some(Command::Inspect(args)) => inspect::run(&args),
        Some(Command::Models(args)) => models::run(&args),
        Some(Command::Pull(args)) => pull::run(&args),
        Some(Command::Race(args)) => race::run(args),
        Some(Command::Replay(args)) => replay::run(&args),
        Some(Command::Report(args)) => report::run(&args),
        Some(Command::Run(args)) => run::run(args),
        Some(Command::Serve(args)) => serve::run(args),
        Some(Command::Setup(args)) => setup::run(&args),
        Some(Command::Sys(args)) => sys::run(&args),
        Some(Command::Worker(task)) => worker::run(task),
        None => match &cli.connect.connect {
            Some(url) => connect::run(url, &cli.connect, &cli.keep, &cli.recording, &cli.chat),
            None => chat::run(&cli.keep, &cli.recording, &cli.chat),
        },
    }
}
