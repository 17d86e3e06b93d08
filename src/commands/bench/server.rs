//! `ortalk bench --server URL`: loads a server (`crate::bench::server`) and prints what its clients saw.

use std::fmt::Write;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::bail;

use super::super::run::print_now;
use super::digits;
use crate::bench::server::{Asker, Level, ServerPlan, ServerReport, load};
use crate::cli::BenchArgs;
use crate::remote::{ApiKey, Endpoint};
use crate::telemetry::machine::Machine;
use crate::telemetry::statistics::Summary;

/// As in docs/server-bench.schema.json.
const SCHEMA_VERSION: u32 = 1;

/// Columns of the table, without the first.
const COLUMNS: [&str; 7] = [
    "tokens/s",
    "scaling",
    "requests/s",
    "TTFT p50 / p95 / p99, ms",
    "inter-token p50 / p95 / p99, ms",
    "TPOT, ms",
    "request p50 / p99, ms",
];

pub fn run(args: &BenchArgs, address: &str) -> anyhow::Result<ExitCode> {
    let plan = plan(args)?;
    let variable = &args.server.api_key_env;
    let key = match std::env::var(variable) {
        Ok(key) => Some(ApiKey::parse(&key, variable)?),
        Err(_) => None,
    };
    let endpoint = Endpoint::parse(address, key)?;
    let started_unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let model = args.model.as_ref().map(|model| model.to_string_lossy().into_owned());
    let (model, levels) = load(&endpoint, model, &plan, &mut |clients| {
        eprintln!("loading {} with {}", endpoint.host(), count(clients, "client"));
    })?;
    let client =
        Asker { ortalk: env!("CARGO_PKG_VERSION"), machine: Machine::look(), is_server: endpoint.is_loopback() };
    let report = ServerReport {
        schema_version: SCHEMA_VERSION,
        started_unix_s,
        server: endpoint.url().to_owned(),
        model,
        client,
        plan,
        levels,
    };
    print_now(&match (args.json, args.markdown) {
        (true, _) => format!("{}\n", serde_json::to_string_pretty(&report)?),
        (_, true) => markdown(&report),
        _ => table(&report),
    })?;
    let completed: usize = report.levels.iter().map(|level| level.completed).sum();
    // The report says why.
    Ok(if completed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn plan(args: &BenchArgs) -> anyhow::Result<ServerPlan> {
    let concurrency: Vec<usize> = args.server.concurrency.iter().map(|clients| usize::from(*clients)).collect();
    let requests = args.server.requests as usize;
    if let Some(clients) = concurrency.iter().find(|clients| **clients > requests) {
        bail!("--concurrency {clients} needs at least as many requests; --requests is {requests}");
    }
    // The first request finds out whether the server answers at all.
    let warmup = (args.warmup as usize).max(1);
    Ok(ServerPlan { concurrency, requests, max_tokens: args.tokens as usize, warmup })
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// In the order of the columns.
fn cells(level: &Level) -> [String; 7] {
    let none = || "-".to_owned();
    let number = |value: Option<f64>| value.map_or_else(none, digits);
    let estimated = if level.tokens_estimated { "est. " } else { "" };
    let join = |values: &[f64]| values.iter().map(|value| digits(*value)).collect::<Vec<_>>().join(" / ");
    let three = |summary: &Option<Summary>| summary.as_ref().map_or_else(none, |s| join(&[s.p50, s.p95, s.p99]));
    [
        level.tokens_per_second.map_or_else(none, |rate| format!("{estimated}{}", digits(rate))),
        level.scaling.map_or_else(none, |scaling| format!("{scaling:.2}")),
        number(level.requests_per_second),
        three(&level.request_ttft_duration_ms),
        three(&level.inter_token_latency_ms),
        level.steady_state_tpot_ms.map_or_else(none, |tpot| format!("{estimated}{}", digits(tpot.mean))),
        level.request_duration_ms.as_ref().map_or_else(none, |s| join(&[s.p50, s.p99])),
    ]
}

fn head(report: &ServerReport) -> String {
    let ServerPlan { requests, max_tokens, warmup, .. } = report.plan;
    format!(
        "{} at {}: {requests} requests for each number of clients after {warmup} to warm up, answers of at most {max_tokens} \
         tokens",
        report.model, report.server
    )
}

/// What makes the numbers less than they seem, and what failed.
fn notes(report: &ServerReport) -> Vec<String> {
    let mut notes = Vec::new();
    if report.client.is_server {
        notes.push("the clients ran on the server's machine".to_owned());
    }
    if report.levels.iter().any(|level| level.tokens_estimated) {
        notes.push("est.: the server does not count tokens; the pieces of its stream were counted".to_owned());
    }
    for level in &report.levels {
        for error in &level.errors {
            let (clients, count, kind) = (count(level.concurrency, "client"), error.count, error.kind);
            notes.push(format!("{clients}: {count} of {} failed ({kind}): {}", report.plan.requests, error.first));
        }
    }
    notes
}

fn table(report: &ServerReport) -> String {
    let mut text = format!("{}\n\n", head(report));
    let rows: Vec<[String; 7]> = report.levels.iter().map(cells).collect();
    let wide = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = COLUMNS.iter().enumerate().map(|(at, head)| head.len().max(wide(at))).collect();
    let line = |first: &str, cells: &[&str]| {
        let cells = cells.iter().zip(&widths).map(|(cell, width)| format!("  {cell:>width$}"));
        format!("{first:>7}{}\n", cells.collect::<String>())
    };
    text += &line("clients", &COLUMNS);
    for (level, row) in report.levels.iter().zip(&rows) {
        text += &line(&level.concurrency.to_string(), &row.each_ref().map(String::as_str));
    }
    let notes = notes(report);
    if !notes.is_empty() {
        text.push('\n');
        text.extend(notes.iter().map(|note| format!("{note}\n")));
    }
    text
}

fn markdown(report: &ServerReport) -> String {
    let mut text = format!("| clients | {} |\n|{}\n", COLUMNS.join(" | "), " --- |".repeat(COLUMNS.len() + 1));
    for level in &report.levels {
        let _ = writeln!(text, "| {} | {} |", level.concurrency, cells(level).join(" | "));
    }
    let _ = writeln!(text, "\n{}.", head(report));
    let notes = notes(report);
    if !notes.is_empty() {
        text.push('\n');
        text.extend(notes.iter().map(|note| format!("- {}\n", note.replace('\n', " "))));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::fixtures;
    use super::*;
    use crate::bench::server::{Failure, Shot};

    fn level(clients: usize, ttft: u64, counted: bool) -> Level {
        let ms = Duration::from_millis;
        let shot = |index: u64| Shot {
            ttft: ms(ttft + index),
            gaps: vec![ms(12), ms(13 + index)],
            took: ms(ttft + 40),
            prompt_tokens: counted.then_some(30),
            completion_tokens: counted.then_some(3),
        };
        let shots: Vec<Shot> = (0..8).map(shot).collect();
        let failures = [Failure { kind: "busy", said: "h answers too many already (status 429)".into() }];
        let failures = if clients > 1 { &failures[..] } else { &[] };
        let mut level = Level::of(clients, Duration::from_secs(2), &shots, failures);
        level.scaling = Some(1.0);
        level
    }

    fn report(counted: bool) -> ServerReport {
        let machine = fixtures::report().conditions.machine;
        ServerReport {
            schema_version: SCHEMA_VERSION,
            started_unix_s: 1_800_000_000,
            server: "http://127.0.0.1:8080/v1".into(),
            model: "smollm2-135m".into(),
            client: Asker { ortalk: "0.1.0", machine, is_server: counted },
            plan: ServerPlan { concurrency: vec![1, 4], requests: 9, max_tokens: 128, warmup: 2 },
            levels: vec![level(1, 50, counted), level(4, 200, counted)],
        }
    }

    #[test]
    fn what_people_read() {
        insta::assert_snapshot!("server_table", table(&report(true)));
        insta::assert_snapshot!("server_markdown", markdown(&report(false)));
    }
}
