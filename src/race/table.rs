//! The table of a race: a line for each lane, a cell for each measure. Text alone; front ends lay it out.

use std::time::Duration;

use super::verdict::{self, Comparison, Measure};
use super::{Figures, Race, Racer, Standing};
use crate::engine::LaneId;
use crate::telemetry::latency::LatencySummary;

#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    pub lane: LaneId,
    pub emulated: bool,
    pub standing: Standing,
    /// In the order of `Measure::ALL`.
    pub cells: [Cell; 6],
    /// How it stands, in words: `running`, `finished 2.1 s`.
    pub state: String,
    /// By how much it gives more tokens a second than the next one.
    pub lead: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Cell {
    /// `None` where there is no number, or none yet.
    pub text: Option<String>,
    /// The best of all lanes; known when the race is over.
    pub best: bool,
}

impl Measure {
    /// The column's head, with the unit of the numbers below it where they have none of their own.
    /// `sigma` stands for the standard deviation.
    pub fn head(self, sigma: &str) -> String {
        match self {
            Self::FirstToken => "first token".to_owned(),
            Self::Rate => "tokens/s".to_owned(),
            Self::P50 => "p50 ms".to_owned(),
            Self::P99 => "p99 ms".to_owned(),
            Self::Sigma => format!("{sigma} ms"),
            Self::Energy => "energy".to_owned(),
        }
    }
}

pub fn lines(race: &Race) -> Vec<Line> {
    let compared = if race.over.is_some() { verdict::compare(race) } else { Vec::new() };
    race.racers.iter().map(|racer| line(race, racer, &compared)).collect()
}

fn line(race: &Race, racer: &Racer, compared: &[Comparison]) -> Line {
    let figures = racer.figures();
    let lane = racer.entrant.lane;
    let won = |measure: Measure| compared.iter().find(|found| found.measure == measure && found.winner == lane);
    let standing = racer.standing(race.over);
    let lead = won(Measure::Rate).and_then(|rate| rate.ratio).map(verdict::ratio);
    Line {
        lane,
        emulated: racer.entrant.emulated,
        cells: Measure::ALL.map(|measure| Cell { text: cell(measure, &figures), best: won(measure).is_some() }),
        state: state(race, racer, &standing, &figures),
        standing,
        lead,
    }
}

fn cell(measure: Measure, figures: &Figures) -> Option<String> {
    let latency =
        |of: fn(&LatencySummary) -> Duration| figures.latency.as_ref().map(|latency| milliseconds(of(latency)));
    match measure {
        Measure::FirstToken => figures.ttft.map(duration),
        Measure::Rate => {
            figures.rate.map(|rate| if figures.is_estimate { format!("est. {}", number(rate)) } else { number(rate) })
        }
        Measure::P50 => latency(|latency| latency.p50),
        Measure::P99 => latency(|latency| latency.p99),
        Measure::Sigma => latency(|latency| latency.std_dev),
        Measure::Energy => figures.joules_per_token.map(|joules| format!("{joules:.2} J/tok")),
    }
}

fn state(race: &Race, racer: &Racer, standing: &Standing, figures: &Figures) -> String {
    let round = match (race.start.rounds, racer.runs.len()) {
        (1, _) | (_, 0) => String::new(),
        (rounds, begun) => format!(" {begun}/{rounds}"),
    };
    match standing {
        Standing::Absent(_) => "absent".to_owned(),
        Standing::Waiting => "waits".to_owned(),
        Standing::Prefill(Some(progress)) => format!("prefill {}/{}{round}", progress.done, progress.total),
        Standing::Prefill(None) => format!("starts{round}"),
        Standing::Decode => format!("runs{round}"),
        Standing::Done if race.over.is_none() && racer.runs.len() < race.start.rounds => format!("waits{round}"),
        Standing::Done => match figures.total {
            Some(total) => format!("finished {}", duration(total)),
            None => "finished".to_owned(),
        },
        Standing::Failed(_) => "failed".to_owned(),
        Standing::Cancelled => "cancelled".to_owned(),
    }
}

/// Milliseconds below a second, else seconds.
pub fn duration(duration: Duration) -> String {
    match duration.as_secs_f64() {
        s if s < 0.00995 => format!("{:.1} ms", s * 1e3),
        s if s < 0.9995 => format!("{:.0} ms", s * 1e3),
        s if s < 9.995 => format!("{s:.2} s"),
        s if s < 99.95 => format!("{s:.1} s"),
        s => format!("{s:.0} s"),
    }
}

/// A number of the verdict, as it stands in the table; times are in milliseconds.
pub fn shown(measure: Measure, value: f64) -> String {
    let time = Duration::from_secs_f64(value.max(0.0) / 1e3);
    match measure {
        Measure::FirstToken => duration(time),
        Measure::Rate => number(value),
        Measure::P50 | Measure::P99 | Measure::Sigma => milliseconds(time),
        Measure::Energy => format!("{value:.2}"),
    }
}

fn milliseconds(duration: Duration) -> String {
    match duration.as_secs_f64() * 1e3 {
        ms if ms < 0.995 => format!("{ms:.2}"),
        ms if ms < 99.95 => format!("{ms:.1}"),
        ms => format!("{ms:.0}"),
    }
}

fn number(value: f64) -> String {
    match value {
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 999.95 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}
