//! Turns rows of ggml blocks into the operands of ONNX Runtime's `MatMulNBits` and `GatherBlockQuantized`.
//!
//! Both operators take blocks of 32 values along K with `w = scale * (q - zero_point)`: q unsigned, 8 bits wide or 4 bits
//! (even k in the low nibble), scales float32, zero points integers of the same width (4-bit ones packed two a byte,
//! even block in the low nibble). Without zero points 128, or 8, is implied. A matrix of N rows with K values has
//! `B [N, K/32, 32 or 16]`, `scales [N, K/32]`, `zero_points [N, bytes]`.
//!
//! ggml's blocks also run along K, so a row converts alone; `weights` walks the rows and writes the file.

#[cfg(test)]
mod tests;

use super::blocks::{AffineBlock, TensorType, five_bits, half_at};

/// Values in one block, ggml's and ours.
pub const BLOCK: usize = 32;

/// How a matrix is stored for ONNX Runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// 8 bits, zero point 128 implied. Lossless for Q8_0, Q5_0 and Q4_0.
    Symmetric8,
    /// 8 bits with zero points. Takes every type: Q4_1 within 1/32 of its scale, floats to the nearest of 256 levels.
    Asymmetric8,
    /// 4 bits, zero point 8 implied. Lossless for Q4_0; takes nothing else.
    Symmetric4,
    /// 4 bits with zero points, for Q4_1 and Q4_0: the quants unchanged, and what the integer zero point misses of each
    /// block's minimum as extra blocks of K, which the graph multiplies with the block sums of the activations.
    Residual4,
}

/// What one row occupies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowSize {
    /// Values along K, extra blocks included.
    pub k: usize,
    /// Bytes of B.
    pub quants: usize,
    /// Blocks, which is the number of scales.
    pub blocks: usize,
    /// Bytes of zero points; 0 where they are implied.
    pub zero_points: usize,
}

/// Where one row is written: slices of exactly the sizes that `RowSize` says.
#[derive(Debug)]
pub struct RowOut<'a> {
    pub quants: &'a mut [u8],
    pub scales: &'a mut [f32],
    pub zero_points: &'a mut [u8],
}

impl Layout {
    pub fn bits(self) -> usize {
        match self {
            Self::Symmetric8 | Self::Asymmetric8 => 8,
            Self::Symmetric4 | Self::Residual4 => 4,
        }
    }

    /// The sizes of a row with `k` values, a multiple of 32.
    pub fn row_size(self, k: usize) -> RowSize {
        let blocks = match self {
            Self::Residual4 => k / BLOCK + residual_blocks(k),
            _ => k / BLOCK,
        };
        let zero_points = match self {
            Self::Symmetric8 | Self::Symmetric4 => 0,
            Self::Asymmetric8 => blocks,
            Self::Residual4 => blocks.div_ceil(2),
        };
        RowSize { k: blocks * BLOCK, quants: blocks * BLOCK * self.bits() / 8, blocks, zero_points }
    }

    /// Whether rows of this type can be stored in this layout.
    pub fn takes(self, kind: TensorType) -> bool {
        match self {
            Self::Symmetric8 => matches!(kind, TensorType::Q8_0 | TensorType::Q5_0 | TensorType::Q4_0),
            Self::Asymmetric8 => true,
            Self::Symmetric4 => kind == TensorType::Q4_0,
            Self::Residual4 => matches!(kind, TensorType::Q4_0 | TensorType::Q4_1),
        }
    }
}

/// How many blocks hold one residual for each of the `k / 32` blocks of a row.
pub fn residual_blocks(k: usize) -> usize {
    (k / BLOCK).div_ceil(BLOCK)
}

/// Converts one row. The caller has checked `layout.takes(kind)` and the sizes.
pub fn convert_row(layout: Layout, kind: TensorType, row: &[u8], scratch: &mut Vec<f32>, out: RowOut<'_>) {
    match layout {
        Layout::Symmetric8 | Layout::Asymmetric8 => convert_row8(kind, row, scratch, out),
        Layout::Symmetric4 => {
            let (blocks, _) = row.as_chunks::<18>();
            for ((block, quants), scale) in blocks.iter().zip(out.quants.as_chunks_mut::<16>().0).zip(out.scales) {
                let affine = AffineBlock::q4_0(block);
                *scale = affine.scale;
                *quants = pack_nibbles(&affine.quants);
            }
        }
        Layout::Residual4 => {
            let blocks = match kind {
                TensorType::Q4_0 => row.as_chunks::<18>().0.iter().map(AffineBlock::q4_0).collect::<Vec<_>>(),
                _ => row.as_chunks::<20>().0.iter().map(AffineBlock::q4_1).collect(),
            };
            convert_residual4(&blocks, scratch, out);
        }
    }
}

fn convert_row8(kind: TensorType, row: &[u8], scratch: &mut Vec<f32>, out: RowOut<'_>) {
    let RowOut { quants, scales, zero_points } = out;
    let (quants, _) = quants.as_chunks_mut::<BLOCK>();
    // Right for the symmetric types; the others overwrite it. Empty where 128 is implied.
    zero_points.fill(128);
    match kind {
        TensorType::Q8_0 => symmetric(row, quants, scales, |block: &[u8; 34]| {
            (half_at(block, 0), std::array::from_fn(|k| block[2 + k] ^ 0x80))
        }),
        TensorType::Q5_0 => symmetric(row, quants, scales, |block: &[u8; 22]| {
            (half_at(block, 0) / 8.0, five_bits(&block[2..6], &block[6..]).map(|q| q * 8))
        }),
        TensorType::Q4_0 => symmetric(row, quants, scales, |block: &[u8; 18]| {
            let affine = AffineBlock::q4_0(block);
            (affine.scale / 16.0, affine.quants.map(|q| q * 16))
        }),
        TensorType::Q4_1 => {
            let (blocks, _) = row.as_chunks::<20>();
            for (((block, quants), scale), zero_point) in blocks.iter().zip(quants).zip(scales).zip(zero_points) {
                (*scale, *zero_point) = affine_to_8_bits(&AffineBlock::q4_1(block), quants);
            }
        }
        _ => {
            scratch.resize(quants.len() * BLOCK, 0.0);
            kind.dequantize(row, scratch);
            let (values, _) = scratch.as_chunks::<BLOCK>();
            for (((values, quants), scale), zero_point) in values.iter().zip(quants).zip(scales).zip(zero_points) {
                (*scale, *zero_point) = quantize_block::<255>(values, quants);
            }
        }
    }
}

/// Blocks that say `scale * (q - 128)` once their quants are shifted.
fn symmetric<const BYTES: usize>(
    row: &[u8],
    quants: &mut [[u8; BLOCK]],
    scales: &mut [f32],
    block: impl Fn(&[u8; BYTES]) -> (f32, [u8; BLOCK]),
) {
    for ((bytes, quants), scale) in row.as_chunks::<BYTES>().0.iter().zip(quants).zip(scales) {
        (*scale, *quants) = block(bytes);
    }
}

/// A Q4_1 block on a grid sixteen times finer, where the minimum rounds to an integer zero point: every quant keeps its
/// place, and the whole block is off by at most 1/32 of its scale.
fn affine_to_8_bits(block: &AffineBlock, quants: &mut [u8; BLOCK]) -> (f32, u8) {
    let zero_point = (-16.0 * block.minimum / block.scale).round();
    // Blocks without spread, and those too far on one side of zero (or not finite), are quantized anew.
    if (0.0..=255.0).contains(&zero_point) {
        *quants = block.quants.map(|q| q * 16);
        (block.scale / 16.0, zero_point as u8)
    } else {
        let values = block.quants.map(|q| block.scale * f32::from(q) + block.minimum);
        quantize_block::<255>(&values, quants)
    }
}

fn convert_residual4(blocks: &[AffineBlock], scratch: &mut Vec<f32>, out: RowOut<'_>) {
    let RowOut { quants, scales, zero_points } = out;
    let (quants, _) = quants.as_chunks_mut::<16>();
    zero_points.fill(0);
    let mut put = |index: usize, values: &[u8; BLOCK], scale: f32, zero_point: u8| {
        quants[index] = pack_nibbles(values);
        scales[index] = scale;
        zero_points[index / 2] |= zero_point << (index % 2 * 4);
    };
    scratch.clear();
    for (index, block) in blocks.iter().enumerate() {
        let exact = -block.minimum / block.scale;
        // No spread (0/0, x/0): the block is all residual.
        let zero_point = if exact.is_finite() { exact.round().clamp(0.0, 15.0) } else { 0.0 };
        scratch.push(block.minimum + block.scale * zero_point);
        put(index, &block.quants, block.scale, zero_point as u8);
    }
    scratch.resize(scratch.len().next_multiple_of(BLOCK), 0.0);
    let mut packed = [0; BLOCK];
    for (index, values) in scratch.as_chunks::<BLOCK>().0.iter().enumerate() {
        let (scale, zero_point) = quantize_block::<15>(values, &mut packed);
        put(blocks.len() + index, &packed, scale, zero_point);
    }
}

/// The largest distance, in steps of its scale, of a Q4_1 block's exact zero point from the range that 4 bits hold.
/// Far outside, the residual blocks would carry more than they can resolve, and 8 bits are the better layout.
pub fn zero_point_excess(kind: TensorType, row: &[u8]) -> f32 {
    let excess = |block: &[u8; 20]| {
        let exact = -half_at(block, 2) / half_at(block, 0);
        // A block without spread is all minimum.
        if exact.is_finite() { (-exact).max(exact - 15.0).max(0.0) } else { f32::INFINITY }
    };
    match kind {
        TensorType::Q4_1 => row.as_chunks::<20>().0.iter().map(excess).fold(0.0, f32::max),
        _ => 0.0,
    }
}

/// 32 quants of four bits as 16 bytes: even k in the low nibble, as `MatMulNBits` wants it.
fn pack_nibbles(quants: &[u8; BLOCK]) -> [u8; 16] {
    std::array::from_fn(|k| quants[2 * k] & 15 | quants[2 * k + 1] << 4)
}

/// Quantizes 32 values to `w = scale * (q - zero_point)` with q from 0 to `LEVELS`, and returns scale and zero point.
///
/// Several ranges around the values' own (with 0 in it, so that a zero point exists) and both roundings of the zero
/// point are tried, each with its scale refitted by least squares; the least squared error wins.
fn quantize_block<const LEVELS: u8>(values: &[f32; BLOCK], quants: &mut [u8; BLOCK]) -> (f32, u8) {
    let levels = f32::from(LEVELS);
    let low = values.iter().copied().fold(0.0, f32::min);
    let high = values.iter().copied().fold(0.0, f32::max);
    if low == high {
        quants.fill(0);
        // `min` and `max` pass over NaN.
        return (if values.iter().all(|value| *value == 0.0) { 0.0 } else { f32::NAN }, 0);
    }
    let mut best = (f32::INFINITY, 0.0, 0);
    // Clipping the range pays when levels are few.
    let shrinks: &[f32] = if LEVELS > 15 { &[1.0] } else { &[1.0, 0.97, 0.94, 0.91, 0.88, 0.85, 0.82] };
    for shrink in shrinks {
        let scale = (high - low) / levels * shrink;
        let exact = -low * shrink / scale;
        for zero_point in [exact.floor(), exact.ceil()] {
            let zero_point = zero_point.clamp(0.0, levels);
            let quantize = |scale: f32| values.map(|value| (value / scale + zero_point).round().clamp(0.0, levels));
            let first = quantize(scale);
            let (mut along, mut square) = (0.0, 0.0);
            for (quant, value) in first.iter().zip(values) {
                along += (quant - zero_point) * value;
                square += (quant - zero_point) * (quant - zero_point);
            }
            let refitted = if along > 0.0 && square > 0.0 { along / square } else { scale };
            let second = quantize(refitted);
            let error = second.iter().zip(values).fold(0.0, |sum, (quant, value)| {
                let miss = refitted * (quant - zero_point) - value;
                sum + miss * miss
            });
            if error < best.0 {
                best = (error, refitted, zero_point as u8);
                *quants = second.map(|quant| quant as u8);
            }
        }
    }
    // Where no candidate had a finite error the values were not finite; the scale says so to the caller.
    if best.0.is_finite() { (best.1, best.2) } else { (f32::NAN, 0) }
}
