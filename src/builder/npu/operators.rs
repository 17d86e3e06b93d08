//! The nodes of a static graph as ONNX operators (opset 23), for the float graph and the quantized one alike.

use std::collections::HashSet;
use std::path::Path;

use super::graph::{Node, Operation, StaticGraph};
use crate::builder::graph::{Attribute, DataFile, GraphWriter, ONNX, Opset, Size};

/// Writes one static graph.
pub struct Writer {
    pub graph: GraphWriter,
    /// The lists of integers that are initializers already, by name.
    lists: HashSet<String>,
}

impl Writer {
    pub fn new(name: &str, data: DataFile) -> Self {
        Self { graph: GraphWriter::new(name, Opset::V23, data), lists: HashSet::new() }
    }

    pub fn finish(self, folder: &Path, name: &str) -> std::io::Result<DataFile> {
        self.graph.finish(folder, name)
    }

    /// Writes the node's operator. `inputs` are the names of its operands, a weight or a factor last.
    pub fn operator(&mut self, graph: &StaticGraph, node: &Node, inputs: &[&str], output: &str) {
        let shape = &graph.tensor(node.output).shape;
        let mut inputs: Vec<String> = inputs.iter().map(|name| (*name).to_owned()).collect();
        let permutation: Vec<i64>;
        let (operator, attributes) = match &node.operation {
            Operation::RmsNorm { epsilon, .. } => {
                ("RMSNormalization", vec![Attribute::Int("axis", -1), Attribute::Float("epsilon", *epsilon)])
            }
            Operation::Linear { .. } | Operation::MatMul => ("MatMul", vec![]),
            Operation::Bias { .. } | Operation::Add => ("Add", vec![]),
            Operation::Multiply => ("Mul", vec![]),
            Operation::Scale { .. } => ("Mul", vec![]),
            Operation::Tanh => ("Tanh", vec![]),
            Operation::GeluTanh => ("Gelu", vec![Attribute::String("approximate", "tanh")]),
            Operation::Sigmoid => ("Sigmoid", vec![]),
            Operation::Softmax => ("Softmax", vec![Attribute::Int("axis", -1)]),
            Operation::Slice { axis, start, end } => {
                inputs.extend([*start, *end, *axis].map(|value| self.list(&[value])));
                ("Slice", vec![])
            }
            Operation::Concat { axis } => ("Concat", vec![Attribute::Int("axis", *axis as i64)]),
            Operation::Gather { axis, indices } => {
                inputs.push(self.list(indices));
                ("Gather", vec![Attribute::Int("axis", *axis as i64)])
            }
            Operation::Reshape => {
                inputs.push(self.list(shape));
                ("Reshape", vec![])
            }
            Operation::Transpose { permutation: axes } => {
                permutation = axes.iter().map(|axis| *axis as i64).collect();
                ("Transpose", vec![Attribute::Ints("perm", &permutation)])
            }
            Operation::Convert => ("Identity", vec![]),
        };
        let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
        self.graph.node(ONNX, operator, &inputs, &[output], &attributes);
    }

    /// The name of an initializer with these integers.
    fn list(&mut self, values: &[usize]) -> String {
        let texts: Vec<String> = values.iter().map(usize::to_string).collect();
        let name = format!("integers/{}", texts.join("_"));
        if self.lists.insert(name.clone()) {
            let values: Vec<i64> = values.iter().map(|value| *value as i64).collect();
            self.graph.integers(&name, &[values.len()], &values);
        }
        name
    }
}

/// A tensor's shape as graph inputs and outputs have it.
pub fn sizes(shape: &[usize]) -> Vec<Size> {
    shape.iter().map(|size| Size::Fixed(*size)).collect()
}
