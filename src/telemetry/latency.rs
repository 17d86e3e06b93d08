//! Statistics of token latencies.

use std::time::Duration;

use super::statistics::nearest_rank;

/// Percentiles are by nearest rank: the smallest measured value that at least p percent of the values do not exceed, so
/// each is a latency that really happened. The standard deviation is of the population (divides by n), as `winml perf`
/// reports it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LatencySummary {
    pub count: usize,
    pub mean: Duration,
    pub std_dev: Duration,
    pub min: Duration,
    pub max: Duration,
    pub p50: Duration,
    pub p95: Duration,
    pub p99: Duration,
}

/// `None` for no latencies at all.
pub fn summarize(latencies: &[Duration]) -> Option<LatencySummary> {
    let mut sorted = latencies.to_vec();
    sorted.sort_unstable();
    let (min, max) = (*sorted.first()?, *sorted.last()?);
    let count = sorted.len();
    let mean = sorted.iter().map(Duration::as_secs_f64).sum::<f64>() / count as f64;
    let variance = sorted.iter().map(|d| (d.as_secs_f64() - mean).powi(2)).sum::<f64>() / count as f64;
    Some(LatencySummary {
        count,
        mean: Duration::from_secs_f64(mean),
        std_dev: Duration::from_secs_f64(variance.sqrt()),
        min,
        max,
        p50: percentile(&sorted, 50),
        p95: percentile(&sorted, 95),
        p99: percentile(&sorted, 99),
    })
}

/// By nearest rank, as `LatencySummary::p50`; `None` for no latencies at all.
pub fn median(latencies: &[Duration]) -> Option<Duration> {
    let mut values = latencies.to_vec();
    let rank = nearest_rank(values.len(), 50).checked_sub(1).filter(|rank| *rank < values.len())?;
    Some(*values.select_nth_unstable(rank).1)
}

/// Tokens per second over these latencies; `None` where they took no time.
pub fn tokens_per_second(latencies: &[Duration]) -> Option<f64> {
    let seconds: f64 = latencies.iter().map(Duration::as_secs_f64).sum();
    (seconds > 0.0).then(|| latencies.len() as f64 / seconds)
}

/// By nearest rank; `sorted` must be ascending and not empty.
fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    sorted[nearest_rank(sorted.len(), percent) - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(values: &[u64]) -> Vec<Duration> {
        values.iter().map(|v| Duration::from_millis(*v)).collect()
    }

    #[test]
    fn nothing_measured_gives_nothing() {
        assert_eq!(summarize(&[]), None);
        assert_eq!(tokens_per_second(&[]), None);
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn one_value_is_every_percentile() {
        let s = summarize(&ms(&[7])).unwrap();
        assert_eq!(
            (s.p50, s.p95, s.p99, s.min, s.max),
            (ms(&[7])[0], ms(&[7])[0], ms(&[7])[0], ms(&[7])[0], ms(&[7])[0])
        );
        assert_eq!(s.std_dev, Duration::ZERO);
    }

    /// The textbook population 2 4 4 4 5 5 7 9 has mean 5 and standard deviation 2.
    #[test]
    fn the_textbook_population() {
        let s = summarize(&ms(&[9, 2, 4, 5, 4, 7, 4, 5])).unwrap();
        assert!((s.mean.as_secs_f64() - 0.005).abs() < 1e-9);
        assert!((s.std_dev.as_secs_f64() - 0.002).abs() < 1e-9);
        assert_eq!(s.p50, Duration::from_millis(4)); // rank ceil(8 * 0.5) = 4
        assert_eq!(median(&ms(&[9, 2, 4, 5, 4, 7, 4, 5])), Some(s.p50));
        assert_eq!(s.p95, Duration::from_millis(9)); // rank ceil(7.6) = 8
    }

    #[test]
    fn nearest_rank_over_a_hundred() {
        let s = summarize(&ms(&(1..=100).collect::<Vec<_>>())).unwrap();
        assert_eq!(
            (s.p50, s.p95, s.p99),
            (Duration::from_millis(50), Duration::from_millis(95), Duration::from_millis(99))
        );
    }
}
