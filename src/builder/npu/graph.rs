//! A static graph as plain data: nodes, tensors of fixed shape, weights by reference.
//!
//! For each tensor it says where the range of its values comes from, which is what calibration and quantization ask.
//! What a decoder's nodes are is `layers`' business; `float` and `quantized` write them as ONNX.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::{IntegerType, TensorQuantization};

/// Which tensor of its graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TensorId(pub usize);

/// A graph for so many tokens at once, over a past of so many.
#[derive(Debug, Clone, PartialEq)]
pub struct StaticGraph {
    /// S: tokens in one pass.
    pub tokens: usize,
    /// C: slots of the past.
    pub context: usize,
    /// In the order of their making; all inputs are among them.
    tensors: Vec<Tensor>,
    pub inputs: Vec<TensorId>,
    pub outputs: Vec<TensorId>,
    pub nodes: Vec<Node>,
}

/// Something that is computed anew in each pass.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// The same in graphs for other numbers of tokens.
    pub name: String,
    pub shape: Vec<usize>,
    /// Of its codes, where the graph is quantized.
    pub integer: IntegerType,
    pub range: RangeSource,
}

/// Where the range of a tensor's values comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RangeSource {
    /// Calibration sees it.
    Observed(Observed),
    /// It follows from what the tensor is.
    Fixed { low: f32, high: f32 },
    /// The values of another tensor, or of a part of it, elsewhere: they keep their codes.
    CodesOf(TensorId),
    /// The values of another tensor in codes of another type.
    ValuesOf(TensorId),
}

/// How the values of an observed tensor lie, which says which of them count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Observed {
    /// The axis along which tokens lie: index i belongs to token i modulo `tokens`. (Where the heads of a group share
    /// an axis with the tokens, the tokens of one head follow those of the other.) Padding does not count.
    pub token_axis: usize,
    /// The last axis runs over the mask's columns; only those count that the token sees.
    pub scores: bool,
    /// How many tokens a token sees, itself among them; without it, all.
    pub window: Option<usize>,
    /// Scores with the mask added. Their range is from the lowest of all rows' maxima less `SCORE_FLOOR` to the maximum:
    /// what is not seen saturates.
    pub masked: bool,
}

/// A score that is so far below its row's maximum has no weight in the softmax: e^-16 is 1e-7.
pub const SCORE_FLOOR: f32 = 16.0;

#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub operation: Operation,
    pub inputs: Vec<TensorId>,
    pub output: TensorId,
}

/// What a node computes. Weights are part of the operation.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    /// x / sqrt(mean(x²) + epsilon) * weight along the last axis (Zhang and Sennrich, 2019).
    RmsNorm {
        weight: Weight,
        epsilon: f32,
    },
    /// x W: the last axis of K values becomes one of N.
    Linear {
        weight: Weight,
    },
    /// x + bias along the last axis.
    Bias {
        weight: Weight,
    },
    MatMul,
    Add,
    Multiply,
    /// x * factor.
    Scale {
        factor: f32,
    },
    Sigmoid,
    Tanh,
    /// `Activation::GeluTanh`.
    GeluTanh,
    /// Along the last axis.
    Softmax,
    Slice {
        axis: usize,
        start: usize,
        end: usize,
    },
    Concat {
        axis: usize,
    },
    /// The values at these indices of an axis, in this order.
    Gather {
        axis: usize,
        indices: Vec<usize>,
    },
    /// To the output's shape.
    Reshape,
    Transpose {
        permutation: Vec<usize>,
    },
    /// The same values in codes of another type or scale.
    Convert,
}

/// A weight of the model: a tensor of the GGUF file, taken from there only when it is written.
#[derive(Debug, Clone, PartialEq)]
pub struct Weight {
    /// The name of the GGUF's tensor.
    pub tensor: String,
    /// As ggml counts: `[K, N]` for a matrix of N rows with K values, `[N]` for a vector.
    pub shape: Vec<usize>,
    /// The size of a head where the file has the rows of each head's halves interleaved (see `weights::Rows`).
    pub interleaved_head: Option<usize>,
    /// All values are multiplied by this.
    pub factor: f32,
}

/// The lowest and the highest value of each observed tensor, by its name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ranges(pub BTreeMap<String, (f32, f32)>);

/// A tensor that has no range, or one that cannot be quantized.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RangeError {
    #[error("calibration saw no value of {tensor:?}")]
    Missing { tensor: String },
    #[error("calibration saw {tensor:?} range from {low} to {high}; expected finite numbers")]
    NotFinite { tensor: String, low: f32, high: f32 },
}

impl StaticGraph {
    pub fn new(tokens: usize, context: usize) -> Self {
        Self { tokens, context, tensors: Vec::new(), inputs: Vec::new(), outputs: Vec::new(), nodes: Vec::new() }
    }

    pub fn tensor(&self, id: TensorId) -> &Tensor {
        &self.tensors[id.0]
    }

    pub fn tensors(&self) -> impl Iterator<Item = (TensorId, &Tensor)> {
        self.tensors.iter().enumerate().map(|(index, tensor)| (TensorId(index), tensor))
    }

    /// What calibration must see, in the order of computing.
    pub fn observed(&self) -> impl Iterator<Item = (&Tensor, Observed)> {
        self.tensors.iter().filter_map(|tensor| match tensor.range {
            RangeSource::Observed(observed) => Some((tensor, observed)),
            _ => None,
        })
    }

    pub fn add(&mut self, tensor: Tensor) -> TensorId {
        self.tensors.push(tensor);
        TensorId(self.tensors.len() - 1)
    }

    /// Says later where a tensor's range comes from: the past shares that of rows which are computed further on.
    pub fn set_range(&mut self, id: TensorId, range: RangeSource) {
        self.tensors[id.0].range = range;
    }

    /// The type of a tensor's codes where it is not the usual one.
    pub fn set_integer(&mut self, id: TensorId, integer: IntegerType) {
        self.tensors[id.0].integer = integer;
    }

    /// How each tensor is quantized, given what calibration saw.
    pub fn quantize(&self, ranges: &Ranges) -> Result<Vec<TensorQuantization>, RangeError> {
        (0..self.tensors.len()).map(|index| self.quantization(TensorId(index), ranges)).collect()
    }

    fn quantization(&self, id: TensorId, ranges: &Ranges) -> Result<TensorQuantization, RangeError> {
        let tensor = self.tensor(self.codes_of(id));
        let (low, high) = self.range(id, ranges)?;
        if low.is_finite() && high.is_finite() {
            Ok(covering(tensor.integer, low, high))
        } else {
            Err(RangeError::NotFinite { tensor: tensor.name.clone(), low, high })
        }
    }

    /// The tensor whose codes this one keeps; most keep their own.
    pub fn codes_of(&self, mut id: TensorId) -> TensorId {
        while let RangeSource::CodesOf(source) = self.tensor(id).range {
            id = source;
        }
        id
    }

    fn range(&self, id: TensorId, ranges: &Ranges) -> Result<(f32, f32), RangeError> {
        let tensor = self.tensor(id);
        match tensor.range {
            RangeSource::Observed(_) => {
                let found = ranges.0.get(&tensor.name).copied();
                found.ok_or_else(|| RangeError::Missing { tensor: tensor.name.clone() })
            }
            RangeSource::Fixed { low, high } => Ok((low, high)),
            RangeSource::CodesOf(source) | RangeSource::ValuesOf(source) => self.range(source, ranges),
        }
    }
}

/// The finest codes of a type that cover a range and have one for zero: affine for unsigned types, symmetric around zero
/// point 0 for signed ones.
pub fn covering(r#type: IntegerType, low: f32, high: f32) -> TensorQuantization {
    let (low, high) = (f64::from(low.min(0.0)), f64::from(high.max(0.0)));
    // What never was but zero gets some scale above 0.
    let high = if high - low < 1e-9 { low + 1e-4 } else { high };
    let (least, most) = r#type.range();
    if least < 0 {
        let scale = low.abs().max(high) / f64::from(most);
        return TensorQuantization { r#type, scale: scale as f32, zero_point: 0 };
    }
    let scale = (high - low) / f64::from(most - least);
    let zero_point = (f64::from(least) - low / scale).round().clamp(f64::from(least), f64::from(most));
    TensorQuantization { r#type, scale: scale as f32, zero_point: zero_point as i32 }
}
