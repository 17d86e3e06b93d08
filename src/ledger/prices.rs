//! Prices, and what an answer costs by them.

use serde::{Deserialize, Serialize};

use crate::config::CostSettings;

/// Joules in a kilowatt-hour.
const KILOWATT_HOUR: f64 = 3.6e6;

/// The prices that are in force, all in one currency.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Prices {
    /// As people write it: `EUR`. Empty where nobody said.
    pub currency: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub electricity_per_kwh: Option<f64>,
    /// Of the service that is compared with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud_per_million: Option<TokenPrices>,
}

/// Per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenPrices {
    pub input: f64,
    pub output: f64,
}

impl TokenPrices {
    /// What so many tokens cost. Tokens of the prompt count whether or not a cache here had them: a service that is sent
    /// the conversation anew each time bills them, some at a lower price.
    pub fn of(&self, input: u64, output: u64) -> f64 {
        (input as f64 * self.input + output as f64 * self.output) / 1e6
    }
}

impl Prices {
    /// The settings' prices; `None` where there are none.
    pub fn of(settings: &CostSettings) -> Option<Self> {
        let cloud = settings.cloud_per_million.map(|cloud| TokenPrices { input: cloud.input, output: cloud.output });
        (settings.electricity_per_kwh.is_some() || cloud.is_some()).then(|| Self {
            currency: settings.currency.clone().unwrap_or_default(),
            electricity_per_kwh: settings.electricity_per_kwh,
            cloud_per_million: cloud,
        })
    }

    /// What electricity costs.
    pub fn electricity(&self, joules: f64) -> Option<f64> {
        self.electricity_per_kwh.map(|price| joules / KILOWATT_HOUR * price)
    }

    /// What the service would bill.
    pub fn cloud(&self, input: u64, output: u64) -> Option<f64> {
        self.cloud_per_million.map(|prices| prices.of(input, output))
    }

    pub(super) fn are_plausible(&self) -> bool {
        let cloud = self.cloud_per_million.map(|prices| [prices.input, prices.output]);
        let all = self.electricity_per_kwh.into_iter().chain(cloud.into_iter().flatten());
        all.into_iter().all(|price| price.is_finite() && price >= 0.0)
    }
}

/// An amount with its currency: two decimals, more below one, and at least two digits that are not zero.
pub fn money(amount: f64, currency: &str) -> String {
    let number = match amount.abs() {
        0.0 => "0".to_owned(),
        a if a >= 1.0 => format!("{amount:.2}"),
        a if a >= 0.01 => format!("{amount:.4}"),
        a => {
            // Two digits behind the zeros, as far as anybody could want.
            let zeros = (-a.log10()).ceil().clamp(0.0, 12.0) as usize;
            format!("{amount:.*}", zeros + 1)
        }
    };
    if currency.is_empty() { number } else { format!("{number} {currency}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1 kWh is 3,600,000 J.
    #[test]
    fn electricity_worked_out_by_hand() {
        let prices = |per_kwh| Prices { electricity_per_kwh: per_kwh, ..Prices::default() };
        for (joules, per_kwh, expected) in [
            (3_600_000.0, 0.30, 0.30),
            (36.0, 0.30, 0.000_003),
            (90_000.0, 0.40, 0.01),
            (0.0, 0.40, 0.0),
            (1_800_000.0, 0.0, 0.0),
        ] {
            let found = prices(Some(per_kwh)).electricity(joules).unwrap();
            assert!((found - expected).abs() < 1e-15, "{joules} J at {per_kwh}: {found}");
        }
        assert_eq!(prices(None).electricity(36.0), None);
    }

    #[test]
    fn what_a_cloud_bills_worked_out_by_hand() {
        for (input, output, prices, expected) in [
            (1_000_000, 0, (0.15, 0.60), 0.15),
            (0, 1_000_000, (0.15, 0.60), 0.60),
            (2_000, 500, (0.50, 2.00), 0.002),
            (37, 8, (2.50, 10.00), 0.000_172_5),
            (0, 0, (2.50, 10.00), 0.0),
        ] {
            let cloud_per_million = Some(TokenPrices { input: prices.0, output: prices.1 });
            let found = Prices { cloud_per_million, ..Prices::default() }.cloud(input, output).unwrap();
            assert!((found - expected).abs() < 1e-15, "{input} + {output}: {found}");
        }
        assert_eq!(Prices::default().cloud(1, 1), None);
    }

    #[test]
    fn amounts_show_what_they_are() {
        for (amount, shown) in [
            (12.345, "12.35 EUR"),
            (1.0, "1.00 EUR"),
            (0.5, "0.5000 EUR"),
            (0.0123, "0.0123 EUR"),
            (0.0021, "0.0021 EUR"),
            (0.000_172_5, "0.00017 EUR"),
            (0.000_003, "0.0000030 EUR"),
            (-0.000_003, "-0.0000030 EUR"),
            (0.0, "0 EUR"),
        ] {
            assert_eq!(money(amount, "EUR"), shown);
        }
        assert_eq!(money(2.0, ""), "2.00");
    }
}
