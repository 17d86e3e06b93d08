//! Chooses the next token from the logits.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::request::Sampling;

pub struct Sampler {
    sampling: Sampling,
    rng: ChaCha8Rng,
    /// Whether a token was seen, by id; empty while no repetition penalty is asked for.
    seen: Vec<bool>,
    candidates: Vec<Candidate>,
}

#[derive(Debug, Clone, Copy)]
struct Candidate {
    id: u32,
    /// The logit, later the probability relative to the most likely token.
    weight: f32,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SampleError {
    #[error("the model gave no finite logit: its weights or this execution provider are broken")]
    NoFiniteLogit,
}

/// The first step when candidates are sorted for top-p; a nucleus is rarely larger.
const FIRST_SORTED: usize = 64;

impl Sampler {
    pub fn new(sampling: Sampling, prompt: &[u32]) -> Self {
        // The hasher's keys come from the operating system's random numbers.
        let seed = sampling.seed.unwrap_or_else(|| std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0));
        let mut sampler =
            Self { sampling, rng: ChaCha8Rng::seed_from_u64(seed), seen: Vec::new(), candidates: Vec::new() };
        for token in prompt {
            sampler.observe(*token);
        }
        sampler
    }

    /// Counts a token as seen, for the repetition penalty.
    pub fn observe(&mut self, token: u32) {
        if self.sampling.repetition_penalty == 1.0 {
            return;
        }
        let index = token as usize;
        if self.seen.len() <= index {
            self.seen.resize(index + 1, false);
        }
        self.seen[index] = true;
    }

    pub fn sample(&mut self, logits: &[f32]) -> Result<u32, SampleError> {
        if self.sampling.temperature <= 0.0 {
            return self.most_likely(logits);
        }
        let mut candidates = std::mem::take(&mut self.candidates);
        candidates.clear();
        candidates.extend(self.penalized(logits).filter(|candidate| candidate.weight.is_finite()));
        let chosen = self.draw(&mut candidates);
        self.candidates = candidates;
        chosen
    }

    fn most_likely(&self, logits: &[f32]) -> Result<u32, SampleError> {
        let best = if self.seen.is_empty() {
            highest(logits.iter().copied())
        } else {
            highest(self.penalized(logits).map(|candidate| candidate.weight))
        };
        best.ok_or(SampleError::NoFiniteLogit)
    }

    fn penalized<'a>(&'a self, logits: &'a [f32]) -> impl Iterator<Item = Candidate> + 'a {
        let penalty = self.sampling.repetition_penalty;
        logits.iter().enumerate().map(move |(index, logit)| {
            let seen = self.seen.get(index).copied().unwrap_or(false);
            let weight = match (seen, *logit > 0.0) {
                (false, _) => *logit,
                (true, true) => logit / penalty,
                (true, false) => logit * penalty,
            };
            Candidate { id: index as u32, weight }
        })
    }

    fn draw(&mut self, candidates: &mut Vec<Candidate>) -> Result<u32, SampleError> {
        let Sampling { temperature, top_k, top_p, min_p, .. } = self.sampling;
        if top_k > 0 && top_k < candidates.len() {
            candidates.select_nth_unstable_by(top_k - 1, more_likely);
            candidates.truncate(top_k);
        }
        let highest = candidates.iter().map(|c| c.weight).fold(f32::NEG_INFINITY, f32::max);
        let mut total = 0.0;
        for candidate in candidates.iter_mut() {
            candidate.weight = ((candidate.weight - highest) / temperature).exp();
            total += f64::from(candidate.weight);
        }
        if top_p < 1.0 {
            keep_nucleus(candidates, f64::from(top_p) * total);
        } else {
            // The draw walks the candidates in order, so the order must not depend on how they were selected.
            candidates.sort_unstable_by_key(|candidate| candidate.id);
        }
        // Relative to the most likely token, whose weight is 1.
        candidates.retain(|candidate| candidate.weight >= min_p);

        let total: f64 = candidates.iter().map(|c| f64::from(c.weight)).sum();
        let mut target = self.rng.random::<f64>() * total;
        for candidate in candidates.iter() {
            target -= f64::from(candidate.weight);
            if target < 0.0 {
                return Ok(candidate.id);
            }
        }
        // Rounding can leave the target at the end.
        candidates.last().map(|candidate| candidate.id).ok_or(SampleError::NoFiniteLogit)
    }
}

/// The index of the first of the highest finite values.
fn highest(values: impl Iterator<Item = f32>) -> Option<u32> {
    let mut best = (None, f32::NEG_INFINITY);
    for (index, value) in values.enumerate() {
        // False for NaN.
        if value > best.1 && value < f32::INFINITY {
            best = (Some(index as u32), value);
        }
    }
    best.0
}

fn more_likely(a: &Candidate, b: &Candidate) -> std::cmp::Ordering {
    b.weight.total_cmp(&a.weight).then(a.id.cmp(&b.id))
}

/// Keeps the most likely candidates whose weights add up to at least `wanted`, most likely first, and at least one.
/// Sorts no more of them than it must: a whole vocabulary would take longer than a layer of the model.
fn keep_nucleus(candidates: &mut Vec<Candidate>, wanted: f64) {
    let mut sorted = FIRST_SORTED;
    loop {
        let sorting = sorted.min(candidates.len());
        if sorting < candidates.len() {
            candidates.select_nth_unstable_by(sorting, more_likely);
        }
        candidates[..sorting].sort_unstable_by(more_likely);
        let mut sum = 0.0;
        for (index, candidate) in candidates[..sorting].iter().enumerate() {
            sum += f64::from(candidate.weight);
            if sum >= wanted {
                candidates.truncate(index + 1);
                return;
            }
        }
        if sorting == candidates.len() {
            return;
        }
        sorted *= 8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Sampling =
        Sampling { temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0, repetition_penalty: 1.0, seed: Some(7) };

    /// Logits whose softmax at temperature 1 is 0.5, 0.25, 0.125, 0.125.
    fn halves() -> Vec<f32> {
        [0.5_f32, 0.25, 0.125, 0.125].iter().map(|p| p.ln()).collect()
    }

    /// The share of each token over many draws.
    fn shares(sampling: Sampling, logits: &[f32]) -> Vec<f64> {
        let draws = 20_000;
        let mut sampler = Sampler::new(sampling, &[]);
        let mut counts = vec![0.0; logits.len()];
        for _ in 0..draws {
            counts[sampler.sample(logits).unwrap() as usize] += 1.0;
        }
        counts.iter().map(|count| count / f64::from(draws)).collect()
    }

    fn assert_shares(sampling: Sampling, expected: [f64; 4]) {
        let shares = shares(sampling.clone(), &halves());
        for (share, expected) in shares.iter().zip(expected) {
            // Three standard deviations of a share of one half over 20,000 draws are 0.011.
            assert!((share - expected).abs() < 0.012, "{sampling:?}: {shares:?}");
        }
    }

    #[test]
    fn draws_follow_the_softmax() {
        assert_shares(PLAIN, [0.5, 0.25, 0.125, 0.125]);
    }

    #[test]
    fn temperature_half_squares_the_probabilities() {
        // 1/4, 1/16, 1/64, 1/64 of a sum of 22/64.
        assert_shares(Sampling { temperature: 0.5, ..PLAIN }, [16.0 / 22.0, 4.0 / 22.0, 1.0 / 22.0, 1.0 / 22.0]);
    }

    #[test]
    fn top_k_keeps_the_k_most_likely() {
        assert_shares(Sampling { top_k: 2, ..PLAIN }, [2.0 / 3.0, 1.0 / 3.0, 0.0, 0.0]);
    }

    #[test]
    fn top_p_keeps_just_enough() {
        assert_shares(Sampling { top_p: 0.7, ..PLAIN }, [2.0 / 3.0, 1.0 / 3.0, 0.0, 0.0]);
        assert_shares(Sampling { top_p: 0.0, ..PLAIN }, [1.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn min_p_is_relative_to_the_most_likely() {
        // Half of 0.5 is 0.25: the second just stays (weights are exact powers of two up to rounding, so stay below).
        assert_shares(Sampling { min_p: 0.4, ..PLAIN }, [2.0 / 3.0, 1.0 / 3.0, 0.0, 0.0]);
    }

    #[test]
    fn zero_temperature_takes_the_first_of_the_most_likely() {
        let mut sampler = Sampler::new(Sampling::GREEDY, &[]);
        assert_eq!(sampler.sample(&[1.0, 3.0, f32::NAN, 3.0]), Ok(1));
    }

    #[test]
    fn the_repetition_penalty_divides_positive_and_multiplies_negative_logits() {
        let sampling = Sampling { repetition_penalty: 2.0, ..Sampling::GREEDY };
        // 3 / 2 falls below 2; -1 * 2 falls below -1.5.
        assert_eq!(Sampler::new(sampling.clone(), &[0]).sample(&[3.0, 2.0]), Ok(1));
        assert_eq!(Sampler::new(sampling.clone(), &[0]).sample(&[-1.0, -1.5]), Ok(1));
        assert_eq!(Sampler::new(sampling, &[]).sample(&[3.0, 2.0]), Ok(0));
    }

    #[test]
    fn the_same_seed_gives_the_same_draws() {
        let logits: Vec<f32> = (0..5000).map(|i| ((i * 37 % 101) as f32) / 20.0).collect();
        for sampling in [PLAIN, Sampling { top_p: 0.9, ..PLAIN }, Sampling { top_k: 40, min_p: 0.05, ..PLAIN }] {
            let draw = || {
                let mut sampler = Sampler::new(sampling.clone(), &[]);
                (0..50).map(|_| sampler.sample(&logits).unwrap()).collect::<Vec<_>>()
            };
            assert_eq!(draw(), draw());
        }
    }

    #[test]
    fn a_wide_nucleus_is_found_in_steps() {
        // 1000 equal tokens: 0.9 of them is 900, far more than the first sorted step.
        let mut candidates: Vec<_> = (0..1000).map(|id| Candidate { id, weight: 1.0 }).collect();
        keep_nucleus(&mut candidates, 899.5);
        assert_eq!(candidates.len(), 900);
        assert_eq!(candidates[899].id, 899);
    }

    #[test]
    fn broken_logits_are_an_error() {
        for temperature in [0.0, 1.0] {
            let mut sampler = Sampler::new(Sampling { temperature, ..PLAIN }, &[]);
            assert_eq!(sampler.sample(&[f32::NAN, f32::NEG_INFINITY]), Err(SampleError::NoFiniteLogit));
        }
    }
}
