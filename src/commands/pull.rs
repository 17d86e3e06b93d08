//! `ortalk pull`: fetches a model from the Hub into the cache that all of the Hub's programs share, and says what it chose.

use std::process::ExitCode;

use super::fetch::{AfterFetch, FetchDisplay, megabytes};
use super::run::print_now;
use crate::builder;
use crate::cli::{PullArgs, PullPurpose};
use crate::hub::{self, Format, HubSettings, ModelRef, Plan, PullRequest, Pulled, Purpose};
use crate::paths::Paths;
use crate::provision;

pub fn run(args: &PullArgs) -> anyhow::Result<ExitCode> {
    let purpose = match args.purpose {
        PullPurpose::Cpu => Purpose::Cpu,
        PullPurpose::Npu => Purpose::NpuBuild,
    };
    let mut display = FetchDisplay::new(AfterFetch::Exit);
    let model = match hub::entry(&args.model) {
        Some(entry) => match entry.source(purpose) {
            Some(model) => {
                eprintln!("{}: {} from {model} ({})", entry.name, entry.title, entry.licence);
                model.clone()
            }
            None => return default_model(&mut display),
        },
        None => ModelRef::parse(&args.model).map_err(|error| {
            let names: Vec<&str> = hub::catalogue().iter().map(|entry| entry.name.as_str()).collect();
            anyhow::anyhow!("{error}; or a name of the catalogue: {}", names.join(", "))
        })?,
    };
    let settings = HubSettings::discover()?;
    let request = PullRequest { model, revision: args.revision.clone(), purpose, memory: memory() };
    let pulled = hub::pull(
        &settings,
        &request,
        &suits,
        &mut |plan| eprintln!("{}", chosen(&request.model, plan)),
        &mut |progress| display.report_pull(progress),
    );
    display.finish();
    let pulled = pulled?;
    eprintln!("{}", done(&request, &pulled, &args.model));
    print_now(&format!("{}\n", pulled.path.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// Graphs are judged when they are opened; what they need is not in their configuration.
fn suits(format: Format, config: &[u8]) -> Result<(), String> {
    match format {
        Format::Checkpoint => builder::check_config(config),
        Format::Gguf | Format::Genai | Format::Optimum => Ok(()),
    }
}

/// The model that comes with ortalk is not the Hub's.
fn default_model(display: &mut FetchDisplay) -> anyhow::Result<ExitCode> {
    let paths = Paths::discover()?;
    let source = provision::ensure_default_model_source(&paths, &mut |progress| display.report(progress))?;
    display.finish();
    display.go_on()?;
    eprintln!("{} is ortalk's default model; `ortalk` chats with it", provision::DEFAULT_MODEL_NAME);
    print_now(&format!("{}\n", source.path.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn memory() -> u64 {
    sysinfo::System::new_with_specifics(
        sysinfo::RefreshKind::nothing().with_memory(sysinfo::MemoryRefreshKind::nothing().with_ram()),
    )
    .map_or(u64::MAX, |system| system.total_memory())
}

/// What was chosen, and what it costs.
fn chosen(model: &ModelRef, plan: &Plan) -> String {
    let (variant, files) = (&plan.variant, plan.variant.files.len());
    let (files, total) = (format!("{files} file{}", if files == 1 { "" } else { "s" }), megabytes(variant.bytes()));
    let cost = match plan.missing_bytes {
        0 => format!("{files}, {total}, all here already"),
        missing if missing == variant.bytes() => format!("{files}, {total}"),
        missing => format!("{files}, {total}, of which {} are missing", megabytes(missing)),
    };
    format!("{}:{} ({}; {}): {cost}", model.repo, variant.name, variant.format, plan.why)
}

fn done(request: &PullRequest, pulled: &Pulled, name: &str) -> String {
    let how = match pulled.fetched_bytes {
        0 => "is here".to_string(),
        bytes => format!("fetched, {}", megabytes(bytes)),
    };
    let next = match request.purpose {
        Purpose::Cpu => format!("chat with it: ortalk -m {name}"),
        Purpose::NpuBuild => format!("build it: ortalk build {name} -o DIR --target npu --soc CHIP"),
    };
    format!("{}:{} {how}; {next}", request.model.repo, pulled.variant)
}
