//! Chooses the next token from the logits.

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::request::Sampling;

pub struct Sampler {
    sampling: Sampling,
    rng: ChaCha8Rng,
    /// Tokens of prompt and answer, and how often the answer has them; empty where no penalty is asked for.
    seen: BTreeMap<u32, u32>,
    /// The logits with what was asked for; unused while nothing changes them.
    changed: Vec<f32>,
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
        let mut sampler = Self {
            sampling,
            rng: ChaCha8Rng::seed_from_u64(seed),
            seen: BTreeMap::new(),
            changed: Vec::new(),
            candidates: Vec::new(),
        };
        if sampler.sampling.repetition_penalty != 1.0 {
            sampler.seen.extend(prompt.iter().map(|token| (*token, 0)));
        }
        sampler
    }

    /// Counts a token of the answer, for the penalties.
    pub fn observe(&mut self, token: u32) {
        let Sampling { repetition_penalty, frequency_penalty, presence_penalty, .. } = self.sampling;
        if repetition_penalty != 1.0 || frequency_penalty != 0.0 || presence_penalty != 0.0 {
            *self.seen.entry(token).or_default() += 1;
        }
    }

    /// `allowed`: a bit for each token that may come, the first in the lowest bit of the first word; `None` allows all.
    pub fn sample(&mut self, logits: &[f32], allowed: Option<&[u32]>) -> Result<u32, SampleError> {
        if self.seen.is_empty() && self.sampling.logit_bias.is_empty() && allowed.is_none() {
            return self.choose(logits);
        }
        let mut changed = std::mem::take(&mut self.changed);
        changed.clear();
        changed.extend_from_slice(logits);
        self.change(&mut changed);
        if let Some(allowed) = allowed {
            keep_allowed(&mut changed, allowed);
        }
        let chosen = self.choose(&changed);
        self.changed = changed;
        chosen
    }

    /// Penalties and bias.
    fn change(&self, logits: &mut [f32]) {
        let Sampling { repetition_penalty, frequency_penalty, presence_penalty, .. } = self.sampling;
        for (token, count) in &self.seen {
            let Some(logit) = logits.get_mut(*token as usize) else { continue };
            *logit = if *logit > 0.0 { *logit / repetition_penalty } else { *logit * repetition_penalty };
            if *count > 0 {
                *logit -= *count as f32 * frequency_penalty + presence_penalty;
            }
        }
        for (token, bias) in &self.sampling.logit_bias {
            if let Some(logit) = logits.get_mut(*token as usize) {
                *logit += bias;
            }
        }
    }

    fn choose(&mut self, logits: &[f32]) -> Result<u32, SampleError> {
        if self.sampling.temperature <= 0.0 {
            return highest(logits).ok_or(SampleError::NoFiniteLogit);
        }
        let mut candidates = std::mem::take(&mut self.candidates);
        candidates.clear();
        let all = logits.iter().zip(0..).map(|(weight, id)| Candidate { id, weight: *weight });
        candidates.extend(all.filter(|candidate| candidate.weight.is_finite()));
        let chosen = self.draw(&mut candidates);
        self.candidates = candidates;
        chosen
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

fn keep_allowed(logits: &mut [f32], allowed: &[u32]) {
    let bits = allowed.iter().copied().chain(std::iter::repeat(0));
    for (logits, bits) in logits.chunks_mut(32).zip(bits) {
        for (bit, logit) in logits.iter_mut().enumerate() {
            if bits >> bit & 1 == 0 {
                *logit = f32::NEG_INFINITY;
            }
        }
    }
}

/// The index of the first of the highest finite values.
fn highest(values: &[f32]) -> Option<u32> {
    let mut best = (None, f32::NEG_INFINITY);
    for (value, index) in values.iter().zip(0..) {
        // False for NaN.
        if *value > best.1 && *value < f32::INFINITY {
            best = (Some(index), *value);
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

    const PLAIN: Sampling = Sampling {
        temperature: 1.0,
        top_k: 0,
        top_p: 1.0,
        min_p: 0.0,
        repetition_penalty: 1.0,
        frequency_penalty: 0.0,
        presence_penalty: 0.0,
        logit_bias: Vec::new(),
        seed: Some(7),
    };

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
            counts[sampler.sample(logits, None).unwrap() as usize] += 1.0;
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
        assert_eq!(sampler.sample(&[1.0, 3.0, f32::NAN, 3.0], None), Ok(1));
    }

    #[test]
    fn the_repetition_penalty_divides_positive_and_multiplies_negative_logits() {
        let sampling = Sampling { repetition_penalty: 2.0, ..Sampling::GREEDY };
        // 3 / 2 falls below 2; -1 * 2 falls below -1.5.
        assert_eq!(Sampler::new(sampling.clone(), &[0]).sample(&[3.0, 2.0], None), Ok(1));
        assert_eq!(Sampler::new(sampling.clone(), &[0]).sample(&[-1.0, -1.5], None), Ok(1));
        assert_eq!(Sampler::new(sampling, &[]).sample(&[3.0, 2.0], None), Ok(0));
    }

    /// Greedy choices, one after the other, from logits that stay.
    fn greedy<const N: usize>(sampling: Sampling, prompt: &[u32], logits: &[f32]) -> [u32; N] {
        let mut sampler = Sampler::new(sampling, prompt);
        std::array::from_fn(|_| {
            let token = sampler.sample(logits, None).unwrap();
            sampler.observe(token);
            token
        })
    }

    #[test]
    fn the_frequency_penalty_counts_and_the_presence_penalty_does_not() {
        // 3 of token 0 falls to 2, level with 1, then to 1; of two that are level the first is taken.
        let frequency = Sampling { frequency_penalty: 1.0, ..Sampling::GREEDY };
        assert_eq!(greedy(frequency.clone(), &[], &[3.0, 2.0]), [0, 0, 1, 0, 1]);
        // 3 falls to 1.5, below 2; 2 falls to 0.5; then it stays so.
        let presence = Sampling { presence_penalty: 1.5, ..Sampling::GREEDY };
        assert_eq!(greedy(presence.clone(), &[], &[3.0, 2.0]), [0, 1, 0, 0]);
        // Neither looks at the prompt.
        for sampling in [frequency, presence] {
            assert_eq!(greedy(sampling, &[0, 0, 0], &[3.0, 2.0]), [0]);
        }
        // A negative one makes what was said more likely.
        let negative = Sampling { frequency_penalty: -2.0, logit_bias: vec![(1, 1.5)], ..Sampling::GREEDY };
        assert_eq!(greedy(negative, &[], &[3.0, 2.0]), [1, 1, 1]);
    }

    #[test]
    fn a_bias_is_added_to_logits() {
        let biased = |bias: &[(u32, f32)]| Sampling { logit_bias: bias.to_vec(), ..Sampling::GREEDY };
        assert_eq!(greedy(biased(&[(2, 100.0), (900, 100.0)]), &[], &[3.0, 2.0, -50.0]), [2]);
        assert_eq!(greedy(biased(&[(0, -100.0)]), &[], &[3.0, 2.0]), [1]);
        // exp(ln 2) doubles the weight of the second: 0.5, 0.5, 0.125, 0.125 of 1.25.
        assert_shares(Sampling { logit_bias: vec![(1, 2.0_f32.ln())], ..PLAIN }, [0.4, 0.4, 0.1, 0.1]);
    }

    #[test]
    fn only_what_is_allowed_is_chosen() {
        // Tokens 1 and 33 of 40, of which the first is more likely.
        let logits: Vec<f32> = (0..40).map(|id| -(id as f32)).collect();
        let allowed = [1 << 1, 1 << 1];
        for sampling in [Sampling::GREEDY, PLAIN, Sampling { top_k: 1, ..PLAIN }] {
            assert_eq!(Sampler::new(sampling, &[]).sample(&logits, Some(&allowed)), Ok(1));
        }
        // A bias does not get past it, and what has no bit is not allowed.
        let biased = Sampling { logit_bias: vec![(0, 100.0), (39, 100.0), (33, 50.0)], ..Sampling::GREEDY };
        assert_eq!(Sampler::new(biased.clone(), &[]).sample(&logits, Some(&allowed)), Ok(33));
        assert_eq!(Sampler::new(biased, &[]).sample(&logits, Some(&allowed[..1])), Ok(1));
    }

    #[test]
    fn the_same_seed_gives_the_same_draws() {
        let logits: Vec<f32> = (0..5000).map(|i| ((i * 37 % 101) as f32) / 20.0).collect();
        for sampling in [PLAIN, Sampling { top_p: 0.9, ..PLAIN }, Sampling { top_k: 40, min_p: 0.05, ..PLAIN }] {
            let draw = || {
                let mut sampler = Sampler::new(sampling.clone(), &[]);
                (0..50).map(|_| sampler.sample(&logits, None).unwrap()).collect::<Vec<_>>()
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
            assert_eq!(sampler.sample(&[f32::NAN, f32::NEG_INFINITY], None), Err(SampleError::NoFiniteLogit));
        }
    }
}
