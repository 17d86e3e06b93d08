//! `ortalk bench`: opens one lane after the other, measures each (`crate::bench`), and prints the report as a table, as JSON
//! or as Markdown; with `--tune` or `--server` it finds the CPU lane's best setting, or loads a server.

pub mod kept;
mod markdown;
mod server;
mod table;
mod tune;

use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};

use super::fetch::AfterFetch;
use super::run::print_now;
use super::session::{self, Prepared};
use crate::bench::{
    Comparison, Conditions, Kind, LaneReport, NotMeasured, OldReport, Plan, Report, Reported, SCHEMA_VERSION, Standing,
    Versions, measure, milliseconds, model_files, noise, ratios,
};
use crate::cli::{BenchArgs, ChatArgs};
use crate::decoder::lane_processes;
use crate::engine::{EngineError, LaneId, LaneState};
use crate::onnx_runtime::{CPU_PROVIDER, OnnxRuntime, SdkVersion};
use crate::telemetry::Reading;
use crate::telemetry::machine::Machine;
use crate::telemetry::surroundings::Surroundings;
use crate::telemetry::watch::Watch;

pub fn run(args: &BenchArgs) -> anyhow::Result<ExitCode> {
    if let Some(address) = &args.server.server {
        return server::run(args, address);
    }
    if args.tuning.tune {
        return tune::run(args);
    }
    if args.lanes.contains(&LaneId::Remote) {
        bail!("the remote lane's speed is its server's, which `ortalk bench --server URL` measures");
    }
    let plan = plan(args)?;
    // Before minutes go by.
    let old = args.compare.as_deref().map(OldReport::read).transpose()?;
    let prepared = session::prepare(&chat_args(args), AfterFetch::Exit)?;
    let runtime = prepared.runtime()?;
    let started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());

    let before: Standing = Surroundings::look().into();
    let (mut lanes, mut not_measured, mut model) = (Vec::new(), Vec::new(), String::new());
    for lane in [LaneId::Npu, LaneId::Cpu] {
        if !args.lanes.is_empty() && !args.lanes.contains(&lane) {
            continue;
        }
        match measure_lane(&prepared, &runtime, lane, &plan)? {
            Ok((name, report)) => {
                model = name;
                lanes.push(report);
            }
            Err(reason) if args.lanes.is_empty() => not_measured.push(NotMeasured { lane: lane.to_string(), reason }),
            Err(reason) => bail!("the {lane} lane was asked for, but it cannot run: {reason}"),
        }
    }
    if lanes.is_empty() {
        let reasons = not_measured.iter().map(|lane| format!("\n{}: {}", lane.lane, lane.reason));
        bail!("no lane can run here{}", reasons.collect::<String>());
    }
    let conditions = Conditions {
        machine: Machine::look(),
        versions: versions(&prepared, &runtime, &lanes),
        before,
        after: Surroundings::look().into(),
    };
    let mut report = Report {
        schema_version: SCHEMA_VERSION,
        started_unix_s: started,
        plan,
        model,
        ratios: ratios(&lanes),
        noise: noise(&conditions, &lanes),
        conditions,
        lanes,
        not_measured,
        comparison: None,
    };
    report.comparison = old.map(|old| Comparison::between(&old, &report));
    kept::keep(&prepared.paths, &report);
    print_now(&match (args.json, args.markdown) {
        (true, _) => format!("{}\n", serde_json::to_string_pretty(&report)?),
        (_, true) => markdown::markdown(&report),
        _ => table::table(&report),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn plan(args: &BenchArgs) -> anyhow::Result<Plan> {
    let lengths = |lengths: &[u32]| -> Vec<usize> {
        let mut lengths: Vec<usize> =
            lengths.iter().map(|length| *length as usize).filter(|length| *length > 0).collect();
        lengths.sort_unstable();
        lengths.dedup();
        lengths
    };
    let plan = Plan {
        prompt_lengths: lengths(&args.prompt_lengths),
        pass_lengths: lengths(&args.pass_lengths),
        generated_tokens: args.tokens as usize,
        warmup: args.warmup as usize,
        repetitions: args.repetitions as usize,
    };
    if plan.prompt_lengths.is_empty() && plan.pass_lengths.is_empty() {
        bail!("there is nothing to measure: --prompt-lengths and --pass-lengths are both 0");
    }
    Ok(plan)
}

fn chat_args(args: &BenchArgs) -> ChatArgs {
    ChatArgs {
        model: args.model.clone(),
        emulate_npu: args.emulate_npu,
        npu_model: args.npu_model.clone(),
        threads: args.threads,
        context: args.context,
        ..ChatArgs::default()
    }
}

/// The model's name and what was measured, or why the lane cannot run.
fn measure_lane(
    prepared: &Prepared,
    runtime: &OnnxRuntime,
    lane: LaneId,
    plan: &Plan,
) -> anyhow::Result<Result<(String, LaneReport), String>> {
    let watch = Watch::start(lane_processes)?;
    let began = Instant::now();
    let engine = match prepared.engine(runtime.clone(), Some(lane)) {
        Ok(engine) => engine,
        Err(error) => match error.downcast::<EngineError>() {
            // This lane's own reason, not that the others were not asked for.
            Ok(EngineError::NoLane(reasons)) => {
                let own = reasons.iter().find(|(id, _)| *id == lane).or(reasons.first());
                return Ok(Err(own.map_or_else(|| "there is none".into(), |(_, reason)| reason.clone())));
            }
            Ok(error) => return Err(error.into()),
            Err(error) => return Err(error),
        },
    };
    engine.wait_for_lanes(Some(lane));
    let load_duration_ms = milliseconds(began.elapsed());
    let mut peak = watch.lap().peak_memory;
    let snapshot = engine.snapshot();
    let status = snapshot.lanes.into_iter().find(|status| status.id == lane).context("the lane is gone")?;
    if status.state != LaneState::Ready {
        return Ok(Err(status.state.hindrance().unwrap_or_default()));
    }
    let folder = prepared.folder(lane).context("the lane has no model folder")?.to_path_buf();
    let files = model_files(&folder).with_context(|| format!("'{}' cannot be read", folder.display()))?;
    let measured = measure(&engine, lane, plan, &watch, &mut |kind, tokens| {
        eprintln!("measuring {lane}: {}", case_name(kind, tokens));
    })?;
    for case in &measured.cases {
        if let (Reading::Measured(peak), Some(bytes)) = (&mut peak, case.peak_memory_bytes.value) {
            *peak = bytes.max(*peak);
        }
    }
    let report = LaneReport {
        lane: lane.to_string(),
        execution_provider: status.execution_provider,
        device: status.device,
        emulated: status.emulated,
        threads: status.threads.map(|threads| threads.count),
        spinning: status.threads.map(|threads| threads.spinning),
        threads_chosen_by: status.threads.map(|threads| threads.chosen_by.name()),
        context_limit: status.context_limit,
        folder,
        files,
        load_duration_ms,
        peak_memory_bytes: Reported::from(peak),
        cases: measured.cases,
        skipped: measured.skipped,
    };
    Ok(Ok((snapshot.model, report)))
}

fn versions(prepared: &Prepared, runtime: &OnnxRuntime, lanes: &[LaneReport]) -> Versions {
    let cpu = runtime.devices().into_iter().find(|device| device.execution_provider == CPU_PROVIDER);
    let has_npu = lanes.iter().any(|lane| lane.lane == LaneId::Npu.name());
    let backend = prepared.qnn_backend().filter(|_| has_npu);
    Versions {
        ortalk: env!("CARGO_PKG_VERSION"),
        onnx_runtime: cpu.and_then(|device| device.provider_version),
        qnn_sdk: backend.and_then(SdkVersion::of_backend).map(|version| version.to_string()),
    }
}

/// A case as people read it.
fn case_name(kind: Kind, tokens: usize) -> String {
    format!("{} of {tokens} tokens", kind.name())
}

/// After the name of a lane, and after each of its figures.
fn mark(emulated: bool) -> &'static str {
    if emulated { " (emulated)" } else { "" }
}

/// Four significant digits: what a measurement on a shared machine is good for.
fn digits(value: f64) -> String {
    match value.abs() {
        v if v < 9.9995 => format!("{value:.3}"),
        v if v < 99.995 => format!("{value:.2}"),
        v if v < 999.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// "+3.4 %"
fn percent(part: f64) -> String {
    format!("{:+.1} %", part * 100.0)
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.0} MiB", bytes as f64 / f64::from(1 << 20))
}

/// One line about the machine and the versions, and one about how it stood.
fn conditions(conditions: &Conditions) -> [String; 2] {
    let Conditions { machine, versions, before, after } = conditions;
    let count = |count: Option<usize>, what: &str| count.map(|count| format!("{count} {what}"));
    let what = [
        Some(machine.processor.clone().unwrap_or_else(|| machine.architecture.into())),
        count(machine.cores, "cores"),
        machine.system.clone(),
        Some(format!("ortalk {}", versions.ortalk)),
        versions.onnx_runtime.as_ref().map(|version| format!("ONNX Runtime {version}")),
        versions.qnn_sdk.as_ref().map(|version| format!("QNN SDK {version}")),
    ];
    let both = |before: Option<f64>, after: Option<f64>, unit: &str| {
        before.zip(after).map(|(before, after)| format!("{before:.1}{unit} before, {after:.1}{unit} after"))
    };
    let standing = [
        both(before.cpu_percent.value, after.cpu_percent.value, " %").map(|text| format!("other load {text}")),
        both(before.load_average.value, after.load_average.value, "").map(|text| format!("load average {text}")),
        both(before.cpu_celsius.value, after.cpu_celsius.value, " °C"),
        before.governor.value.as_ref().map(|governor| format!("governor {governor}")),
        before.on_battery.value.map(|battery| if battery { "on battery".into() } else { "on mains".into() }),
    ];
    let joined = |parts: &[Option<String>]| parts.iter().flatten().cloned().collect::<Vec<_>>().join(", ");
    [joined(&what), joined(&standing)]
}

#[cfg(test)]
mod fixtures;
