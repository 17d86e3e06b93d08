//! Writes a static graph as ONNX in float32.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use super::graph::{Operation, StaticGraph};
use super::operators::{Writer, sizes};
use super::weights::{Floats, Stored};
use crate::builder::graph::{DataFile, float_bytes};
use crate::onnx_file::DataType;

/// Writes `folder/name` over weights in `data`. With `observed`, each of the graph's observed tensors is an output, after
/// the graph's own.
pub fn write(
    graph: &StaticGraph,
    weights: &Stored<Floats>,
    data: DataFile,
    folder: &Path,
    name: &str,
    observed: bool,
) -> io::Result<DataFile> {
    let mut writer = Writer::new(name, data);
    for id in &graph.inputs {
        let tensor = graph.tensor(*id);
        writer.graph.input(&tensor.name, DataType::Float, &sizes(&tensor.shape));
    }
    let mut outside: HashSet<&str> = graph.inputs.iter().map(|id| graph.tensor(*id).name.as_str()).collect();
    let outputs = graph.outputs.iter().map(|id| graph.tensor(*id));
    let seen = graph.observed().map(|(tensor, _)| tensor).filter(|_| observed);
    for tensor in outputs.chain(seen) {
        if outside.insert(&tensor.name) {
            writer.graph.output(&tensor.name, DataType::Float, &sizes(&tensor.shape));
        }
    }
    let mut written = HashSet::new();
    for node in &graph.nodes {
        let mut inputs: Vec<&str> = node.inputs.iter().map(|id| graph.tensor(*id).name.as_str()).collect();
        if let Some(weight) = node.operation.weight() {
            let region = weights.get(&weight.tensor);
            if let Some(region) = region.filter(|_| written.insert(&weight.tensor)) {
                writer.graph.external(&weight.tensor, DataType::Float, &weight.shape, *region);
            }
            inputs.push(&weight.tensor);
        }
        let factor;
        if let Operation::Scale { factor: value } = node.operation {
            factor = format!("{}/factor", graph.tensor(node.output).name);
            writer.graph.inside(&factor, DataType::Float, &[], float_bytes(&[value]));
            inputs.push(&factor);
        }
        writer.operator(graph, node, &inputs, &graph.tensor(node.output).name);
    }
    writer.finish(folder, name)
}
