//! What was seen that makes the numbers less sure, said in words.

use super::conditions::Conditions;
use super::report::{LaneReport, Sample};
use crate::telemetry::statistics::{Change, Summary};

/// Load by other programs that is worth a word, in percent of all cores.
const BUSY_PERCENT: f64 = 10.0;
/// Processors begin to slow down about here.
const HOT_CELSIUS: f64 = 90.0;
/// Of rates over repetitions; a quiet machine stays below.
const STEADY: f64 = 0.05;

pub fn noise(conditions: &Conditions, lanes: &[LaneReport]) -> Vec<String> {
    let mut noise = Vec::new();
    for (when, standing) in [("before", &conditions.before), ("after", &conditions.after)] {
        if let Some(percent) = standing.cpu_percent.value.filter(|percent| *percent >= BUSY_PERCENT) {
            noise.push(format!("other programs used {percent:.0} % of the CPU {when} the run"));
        }
        if let Some(celsius) = standing.cpu_celsius.value.filter(|celsius| *celsius >= HOT_CELSIUS) {
            noise.push(format!("the CPU had {celsius:.0} °C {when} the run: it may have been slowed down"));
        }
    }
    if [&conditions.before, &conditions.after].iter().any(|standing| standing.on_battery.value == Some(true)) {
        noise.push("the machine ran on battery".into());
    }
    if let Some(governor) = conditions.before.governor.value.as_ref().filter(|governor| *governor != "performance") {
        noise.push(format!("the CPU's frequency is governed by '{governor}', not by 'performance'"));
    }
    for lane in lanes {
        for case in &lane.cases {
            let mut unsteady = |what: &str, rates: Option<&Summary>| {
                let variation = rates.and_then(|rates| rates.coefficient_of_variation);
                if let Some(variation) = variation.filter(|variation| *variation >= STEADY) {
                    let (lane, kind, tokens) = (&lane.lane, case.kind.name(), case.prompt_tokens);
                    noise.push(format!(
                        "{lane}, {kind} of {tokens}: {what} varies by {:.0} % from request to request",
                        variation * 100.0
                    ));
                }
            };
            unsteady("prefill", Some(&case.prefill_tokens_per_second));
            unsteady("decode", case.steady_state_decode_tokens_per_second.as_ref());
            let rates = |of: &dyn Fn(&Sample) -> Option<f64>| case.samples.iter().filter_map(of).collect::<Vec<_>>();
            let mut drifts = |what: &str, rates: &[f64]| {
                if let Some(change) = drift(rates) {
                    let (lane, kind, tokens) = (&lane.lane, case.kind.name(), case.prompt_tokens);
                    let way = if change < 0.0 { "slower" } else { "faster" };
                    let percent = change.abs() * 100.0;
                    noise.push(format!(
                        "{lane}, {kind} of {tokens}: {what} was {percent:.0} % {way} in the second half of the requests"
                    ));
                }
            };
            drifts("prefill", &rates(&|sample| Some(1.0 / sample.prefill_duration_ms)));
            drifts("decode", &rates(&Sample::decode_rate));
        }
    }
    noise
}

/// How rates changed from the first half of the requests to the second, as a part of the first, where that is too much to be
/// chance: as where a processor got hot.
fn drift(rates: &[f64]) -> Option<f64> {
    let (first, second) = rates.split_at(rates.len() / 2);
    let change = Change::between(&Summary::of(first)?, &Summary::of(second)?)?;
    (change.is_sure() && change.change.abs() >= STEADY).then_some(change.change)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_slows_down_is_told_from_one_that_varies() {
        let slower = drift(&[10.0, 10.1, 9.9, 10.0, 8.0, 8.1, 7.9, 8.0]).unwrap();
        assert!((slower + 0.2).abs() < 1e-9, "{slower}");
        assert!(drift(&[8.0, 8.1, 10.0, 10.1]).is_some_and(|change| change > 0.2));
        // It varies as much, but without a direction.
        assert_eq!(drift(&[10.0, 8.0, 9.9, 8.1, 8.0, 10.0, 8.1, 9.9]), None);
        // Sure, and of no account.
        assert_eq!(drift(&[10.0, 10.01, 10.0, 9.8, 9.81, 9.8]), None);
        assert_eq!(drift(&[1.0]), None);
    }
}
