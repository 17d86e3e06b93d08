//! `ortalk build`: makes a model folder from a GGUF file and says on standard error what it is doing.

use std::process::ExitCode;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};

use crate::builder::{self, BuildOptions, BuildStage};
use crate::cli::{BuildArgs, BuildTarget};

/// Steps of the progress bar for one stage.
const STEPS: u64 = 1000;

pub fn run(args: &BuildArgs) -> anyhow::Result<ExitCode> {
    // One target so far; a new one must be decided on here.
    let BuildTarget::Cpu = args.target;
    // Shown on a terminal only.
    let style = ProgressStyle::with_template("{msg:<36} {wide_bar} {percent:>3} %")?;
    let bar = ProgressBar::new(STEPS).with_style(style);
    let mut started = Instant::now();
    let mut current: Option<BuildStage> = None;
    let result = builder::build(&args.source, &args.output, &BuildOptions::default(), &mut |progress| {
        if current != Some(progress.stage) {
            if let Some(stage) = current.replace(progress.stage) {
                bar.suspend(|| eprintln!("{:<36}{:>6.1} s", name(stage), started.elapsed().as_secs_f64()));
            }
            started = Instant::now();
            bar.set_message(name(progress.stage));
        }
        bar.set_position((progress.fraction * STEPS as f32) as u64);
    });
    bar.finish_and_clear();
    let report = result?;
    if let Some(stage) = current {
        eprintln!("{:<36}{:>6.1} s", name(stage), started.elapsed().as_secs_f64());
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

fn name(stage: BuildStage) -> &'static str {
    match stage {
        BuildStage::Waiting => "waiting for another ortalk",
        BuildStage::Reading => "reading the file",
        BuildStage::Weights => "converting weights",
        BuildStage::Graph => "writing the graph",
        BuildStage::Tokenizer => "writing tokenizer and configuration",
    }
}
