//! What was seen that makes the numbers less sure, said in words.

use super::conditions::Conditions;
use super::report::LaneReport;
use crate::telemetry::statistics::Summary;

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
        }
    }
    noise
}
