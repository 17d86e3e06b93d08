use half::f16;
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::builder::testing::random_blocks;

/// A converted row, and what ONNX Runtime's operators compute from it.
struct Row {
    layout: Layout,
    quants: Vec<u8>,
    scales: Vec<f32>,
    zero_points: Vec<u8>,
}

impl Row {
    fn of(layout: Layout, kind: TensorType, bytes: &[u8]) -> Self {
        let k = bytes.len() / kind.block_bytes() * kind.block_elements();
        let size = layout.row_size(k);
        let mut row = Self {
            layout,
            // Not zero, so that a byte that is not written shows.
            quants: vec![0xa5; size.quants],
            scales: vec![f32::NAN; size.blocks],
            zero_points: vec![0xa5; size.zero_points],
        };
        let out = RowOut { quants: &mut row.quants, scales: &mut row.scales, zero_points: &mut row.zero_points };
        convert_row(layout, kind, bytes, &mut Vec::new(), out);
        row
    }

    /// The weights as `MatMulNBits` defines them, extra blocks included.
    fn stored(&self) -> Vec<f32> {
        let blocks = self.scales.len();
        let quant = |k: usize| match self.layout.bits() {
            8 => self.quants[k],
            _ => self.quants[k / 2] >> (k % 2 * 4) & 15,
        };
        let zero_point = |block: usize| match self.layout {
            Layout::Symmetric8 => 128,
            Layout::Symmetric4 => 8,
            Layout::Asymmetric8 => self.zero_points[block],
            Layout::Residual4 => self.zero_points[block / 2] >> (block % 2 * 4) & 15,
        };
        let weight = |k: usize| self.scales[k / BLOCK] * (f32::from(quant(k)) - f32::from(zero_point(k / BLOCK)));
        (0..blocks * BLOCK).map(weight).collect()
    }

    /// What each of the `k` inputs is multiplied with: for `Residual4` its own weight and that of its block's sum.
    fn weights(&self, k: usize) -> Vec<f32> {
        let stored = self.stored();
        let residual = |index: usize| match self.layout {
            Layout::Residual4 => stored[k + index / BLOCK],
            _ => 0.0,
        };
        (0..k).map(|index| stored[index] + residual(index)).collect()
    }
}

fn dequantized(kind: TensorType, bytes: &[u8]) -> Vec<f32> {
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

#[test]
fn nibbles_are_put_in_order() {
    let q4_0 = [f16::from_f32(1.0).to_le_bytes().as_slice(), &ramp()].concat();
    let row = Row::of(Layout::Symmetric4, TensorType::Q4_0, &q4_0);
    // Values 0, 1, 2, … lie in one byte each pair; ggml had values 0 and 16 in the first.
    let expected: Vec<u8> =
        [0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe, 0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01].to_vec();
    assert_eq!(row.quants, expected);
    assert_eq!((row.scales, row.zero_points), (vec![1.0], vec![]));
}

#[test]
fn q8_0_moves_to_unsigned() {
    let bytes: Vec<u8> = f16::from_f32(0.5).to_le_bytes().into_iter().chain((0..32).map(|k| k * 8)).collect();
    let row = Row::of(Layout::Symmetric8, TensorType::Q8_0, &bytes);
    assert_eq!(row.quants[..3], [128, 136, 144]);
    assert_eq!(row.quants[16..18], [0, 8]);
    assert_eq!(row.scales, [0.5]);
    let row = Row::of(Layout::Asymmetric8, TensorType::Q8_0, &bytes);
    assert_eq!(row.zero_points, [128]);
}

#[test]
fn symmetric_types_are_lossless() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for kind in [TensorType::Q8_0, TensorType::Q5_0, TensorType::Q4_0] {
        let bytes = random_blocks(kind, 160, &mut rng);
        for layout in [Layout::Symmetric8, Layout::Asymmetric8] {
            assert_eq!(Row::of(layout, kind, &bytes).weights(160), dequantized(kind, &bytes), "{kind} {layout:?}");
        }
    }
    let bytes = random_blocks(TensorType::Q4_0, 160, &mut rng);
    let row = Row::of(Layout::Symmetric4, TensorType::Q4_0, &bytes);
    assert_eq!(row.weights(160), dequantized(TensorType::Q4_0, &bytes));
}

#[test]
fn q4_1_in_8_bits_keeps_its_quants() {
    let row = Row::of(Layout::Asymmetric8, TensorType::Q4_1, &q4_1(0.5, -3.3, ramp()));
    assert_eq!(row.quants[..4], [0, 16, 32, 48]);
    assert_eq!(row.scales, [0.5 / 16.0]);
    // 16 * 3.3 / 0.5, with 3.3 rounded to float16.
    assert_eq!(row.zero_points, [106]);
}

#[test]
fn q4_1_in_8_bits_is_within_a_32nd_of_its_scale() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let bytes = random_blocks(TensorType::Q4_1, 32 * 200, &mut rng);
    let row = Row::of(Layout::Asymmetric8, TensorType::Q4_1, &bytes);
    let (got, want) = (row.weights(32 * 200), dequantized(TensorType::Q4_1, &bytes));
    for (block, (got, want)) in got.chunks(32).zip(want.chunks(32)).enumerate() {
        let scale = row.scales[block] * 16.0;
        assert!(largest_difference(got, want) <= scale / 32.0 * 1.001, "block {block}");
    }
}

#[test]
fn odd_q4_1_blocks_become_something_right() {
    // No spread; nothing at all; all above zero, near and far; all below; a scale below zero.
    let blocks =
        [(0.0, -0.75), (0.0, 0.0), (0.25, 0.125), (0.25, 4.0), (0.25, -9.0), (-0.25, 1.0), (0.0, 2.0), (0.25, -3.75)];
    for (scale, minimum) in blocks {
        let bytes = q4_1(scale, minimum, ramp());
        let want = dequantized(TensorType::Q4_1, &bytes);
        let range = want.iter().fold(0.0f32, |most, value| most.max(value.abs()));
        let got = Row::of(Layout::Asymmetric8, TensorType::Q4_1, &bytes).weights(32);
        // A level of 255 that reach from zero to the farthest value, or the Q4_1 bound.
        let bound = (range / 255.0).max(scale.abs() / 32.0) * 0.501 + scale.abs() / 64.0;
        assert!(largest_difference(&got, &want) <= bound, "{scale} {minimum}: {got:?} for {want:?}");
        let got = Row::of(Layout::Residual4, TensorType::Q4_1, &bytes).weights(32);
        // One residual, alone in its block, is exact but for rounding.
        assert!(largest_difference(&got, &want) <= range * 1e-6, "{scale} {minimum}: {got:?} for {want:?}");
    }
}

#[test]
fn residuals_have_blocks_of_their_own() {
    // 40 blocks need two residual blocks, and the zero points of 42 blocks 21 bytes.
    let size = Layout::Residual4.row_size(40 * BLOCK);
    assert_eq!(size, RowSize { k: 42 * BLOCK, quants: 42 * 16, blocks: 42, zero_points: 21 });
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    for kind in [TensorType::Q4_1, TensorType::Q4_0] {
        let bytes = random_blocks(kind, 40 * BLOCK, &mut rng);
        let row = Row::of(Layout::Residual4, kind, &bytes);
        let (got, want) = (row.weights(40 * BLOCK), dequantized(kind, &bytes));
        // Residuals lie within half a scale, at most 0.005, of zero, and 16 levels lie over their range: the error is
        // that of rounding (a step over the root of 12), and clipping the range costs no value more than two steps.
        let step = 0.01 / 15.0;
        let square = got.iter().zip(&want).map(|(got, want)| (got - want).powi(2)).sum::<f32>();
        assert!((square / got.len() as f32).sqrt() <= step / 12f32.sqrt(), "{kind}: {square}");
        assert!(largest_difference(&got, &want) <= 2.0 * step, "{kind}");
        // Columns past the last sum meet zeros in the input; they must be finite all the same.
        assert!(row.stored().iter().all(|value| value.is_finite()));
    }
}

#[test]
fn a_zero_point_in_an_odd_block_lies_in_the_high_nibble() {
    let bytes = [q4_1(1.0, -3.0, ramp()), q4_1(1.0, -5.0, ramp()), q4_1(1.0, -7.0, ramp())].concat();
    let row = Row::of(Layout::Residual4, TensorType::Q4_1, &bytes);
    // The fourth block holds residuals, which are all zero.
    assert_eq!(row.zero_points, [0x53, 0x07]);
    assert_eq!(row.scales, [1.0, 1.0, 1.0, 0.0]);
}

#[test]
fn zero_points_far_out_are_measured() {
    let excess = |scale, minimum| zero_point_excess(TensorType::Q4_1, &q4_1(scale, minimum, ramp()));
    assert_eq!(excess(1.0, -7.0), 0.0);
    assert_eq!(excess(1.0, 3.0), 3.0);
    assert_eq!(excess(0.5, -8.0), 1.0);
    assert_eq!(excess(0.0, 1.0), f32::INFINITY);
    assert_eq!(zero_point_excess(TensorType::Q4_0, &[0; 18]), 0.0);
}

#[test]
fn values_that_are_not_finite_show_in_the_scale() {
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut values = [0.5f32; 32];
        values[7] = bad;
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        assert!(!Row::of(Layout::Asymmetric8, TensorType::F32, &bytes).scales[0].is_finite(), "{bad}");
        let bytes: Vec<u8> = [bad; 32].iter().flat_map(|value| value.to_le_bytes()).collect();
        assert!(!Row::of(Layout::Asymmetric8, TensorType::F32, &bytes).scales[0].is_finite(), "{bad} alone");
        for layout in [Layout::Asymmetric8, Layout::Residual4] {
            for (scale, minimum) in [(bad, -1.0), (1.0, bad)] {
                let row = Row::of(layout, TensorType::Q4_1, &q4_1(scale, minimum, ramp()));
                assert!(row.scales.iter().any(|scale| !scale.is_finite()), "{layout:?} {scale} {minimum}");
            }
        }
    }
}

proptest! {
    /// Eight bits are never worse than plain rounding to 255 levels over the range with zero in it.
    #[test]
    fn floats_round_to_the_nearest_of_256_levels(values in prop::array::uniform32(-4.0f32..4.0), shift in -3.0f32..3.0) {
        let values = values.map(|value| value + shift);
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let row = Row::of(Layout::Asymmetric8, TensorType::F32, &bytes);
        let low = values.iter().copied().fold(0.0, f32::min);
        let high = values.iter().copied().fold(0.0, f32::max);
        let step = (high - low) / 255.0;
        let error = |got: &[f32]| got.iter().zip(&values).map(|(got, want)| (got - want).powi(2)).sum::<f32>();
        let zero_point = (-low / step).round();
        let plain = values.map(|value| step * ((value / step + zero_point).round().clamp(0.0, 255.0) - zero_point));
        prop_assert!(error(&row.weights(32)) <= error(&plain) * 1.0001 + 1e-12);
        prop_assert!(largest_difference(&row.weights(32), &values) <= step * 1.02);
    }
}
