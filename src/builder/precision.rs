//! In which precision a model's matrices are stored and multiplied on the CPU: which layout each matrix gets.
//!
//! What the layouts hold is `repack`'s business.

use std::fmt;

use super::blocks::TensorType;
use super::repack::{BlockFormat, Layout};
use super::weights::Rows;

/// How matrices are stored for the CPU. Vectors, activations between operators and the KV cache are in float32 always.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum CpuPrecision {
    /// In 8 bits but for what 4 hold exactly. Products take activations in 8 bits a block.
    #[default]
    Int8,
    /// In float16; ONNX Runtime makes float32 of it when it loads the model, so this is a matter of the disk.
    Fp16,
    /// In float32: what the checkpoint says, whatever its types.
    Fp32,
}

/// What a matrix is used for, which decides between layouts that are equally exact. Types that neither 4 bits nor
/// symmetric ones hold exactly take 8 bits with zero points for every purpose: beside the accuracy they have the faster
/// kernel in prefill, and no slower one in decoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The embedding, and the output projection that may share it: `GatherBlockQuantized` reads 8 bits only here.
    Vocabulary,
    /// The projections in the layers: 4 bits where they lose nothing, half as many bytes to read in decoding.
    Projection,
}

impl CpuPrecision {
    /// The layout for a matrix made of these parts.
    pub fn layout(self, parts: &[Rows<'_, '_>], purpose: Purpose) -> Layout {
        let all = |types: &[TensorType]| parts.iter().all(|part| types.contains(&part.tensor.kind));
        match self {
            Self::Fp32 => Layout::Float32,
            Self::Fp16 => Layout::Float16,
            Self::Int8 => Layout::Blocks(match purpose {
                Purpose::Projection if all(&[TensorType::Q4_0]) => BlockFormat::SYMMETRIC4,
                _ if all(&[TensorType::Q8_0, TensorType::Q5_0, TensorType::Q4_0]) => BlockFormat::SYMMETRIC8,
                _ => BlockFormat::ASYMMETRIC8,
            }),
        }
    }

    /// The name of what is written. A folder built by another recipe differs in speed and accuracy, so this must change
    /// with what `repack` and `decoder_graph` write.
    pub fn recipe(self) -> String {
        format!("cpu-{self}")
    }
}

/// As the command line names it.
impl fmt::Display for CpuPrecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
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

    /// Of a matrix whose parts have these types.
    fn layout(precision: CpuPrecision, types: &[TensorType], purpose: Purpose) -> Layout {
        let tensor = |kind| Tensor { name: "t".into(), kind, shape: vec![256, 2], bytes: &[] };
        let tensors: Vec<_> = types.iter().copied().map(tensor).collect();
        let parts: Vec<_> = tensors.iter().map(|tensor| Rows { tensor, interleaved_head: None }).collect();
        precision.layout(&parts, purpose)
    }

    #[test]
    fn eight_bits_are_the_most_exact_blocks_of_every_type() {
        use TensorType::*;
        for (types, purpose, expected) in [
            (&[Q4_0, Q4_0][..], Purpose::Projection, BlockFormat::SYMMETRIC4),
            (&[Q4_0], Purpose::Vocabulary, BlockFormat::SYMMETRIC8),
            (&[Q4_1], Purpose::Projection, BlockFormat::ASYMMETRIC8),
            (&[Q4_1, Q4_0], Purpose::Projection, BlockFormat::ASYMMETRIC8),
            (&[Q8_0, Q8_0, Q4_0], Purpose::Projection, BlockFormat::SYMMETRIC8),
            (&[Q5_0], Purpose::Projection, BlockFormat::SYMMETRIC8),
            (&[Q8_0], Purpose::Vocabulary, BlockFormat::SYMMETRIC8),
            (&[Q4K, Q4K, Q6K], Purpose::Projection, BlockFormat::ASYMMETRIC8),
            (&[F16], Purpose::Vocabulary, BlockFormat::ASYMMETRIC8),
        ] {
            let found = layout(CpuPrecision::Int8, types, purpose);
            assert_eq!(found, Layout::Blocks(expected), "{types:?} {purpose:?}");
        }
    }

    #[test]
    fn floats_are_floats_whatever_the_type() {
        for kind in TensorType::ALL {
            for purpose in [Purpose::Projection, Purpose::Vocabulary] {
                assert_eq!(layout(CpuPrecision::Fp32, &[kind], purpose), Layout::Float32);
                assert_eq!(layout(CpuPrecision::Fp16, &[kind], purpose), Layout::Float16);
            }
        }
    }
}
