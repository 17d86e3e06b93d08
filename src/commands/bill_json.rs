//! A bill as JSON: the energy with what was measured and how, and the cost by the prices in force.

use serde_json::{Value, json};

use crate::bill::Bill;
use crate::ledger::{Entry, Total};
use crate::telemetry::energy::METHOD;

pub fn energy(bill: &Bill) -> Value {
    let Entry { energy, tokens_out, emulated, .. } = &bill.entry;
    let per_token = energy.joules.filter(|_| *tokens_out > 0).map(|joules| joules / *tokens_out as f64);
    json!({
        "joules": energy.joules,
        "watt_hours": energy.joules.map(|joules| joules / 3600.0),
        "joules_per_token": per_token,
        "joules_with_idle": energy.joules_with_idle,
        "idle_watts": energy.idle_watts,
        "source": energy.source,
        "shared": energy.shared,
        "emulated": emulated,
        "method": energy.joules_with_idle.map(|_| METHOD),
        "reason": energy.reason,
    })
}

/// `null` for what has no price or was not measured.
pub fn cost(bill: &Bill) -> Value {
    let mut total = Total::default();
    total.add(&bill.entry, None);
    let currency = bill.entry.prices.as_ref().map(|prices| prices.currency.clone());
    let money = currency.as_ref().and_then(|currency| total.money.get(currency)).cloned().unwrap_or_default();
    let known = |amount: f64, answers: u64| (answers > 0).then_some(amount);
    let reason = match (&bill.entry.prices, bill.entry.energy.joules) {
        (None, _) => Some("no prices are set; the table [cost] of the settings sets them"),
        (Some(prices), None) if prices.electricity_per_kwh.is_some() => Some("the energy was not measured"),
        (Some(_), _) => None,
    };
    json!({
        "currency": currency.filter(|currency| !currency.is_empty()),
        "electricity": known(money.electricity, money.electricity_answers),
        "remote": known(money.remote, money.remote_answers),
        "cloud": known(money.cloud, money.cloud_answers),
        "difference": known(money.difference, money.difference_answers),
        "reason": reason,
    })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::ledger::{EntryEnergy, Prices, TokenPrices, VERSION};
    use crate::telemetry::Reading;

    fn bill(energy: EntryEnergy, prices: Option<Prices>) -> Bill {
        let entry = Entry {
            v: VERSION,
            time: "2026-03-04T05:06:07Z".into(),
            via: "run".into(),
            model: "tiny".into(),
            lane: "cpu".into(),
            emulated: false,
            finish: "stop".into(),
            tokens_in: 2000,
            tokens_reused: 0,
            tokens_out: 500,
            seconds: 2.0,
            energy,
            prices,
            remote_cost: None,
        };
        Bill { entry, energy: Reading::Unavailable("not asked".into()), complaint: None }
    }

    /// 36 J are 0.01 Wh, 0.072 J a token, and 0.00001 kWh, 0.000003 at 0.30; 2000 in at 0.50 and 500 out at 2.00 are 0.002.
    #[test]
    fn what_was_measured_and_priced() {
        let energy = EntryEnergy {
            joules: Some(36.0),
            joules_with_idle: Some(44.0),
            idle_watts: Some(4.0),
            source: Some("CPU packages".into()),
            ..EntryEnergy::default()
        };
        let prices = Prices {
            currency: "EUR".into(),
            electricity_per_kwh: Some(0.3),
            cloud_per_million: Some(TokenPrices { input: 0.5, output: 2.0 }),
        };
        let bill = bill(energy, Some(prices));
        let found = super::energy(&bill);
        assert_eq!(
            (&found["joules"], &found["watt_hours"], &found["reason"]),
            (&36.0.into(), &0.01.into(), &Value::Null)
        );
        assert_eq!((&found["joules_per_token"], &found["method"]), (&0.072.into(), &METHOD.into()));
        let found = cost(&bill);
        let close = |key: &str, expected: f64| {
            let found = found[key].as_f64().unwrap();
            assert!((found - expected).abs() < 1e-15, "{key}: {found}");
        };
        close("electricity", 3e-6);
        close("cloud", 0.002);
        close("difference", 0.001_997);
        assert_eq!(
            (&found["currency"], &found["remote"], &found["reason"]),
            (&"EUR".into(), &Value::Null, &Value::Null)
        );
    }

    #[test]
    fn what_is_not_known_is_null_with_its_reason() {
        let unmeasured = || EntryEnergy { reason: Some("no readable sensor".into()), ..EntryEnergy::default() };
        let found = super::energy(&bill(unmeasured(), None));
        for key in ["joules", "watt_hours", "joules_per_token", "joules_with_idle", "idle_watts", "source", "method"] {
            assert_eq!(found[key], Value::Null, "{key}");
        }
        assert_eq!(found["reason"], "no readable sensor");
        let found = cost(&bill(unmeasured(), None));
        assert_eq!((&found["electricity"], &found["cloud"]), (&Value::Null, &Value::Null));
        assert!(found["reason"].as_str().unwrap().contains("[cost]"), "{found}");
        let priced = Prices { electricity_per_kwh: Some(0.3), ..Prices::default() };
        let found = cost(&bill(unmeasured(), Some(priced)));
        assert_eq!((&found["electricity"], &found["reason"]), (&Value::Null, &"the energy was not measured".into()));
    }
}
