//! Values are worked out from the formats' definitions; blocks are packed as ggml's quantizers pack them.

use half::{bf16, f16};
use pretty_assertions::assert_eq;

use super::*;

fn half(value: f32) -> [u8; 2] {
    f16::from_f32(value).to_le_bytes()
}

fn values(kind: TensorType, block: &[u8]) -> Vec<f32> {
    assert_eq!(block.len(), kind.block_bytes());
    let mut values = vec![f32::NAN; kind.block_elements()];
    kind.dequantize(block, &mut values);
    values
}

/// Byte k has k in its low nibble and 15 - k in its high one: the values' quants are 0..=15, then 15 down to 0.
fn ramp() -> Vec<u8> {
    (0..16).map(|k| k | (15 - k) << 4).collect()
}

fn ramp_quants() -> impl Iterator<Item = f32> {
    (0..16).chain((0..16).rev()).map(|quant| quant as f32)
}

#[test]
fn plain_floats() {
    assert_eq!(values(TensorType::F32, &1.5f32.to_le_bytes()), [1.5]);
    assert_eq!(values(TensorType::F16, &half(-0.25)), [-0.25]);
    assert_eq!(values(TensorType::Bf16, &bf16::from_f32(3.0).to_le_bytes()), [3.0]);
}

#[test]
fn q4_0_subtracts_eight() {
    let block = [half(0.5).as_slice(), &ramp()].concat();
    assert_eq!(values(TensorType::Q4_0, &block), ramp_quants().map(|q| 0.5 * (q - 8.0)).collect::<Vec<_>>());
}

#[test]
fn q4_1_adds_the_minimum() {
    let block = [half(0.25).as_slice(), &half(-1.0), &ramp()].concat();
    assert_eq!(values(TensorType::Q4_1, &block), ramp_quants().map(|q| 0.25 * q - 1.0).collect::<Vec<_>>());
}

/// Bit k of the word is the fifth bit of value k: here those of values 0, 9 and 31.
const FIFTH_BITS: [u8; 4] = (1u32 | 1 << 9 | 1 << 31).to_le_bytes();

fn five_bit_quants() -> Vec<f32> {
    let mut quants: Vec<f32> = ramp_quants().collect();
    for k in [0, 9, 31] {
        quants[k] += 16.0;
    }
    quants
}

#[test]
fn q5_0_takes_the_fifth_bit_and_subtracts_sixteen() {
    let block = [half(2.0).as_slice(), &FIFTH_BITS, &ramp()].concat();
    let expected: Vec<f32> = five_bit_quants().iter().map(|q| 2.0 * (q - 16.0)).collect();
    assert_eq!(values(TensorType::Q5_0, &block), expected);
    // By hand: value 0 is nibble 0 with bit 4; value 1 nibble 1 without; value 31 nibble 0 with it.
    assert_eq!([expected[0], expected[1], expected[31]], [0.0, -30.0, 0.0]);
}

#[test]
fn q5_1_takes_the_fifth_bit_and_adds_the_minimum() {
    let block = [half(2.0).as_slice(), &half(-3.0), &FIFTH_BITS, &ramp()].concat();
    let expected: Vec<f32> = five_bit_quants().iter().map(|q| 2.0 * q - 3.0).collect();
    assert_eq!(values(TensorType::Q5_1, &block), expected);
}

#[test]
fn q8_0_is_signed() {
    let mut block = half(0.5).to_vec();
    block.extend([0x80, 0xff, 0, 1, 0x7f]);
    block.resize(34, 2);
    assert_eq!(values(TensorType::Q8_0, &block)[..6], [-64.0, -0.5, 0.0, 0.5, 63.5, 1.0]);
}

/// Six-bit scales and minimums of eight sub-blocks, chosen so that every bit position is set somewhere.
const SCALES: [u8; 8] = [1, 2, 3, 63, 17, 33, 48, 62];
const MINIMUMS: [u8; 8] = [0, 1, 63, 5, 16, 32, 47, 61];

/// As ggml packs them: the first four whole, the others' low nibbles in four bytes, their high bits atop the first.
fn pack_scales() -> [u8; 12] {
    let mut packed = [0; 12];
    for j in 0..8 {
        let (scale, minimum) = (SCALES[j], MINIMUMS[j]);
        if j < 4 {
            packed[j] = scale;
            packed[j + 4] = minimum;
        } else {
            packed[j + 4] = scale & 15 | (minimum & 15) << 4;
            packed[j - 4] |= scale >> 4 << 6;
            packed[j] |= minimum >> 4 << 6;
        }
    }
    packed
}

/// Quants of a super-block that differ between neighbours in every direction.
fn quants(levels: usize) -> Vec<u8> {
    (0..256).map(|k| ((k * 7 + k / 32 * 5) % levels) as u8).collect()
}

fn k_values(quants: &[u8]) -> Vec<f32> {
    let value = |(k, quant): (usize, &u8)| {
        0.5 * f32::from(SCALES[k / 32]) * f32::from(*quant) - 0.25 * f32::from(MINIMUMS[k / 32])
    };
    quants.iter().enumerate().map(value).collect()
}

/// 64 values share 32 bytes: low nibbles for the first 32, high ones for the others.
fn pack_k_nibbles(quants: &[u8]) -> Vec<u8> {
    let pack = |half: &[u8]| (0..32).map(|l| half[l] & 15 | (half[l + 32] & 15) << 4).collect::<Vec<_>>();
    quants.chunks(64).flat_map(pack).collect()
}

#[test]
fn q4_k_scales_each_sub_block() {
    let quants = quants(16);
    let block = [half(0.5).as_slice(), &half(0.25), &pack_scales(), &pack_k_nibbles(&quants)].concat();
    assert_eq!(values(TensorType::Q4K, &block), k_values(&quants));
}

#[test]
fn q5_k_has_a_bit_plane_for_each_sub_block() {
    let quants = quants(32);
    let mut high = [0u8; 32];
    for (k, quant) in quants.iter().enumerate() {
        high[k % 32] |= (quant >> 4) << (k / 32);
    }
    let block = [half(0.5).as_slice(), &half(0.25), &pack_scales(), &high, &pack_k_nibbles(&quants)].concat();
    assert_eq!(values(TensorType::Q5K, &block), k_values(&quants));
}

#[test]
fn q6_k_scales_every_sixteen_values() {
    let quants = quants(64);
    let (mut low, mut high) = (Vec::new(), Vec::new());
    for half in quants.chunks(128) {
        low.extend((0..64).map(|l| half[l] & 15 | (half[l + 64] & 15) << 4));
        high.extend(
            (0..32).map(|l| half[l] >> 4 | half[l + 32] >> 4 << 2 | half[l + 64] >> 4 << 4 | half[l + 96] >> 4 << 6),
        );
    }
    let scales: [i8; 16] = std::array::from_fn(|j| (j as i8 - 8) * 16 + 1);
    let block = [low, high, scales.map(i8::cast_unsigned).to_vec(), half(0.5).to_vec()].concat();
    let expected: Vec<f32> = quants
        .iter()
        .enumerate()
        .map(|(k, quant)| 0.5 * f32::from(scales[k / 16]) * (f32::from(*quant) - 32.0))
        .collect();
    assert_eq!(values(TensorType::Q6K, &block), expected);
}

#[test]
fn types_have_the_numbers_and_names_of_ggml() {
    for kind in TensorType::ALL {
        assert_eq!(TensorType::from_id(kind.id()), Some(kind));
        assert_eq!(TensorType::foreign_name(kind.id()), None);
    }
    assert_eq!(TensorType::from_id(4), None);
    assert_eq!(TensorType::foreign_name(10), Some("Q2_K"));
    assert_eq!(TensorType::names(), "F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K");
}
