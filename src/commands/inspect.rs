//! `ortalk inspect`: what a model file or folder is, on standard output.

use std::process::ExitCode;

use super::run::print_now;
use crate::cli::InspectArgs;
use crate::inspect;

pub fn run(args: &InspectArgs) -> anyhow::Result<ExitCode> {
    let found = inspect::inspect(&args.path)?;
    let text = if args.json { format!("{}\n", serde_json::to_string_pretty(&found)?) } else { found.to_string() };
    print_now(&text)?;
    Ok(ExitCode::SUCCESS)
}
