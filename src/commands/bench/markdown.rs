//! The report as Markdown, for a README: one row for each lane and case.

use std::fmt::Write;

use super::table::changed;
use super::{case_name, conditions, digits, mark, mebibytes};
use crate::bench::{Case, LaneReport, Report};
use crate::telemetry::statistics::Summary;

pub fn markdown(report: &Report) -> String {
    let mut text = String::from(
        "| lane | case | TTFT, ms | prefill, tokens/s | decode, tokens/s | token latency p50 / p95 / p99, ms | peak memory |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for lane in &report.lanes {
        for case in &lane.cases {
            write_row(&mut text, lane, case);
        }
    }
    let plan = &report.plan;
    let _ = writeln!(
        text,
        "\n{}; mean ± standard deviation of {} requests after {} to warm up, {} tokens generated after each prompt.",
        report.model, plan.repetitions, plan.warmup, plan.generated_tokens
    );
    for line in conditions(&report.conditions).iter().filter(|line| !line.is_empty()) {
        let _ = writeln!(text, "{line}.");
    }
    let mut notes = Vec::new();
    for lane in &report.lanes {
        if lane.emulated {
            notes.push(format!("{} ran on a simulator: its figures say nothing about the hardware", lane.lane));
        }
        for skipped in &lane.skipped {
            let case = case_name(skipped.kind, skipped.prompt_tokens);
            notes.push(format!("{}, {case}: skipped: {}", lane.lane, skipped.reason));
        }
    }
    notes.extend(report.not_measured.iter().map(|lane| format!("{}: not measured: {}", lane.lane, lane.reason)));
    for ratio in &report.ratios {
        let parts = [
            ("prefill", ratio.prefill_tokens_per_second),
            ("decode", ratio.steady_state_decode_tokens_per_second),
            ("standard deviation of prefill", ratio.stability.prefill_duration_ms),
            ("standard deviation of token latency", ratio.stability.token_latency_ms),
        ];
        let parts: Vec<_> =
            parts.iter().filter_map(|(what, value)| Some(format!("{what} {}", digits((*value)?)))).collect();
        let case = case_name(ratio.kind, ratio.prompt_tokens);
        let lanes = format!("{} / {}{}", ratio.lane, ratio.against, mark(ratio.emulated));
        notes.push(format!("{lanes}, {case}: {}", parts.join(", ")));
    }
    if let Some(comparison) = &report.comparison {
        notes.extend(comparison.differing_conditions.iter().cloned());
        notes.extend(comparison.differences.iter().map(|difference| {
            let case = case_name(difference.kind, difference.prompt_tokens);
            let lane = format!("{}{}", difference.lane, mark(difference.emulated));
            format!("{lane}, {case}, `{}`: {}", difference.number, changed(&difference.change))
        }));
    }
    notes.extend(report.noise.iter().map(|line| format!("disturbed: {line}")));
    if !notes.is_empty() {
        text.push('\n');
        text.extend(notes.iter().map(|note| format!("- {}\n", note.replace('\n', " "))));
    }
    text
}

fn write_row(text: &mut String, lane: &LaneReport, case: &Case) {
    let mark = mark(case.emulated);
    let spread = |summary: &Summary| format!("{} ± {}{mark}", digits(summary.mean), digits(summary.std_dev));
    let none = || "-".to_owned();
    let percentiles = |summary: &Summary| {
        let values = [summary.p50, summary.p95, summary.p99].map(digits);
        format!("{}{mark}", values.join(" / "))
    };
    let cells = [
        format!("{}{mark}", lane.lane),
        case_name(case.kind, case.prompt_tokens),
        spread(&case.request_ttft_duration_ms),
        spread(&case.prefill_tokens_per_second),
        case.steady_state_decode_tokens_per_second.as_ref().map_or_else(none, spread),
        case.token_latency_ms.as_ref().map_or_else(none, percentiles),
        case.peak_memory_bytes.value.map_or_else(none, |bytes| mebibytes(bytes) + mark),
    ];
    let _ = writeln!(text, "| {} |", cells.join(" | "));
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::report;
    use super::*;

    #[test]
    fn the_rows_and_the_notes() {
        insta::assert_snapshot!(markdown(&report()));
    }
}
