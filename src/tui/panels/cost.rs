//! What did it take? Tokens, energy and money of this answer and of this conversation, as far as they are known.

use std::time::Duration;

use ratatui::text::{Line, Span};

use crate::bill::Bill;
use crate::ledger::{Entry, Money, Total, money};

use super::super::format;
use super::super::keys::{Action, Context};
use super::super::skin::{Skin, Text, pad_left, pad_right, width};
use super::super::state::State;
use super::super::text::sanitize::one_line;

const LABEL: usize = 7;
/// Columns of a count before its unit.
const IN: usize = 5;
const OUT: usize = 4;

/// A line about money is there where there are prices.
pub fn rows(state: &State) -> usize {
    2 + usize::from(is_priced(state))
}

fn is_priced(state: &State) -> bool {
    state.prices.is_some() || !state.spent.money.is_empty()
}

pub fn lines(state: &State, skin: &Skin, columns: usize, rows: usize) -> Vec<Text> {
    let mut lines = vec![answer(state, skin, columns), conversation(&state.spent, skin, columns)];
    if is_priced(state) {
        lines.push(spent(state, skin));
    }
    let bills = state.panels.bills();
    let room = rows.saturating_sub(lines.len() + 2);
    if room > 0 && !bills.is_empty() {
        lines.push(Line::default());
        lines.push(Line::from(table(None, skin, columns)));
        let newest = bills.iter().enumerate().rev().take(room);
        lines.extend(newest.map(|(index, entry)| Line::from(table(Some((index + 1, entry)), skin, columns))));
    }
    lines
}

/// A row of the table of the last answers, or its heading: as many columns as there is room for, the most telling first.
/// What was not measured, or has no price, is not there.
fn table(row: Option<(usize, &Entry)>, skin: &Skin, columns: usize) -> Vec<Span<'static>> {
    let values = row.map(|(number, entry)| {
        let lane = one_line(&if entry.emulated { format!("{} emulated", entry.lane) } else { entry.lane.clone() });
        let joules = entry.energy.joules;
        let each = joules.filter(|_| entry.tokens_out > 0 && !entry.emulated).map(|all| all / entry.tokens_out as f64);
        let currency = entry.prices.as_ref().map_or("", |prices| &prices.currency);
        let mut total = Total::default();
        total.add(entry, None);
        let sum = total.money.into_values().next().unwrap_or_default();
        let is_spent = sum.electricity_answers + sum.remote_answers > 0;
        [
            Some(number.to_string()),
            Some(pad_right(&lane, 12)),
            Some(entry.tokens_in.to_string()),
            Some(entry.tokens_out.to_string()),
            joules.map(format::energy),
            Duration::try_from_secs_f64(entry.seconds).ok().map(format::duration),
            is_spent.then(|| money(sum.electricity + sum.remote, currency)),
            (sum.cloud_answers > 0).then(|| money(sum.cloud, currency)),
            each.map(format::rate),
            Some(entry.tokens_reused.to_string()),
        ]
    });
    let headings = ["answer", "lane        ", "in", "out", "energy", "took", "spent", "cloud", "J/tok", "reused"];
    let widths = [6, 14, 7, 6, 10, 9, 15, 13, 8, 8];
    let mut left = columns;
    let mut spans = Vec::new();
    for (at, (heading, width)) in headings.into_iter().zip(widths).enumerate() {
        if width > left {
            break;
        }
        left -= width;
        spans.push(match &values {
            None => skin.dim(pad_left(heading, width)),
            Some(values) => skin.figure(values[at].clone(), width),
        });
    }
    spans
}

/// The last answer's cost for the heading of another panel, where this one has no place: `cost 24.4 J, Shift-Tab`.
pub fn in_short(state: &State, skin: &Skin) -> Option<Text> {
    let joules = state.bill.as_ref()?.entry.energy.joules?;
    let key = state.keys.key(Context::Compose, Action::PreviousPanel)?;
    let mut spans = vec![skin.dim("cost ")];
    spans.extend(measured(joules, skin));
    spans.push(skin.dim(format!(", {key}")));
    Some(Line::from(spans))
}

fn label<'a>(text: &str, skin: &Skin) -> Vec<Span<'a>> {
    vec![skin.dim(pad_right(text, LABEL))]
}

/// `  1000 in   58 out`
fn tokens(input: u64, output: u64, skin: &Skin) -> [Span<'static>; 4] {
    [
        skin.number(pad_left(&input.to_string(), IN)),
        skin.dim(" in  "),
        skin.number(pad_left(&output.to_string(), OUT)),
        skin.dim(" out  "),
    ]
}

fn answer(state: &State, skin: &Skin, columns: usize) -> Text {
    let mut spans = label("answer", skin);
    match (&state.bill, &state.answer) {
        (Some(bill), _) => {
            let (entry, bill) = (&bill.entry, bill.as_ref());
            spans.extend(tokens(entry.tokens_in, entry.tokens_out, skin));
            spans.extend(energy(bill, skin));
            let mut more = vec![];
            if entry.emulated {
                more.extend([skin.dot(), skin.styled(skin.theme.warning, "emulated")]);
            } else if let Some(joules) = entry.energy.joules.filter(|_| entry.tokens_out > 0) {
                let each = joules / entry.tokens_out as f64;
                more.extend([skin.dot(), skin.number(format::rate(each)), skin.dim(" J/tok")]);
            }
            // The rest of the line stays whole.
            if width(&Line::from(spans.clone())) + width(&Line::from(more.clone())) <= columns {
                spans.extend(more);
            }
        }
        (None, Some(answer)) if answer.decision.is_some() => {
            let prompt = answer.decision.as_ref().map_or(0, |decision| decision.prompt_tokens);
            spans.extend(tokens(prompt as u64, answer.tokens as u64, skin));
            spans.extend(no_energy(skin));
        }
        (None, Some(_)) => spans.extend([skin.absent(), skin.dim(" is not kept with the conversation")]),
        (None, None) => spans.extend([skin.absent(), skin.dim(" no answer yet")]),
    }
    Line::from(spans)
}

/// What was measured, or why nothing was.
fn energy(bill: &Bill, skin: &Skin) -> Vec<Span<'static>> {
    match (bill.entry.energy.joules, &bill.entry.energy.reason) {
        (Some(joules), _) => {
            let mut spans = measured(joules, skin).to_vec();
            if bill.entry.energy.idle_watts.is_none() {
                spans.push(skin.dim(" with idle"));
            }
            spans
        }
        (None, Some(reason)) => vec![skin.dim(one_line(reason))],
        (None, None) => no_energy(skin).to_vec(),
    }
}

fn no_energy(skin: &Skin) -> [Span<'static>; 2] {
    [skin.dim("energy "), skin.absent()]
}

fn measured(joules: f64, skin: &Skin) -> [Span<'static>; 2] {
    skin.measure(&format::energy(joules), 0)
}

fn conversation(total: &Total, skin: &Skin, columns: usize) -> Text {
    let mut spans = label("chat", skin);
    if total.answers == 0 {
        spans.push(skin.absent());
        return Line::from(spans);
    }
    spans.extend(tokens(total.tokens_in, total.tokens_out, skin));
    if total.measured_answers == 0 {
        spans.extend(no_energy(skin));
        return Line::from(spans);
    }
    spans.extend(measured(total.joules, skin));
    spans.extend(part(total.measured_answers, total.answers, skin));
    let mut more = vec![];
    if total.answers_with_idle > 0 {
        more.push(skin.dim(" with idle"));
    } else if let Some(each) = total.joules_per_token() {
        more.extend([skin.dot(), skin.number(format::rate(each)), skin.dim(" J/tok")]);
    }
    if width(&Line::from(spans.clone())) + width(&Line::from(more.clone())) <= columns {
        spans.extend(more);
    }
    Line::from(spans)
}

/// ` (1 of 2)`, where a sum is not of all answers.
fn part(of: u64, answers: u64, skin: &Skin) -> Option<Span<'static>> {
    (of < answers).then(|| skin.dim(format!(" ({of} of {answers})")))
}

/// Of the conversation: what was spent, and what the cloud would have billed.
fn spent(state: &State, skin: &Skin) -> Text {
    let mut spans = label("spent", skin);
    let (currency, sum) = match state.spent.money.iter().next() {
        Some((currency, sum)) => (currency.clone(), sum.clone()),
        None => (state.prices.as_ref().map(|prices| prices.currency.clone()).unwrap_or_default(), Money::default()),
    };
    // A remote answer's bill is there without a sensor.
    let known = sum.electricity_answers.max(sum.remote_answers);
    match known {
        0 => spans.push(skin.absent()),
        _ => spans.push(skin.number(money(sum.electricity + sum.remote, &currency))),
    }
    if known > 0 {
        spans.extend(part(known, state.spent.answers, skin));
    }
    if sum.cloud_answers > 0 {
        spans.extend([skin.dot(), skin.dim("cloud "), skin.number(money(sum.cloud, ""))]);
    }
    Line::from(spans)
}
