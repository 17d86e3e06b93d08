//! Ranges of activations: between which values each tensor of a graph lies, which fixes the scale of its quantization.
//!
//! Pure bookkeeping over values that somebody else computed (`calibrate`). A range is the smallest and the largest value
//! seen, never a percentile: a few values of the residual stream are far larger than the rest, and they matter. What no
//! token of the text stands for is left out: rows of padding, and scores of positions that the mask hides.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How far below a row's maximum a score still counts: exp(-16) is 1e-7, which is less than half a step of the 16-bit
/// probabilities that Softmax gives. Everything lower, masked scores among it, may saturate.
const SCORE_DEPTH: f32 = 16.0;

/// The smallest and the largest value of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(from = "(f32, f32)", into = "(f32, f32)")]
pub struct Range {
    pub low: f32,
    pub high: f32,
}

impl From<(f32, f32)> for Range {
    fn from((low, high): (f32, f32)) -> Self {
        Self { low, high }
    }
}

impl From<Range> for (f32, f32) {
    fn from(range: Range) -> Self {
        (range.low, range.high)
    }
}

/// The range of each tensor, by its name in the float graph.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ranges {
    tensors: BTreeMap<String, Range>,
}

impl Ranges {
    pub fn get(&self, tensor: &str) -> Option<Range> {
        self.tensors.get(tensor).copied()
    }

    pub fn insert(&mut self, tensor: impl Into<String>, range: Range) {
        self.tensors.insert(tensor.into(), range);
    }

    pub fn len(&self) -> usize {
        self.tensors.len()
    }

    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }

    /// A tensor whose range is no range: not finite, or its ends exchanged. Such a file was not written here.
    pub fn invalid(&self) -> Option<&str> {
        let wrong = |range: &Range| !(range.low.is_finite() && range.high.is_finite() && range.low <= range.high);
        self.tensors.iter().find(|(_, range)| wrong(range)).map(|(name, _)| name.as_str())
    }
}

/// What of a tensor counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// All values of real tokens.
    Values,
    /// Attention scores before the mask is added, one column for each slot and token: the seen columns.
    Scores,
    /// Attention scores with the mask added: down to `SCORE_DEPTH` below the lowest of the rows' maxima.
    MaskedScores,
}

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
    /// The columns of the scores that token `token` of this pass sees: filled slots, then itself and those before it.
    fn seen(&self, token: usize) -> [std::ops::Range<usize>; 2] {
        [0..self.past, self.context..self.context + token + 1]
    }
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RangeError {
    #[error("'{tensor}' has {values} values; expected rows of {row} for each of {tokens} tokens")]
    Shape { tensor: String, values: usize, row: usize, tokens: usize },
    #[error("'{tensor}' became {value} in the float graph; the weights are damaged, or not those of this architecture")]
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
    rule: Rule,
    low: f32,
    high: f32,
    /// The lowest of the rows' maxima.
    lowest_maximum: f32,
}

impl Accumulator {
    /// Adds the values that a tensor had in one pass.
    ///
    /// Every tensor of the graphs has its tokens on one axis, so in memory it is `[any, tokens, row]`: `row` is the
    /// number of values behind that axis.
    pub fn add(
        &mut self,
        tensor: &str,
        rule: Rule,
        values: &[f32],
        row: usize,
        pass: &Pass,
    ) -> Result<(), RangeError> {
        let columns = pass.context + pass.tokens;
        let scores = rule != Rule::Values;
        if row == 0 || values.is_empty() || values.len() % (row * pass.tokens) != 0 || scores && row != columns {
            let (values, tokens) = (values.len(), pass.tokens);
            return Err(RangeError::Shape { tensor: tensor.to_owned(), values, row, tokens });
        }
        let mut extremes = Extremes::default();
        let mut lowest_maximum = f32::INFINITY;
        for block in values.chunks_exact(row * pass.tokens) {
            for (token, row) in block.chunks_exact(row).take(pass.real).enumerate() {
                let mut here = Extremes::default();
                if scores {
                    pass.seen(token).into_iter().for_each(|columns| here.add(&row[columns]));
                } else {
                    here.add(row);
                }
                lowest_maximum = lowest_maximum.min(here.high);
                extremes.join(here);
            }
        }
        if let Some(value) = extremes.not_finite() {
            return Err(RangeError::NotFinite { tensor: tensor.to_owned(), value });
        }
        let before = Seen { rule, low: f32::INFINITY, high: f32::NEG_INFINITY, lowest_maximum: f32::INFINITY };
        if !self.tensors.contains_key(tensor) {
            self.tensors.insert(tensor.to_owned(), before);
        }
        if let Some(seen) = self.tensors.get_mut(tensor) {
            seen.low = seen.low.min(extremes.low);
            seen.high = seen.high.max(extremes.high);
            seen.lowest_maximum = seen.lowest_maximum.min(lowest_maximum);
        }
        Ok(())
    }

    pub fn ranges(&self) -> Ranges {
        let range = |seen: &Seen| match seen.rule {
            Rule::Values | Rule::Scores => Range { low: seen.low, high: seen.high },
            Rule::MaskedScores => Range { low: seen.lowest_maximum - SCORE_DEPTH, high: seen.high },
        };
        Ranges { tensors: self.tensors.iter().map(|(name, seen)| (name.clone(), range(seen))).collect() }
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

    fn range(rule: Rule, passes: &[(&[f32], Pass)], row: usize) -> Range {
        let mut accumulator = Accumulator::default();
        for (values, pass) in passes {
            accumulator.add("t", rule, values, row, pass).unwrap();
        }
        accumulator.ranges().get("t").unwrap()
    }

    /// Two heads; for each two tokens, with columns for slots 0, 1, 2 and tokens 0, 1. The first token sees columns 0 and
    /// 3, the second 0, 3 and 4; what they do not see is far outside.
    #[rustfmt::skip]
    const SCORES: [f32; 20] = [
         1.0, 99.0, 99.0,  2.0, 99.0,
        -3.0, 99.0, 99.0,  0.5,  7.0,
         4.0, 99.0, 99.0, -5.0, 99.0,
         0.0, 99.0, 99.0, -1.0, -2.0,
    ];

    #[test]
    fn what_counts_of_one_pass() {
        // One token's values lie behind another's, in each of two heads: [2, 2, 2].
        let values = [1.0, -2.0, 50.0, -50.0, 3.0, 0.0, 60.0, -60.0];
        let cases: [(Rule, &[f32], usize, usize, (f32, f32)); 7] = [
            (Rule::Values, &values, 2, 2, (-60.0, 60.0)),
            (Rule::Values, &values, 2, 1, (-2.0, 3.0)),
            // Without heads the same memory is [2, 4].
            (Rule::Values, &values, 4, 1, (-50.0, 50.0)),
            (Rule::Scores, &SCORES, 5, 2, (-5.0, 7.0)),
            (Rule::Scores, &SCORES, 5, 1, (-5.0, 4.0)),
            // The rows' maxima are 2, 7, 4 and 0.
            (Rule::MaskedScores, &SCORES, 5, 2, (-16.0, 7.0)),
            (Rule::MaskedScores, &SCORES, 5, 1, (-14.0, 4.0)),
        ];
        for (rule, values, row, real, expected) in cases {
            assert_eq!(range(rule, &[(values, pass(real))], row), expected.into(), "{rule:?} {row} {real}");
        }
    }

    #[test]
    fn passes_widen_the_range() {
        let one = Pass { tokens: 1, real: 1, past: 2, context: 3 };
        let passes: [(&[f32], Pass); 2] = [(&SCORES, pass(2)), (&[-9.0, -8.0, 99.0, -7.0], one)];
        let mut accumulator = Accumulator::default();
        for (values, pass) in passes {
            let row = pass.context + pass.tokens;
            accumulator.add("raw", Rule::Scores, values, row, &pass).unwrap();
            accumulator.add("masked", Rule::MaskedScores, values, row, &pass).unwrap();
        }
        let ranges = accumulator.ranges();
        assert_eq!(ranges.get("raw"), Some((-9.0, 7.0).into()));
        assert_eq!(ranges.get("masked"), Some((-23.0, 7.0).into()));
        assert_eq!((ranges.len(), ranges.get("other")), (2, None));
    }

    #[test]
    fn what_cannot_be_right_is_refused() {
        let mut accumulator = Accumulator::default();
        let mut add = |rule, values: &[f32], row| accumulator.add("l0_q", rule, values, row, &pass(2));
        for (rule, values, row) in [
            (Rule::Values, &[0.0; 3][..], 2),
            (Rule::Values, &[][..], 2),
            (Rule::Values, &[0.0; 4][..], 0),
            (Rule::Scores, &[0.0; 8][..], 4),
        ] {
            assert!(matches!(add(rule, values, row), Err(RangeError::Shape { .. })), "{rule:?} {row}");
        }
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let error = add(Rule::Values, &[0.0, value, 1.0, 2.0], 2).unwrap_err();
            assert!(error.to_string().contains(&format!("'l0_q' became {value}")), "{error}");
        }
    }

    #[test]
    fn padding_may_be_anything() {
        assert_eq!(range(Rule::Values, &[(&[1.0, 2.0, f32::NAN, f32::INFINITY], pass(1))], 2), (1.0, 2.0).into());
    }

    #[test]
    fn ranges_are_kept_exactly() {
        let mut ranges = Ranges::default();
        ranges.insert("k0", Range { low: -0.1, high: f32::MAX });
        ranges.insert("y", Range { low: 1.000_000_1, high: 25_800.123 });
        let text = serde_json::to_string(&ranges).unwrap();
        assert_eq!(text, r#"{"k0":[-0.1,3.4028235e38],"y":[1.0000001,25800.123]}"#);
        assert_eq!(serde_json::from_str::<Ranges>(&text).unwrap(), ranges);
        assert_eq!(ranges.invalid(), None);
        ranges.insert("y", Range { low: 1.0, high: 0.0 });
        assert_eq!(ranges.invalid(), Some("y"));
    }
}
