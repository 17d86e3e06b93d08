//! Ranges of activations: between which values each tensor of a graph lies, which fixes the scale of its quantization.
//!
//! Pure bookkeeping over values that somebody else computed (`calibrate`). A range is the smallest and the largest value
//! seen, never a percentile: a few values of the residual stream are far larger than the rest, and they matter. What no
//! token of the text stands for is left out: rows of padding, and scores of positions that the mask hides.
//!
//! Text that was not calibrated on goes beyond what was seen, and what lies beyond is cut off. 16 bits have room for it, so
//! ranges can be widened.

use std::collections::BTreeMap;

use super::graph::{Observed, Ranges, SCORE_FLOOR};

/// What one pass of a static graph was fed with: says which rows and columns of its tensors stand for something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pass {
    /// The graph's tokens, padding included.
    pub tokens: usize,
    /// How many of them are real; they come first.
    pub real: usize,
    /// Filled slots of the past.
    pub past: usize,
    /// All slots of the past: the columns of the scores are these, then the pass's own tokens.
    pub context: usize,
}

impl Pass {
    /// The columns of the scores that token `token` of this pass sees: filled slots, then itself and those before it; with
    /// a window only the last of these.
    fn seen(&self, token: usize, window: Option<usize>) -> [std::ops::Range<usize>; 2] {
        let hidden = window.map_or(0, |window| (self.past + token + 1).saturating_sub(window));
        let first = hidden.saturating_sub(self.past);
        [hidden.min(self.past)..self.past, self.context + first..self.context + token + 1]
    }
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ObserveError {
    #[error("{tensor:?} has the shape {shape:?}, which does not hold {tokens} tokens on axis {axis}")]
    Shape { tensor: String, shape: Vec<usize>, tokens: usize, axis: usize },
    #[error(
        "{tensor:?} became {value} in the float graph; the weights are damaged, or not those of the architecture that the \
         file names"
    )]
    NotFinite { tensor: String, value: f32 },
}

/// Gathers ranges, pass by pass.
#[derive(Debug, Clone, Default)]
pub struct Accumulator {
    tensors: BTreeMap<String, Seen>,
}

/// What is kept of a tensor between passes.
#[derive(Debug, Clone, Copy)]
struct Seen {
    masked: bool,
    low: f32,
    high: f32,
    /// The lowest of the rows' maxima.
    lowest_maximum: f32,
}

impl Accumulator {
    /// Adds the values that a tensor had in one pass.
    pub fn add(
        &mut self,
        tensor: &str,
        observed: Observed,
        shape: &[usize],
        values: &[f32],
        pass: &Pass,
    ) -> Result<(), ObserveError> {
        // With its tokens on one axis, a tensor lies in memory as [any, tokens, row].
        let row: usize = shape.iter().skip(observed.token_axis + 1).product();
        let block = row * pass.tokens;
        let columns = pass.context + pass.tokens;
        if block == 0 || values.is_empty() || !values.len().is_multiple_of(block) || observed.scores && row != columns {
            let (tensor, shape) = (tensor.to_owned(), shape.to_vec());
            return Err(ObserveError::Shape { tensor, shape, tokens: pass.tokens, axis: observed.token_axis });
        }
        let mut extremes = Extremes::default();
        let mut lowest_maximum = f32::INFINITY;
        for block in values.chunks_exact(block) {
            for (token, row) in block.chunks_exact(row).take(pass.real).enumerate() {
                let mut here = Extremes::default();
                if observed.scores {
                    pass.seen(token, observed.window).into_iter().for_each(|columns| here.add(&row[columns]));
                } else {
                    here.add(row);
                }
                lowest_maximum = lowest_maximum.min(here.high);
                extremes.join(here);
            }
        }
        if let Some(value) = extremes.not_finite() {
            return Err(ObserveError::NotFinite { tensor: tensor.to_owned(), value });
        }
        // Names are copied once, not in every pass.
        if !self.tensors.contains_key(tensor) {
            self.tensors.insert(tensor.to_owned(), Seen::nothing(observed.masked));
        }
        if let Some(seen) = self.tensors.get_mut(tensor) {
            seen.low = seen.low.min(extremes.low);
            seen.high = seen.high.max(extremes.high);
            seen.lowest_maximum = seen.lowest_maximum.min(lowest_maximum);
        }
        Ok(())
    }

    /// What was seen, times `headroom`.
    pub fn ranges(&self, headroom: f32) -> Ranges {
        let range = |seen: &Seen| {
            let (low, high) = seen.range();
            // A range that does not reach zero must not move away from what it holds.
            ((low * headroom).min(low), (high * headroom).max(high))
        };
        Ranges(self.tensors.iter().map(|(name, seen)| (name.clone(), range(seen))).collect())
    }
}

impl Seen {
    fn nothing(masked: bool) -> Self {
        Self { masked, low: f32::INFINITY, high: f32::NEG_INFINITY, lowest_maximum: f32::INFINITY }
    }

    fn range(&self) -> (f32, f32) {
        (if self.masked { self.lowest_maximum - SCORE_FLOOR } else { self.low }, self.high)
    }
}

/// The smallest and the largest of some values, and whether one of them was not a number.
#[derive(Debug, Clone, Copy)]
struct Extremes {
    low: f32,
    high: f32,
    nan: bool,
}

impl Default for Extremes {
    fn default() -> Self {
        Self { low: f32::INFINITY, high: f32::NEG_INFINITY, nan: false }
    }
}

impl Extremes {
    /// Hundreds of millions of values pass through here, so the loop is kept to what compilers turn into vector code.
    fn add(&mut self, values: &[f32]) {
        for &value in values {
            self.low = if value < self.low { value } else { self.low };
            self.high = if value > self.high { value } else { self.high };
            self.nan |= value.is_nan();
        }
    }

    fn join(&mut self, other: Self) {
        self.low = self.low.min(other.low);
        self.high = self.high.max(other.high);
        self.nan |= other.nan;
    }

    /// A value that is no finite number, if there was one.
    fn not_finite(&self) -> Option<f32> {
        if self.nan {
            return Some(f32::NAN);
        }
        // Of no values at all, the ends are infinite the other way round.
        [self.low, self.high].into_iter().find(|end| end.is_infinite()).filter(|_| self.low <= self.high)
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    /// Two tokens, of which `real` count; a context of three slots, of which one is filled.
    fn pass(real: usize) -> Pass {
        Pass { tokens: 2, real, past: 1, context: 3 }
    }

    fn observed(token_axis: usize) -> Observed {
        Observed { token_axis, scores: false, window: None, masked: false }
    }

    /// Heads, then tokens, then columns.
    const SCORES: Observed = Observed { token_axis: 1, scores: true, window: None, masked: false };
    const MASKED: Observed = Observed { masked: true, ..SCORES };

    /// Two heads; for each two tokens, with columns for slots 0, 1, 2 and tokens 0, 1. The first token sees columns 0 and
    /// 3, the second 0, 3 and 4; what they do not see is far outside.
    #[rustfmt::skip]
    const VALUES: [f32; 20] = [
         1.0, 99.0, 99.0,  2.0, 99.0,
        -3.0, 99.0, 99.0,  0.5,  7.0,
         4.0, 99.0, 99.0, -5.0, 99.0,
         0.0, 99.0, 99.0, -1.0, -2.0,
    ];

    /// How a tensor lies, its shape and values, how many tokens are real, and the range that is expected.
    type Case = (Observed, &'static [usize], &'static [f32], usize, (f32, f32));

    #[test]
    fn what_counts_of_one_pass() {
        const PAIRS: [f32; 8] = [1.0, -2.0, 50.0, -50.0, 3.0, 0.0, 60.0, -60.0];
        let cases: [Case; 11] = [
            // Two heads, in each of which one token's values lie behind another's.
            (observed(1), &[2, 2, 2], &PAIRS, 2, (-60.0, 60.0)),
            (observed(1), &[2, 2, 2], &PAIRS, 1, (-2.0, 3.0)),
            // The same with two heads on the tokens' axis.
            (observed(1), &[1, 4, 2], &PAIRS, 1, (-2.0, 3.0)),
            // The first token's values lie before the second's.
            (observed(0), &[2, 4], &PAIRS, 1, (-50.0, 50.0)),
            (observed(0), &[2, 2, 2], &PAIRS, 1, (-50.0, 50.0)),
            (SCORES, &[2, 2, 5], &VALUES, 2, (-5.0, 7.0)),
            (SCORES, &[2, 2, 5], &VALUES, 1, (-5.0, 4.0)),
            // Each sees itself alone, then one more: the second of each head sees columns 3 and 4, the first 0 and 3.
            (Observed { window: Some(1), ..SCORES }, &[2, 2, 5], &VALUES, 2, (-5.0, 7.0)),
            (Observed { window: Some(2), ..MASKED }, &[2, 2, 5], &VALUES, 2, (-17.0, 7.0)),
            // The rows' maxima are 2, 7, 4 and 0.
            (MASKED, &[2, 2, 5], &VALUES, 2, (-16.0, 7.0)),
            (MASKED, &[2, 2, 5], &VALUES, 1, (-14.0, 4.0)),
        ];
        for (observed, shape, values, real, expected) in cases {
            let mut accumulator = Accumulator::default();
            accumulator.add("t", observed, shape, values, &pass(real)).unwrap();
            assert_eq!(accumulator.ranges(1.0).0["t"], expected, "{observed:?} {shape:?} {real}");
        }
    }

    #[test]
    fn passes_widen_the_range() {
        let one = Pass { tokens: 1, real: 1, past: 2, context: 3 };
        let passes: [(&[usize], &[f32], Pass); 2] =
            [(&[2, 2, 5], &VALUES, pass(2)), (&[1, 1, 4], &[-9.0, -8.0, 99.0, -7.0], one)];
        let mut accumulator = Accumulator::default();
        for (shape, values, pass) in passes {
            accumulator.add("raw", SCORES, shape, values, &pass).unwrap();
            accumulator.add("masked", MASKED, shape, values, &pass).unwrap();
        }
        let expected = [("masked".to_owned(), (-23.0, 7.0)), ("raw".to_owned(), (-9.0, 7.0))];
        assert_eq!(accumulator.ranges(1.0), Ranges(expected.into()));
    }

    #[test]
    fn headroom_widens_and_never_narrows() {
        let cases: [(&[f32], (f32, f32)); 3] =
            [(&[-2.0, 4.0], (-3.0, 6.0)), (&[2.0, 4.0], (2.0, 6.0)), (&[-4.0, -2.0], (-6.0, -2.0))];
        for (values, expected) in cases {
            let mut accumulator = Accumulator::default();
            accumulator.add("t", observed(0), &[2, 1], values, &pass(2)).unwrap();
            assert_eq!(accumulator.ranges(1.5).0["t"], expected, "{values:?}");
        }
    }

    #[test]
    fn what_cannot_be_right_is_refused() {
        let mut accumulator = Accumulator::default();
        let mut add =
            |observed, shape: &[usize], values: &[f32]| accumulator.add("q", observed, shape, values, &pass(2));
        let cases: [(Observed, &[usize], &[f32]); 4] = [
            (observed(0), &[3, 1], &[0.0; 3]),
            (observed(0), &[2, 1], &[]),
            (observed(0), &[2, 0], &[0.0; 4]),
            (SCORES, &[1, 2, 4], &[0.0; 8]),
        ];
        for (observed, shape, values) in cases {
            assert!(matches!(add(observed, shape, values), Err(ObserveError::Shape { .. })), "{observed:?} {shape:?}");
        }
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let error = add(observed(0), &[2, 2], &[0.0, value, 1.0, 2.0]).unwrap_err();
            assert!(error.to_string().contains(&format!("\"q\" became {value}")), "{error}");
        }
    }

    #[test]
    fn padding_may_be_anything() {
        let mut accumulator = Accumulator::default();
        accumulator.add("t", observed(0), &[2, 2], &[1.0, 2.0, f32::NAN, f32::INFINITY], &pass(1)).unwrap();
        assert_eq!(accumulator.ranges(1.0).0["t"], (1.0, 2.0));
    }
}
