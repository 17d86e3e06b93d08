//! Statistics of measured numbers, and how sure a difference of two measurements is.

use serde::{Deserialize, Serialize};

/// Percentiles are by nearest rank: the smallest measured value that at least p percent of the values do not exceed. The
/// standard deviation is of the population (divides by n). Everything is in the unit of the values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub count: usize,
    pub mean: f64,
    /// `std` in JSON, as in `winml perf`.
    #[serde(rename = "std")]
    pub std_dev: f64,
    pub min: f64,
    pub max: f64,
    pub p50: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
    /// The standard deviation as a part of the mean; absent where the mean is 0.
    pub coefficient_of_variation: Option<f64>,
}

impl Summary {
    /// `None` for no values at all, and for values that are no numbers.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        if !sorted.iter().all(|value| value.is_finite()) {
            return None;
        }
        let mean = sorted.iter().sum::<f64>() / sorted.len() as f64;
        let variance = sorted.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / sorted.len() as f64;
        let std_dev = variance.sqrt();
        let percentile = |percent| sorted[nearest_rank(sorted.len(), percent) - 1];
        Some(Self {
            count: sorted.len(),
            mean,
            std_dev,
            min,
            max,
            p50: percentile(50),
            p90: percentile(90),
            p95: percentile(95),
            p99: percentile(99),
            coefficient_of_variation: (mean != 0.0).then(|| std_dev / mean),
        })
    }

    /// The sample's variance (divides by n - 1) over n: the square of the mean's standard error.
    fn squared_error(&self) -> f64 {
        // Of the population's variance: n / (n - 1) / n.
        self.std_dev.powi(2) / (self.count as f64 - 1.0)
    }
}

/// The rank, counted from 1, of a percentile among `count` values in ascending order.
pub fn nearest_rank(count: usize, percent: usize) -> usize {
    (count * percent).div_ceil(100).max(1)
}

/// The median: the middle value, or the mean of the two middle ones. `None` for no values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let (low, high) = (sorted.get(sorted.len().checked_sub(1)? / 2)?, sorted.get(sorted.len() / 2)?);
    Some(low.midpoint(*high))
}

/// A confidence interval of at least 95 % for the median of what the values were drawn from: the narrowest one between two
/// of them that lie alike from both ends. It supposes nothing of the distribution: each value is below the median with a
/// probability of a half, so the interval from the k-th smallest to the k-th largest misses it with twice the binomial
/// probability of fewer than k. `None` for fewer than six values, whose whole range is not sure enough.
pub fn median_interval(values: &[f64]) -> Option<(f64, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let count = sorted.len();
    // Of the values below the median there are `below` with this probability.
    let (mut probability, mut missed, mut rank) = (0.5_f64.powi(i32::try_from(count).ok()?), 0.0, 0);
    for below in 0..count / 2 {
        missed += 2.0 * probability;
        if missed > 0.05 {
            break;
        }
        rank = below + 1;
        probability *= (count - below) as f64 / (below + 1) as f64;
    }
    (rank > 0).then(|| (sorted[rank - 1], sorted[count - rank]))
}

/// How a mean changed, as a part of the old one: 0.1 is a tenth more.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Change {
    pub change: f64,
    /// The 95 % confidence interval; absent for fewer than two values on a side.
    pub interval: Option<(f64, f64)>,
}

impl Change {
    /// By the delta method for a ratio of two independent means, with the degrees of freedom of Welch and Satterthwaite
    /// (rounded down) and Student's quantile. `None` where the old mean is not more than 0.
    pub fn between(old: &Summary, new: &Summary) -> Option<Self> {
        if old.mean <= 0.0 {
            return None;
        }
        let ratio = new.mean / old.mean;
        let interval = (old.count > 1 && new.count > 1).then(|| {
            // The variance of the ratio is (e_new + ratio^2 e_old) / old^2.
            let parts = [(new.squared_error(), new.count), (ratio.powi(2) * old.squared_error(), old.count)];
            let variance: f64 = parts.iter().map(|(error, _)| error).sum();
            let weight: f64 = parts.iter().map(|(error, count)| error.powi(2) / (*count as f64 - 1.0)).sum();
            let freedom = if weight > 0.0 { variance.powi(2) / weight } else { 1.0 };
            let half = student_97_5(freedom as usize) * variance.sqrt() / old.mean;
            (ratio - 1.0 - half, ratio - 1.0 + half)
        });
        Some(Self { change: ratio - 1.0, interval })
    }

    /// Whether the interval leaves out "no change".
    pub fn is_sure(&self) -> bool {
        self.interval.is_some_and(|(low, high)| low > 0.0 || high < 0.0)
    }
}

/// Student's t with 97.5 % of the distribution below it: from tables up to 10 degrees of freedom, above by the first terms
/// of its expansion around the normal distribution's quantile (Abramowitz and Stegun 26.7.5), right to three decimals.
fn student_97_5(freedom: usize) -> f64 {
    const TABLE: [f64; 10] = [12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281];
    if let Some(value) = TABLE.get(freedom.max(1) - 1) {
        return *value;
    }
    let (z, v) = (1.959_963_985_f64, freedom as f64);
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let third = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    z + first / v + second / v.powi(2) + third / v.powi(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-9, "{found} is not {expected}");
    }

    #[test]
    fn nothing_and_nonsense_have_no_summary() {
        for values in [&[][..], &[1.0, f64::NAN], &[f64::INFINITY]] {
            assert_eq!(Summary::of(values), None);
        }
    }

    /// The textbook population 2 4 4 4 5 5 7 9: mean 40 / 8, variance (9 + 1 + 1 + 1 + 0 + 0 + 4 + 16) / 8 = 4.
    #[test]
    fn the_textbook_population() {
        let s = Summary::of(&[9.0, 2.0, 4.0, 5.0, 4.0, 7.0, 4.0, 5.0]).unwrap();
        assert_eq!((s.count, s.min, s.max), (8, 2.0, 9.0));
        close(s.mean, 5.0);
        close(s.std_dev, 2.0);
        close(s.coefficient_of_variation.unwrap(), 0.4);
        // Ranks: ceil(4), ceil(7.2), ceil(7.6), ceil(7.92).
        assert_eq!((s.p50, s.p90, s.p95, s.p99), (4.0, 9.0, 9.0, 9.0));
    }

    /// 10 values, as a bench has: ranks 5, 9, 10, 10. Interpolation would give 5.5 for the median.
    #[test]
    fn percentiles_are_values_that_were_measured() {
        let s = Summary::of(&(1..=10).rev().map(f64::from).collect::<Vec<_>>()).unwrap();
        assert_eq!((s.p50, s.p90, s.p95, s.p99), (5.0, 9.0, 10.0, 10.0));
        let s = Summary::of(&(1..=1000).map(f64::from).collect::<Vec<_>>()).unwrap();
        assert_eq!((s.p50, s.p90, s.p95, s.p99), (500.0, 900.0, 950.0, 990.0));
        let s = Summary::of(&[7.0]).unwrap();
        assert_eq!((s.p50, s.p99, s.std_dev), (7.0, 7.0, 0.0));
        assert_eq!(Summary::of(&[0.0, 0.0]).unwrap().coefficient_of_variation, None);
    }

    /// Quantiles from printed tables of Student's distribution.
    #[test]
    fn student_s_quantiles() {
        for (freedom, expected) in
            [(1, 12.706), (5, 2.571), (11, 2.201), (15, 2.131), (20, 2.086), (30, 2.042), (120, 1.980)]
        {
            assert!((student_97_5(freedom) - expected).abs() < 6e-4, "{freedom}: {}", student_97_5(freedom));
        }
    }

    /// Old 9 10 11 (mean 10, squared error 1/3), new 10 11 12 (mean 11, the same): the ratio is 1.1, its variance
    /// (1/3 + 1.21/3) / 100 = 0.0073667, its freedom (2.21/3)^2 / ((1 + 1.4641) / 9 / 2) = 3.96, so 3 and t = 3.1824.
    #[test]
    fn a_change_with_its_interval() {
        let [old, new] = [[9.0, 10.0, 11.0], [10.0, 11.0, 12.0]].map(|values| Summary::of(&values).unwrap());
        let change = Change::between(&old, &new).unwrap();
        let (low, high) = change.interval.unwrap();
        close(change.change, 0.1);
        let half = 3.1824 * 0.007_366_666_666_7_f64.sqrt();
        close(low, 0.1 - half);
        close(high, 0.1 + half);
        assert!(!change.is_sure());
        let far = Summary::of(&[29.0, 30.0, 31.0]).unwrap();
        assert!(Change::between(&old, &far).unwrap().is_sure());
    }

    #[test]
    fn medians() {
        for (values, expected) in
            [(&[][..], None), (&[3.0], Some(3.0)), (&[4.0, 1.0], Some(2.5)), (&[9.0, 1.0, 2.0], Some(2.0))]
        {
            assert_eq!(median(values), expected);
        }
    }

    /// Ranks from printed tables of the sign test (two-sided, 5 %): none for 5, the ends up to 8, the second from 9 to 11,
    /// the third from 12 to 14, the fourth from 15, the sixth for 20.
    #[test]
    fn the_median_s_interval_is_between_ranks_of_the_sign_test() {
        for (count, rank) in [(6, 1), (8, 1), (9, 2), (11, 2), (12, 3), (14, 3), (15, 4), (17, 5), (20, 6)] {
            let values: Vec<f64> = (1..=count).rev().map(f64::from).collect();
            let expected = (f64::from(rank), f64::from(count + 1 - rank));
            assert_eq!(median_interval(&values), Some(expected), "{count}");
        }
        assert_eq!(median_interval(&[1.0; 5]), None);
    }

    #[test]
    fn one_value_on_a_side_is_no_interval_and_no_change_is_none() {
        let [one, many] = [&[5.0][..], &[5.0, 5.0]].map(|values| Summary::of(values).unwrap());
        assert_eq!(Change::between(&one, &many).unwrap(), Change { change: 0.0, interval: None });
        assert_eq!(Change::between(&many, &many).unwrap().interval, Some((0.0, 0.0)));
        assert_eq!(Change::between(&Summary::of(&[0.0]).unwrap(), &many), None);
    }
}
