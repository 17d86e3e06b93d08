//! Computes a static graph by its operations' definitions, slowly.

use std::collections::HashMap;

use super::super::graph::{Node, Operation, StaticGraph};
use super::super::weights::load;
use crate::builder::gguf::Gguf;

#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    pub shape: Vec<usize>,
    /// In row-major order.
    pub values: Vec<f64>,
}

impl Array {
    pub fn new(shape: &[usize], values: Vec<f64>) -> Self {
        assert_eq!(shape.iter().product::<usize>(), values.len());
        Self { shape: shape.to_vec(), values }
    }

    pub fn zeros(shape: &[usize]) -> Self {
        Self::new(shape, vec![0.0; shape.iter().product()])
    }

    /// The value at an index; an axis of size 1 is the same everywhere.
    fn at(&self, index: &[usize]) -> f64 {
        let place = index.iter().zip(&self.shape).fold(0, |place, (index, size)| place * size + index % size);
        assert!(index.iter().zip(&self.shape).all(|(index, size)| index < size || *size == 1));
        self.values[place]
    }
}

/// Makes an array from its values at each index.
fn from_indices(shape: &[usize], value: impl Fn(&[usize]) -> f64) -> Array {
    let mut index = vec![0; shape.len()];
    let mut values = Vec::new();
    for _ in 0..shape.iter().product() {
        values.push(value(&index));
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            if index[axis] < shape[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
    Array::new(shape, values)
}

/// All tensors by name.
pub fn evaluate(graph: &StaticGraph, gguf: &Gguf<'_>, inputs: HashMap<String, Array>) -> HashMap<String, Array> {
    let mut values = inputs;
    assert_eq!(values.len(), graph.inputs.len());
    for id in &graph.inputs {
        assert_eq!(values[&graph.tensor(*id).name].shape, graph.tensor(*id).shape);
    }
    for node in &graph.nodes {
        let output = graph.tensor(node.output);
        let inputs: Vec<&Array> = node.inputs.iter().map(|id| &values[&graph.tensor(*id).name]).collect();
        let result = compute(node, gguf, &inputs, &output.shape);
        values.insert(output.name.clone(), result);
    }
    values
}

fn compute(node: &Node, gguf: &Gguf<'_>, inputs: &[&Array], shape: &[usize]) -> Array {
    let weight: Vec<f64> = match node.operation.weight() {
        Some(weight) => load(gguf, weight).unwrap().into_iter().map(f64::from).collect(),
        None => Vec::new(),
    };
    let first = inputs[0];
    let width = *first.shape.last().unwrap();
    let rows = |function: &dyn Fn(&[f64]) -> Vec<f64>| {
        Array::new(shape, first.values.chunks(width).flat_map(function).collect())
    };
    let with_second =
        |function: fn(f64, f64) -> f64| from_indices(shape, |index| function(first.at(index), inputs[1].at(index)));
    match &node.operation {
        Operation::RmsNorm { epsilon, .. } => rows(&|row| {
            let mean = row.iter().map(|x| x * x).sum::<f64>() / width as f64;
            row.iter().zip(&weight).map(|(x, weight)| x / (mean + f64::from(*epsilon)).sqrt() * weight).collect()
        }),
        Operation::Linear { .. } => rows(&|row| {
            weight.chunks(width).map(|column| row.iter().zip(column).map(|(x, weight)| x * weight).sum()).collect()
        }),
        Operation::Bias { .. } => rows(&|row| row.iter().zip(&weight).map(|(x, bias)| x + bias).collect()),
        Operation::MatMul => from_indices(shape, |index| {
            let (mut left, mut right) = (index.to_vec(), index.to_vec());
            (0..width)
                .map(|k| {
                    (left[3], right[2]) = (k, k);
                    first.at(&left) * inputs[1].at(&right)
                })
                .sum()
        }),
        Operation::Add => with_second(|left, right| left + right),
        Operation::Multiply => with_second(|left, right| left * right),
        Operation::Scale { factor } => rows(&|row| row.iter().map(|x| x * f64::from(*factor)).collect()),
        Operation::Tanh => rows(&|row| row.iter().map(|x| x.tanh()).collect()),
        Operation::GeluTanh => rows(&|row| {
            let inner = |x: f64| (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
            row.iter().map(|x| x / 2.0 * (1.0 + inner(*x).tanh())).collect()
        }),
        Operation::Sigmoid => rows(&|row| row.iter().map(|x| 1.0 / (1.0 + (-x).exp())).collect()),
        Operation::Softmax => rows(&|row| {
            let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let total: f64 = row.iter().map(|x| (x - most).exp()).sum();
            row.iter().map(|x| (x - most).exp() / total).collect()
        }),
        Operation::Slice { axis, start, end } => {
            assert_eq!(shape[*axis], end - start);
            from_indices(shape, |index| {
                let mut index = index.to_vec();
                index[*axis] += start;
                first.at(&index)
            })
        }
        Operation::Concat { axis } => from_indices(shape, |index| {
            let mut index = index.to_vec();
            let mut inputs = inputs.iter();
            let mut input = inputs.next().unwrap();
            while index[*axis] >= input.shape[*axis] {
                index[*axis] -= input.shape[*axis];
                input = inputs.next().unwrap();
            }
            input.at(&index)
        }),
        Operation::Gather { axis, indices } => from_indices(shape, |index| {
            let mut index = index.to_vec();
            index[*axis] = indices[index[*axis]];
            first.at(&index)
        }),
        Operation::Reshape => Array::new(shape, first.values.clone()),
        Operation::Transpose { permutation } => from_indices(shape, |index| {
            let mut source = vec![0; index.len()];
            permutation.iter().zip(index).for_each(|(axis, index)| source[*axis] = *index);
            first.at(&source)
        }),
        Operation::Convert => Array::new(shape, first.values.clone()),
    }
}
