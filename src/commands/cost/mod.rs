//! `ortalk cost`: what answers took, summed up from the ledger by model and lane and by day, as a table or as JSON.

mod table;

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::{anyhow, bail};
use chrono::{DateTime, Local, NaiveDate, TimeZone, Utc};
use serde::Serialize;

use super::run::print_now;
use crate::cli::CostArgs;
use crate::config::Settings;
use crate::ledger::{Entry, Ledger, LeftOut, Prices, Total};
use crate::paths::Paths;

/// The version of the JSON; it grows when a field changes its meaning.
const SCHEMA: u32 = 1;

pub fn run(args: &CostArgs) -> anyhow::Result<ExitCode> {
    let paths = Paths::discover()?;
    let settings = Settings::load(&paths.settings_file())?;
    let now = Local::now();
    let since = args.since.as_deref().map(|text| since(text, now)).transpose()?;
    let ledger = Ledger::new(paths.ledger_file());
    let mut costs = Costs::new(since, Prices::of(&settings.cost));
    let left_out = ledger.read(|entry| costs.add(&entry, &Local))?;
    let costs = Costs { left_out, ..costs };
    let text = match args.json {
        true => format!("{}\n", serde_json::to_string_pretty(&costs.json())?),
        false => table::table(&costs, &paths.settings_file(), ledger.path()),
    };
    print_now(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// A day of the calendar, from its beginning, or a number of days, hours or weeks back.
fn since(text: &str, now: DateTime<Local>) -> anyhow::Result<DateTime<Utc>> {
    let expected = || anyhow!("--since is '{text}'; expected a day as 2026-03-04, or a time back as 12h, 7d or 4w");
    if let Ok(day) = text.parse::<NaiveDate>() {
        return beginning(day).ok_or_else(expected);
    }
    let number = text.get(..text.len().saturating_sub(1)).ok_or_else(expected)?;
    let count: u32 = number.parse().map_err(|_| expected())?;
    let hours = match text.as_bytes().last() {
        Some(b'h') => 1,
        Some(b'd') => 24,
        Some(b'w') => 7 * 24,
        _ => bail!(expected()),
    };
    let back = chrono::TimeDelta::try_hours(i64::from(count) * hours).ok_or_else(expected)?;
    now.to_utc().checked_sub_signed(back).ok_or_else(expected)
}

fn beginning(day: NaiveDate) -> Option<DateTime<Utc>> {
    let midnight = day.and_hms_opt(0, 0, 0)?;
    // A clock that is put forward at midnight has no such hour.
    let later = || Local.from_local_datetime(&midnight.checked_add_signed(chrono::TimeDelta::hours(1))?).earliest();
    Local.from_local_datetime(&midnight).earliest().or_else(later).map(|moment| moment.to_utc())
}

/// What is summed up together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    /// In the sums by day.
    day: Option<NaiveDate>,
    model: String,
    lane: String,
    emulated: bool,
}

struct Costs {
    since: Option<DateTime<Utc>>,
    today: Option<Prices>,
    by_lane: BTreeMap<Group, Total>,
    by_day: BTreeMap<Group, Total>,
    total: Total,
    /// Why energy was not measured, and of how many answers.
    unmeasured: BTreeMap<String, u64>,
    left_out: LeftOut,
}

impl Costs {
    fn new(since: Option<DateTime<Utc>>, today: Option<Prices>) -> Self {
        Self {
            since,
            today,
            by_lane: BTreeMap::new(),
            by_day: BTreeMap::new(),
            total: Total::default(),
            unmeasured: BTreeMap::new(),
            left_out: LeftOut::default(),
        }
    }

    /// Days are those of `zone`.
    fn add<Zone: TimeZone>(&mut self, entry: &Entry, zone: &Zone) {
        let Some(moment) = entry.moment().filter(|moment| self.since.is_none_or(|since| *moment >= since)) else {
            return;
        };
        let (model, lane) = (entry.model.clone(), entry.lane.clone());
        let group = Group { day: None, model, lane, emulated: entry.emulated };
        let day = Some(moment.with_timezone(zone).date_naive());
        self.total.add(entry, self.today.as_ref());
        self.by_day.entry(Group { day, ..group.clone() }).or_default().add(entry, self.today.as_ref());
        self.by_lane.entry(group).or_default().add(entry, self.today.as_ref());
        if entry.energy.joules.is_none() {
            let reason = entry.energy.reason.clone().unwrap_or_else(|| "no reason is known".into());
            *self.unmeasured.entry(reason).or_default() += 1;
        }
    }

    fn json(&self) -> impl Serialize {
        let rows = |groups: &BTreeMap<Group, Total>| {
            let row = |(group, total): (&Group, &Total)| {
                let total = sums(total);
                Row {
                    day: group.day.map(|day| day.to_string()),
                    model: group.model.clone(),
                    lane: group.lane.clone(),
                    emulated: group.emulated,
                    total,
                }
            };
            groups.iter().map(row).collect::<Vec<_>>()
        };
        Report {
            schema: SCHEMA,
            since: self.since.map(Entry::timestamp),
            total: sums(&self.total),
            by_model_and_lane: rows(&self.by_lane),
            by_day: rows(&self.by_day),
            energy_not_measured: self
                .unmeasured
                .iter()
                .map(|(reason, answers)| NotMeasured { reason: reason.clone(), answers: *answers })
                .collect(),
            damaged_lines: self.left_out.damaged,
            lines_of_a_newer_version: self.left_out.newer,
        }
    }
}

#[derive(Serialize)]
struct Report {
    schema: u32,
    /// UTC; `null` is the beginning.
    since: Option<String>,
    total: Sums,
    by_model_and_lane: Vec<Row>,
    by_day: Vec<Row>,
    energy_not_measured: Vec<NotMeasured>,
    damaged_lines: usize,
    lines_of_a_newer_version: usize,
}

#[derive(Serialize)]
struct Row {
    #[serde(skip_serializing_if = "Option::is_none")]
    day: Option<String>,
    model: String,
    /// Empty where none was chosen.
    lane: String,
    emulated: bool,
    #[serde(flatten)]
    total: Sums,
}

#[derive(Serialize)]
struct NotMeasured {
    reason: String,
    answers: u64,
}

/// A total in which what nobody measured is `null`.
#[derive(Serialize)]
struct Sums {
    answers: u64,
    tokens_in: u64,
    tokens_reused: u64,
    tokens_out: u64,
    /// Of the answers that were measured.
    joules: Option<f64>,
    watt_hours: Option<f64>,
    joules_per_token: Option<f64>,
    measured_answers: u64,
    /// Those whose joules have the idle power in them.
    answers_with_idle: u64,
    /// By currency.
    money: BTreeMap<String, MoneySums>,
    answers_at_todays_prices: u64,
}

/// Each amount with the number of answers that it is of; `null` where that is 0.
#[derive(Serialize)]
struct MoneySums {
    electricity: Option<f64>,
    electricity_answers: u64,
    remote: Option<f64>,
    remote_answers: u64,
    cloud: Option<f64>,
    cloud_answers: u64,
    difference: Option<f64>,
    difference_answers: u64,
}

fn sums(total: &Total) -> Sums {
    let known = |value: f64, answers: u64| (answers > 0).then_some(value);
    let money = total.money.iter().map(|(currency, money)| {
        let sums = MoneySums {
            electricity: known(money.electricity, money.electricity_answers),
            electricity_answers: money.electricity_answers,
            remote: known(money.remote, money.remote_answers),
            remote_answers: money.remote_answers,
            cloud: known(money.cloud, money.cloud_answers),
            cloud_answers: money.cloud_answers,
            difference: known(money.difference, money.difference_answers),
            difference_answers: money.difference_answers,
        };
        (currency.clone(), sums)
    });
    let joules = known(total.joules, total.measured_answers);
    Sums {
        answers: total.answers,
        tokens_in: total.tokens_in,
        tokens_reused: total.tokens_reused,
        tokens_out: total.tokens_out,
        joules,
        watt_hours: joules.map(|joules| joules / 3600.0),
        joules_per_token: total.joules_per_token(),
        measured_answers: total.measured_answers,
        answers_with_idle: total.answers_with_idle,
        money: money.collect(),
        answers_at_todays_prices: total.answers_at_todays_prices,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_back_and_days() {
        let now = Local::now();
        let utc = now.to_utc();
        for (text, hours) in [("12h", 12), ("7d", 168), ("4w", 672), ("0d", 0)] {
            assert_eq!(since(text, now).unwrap(), utc - chrono::TimeDelta::hours(hours), "{text}");
        }
        let day = since("2026-03-04", now).unwrap().with_timezone(&Local);
        assert_eq!(day.format("%Y-%m-%d").to_string(), "2026-03-04");
        for text in ["", "d", "yesterday", "7", "-7d", "7m", "2026-13-01", "99999999999d", "7é", "4000000000w"] {
            let error = since(text, now).unwrap_err().to_string();
            assert!(error.contains(&format!("--since is '{text}'")) && error.contains("7d"), "{error}");
        }
    }
}
