//! The report as a person reads it.

use std::fmt::Write;

use super::{case_name, conditions, digits, mark, mebibytes, percent};
use crate::bench::{Case, Comparison, Difference, LaneReport, Ratio, Report, Reported};
use crate::engine::ChosenBy;
use crate::telemetry::statistics::Summary;

/// Columns of the label before the numbers.
const LABEL: usize = 32;
const COLUMN: usize = 9;

type Column = (&'static str, fn(&Summary) -> String);

const COLUMNS: [Column; 9] = [
    ("mean", |s| digits(s.mean)),
    ("std", |s| digits(s.std_dev)),
    ("cv %", |s| s.coefficient_of_variation.map_or("-".into(), |cv| format!("{:.1}", cv * 100.0))),
    ("min", |s| digits(s.min)),
    ("p50", |s| digits(s.p50)),
    ("p90", |s| digits(s.p90)),
    ("p95", |s| digits(s.p95)),
    ("p99", |s| digits(s.p99)),
    ("max", |s| digits(s.max)),
];

pub fn table(report: &Report) -> String {
    let plan = &report.plan;
    let mut text = format!("{}\n", report.model);
    for line in conditions(&report.conditions) {
        let _ = writeln!(text, "{line}");
    }
    let _ = writeln!(
        text,
        "{} requests for each case after {} to warm up, {} tokens generated after each prompt",
        plan.repetitions, plan.warmup, plan.generated_tokens
    );
    for lane in &report.lanes {
        write_lane(&mut text, lane);
    }
    for lane in &report.not_measured {
        let _ = writeln!(text, "\n{}: not measured: {}", lane.lane, lane.reason);
    }
    for ratio in &report.ratios {
        write_ratio(&mut text, ratio);
    }
    if let Some(comparison) = &report.comparison {
        write_comparison(&mut text, comparison);
    }
    if !report.noise.is_empty() {
        text += "\nDisturbed:\n";
        text.extend(report.noise.iter().map(|line| format!("  {line}\n")));
    }
    text
}

fn write_lane(text: &mut String, lane: &LaneReport) {
    let emulated = mark(lane.emulated);
    let threads = lane.threads.map(|threads| format!(", {threads} threads")).unwrap_or_default();
    let spinning = if lane.spinning == Some(true) { ", spinning" } else { "" };
    let tuned = if lane.threads_chosen_by == Some(ChosenBy::Tuning.name()) { ", tuned" } else { "" };
    let device = lane.device.as_ref().map(|device| format!(", {device}")).unwrap_or_default();
    let _ = writeln!(text, "\n{}{emulated}: {}{device}{threads}{spinning}{tuned}", lane.lane, lane.execution_provider);
    let _ = writeln!(text, "  {:LABEL$}{} ms{emulated}", "load", digits(lane.load_duration_ms));
    let memory = reported(&lane.peak_memory_bytes, |bytes| mebibytes(*bytes) + emulated);
    let _ = writeln!(text, "  {:LABEL$}{memory}", "peak memory");
    for case in &lane.cases {
        write_case(text, case);
    }
    for skipped in &lane.skipped {
        let _ = writeln!(text, "\n  {}: skipped: {}", case_name(skipped.kind, skipped.prompt_tokens), skipped.reason);
    }
}

fn write_case(text: &mut String, case: &Case) {
    let emulated = mark(case.emulated);
    let heads: String = COLUMNS.iter().map(|(head, _)| format!("{head:>COLUMN$}")).collect();
    let _ = writeln!(text, "\n  {:LABEL$}{heads}", case_name(case.kind, case.prompt_tokens));
    for (number, summary) in case.numbers() {
        if let Some(summary) = summary {
            let values: String = COLUMNS.iter().map(|(_, value)| format!("{:>COLUMN$}", value(summary))).collect();
            let _ = writeln!(text, "    {:width$}{values}{emulated}", label(number), width = LABEL - 2);
        }
    }
    let energy = reported(&case.energy_joules, |joules| {
        let each = joules / case.samples.len() as f64;
        format!("{} J a request, of {}{emulated}", digits(each), case.energy_source.as_deref().unwrap_or("unknown"))
    });
    let _ = writeln!(text, "    {:width$}{energy}", "energy", width = LABEL - 2);
}

/// The numbers' names with their units.
fn label(number: &str) -> &str {
    match number {
        "request_ttft_duration_ms" => "TTFT, request, ms",
        "model_ttft_duration_ms" => "TTFT, model, ms",
        "prefill_duration_ms" => "prefill, ms",
        "prefill_tokens_per_second" => "prefill, tokens/s",
        "steady_state_decode_tokens_per_second" => "decode, tokens/s",
        "steady_state_tpot_ms" => "time per token, ms",
        "token_latency_ms" => "token latency, ms",
        "request_duration_ms" => "request, ms",
        other => other,
    }
}

fn write_ratio(text: &mut String, ratio: &Ratio) {
    let emulated = mark(ratio.emulated);
    let case = case_name(ratio.kind, ratio.prompt_tokens);
    let _ = writeln!(text, "\n{} / {}, {case}{emulated}", ratio.lane, ratio.against);
    let rows = [
        ("prefill, tokens/s", ratio.prefill_tokens_per_second),
        ("decode, tokens/s", ratio.steady_state_decode_tokens_per_second),
        ("TTFT, request", ratio.request_ttft_duration_ms),
        ("stability (std) of prefill", ratio.stability.prefill_duration_ms),
        ("stability (std) of token latency", ratio.stability.token_latency_ms),
    ];
    for (label, value) in rows {
        if let Some(value) = value {
            let _ = writeln!(text, "  {label:LABEL$} {:>8}{emulated}", digits(value));
        }
    }
}

fn write_comparison(text: &mut String, comparison: &Comparison) {
    let _ = writeln!(text, "\nSince {} (95 % confidence interval):", comparison.old.display());
    for line in &comparison.differing_conditions {
        let _ = writeln!(text, "  not the same: {line}");
    }
    if comparison.differences.is_empty() {
        text.push_str("  no case is in both\n");
    }
    for difference in &comparison.differences {
        let Difference { lane, emulated, kind, prompt_tokens, number, old, new, change } = difference;
        let case = format!("{lane}, {} of {prompt_tokens}, {}", kind.name(), label(number));
        let _ = writeln!(
            text,
            "  {case:48}{:>9} -> {:>9}  {}{}",
            digits(*old),
            digits(*new),
            changed(change),
            mark(*emulated)
        );
    }
}

/// "+3.4 % (+1.0 % to +5.9 %)"; says where it may be chance.
pub fn changed(change: &crate::telemetry::statistics::Change) -> String {
    let sure = if change.is_sure() { "" } else { ", may be chance" };
    match change.interval {
        Some((low, high)) => format!("{} ({} to {}{sure})", percent(change.change), percent(low), percent(high)),
        None => format!("{} (too few values for an interval)", percent(change.change)),
    }
}

fn reported<T>(reported: &Reported<T>, show: impl Fn(&T) -> String) -> String {
    match &reported.value {
        Some(value) => show(value),
        None => reported.reason.clone().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::report;
    use super::*;

    #[test]
    fn the_table() {
        insta::assert_snapshot!(table(&report()));
    }
}
