use half::f16;
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::builder::testing::random_blocks;

const SYMMETRIC8: BlockFormat = BlockFormat::SYMMETRIC8;
const ASYMMETRIC8: BlockFormat = BlockFormat::ASYMMETRIC8;
const SYMMETRIC4: BlockFormat = BlockFormat::SYMMETRIC4;

/// A converted row, and what ONNX Runtime's operators compute from it.
struct Row {
    format: BlockFormat,
    quants: Vec<u8>,
    scales: Vec<f32>,
    zero_points: Vec<u8>,
}

impl Row {
    fn of(format: BlockFormat, kind: TensorType, bytes: &[u8]) -> Self {
        let k = bytes.len() / kind.block_bytes() * kind.block_elements();
        let size = Layout::Blocks(format).row_size(k);
        let mut row = Self {
            format,
            // Not zero, so that a byte that is not written shows.
            quants: vec![0xa5; size.values],
            scales: vec![f32::NAN; size.blocks],
            zero_points: vec![0xa5; size.zero_points],
        };
        let out = RowOut { values: &mut row.quants, scales: &mut row.scales, zero_points: &mut row.zero_points };
        let finite = convert_row(Layout::Blocks(format), kind, bytes, &mut Vec::new(), out);
        assert_eq!(finite, row.scales.iter().all(|scale| scale.is_finite()));
        row
    }

    /// The weights as `MatMulNBits` defines them.
    fn weights(&self) -> Vec<f32> {
        let quant = |k: usize| match self.format.bits {
            8 => self.quants[k],
            _ => self.quants[k / 2] >> (k % 2 * 4) & 15,
        };
        let zero_point = |block: usize| match (self.format.bits, self.format.zero_points) {
            (8, true) => self.zero_points[block],
            (bits, _) => 1 << (bits - 1),
        };
        let weight = |k: usize| self.scales[k / BLOCK] * (f32::from(quant(k)) - f32::from(zero_point(k / BLOCK)));
        (0..self.scales.len() * BLOCK).map(weight).collect()
    }
}

fn values_of(kind: TensorType, bytes: &[u8]) -> Vec<f32> {
    let mut values = vec![0.0; bytes.len() / kind.block_bytes() * kind.block_elements()];
    kind.dequantize(bytes, &mut values);
    values
}

fn q4_1(scale: f32, minimum: f32, packed: [u8; 16]) -> Vec<u8> {
    [f16::from_f32(scale).to_le_bytes().as_slice(), &f16::from_f32(minimum).to_le_bytes(), &packed].concat()
}

/// Byte k of a ggml block: value k is k, value 16 + k is 15 - k.
fn ramp() -> [u8; 16] {
    std::array::from_fn(|k| (k | (15 - k) << 4) as u8)
}

fn largest_difference(left: &[f32], right: &[f32]) -> f32 {
    assert_eq!(left.len(), right.len());
    left.iter().zip(right).map(|(left, right)| (left - right).abs()).fold(0.0, f32::max)
}

/// A row without scales, and whether it was said to be storable.
fn floats(layout: Layout, kind: TensorType, bytes: &[u8]) -> (Vec<u8>, bool) {
    let mut values = vec![0xa5; layout.row_size(bytes.len() / kind.block_bytes() * kind.block_elements()).values];
    let out = RowOut { values: &mut values, scales: &mut [], zero_points: &mut [] };
    let storable = convert_row(layout, kind, bytes, &mut Vec::new(), out);
    (values, storable)
}

#[test]
fn float32_is_what_the_type_says() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    for kind in TensorType::ALL {
        let bytes = random_blocks(kind, 512, &mut rng);
        let expected: Vec<u8> = values_of(kind, &bytes).iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(floats(Layout::Float32, kind, &bytes), (expected, true), "{kind}");
    }
    let bytes = [1.0, f32::NAN].map(f32::to_le_bytes).concat();
    assert!(!floats(Layout::Float32, TensorType::F32, &bytes).1);
}

#[test]
fn float16_rounds_to_the_nearest() {
    // 1, a third, the largest, and half of the smallest, which is a tie with zero.
    let bytes = [1.0, 1.0 / 3.0, -65504.0, 2f32.powi(-25)].map(f32::to_le_bytes).concat();
    let expected = [0x3c00u16, 0x3555, 0xfbff, 0].map(u16::to_le_bytes).concat();
    assert_eq!(floats(Layout::Float16, TensorType::F32, &bytes), (expected, true));
    // float16 would end at 65520.
    for (value, storable) in [(65519.9f32, true), (65520.0, false), (-1e9, false), (f32::NAN, false)] {
        assert_eq!(floats(Layout::Float16, TensorType::F32, &value.to_le_bytes()).1, storable, "{value}");
    }
    let bytes = random_blocks(TensorType::F16, 64, &mut ChaCha8Rng::seed_from_u64(4));
    assert_eq!(floats(Layout::Float16, TensorType::F16, &bytes), (bytes, true), "what is float16 stays");
}

#[test]
fn nibbles_are_put_in_order() {
    let q4_0 = [f16::from_f32(1.0).to_le_bytes().as_slice(), &ramp()].concat();
    let row = Row::of(SYMMETRIC4, TensorType::Q4_0, &q4_0);
    // Values 0, 1, 2, … lie in one byte each pair; ggml had values 0 and 16 in the first.
    let expected: Vec<u8> =
        [0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe, 0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01].to_vec();
    assert_eq!(row.quants, expected);
    assert_eq!((row.scales, row.zero_points), (vec![1.0], vec![]));
}

#[test]
fn q8_0_moves_to_unsigned() {
    let bytes: Vec<u8> = f16::from_f32(0.5).to_le_bytes().into_iter().chain((0..32).map(|k| k * 8)).collect();
    let row = Row::of(SYMMETRIC8, TensorType::Q8_0, &bytes);
    assert_eq!(row.quants[..3], [128, 136, 144]);
    assert_eq!(row.quants[16..18], [0, 8]);
    assert_eq!(row.scales, [0.5]);
    let row = Row::of(ASYMMETRIC8, TensorType::Q8_0, &bytes);
    assert_eq!(row.zero_points, [128]);
}

#[test]
fn symmetric_types_are_lossless() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for kind in [TensorType::Q8_0, TensorType::Q5_0, TensorType::Q4_0] {
        let bytes = random_blocks(kind, 160, &mut rng);
        for format in [SYMMETRIC8, ASYMMETRIC8] {
            assert_eq!(Row::of(format, kind, &bytes).weights(), values_of(kind, &bytes), "{kind} {format:?}");
        }
    }
    let bytes = random_blocks(TensorType::Q4_0, 160, &mut rng);
    let row = Row::of(SYMMETRIC4, TensorType::Q4_0, &bytes);
    assert_eq!(row.weights(), values_of(TensorType::Q4_0, &bytes));
}

#[test]
fn q4_1_takes_the_grid_that_its_minimum_falls_on() {
    // The minimum lies m / k scales below zero, in lowest terms: on the grid of k, and on no other from 12 to 17.
    for (m, k) in [(85, 12), (92, 13), (99, 14), (106, 15), (113, 16), (120, 17)] {
        let (scale, minimum) = (f32::from(k) / 16.0, -f32::from(m) / 16.0);
        let block = q4_1(scale, minimum, ramp());
        let row = Row::of(ASYMMETRIC8, TensorType::Q4_1, &block);
        assert_eq!(row.quants[..4], [0, k, 2 * k, 3 * k], "{m}/{k}");
        assert_eq!((row.scales.as_slice(), row.zero_points.as_slice()), ([1.0 / 16.0].as_slice(), [m].as_slice()));
        assert_eq!(row.weights(), values_of(TensorType::Q4_1, &block), "{m}/{k}");
    }
}

#[test]
fn q4_1_takes_the_nearest_grid_when_none_fits() {
    for (scale, minimum, k, zero_point) in [
        // 3.3 is 3.30078125 in float16, 6.6015625 scales. Times 12 to 17: 79.219, 85.820, 92.422, 99.023, 105.625,
        // 112.227; relative to the grid, 15 misses by the least.
        (0.5, -3.3, 15, 99),
        // 0.5625 scales. Times 12 to 17: 6.75, 7.3125, 7.875, 8.4375, 9 (exact), 9.5625.
        (1.0, -0.5625, 16, 9),
        // Whole scales fall on every grid; the first is as good as any. The last is 15 * 12 below zero.
        (0.25, 0.0, 12, 0),
        (0.25, -1.75, 12, 84),
        (0.25, -3.75, 12, 180),
        // Zero above the block's values: 18.5 scales, times 13 and 14 240.5 and 259, beyond the bytes. 12 gives 222.
        (1.0, -18.5, 12, 222),
        // A scale below zero with a minimum above is the same grid upside down.
        (-0.5, 3.3, 15, 99),
    ] {
        let row = Row::of(ASYMMETRIC8, TensorType::Q4_1, &q4_1(scale, minimum, ramp()));
        assert_eq!(row.quants[..4], [0, k, 2 * k, 3 * k], "{scale} {minimum}");
        assert_eq!(row.quants[15], 15 * k);
        assert_eq!(row.scales, [scale / f32::from(k)], "{scale} {minimum}");
        assert_eq!(row.zero_points, [zero_point], "{scale} {minimum}");
    }
}

#[test]
fn odd_q4_1_blocks_become_something_right() {
    // No spread; nothing at all; all above zero, near and far; all below, so far that no grid reaches zero; a scale
    // below zero.
    let blocks =
        [(0.0, -0.75), (0.0, 0.0), (0.0, 2.0), (0.25, 0.125), (0.25, 4.0), (0.25, -9.0), (-0.25, 1.0), (-0.25, -1.0)];
    for (scale, minimum) in blocks {
        let bytes = q4_1(scale, minimum, ramp());
        let want = values_of(TensorType::Q4_1, &bytes);
        let farthest = want.iter().fold(0.0f32, |most, value| most.max(value.abs()));
        let got = Row::of(ASYMMETRIC8, TensorType::Q4_1, &bytes).weights();
        // Half of one of 255 levels from zero to the farthest value, or the bound of the finest grid.
        let bound = (farthest / 510.0).max(scale.abs() / 34.0) * 1.001;
        assert!(largest_difference(&got, &want) <= bound, "{scale} {minimum}: {got:?} for {want:?}");
    }
    // Without spread the one value is exact.
    let row = Row::of(ASYMMETRIC8, TensorType::Q4_1, &q4_1(0.0, 2.0, ramp()));
    assert_eq!(row.weights(), [2.0; 32]);
}

#[test]
fn values_that_are_not_finite_show_in_the_scale() {
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut values = [0.5f32; 32];
        values[7] = bad;
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        assert!(!Row::of(ASYMMETRIC8, TensorType::F32, &bytes).scales[0].is_finite(), "{bad}");
        let bytes: Vec<u8> = [bad; 32].iter().flat_map(|value| value.to_le_bytes()).collect();
        assert!(!Row::of(ASYMMETRIC8, TensorType::F32, &bytes).scales[0].is_finite(), "{bad} alone");
        for (scale, minimum) in [(bad, -1.0), (1.0, bad)] {
            let row = Row::of(ASYMMETRIC8, TensorType::Q4_1, &q4_1(scale, minimum, ramp()));
            assert!(!row.scales[0].is_finite(), "{scale} {minimum}");
        }
    }
}

proptest! {
    /// Whatever the block: where zero lies within its values, every quant keeps its exact place on a finer grid, and no
    /// value is further off than half a step of the finest one, rounding of float32 aside.
    #[test]
    fn q4_1_keeps_its_quants_on_a_finer_grid(
        scale in prop_oneof![1e-4f32..2.0, -2.0f32..-1e-4],
        zero in 0.0f32..=15.0,
        packed in prop::array::uniform16(any::<u8>()),
    ) {
        let bytes = q4_1(scale, -scale * zero, packed);
        let block = AffineBlock::q4_1(bytes.first_chunk().unwrap());
        // Rounding to float16 may move zero out of the range by a little.
        prop_assume!((0.0..=15.0).contains(&(-block.minimum / block.scale)));
        let row = Row::of(ASYMMETRIC8, TensorType::Q4_1, &bytes);
        let steps = (block.scale / row.scales[0]).round() as u16;
        prop_assert!((12..=17).contains(&steps), "{steps}");
        prop_assert_eq!(row.scales[0], block.scale / f32::from(steps));
        for (stored, quant) in row.quants.iter().zip(block.quants) {
            prop_assert_eq!(u16::from(*stored), steps * u16::from(quant));
        }
        let error = largest_difference(&row.weights(), &values_of(TensorType::Q4_1, &bytes));
        prop_assert!(error <= block.scale.abs() * (1.0 / 34.0 + 1e-5), "{}", error / block.scale.abs());
        // The best grid, found by looking at all of them in another way: the miss of each, in scales.
        let exact = -f64::from(block.minimum) / f64::from(block.scale);
        let miss = |k: u16| ((exact * f64::from(k)).round() / f64::from(k) - exact).abs();
        let least = (12..=17).filter(|k| exact * f64::from(*k) < 255.5).map(miss).fold(f64::INFINITY, f64::min);
        prop_assert!(miss(steps) <= least);
    }

    /// Blocks that lie anywhere, those on one side of zero included, are as good as 8 bits over their range allow.
    #[test]
    fn any_q4_1_block_is_within_a_level(
        scale in prop_oneof![Just(0.0f32), 1e-4f32..2.0, -2.0f32..-1e-4],
        minimum in prop_oneof![Just(0.0f32), -60.0f32..60.0],
        packed in prop::array::uniform16(any::<u8>()),
    ) {
        let bytes = q4_1(scale, minimum, packed);
        let want = values_of(TensorType::Q4_1, &bytes);
        let low = want.iter().copied().fold(0.0, f32::min);
        let high = want.iter().copied().fold(0.0, f32::max);
        let error = largest_difference(&Row::of(ASYMMETRIC8, TensorType::Q4_1, &bytes).weights(), &want);
        prop_assert!(error <= ((high - low) / 255.0 * 1.02).max(scale.abs() / 24.0 * 1.001), "{error}");
    }

    /// Eight bits are never worse than plain rounding to 255 levels over the range with zero in it.
    #[test]
    fn floats_round_to_the_nearest_of_256_levels(values in prop::array::uniform32(-4.0f32..4.0), shift in -3.0f32..3.0) {
        let values = values.map(|value| value + shift);
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let row = Row::of(ASYMMETRIC8, TensorType::F32, &bytes);
        let low = values.iter().copied().fold(0.0, f32::min);
        let high = values.iter().copied().fold(0.0, f32::max);
        let step = (high - low) / 255.0;
        let error = |got: &[f32]| got.iter().zip(&values).map(|(got, want)| (got - want).powi(2)).sum::<f32>();
        let zero_point = (-low / step).round();
        let plain = values.map(|value| step * ((value / step + zero_point).round().clamp(0.0, 255.0) - zero_point));
        prop_assert!(error(&row.weights()) <= error(&plain) * 1.0001 + 1e-12);
        prop_assert!(largest_difference(&row.weights(), &values) <= step * 1.02);
    }
}
