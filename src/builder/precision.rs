//! In which precision a model's matrices are stored and multiplied on the CPU: which layout each matrix gets.
//!
//! What the layouts hold is `repack`'s business.

use std::fmt;

use super::architecture::{EMBEDDING, OUTPUT};
use super::blocks::TensorType;
use super::repack::{BLOCK, BlockFormat, Layout};
use super::weights::Rows;

/// How matrices are stored for the CPU. Vectors, activations between operators and the KV cache are in float32 always.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CpuPrecision {
    /// In 4 bits but for the matrices where they cost most: the vocabulary's, the projections into attention, and those out
    /// of the MLP, which stay in 8. Products take activations in 8 bits a block.
    Int4(FourBits),
    /// In 8 bits but for what 4 hold exactly. Products take activations in 8 bits a block.
    #[default]
    Int8,
    /// In float16; ONNX Runtime makes float32 of it when it loads the model, so this is a matter of the disk.
    Fp16,
    /// In float32: what the checkpoint says, whatever its types.
    Fp32,
}

/// How matrices are rounded to 4 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FourBits {
    /// Values that share a scale: one of `SIZES`. A matrix whose rows it does not divide takes a smaller one.
    pub block: usize,
    /// Without zero points: a little smaller and less exact.
    pub symmetric: bool,
}

/// Matrices of a layer that int4 leaves in 8 bits, by the ends of their names. Of SmolLM2-135M's KL divergence from float32
/// with all layers in 4 bits, three quarters come from the values' and the down projections' rows alone; llama.cpp's mixes
/// give the same ones more bits. What goes into attention is one matrix here, so queries and keys come along.
const SENSITIVE: [&str; 3] = [".attn_v.weight", ".attn_qkv.weight", ".ffn_down.weight"];

impl FourBits {
    /// What `block` may be.
    pub const SIZES: [usize; 3] = [32, 64, 128];
}

impl Default for FourBits {
    fn default() -> Self {
        Self { block: BLOCK, symmetric: false }
    }
}

impl CpuPrecision {
    /// The layout for a matrix made of these parts, which llama.cpp's names say the use of.
    ///
    /// Of layouts that are equally exact it is the smallest. Types that neither 4 bits nor symmetric ones hold exactly take 8
    /// bits with zero points: beside the accuracy they have the faster kernel in prefill, and no slower one in decoding.
    pub fn layout(self, parts: &[Rows<'_, '_>]) -> Layout {
        let all = |types: &[TensorType]| parts.iter().all(|part| types.contains(&part.tensor.kind));
        // `GatherBlockQuantized` reads 8 bits only here, and in the output projection 4 bits gain no speed.
        let vocabulary = parts.iter().any(|part| [EMBEDDING, OUTPUT].contains(&&*part.tensor.name));
        let sensitive = parts.iter().any(|part| SENSITIVE.iter().any(|end| part.tensor.name.ends_with(end)));
        let format = match self {
            Self::Fp32 => return Layout::Float32,
            Self::Fp16 => return Layout::Float16,
            _ if !vocabulary && all(&[TensorType::Q4_0]) => BlockFormat::SYMMETRIC4,
            Self::Int4(four_bits) if !vocabulary && !sensitive => {
                let k = parts.iter().map(|part| part.tensor.shape[0]).next().unwrap_or(BLOCK);
                let fits = |size: &usize| *size <= four_bits.block && k.is_multiple_of(*size);
                let size = FourBits::SIZES.into_iter().rev().find(fits).unwrap_or(BLOCK);
                BlockFormat { bits: 4, size, zero_points: !four_bits.symmetric }
            }
            _ if all(&[TensorType::Q8_0, TensorType::Q5_0, TensorType::Q4_0]) => BlockFormat::SYMMETRIC8,
            _ => BlockFormat::ASYMMETRIC8,
        };
        Layout::Blocks(format)
    }

    /// The name of what is written. A folder built by another recipe differs in speed and accuracy, so this must change
    /// with what `repack` and `decoder_graph` write.
    pub fn recipe(self) -> String {
        let options = match self {
            Self::Int4(FourBits { block, symmetric: true }) => format!("-{block}-symmetric"),
            Self::Int4(FourBits { block, symmetric: false }) => format!("-{block}"),
            _ => String::new(),
        };
        format!("cpu-{self}{options}")
    }
}

/// As the command line names it.
impl fmt::Display for CpuPrecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Int4(_) => "int4",
            Self::Int8 => "int8",
            Self::Fp16 => "fp16",
            Self::Fp32 => "fp32",
        })
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::builder::gguf::Tensor;

    const PROJECTION: &str = "blk.0.ffn_up.weight";

    /// Of a matrix whose parts have these types.
    fn layout(precision: CpuPrecision, name: &str, types: &[TensorType], k: usize) -> Layout {
        let tensor = |kind| Tensor { name: name.to_owned().into(), kind, shape: vec![k, 2], bytes: &[] };
        let tensors: Vec<_> = types.iter().copied().map(tensor).collect();
        let parts: Vec<_> = tensors.iter().map(|tensor| Rows { tensor, interleaved_head: None }).collect();
        precision.layout(&parts)
    }

    #[test]
    fn eight_bits_are_the_most_exact_blocks_of_every_type() {
        use TensorType::*;
        for (types, name, expected) in [
            (&[Q4_0, Q4_0][..], PROJECTION, BlockFormat::SYMMETRIC4),
            (&[Q4_0], EMBEDDING, BlockFormat::SYMMETRIC8),
            (&[Q4_0], OUTPUT, BlockFormat::SYMMETRIC8),
            (&[Q4_1], PROJECTION, BlockFormat::ASYMMETRIC8),
            (&[Q4_1, Q4_0], PROJECTION, BlockFormat::ASYMMETRIC8),
            (&[Q8_0, Q8_0, Q4_0], PROJECTION, BlockFormat::SYMMETRIC8),
            (&[Q5_0], PROJECTION, BlockFormat::SYMMETRIC8),
            (&[Q8_0], EMBEDDING, BlockFormat::SYMMETRIC8),
            (&[Q4K, Q4K, Q6K], PROJECTION, BlockFormat::ASYMMETRIC8),
            (&[F16], OUTPUT, BlockFormat::ASYMMETRIC8),
        ] {
            let found = layout(CpuPrecision::Int8, name, types, 256);
            assert_eq!(found, Layout::Blocks(expected), "{types:?} {name}");
        }
    }

    #[test]
    fn four_bits_are_for_projections_in_blocks_that_fit() {
        use TensorType::*;
        let four = |size, zero_points| BlockFormat { bits: 4, size, zero_points };
        for (types, name, k, block, symmetric, expected) in [
            (&[Bf16][..], PROJECTION, 256, 128, false, four(128, true)),
            (&[Bf16], PROJECTION, 256, 64, true, four(64, false)),
            // 576 = 9 * 64 and 1504 = 47 * 32.
            (&[F16], PROJECTION, 576, 128, false, four(64, true)),
            (&[F32], PROJECTION, 1504, 128, true, four(32, false)),
            (&[Q8_0, Q6K], PROJECTION, 256, 32, false, four(32, true)),
            (&[Bf16], EMBEDDING, 256, 128, false, BlockFormat::ASYMMETRIC8),
            (&[Q8_0], OUTPUT, 256, 128, true, BlockFormat::SYMMETRIC8),
            (&[Bf16], "blk.7.ffn_down.weight", 256, 32, false, BlockFormat::ASYMMETRIC8),
            (&[Q8_0, Bf16], "blk.7.attn_v.weight", 256, 32, false, BlockFormat::ASYMMETRIC8),
            // What has 4 bits already stays as it is.
            (&[Q4_0], "blk.7.ffn_down.weight", 256, 32, false, BlockFormat::SYMMETRIC4),
            (&[Q4_0], PROJECTION, 256, 128, false, BlockFormat::SYMMETRIC4),
        ] {
            let found = layout(CpuPrecision::Int4(FourBits { block, symmetric }), name, types, k);
            assert_eq!(found, Layout::Blocks(expected), "{types:?} {name} {k} {block}");
        }
    }

    #[test]
    fn floats_are_floats_whatever_the_type() {
        for kind in TensorType::ALL {
            for name in [PROJECTION, EMBEDDING, OUTPUT] {
                assert_eq!(layout(CpuPrecision::Fp32, name, &[kind], 256), Layout::Float32);
                assert_eq!(layout(CpuPrecision::Fp16, name, &[kind], 256), Layout::Float16);
            }
        }
    }

    #[test]
    fn recipes_tell_everything_apart() {
        let int4 = |block, symmetric| CpuPrecision::Int4(FourBits { block, symmetric }).recipe();
        assert_eq!(CpuPrecision::default().recipe(), "cpu-int8");
        assert_eq!(CpuPrecision::Fp32.recipe(), "cpu-fp32");
        assert_eq!((int4(32, false), int4(128, true)), ("cpu-int4-32".to_owned(), "cpu-int4-128-symmetric".to_owned()));
    }
}
