//! The static graph computes what the model is defined as, for prefill in chunks and single tokens; and its facts about
//! tensors are right. What ONNX Runtime and QNN make of the files is tested on real sessions, in `tests/npu`.

mod evaluate;
mod files;
mod pipeline;
mod reference;

use std::collections::{BTreeMap, HashMap, HashSet};

use pretty_assertions::assert_eq;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::graph::{Operation, RangeError, RangeSource, Ranges, StaticGraph, covering};
use super::layers::{MASKED, decoder};
use crate::builder::architecture::{self, Dimensions};
use crate::builder::blocks::TensorType;
use crate::builder::gguf::Gguf;
use crate::builder::testing::{GgufWriter, Tiny, renamed, tiny_llama, tiny_qwen3};
use crate::model::IntegerType;
use evaluate::{Array, evaluate};
use reference::Reference;

const CONTEXT: usize = 16;
const CHUNK: usize = 4;
const TOKENS: [usize; 11] = [1, 70, 71, 5, 200, 33, 33, 90, 14, 2, 150];

/// The tiny llama under another name, with the biases that such models have.
fn tiny_qwen2() -> GgufWriter {
    let mut file = renamed(tiny_llama(TensorType::Q8_0), "qwen2");
    let Tiny { layers, hidden, heads, kv_heads, .. } = Tiny::of(TensorType::Q8_0);
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    for layer in 0..layers {
        for (part, heads_) in [("q", heads), ("k", kv_heads), ("v", kv_heads)] {
            let bias: Vec<f32> = (0..hidden / heads * heads_).map(|_| rng.random_range(-1.0..1.0)).collect();
            file.floats(&format!("blk.{layer}.attn_{part}.bias"), &bias);
        }
    }
    file
}

struct Model<'a> {
    gguf: Gguf<'a>,
    dimensions: Dimensions,
}

impl<'a> Model<'a> {
    fn read(bytes: &'a [u8]) -> Self {
        let gguf = Gguf::parse(bytes).unwrap();
        let dimensions = Dimensions::read(&gguf, architecture::of(&gguf).unwrap()).unwrap();
        Self { gguf, dimensions }
    }

    fn graph(&self, tokens: usize) -> StaticGraph {
        decoder(&self.gguf, architecture::of(&self.gguf).unwrap(), &self.dimensions, tokens, CONTEXT)
    }
}

/// Runs the graphs as the contract says, and returns the hidden states after each token.
fn run(model: &Model<'_>, tokens: &[usize]) -> Vec<Vec<f64>> {
    let Dimensions { layers, hidden, kv_heads, head_size, .. } = model.dimensions;
    let graphs = [model.graph(1), model.graph(CHUNK)];
    let embedding = reference::tensor(&model.gguf, architecture::EMBEDDING);
    let mut past: Vec<Array> = vec![Array::zeros(&[1, kv_heads, CONTEXT, head_size]); 2 * layers];
    let mut states = Vec::new();
    // Two whole chunks but for one token, then one token after the other.
    let passes = [&tokens[..CHUNK], &tokens[CHUNK..2 * CHUNK - 1]].into_iter().chain(tokens[2 * CHUNK - 1..].chunks(1));
    let mut position = 0;
    for pass in passes {
        let graph = &graphs[usize::from(pass.len() > 1)];
        let size = graph.tokens;
        let mut inputs: HashMap<String, Array> = HashMap::new();
        let mut rows = vec![0.5; size * hidden];
        for (row, token) in rows.chunks_mut(hidden).zip(pass) {
            row.copy_from_slice(&embedding[token * hidden..][..hidden]);
        }
        inputs.insert("hidden_states".into(), Array::new(&[1, size, hidden], rows));
        let angle = |token: usize, index: usize| {
            (position + token) as f64 * model.dimensions.rotary(false).frequencies[index % (head_size / 2)]
        };
        let table = |value: &dyn Fn(usize, usize) -> f64| {
            let values = (0..size).flat_map(|token| (0..head_size).map(move |index| (token, index)));
            Array::new(&[1, 1, size, head_size], values.map(|(token, index)| value(token, index)).collect())
        };
        inputs.insert("cos".into(), table(&|token, index| angle(token, index).cos()));
        let sign = |index: usize| if index < head_size / 2 { -1.0 } else { 1.0 };
        inputs.insert("sin".into(), table(&|token, index| sign(index) * angle(token, index).sin()));
        let columns = CONTEXT + size;
        let seen = |token: usize, column: usize| column < position || (CONTEXT..=CONTEXT + token).contains(&column);
        let mask = (0..size).flat_map(|token| (0..columns).map(move |column| (token, column)));
        let mask = mask.map(|(token, column)| if seen(token, column) { 0.0 } else { f64::from(MASKED) }).collect();
        inputs.insert("mask".into(), Array::new(&[1, 1, size, columns], mask));
        for (index, past) in past.iter().enumerate() {
            let part = ["key", "value"][index % 2];
            inputs.insert(format!("past_key_values.{}.{part}", index / 2), past.clone());
        }
        let values = evaluate(graph, &model.gguf, inputs);
        let outputs: Vec<&Array> = graph.outputs.iter().map(|id| &values[&graph.tensor(*id).name]).collect();
        for (past, new) in past.iter_mut().zip(&outputs[1..]) {
            for (head, token) in (0..kv_heads).flat_map(|head| (0..pass.len()).map(move |token| (head, token))) {
                let (from, to) = ((head * size + token) * head_size, (head * CONTEXT + position + token) * head_size);
                past.values[to..to + head_size].copy_from_slice(&new.values[from..from + head_size]);
            }
        }
        states.extend(outputs[0].values.chunks(hidden).take(pass.len()).map(<[f64]>::to_vec));
        position += pass.len();
    }
    states
}

#[test]
fn the_graphs_compute_the_model() {
    for file in [tiny_llama(TensorType::Q8_0), tiny_llama(TensorType::Q4_1), tiny_qwen2(), tiny_qwen3(TensorType::Q8_0)]
    {
        let bytes = file.bytes();
        let model = Model::read(&bytes);
        let found = run(&model, &TOKENS);
        let mut reference = Reference::new(&model.gguf, &model.dimensions);
        for (position, (token, found)) in TOKENS.iter().zip(&found).enumerate() {
            let expected = reference.forward(*token);
            let largest = expected.iter().fold(0.0, |largest: f64, value| largest.max(value.abs()));
            assert!(largest > 1.0, "{largest}");
            for (found, expected) in found.iter().zip(&expected) {
                // The query's weights are scaled in float32.
                assert!((found - expected).abs() < 1e-5 * largest, "position {position}: {found} {expected}");
            }
        }
    }
}

#[test]
fn prefill_and_decode_share_names_ranges_and_weights() {
    for file in [tiny_qwen2(), tiny_qwen3(TensorType::Q8_0)] {
        share_names_ranges_and_weights(&file.bytes());
    }
}

fn share_names_ranges_and_weights(bytes: &[u8]) {
    let model = Model::read(bytes);
    let [prefill, decode] = [model.graph(CHUNK), model.graph(1)];
    let observed =
        |graph: &StaticGraph| -> Vec<String> { graph.observed().map(|(tensor, _)| tensor.name.clone()).collect() };
    assert_eq!(observed(&prefill), observed(&decode));
    let weights = |graph: &StaticGraph| -> Vec<_> {
        graph.nodes.iter().filter_map(|node| node.operation.weight().cloned()).collect()
    };
    assert_eq!(weights(&prefill), weights(&decode));
    let names: HashSet<&str> = prefill.tensors().map(|(_, tensor)| tensor.name.as_str()).collect();
    assert_eq!(names.len(), prefill.tensors().count());
    // In order: nothing is used before it is made.
    for graph in [&prefill, &decode] {
        let mut made: HashSet<_> = graph.inputs.iter().copied().collect();
        for node in &graph.nodes {
            assert!(node.inputs.iter().all(|input| made.contains(input)), "{:?}", node.operation);
            assert!(made.insert(node.output));
        }
        assert!(graph.outputs.iter().all(|output| made.contains(output)));
    }
}

/// What calibration sees lies as the graph says: whole tokens on that axis, whole rows of columns after it.
#[test]
fn observed_tensors_lie_as_it_is_said() {
    for file in [tiny_qwen2(), tiny_qwen3(TensorType::Q8_0)] {
        lie_as_it_is_said(&file.bytes());
    }
}

fn lie_as_it_is_said(bytes: &[u8]) {
    let model = Model::read(bytes);
    for tokens in [CHUNK, 1] {
        let graph = model.graph(tokens);
        let (mut scores, mut masked) = (0, 0);
        for (tensor, observed) in graph.observed() {
            assert_eq!(tensor.shape[observed.token_axis] % tokens, 0, "{}", tensor.name);
            if observed.scores {
                assert_eq!(*tensor.shape.last().unwrap(), CONTEXT + tokens, "{}", tensor.name);
            }
            scores += usize::from(observed.scores);
            masked += usize::from(observed.masked);
        }
        assert_eq!((scores, masked), (4, 2), "two tensors with scores in each layer, one of them masked");
    }
}

/// HTP accepts these types and no others (see `layers`).
#[test]
fn codes_are_of_the_types_that_the_products_want() {
    let bytes = tiny_llama(TensorType::Q8_0).bytes();
    let model = Model::read(&bytes);
    let graph = model.graph(CHUNK);
    let mut ranges = Ranges(graph.observed().map(|(tensor, _)| (tensor.name.clone(), (-2.0, 6.0))).collect());
    let codes = graph.quantize(&ranges).unwrap();
    let of = |name: &str| {
        let (id, _) = graph.tensors().find(|(_, tensor)| tensor.name == name).unwrap();
        codes[id.0]
    };
    for node in graph.nodes.iter().filter(|node| node.operation == Operation::MatMul) {
        let types = [node.inputs[0], node.inputs[1], node.output].map(|id| codes[id.0].r#type);
        assert_eq!(types, [IntegerType::U16, IntegerType::I16, IntegerType::I16]);
    }
    // Past and new rows, and what only moves them, have the same codes.
    let keys = of("present.1.key");
    for name in ["past_key_values.1.key", "layers.1.key/all", "layers.1.key/transposed"] {
        assert_eq!(of(name), keys);
    }
    assert_eq!((keys.r#type, keys.zero_point), (IntegerType::I16, 0));
    assert_eq!(of("layers.0.query/swapped"), of("layers.0.query"));
    assert_eq!(of("layers.0.scores"), covering(IntegerType::U16, -2.0, 6.0));
    assert_eq!(of("layers.0.probabilities/grouped"), covering(IntegerType::U16, 0.0, 1.0));
    assert_eq!(of("mask"), covering(IntegerType::U16, MASKED, 0.0));

    ranges.0.insert("layers.1.gated".into(), (f32::NEG_INFINITY, 1.0));
    assert!(matches!(graph.quantize(&ranges), Err(RangeError::NotFinite { .. })));
    ranges.0.remove("layers.1.gated");
    let error = graph.quantize(&ranges).unwrap_err().to_string();
    assert_eq!(error, "calibration saw no value of \"layers.1.gated\"");
}

#[test]
fn moved_values_keep_their_codes_and_others_have_their_own() {
    let bytes = tiny_llama(TensorType::Q8_0).bytes();
    let model = Model::read(&bytes);
    let graph = model.graph(CHUNK);
    for node in &graph.nodes {
        let moves = matches!(
            node.operation,
            Operation::Slice { .. }
                | Operation::Concat { .. }
                | Operation::Gather { .. }
                | Operation::Reshape
                | Operation::Transpose { .. }
        );
        let output = graph.tensor(node.output);
        assert_eq!(moves, matches!(output.range, RangeSource::CodesOf(_)), "{}", output.name);
        if moves {
            for input in &node.inputs {
                assert_eq!(graph.codes_of(*input), graph.codes_of(node.output), "{}", output.name);
            }
        }
    }
}

/// Worked out by hand: 65535 steps, or 32767 to each side of zero.
#[test]
fn codes_cover_their_range() {
    for (r#type, low, high, scale, zero_point) in [
        (IntegerType::U8, 0.0, 255.0, 1.0, 0),
        (IntegerType::U8, -255.0, 0.0, 1.0, 255),
        (IntegerType::U16, -1.0, 3.0, 4.0 / 65_535.0, 16_384),
        // A range without zero is widened to it.
        (IntegerType::U16, 2.0, 4.0, 4.0 / 65_535.0, 0),
        (IntegerType::I16, -1.0, 3.0, 3.0 / 32_767.0, 0),
        (IntegerType::I16, -5.0, 3.0, 5.0 / 32_767.0, 0),
        (IntegerType::U16, 0.0, 0.0, 1e-4 / 65_535.0, 0),
    ] {
        let found = covering(r#type, low, high);
        assert_eq!((found.r#type, found.scale, found.zero_point), (r#type, scale, zero_point), "{low} to {high}");
    }
}

#[test]
fn ranges_are_read_as_written() {
    let ranges = Ranges(BTreeMap::from([("layers.0.up".to_owned(), (-1.5, 2.25))]));
    let text = serde_json::to_string(&ranges).unwrap();
    assert_eq!(text, r#"{"layers.0.up":[-1.5,2.25]}"#);
    assert_eq!(serde_json::from_str::<Ranges>(&text).unwrap(), ranges);
}
