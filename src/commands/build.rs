//! `ortalk build`: makes a model folder from a GGUF file and says on standard error what it is doing.

use std::process::ExitCode;
use std::time::Instant;

use crate::builder::{self, BuildOptions, BuildStage};
use crate::cli::{BuildArgs, BuildTarget};

pub fn run(args: &BuildArgs) -> anyhow::Result<ExitCode> {
    // One target so far; a new one must be decided on here.
    let BuildTarget::Cpu = args.target;
    let mut current: Option<(BuildStage, Instant)> = None;
    let report = builder::build(&args.source, &args.output, &BuildOptions::default(), &mut |progress| {
        let (stage, started) = *current.get_or_insert((progress.stage, Instant::now()));
        if stage != progress.stage {
            finished(stage, started);
            current = Some((progress.stage, Instant::now()));
        }
    })?;
    if let Some((stage, started)) = current {
        finished(stage, started);
    }
    eprintln!(
        "{}: {} ({}, {:.0} million parameters), {} nodes, {:.0} MB, built in {:.1} s",
        report.folder.display(),
        report.model,
        report.architecture,
        report.parameters as f64 / 1e6,
        report.nodes,
        report.bytes as f64 / 1e6,
        report.seconds,
    );
    Ok(ExitCode::SUCCESS)
}

fn finished(stage: BuildStage, started: Instant) {
    let name = match stage {
        BuildStage::Waiting => "waited for another ortalk",
        BuildStage::Reading => "read the file",
        BuildStage::Weights => "converted weights",
        BuildStage::Graph => "wrote the graph",
        BuildStage::Tokenizer => "wrote tokenizer and configuration",
    };
    eprintln!("{name:<36}{:>6.1} s", started.elapsed().as_secs_f64());
}
