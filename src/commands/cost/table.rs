//! The sums as a person reads them.

use std::fmt::Write;
use std::path::Path;

use super::{Costs, Group};
use crate::ledger::{Total, money};

/// Between two columns.
const GAP: &str = "  ";

pub fn table(costs: &Costs, settings: &Path, ledger: &Path) -> String {
    let mut text = String::new();
    if costs.total.answers == 0 {
        let since = if costs.since.is_some() { " since then" } else { "" };
        let _ = writeln!(text, "No answer is in the ledger{since}: '{}'", ledger.display());
        notes(&mut text, costs, settings, ledger);
        return text;
    }
    let lanes = costs.by_lane.iter().map(|(group, total)| (vec![group.model.clone(), lane(group)], total));
    let lanes: Vec<_> = lanes.chain([(vec!["total".into(), String::new()], &costs.total)]).collect();
    write_table(&mut text, &["model", "lane"], &lanes);
    text += "\n";
    let mut last = None;
    let days = costs.by_day.iter().map(|(group, total)| {
        // A day is named once.
        let day = group.day.filter(|_| last != Some(group.day)).map(|day| day.to_string()).unwrap_or_default();
        last = Some(group.day);
        (vec![day, group.model.clone(), lane(group)], total)
    });
    write_table(&mut text, &["day", "model", "lane"], &days.collect::<Vec<_>>());
    text += "\n";
    notes(&mut text, costs, settings, ledger);
    text
}

fn lane(group: &Group) -> String {
    let name = if group.lane.is_empty() { "none" } else { &group.lane };
    if group.emulated { format!("{name} (emulated)") } else { name.to_owned() }
}

fn write_table(text: &mut String, keys: &[&str], rows: &[(Vec<String>, &Total)]) {
    let heads = ["answers", "in", "reused", "out", "energy", "a token", "electricity", "remote", "cloud", "difference"];
    let mut lines: Vec<Vec<String>> = vec![keys.iter().chain(&heads).map(|head| (*head).to_owned()).collect()];
    for (key, total) in rows {
        lines.push(key.iter().cloned().chain(columns(total)).collect());
    }
    // What no row has is no column.
    let is_shown = |column: usize| lines[1..].iter().any(|line| !line[column].is_empty()) || column < keys.len() + 4;
    let shown: Vec<usize> = (0..lines[0].len()).filter(|column| is_shown(*column)).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    for line in &lines {
        let cells = shown.iter().map(|column| {
            let (cell, width) = (&line[*column], width(*column));
            if *column < keys.len() { format!("{cell:width$}") } else { format!("{cell:>width$}") }
        });
        let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join(GAP).trim_end());
    }
}

/// Each sum; where it is not of all answers, of how many.
fn columns(total: &Total) -> Vec<String> {
    let part = |value: String, answers: u64| match answers {
        0 => String::new(),
        answers if answers < total.answers => format!("{value} ({answers})"),
        _ => value,
    };
    let mut columns: Vec<String> =
        [total.answers, total.tokens_in, total.tokens_reused, total.tokens_out].map(|count| count.to_string()).into();
    columns.push(part(energy(total.joules), total.measured_answers));
    columns.push(total.joules_per_token().map(energy).unwrap_or_default());
    // Amounts of several currencies are no sum.
    let amounts = |amount: fn(&crate::ledger::Money) -> (f64, u64)| {
        let each = total.money.iter().filter(|(_, sums)| amount(sums).1 > 0);
        let each = each.map(|(currency, sums)| part(money(amount(sums).0, currency), amount(sums).1));
        each.collect::<Vec<_>>().join(" + ")
    };
    columns.push(amounts(|sums| (sums.electricity, sums.electricity_answers)));
    columns.push(amounts(|sums| (sums.remote, sums.remote_answers)));
    columns.push(amounts(|sums| (sums.cloud, sums.cloud_answers)));
    columns.push(amounts(|sums| (sums.difference, sums.difference_answers)));
    columns
}

/// `0.42 J`, `24.4 J`, `1.20 Wh`, `2.35 kWh`: three digits or more.
fn energy(joules: f64) -> String {
    match joules {
        j if j < 10.0 => format!("{j:.2} J"),
        j if j < 1000.0 => format!("{j:.1} J"),
        j if j < 3.6e6 => format!("{:.2} Wh", j / 3600.0),
        j => format!("{:.2} kWh", j / 3.6e6),
    }
}

/// What the numbers leave out, and what they are made of.
fn notes(text: &mut String, costs: &Costs, settings: &Path, ledger: &Path) {
    let total = &costs.total;
    let mut note = |line: String| {
        let _ = writeln!(text, "{line}");
    };
    if total.measured_answers > 0 {
        note(
            "Energy is above what the machine uses anyway. A number in brackets says of how many answers a sum is."
                .into(),
        );
    }
    if !total.money.is_empty() {
        note(
            "The difference is the cloud's bill less what was spent here, over answers of which both are known;".into(),
        );
        note("the cloud bills prompts in full, whether or not a cache here had them.".into());
    }
    for (reason, answers) in &costs.unmeasured {
        note(format!("The energy of {} was not measured: {reason}.", plural(*answers)));
    }
    if total.answers_with_idle > 0 {
        let answers = plural(total.answers_with_idle);
        note(format!("The energy of {answers} has idle power in it: no idle time was seen beside them."));
    }
    if total.answers_at_todays_prices > 0 {
        note(format!("{} had no prices set, reckoned at today's.", plural(total.answers_at_todays_prices)));
    }
    if costs.today.is_none() {
        note(format!("No prices are set. In '{}':", settings.display()));
        note("  [cost]\n  currency = \"EUR\"\n  electricity-per-kwh = 0.30".into());
        note("  cloud-per-million = { input = 0.50, output = 2.00 }   # of a service to compare with".into());
    }
    let left_out = costs.left_out;
    if left_out.damaged > 0 {
        note(format!("Left out: {}, damaged, of '{}'.", lines(left_out.damaged), ledger.display()));
    }
    if left_out.newer > 0 {
        note(format!("Left out: {}, by a newer ortalk, of '{}'.", lines(left_out.newer), ledger.display()));
    }
}

fn plural(answers: u64) -> String {
    if answers == 1 { "1 answer".into() } else { format!("{answers} answers") }
}

fn lines(count: usize) -> String {
    if count == 1 { "1 line".into() } else { format!("{count} lines") }
}

#[cfg(test)]
mod tests {
    use chrono::Utc;

    use super::super::Costs;
    use super::*;
    use crate::ledger::{Entry, EntryEnergy, LeftOut, Prices, TokenPrices, VERSION};

    /// Amounts are worked out in `ledger::totals` and `ledger::prices`; this is about looks.
    #[test]
    fn the_table() {
        let prices = Prices {
            currency: "EUR".into(),
            electricity_per_kwh: Some(0.3),
            cloud_per_million: Some(TokenPrices { input: 0.5, output: 2.0 }),
        };
        let entry = |time: &str, lane: &str, joules: Option<f64>| Entry {
            v: VERSION,
            time: time.into(),
            via: "chat".into(),
            model: "SmolLM2-135M-Instruct".into(),
            lane: lane.into(),
            emulated: lane.starts_with("npu"),
            finish: "stop".into(),
            tokens_in: 1000,
            tokens_reused: 900,
            tokens_out: 50,
            seconds: 2.5,
            energy: EntryEnergy {
                joules,
                idle_watts: joules.map(|_| 4.0),
                reason: joules.is_none().then(|| "no readable sensor".into()),
                ..EntryEnergy::default()
            },
            prices: Some(prices.clone()),
            remote_cost: (lane == "remote").then_some(0.004),
        };
        let mut costs = Costs::new(None, Some(prices.clone()));
        for (time, lane, joules) in [
            ("2026-03-04T05:06:07Z", "cpu", Some(18.0)),
            ("2026-03-04T23:59:59Z", "cpu", None),
            ("2026-03-05T00:00:00Z", "cpu", Some(36.0)),
            ("2026-03-05T09:00:00Z", "npu+cpu", Some(5400.0)),
            ("2026-03-05T10:00:00Z", "remote", None),
        ] {
            costs.add(&entry(time, lane, joules), &Utc);
        }
        let mut unpriced = entry("2026-03-05T11:00:00Z", "", None);
        unpriced.prices = None;
        costs.add(&unpriced, &Utc);
        costs.left_out = LeftOut { damaged: 2, newer: 1 };
        let (settings, ledger) = (Path::new("/c/config.toml"), Path::new("/d/ledger.jsonl"));
        insta::assert_snapshot!("table", table(&costs, settings, ledger));

        let mut bare = Costs::new(None, None);
        insta::assert_snapshot!("empty", table(&bare, settings, ledger));
        let mut plain = entry("2026-03-04T05:06:07Z", "cpu", None);
        plain.prices = None;
        bare.add(&plain, &Utc);
        insta::assert_snapshot!("nothing_known", table(&bare, settings, ledger));
    }

    #[test]
    fn energies_have_fitting_units() {
        let shown = [0.417, 24.43, 999.0, 4320.0, 8_460_000.0].map(energy);
        assert_eq!(shown, ["0.42 J", "24.4 J", "999.0 J", "1.20 Wh", "2.35 kWh"]);
    }
}
