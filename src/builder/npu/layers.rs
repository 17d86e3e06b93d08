//! What a decoder computes between the embedding and the output projection, as a static graph that an NPU takes as a whole.
//!
//! Inputs and outputs are the contract's (`model::npu_bundle`). How each part is put was found by trying what QNN's HTP
//! backend accepts and computes with 16-bit precision:
//!
//! - The cache and both products with it have signed 16-bit codes: HTP multiplies unsigned 16-bit activations by signed ones
//!   (it would silently take 8 bits of unsigned ones), and only into signed ones, which are converted for what follows.
//! - Grouped-query attention without repeated keys and values: the queries of a group are rows of one matrix.
//! - Norms over three dimensions: of four HTP computes something else, without a word.
//! - Rotation by slices, with the halves swapped and the sign in `sin`.
//! - Rotation in part by gathering, as slices of 8 values of an odd number of heads come out wrong; what stays has the cosine
//!   1 and the sine 0.
//! - The scores' factor is folded into the query's weights, or into those of the norm behind them.
//! - GELU as the one operator that is there for it: its approximation by tanh, taken apart, has a cube in it, which 16 bits
//!   do not hold.

use super::graph::{Node, Observed, Operation, RangeSource, StaticGraph, Tensor, TensorId, Weight};
use crate::builder::architecture::{Activation, Architecture, Dimensions, Heads, OUTPUT_NORM, Projection};
use crate::builder::gguf::Gguf;
use crate::model::IntegerType;

/// What is added to the score of a column that is not seen: far below every score, and not so far that scores lose
/// precision in 16 bits.
pub const MASKED: f32 = -1000.0;

/// The graph for `tokens` tokens over a past of `context` slots.
pub fn decoder(
    gguf: &Gguf<'_>,
    architecture: &Architecture,
    dimensions: &Dimensions,
    tokens: usize,
    context: usize,
) -> StaticGraph {
    let Dimensions { hidden, kv_heads, head_size, .. } = *dimensions;
    let mut graph = StaticGraph::new(tokens, context);
    let mut input = |name: String, shape: &[usize], integer, range| {
        let id = graph.add(Tensor { name, shape: shape.to_vec(), integer, range });
        graph.inputs.push(id);
        id
    };
    let hidden_states = input("hidden_states".into(), &[1, tokens, hidden], IntegerType::U16, observed(1));
    let largest = dimensions.rotary(false).magnitude.max(1.0) as f32;
    let turn = RangeSource::Fixed { low: -largest, high: largest };
    let masked = RangeSource::Fixed { low: MASKED, high: 0.0 };
    let mut rotation =
        |names: [&str; 2]| names.map(|name| input(name.into(), &[1, 1, tokens, head_size], IntegerType::U16, turn));
    let layers = || 0..dimensions.layers;
    let plain = rotation(["cos", "sin"]);
    let own = layers().any(|layer| dimensions.has_own_rotary(layer)).then(|| rotation(["cos_window", "sin_window"]));
    let mut mask = |name: &str| input(name.into(), &[1, 1, tokens, context + tokens], IntegerType::U16, masked);
    let all = mask("mask");
    let last = dimensions.own_window().map(|_| mask("mask_window"));
    let positions = layers().map(|layer| {
        let window = dimensions.window(layer);
        let [cos, sin] = own.filter(|_| dimensions.has_own_rotary(layer)).unwrap_or(plain);
        Positions { cos, sin, mask: last.filter(|_| window.is_some()).unwrap_or(all), window }
    });
    let positions = positions.collect();
    let mut past = |layer, part| {
        let name = format!("past_key_values.{layer}.{part}");
        // Replaced by the new rows' range as soon as they are there.
        input(name, &[1, kv_heads, context, head_size], IntegerType::I16, observed(2))
    };
    let pasts = (0..dimensions.layers).map(|layer| ["key", "value"].map(|part| past(layer, part))).collect();
    Decoder { gguf, architecture, dimensions, graph, positions, pasts }.write(hidden_states)
}

/// Values with the tokens along this axis.
fn observed(token_axis: usize) -> RangeSource {
    RangeSource::Observed(Observed { token_axis, scores: false, window: None, masked: false })
}

fn scores(window: Option<usize>, masked: bool) -> RangeSource {
    RangeSource::Observed(Observed { token_axis: 2, scores: true, window, masked })
}

const PROBABILITY: RangeSource = RangeSource::Fixed { low: 0.0, high: 1.0 };

struct Decoder<'g, 'a> {
    gguf: &'g Gguf<'a>,
    architecture: &'g Architecture,
    dimensions: &'g Dimensions,
    graph: StaticGraph,
    /// Of each layer.
    positions: Vec<Positions>,
    /// Of each layer the past keys and values.
    pasts: Vec<[TensorId; 2]>,
}

/// The inputs from which a layer knows where its tokens are.
#[derive(Clone, Copy)]
struct Positions {
    cos: TensorId,
    sin: TensorId,
    mask: TensorId,
    window: Option<usize>,
}

impl Decoder<'_, '_> {
    fn write(mut self, hidden_states: TensorId) -> StaticGraph {
        let mut residual = hidden_states;
        let mut presents = Vec::new();
        for (layer, past) in self.pasts.clone().into_iter().enumerate() {
            let (attended, present) = self.attention(layer, residual, past);
            let attended = self.branch_norm(layer, 0, attended);
            residual = self.add_residual(&format!("layers.{layer}.attention_residual"), residual, attended);
            presents.extend(present);
            let fed = self.feed_forward(layer, residual);
            let fed = self.branch_norm(layer, 1, fed);
            residual = self.add_residual(&format!("layers.{layer}.mlp_residual"), residual, fed);
        }
        let output = self.norm("output_hidden_states", OUTPUT_NORM, residual);
        self.graph.outputs = [vec![output], presents].concat();
        self.graph
    }

    /// Returns what attention adds to the residual stream, and the new keys and values.
    fn attention(&mut self, layer: usize, residual: TensorId, past: [TensorId; 2]) -> (TensorId, [TensorId; 2]) {
        let Dimensions { hidden, heads, kv_heads, head_size, .. } = *self.dimensions;
        let (tokens, total) = (self.graph.tokens, self.graph.context + self.graph.tokens);
        let name = |part: &str| format!("layers.{layer}.{part}");
        let normed = self.norm(&name("attention_norm"), &format!("blk.{layer}.attn_norm.weight"), residual);
        let [query, key, value] = &self.architecture.query_key_value;
        let query = self.projection(&name("query"), layer, query, normed);
        let key = self.projection(&name("key"), layer, key, normed);
        let value = self.projection(&name("value"), layer, value, normed);
        let positions = self.positions[layer];
        let query = self.rotate(&name("query"), query, positions);
        let key = self.rotate(&name("key"), key, positions);

        let rows = [1, kv_heads, tokens, head_size];
        let [mut keys, mut values] = past;
        let mut cached = |part: &str, new: TensorId, past: &mut TensorId| {
            let present = self.node(format!("present.{layer}.{part}"), Operation::Convert, &[new], &rows, observed(2));
            self.graph.set_integer(present, IntegerType::I16);
            self.graph.set_range(*past, RangeSource::CodesOf(present));
            let shape = [1, kv_heads, total, head_size];
            *past = self.moved(name(&format!("{part}/all")), Operation::Concat { axis: 2 }, &[*past, present], &shape);
            present
        };
        let present = [cached("key", key, &mut keys), cached("value", value, &mut values)];

        let permutation = vec![0, 1, 3, 2];
        let shape = [1, kv_heads, head_size, total];
        let keys = self.moved(name("key/transposed"), Operation::Transpose { permutation }, &[keys], &shape);
        let group = heads / kv_heads * tokens;
        let query = self.reshape(name("query/grouped"), query, &[1, kv_heads, group, head_size]);
        let Positions { mask, window, .. } = positions;
        let by_group = [1, kv_heads, group, total];
        let mut product = self.product(name("scores"), query, keys, &by_group, scores(window, false));
        if let Some(cap) = self.dimensions.score_softcap {
            let bound = |bound: f32| RangeSource::Fixed { low: -bound, high: bound };
            product = self.node(name("scores/tanh"), Operation::Tanh, &[product], &by_group, bound(1.0));
            let scale = Operation::Scale { factor: cap };
            product = self.node(name("scores/capped"), scale, &[product], &by_group, bound(cap));
        }
        let by_head = [1, heads, tokens, total];
        let product = self.reshape(name("scores/heads"), product, &by_head);
        let seen = self.node(name("scores/masked"), Operation::Add, &[product, mask], &by_head, scores(window, true));
        let weights = self.node(name("probabilities"), Operation::Softmax, &[seen], &by_head, PROBABILITY);
        let weights = self.reshape(name("probabilities/grouped"), weights, &by_group);
        let mut mixed = self.product(name("attention"), weights, values, &[1, kv_heads, group, head_size], observed(2));
        if tokens > 1 {
            mixed = self.reshape(name("attention/heads"), mixed, &[1, heads, tokens, head_size]);
            let permutation = vec![0, 2, 1, 3];
            let shape = [1, tokens, heads, head_size];
            mixed = self.moved(name("attention/tokens"), Operation::Transpose { permutation }, &[mixed], &shape);
        }
        let mixed = self.reshape(name("attention/joined"), mixed, &[1, tokens, heads * head_size]);
        let weight = Weight::matrix(format!("blk.{layer}.attn_output"), heads * head_size, hidden);
        (self.linear(&name("output"), weight, mixed), present)
    }

    fn feed_forward(&mut self, layer: usize, residual: TensorId) -> TensorId {
        let Dimensions { hidden, feed_forward, .. } = *self.dimensions;
        let name = |part: &str| format!("layers.{layer}.{part}");
        let normed = self.norm(&name("mlp_norm"), &format!("blk.{layer}.ffn_norm.weight"), residual);
        let tensors = self.architecture.gate_up;
        let [gate, up] = [("gate", tensors[0]), ("up", tensors[1])].map(|(part, tensor)| {
            let weight = Weight::matrix(format!("blk.{layer}.{tensor}"), hidden, feed_forward);
            self.linear(&name(part), weight, normed)
        });
        let shape = [1, self.graph.tokens, feed_forward];
        let activated = match self.architecture.activation {
            Activation::Silu => {
                let sigmoid = self.node(name("gate/sigmoid"), Operation::Sigmoid, &[gate], &shape, PROBABILITY);
                self.node(name("gate/silu"), Operation::Multiply, &[gate, sigmoid], &shape, observed(1))
            }
            Activation::GeluTanh => self.node(name("gate/gelu"), Operation::GeluTanh, &[gate], &shape, observed(1)),
        };
        let gated = self.node(name("gated"), Operation::Multiply, &[activated, up], &shape, observed(1));
        let weight = Weight::matrix(format!("blk.{layer}.ffn_down"), feed_forward, hidden);
        self.linear(&name("down"), weight, gated)
    }

    /// A projection into attention, `[1, heads, tokens, head_size]`.
    fn projection(&mut self, name: &str, layer: usize, projection: &Projection, input: TensorId) -> TensorId {
        let Dimensions { hidden, head_size, .. } = *self.dimensions;
        let (tokens, heads) = (self.graph.tokens, self.dimensions.head_count(projection.heads));
        let mut weight = Weight::matrix(format!("blk.{layer}.{}", projection.tensor), hidden, heads * head_size);
        weight.interleaved_head = projection.interleaved_head(self.gguf, head_size);
        let factor = match projection.heads {
            // tanh wants them divided by the cap, too.
            Heads::Query => (self.dimensions.score_scale / self.dimensions.score_softcap.map_or(1.0, f64::from)) as f32,
            Heads::KeyValue => 1.0,
        };
        // A norm would undo it.
        if projection.norm.is_none() {
            weight.factor = factor;
        }
        let projected = self.linear(name, weight, input);
        let shape = [1, heads, tokens, head_size];
        let split = if tokens == 1 {
            self.reshape(format!("{name}/heads"), projected, &shape)
        } else {
            let split = self.reshape(format!("{name}/split"), projected, &[1, tokens, heads, head_size]);
            let permutation = vec![0, 2, 1, 3];
            self.moved(format!("{name}/heads"), Operation::Transpose { permutation }, &[split], &shape)
        };
        let Some(norm) = projection.norm else { return split };
        let weight = Weight { factor, ..Weight::vector(format!("blk.{layer}.{norm}.weight"), head_size) };
        let norm = Operation::RmsNorm { weight, epsilon: self.dimensions.norm_epsilon };
        let rows = [1, heads * tokens, head_size];
        let split = self.reshape(format!("{name}/rows"), split, &rows);
        let normed = self.node(format!("{name}/normed"), norm, &[split], &rows, observed(1));
        self.reshape(format!("{name}/normed_heads"), normed, &shape)
    }

    /// Rotary position embedding (Su et al., 2021): x * cos + swap_halves(x) * sin.
    fn rotate(&mut self, name: &str, input: TensorId, positions: Positions) -> TensorId {
        let shape = self.graph.tensor(input).shape.clone();
        // As many in each layer.
        let (half, size) = (self.dimensions.rotary(false).frequencies.len(), self.dimensions.head_size);
        let swapped = format!("{name}/swapped");
        let swapped = if 2 * half < size {
            let indices = (half..2 * half).chain(0..half).chain(2 * half..size).collect();
            self.moved(swapped, Operation::Gather { axis: 3, indices }, &[input], &shape)
        } else {
            let half_shape = [&shape[..3], &[half]].concat();
            let [low, high] = [("low", 0), ("high", half)].map(|(part, start)| {
                let slice = Operation::Slice { axis: 3, start, end: start + half };
                self.moved(format!("{name}/{part}"), slice, &[input], &half_shape)
            });
            self.moved(swapped, Operation::Concat { axis: 3 }, &[high, low], &shape)
        };
        let [by_cos, by_sin] =
            [("cos", input, positions.cos), ("sin", swapped, positions.sin)].map(|(part, factor, table)| {
                self.node(format!("{name}/{part}"), Operation::Multiply, &[factor, table], &shape, observed(2))
            });
        self.node(format!("{name}/rotated"), Operation::Add, &[by_cos, by_sin], &shape, observed(2))
    }

    /// The norm of what attention (0) or MLP (1) adds, where there is one.
    fn branch_norm(&mut self, layer: usize, branch: usize, input: TensorId) -> TensorId {
        match self.architecture.branch_norms[branch] {
            Some(norm) => self.norm(&format!("layers.{layer}.{norm}"), &format!("blk.{layer}.{norm}.weight"), input),
            None => input,
        }
    }

    fn norm(&mut self, name: &str, tensor: &str, input: TensorId) -> TensorId {
        let weight = Weight::vector(tensor.to_owned(), self.dimensions.hidden);
        let norm = Operation::RmsNorm { weight, epsilon: self.dimensions.norm_epsilon };
        let shape = self.graph.tensor(input).shape.clone();
        self.node(name.to_owned(), norm, &[input], &shape, observed(1))
    }

    /// A matrix product and the bias that the file may have for it; the weight's tensor is named without its ending.
    fn linear(&mut self, name: &str, mut weight: Weight, input: TensorId) -> TensorId {
        let base = std::mem::take(&mut weight.tensor);
        weight.tensor = format!("{base}.weight");
        let width = weight.shape[1];
        let shape = [1, self.graph.tokens, width];
        let bias = format!("{base}.bias");
        if !self.architecture.biases || self.gguf.tensor(&bias).is_none() {
            return self.node(name.to_owned(), Operation::Linear { weight }, &[input], &shape, observed(1));
        }
        let bias = Weight { tensor: bias, shape: vec![width], ..weight.clone() };
        let product = self.node(format!("{name}/product"), Operation::Linear { weight }, &[input], &shape, observed(1));
        self.node(name.to_owned(), Operation::Bias { weight: bias }, &[product], &shape, observed(1))
    }

    /// A product of unsigned codes with the cache's signed ones: signed at first, then converted.
    fn product(
        &mut self,
        name: String,
        left: TensorId,
        right: TensorId,
        shape: &[usize],
        range: RangeSource,
    ) -> TensorId {
        let signed = self.node(format!("{name}/signed"), Operation::MatMul, &[left, right], shape, range);
        self.graph.set_integer(signed, IntegerType::I16);
        self.node(name, Operation::Convert, &[signed], shape, RangeSource::ValuesOf(signed))
    }

    fn add_residual(&mut self, name: &str, residual: TensorId, branch: TensorId) -> TensorId {
        let shape = self.graph.tensor(residual).shape.clone();
        self.node(name.to_owned(), Operation::Add, &[residual, branch], &shape, observed(1))
    }

    fn reshape(&mut self, name: String, input: TensorId, shape: &[usize]) -> TensorId {
        self.moved(name, Operation::Reshape, &[input], shape)
    }

    /// A node that only moves values; all its inputs have the same codes, and so has its output.
    fn moved(&mut self, name: String, operation: Operation, inputs: &[TensorId], shape: &[usize]) -> TensorId {
        let integer = self.graph.tensor(inputs[0]).integer;
        let output = self.node(name, operation, inputs, shape, RangeSource::CodesOf(inputs[0]));
        self.graph.set_integer(output, integer);
        output
    }

    /// A node whose output has unsigned 16-bit codes.
    fn node(
        &mut self,
        name: String,
        operation: Operation,
        inputs: &[TensorId],
        shape: &[usize],
        range: RangeSource,
    ) -> TensorId {
        let output = self.graph.add(Tensor { name, shape: shape.to_vec(), integer: IntegerType::U16, range });
        self.graph.nodes.push(Node { operation, inputs: inputs.to_vec(), output });
        output
    }
}

impl Weight {
    /// N rows of K values.
    fn matrix(tensor: String, k: usize, n: usize) -> Self {
        Self { tensor, shape: vec![k, n], interleaved_head: None, factor: 1.0 }
    }

    fn vector(tensor: String, n: usize) -> Self {
        Self { tensor, shape: vec![n], interleaved_head: None, factor: 1.0 }
    }
}
