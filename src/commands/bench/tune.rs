//! `ortalk bench --tune`: runs the races of `crate::bench::tune`, shows what came of them, and stores it where that is wanted.

use std::fmt::Write;
use std::io::{BufRead, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::super::fetch::AfterFetch;
use super::super::run::print_now;
use super::super::session::{self, Prepared};
use super::super::tuning::Tunings;
use super::{chat_args, conditions, digits, percent, versions};
use crate::bench::tune::{
    Entry, Progress, RaceReport, Standing as Place, TURN_ANSWER, TURN_PROMPT, Timer, Tuned, Work, compare, search,
};
use crate::bench::{Conditions, Standing, noise};
use crate::cli::BenchArgs;
use crate::engine::{ChosenBy, CpuSetting, LaneId};
use crate::telemetry::machine::Machine;
use crate::telemetry::surroundings::Surroundings;

/// As in docs/tune.schema.json.
const SCHEMA_VERSION: u32 = 1;

/// Columns of the longest bar.
const BAR: usize = 20;

/// Everything that is printed.
struct Report {
    started_unix_s: u64,
    model: String,
    folder: PathBuf,
    conditions: Conditions,
    noise: Vec<String>,
    work: Work,
    tuned: Tuned,
}

pub fn run(args: &BenchArgs) -> anyhow::Result<ExitCode> {
    let prepared = session::prepare(&chat_args(args), AfterFetch::Exit)?.silent();
    let report = measure(&prepared, args.tuning.rounds as usize)?;
    let mut tunings = Tunings::open(prepared.paths.tuning_file());
    let mut store = || tunings.keep(&prepared.model, &prepared.library, report.tuned.chosen);
    if args.json {
        if args.tuning.store {
            store()?;
        }
        print_now(&format!("{}\n", serde_json::to_string_pretty(&as_json(&report, args.tuning.store))?))?;
        return Ok(ExitCode::SUCCESS);
    }
    print_now(&text(&report))?;
    let file = prepared.paths.tuning_file();
    if wants_it_stored(args, !report.noise.is_empty())? {
        store()?;
        eprintln!("stored in '{}': the CPU lane uses it for this model from now on", file.display());
        if prepared.settings.threads.is_some() {
            eprintln!("but not before threads is taken out of '{}'", prepared.paths.settings_file().display());
        }
    } else {
        eprintln!("not stored; --store does it without asking");
    }
    Ok(ExitCode::SUCCESS)
}

/// As the arguments say, or as a person on a terminal does. What was found on a machine that was disturbed is stored only by
/// a plain yes.
fn wants_it_stored(args: &BenchArgs, disturbed: bool) -> anyhow::Result<bool> {
    if args.tuning.store || args.tuning.no_store {
        return Ok(args.tuning.store);
    }
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Ok(false);
    }
    eprint!("use this for chats with this model? {} ", if disturbed { "[y/N]" } else { "[Y/n]" });
    let mut answer = String::new();
    // Nothing at all is the end of the input, not a yes.
    let read = std::io::stdin().lock().read_line(&mut answer)?;
    Ok(match answer.trim().to_lowercase().as_str() {
        "" => read > 0 && !disturbed,
        answer => matches!(answer, "y" | "yes"),
    })
}

fn measure(prepared: &Prepared, rounds: usize) -> anyhow::Result<Report> {
    let runtime = prepared.runtime()?;
    let started_unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let before: Standing = Surroundings::look().into();
    let mut model = String::new();
    let open = Box::new(|setting| {
        let engine = prepared.engine_with(runtime.clone(), (setting, ChosenBy::Tuning))?;
        engine.wait_for_lanes(Some(LaneId::Cpu));
        model = engine.snapshot().model;
        Ok(engine)
    });
    eprintln!("tuning: what takes how long");
    let (mut timer, mut space) = Timer::new(session::default_cpu(), session::usable_threads(), open)?;
    space.rounds = rounds;
    let mut said = "";
    let tuned = search(&space, &mut |progress: Progress, decodes| {
        if said != progress.of {
            said = progress.of;
            eprintln!("tuning: {}", name(said));
        }
        timer.time(progress.setting, decodes)
    })?;
    let work = timer.work();
    drop(timer);
    let after = Surroundings::look().into();
    let conditions =
        Conditions { machine: Machine::look(), versions: versions(prepared, &runtime, &[]), before, after };
    let (noise, folder) = (noise(&conditions, &[]), prepared.model.clone());
    Ok(Report { started_unix_s, model, folder, noise, conditions, work, tuned })
}

/// A race's name, for people.
fn name(of: &str) -> &str {
    match of {
        "threads" => "thread counts",
        "spinning" => "spinning",
        "pass" => "tokens of a prompt's pass",
        "default" => "beside the default",
        other => other,
    }
}

fn text(report: &Report) -> String {
    let mut text = format!("{}\n", report.model);
    for line in conditions(&report.conditions) {
        let _ = writeln!(text, "{line}");
    }
    let Work { prompt_tokens, generated_tokens } = report.work;
    let _ = writeln!(
        text,
        "a turn is {TURN_PROMPT} tokens of prompt and {TURN_ANSWER} of answer, reckoned from {prompt_tokens} and \
         {generated_tokens} that were measured; medians"
    );
    let Tuned { chosen, default, races } = &report.tuned;
    for race in races.iter().filter(|race| race.of != "default") {
        write_curve(&mut text, race);
    }
    let _ = writeln!(text, "\nbest here: {}", chosen);
    match report.tuned.check().and_then(|race| against_default(race, *chosen, *default)) {
        Some(beside) => {
            let _ = writeln!(text, "{beside}");
        }
        None if chosen == default => text.push_str("which is the default\n"),
        None => {}
    }
    if !report.noise.is_empty() {
        text += "\nDisturbed:\n";
        text.extend(report.noise.iter().map(|line| format!("  {line}\n")));
    }
    text
}

/// One row for each setting. The bars are speeds: the fastest has the longest.
fn write_curve(text: &mut String, race: &RaceReport) {
    let label = |CpuSetting { threads, spinning, prefill_chunk }: CpuSetting| match race.of {
        "pass" => prefill_chunk.to_string(),
        _ => format!("{threads}{}", if spinning { " spinning" } else { "" }),
    };
    let _ = writeln!(
        text,
        "\n{:18}{:BAR$}{:>9}{:>18}{:>19}{:>8}",
        if race.of == "pass" { "tokens of a pass" } else { "threads" },
        "",
        "turn, s",
        "decode, tokens/s",
        "prefill, tokens/s",
        "rounds"
    );
    let mut entries: Vec<&Entry> = race.entries.iter().collect();
    entries.sort_by_key(|entry| entry.setting);
    let fastest = entries.iter().map(|entry| entry.turn_ms()).fold(f64::INFINITY, f64::min);
    for entry in entries {
        let turn = entry.turn_ms();
        let length = (fastest / turn * (BAR * 8) as f64).round() as usize;
        // Without a decode it is no turn.
        let decode = entry.decode_tokens_per_second();
        let _ = writeln!(
            text,
            "{:18}{:BAR$}{:>9}{:>18}{:>19}{:>8}  {}",
            label(entry.setting),
            bar(length),
            decode.map_or("-".into(), |_| digits(turn / 1e3)),
            decode.map_or("-".into(), digits),
            entry.prefill_tokens_per_second().map_or("-".into(), digits),
            entry.timings.len(),
            standing(entry)
        );
    }
}

/// So many eighths of a column.
fn bar(eighths: usize) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    "█".repeat(eighths / 8) + PARTS[eighths % 8]
}

fn standing(entry: &Entry) -> String {
    let interval = |(low, high): (f64, f64)| format!(" ({} to {})", percent(low - 1.0), percent(high - 1.0));
    let beside = format!("{}{}", percent(entry.ratio - 1.0), entry.interval.map(interval).unwrap_or_default());
    match entry.standing {
        Place::Fastest => "fastest".into(),
        Place::Slower => format!("slower, {beside}"),
        Place::Equal => format!("not told apart, {beside}"),
    }
}

/// The default beside what was chosen; where the default was, the other one.
fn against_default(race: &RaceReport, chosen: CpuSetting, default: CpuSetting) -> Option<String> {
    let of = |setting: CpuSetting| race.entries.iter().find(|entry| entry.setting == setting);
    let other =
        if chosen == default { race.entries.iter().find(|entry| entry.setting != default)? } else { of(default)? };
    let compared = compare(&other.timings, &of(chosen)?.timings);
    let interval = compared.interval.map(|(low, high)| format!(" ({low:.3} to {high:.3}, 95 % confidence interval)"));
    let what = if chosen == default { "what the races chose" } else { "the default" };
    let (other, ratio, interval) = (other.setting, compared.ratio, interval.unwrap_or_default());
    Some(format!("{what}, {other}, takes {ratio:.3} times as long for a turn{interval}"))
}

fn as_json(report: &Report, stored: bool) -> Value {
    let Tuned { chosen, default, races } = &report.tuned;
    let entry = |entry: &Entry| {
        json!({
            "setting": entry.setting,
            "rounds": entry.timings.len(),
            "standing": entry.standing,
            "ratio": entry.ratio,
            "interval": entry.interval,
            "turn_ms": entry.decode_tokens_per_second().map(|_| entry.turn_ms()),
            "prefill_tokens_per_second": entry.prefill_tokens_per_second(),
            "decode_tokens_per_second": entry.decode_tokens_per_second(),
            "timings": entry.timings,
        })
    };
    let race =
        |race: &RaceReport| json!({"of": race.of, "entries": race.entries.iter().map(entry).collect::<Vec<_>>()});
    json!({
        "schema_version": SCHEMA_VERSION,
        "started_unix_s": report.started_unix_s,
        "model": report.model,
        "folder": report.folder,
        "conditions": report.conditions,
        "turn": {"prompt_tokens": TURN_PROMPT, "answer_tokens": TURN_ANSWER},
        "measured": report.work,
        "races": races.iter().map(race).collect::<Vec<_>>(),
        "chosen": chosen,
        "default": default,
        "stored": stored,
        "noise": report.noise,
    })
}

#[cfg(test)]
mod tests {
    use super::super::fixtures;
    use super::*;
    use crate::bench::tune::{Space, Timing};

    /// A machine whose third thread still helps, and its fourth does not; spinning takes this part of a decode's time.
    fn tuned(spinning: f64) -> Report {
        let space = Space { default: CpuSetting::with_threads(4), threads: 4, chunks: vec![64, 128, 256], rounds: 12 };
        let time = |progress: Progress, decodes: bool| {
            let CpuSetting { threads, spinning: spins, prefill_chunk } = progress.setting;
            let thread = 0.5 + 0.5 / threads as f64 + 0.25 * (threads / 4) as f64;
            let decode = 16.0 * thread * if spins { spinning } else { 1.0 };
            let pass = if prefill_chunk == 256 { 1.25 } else { 1.0 };
            Ok(Timing { prefill_token_ms: 2.0 * thread * pass, decode_token_ms: decodes.then_some(decode) })
        };
        let model = fixtures::report();
        Report {
            started_unix_s: 1_800_000_000,
            model: model.model,
            folder: PathBuf::from("/models/smollm2"),
            noise: vec!["other programs used 12 % of the CPU before the run".into()],
            conditions: model.conditions,
            work: Work { prompt_tokens: 512, generated_tokens: 32 },
            tuned: search::<()>(&space, &mut { time }).unwrap(),
        }
    }

    #[test]
    fn the_curve() {
        insta::assert_snapshot!("spinning_helps", text(&tuned(0.8)));
        insta::assert_snapshot!("spinning_hurts", text(&tuned(1.1)));
    }

    #[test]
    fn bars_are_as_long_as_they_are_meant_to_be() {
        assert_eq!([bar(0), bar(1), bar(8), bar(20)], ["", "▏", "█", "██▌"]);
    }
}
