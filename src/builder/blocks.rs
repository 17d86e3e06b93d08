//! ggml's tensor types: how many values a block holds in how many bytes, and what each value is.
//!
//! The layouts are those of ggml's `ggml-common.h`, the formulas those of `ggml-quants.c`. A block keeps elements 0 to
//! n/2-1 in low nibbles and the others in high ones. How blocks become ONNX Runtime's layouts is `repack`'s business.

#[cfg(test)]
mod tests;

use std::fmt;

use half::{bf16, f16};

/// The tensor types that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TensorType {
    F32,
    F16,
    Bf16,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q4K,
    Q5K,
    Q6K,
}

/// Values of one K-quant super-block.
const SUPER_BLOCK: usize = 256;

impl TensorType {
    pub const ALL: [Self; 11] = [
        Self::F32,
        Self::F16,
        Self::Bf16,
        Self::Q4_0,
        Self::Q4_1,
        Self::Q5_0,
        Self::Q5_1,
        Self::Q8_0,
        Self::Q4K,
        Self::Q5K,
        Self::Q6K,
    ];

    /// The type with this number in ggml's `enum ggml_type`.
    pub fn from_id(id: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.id() == id)
    }

    /// The number in ggml's `enum ggml_type`.
    pub fn id(self) -> u32 {
        match self {
            Self::F32 => 0,
            Self::F16 => 1,
            Self::Q4_0 => 2,
            Self::Q4_1 => 3,
            Self::Q5_0 => 6,
            Self::Q5_1 => 7,
            Self::Q8_0 => 8,
            Self::Q4K => 12,
            Self::Q5K => 13,
            Self::Q6K => 14,
            Self::Bf16 => 30,
        }
    }

    /// The name of a type that ggml knows and this module does not read.
    pub fn foreign_name(id: u32) -> Option<&'static str> {
        Some(match id {
            9 => "Q8_1",
            10 => "Q2_K",
            11 => "Q3_K",
            15 => "Q8_K",
            16 => "IQ2_XXS",
            17 => "IQ2_XS",
            18 => "IQ3_XXS",
            19 => "IQ1_S",
            20 => "IQ4_NL",
            21 => "IQ3_S",
            22 => "IQ2_S",
            23 => "IQ4_XS",
            24 => "I8",
            25 => "I16",
            26 => "I32",
            27 => "I64",
            28 => "F64",
            29 => "IQ1_M",
            34 => "TQ1_0",
            35 => "TQ2_0",
            39 => "MXFP4",
            _ => return None,
        })
    }

    /// The readable types, for messages.
    pub fn names() -> String {
        Self::ALL.map(|kind| kind.to_string()).join(", ")
    }

    /// Values in one block.
    pub fn block_elements(self) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::Bf16 => 1,
            Self::Q4_0 | Self::Q4_1 | Self::Q5_0 | Self::Q5_1 | Self::Q8_0 => 32,
            Self::Q4K | Self::Q5K | Self::Q6K => SUPER_BLOCK,
        }
    }

    /// Bytes of one block.
    pub fn block_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::Q4_0 => 18,
            Self::Q4_1 => 20,
            Self::Q5_0 => 22,
            Self::Q5_1 => 24,
            Self::Q8_0 => 34,
            Self::Q4K => 144,
            Self::Q5K => 176,
            Self::Q6K => 210,
        }
    }

    /// Bytes of a row of `elements` values, which must be a whole number of blocks.
    pub fn row_bytes(self, elements: usize) -> usize {
        elements / self.block_elements() * self.block_bytes()
    }

    /// Writes the values of whole blocks as float32. Blocks beyond the shorter of the two slices are left alone.
    pub fn dequantize(self, bytes: &[u8], values: &mut [f32]) {
        match self {
            Self::F32 => each(bytes, values, |block: &[u8; 4], out: &mut [f32; 1]| out[0] = f32::from_le_bytes(*block)),
            Self::F16 => each(bytes, values, |block: &[u8; 2], out: &mut [f32; 1]| out[0] = half_at(block, 0)),
            Self::Bf16 => each(bytes, values, |block: &[u8; 2], out: &mut [f32; 1]| {
                out[0] = bf16::from_le_bytes(*block).to_f32();
            }),
            Self::Q4_0 => each(bytes, values, |block: &[u8; 18], out: &mut [f32; 32]| {
                let scale = half_at(block, 0);
                let nibbles = nibbles(&block[2..]);
                *out = nibbles.map(|q| scale * (f32::from(q) - 8.0));
            }),
            Self::Q4_1 => each(bytes, values, |block: &[u8; 20], out: &mut [f32; 32]| {
                let AffineBlock { scale, minimum, quants } = AffineBlock::q4_1(block);
                *out = quants.map(|q| scale * f32::from(q) + minimum);
            }),
            Self::Q5_0 => each(bytes, values, |block: &[u8; 22], out: &mut [f32; 32]| {
                let scale = half_at(block, 0);
                *out = five_bits(&block[2..6], &block[6..]).map(|q| scale * (f32::from(q) - 16.0));
            }),
            Self::Q5_1 => each(bytes, values, |block: &[u8; 24], out: &mut [f32; 32]| {
                let (scale, minimum) = (half_at(block, 0), half_at(block, 2));
                *out = five_bits(&block[4..8], &block[8..]).map(|q| scale * f32::from(q) + minimum);
            }),
            Self::Q8_0 => each(bytes, values, |block: &[u8; 34], out: &mut [f32; 32]| {
                let scale = half_at(block, 0);
                for (out, byte) in out.iter_mut().zip(&block[2..]) {
                    *out = scale * f32::from(byte.cast_signed());
                }
            }),
            Self::Q4K => each(bytes, values, q4_k),
            Self::Q5K => each(bytes, values, q5_k),
            Self::Q6K => each(bytes, values, q6_k),
        }
    }
}

/// ggml's spelling.
impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "F32",
            Self::F16 => "F16",
            Self::Bf16 => "BF16",
            Self::Q4_0 => "Q4_0",
            Self::Q4_1 => "Q4_1",
            Self::Q5_0 => "Q5_0",
            Self::Q5_1 => "Q5_1",
            Self::Q8_0 => "Q8_0",
            Self::Q4K => "Q4_K",
            Self::Q5K => "Q5_K",
            Self::Q6K => "Q6_K",
        })
    }
}

/// A block of 32 values `scale * quant + minimum`, as Q4_1 stores it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AffineBlock {
    pub scale: f32,
    pub minimum: f32,
    /// In the order of the values, each from 0 to 15.
    pub quants: [u8; 32],
}

impl AffineBlock {
    pub fn q4_1(block: &[u8; 20]) -> Self {
        Self { scale: half_at(block, 0), minimum: half_at(block, 2), quants: nibbles(&block[4..]) }
    }

    /// Q4_0 is Q4_1 with the minimum fixed at -8 scales.
    pub fn q4_0(block: &[u8; 18]) -> Self {
        let scale = half_at(block, 0);
        Self { scale, minimum: -8.0 * scale, quants: nibbles(&block[2..]) }
    }
}

fn each<const BYTES: usize, const VALUES: usize>(
    bytes: &[u8],
    values: &mut [f32],
    convert: impl Fn(&[u8; BYTES], &mut [f32; VALUES]),
) {
    for (block, out) in bytes.as_chunks::<BYTES>().0.iter().zip(values.as_chunks_mut::<VALUES>().0) {
        convert(block, out);
    }
}

/// The float16 at a byte offset of a block.
pub fn half_at(block: &[u8], offset: usize) -> f32 {
    f16::from_le_bytes([block[offset], block[offset + 1]]).to_f32()
}

/// Sixteen bytes as 32 nibbles: the low ones first, then the high ones.
pub fn nibbles(packed: &[u8]) -> [u8; 32] {
    std::array::from_fn(|k| if k < 16 { packed[k] & 15 } else { packed[k - 16] >> 4 })
}

/// 32 five-bit quants: nibbles plus bit k of a 32-bit word for value k.
pub fn five_bits(high: &[u8], packed: &[u8]) -> [u8; 32] {
    let low = nibbles(packed);
    std::array::from_fn(|k| low[k] | (high[k / 8] >> (k % 8) & 1) << 4)
}

/// Scale and minimum number `j` (0 to 7) of a Q4_K or Q5_K super-block, six bits each, packed into twelve bytes.
fn scale_and_minimum(packed: &[u8], j: usize) -> (f32, f32) {
    let (scale, minimum) = if j < 4 {
        (packed[j] & 63, packed[j + 4] & 63)
    } else {
        (packed[j + 4] & 15 | packed[j - 4] >> 6 << 4, packed[j + 4] >> 4 | packed[j] >> 6 << 4)
    };
    (f32::from(scale), f32::from(minimum))
}

/// Eight sub-blocks of 32 values: `d * scale[j] * q - dmin * minimum[j]`.
fn q4_k(block: &[u8; 144], out: &mut [f32; SUPER_BLOCK]) {
    let (d, dmin) = (half_at(block, 0), half_at(block, 2));
    for (j, sub) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (scale, minimum) = scale_and_minimum(&block[4..16], j);
        let (scale, minimum) = (d * scale, dmin * minimum);
        // Two sub-blocks share 32 bytes: the even one has the low nibbles.
        let packed = &block[16 + j / 2 * 32..][..32];
        for (value, byte) in sub.iter_mut().zip(packed) {
            *value = scale * f32::from(byte >> (j % 2 * 4) & 15) - minimum;
        }
    }
}

/// As Q4_K, with a fifth bit for each value: bit j of byte k for value k of sub-block j.
fn q5_k(block: &[u8; 176], out: &mut [f32; SUPER_BLOCK]) {
    let (d, dmin) = (half_at(block, 0), half_at(block, 2));
    let high = &block[16..48];
    for (j, sub) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (scale, minimum) = scale_and_minimum(&block[4..16], j);
        let (scale, minimum) = (d * scale, dmin * minimum);
        let packed = &block[48 + j / 2 * 32..][..32];
        for ((value, byte), high) in sub.iter_mut().zip(packed).zip(high) {
            let quant = byte >> (j % 2 * 4) & 15 | (high >> j & 1) << 4;
            *value = scale * f32::from(quant) - minimum;
        }
    }
}

/// Sixteen sub-blocks of 16 values: `d * scale[j] * (q - 32)`, scales are signed bytes.
///
/// Each half of 128 values has 64 bytes of low nibbles and 32 bytes of high bit pairs; value `32 g + l` of a half takes
/// its nibble from byte `l + 32 (g % 2)`, low for g < 2, and its bit pair from bits 2 g of byte `l`.
fn q6_k(block: &[u8; 210], out: &mut [f32; SUPER_BLOCK]) {
    let d = half_at(block, 208);
    for (half, values) in out.as_chunks_mut::<128>().0.iter_mut().enumerate() {
        let low = &block[half * 64..][..64];
        let high = &block[128 + half * 32..][..32];
        let scales = &block[192 + half * 8..][..8];
        for (k, value) in values.iter_mut().enumerate() {
            let (g, l) = (k / 32, k % 32);
            let nibble = low[l + 32 * (g % 2)] >> (g / 2 * 4) & 15;
            let quant = nibble | (high[l] >> (2 * g) & 3) << 4;
            *value = d * f32::from(scales[k / 16].cast_signed()) * (f32::from(quant) - 32.0);
        }
    }
}
