//! How likely the model took a token to be: the log softmax of its logits, as they came from the model.

use super::event::{TokenLogprob, TokenLogprobs};
use crate::model::Tokenizer;

/// Log probabilities by token; what the tokens stand for is added when they are sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranked {
    pub chosen: (u32, f32),
    /// The most likely first; of equally likely ones the one with the lower number.
    pub top: Vec<(u32, f32)>,
}

/// Of the chosen token and the `count` most likely ones.
pub fn rank(logits: &[f32], chosen: u32, count: usize) -> Ranked {
    let finite = || logits.iter().copied().filter(|logit| logit.is_finite());
    let highest = finite().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = finite().map(|logit| f64::from(logit - highest).exp()).sum();
    let logprob = |logit: f32| (f64::from(logit - highest) - sum.ln()) as f32;

    let more_likely = |a: &u32, b: &u32| logits[*b as usize].total_cmp(&logits[*a as usize]).then(a.cmp(b));
    let all = logits.iter().zip(0..).filter(|(logit, _)| logit.is_finite());
    let mut top: Vec<u32> = if count > 0 { all.map(|(_, id)| id).collect() } else { Vec::new() };
    if count < top.len() {
        top.select_nth_unstable_by(count, more_likely);
        top.truncate(count);
    }
    top.sort_unstable_by(more_likely);

    let of_chosen = logits.get(chosen as usize).copied().unwrap_or(f32::NEG_INFINITY);
    Ranked {
        chosen: (chosen, logprob(of_chosen)),
        top: top.into_iter().map(|id| (id, logprob(logits[id as usize]))).collect(),
    }
}

impl Ranked {
    pub fn spelled(&self, tokenizer: &Tokenizer) -> TokenLogprobs {
        let spelled = |(id, logprob): (u32, f32)| TokenLogprob { id, bytes: tokenizer.bytes(id), logprob };
        TokenLogprobs { chosen: spelled(self.chosen), top: self.top.iter().copied().map(spelled).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_the_log_softmax() {
        // Halves and quarters, moved by 90, at which exp alone is beyond float32.
        let logits: Vec<f32> = [0.25_f32, 0.5, 0.125, 0.125].iter().map(|p| p.ln() + 90.0).collect();
        let ranked = rank(&logits, 2, 3);
        let expected = [(1, 0.5_f32), (0, 0.25), (2, 0.125)];
        assert_eq!(ranked.top.len(), 3);
        for ((id, logprob), (expected_id, probability)) in ranked.top.iter().zip(expected) {
            assert_eq!(*id, expected_id);
            assert!((logprob - probability.ln()).abs() < 1e-5, "{logprob} {probability}");
        }
        assert_eq!(ranked.chosen, ranked.top[2]);
    }

    #[test]
    fn no_more_are_ranked_than_there_are() {
        let logits = [1.0, f32::NAN, 1.0, f32::NEG_INFINITY];
        assert_eq!(rank(&logits, 0, 0).top, []);
        let ranked = rank(&logits, 0, 20);
        assert_eq!(ranked.top.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [0, 2]);
        assert!((ranked.chosen.1 - 0.5_f32.ln()).abs() < 1e-6);
    }
}
