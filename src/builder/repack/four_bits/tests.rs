use pretty_assertions::assert_eq;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::builder::blocks::TensorType;

/// Eight rows of the embedding of SmolLM2-135M-Instruct (Apache-2.0), in Q8_0.
const TRAINED: &[u8] = include_bytes!("trained_rows.q8_0");

const SYMMETRIC: BlockFormat = BlockFormat::SYMMETRIC4;
const ASYMMETRIC: BlockFormat = BlockFormat { zero_points: true, ..SYMMETRIC };

struct Row {
    format: BlockFormat,
    quants: Vec<u8>,
    scales: Vec<f32>,
    zero_points: Vec<u8>,
}

impl Row {
    fn of(format: BlockFormat, values: &[f32]) -> Self {
        let blocks = values.len() / format.size;
        // Not zero, so that a byte that is not written shows.
        let mut row = Self {
            format,
            quants: vec![0xa5; values.len() / 2],
            scales: vec![f32::NAN; blocks],
            zero_points: vec![0xa5; format.zero_point_bytes(values.len())],
        };
        let out = RowOut { values: &mut row.quants, scales: &mut row.scales, zero_points: &mut row.zero_points };
        quantize_row(format, values, out);
        row
    }

    fn zero_point(&self, block: usize) -> u8 {
        if self.format.zero_points { self.zero_points[block / 2] >> (block % 2 * 4) & 15 } else { 8 }
    }

    /// The weights as `MatMulNBits` defines them.
    fn weights(&self) -> Vec<f32> {
        let weight = |k: usize| {
            let (block, quant) = (k / self.format.size, self.quants[k / 2] >> (k % 2 * 4) & 15);
            self.scales[block] * (f32::from(quant) - f32::from(self.zero_point(block)))
        };
        (0..2 * self.quants.len()).map(weight).collect()
    }

    fn error(&self, values: &[f32]) -> f64 {
        squared_difference(&self.weights(), values)
    }
}

fn squared_difference(left: &[f32], right: &[f32]) -> f64 {
    assert_eq!(left.len(), right.len());
    left.iter().zip(right).map(|(left, right)| f64::from(left - right).powi(2)).sum()
}

/// Rounding to nearest: the block's range, with zero in it, cut into 15 steps, or its largest value made 7 steps or -8.
fn plain(format: BlockFormat, values: &[f32]) -> Vec<f32> {
    let round = |block: &[f32], step: f32, zero_point: f32| -> Vec<f32> {
        let quant = |value: f32| (value / step + zero_point).round().clamp(0.0, 15.0);
        block.iter().map(|value| step * (quant(*value) - zero_point)).collect()
    };
    let blocks = values.chunks(format.size).map(|block| {
        let low = block.iter().copied().fold(0.0, f32::min);
        let high = block.iter().copied().fold(0.0, f32::max);
        if format.zero_points {
            let step = (high - low) / 15.0;
            return round(block, step, (-low / step).round());
        }
        let largest = if high > -low { high } else { low };
        let [seven, eight] = [largest / 7.0, largest / -8.0].map(|step| round(block, step, 8.0));
        if squared_difference(&seven, block) < squared_difference(&eight, block) { seven } else { eight }
    });
    blocks.flatten().collect()
}

/// All sixteen quants, twice.
fn ramp(step: f32, zero_point: f32) -> Vec<f32> {
    (0..32).map(|k| step * ((k % 16) as f32 - zero_point)).collect()
}

#[test]
fn values_on_a_grid_stay() {
    let ramp_bytes = [0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe];
    for step in [0.5, -0.5] {
        let row = Row::of(SYMMETRIC, &ramp(step, 8.0));
        assert_eq!((row.scales.as_slice(), row.zero_points.as_slice()), ([step].as_slice(), [].as_slice()));
        assert_eq!(row.quants, [ramp_bytes, ramp_bytes].concat());
    }
    // Two zero points in a byte; the third block's stands alone.
    let row = Row::of(ASYMMETRIC, &[ramp(0.25, 3.0), ramp(2.0, 12.0), ramp(1.0, 15.0)].concat());
    assert_eq!(row.scales, [0.25, 2.0, 1.0]);
    assert_eq!(row.zero_points, [0xc3, 0x0f]);
    assert_eq!(row.quants, [ramp_bytes; 6].concat());
}

#[test]
fn a_block_is_as_long_as_it_was_asked_for() {
    let values = [ramp(0.5, 8.0), ramp(0.25, 8.0), ramp(1.0, 8.0), ramp(0.125, 8.0)].concat();
    for (size, blocks) in [(32, 4), (64, 2), (128, 1)] {
        let row = Row::of(BlockFormat { size, ..ASYMMETRIC }, &values);
        assert_eq!((row.scales.len(), row.zero_points.len()), (blocks, usize::div_ceil(blocks, 2)));
        assert_eq!(row.error(&values) == 0.0, size == 32);
    }
}

#[test]
fn values_on_one_side_of_zero_use_all_quants() {
    for (zero_point, sign) in [(0, 1.0), (15, -1.0)] {
        let values: Vec<f32> = (0..32).map(|k| sign * (1.0 + k as f32 / 8.0)).collect();
        let row = Row::of(ASYMMETRIC, &values);
        assert_eq!(row.zero_point(0), zero_point);
        // From 1 to 4.875, in 15 steps from zero.
        assert!(row.error(&values) <= 32.0 * (4.875f64 / 15.0 / 2.0).powi(2) / 2.0, "{}", row.error(&values));
    }
}

#[test]
fn blocks_of_nothing_and_broken_ones() {
    for format in [SYMMETRIC, ASYMMETRIC] {
        assert_eq!(Row::of(format, &[0.0; 32]).weights(), [0.0; 32]);
        assert_eq!(Row::of(format, &[1e-40; 32]).weights(), [0.0; 32]);
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut values = [0.5; 64];
            values[40] = bad;
            let scales = Row::of(format, &values).scales;
            assert!(scales[0].is_finite() && !scales[1].is_finite(), "{bad}");
        }
    }
}

/// What is left of the error of plain rounding.
fn left_of_plain(format: BlockFormat, values: &[f32]) -> f64 {
    Row::of(format, values).error(values) / squared_difference(&plain(format, values), values)
}

#[test]
fn random_and_trained_weights_lose_less_than_by_plain_rounding() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    // Sums of twelve uniform numbers are normal, nearly.
    let normal: Vec<f32> = (0..12_288).map(|_| (0..12).map(|_| rng.random_range(-0.5f32..0.5)).sum()).collect();
    let uniform: Vec<f32> = (0..12_288).map(|_| rng.random_range(-1.0f32..1.0)).collect();
    let mut trained = vec![0.0; TRAINED.len() / 34 * 32];
    TensorType::Q8_0.dequantize(TRAINED, &mut trained);
    assert_eq!(trained.len(), 8 * 576);
    for (format, size) in [(SYMMETRIC, 32), (ASYMMETRIC, 32), (SYMMETRIC, 128), (ASYMMETRIC, 128)] {
        let format = BlockFormat { size, ..format };
        // Rows of 576 values are no whole blocks of 128; several of them are.
        let left = [&normal, &uniform, &trained].map(|values| left_of_plain(format, values));
        assert!(left.iter().all(|left| *left < 0.95), "{format:?}: {left:?}");
    }
}

proptest! {
    /// Whatever the values, no block is worse than by plain rounding, and none is worse than half a step everywhere.
    #[test]
    fn no_block_is_worse_than_by_plain_rounding(
        values in prop::collection::vec(-1.0f32..1.0, 128),
        shift in -2.0f32..2.0,
        scale in 1e-6f32..1e6,
        spike in 1.0f32..20.0,
        size in prop::sample::select(vec![32usize, 64, 128]),
        zero_points: bool,
    ) {
        let mut values: Vec<f32> = values.iter().map(|value| scale * (value + shift)).collect();
        values[17] *= spike;
        let format = BlockFormat { bits: 4, size, zero_points };
        let row = Row::of(format, &values);
        let (found, by_plain) = (row.weights(), plain(format, &values));
        for (block, values) in values.chunks(size).enumerate() {
            let range = block * size..(block + 1) * size;
            let (error, plain) =
                (squared_difference(&found[range.clone()], values), squared_difference(&by_plain[range], values));
            prop_assert!(error <= plain * 1.0001, "block {}: {} and {} by plain rounding", block, error, plain);
        }
    }
}
