//! Sums over answers.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Entry, Prices};

/// What some answers took. What was measured of a part of them only says of how many.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Total {
    pub answers: u64,
    pub tokens_in: u64,
    pub tokens_reused: u64,
    pub tokens_out: u64,
    /// Of the answers that were measured.
    pub joules: f64,
    pub measured_answers: u64,
    /// Tokens of those.
    pub measured_tokens_out: u64,
    /// Of those, the ones whose joules have the idle power in them, as it was not known.
    pub answers_with_idle: u64,
    /// By currency.
    pub money: BTreeMap<String, Money>,
    /// Answers whose own prices were not set, which count by today's.
    pub answers_at_todays_prices: u64,
}

/// What some answers cost, in one currency.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Money {
    /// Of the answers that were measured and have a price.
    pub electricity: f64,
    pub electricity_answers: u64,
    /// What remote lanes' providers bill.
    pub remote: f64,
    pub remote_answers: u64,
    /// What the cloud would have billed.
    pub cloud: f64,
    pub cloud_answers: u64,
    /// The cloud's bill less what was spent here, over the answers of which both are known.
    pub difference: f64,
    pub difference_answers: u64,
}

impl Total {
    /// Adds an answer. Where it has no prices of its own, today's count.
    pub fn add(&mut self, entry: &Entry, today: Option<&Prices>) {
        self.answers += 1;
        self.tokens_in += entry.tokens_in;
        self.tokens_reused += entry.tokens_reused;
        self.tokens_out += entry.tokens_out;
        if let Some(joules) = entry.energy.joules {
            self.joules += joules;
            self.measured_answers += 1;
            self.measured_tokens_out += entry.tokens_out;
            self.answers_with_idle += u64::from(entry.energy.idle_watts.is_none());
        }
        let Some(prices) = entry.prices.as_ref().or(today) else { return };
        self.answers_at_todays_prices += u64::from(entry.prices.is_none());
        let electricity = entry.energy.joules.and_then(|joules| prices.electricity(joules));
        let cloud = prices.cloud(entry.tokens_in, entry.tokens_out);
        if electricity.is_none() && cloud.is_none() && entry.remote_cost.is_none() {
            return;
        }
        let money = self.money.entry(prices.currency.clone()).or_default();
        let add = |sum: &mut f64, count: &mut u64, amount: Option<f64>| {
            *sum += amount.unwrap_or(0.0);
            *count += u64::from(amount.is_some());
        };
        // A remote answer's bill is known without a sensor here.
        let spent = match (entry.remote_cost, electricity) {
            (Some(remote), electricity) => Some(remote + electricity.unwrap_or(0.0)),
            (None, electricity) => electricity,
        };
        add(&mut money.electricity, &mut money.electricity_answers, electricity);
        add(&mut money.remote, &mut money.remote_answers, entry.remote_cost);
        add(&mut money.cloud, &mut money.cloud_answers, cloud);
        add(&mut money.difference, &mut money.difference_answers, cloud.zip(spent).map(|(cloud, spent)| cloud - spent));
    }

    /// Joules for each token of the answers that were measured.
    pub fn joules_per_token(&self) -> Option<f64> {
        (self.measured_tokens_out > 0 && self.measured_answers > 0)
            .then(|| self.joules / self.measured_tokens_out as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::super::entry::tests::entry;
    use super::super::{EntryEnergy, TokenPrices};
    use super::*;

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-12, "{found}, expected {expected}");
    }

    /// Four answers at 0.30 a kWh, 0.50 and 2.00 per million tokens:
    ///
    /// | | in | out | J | electricity | cloud | remote | difference |
    /// | --- | --- | --- | --- | --- | --- | --- | --- |
    /// | measured | 1000 | 50 | 18 | 0.0000015 | 0.0006 | | 0.0005985 |
    /// | not measured | 2000 | 100 | | | 0.0012 | | |
    /// | measured with idle power | 400 | 200 | 36 | 0.000003 | 0.0006 | | 0.000597 |
    /// | remote, not measured | 1000 | 1000 | | | 0.0025 | 0.004 | -0.0015 |
    #[test]
    fn sums_worked_out_by_hand() {
        let not_measured = || EntryEnergy { reason: Some("no readable sensor".into()), ..EntryEnergy::default() };
        let with_idle = EntryEnergy { joules: Some(36.0), joules_with_idle: Some(36.0), ..EntryEnergy::default() };
        let answers = [
            entry(),
            Entry { tokens_in: 2000, tokens_out: 100, energy: not_measured(), ..entry() },
            Entry { tokens_in: 400, tokens_reused: 0, tokens_out: 200, energy: with_idle, ..entry() },
            Entry { tokens_out: 1000, energy: not_measured(), remote_cost: Some(0.004), ..entry() },
        ];
        let mut total = Total::default();
        answers.iter().for_each(|answer| total.add(answer, None));
        assert_eq!((total.answers, total.tokens_in, total.tokens_reused, total.tokens_out), (4, 4400, 2700, 1350));
        assert_eq!((total.measured_answers, total.measured_tokens_out, total.answers_with_idle), (2, 250, 1));
        close(total.joules, 54.0);
        close(total.joules_per_token().unwrap(), 0.216);
        let money = &total.money["EUR"];
        close(money.electricity, 0.000_004_5);
        close(money.cloud, 0.0049);
        close(money.remote, 0.004);
        close(money.difference, 0.000_598_5 + 0.000_597 - 0.0015);
        let counts = [money.electricity_answers, money.cloud_answers, money.remote_answers, money.difference_answers];
        assert_eq!((counts, total.answers_at_todays_prices), ([2, 4, 1, 3], 0));
    }

    #[test]
    fn prices_are_those_of_the_answer_or_today_s_and_currencies_do_not_mix() {
        let today = Prices {
            currency: "USD".into(),
            electricity_per_kwh: None,
            cloud_per_million: Some(TokenPrices { input: 1.0, output: 1.0 }),
        };
        let mut total = Total::default();
        total.add(&entry(), Some(&today));
        total.add(&Entry { prices: None, ..entry() }, Some(&today));
        total.add(&Entry { prices: None, ..entry() }, None);
        assert_eq!((total.answers, total.answers_at_todays_prices), (3, 1));
        close(total.money["EUR"].cloud, 0.0006);
        close(total.money["USD"].cloud, 0.001_05);
        // 18 J have no price in dollars.
        assert_eq!((total.money["USD"].electricity_answers, total.money["USD"].difference_answers), (0, 0));
        assert_eq!(Total::default().joules_per_token(), None);
    }
}
