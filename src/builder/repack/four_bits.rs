//! Rounds a row to 4 bits a value, in blocks that share a scale and perhaps a zero point, such that each block's squared error
//! is small: `w = scale * (q - zero_point)` with q from 0 to 15.
//!
//! For given quants the best scale is known, by least squares: with `t = q - zero_point` it is `Σ t w / Σ t²`, and it leaves
//! `Σ w² - (Σ t w)² / Σ t²`. So a block tries some zero points and some steps around the one that just covers its values (a
//! smaller one clips the largest for the sake of the others), rounds by each, and takes the one that leaves least; from
//! there it goes on rounding by the best scale of the last quants while that helps. Plain rounding is among the steps, so
//! the result is never worse.

#[cfg(test)]
mod tests;

use super::{BlockFormat, RowOut};

/// The highest quant.
const HIGHEST: f32 = 15.0;
/// The zero point that is implied where none is stored.
const MIDDLE: f32 = 8.0;

/// Steps that are tried, relative to the one that covers the block. More of them, and more zero points, gain less than a
/// hundredth of the error on random weights.
const STEPS: [f32; 8] = [1.06, 1.0, 0.95, 0.9, 0.85, 0.8, 0.74, 0.68];

/// How often a block is rounded again by its best scale.
const REFITS: usize = 3;

/// A block with less than this between its least and its greatest value becomes zero: steps would have no reciprocal.
const NOTHING: f32 = 1e-30;

/// Values that are summed up side by side, so that the compiler makes vector instructions of it.
const LANES: usize = 8;

/// Adding and subtracting it rounds a float32 of some millions at most to the nearest integer: its last bit is worth 1.
const ROUND: f32 = 12_582_912.0;

/// Quantizes a row; a block with a value that is not finite gets such a scale.
pub fn quantize_row(format: BlockFormat, values: &[f32], out: RowOut<'_>) {
    let blocks = values.chunks_exact(format.size).zip(out.values.chunks_exact_mut(format.size / 2)).zip(out.scales);
    for (index, ((values, quants), scale)) in blocks.enumerate() {
        let zero_point;
        (*scale, zero_point) = quantize_block(values, format.zero_points, quants);
        // Two zero points in a byte, the even block's in the low nibble; what is left over at the row's end is zero.
        if let Some(byte) = out.zero_points.get_mut(index / 2) {
            *byte = if index % 2 == 0 { zero_point } else { *byte | zero_point << 4 };
        }
    }
}

/// Returns scale and zero point.
fn quantize_block(values: &[f32], free_zero_point: bool, quants: &mut [u8]) -> (f32, u8) {
    let low = values.iter().copied().fold(0.0, f32::min);
    let high = values.iter().copied().fold(0.0, f32::max);
    // `min` and `max` pass over NaN; a sum does not.
    if !values.iter().sum::<f32>().is_finite() {
        return (f32::NAN, 0);
    }
    if high - low < NOTHING {
        quants.fill(MIDDLE as u8 * 0x11);
        return (0.0, MIDDLE as u8);
    }
    let mut best = if free_zero_point {
        let step = (high - low) / HIGHEST;
        let exact = -low / step;
        best_of(values, [exact.floor(), exact.ceil()].map(|zero_point| (step, zero_point.clamp(0.0, HIGHEST))))
    } else {
        // The quants reach one further below zero than above: the largest value takes that side, or the other.
        let largest = if high > -low { high } else { low };
        best_of(values, [(-largest / MIDDLE, MIDDLE), (largest / (HIGHEST - MIDDLE), MIDDLE)])
    };
    for _ in 0..REFITS {
        let again = Rounding::by(values, best.scale, best.zero_point);
        if again.explained <= best.explained {
            break;
        }
        best = again;
    }
    for (byte, pair) in quants.iter_mut().zip(values.as_chunks::<2>().0) {
        let [low, high] = pair.map(|value| (steps(value, 1.0 / best.step, best.zero_point) + best.zero_point) as u8);
        *byte = low | high << 4;
    }
    (best.scale, best.zero_point as u8)
}

/// The best rounding by each zero point and all steps around the one beside it.
fn best_of<const N: usize>(values: &[f32], around: [(f32, f32); N]) -> Rounding {
    let mut best = Rounding { step: 1.0, zero_point: MIDDLE, scale: 0.0, explained: 0.0 };
    for (step, zero_point) in around {
        for factor in STEPS {
            let found = Rounding::by(values, step * factor, zero_point);
            if found.explained > best.explained {
                best = found;
            }
        }
    }
    best
}

/// A block rounded in a certain way: `q = round(w / step) + zero_point`.
#[derive(Debug, Clone, Copy)]
struct Rounding {
    step: f32,
    zero_point: f32,
    /// The best scale for these quants.
    scale: f32,
    /// What the quants with this scale explain of `Σ w²`.
    explained: f32,
}

impl Rounding {
    fn by(values: &[f32], step: f32, zero_point: f32) -> Self {
        let inverse = 1.0 / step;
        let (mut along, mut square) = ([0.0; LANES], [0.0; LANES]);
        for values in values.as_chunks::<LANES>().0 {
            for lane in 0..LANES {
                let steps = steps(values[lane], inverse, zero_point);
                along[lane] += steps * values[lane];
                square[lane] += steps * steps;
            }
        }
        let (along, square) = (along.iter().sum::<f32>(), square.iter().sum::<f32>());
        // Nothing was rounded to anything but zero.
        if square == 0.0 {
            return Self { step, zero_point, scale: step, explained: 0.0 };
        }
        Self { step, zero_point, scale: along / square, explained: along * along / square }
    }
}

/// A value in whole steps from zero, within what the quants reach.
fn steps(value: f32, inverse: f32, zero_point: f32) -> f32 {
    let (low, high) = (-zero_point, HIGHEST - zero_point);
    let exact = value * inverse;
    // `min` and `max` would care for NaN, which takes nearly twice the time.
    let above = if exact > low { exact } else { low };
    let within = if above < high { above } else { high };
    (within + ROUND) - ROUND
}
