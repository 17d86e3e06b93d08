//! `ortalk build`: makes a model folder from a checkpoint and says on standard error what it is doing.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{bail, ensure};
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};

use super::fetch::{AfterFetch, FetchDisplay};
use super::model_name;
use super::session;
use crate::builder::npu::{self, LocalLaboratory, NpuBuildOptions, NpuProgress, NpuStage, StageRecord};
use crate::builder::{self, BuildOptions, BuildStage, CpuPrecision, FourBits};
use crate::cli::{BuildArgs, BuildTarget, Int4Args, NpuBuildArgs, PrecisionName};
use crate::config::Settings;
use crate::hub::Purpose;
use crate::model::{NpuTarget, Precision};
use crate::onnx_runtime::{CpuSessionOptions, OnnxRuntime};
use crate::paths::Paths;

/// Steps of the progress bar for one stage.
const STEPS: u64 = 1000;

pub fn run(args: &BuildArgs) -> anyhow::Result<ExitCode> {
    let args = &with_source(args)?;
    match (args.target, &args.npu.soc) {
        (BuildTarget::Cpu, _) if args.npu != NpuBuildArgs::default() => {
            bail!("--soc, --chunk, --stop-after and --keep are for --target npu; add that")
        }
        (BuildTarget::Cpu, _) => for_cpu(args)?,
        (BuildTarget::Npu, Some(target)) => for_npu(args, target)?,
        (BuildTarget::Npu, None) => bail!("--target npu needs --soc, the chip to compile for"),
    }
    Ok(ExitCode::SUCCESS)
}

/// The same arguments with the path that the source's name leads to.
fn with_source(args: &BuildArgs) -> anyhow::Result<BuildArgs> {
    let paths = Paths::discover()?;
    let default = || session::default_model_source(&paths, &mut FetchDisplay::new(AfterFetch::Exit));
    // A model is built from what it was trained as, whatever it is built for.
    let source = model_name::resolve_path(&args.source, Purpose::NpuBuild, &paths, default)?;
    Ok(BuildArgs { source, ..args.clone() })
}

fn cpu_precision(args: &BuildArgs) -> anyhow::Result<CpuPrecision> {
    let precision = match args.precision {
        None | Some(PrecisionName::Int8) => CpuPrecision::Int8,
        Some(PrecisionName::Int4) => {
            let Int4Args { block_size, symmetric } = args.int4;
            return Ok(CpuPrecision::Int4(FourBits {
                block: block_size.unwrap_or(FourBits::default().block),
                symmetric,
            }));
        }
        Some(PrecisionName::Fp16) => CpuPrecision::Fp16,
        Some(PrecisionName::Fp32) => CpuPrecision::Fp32,
        Some(PrecisionName::W8a16) => {
            bail!("--precision w8a16 is for --target npu; for the CPU give int4, int8, fp16 or fp32")
        }
    };
    refuse_int4_options(args)?;
    Ok(precision)
}

fn npu_precision(args: &BuildArgs) -> anyhow::Result<Precision> {
    ensure!(
        args.int4 == Int4Args::default(),
        "--block-size and --symmetric are for --target cpu --precision int4; leave them out for an NPU"
    );
    match args.precision {
        None | Some(PrecisionName::W8a16) => Ok(Precision::W8a16),
        Some(PrecisionName::Fp16) => Ok(Precision::Fp16),
        Some(name @ (PrecisionName::Int4 | PrecisionName::Int8 | PrecisionName::Fp32)) => {
            let name = name.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
            bail!("--precision {name} is for --target cpu; for an NPU give w8a16 or fp16")
        }
    }
}

fn refuse_int4_options(args: &BuildArgs) -> anyhow::Result<()> {
    ensure!(args.int4 == Int4Args::default(), "--block-size and --symmetric are for --precision int4; add that");
    Ok(())
}

fn for_cpu(args: &BuildArgs) -> anyhow::Result<()> {
    let precision = cpu_precision(args)?;
    let options = BuildOptions { precision, context: args.context, ..BuildOptions::default() };
    let bar = bar()?;
    let mut started = Instant::now();
    let mut current: Option<BuildStage> = None;
    let result = builder::build(&args.source, &args.output, &options, &mut |progress| {
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
        "{}: {} ({}, {:.0} million parameters) in {}, {} nodes, {:.0} MB, built in {:.1} s",
        report.folder.display(),
        report.model,
        report.architecture,
        report.parameters as f64 / 1e6,
        options.precision,
        report.nodes,
        report.bytes as f64 / 1e6,
        report.seconds,
    );
    Ok(())
}

fn for_npu(args: &BuildArgs, target: &NpuTarget) -> anyhow::Result<()> {
    let options = NpuBuildOptions {
        precision: npu_precision(args)?,
        context: args.context,
        chunk: args.npu.chunk,
        stop_after: args.npu.stop_after,
        keep: args.npu.keep,
        ..NpuBuildOptions::new(target.clone())
    };
    let laboratory = laboratory()?;
    let bar = bar()?;
    let result = npu::build(&args.source, &args.output, &options, &laboratory, &mut |progress| match progress {
        NpuProgress::At(stage, fraction) => {
            bar.set_message(stage_name(stage));
            bar.set_position((fraction * STEPS as f32) as u64);
        }
        NpuProgress::Done(record) => bar.suspend(|| eprintln!("{}", line(record))),
        NpuProgress::DoneBefore(record) => bar.suspend(|| eprintln!("{}, done before", line(record))),
    });
    bar.finish_and_clear();
    let report = result.inspect_err(|_| {
        if let Some(work) = npu::work_folder(&args.output).ok().filter(|work| work.is_dir()) {
            eprintln!("what was done is in {}; the next build goes on from there", work.display());
        }
    })?;
    if let Some(quality) = &report.quality {
        eprintln!("{quality}");
    }
    eprintln!(
        "{}: {} ({}, {:.0} million parameters) for {}, {:.0} MB, {} in {:.1} s",
        report.folder.display(),
        report.model,
        report.architecture,
        report.parameters as f64 / 1e6,
        target.soc,
        report.bytes as f64 / 1e6,
        if options.stop_after.is_some() { "stopped" } else { "built" },
        report.seconds,
    );
    Ok(())
}

/// ONNX Runtime and QNN on this machine, found or fetched.
fn laboratory() -> anyhow::Result<LocalLaboratory> {
    let paths = Paths::discover()?;
    let settings = Settings::load(&paths.settings_file())?;
    let mut display = FetchDisplay::new(AfterFetch::Exit);
    let library: PathBuf = session::library(&settings, &paths, &mut display)?.path;
    let plugin = session::qnn_plugin(&settings, &paths, &mut display)?.plugin;
    display.finish();
    display.go_on()?;
    let runtime = OnnxRuntime::load(&library, session::log_sink(&paths.log_file()))?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let cpu = CpuSessionOptions { threads, spinning: false };
    Ok(LocalLaboratory { runtime, cpu, plugin, executable: std::env::current_exe()?, library })
}

/// Shown on a terminal only.
fn bar() -> anyhow::Result<ProgressBar> {
    let style = ProgressStyle::with_template("{msg:<36} {wide_bar} {percent:>3} %")?;
    Ok(ProgressBar::new(STEPS).with_style(style))
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

/// A stage that is done: its time, and what it wrote.
fn line(record: StageRecord) -> String {
    let StageRecord { stage, seconds, bytes } = record;
    format!("{:<36}{seconds:>6.1} s{:>9.1} MB", stage_name(stage), bytes as f64 / 1e6)
}

fn stage_name(stage: NpuStage) -> &'static str {
    match stage {
        NpuStage::Export => "export: float graphs",
        NpuStage::Calibrate => "calibrate: ranges of activations",
        NpuStage::Quantize => "quantize: integer graphs",
        NpuStage::Compile => "compile: context binaries",
        NpuStage::Judge => "judge: quality beside float",
        NpuStage::Assemble => "assemble: the model folder",
    }
}
