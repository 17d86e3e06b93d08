//! Writes a static graph's weights into a data file that all graphs of the model share. A weight is taken from the GGUF
//! file, turned into what is stored, written and forgotten, so that memory stays at some copies of the largest one.

use std::collections::HashMap;

use super::graph::{Operation, StaticGraph, Weight, covering};
use crate::builder::architecture::find_tensor;
use crate::builder::error::ModelError;
use crate::builder::gguf::Gguf;
use crate::builder::graph::{DataFile, Region, float_bytes};
use crate::builder::weights::{Rows, StoreError};
use crate::model::{IntegerType, TensorQuantization};

/// Where the weights are, by the tensor's name in the GGUF file. Matrices are stored as `MatMul` wants them, `[K, N]`.
pub type Stored<S> = HashMap<String, S>;

/// A weight as float32.
pub type Floats = Region;

/// A weight in integers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Codes {
    /// A matrix in symmetric int8 with a float32 scale for each column.
    Matrix { codes: Region, scales: Region, zero_points: Region },
    /// A vector in uint16.
    Vector { codes: Region, quantization: TensorQuantization },
}

/// Values of a matrix's part that is turned at a time: it should stay in the processor's cache.
const TILE: usize = 64;

/// Writes all weights as float32.
pub fn write_floats(
    gguf: &Gguf<'_>,
    graph: &StaticGraph,
    data: &mut DataFile,
    progress: &mut dyn FnMut(f32),
) -> Result<Stored<Floats>, StoreError> {
    write(graph, progress, |weight| {
        let values = load(gguf, weight)?;
        let values = match *weight.shape.as_slice() {
            [k, n] => transposed(&values, k, n),
            _ => values,
        };
        Ok(data.append(&float_bytes(&values))?)
    })
}

/// Writes all weights in integers: int8 for each matrix with a scale per column, uint16 for vectors.
pub fn write_codes(
    gguf: &Gguf<'_>,
    graph: &StaticGraph,
    data: &mut DataFile,
    progress: &mut dyn FnMut(f32),
) -> Result<Stored<Codes>, StoreError> {
    write(graph, progress, |weight| {
        let values = load(gguf, weight)?;
        let [k, n] = *weight.shape.as_slice() else {
            let (codes, quantization) = vector_codes(&values);
            return Ok(Codes::Vector { codes: data.append(&codes)?, quantization });
        };
        let (codes, scales) = column_codes(&values, k);
        let codes = data.append(&transposed(&codes, k, n))?;
        Ok(Codes::Matrix { codes, scales: data.append(&float_bytes(&scales))?, zero_points: data.append(&vec![0; n])? })
    })
}

/// Calls `store` for each weight of the graph, once.
fn write<S>(
    graph: &StaticGraph,
    progress: &mut dyn FnMut(f32),
    mut store: impl FnMut(&Weight) -> Result<S, StoreError>,
) -> Result<Stored<S>, StoreError> {
    let weights: Vec<&Weight> = graph.nodes.iter().filter_map(|node| node.operation.weight()).collect();
    let mut stored = Stored::new();
    for (index, weight) in weights.iter().enumerate() {
        progress(index as f32 / weights.len() as f32);
        stored.insert(weight.tensor.clone(), store(weight)?);
    }
    progress(1.0);
    Ok(stored)
}

/// The values of a weight, row by row.
pub fn load(gguf: &Gguf<'_>, weight: &Weight) -> Result<Vec<f32>, ModelError> {
    let tensor = find_tensor(gguf, &weight.tensor)?;
    if tensor.shape != weight.shape {
        let (found, expected) = (tensor.shape.clone(), weight.shape.clone());
        return Err(ModelError::TensorShape { tensor: weight.tensor.clone(), found, expected });
    }
    let rows = Rows { tensor, interleaved_head: weight.interleaved_head };
    let mut values = rows.values();
    values.iter_mut().for_each(|value| *value *= weight.factor);
    if values.iter().all(|value| value.is_finite()) {
        Ok(values)
    } else {
        Err(ModelError::NotFinite { tensor: weight.tensor.clone() })
    }
}

/// Each row's nearest codes from -127 to 127, and the rows' scales.
fn column_codes(values: &[f32], k: usize) -> (Vec<u8>, Vec<f32>) {
    let mut codes = Vec::with_capacity(values.len());
    let scales = values.chunks(k).map(|row| {
        let largest = row.iter().fold(0.0, |largest: f32, value| largest.max(value.abs()));
        // A row of zeros needs some scale, too.
        let scale = largest.max(1e-8) / 127.0;
        codes.extend(row.iter().map(|value| (value / scale).round_ties_even() as i8 as u8));
        scale
    });
    let scales = scales.collect();
    (codes, scales)
}

fn vector_codes(values: &[f32]) -> (Vec<u8>, TensorQuantization) {
    let low = values.iter().copied().fold(f32::INFINITY, f32::min);
    let high = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let quantization = covering(IntegerType::U16, low, high);
    let codes = values.iter().flat_map(|value| (quantization.quantize(*value) as u16).to_le_bytes());
    (codes.collect(), quantization)
}

/// The columns of N rows of K values, one after the other.
fn transposed<T: Copy + Default>(values: &[T], k: usize, n: usize) -> Vec<T> {
    let mut columns = vec![T::default(); values.len()];
    for first_row in (0..n).step_by(TILE) {
        for first_column in (0..k).step_by(TILE) {
            for column in first_column..k.min(first_column + TILE) {
                for row in first_row..n.min(first_row + TILE) {
                    columns[column * n + row] = values[row * k + column];
                }
            }
        }
    }
    columns
}

impl Operation {
    /// The weight that a node has.
    pub fn weight(&self) -> Option<&Weight> {
        match self {
            Self::RmsNorm { weight, .. } | Self::Linear { weight } | Self::Bias { weight } => Some(weight),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn matrices_are_turned() {
        assert_eq!(transposed(&[1, 2, 3, 4, 5, 6], 3, 2), [1, 4, 2, 5, 3, 6]);
        // Sizes that the tiles do not divide.
        let (k, n) = (TILE + 3, 2 * TILE + 5);
        let values: Vec<usize> = (0..k * n).collect();
        let turned = transposed(&values, k, n);
        assert_eq!(turned[7 * n + 130], 130 * k + 7);
        assert_eq!(transposed(&turned, n, k), values);
    }

    #[test]
    fn each_column_has_its_scale() {
        let (codes, scales) = column_codes(&[1.0, -2.0, 0.5, 0.0, 0.0, 0.0, 127.0, 64.5, -126.5], 3);
        assert_eq!(scales, [2.0 / 127.0, 1e-8 / 127.0, 1.0]);
        // 63.5 and 31.75 steps, then ties to even.
        let codes: Vec<i8> = codes.into_iter().map(|code| code as i8).collect();
        assert_eq!(codes, [64, -127, 32, 0, 0, 0, 127, 64, -126]);
    }

    #[test]
    fn vectors_use_all_codes() {
        let (codes, quantization) = vector_codes(&[-1.0, 0.0, 3.0]);
        let codes: Vec<u16> = codes.as_chunks::<2>().0.iter().map(|bytes| u16::from_le_bytes(*bytes)).collect();
        // Zero lies a quarter up.
        assert_eq!(codes, [0, 16_384, 65_535]);
        assert_eq!(quantization.zero_point, 16_384);
    }
}
