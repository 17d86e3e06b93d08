//! A race as a person reads it: what each lane said, the table, the verdict.

use std::fmt::Write;

use crate::race::table::{Line, lines};
use crate::race::verdict::{Measure, sentences};
use crate::race::{Race, Standing};

/// Columns of a lane's name with its mark, of each number, and of how it stands.
const NAME: usize = 14;
const NUMBER: [usize; 6] = [12, 11, 10, 10, 10, 14];

/// Behind the best number of its column.
const BEST: &str = "*";

pub fn as_text(race: &Race) -> String {
    let mut text = String::new();
    for racer in &race.racers {
        let Some(run) = racer.shown().filter(|run| !run.text.trim().is_empty()) else { continue };
        let emulated = if racer.entrant.emulated { " (emulated)" } else { "" };
        let _ = writeln!(text, "{}{emulated}:\n{}\n", racer.entrant.lane, shown(run.text.trim()));
    }
    text += &table(race);
    text.push('\n');
    sentences(race).iter().for_each(|sentence| {
        let _ = writeln!(text, "{}", shown(sentence));
    });
    text
}

fn table(race: &Race) -> String {
    let mut text = format!("{:NAME$}", race.start.model.chars().take(NAME - 1).collect::<String>());
    for (measure, columns) in Measure::ALL.into_iter().zip(NUMBER) {
        let _ = write!(text, "{:>columns$} ", measure.head("std"));
    }
    let rows: Vec<String> = lines(race).iter().map(|line| row(race, line)).collect();
    format!("{}\n{}\n", text.trim_end(), rows.join("\n"))
}

fn row(race: &Race, line: &Line) -> String {
    let name = format!("{}{}", line.lane, if line.emulated { " emulated" } else { "" });
    let mut text = format!("{name:NAME$}");
    if let Standing::Absent(reason) | Standing::Failed(reason) = &line.standing {
        let _ = write!(text, "  {}: {}", line.state, shown(&reason.replace('\n', " ")));
        return text;
    }
    for ((cell, measure), columns) in line.cells.iter().zip(Measure::ALL).zip(NUMBER) {
        let absent = if measure == Measure::Energy { "unavailable" } else { "-" };
        let number = cell.text.as_deref().unwrap_or(absent);
        let best = if cell.best { BEST } else { " " };
        let _ = write!(text, "{number:>columns$}{best}");
    }
    let _ = write!(text, "  {}", line.state);
    if let Some(lead) = line.lead.as_ref().filter(|_| race.racers.len() > 1) {
        let _ = write!(text, "  {lead}");
    }
    text
}

/// A model's text may hold commands for the terminal.
fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

/// How far each lane is, within 79 columns.
pub fn progress(race: &Race) -> String {
    let each = lines(race).into_iter().zip(&race.racers).map(|(line, racer)| {
        let tokens = racer.shown().map_or(0, |run| run.tokens);
        let tokens = if tokens > 0 { format!(", {tokens} tokens") } else { String::new() };
        format!("{} {}{tokens}", line.lane, line.state)
    });
    each.collect::<Vec<_>>().join("   ").chars().take(79).collect()
}
