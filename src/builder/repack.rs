//! Turns rows of any tensor type into the operands of ONNX Runtime's `MatMulNBits` and `GatherBlockQuantized`, or into plain
//! floats.
//!
//! Both operators take blocks of values along K with `w = scale * (q - zero_point)`: q unsigned, 8 bits wide or 4 bits
//! (even k in the low nibble), scales float32. Zero points are as wide as the quants, those of a row begin a byte; without
//! them 128, or 8, is implied. A matrix of N rows with K values in blocks of 32 has `B [N, K/32, 32 or 16]`,
//! `scales [N, K/32]`, `zero_points [N, K/32 or half as many]`.
//!
//! ggml's blocks also run along K, so a row converts alone; `weights` walks the rows and writes the file, `precision` says
//! which layout a matrix gets.

mod four_bits;
#[cfg(test)]
mod tests;

use half::f16;

use super::blocks::{AffineBlock, TensorType, five_bits, half_at};

/// Values in one block, ggml's and ours.
pub const BLOCK: usize = 32;

/// How a matrix is stored for ONNX Runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Every type exactly.
    Float32,
    /// Rounded to the nearest float16, which holds 65504 at most.
    Float16,
    /// Rounded to a few levels a block, where the type is not one that the blocks hold exactly.
    Blocks(BlockFormat),
}

/// What the blocks of a matrix are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockFormat {
    /// Of a quant and of a zero point: 4 or 8.
    pub bits: usize,
    /// Values in a block: 32, 64 or 128, of 8 bits 32 only.
    pub size: usize,
    /// Whether zero points are stored.
    pub zero_points: bool,
}

/// What one row occupies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowSize {
    /// Bytes of quants or floats.
    pub values: usize,
    /// Blocks, which is the number of scales; 0 for floats.
    pub blocks: usize,
    /// Bytes of zero points; 0 where they are implied.
    pub zero_points: usize,
}

/// Where rows are written: slices of exactly the sizes that `RowSize` says of each.
#[derive(Debug)]
pub struct RowOut<'a> {
    pub values: &'a mut [u8],
    pub scales: &'a mut [f32],
    pub zero_points: &'a mut [u8],
}

impl<'a> RowOut<'a> {
    /// Takes the first rows off, which have this size each.
    pub fn split_off(&mut self, rows: usize, size: RowSize) -> Self {
        RowOut {
            values: self.values.split_off_mut(..rows * size.values).unwrap_or_default(),
            scales: self.scales.split_off_mut(..rows * size.blocks).unwrap_or_default(),
            zero_points: self.zero_points.split_off_mut(..rows * size.zero_points).unwrap_or_default(),
        }
    }
}

impl BlockFormat {
    /// 8 bits, zero point 128 implied. Lossless for Q8_0, Q5_0 and Q4_0; takes nothing else.
    pub const SYMMETRIC8: Self = Self { bits: 8, size: BLOCK, zero_points: false };
    /// 8 bits with zero points. Takes every type: Q4_1 on a grid a little finer than its own, whatever else is not
    /// symmetric to the nearest of 256 levels.
    pub const ASYMMETRIC8: Self = Self { bits: 8, size: BLOCK, zero_points: true };
    /// 4 bits, zero point 8 implied, in ggml's blocks: lossless for Q4_0. As every other format of 4 bits it takes all types.
    pub const SYMMETRIC4: Self = Self { bits: 4, size: BLOCK, zero_points: false };

    /// Bytes of the zero points of a row with `k` values.
    pub fn zero_point_bytes(self, k: usize) -> usize {
        if self.zero_points { (k / self.size * self.bits).div_ceil(8) } else { 0 }
    }
}

impl Layout {
    /// The sizes of a row with `k` values, a multiple of the block's size.
    pub fn row_size(self, k: usize) -> RowSize {
        match self {
            Self::Float32 => RowSize { values: 4 * k, blocks: 0, zero_points: 0 },
            Self::Float16 => RowSize { values: 2 * k, blocks: 0, zero_points: 0 },
            Self::Blocks(format) => RowSize {
                values: k * format.bits / 8,
                blocks: k / format.size,
                zero_points: format.zero_point_bytes(k),
            },
        }
    }
}

/// Converts one row; the caller has checked the sizes, and for SYMMETRIC8 the type. False where a value is not finite, or
/// beyond what the layout holds.
pub fn convert_row(layout: Layout, kind: TensorType, row: &[u8], scratch: &mut Vec<f32>, out: RowOut<'_>) -> bool {
    match layout {
        Layout::Float32 => {
            let (bytes, _) = out.values.as_chunks_mut::<4>();
            let values = dequantized(kind, row, bytes.len(), scratch);
            bytes.iter_mut().zip(values).for_each(|(bytes, value)| *bytes = value.to_le_bytes());
            values.iter().all(|value| value.is_finite())
        }
        Layout::Float16 => {
            let (bytes, _) = out.values.as_chunks_mut::<2>();
            let values = dequantized(kind, row, bytes.len(), scratch);
            bytes.iter_mut().zip(values).fold(true, |finite, (bytes, value)| {
                let half = f16::from_f32(*value);
                *bytes = half.to_le_bytes();
                finite && half.is_finite()
            })
        }
        Layout::Blocks(format) => {
            let RowOut { values: quants, scales, zero_points } = out;
            let out = RowOut { values: quants, scales: &mut *scales, zero_points };
            if format.bits == 8 {
                convert_row8(kind, row, scratch, out);
            } else if kind == TensorType::Q4_0 && format == BlockFormat::SYMMETRIC4 {
                repack_q4_0(row, out);
            } else {
                four_bits::quantize_row(format, dequantized(kind, row, 2 * out.values.len(), scratch), out);
            }
            scales.iter().all(|scale| scale.is_finite())
        }
    }
}

/// The row's values, in a buffer that is there for it.
fn dequantized<'s>(kind: TensorType, row: &[u8], values: usize, scratch: &'s mut Vec<f32>) -> &'s [f32] {
    scratch.resize(values, 0.0);
    kind.dequantize(row, scratch);
    scratch
}

fn repack_q4_0(row: &[u8], out: RowOut<'_>) {
    let (blocks, _) = row.as_chunks::<18>();
    for ((block, quants), scale) in blocks.iter().zip(out.values.as_chunks_mut::<16>().0).zip(out.scales) {
        let affine = AffineBlock::q4_0(block);
        *scale = affine.scale;
        *quants = pack_nibbles(&affine.quants);
    }
}

fn convert_row8(kind: TensorType, row: &[u8], scratch: &mut Vec<f32>, out: RowOut<'_>) {
    let RowOut { values: quants, scales, zero_points } = out;
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
            let (values, _) = dequantized(kind, row, quants.len() * BLOCK, scratch).as_chunks::<BLOCK>();
            for (((values, quants), scale), zero_point) in values.iter().zip(quants).zip(scales).zip(zero_points) {
                (*scale, *zero_point) = quantize_block(values, quants);
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

/// Steps of a finer grid in one step of a 4-bit block. 15 * 17 is the most that 8 bits hold; grids coarser than 12 add
/// little to the choice.
const FINER: std::ops::RangeInclusive<u8> = 12..=17;

/// A Q4_1 block on a finer grid, on which every quant keeps its place exactly. What is lost is the minimum's distance
/// from the grid, which is the same for the whole block; of the grids in `FINER` the one that it falls on best is taken.
/// That leaves 0.5 % of the block's scale on average (a grid of 16 alone leaves 1.6 %), and 1/34 at the worst: half a
/// step of the finest grid. Where zero lies outside of the block's values only coarser grids may hold it (up to 1/24).
fn affine_to_8_bits(block: &AffineBlock, quants: &mut [u8; BLOCK]) -> (f32, u8) {
    let exact = -f64::from(block.minimum) / f64::from(block.scale);
    let mut best: Option<(f64, u8, u8)> = None;
    for finer in FINER {
        let on_grid = exact * f64::from(finer);
        let zero_point = on_grid.round();
        let miss = (zero_point - on_grid).abs() / f64::from(finer);
        // Not so for blocks without spread, for those too far on one side of zero, and where something is not finite.
        if (0.0..=255.0).contains(&zero_point) && best.is_none_or(|(least, ..)| miss < least) {
            best = Some((miss, finer, zero_point as u8));
        }
    }
    if let Some((_, finer, zero_point)) = best {
        *quants = block.quants.map(|q| q * finer);
        return (block.scale / f32::from(finer), zero_point);
    }
    let values = block.quants.map(|q| block.scale * f32::from(q) + block.minimum);
    quantize_block(&values, quants)
}

/// 32 quants of four bits as 16 bytes: even k in the low nibble, as `MatMulNBits` wants it.
fn pack_nibbles(quants: &[u8; BLOCK]) -> [u8; 16] {
    std::array::from_fn(|k| quants[2 * k] & 15 | quants[2 * k + 1] << 4)
}

/// The highest quant of 8 bits.
const LEVELS: f32 = 255.0;

/// Quantizes 32 values to `w = scale * (q - zero_point)` with q from 0 to 255, and returns scale and zero point.
///
/// The range is the values' own with 0 in it, so that a zero point exists; both roundings of the zero point are tried,
/// each with its scale refitted by least squares, and the least squared error wins.
fn quantize_block(values: &[f32; BLOCK], quants: &mut [u8; BLOCK]) -> (f32, u8) {
    let low = values.iter().copied().fold(0.0, f32::min);
    let high = values.iter().copied().fold(0.0, f32::max);
    if low == high {
        quants.fill(0);
        // `min` and `max` pass over NaN.
        return (if values.iter().all(|value| *value == 0.0) { 0.0 } else { f32::NAN }, 0);
    }
    let scale = (high - low) / LEVELS;
    let exact = -low / scale;
    let mut best = (f32::INFINITY, 0.0, 0);
    for zero_point in [exact.floor(), exact.ceil()] {
        let zero_point = zero_point.clamp(0.0, LEVELS);
        let quantize = |scale: f32| values.map(|value| (value / scale + zero_point).round().clamp(0.0, LEVELS));
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
    // Where no candidate had a finite error the values were not finite; the scale says so to the caller.
    if best.0.is_finite() { (best.1, best.2) } else { (f32::NAN, 0) }
}
