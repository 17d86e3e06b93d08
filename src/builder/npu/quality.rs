//! How good a quantized model is: its logits beside those of the float model, position by position.
//!
//! Pure functions of logits and the report that is made of them; `judge` runs the graphs. The arithmetic is in float64,
//! since a divergence of some thousandths is the difference of large sums.

mod report;

use serde::{Deserialize, Serialize};

pub use report::{Column, Engine, Report};

/// What a build must reach to be called good.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// The least mean cosine of the logits.
    pub cosine: f64,
    /// The greatest mean Kullback-Leibler divergence, in nats.
    pub divergence: f64,
    /// The least agreement on the most likely token, in percent.
    pub agreement: f64,
}

/// What calibration on text reaches with a margin (for the default model 0.9994, 0.0027 and 98 %), and ranges from random
/// numbers do not (0.96, 0.14, 79 %).
pub const LIMITS: Limits = Limits { cosine: 0.998, divergence: 0.006, agreement: 94.0 };

/// How close two models' predictions are, over many positions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Quality {
    /// Predictions compared.
    pub positions: usize,
    /// Mean cosine of the angle between both models' logits.
    pub cosine: f64,
    /// What 95 % of the positions' cosines reach or exceed (nearest rank).
    pub cosine_percentile_5: f64,
    /// Positions at which both models take the same token for the most likely, in percent.
    pub agreement: f64,
    /// Mean Kullback-Leibler divergence of the quantized model's predictions from the float model's, in nats.
    pub divergence: f64,
    /// exp of the mean of -ln p(next token).
    pub perplexity: f64,
    /// The same for the float model.
    pub float_perplexity: f64,
}

/// Two models' predictions, gathered.
#[derive(Debug, Clone, Default)]
pub struct Comparison {
    cosines: Vec<f64>,
    agreeing: usize,
    divergence: f64,
    /// Positions whose next token is known, and the sums of -ln p(next token) there.
    followed: usize,
    surprise: f64,
    float_surprise: f64,
}

impl Comparison {
    /// Adds a position: both models' logits, as many as the vocabulary has entries, and the token that follows in the text.
    pub fn add(&mut self, float: &[f32], quantized: &[f32], next: Option<u32>) {
        self.cosines.push(cosine(float, quantized));
        self.agreeing += usize::from(most_likely(float) == most_likely(quantized));
        let [p, q] = [float, quantized].map(LogSoftmax::new);
        // D(p || q) = sum p (ln p - ln q)
        self.divergence += float
            .iter()
            .zip(quantized)
            .map(|(float, quantized)| {
                let ln_p = p.of(*float);
                ln_p.exp() * (ln_p - q.of(*quantized))
            })
            .sum::<f64>();
        let next = next.map(|token| token as usize);
        if let Some((float, quantized)) = next.and_then(|token| Some((float.get(token)?, quantized.get(token)?))) {
            self.followed += 1;
            self.float_surprise -= p.of(*float);
            self.surprise -= q.of(*quantized);
        }
    }

    /// `None` where nothing was compared.
    pub fn quality(mut self) -> Option<Quality> {
        let positions = self.cosines.len();
        if positions == 0 {
            return None;
        }
        self.cosines.sort_by(f64::total_cmp);
        let mean = |sum: f64| sum / positions as f64;
        let perplexity = |surprise: f64| (surprise / self.followed as f64).exp();
        Some(Quality {
            positions,
            cosine: mean(self.cosines.iter().sum()),
            cosine_percentile_5: self.cosines[positions.div_ceil(20) - 1],
            agreement: mean(100.0 * self.agreeing as f64),
            divergence: mean(self.divergence),
            perplexity: perplexity(self.surprise),
            float_perplexity: perplexity(self.float_surprise),
        })
    }
}

impl Limits {
    /// Says of each limit that is missed by how much.
    pub fn missed(&self, quality: &Quality) -> Vec<String> {
        // What is not a number reaches no limit.
        let limits = [
            ("mean cosine of the logits", quality.cosine, "at least", self.cosine, quality.cosine >= self.cosine),
            (
                "mean KL divergence in nats",
                quality.divergence,
                "at most",
                self.divergence,
                quality.divergence <= self.divergence,
            ),
            (
                "agreement on the most likely token in %",
                quality.agreement,
                "at least",
                self.agreement,
                quality.agreement >= self.agreement,
            ),
        ];
        let missed = limits.into_iter().filter(|(.., reached)| !reached);
        missed.map(|(what, found, bound, limit, _)| format!("{what} is {found:.4}; expected {bound} {limit}")).collect()
    }
}

/// ln softmax(x)_i = x_i - m - ln sum exp(x_j - m), with m the largest of them.
struct LogSoftmax {
    offset: f64,
}

impl LogSoftmax {
    fn new(logits: &[f32]) -> Self {
        let largest = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
        let sum: f64 = logits.iter().map(|logit| (f64::from(*logit) - largest).exp()).sum();
        Self { offset: largest + sum.ln() }
    }

    fn of(&self, logit: f32) -> f64 {
        f64::from(logit) - self.offset
    }
}

/// 0 where one of them has no direction.
fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    let lengths = (dot(a, a) * dot(b, b)).sqrt();
    if lengths == 0.0 { 0.0 } else { dot(a, b) / lengths }
}

/// The first of the largest.
pub fn most_likely(logits: &[f32]) -> Option<usize> {
    let mut best: Option<(usize, f32)> = None;
    for (index, &logit) in logits.iter().enumerate() {
        if best.is_none_or(|(_, largest)| logit > largest) {
            best = Some((index, logit));
        }
    }
    best.map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(positions: &[(&[f32], &[f32], Option<u32>)]) -> Quality {
        let mut comparison = Comparison::default();
        positions.iter().for_each(|(float, quantized, next)| comparison.add(float, quantized, *next));
        comparison.quality().unwrap()
    }

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-7, "{found} is not {expected}");
    }

    /// Logits of the probabilities 1/2, 1/4, 1/4 and of 1/4, 1/2, 1/4.
    fn halves() -> [[f32; 3]; 2] {
        let ln2 = std::f32::consts::LN_2;
        [[ln2, 0.0, 0.0], [0.0, ln2, 0.0]]
    }

    #[test]
    fn one_position_by_hand() {
        let [p, q] = halves();
        let quality = of(&[(&p, &q, Some(0))]);
        assert_eq!((quality.positions, quality.agreement, quality.cosine), (1, 0.0, 0.0));
        // 1/2 ln(2) + 1/4 ln(1/2) + 1/4 ln(1) = ln(2) / 4
        close(quality.divergence, std::f64::consts::LN_2 / 4.0);
        close(quality.float_perplexity, 2.0);
        close(quality.perplexity, 4.0);
    }

    #[test]
    fn means_are_over_positions() {
        let [p, q] = halves();
        // The last position's next token is not known, so it has no part in the perplexities: sqrt(2 * 4) and sqrt(4 * 2).
        let quality = of(&[(&p, &q, Some(0)), (&p, &q, Some(1)), (&p, &p, None), (&q, &q, None)]);
        close(quality.perplexity, 8.0_f64.sqrt());
        close(quality.float_perplexity, 8.0_f64.sqrt());
        close(quality.divergence, std::f64::consts::LN_2 / 8.0);
        close(quality.agreement, 50.0);
        close(quality.cosine, 0.5);
    }

    #[test]
    fn a_constant_changes_no_prediction_and_a_factor_no_angle() {
        let float: &[f32] = &[3.0, -1.0, 2.0];
        close(of(&[(float, &[1003.0, 999.0, 1002.0], None)]).divergence, 0.0);
        let halved = of(&[(float, &[1.5, -0.5, 1.0], None)]);
        close(halved.cosine, 1.0);
        assert!(halved.divergence > 0.05, "{}", halved.divergence);
        close(of(&[(&[1e4, 0.0], &[1e4, 0.0], Some(1))]).divergence, 0.0);
    }

    #[test]
    fn the_percentile_is_by_nearest_rank() {
        // Cosines k / 100: the angle between (1, 0) and (k, sqrt(100² - k²)).
        let of_hundredths = |hundredths: std::ops::RangeInclusive<u32>| {
            let mut comparison = Comparison::default();
            for k in hundredths.rev() {
                let k = k as f32 / 100.0;
                comparison.add(&[1.0, 0.0], &[k, (1.0 - k * k).sqrt()], None);
            }
            comparison.quality().unwrap().cosine_percentile_5
        };
        for (count, expected) in [(1, 0.01), (20, 0.01), (21, 0.02), (40, 0.02), (100, 0.05)] {
            let found = of_hundredths(1..=count);
            assert!((found - expected).abs() < 1e-6, "{count}: {found}");
        }
    }

    #[test]
    fn nothing_compared_is_no_quality() {
        assert_eq!(Comparison::default().quality(), None);
    }

    #[test]
    fn limits_name_what_is_missed() {
        let good = Quality {
            positions: 1,
            cosine: 0.998,
            divergence: 0.006,
            agreement: 94.0,
            ..of(&[(&[1.0], &[1.0], None)])
        };
        assert_eq!(LIMITS.missed(&good), Vec::<String>::new());
        type Change = fn(&mut Quality);
        let cases: [(Change, &str); 4] = [
            (|q| q.cosine = 0.9979, "mean cosine of the logits is 0.9979; expected at least 0.998"),
            (|q| q.divergence = 0.0061, "mean KL divergence in nats is 0.0061; expected at most 0.006"),
            (|q| q.agreement = 93.9, "agreement on the most likely token in % is 93.9000; expected at least 94"),
            (|q| q.cosine = f64::NAN, "mean cosine of the logits is NaN; expected at least 0.998"),
        ];
        for (change, expected) in cases {
            let mut quality = good.clone();
            change(&mut quality);
            assert_eq!(LIMITS.missed(&quality), [expected]);
        }
    }
}
