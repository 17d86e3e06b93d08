//! One file a subcommand. This one parses the command line, runs the command and turns its error into a message and an
//! exit status.

mod build;
pub mod fetch;
mod run;
pub mod session;
mod setup;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};
use crate::provision::ProvisionError;

pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match dispatch(cli) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("ortalk: {error:#}");
            match error.downcast_ref::<ProvisionError>() {
                Some(stopped) if stopped.is_cancelled() => fetch::interrupted(),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

fn dispatch(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command {
        Some(Command::Build(args)) => build::run(&args),
        Some(Command::Run(args)) => run::run(args),
        Some(Command::Setup(_)) => setup::run(),
        None => Ok(ExitCode::SUCCESS),
    }
}
