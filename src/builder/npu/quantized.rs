//! Writes a static graph as ONNX with quantized inputs, outputs, weights and activations: each operator between
//! `DequantizeLinear` and `QuantizeLinear` nodes ("QDQ"), from which QNN makes integer operators.
//!
//! A tensor's codes have its name; `NAME/real` is what they were quantized from. Each use has a `DequantizeLinear` of its
//! own, as execution providers match an operator together with the nodes around it. A conversion is nothing but the two.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use super::graph::{Operation, StaticGraph, TensorId, Weight, covering};
use super::operators::{Writer, sizes};
use super::weights::{Codes, Stored};
use crate::builder::graph::{Attribute, DataFile, ONNX, float_bytes};
use crate::model::{IntegerType, Quantization, TensorQuantization};
use crate::onnx_file::DataType;

/// Writes `folder/name` over weights in `data`, with tensors quantized as `codes` says for each.
pub fn write(
    graph: &StaticGraph,
    codes: &[TensorQuantization],
    weights: &Stored<Codes>,
    data: DataFile,
    folder: &Path,
    name: &str,
) -> io::Result<DataFile> {
    let writer = Writer::new(name, data);
    let mut quantizer = Quantizer { graph, codes, weights, writer, parameters: HashSet::new(), uses: 0 };
    for id in &graph.inputs {
        let tensor = graph.tensor(*id);
        quantizer.writer.graph.input(&tensor.name, data_type(tensor.integer), &sizes(&tensor.shape));
    }
    for id in &graph.outputs {
        let tensor = graph.tensor(*id);
        quantizer.writer.graph.output(&tensor.name, data_type(tensor.integer), &sizes(&tensor.shape));
    }
    for node in &graph.nodes {
        let mut inputs: Vec<String> = node.inputs.iter().map(|id| quantizer.dequantize(*id)).collect();
        inputs.extend(node.operation.weight().map(|weight| quantizer.weight(weight)));
        let output = &graph.tensor(node.output).name;
        if let Operation::Scale { factor } = node.operation {
            inputs.push(quantizer.factor(&format!("{output}/factor"), factor));
        }
        match (&node.operation, inputs.as_slice()) {
            (Operation::Convert, [input]) => quantizer.quantize(input, node.output),
            _ => {
                let real = format!("{output}/real");
                let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
                quantizer.writer.operator(graph, node, &inputs, &real);
                quantizer.quantize(&real, node.output);
            }
        }
    }
    quantizer.writer.finish(folder, name)
}

/// How the graph's inputs and outputs are quantized, as the bundle says it.
pub fn description(graph: &StaticGraph, codes: &[TensorQuantization]) -> Option<Quantization> {
    let of = |id: TensorId| codes.get(id.0).copied();
    // Layers with a window have some of their own, which lie between the same bounds.
    let input = |name: &str| graph.inputs.iter().find(|id| graph.tensor(**id).name == name).and_then(|id| of(*id));
    let past = |end: &str| {
        let is_past = |name: &str| name.starts_with("past_key_values.") && name.ends_with(end);
        let past = graph.inputs.iter().filter(|id| is_past(&graph.tensor(**id).name));
        past.map(|id| of(*id)).collect::<Option<Vec<_>>>()
    };
    Some(Quantization {
        hidden_states: input("hidden_states")?,
        output_hidden_states: of(*graph.outputs.first()?)?,
        cos: input("cos")?,
        sin: input("sin")?,
        mask: input("mask")?,
        keys: past(".key")?,
        values: past(".value")?,
    })
}

struct Quantizer<'g> {
    graph: &'g StaticGraph,
    codes: &'g [TensorQuantization],
    weights: &'g Stored<Codes>,
    writer: Writer,
    /// What scale and zero point are initializers for already.
    parameters: HashSet<String>,
    uses: usize,
}

impl Quantizer<'_> {
    /// The name of a tensor's values, made from its codes.
    fn dequantize(&mut self, id: TensorId) -> String {
        let codes = &self.graph.tensor(id).name;
        let [scale, zero_point] = self.tensor_parameters(id);
        let output = self.use_of(codes);
        self.writer.graph.node(ONNX, "DequantizeLinear", &[codes, &scale, &zero_point], &[&output], &[]);
        output
    }

    fn quantize(&mut self, real: &str, id: TensorId) {
        let codes = &self.graph.tensor(id).name;
        let [scale, zero_point] = self.tensor_parameters(id);
        self.writer.graph.node(ONNX, "QuantizeLinear", &[real, &scale, &zero_point], &[codes], &[]);
    }

    /// The name of a weight's values, made from its codes.
    fn weight(&mut self, weight: &Weight) -> String {
        let name = &weight.tensor;
        let output = self.use_of(name);
        let is_new = !self.parameters.contains(name);
        match self.weights.get(name) {
            Some(Codes::Matrix { codes, scales, zero_points }) => {
                let [scale, zero_point] = ["scale", "zero_point"].map(|part| format!("{name}/{part}"));
                if is_new {
                    self.parameters.insert(name.clone());
                    let columns = &weight.shape[1..];
                    self.writer.graph.external(name, DataType::Int8, &weight.shape, *codes);
                    self.writer.graph.external(&scale, DataType::Float, columns, *scales);
                    self.writer.graph.external(&zero_point, DataType::Int8, columns, *zero_points);
                }
                let attributes = [Attribute::Int("axis", 1)];
                self.writer.graph.node(ONNX, "DequantizeLinear", &[name, &scale, &zero_point], &[&output], &attributes);
            }
            Some(Codes::Vector { codes, quantization }) => {
                if is_new {
                    self.writer.graph.external(name, DataType::Uint16, &weight.shape, *codes);
                }
                let [scale, zero_point] = self.parameters(name, *quantization);
                self.writer.graph.node(ONNX, "DequantizeLinear", &[name, &scale, &zero_point], &[&output], &[]);
            }
            // `weights` has written every weight of the graph.
            None => {}
        }
        output
    }

    /// The name of a factor's value, above 0, made from the largest code.
    fn factor(&mut self, name: &str, factor: f32) -> String {
        let quantization = covering(IntegerType::U16, 0.0, factor);
        let code = quantization.quantize(factor) as u16;
        self.writer.graph.inside(name, DataType::Uint16, &[], code.to_le_bytes().to_vec());
        let [scale, zero_point] = self.parameters(name, quantization);
        let output = self.use_of(name);
        self.writer.graph.node(ONNX, "DequantizeLinear", &[name, &scale, &zero_point], &[&output], &[]);
        output
    }

    fn use_of(&mut self, name: &str) -> String {
        self.uses += 1;
        format!("{name}/use_{}", self.uses)
    }

    /// The names of scale and zero point; a tensor that keeps another's codes shares them.
    fn tensor_parameters(&mut self, id: TensorId) -> [String; 2] {
        let root = self.graph.codes_of(id);
        self.parameters(&self.graph.tensor(root).name, self.codes[root.0])
    }

    fn parameters(&mut self, name: &str, quantization: TensorQuantization) -> [String; 2] {
        let TensorQuantization { r#type, scale, zero_point } = quantization;
        let names = ["scale", "zero_point"].map(|part| format!("{name}/{part}"));
        if self.parameters.insert(name.to_owned()) {
            self.writer.graph.inside(&names[0], DataType::Float, &[], float_bytes(&[scale]));
            let bytes = match r#type {
                IntegerType::U8 => vec![zero_point as u8],
                IntegerType::U16 | IntegerType::I16 => (zero_point as u16).to_le_bytes().to_vec(),
            };
            self.writer.graph.inside(&names[1], data_type(r#type), &[], bytes);
        }
        names
    }
}

fn data_type(integer: IntegerType) -> DataType {
    match integer {
        IntegerType::U8 => DataType::Uint8,
        IntegerType::U16 => DataType::Uint16,
        IntegerType::I16 => DataType::Int16,
    }
}
