//! `ortalk inspect`: what a model file or folder is, on standard output.

use std::process::ExitCode;

use super::fetch::{AfterFetch, FetchDisplay};
use super::model_name;
use super::run::print_now;
use super::session;
use crate::cli::InspectArgs;
use crate::hub::Purpose;
use crate::inspect;
use crate::paths::Paths;

pub fn run(args: &InspectArgs) -> anyhow::Result<ExitCode> {
    let paths = Paths::discover()?;
    let default = || session::default_model_source(&paths, &mut FetchDisplay::new(AfterFetch::Exit));
    let path = model_name::resolve_path(&args.path, Purpose::Cpu, &paths, default)?;
    let found = inspect::inspect(&path)?;
    let text = if args.json { format!("{}\n", serde_json::to_string_pretty(&found)?) } else { found.to_string() };
    print_now(&text)?;
    Ok(ExitCode::SUCCESS)
}
