//! The ONNX files that the stages write, read back: complete, in order, with the contract's inputs and outputs, and with
//! weights that say what the GGUF file says.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;

use pretty_assertions::assert_eq;
use prost::Message;

use super::super::weights::load;
use super::super::{NpuBuildOptions, NpuStage};
use super::pipeline::{Home, options};
use super::{Model, tiny_qwen2};
use crate::model::Precision;
use crate::onnx_file::{DataType, Dimension, GraphProto, ModelProto, TensorProto, ValueInfoProto};

/// A tiny model's float and quantized graphs in a working folder.
fn written() -> (Home, Vec<u8>) {
    let bytes = tiny_qwen2().bytes();
    let home = Home::new(&bytes);
    let stopped = NpuBuildOptions { stop_after: Some(NpuStage::Quantize), ..options(Precision::W8a16) };
    home.build(&stopped).unwrap();
    (home, bytes)
}

fn read(path: &Path) -> GraphProto {
    let model = ModelProto::decode(fs::read(path).unwrap().as_slice()).unwrap();
    let opset = model.opset_import.iter().find(|opset| opset.domain.as_deref() == Some("")).unwrap();
    // The embeddings' lookup needs less than the decoder.
    assert!(matches!((model.ir_version, opset.version), (Some(11), Some(23)) | (Some(10), Some(21))));
    model.graph.unwrap()
}

fn values(list: &[ValueInfoProto]) -> Vec<(String, i32, Vec<String>)> {
    let one = |value: &ValueInfoProto| {
        let tensor = value.r#type.clone().unwrap().tensor_type.unwrap();
        let dims = tensor.shape.unwrap().dim.into_iter().map(|dim| match dim.value.unwrap() {
            Dimension::Value(value) => value.to_string(),
            Dimension::Parameter(name) => name,
        });
        (value.name.clone().unwrap(), tensor.elem_type.unwrap(), dims.collect())
    };
    list.iter().map(one).collect()
}

fn bytes_of(tensor: &TensorProto, data: &[u8]) -> Vec<u8> {
    if let Some(bytes) = &tensor.raw_data {
        return bytes.to_vec();
    }
    let entry = |key: &str| {
        let found = tensor.external_data.iter().find(|entry| entry.key.as_deref() == Some(key)).unwrap();
        found.value.clone().unwrap()
    };
    let (offset, length): (usize, usize) = (entry("offset").parse().unwrap(), entry("length").parse().unwrap());
    data[offset..offset + length].to_vec()
}

const GRAPHS: [&str; 8] = [
    "float/prefill.onnx",
    "float/decode.onnx",
    "float/prefill_observed.onnx",
    "float/decode_observed.onnx",
    "quantized/prefill.onnx",
    "quantized/decode.onnx",
    "quantized_random/prefill.onnx",
    "quantized_random/decode.onnx",
];
const ENDS: [&str; 4] =
    ["float/embeddings.onnx", "float/lm_head.onnx", "quantized/embeddings.onnx", "quantized/lm_head.onnx"];

#[test]
fn graphs_are_complete_and_in_order() {
    let (home, _) = written();
    for name in GRAPHS.into_iter().chain(ENDS) {
        let graph = read(&home.at(".out.work").join(name));
        let mut known: HashSet<String> = HashSet::new();
        for tensor in &graph.initializer {
            assert!(known.insert(tensor.name.clone().unwrap()), "{name}: {:?} is there twice", tensor.name);
        }
        let mut unused = known.clone();
        known.extend(graph.input.iter().filter_map(|input| input.name.clone()));
        let mut node_names = HashSet::new();
        for node in &graph.node {
            assert!(node_names.insert(node.name.clone()), "{name}: {:?} is there twice", node.name);
            for input in &node.input {
                assert!(known.contains(input), "{name}: {:?} reads {input}, which nothing made", node.op_type);
                unused.remove(input);
            }
            for output in &node.output {
                assert!(known.insert(output.clone()), "{name}: {output} is made twice");
            }
        }
        assert!(unused.is_empty(), "{name}: {unused:?}");
        assert!(graph.output.iter().all(|output| known.contains(output.name.as_ref().unwrap())), "{name}");
    }
}

#[test]
fn inputs_and_outputs_are_the_contract_s() {
    let (home, _) = written();
    let shape = |sizes: &[usize]| sizes.iter().map(usize::to_string).collect::<Vec<_>>();
    for (folder, hidden, cache) in
        [("float", DataType::Float, DataType::Float), ("quantized", DataType::Uint16, DataType::Int16)]
    {
        for (file, tokens) in [("prefill.onnx", 8), ("decode.onnx", 1)] {
            let graph = read(&home.at(".out.work").join(folder).join(file));
            let value = |name: String, kind: DataType, sizes: &[usize]| (name, kind as i32, shape(sizes));
            let mut inputs = vec![
                value("hidden_states".into(), hidden, &[1, tokens, 64]),
                value("cos".into(), hidden, &[1, 1, tokens, 16]),
                value("sin".into(), hidden, &[1, 1, tokens, 16]),
                value("mask".into(), hidden, &[1, 1, tokens, 32 + tokens]),
            ];
            let mut outputs = vec![value("output_hidden_states".into(), hidden, &[1, tokens, 64])];
            for (layer, part) in [(0, "key"), (0, "value"), (1, "key"), (1, "value")] {
                inputs.push(value(format!("past_key_values.{layer}.{part}"), cache, &[1, 2, 32, 16]));
                outputs.push(value(format!("present.{layer}.{part}"), cache, &[1, 2, tokens, 16]));
            }
            assert_eq!(values(&graph.input), inputs, "{folder}/{file}");
            assert_eq!(values(&graph.output), outputs, "{folder}/{file}");
        }
        let ends = |file: &str| {
            let graph = read(&home.at(".out.work").join(folder).join(file));
            (values(&graph.input), values(&graph.output))
        };
        let value = |name: &str, kind: DataType, sizes: &[&str]| {
            vec![(name.to_owned(), kind as i32, sizes.iter().map(|size| (*size).to_owned()).collect::<Vec<_>>())]
        };
        let states = |name| value(name, DataType::Float, &["1", "tokens", "64"]);
        let ids = value("input_ids", DataType::Int64, &["1", "tokens"]);
        assert_eq!(ends("embeddings.onnx"), (ids, states("hidden_states")));
        let logits = value("logits", DataType::Float, &["1", "tokens", "262"]);
        assert_eq!(ends("lm_head.onnx"), (states("output_hidden_states"), logits));
    }
}

#[test]
fn observed_graphs_give_what_calibration_asks_for() {
    let (home, bytes) = written();
    let model = Model::read(&bytes);
    for (file, tokens) in [("prefill_observed.onnx", 8), ("decode_observed.onnx", 1)] {
        let graph = read(&home.at(".out.work/float").join(file));
        let given: HashSet<String> =
            graph.input.iter().chain(&graph.output).filter_map(|value| value.name.clone()).collect();
        for (tensor, _) in model.graph(tokens).observed() {
            assert!(given.contains(&tensor.name), "{file}: {}", tensor.name);
        }
    }
}

/// Every operator works on values that come from codes and go into codes.
#[test]
fn every_operator_is_quantized() {
    let (home, _) = written();
    for file in ["quantized/prefill.onnx", "quantized/decode.onnx"] {
        let graph = read(&home.at(".out.work").join(file));
        let made_by: HashMap<&str, &str> = (graph.node.iter())
            .flat_map(|node| node.output.iter().map(|output| (output.as_str(), node.op_type.as_deref().unwrap())))
            .collect();
        let used_by = |name: &str| -> Vec<&str> {
            let users = graph.node.iter().filter(|node| node.input.iter().any(|input| input == name));
            users.map(|node| node.op_type.as_deref().unwrap()).collect()
        };
        let integers: HashSet<&str> = (graph.initializer.iter())
            .filter(|tensor| tensor.data_type == Some(DataType::Int64.into()))
            .filter_map(|tensor| tensor.name.as_deref())
            .collect();
        let is_edge = |operator: &str| ["QuantizeLinear", "DequantizeLinear"].contains(&operator);
        let mut operators = 0;
        for node in graph.node.iter().filter(|node| !is_edge(node.op_type.as_deref().unwrap())) {
            for input in node.input.iter().filter(|input| !integers.contains(input.as_str())) {
                assert_eq!(made_by[input.as_str()], "DequantizeLinear", "{file}: {:?}", node.name);
                assert_eq!(used_by(input).len(), 1, "{file}: a use of {input} for each node");
            }
            assert_eq!(used_by(&node.output[0]), ["QuantizeLinear"], "{file}: {:?}", node.name);
            operators += 1;
        }
        assert!(operators > 60, "{operators}");
    }
}

#[test]
fn stored_weights_say_what_the_file_says() {
    let (home, bytes) = written();
    let model = Model::read(&bytes);
    for (folder, exact) in [("float", true), ("quantized", false)] {
        let data = fs::read(home.at(".out.work").join(folder).join("decoder.onnx.data")).unwrap();
        let [prefill, decode] =
            ["prefill.onnx", "decode.onnx"].map(|file| read(&home.at(".out.work").join(folder).join(file)));
        let initializers = |graph: &GraphProto| -> HashMap<String, TensorProto> {
            graph.initializer.iter().map(|tensor| (tensor.name.clone().unwrap(), tensor.clone())).collect()
        };
        let (prefill, decode) = (initializers(&prefill), initializers(&decode));
        let floats = |tensor: &TensorProto| -> Vec<f32> {
            bytes_of(tensor, &data).as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
        };
        let mut biases = 0;
        for node in &model.graph(8).nodes {
            let Some(weight) = node.operation.weight() else { continue };
            biases += usize::from(weight.tensor.ends_with(".bias"));
            let expected = load(&model.gguf, weight).unwrap();
            let stored = &prefill[&weight.tensor];
            assert_eq!(stored, &decode[&weight.tensor], "one for both graphs");
            let dims: Vec<usize> = stored.dims.iter().map(|size| *size as usize).collect();
            assert_eq!(dims, weight.shape, "as ggml counts");
            let columns = *dims.last().unwrap();
            // Of the value in row k and column n; vectors have one row.
            let rows = if dims.len() == 2 { dims[0] } else { 1 };
            let meant = |k: usize, n: usize| if rows == 1 { expected[n] } else { expected[n * rows + k] };
            let places = (0..rows).flat_map(|k| (0..columns).map(move |n| (k, n)));
            if exact {
                let found = floats(stored);
                assert!(places.into_iter().all(|(k, n)| found[k * columns + n] == meant(k, n)), "{}", weight.tensor);
                continue;
            }
            let part = |part: &str| &prefill[&format!("{}/{part}", weight.tensor)];
            let scales = floats(part("scale"));
            let codes = bytes_of(stored, &data);
            let zero_point = bytes_of(part("zero_point"), &data);
            for (k, n) in places {
                let (code, zero, scale) = if rows > 1 {
                    (i32::from(codes[k * columns + n] as i8), i32::from(zero_point[n] as i8), scales[n])
                } else {
                    let code =
                        |bytes: &[u8], at: usize| i32::from(u16::from_le_bytes([bytes[2 * at], bytes[2 * at + 1]]));
                    (code(&codes, n), code(&zero_point, 0), scales[0])
                };
                let found = (code - zero) as f32 * scale;
                assert!((found - meant(k, n)).abs() <= scale * 0.5001, "{} at {k}, {n}", weight.tensor);
            }
        }
        assert_eq!(biases, 6);
    }
}
