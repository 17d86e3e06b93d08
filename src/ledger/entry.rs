//! One answer's line.

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};

use super::Prices;

/// The version of the line's format; it grows when a field changes its meaning. Fields that are added do not change it.
pub const VERSION: u32 = 1;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    pub v: u32,
    /// When the answer ended: UTC, by RFC 3339.
    pub time: String,
    /// What asked: `chat`, `run`, `serve`.
    pub via: String,
    /// The model's short name.
    pub model: String,
    /// The lane that answered; where an answer moved, all of them in their order: `npu+cpu`. Empty where none was chosen.
    pub lane: String,
    /// A simulator did some of it.
    #[serde(default)]
    pub emulated: bool,
    /// `stop`, `length`, `cancelled`, `error`.
    pub finish: String,
    /// All tokens of the prompt, the reused ones among them.
    pub tokens_in: u64,
    /// Those of them that were in the cache.
    #[serde(default)]
    pub tokens_reused: u64,
    pub tokens_out: u64,
    /// From the request to the end of the answer.
    pub seconds: f64,
    pub energy: EntryEnergy,
    /// The prices that were in force; absent where none were set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<Prices>,
    /// What a remote lane's provider bills for this answer, in the prices' currency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_cost: Option<f64>,
}

/// What was measured, or why nothing was.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct EntryEnergy {
    /// What counts as the answer's: above idle power, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub joules: Option<f64>,
    /// All that the source used meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub joules_with_idle: Option<f64>,
    /// The idle power that was subtracted; absent where it is not known, and nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_watts: Option<f64>,
    /// What the joules are of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Other answers ran at the same time; this is the share by tokens.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
    /// Why `joules` or the idle power is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

pub(super) enum Unreadable {
    Damaged,
    Newer,
}

impl Entry {
    /// A moment as `time` has it.
    pub fn timestamp(moment: DateTime<Utc>) -> String {
        moment.to_rfc3339_opts(SecondsFormat::Secs, true)
    }

    pub fn moment(&self) -> Option<DateTime<Utc>> {
        DateTime::parse_from_rfc3339(&self.time).ok().map(|moment| moment.to_utc())
    }

    pub(super) fn parse(line: &[u8]) -> Result<Self, Unreadable> {
        #[derive(Deserialize)]
        struct Version {
            v: u32,
        }
        let version = serde_json::from_slice::<Version>(line).map_err(|_| Unreadable::Damaged)?.v;
        if version > VERSION {
            return Err(Unreadable::Newer);
        }
        let entry: Self = serde_json::from_slice(line).map_err(|_| Unreadable::Damaged)?;
        if entry.is_plausible() { Ok(entry) } else { Err(Unreadable::Damaged) }
    }

    /// Sums are of numbers only.
    fn is_plausible(&self) -> bool {
        let amounts = [self.energy.joules, self.energy.joules_with_idle, self.energy.idle_watts, self.remote_cost];
        let good = |amount: f64| amount.is_finite() && amount >= 0.0;
        self.moment().is_some()
            && amounts.into_iter().flatten().all(good)
            && self.prices.as_ref().is_none_or(Prices::are_plausible)
    }
}

#[cfg(test)]
pub mod tests {
    use super::super::TokenPrices;
    use super::*;

    pub fn entry() -> Entry {
        Entry {
            v: VERSION,
            time: "2026-03-04T05:06:07Z".into(),
            via: "chat".into(),
            model: "test-model".into(),
            lane: "cpu".into(),
            emulated: false,
            finish: "stop".into(),
            tokens_in: 1000,
            tokens_reused: 900,
            tokens_out: 50,
            seconds: 2.5,
            energy: EntryEnergy {
                joules: Some(18.0),
                joules_with_idle: Some(28.0),
                idle_watts: Some(4.0),
                source: Some("CPU packages".into()),
                ..EntryEnergy::default()
            },
            prices: Some(Prices {
                currency: "EUR".into(),
                electricity_per_kwh: Some(0.3),
                cloud_per_million: Some(TokenPrices { input: 0.5, output: 2.0 }),
            }),
            remote_cost: None,
        }
    }

    #[test]
    fn a_line_is_as_documented() {
        let line = serde_json::to_string(&entry()).unwrap();
        assert_eq!(
            line,
            r#"{"v":1,"time":"2026-03-04T05:06:07Z","via":"chat","model":"test-model","lane":"cpu","emulated":false,"finish":"stop","tokens_in":1000,"tokens_reused":900,"tokens_out":50,"seconds":2.5,"energy":{"joules":18.0,"joules_with_idle":28.0,"idle_watts":4.0,"source":"CPU packages"},"prices":{"currency":"EUR","electricity_per_kwh":0.3,"cloud_per_million":{"input":0.5,"output":2.0}}}"#
        );
        assert_eq!(Entry::parse(line.as_bytes()).ok(), Some(entry()));
        let moment = entry().moment().unwrap();
        assert_eq!((moment.timestamp(), Entry::timestamp(moment)), (1_772_600_767, entry().time));
    }

    #[test]
    fn numbers_that_cannot_be_are_damage() {
        let line = serde_json::to_string(&entry()).unwrap();
        for (good, bad) in [
            ("\"joules\":18.0", "\"joules\":-18.0"),
            ("\"electricity_per_kwh\":0.3", "\"electricity_per_kwh\":-1"),
            ("\"output\":2.0", "\"output\":\"two\""),
            ("\"tokens_in\":1000", "\"tokens_in\":-1"),
            ("2026-03-04T05:06:07Z", "yesterday"),
        ] {
            assert!(line.contains(good), "{good}");
            assert!(matches!(Entry::parse(line.replace(good, bad).as_bytes()), Err(Unreadable::Damaged)), "{bad}");
        }
        // What a later version adds is no harm.
        assert!(Entry::parse(line.replace("\"v\":1", "\"v\":1,\"more\":[]").as_bytes()).is_ok());
    }
}
