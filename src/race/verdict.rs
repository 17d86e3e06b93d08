//! Who was better at what, and by how much.

use std::time::Duration;

use super::table::shown;
use super::{Figures, Order, Race, Standing};
use crate::engine::LaneId;

/// What lanes are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    FirstToken,
    Rate,
    P50,
    P99,
    Sigma,
    Energy,
}

impl Measure {
    pub const ALL: [Self; 6] = [Self::FirstToken, Self::Rate, Self::P50, Self::P99, Self::Sigma, Self::Energy];

    /// Stable names, for JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::FirstToken => "ttft_ms",
            Self::Rate => "tokens_per_second",
            Self::P50 => "p50_ms",
            Self::P99 => "p99_ms",
            Self::Sigma => "std_ms",
            Self::Energy => "joules_per_token",
        }
    }
}

/// The best lane of a measure, beside the next best.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    pub measure: Measure,
    pub winner: LaneId,
    pub next: LaneId,
    /// How many times better, 1 or more; `None` where the best number is 0.
    pub ratio: Option<f64>,
    pub best: f64,
    pub other: f64,
}

/// Numbers that are no further apart than by this factor are the same: one run is no better known.
const SAME: f64 = 1.05;

/// Of each measure that at least two lanes have a number of. Only lanes that came to their end count. Numbers that are the
/// same have no winner.
pub fn compare(race: &Race) -> Vec<Comparison> {
    let of = |measure: Measure| {
        let [(winner, best), (next, other), ..] = *ranked(race, measure).as_slice() else { return None };
        let (less, more) = if best < other { (best, other) } else { (other, best) };
        let ratio = (less > 0.0).then(|| more / less);
        (more > less * SAME).then_some(Comparison { measure, winner, next, ratio, best, other })
    };
    Measure::ALL.into_iter().filter_map(of).collect()
}

/// The lanes that have the number, the best first.
fn ranked(race: &Race, measure: Measure) -> Vec<(LaneId, f64)> {
    let milliseconds = |duration: Duration| duration.as_secs_f64() * 1e3;
    let done = race.racers.iter().filter(|racer| racer.standing(race.over) == Standing::Done);
    let value = |figures: &Figures| match measure {
        Measure::FirstToken => figures.ttft.map(milliseconds),
        Measure::Rate => figures.rate,
        Measure::P50 => figures.latency.map(|latency| milliseconds(latency.p50)),
        Measure::P99 => figures.latency.map(|latency| milliseconds(latency.p99)),
        Measure::Sigma => figures.latency.map(|latency| milliseconds(latency.std_dev)),
        Measure::Energy => figures.joules_per_token,
    };
    let mut values: Vec<_> = done.filter_map(|racer| Some((racer.entrant.lane, value(&racer.figures())?))).collect();
    values.sort_by(|(_, one), (_, other)| one.total_cmp(other));
    if measure == Measure::Rate {
        values.reverse();
    }
    values
}

/// `65.2 and 65.0`, where the two best are the same.
fn even(race: &Race, measure: Measure) -> Option<String> {
    let [(_, best), (_, other), ..] = *ranked(race, measure).as_slice() else { return None };
    let (less, more) = if best < other { (best, other) } else { (other, best) };
    (more <= less * SAME).then(|| format!("{} and {}", shown(measure, best), shown(measure, other)))
}

/// The verdict in words, a sentence each: what was better, and what has to be known about the numbers.
pub fn sentences(race: &Race) -> Vec<String> {
    let compared = compare(race);
    let find = |measure: Measure| compared.iter().find(|comparison| comparison.measure == measure);
    let times = |comparison: &Comparison| comparison.ratio.map(ratio).unwrap_or_default();
    let numbers = |found: &Comparison| (shown(found.measure, found.best), shown(found.measure, found.other));
    let mut said = Vec::new();
    if let Some(rate) = find(Measure::Rate) {
        let (winner, next, (best, other)) = (rate.winner, rate.next, numbers(rate));
        said.push(format!("{winner} gives {} the tokens per second of {next}: {best} and {other}.", times(rate)));
    } else if let Some(numbers) = even(race, Measure::Rate) {
        said.push(format!("They give the same tokens per second, within 5 %: {numbers}."));
    }
    if let Some(first) = find(Measure::FirstToken) {
        let (winner, (best, other)) = (first.winner, numbers(first));
        said.push(format!("{winner} has its first token {} sooner: {best} and {other}.", times(first)));
    } else if let Some(numbers) = even(race, Measure::FirstToken) {
        said.push(format!("They have their first token at the same time, within 5 %: {numbers}."));
    }
    if let Some(sigma) = find(Measure::Sigma) {
        let (winner, (best, other)) = (sigma.winner, numbers(sigma));
        said.push(format!("{winner} is the steadier one: a standard deviation of {best} and {other} ms."));
    }
    if let Some(energy) = find(Measure::Energy) {
        let (winner, (best, other)) = (energy.winner, numbers(energy));
        said.push(format!("{winner} takes less energy: {best} and {other} J a token ({}).", times(energy)));
    }
    if said.is_empty() {
        said.push(no_comparison(race));
    } else if let Some(same) = same_text(race) {
        said.push(same.to_owned());
    }
    for racer in &race.racers {
        let lane = racer.entrant.lane;
        match racer.standing(race.over) {
            Standing::Absent(reason) => said.push(format!("{lane} did not run: {}.", ended(&reason))),
            Standing::Failed(reason) => said.push(format!("{lane} failed: {}.", ended(&reason))),
            _ => {}
        }
    }
    said.extend(caveats(race));
    said
}

/// What the numbers must not be taken for.
pub fn caveats(race: &Race) -> Vec<String> {
    let mut said = Vec::new();
    let ran = || race.racers.iter().filter(|racer| !racer.runs.is_empty());
    for racer in ran().filter(|racer| racer.entrant.emulated) {
        said.push(format!("{0} is emulated: its times say nothing about an {0} in hardware.", racer.entrant.lane));
    }
    let mut unmeasured: Vec<String> = ran().filter_map(|racer| racer.figures().no_joules).collect();
    unmeasured.dedup();
    said.extend(unmeasured.iter().map(|reason| format!("Energy is not known: {}.", ended(reason))));
    if ran().any(|racer| racer.figures().is_estimate) {
        said.push("A server's tokens are counted by the pieces that it sends (est.).".to_owned());
    }
    // Of one lane alone that says nothing.
    if let Order::InTurn { why } = &race.start.order
        && ran().count() > 1
    {
        said.push(format!("The lanes ran one after the other: {why}."));
    }
    said
}

fn no_comparison(race: &Race) -> String {
    match race.over {
        Some(true) => "The race was cancelled before two lanes were done.".to_owned(),
        Some(false) => "Fewer than two lanes came to their end, so there is nothing to compare.".to_owned(),
        None => "The race is not over.".to_owned(),
    }
}

/// Whether the lanes said the same; `None` where fewer than two are done.
fn same_text(race: &Race) -> Option<&'static str> {
    let done = race.racers.iter().filter(|racer| racer.standing(race.over) == Standing::Done);
    let texts: Vec<&str> = done.filter_map(|racer| Some(racer.shown()?.text.as_str())).collect();
    let (first, rest) = texts.split_first()?;
    Some(match rest {
        [] => return None,
        rest if rest.iter().all(|text| text == first) => "They said the same.",
        _ => "They did not say the same.",
    })
}

/// Without a full stop of its own.
fn ended(reason: &str) -> &str {
    reason.trim_end().trim_end_matches('.')
}

/// `5.9x`, with no more digits than say something.
pub fn ratio(ratio: f64) -> String {
    match ratio {
        r if r < 9.95 => format!("{r:.1}x"),
        r => format!("{r:.0}x"),
    }
}
