//! The nodes of a decoder: embedding, layers, output projection, with onnxruntime-genai's names for what goes in and out.
//!
//! Inputs: `input_ids` int64 `[batch, sequence]`, `attention_mask` int64 `[batch, total]` (ones for the past and the
//! new tokens), `past_key_values.N.key` and `.value` float32 `[batch, kv_heads, past, head_size]`. Outputs: `logits`
//! float32 `[batch, positions, vocabulary]`, `present.N.key` and `.value` as the past, with the new tokens.
//!
//! `logits_index` int64 `[positions]` says at which positions of the sequence logits are wanted. It has the default
//! `[-1]`, the last one: who does not know it feeds nothing. For them the declared shape of `logits` is
//! `[batch, 1, vocabulary]`: by the 1 onnxruntime-genai knows that it gets the last position only. ONNX Runtime takes
//! more positions than that with a warning in its log, and another one about the default at load.
//!
//! Operators are ONNX Runtime's (`docs/ContribOperators.md` there). How a matrix is stored is `precision`'s business.

use super::architecture::{Activation, Architecture, Dimensions, EMBEDDING, OUTPUT, OUTPUT_NORM, Rotary, find_tensor};
use super::error::ModelError;
use super::gguf::{Gguf, Tensor};
use super::graph::{Attribute, GraphWriter, MICROSOFT, ONNX, Size, float_bytes};
use super::matrices::{self, Accuracy, Product};
use super::precision::CpuPrecision;
use super::source::Source;
use super::weights::{Rows, StoreError, Stored, store};
use crate::onnx_file::DataType;

/// Rows of the cosine and sine tables computed at a time.
const POSITIONS: usize = 4096;

type Result<T> = std::result::Result<T, StoreError>;

impl From<ModelError> for StoreError {
    fn from(error: ModelError) -> Self {
        Self::Model(error)
    }
}

/// Writes the whole decoder. `on_progress` hears the fraction of the weights that are written.
pub fn write(
    source: &Source<'_>,
    precision: CpuPrecision,
    graph: &mut GraphWriter,
    threads: usize,
    on_progress: &mut dyn FnMut(f32),
) -> Result<()> {
    let Source { gguf, architecture, dimensions, .. } = source;
    let total = gguf.tensors().filter(|tensor| tensor.shape.len() == 2).map(|tensor| tensor.elements()).sum();
    let progress = Progress { done: 0, total, report: on_progress };
    let mut decoder =
        Decoder { source, gguf, architecture, dimensions, precision, graph, threads, progress, residual: None };
    decoder.write()
}

struct Progress<'p> {
    done: usize,
    total: usize,
    report: &'p mut dyn FnMut(f32),
}

struct Decoder<'g, 'a, 'p> {
    source: &'g Source<'a>,
    gguf: &'g Gguf<'a>,
    architecture: &'static Architecture,
    dimensions: &'g Dimensions,
    precision: CpuPrecision,
    graph: &'g mut GraphWriter,
    threads: usize,
    progress: Progress<'p>,
    /// The output of the last block that is not yet added to the residual stream.
    residual: Option<Residual>,
}

/// The residual stream between two norms: what was there, and what the block in between adds.
struct Residual {
    stream: String,
    branch: Option<String>,
}

impl<'g, 'a> Decoder<'g, 'a, '_> {
    fn write(&mut self) -> Result<()> {
        self.sequence_lengths();
        self.rotary_tables()?;
        self.head_shapes();
        let vocabulary = self.embedding()?;
        for layer in 0..self.dimensions.layers {
            self.attention(layer)?;
            self.feed_forward(layer)?;
        }
        self.logits(vocabulary)?;
        Ok(())
    }

    /// The attention operator wants each sequence's length less one, and the longest length, as int32.
    fn sequence_lengths(&mut self) {
        let graph = &mut *self.graph;
        graph.input("input_ids", DataType::Int64, &[Size::Named("batch"), Size::Named("sequence")]);
        graph.input("attention_mask", DataType::Int64, &[Size::Named("batch"), Size::Named("total")]);
        graph.integers("one", &[1], &[1]);
        graph.integers("one_scalar", &[], &[1]);
        graph.node(ONNX, "ReduceSum", &["attention_mask", "one"], &["mask/lengths"], &[Attribute::Int("keepdims", 0)]);
        graph.node(ONNX, "Sub", &["mask/lengths", "one"], &["mask/last"], &[]);
        let to_int32 = [Attribute::Int("to", i32::from(DataType::Int32).into())];
        graph.node(ONNX, "Cast", &["mask/last"], &["seqlens_k"], &to_int32);
        graph.node(ONNX, "Shape", &["attention_mask"], &["mask/shape"], &[]);
        graph.node(ONNX, "Gather", &["mask/shape", "one_scalar"], &["mask/total"], &[Attribute::Int("axis", 0)]);
        graph.node(ONNX, "Cast", &["mask/total"], &["total_sequence_length"], &to_int32);
    }

    /// Cosines and sines for every position of the context, shared by all layers that turn alike.
    fn rotary_tables(&mut self) -> Result<()> {
        let dimensions = self.dimensions;
        for own in [false, true] {
            if (0..dimensions.layers).any(|layer| dimensions.has_own_rotary(layer) == own) {
                self.rotary_table(rotary_names(own), dimensions.rotary(own))?;
            }
        }
        Ok(())
    }

    /// `[context, pairs]`, each.
    fn rotary_table(&mut self, names: [&str; 2], rotary: &Rotary) -> Result<()> {
        let (context, Rotary { frequencies, magnitude }) = (self.dimensions.context, rotary);
        let shape = [context, frequencies.len()];
        for (name, function) in names.into_iter().zip([f64::cos as fn(f64) -> f64, f64::sin]) {
            let row = frequencies.len() as u64 * 4;
            let region = self.graph.data().reserve(context as u64 * row)?;
            for first in (0..context).step_by(POSITIONS) {
                let values: Vec<f32> = (first..context.min(first + POSITIONS))
                    .flat_map(|position| frequencies.iter().map(move |frequency| position as f64 * frequency))
                    .map(|angle| (magnitude * function(angle)) as f32)
                    .collect();
                self.graph.data().write(region.offset + first as u64 * row, &float_bytes(&values))?;
            }
            self.graph.external(name, DataType::Float, &shape, region);
        }
        Ok(())
    }

    /// The embedding's matrix, which may serve as the output projection, too.
    fn embedding(&mut self) -> Result<Stored> {
        let hidden = self.dimensions.hidden;
        let rows = self.matrix(EMBEDDING, hidden, self.dimensions.vocabulary, None)?;
        let stored = self.store(&[rows])?;
        matrices::declare(self.graph, "vocabulary", &stored);
        matrices::gather(self.graph, "vocabulary", &stored, "input_ids", "embedding");
        let stream = scale_embedding(self.graph, self.dimensions, "embedding", "embedding/scaled").to_owned();
        self.residual = Some(Residual { stream, branch: None });
        Ok(stored)
    }

    fn attention(&mut self, layer: usize) -> Result<()> {
        let Dimensions { hidden, heads, kv_heads, head_size, .. } = *self.dimensions;
        let normed = self.norm(&format!("layers.{layer}.attention_norm"), &format!("blk.{layer}.attn_norm.weight"))?;
        let mut parts = Vec::new();
        for projection in &self.architecture.query_key_value {
            let rows = self.dimensions.head_count(projection.heads) * head_size;
            let name = format!("blk.{layer}.{}.weight", projection.tensor);
            parts.push(self.matrix(&name, hidden, rows, projection.interleaved_head(self.gguf, head_size))?);
        }
        let bias = self.query_key_value_bias(layer)?;
        let name = format!("layers.{layer}.qkv");
        let qkv = self.linear(&name, &normed, &parts, bias.as_deref())?;
        let [query, new_key, new_value] = self.heads_normed(layer, qkv)?;

        let [past_key, past_value, key, value] = [
            format!("past_key_values.{layer}.key"),
            format!("past_key_values.{layer}.value"),
            format!("present.{layer}.key"),
            format!("present.{layer}.value"),
        ];
        let cache = |length| [Size::Named("batch"), Size::Fixed(kv_heads), Size::Named(length), Size::Fixed(head_size)];
        for name in [&past_key, &past_value] {
            self.graph.input(name, DataType::Float, &cache("past"));
        }
        let attended = format!("layers.{layer}.attention");
        let [cos, sin] = rotary_names(self.dimensions.has_own_rotary(layer));
        let mut attributes = vec![
            Attribute::Int("num_heads", heads as i64),
            Attribute::Int("kv_num_heads", kv_heads as i64),
            Attribute::Int("do_rotary", 1),
            Attribute::Int("rotary_interleaved", 0),
            Attribute::Float("scale", self.dimensions.score_scale as f32),
        ];
        // The operator's window counts as ours does: with the token itself.
        attributes.extend(self.dimensions.window(layer).map(|size| Attribute::Int("local_window_size", size as i64)));
        attributes.extend(self.dimensions.score_softcap.map(|cap| Attribute::Float("softcap", cap)));
        self.graph.node(
            MICROSOFT,
            "GroupQueryAttention",
            &[&query, &new_key, &new_value, &past_key, &past_value, "seqlens_k", "total_sequence_length", cos, sin],
            &[&attended, &key, &value],
            &attributes,
        );
        let rows = self.matrix(&format!("blk.{layer}.attn_output.weight"), heads * head_size, hidden, None)?;
        let bias = self.bias(&format!("blk.{layer}.attn_output.bias"), hidden, None)?;
        let branch = self.linear(&format!("layers.{layer}.output"), &attended, &[rows], bias.as_deref())?;
        self.add_to_residual(layer, branch, self.architecture.branch_norms[0])
    }

    /// Query, key and value as the attention operator takes them: packed in the first, or apart where single heads have
    /// norms (the operator rotates them afterwards).
    fn heads_normed(&mut self, layer: usize, qkv: String) -> Result<[String; 3]> {
        let architecture = self.architecture;
        if architecture.head_norms().next().is_none() {
            return Ok([qkv, String::new(), String::new()]);
        }
        let name = |part: &str| format!("layers.{layer}.{part}");
        let mut parts = ["query", "key", "value"].map(name);
        let outputs: Vec<&str> = parts.iter().map(String::as_str).collect();
        self.graph.node(ONNX, "Split", &[&qkv, "qkv.sizes"], &outputs, &[Attribute::Int("axis", -1)]);
        for (projection, part) in architecture.query_key_value.iter().zip(&mut parts) {
            let Some(norm) = projection.norm else { continue };
            let values = self.vector(&format!("blk.{layer}.{norm}.weight"), self.dimensions.head_size, None)?;
            let [heads, weight, normed, joined] =
                ["heads", "weight", "normed", "joined"].map(|end| format!("{part}/{end}"));
            self.graph.floats(&weight, &[values.len()], &values)?;
            self.graph.node(ONNX, "Reshape", &[part, "heads.split"], &[&heads], &[]);
            self.simplified_norm(&[&heads, &weight], &normed);
            self.graph.node(ONNX, "Reshape", &[&normed, "heads.joined"], &[&joined], &[]);
            *part = joined;
        }
        Ok(parts)
    }

    /// What `heads_normed` cuts by, the same for all layers.
    fn head_shapes(&mut self) {
        if self.architecture.head_norms().next().is_none() {
            return;
        }
        let head_size = self.dimensions.head_size;
        let sizes = self.architecture.query_key_value.each_ref();
        let sizes = sizes.map(|projection| (self.dimensions.head_count(projection.heads) * head_size) as i64);
        self.graph.integers("qkv.sizes", &[3], &sizes);
        // Batch and sequence stay, and the rest follows from the number of values.
        self.graph.integers("heads.split", &[4], &[0, 0, -1, head_size as i64]);
        self.graph.integers("heads.joined", &[3], &[0, 0, -1]);
    }

    fn feed_forward(&mut self, layer: usize) -> Result<()> {
        let Dimensions { hidden, feed_forward, .. } = *self.dimensions;
        let normed = self.norm(&format!("layers.{layer}.mlp_norm"), &format!("blk.{layer}.ffn_norm.weight"))?;
        let parts = self.architecture.gate_up.iter();
        let parts = parts
            .map(|tensor| self.matrix(&format!("blk.{layer}.{tensor}.weight"), hidden, feed_forward, None))
            .collect::<Result<Vec<_>>>()?;
        let gate_up = self.linear(&format!("layers.{layer}.gate_up"), &normed, &parts, None)?;
        let [gate, up, activated, product] =
            ["gate", "up", "activated", "gated"].map(|name| format!("layers.{layer}.mlp/{name}"));
        let graph = &mut *self.graph;
        let halves = [Attribute::Int("axis", -1), Attribute::Int("num_outputs", 2)];
        graph.node(ONNX, "Split", &[&gate_up], &[&gate, &up], &halves);
        match self.architecture.activation {
            // x * sigmoid(1 * x): SiLU in one node.
            Activation::Silu => {
                graph.node(MICROSOFT, "QuickGelu", &[&gate], &[&activated], &[Attribute::Float("alpha", 1.0)]);
            }
            Activation::GeluTanh => graph.node(MICROSOFT, "FastGelu", &[&gate], &[&activated], &[]),
        }
        graph.node(ONNX, "Mul", &[&activated, &up], &[&product], &[]);
        let rows = self.matrix(&format!("blk.{layer}.ffn_down.weight"), feed_forward, hidden, None)?;
        let branch = self.linear(&format!("layers.{layer}.down"), &product, &[rows], None)?;
        self.add_to_residual(layer, branch, self.architecture.branch_norms[1])
    }

    fn logits(&mut self, vocabulary: Stored) -> Result<()> {
        let Dimensions { hidden, vocabulary: rows, .. } = *self.dimensions;
        let normed = self.norm("final_norm", OUTPUT_NORM)?;
        let graph = &mut *self.graph;
        graph.input("logits_index", DataType::Int64, &[Size::Named("positions")]);
        graph.integers("logits_index", &[1], &[-1]);
        graph.node(ONNX, "Gather", &[&normed, "logits_index"], &["final_hidden"], &[Attribute::Int("axis", 1)]);
        let output = if self.dimensions.logit_softcap.is_some() { "head" } else { "logits" };
        if self.gguf.tensor(OUTPUT).is_some() {
            let rows = self.matrix(OUTPUT, hidden, rows, None)?;
            let stored = self.store(&[rows])?;
            matrices::declare(self.graph, "head.values", &stored);
            self.multiply("head", "head.values", &stored, None, "final_hidden", output)?;
        } else {
            self.multiply("head", "vocabulary", &vocabulary, None, "final_hidden", output)?;
        }
        if let Some(cap) = self.dimensions.logit_softcap {
            softcap(self.graph, cap, output, "logits");
        }
        let Dimensions { kv_heads, head_size, .. } = *self.dimensions;
        let shape = [Size::Named("batch"), Size::Fixed(1), Size::Fixed(rows)];
        self.graph.output("logits", DataType::Float, &shape);
        let cache = [Size::Named("batch"), Size::Fixed(kv_heads), Size::Named("total"), Size::Fixed(head_size)];
        for layer in 0..self.dimensions.layers {
            for part in ["key", "value"] {
                self.graph.output(&format!("present.{layer}.{part}"), DataType::Float, &cache);
            }
        }
        Ok(())
    }

    /// An RMS norm of the residual stream, to which the branch that waits is added on the way.
    fn norm(&mut self, name: &str, tensor: &str) -> Result<String> {
        let weight = self.vector(tensor, self.dimensions.hidden, None)?;
        let weights = format!("{name}.weight");
        self.graph.floats(&weights, &[weight.len()], &weight)?;
        let epsilon = Attribute::Float("epsilon", self.dimensions.norm_epsilon);
        let Some(residual) = &mut self.residual else { return Ok(name.to_owned()) };
        match residual.branch.take() {
            None => {
                let stream = residual.stream.clone();
                self.simplified_norm(&[&stream, &weights], name);
            }
            Some(branch) => {
                let sum = format!("{name}/residual");
                self.graph.node(
                    MICROSOFT,
                    "SkipSimplifiedLayerNormalization",
                    &[&residual.stream, &branch, &weights],
                    &[name, "", "", &sum],
                    &[epsilon],
                );
                residual.stream = sum;
            }
        }
        Ok(name.to_owned())
    }

    /// An RMS norm along the last axis.
    fn simplified_norm(&mut self, inputs: &[&str], output: &str) {
        let epsilon = Attribute::Float("epsilon", self.dimensions.norm_epsilon);
        let attributes = [Attribute::Int("axis", -1), epsilon, Attribute::Int("stash_type", 1)];
        self.graph.node(ONNX, "SimplifiedLayerNormalization", inputs, &[output], &attributes);
    }

    /// `norm` is that of the branch, where it has one.
    fn add_to_residual(&mut self, layer: usize, mut branch: String, norm: Option<&str>) -> Result<()> {
        if let Some(norm) = norm {
            let [normed, weight] = ["", ".weight"].map(|end| format!("layers.{layer}.{norm}{end}"));
            let values = self.vector(&format!("blk.{layer}.{norm}.weight"), self.dimensions.hidden, None)?;
            self.graph.floats(&weight, &[values.len()], &values)?;
            self.simplified_norm(&[&branch, &weight], &normed);
            branch = normed;
        }
        if let Some(residual) = &mut self.residual {
            residual.branch = Some(branch);
        }
        Ok(())
    }

    /// A matrix product of `input` with the parts, one below the other; returns the output's name, which is `name`.
    fn linear(&mut self, name: &str, input: &str, parts: &[Rows<'g, 'a>], bias: Option<&[f32]>) -> Result<String> {
        let stored = self.store(parts)?;
        let values = format!("{name}.values");
        matrices::declare(self.graph, &values, &stored);
        self.multiply(name, &values, &stored, bias, input, name)?;
        Ok(name.to_owned())
    }

    fn multiply(
        &mut self,
        name: &str,
        values: &str,
        stored: &Stored,
        bias: Option<&[f32]>,
        input: &str,
        output: &str,
    ) -> Result<()> {
        let product = Product { name, values, stored, bias, accuracy: Accuracy::Int8, input, output };
        Ok(matrices::multiply(self.graph, &product)?)
    }

    /// The biases of all projections into attention as one vector, zeros for those without, or nothing.
    fn query_key_value_bias(&mut self, layer: usize) -> Result<Option<Vec<f32>>> {
        let mut joined = Vec::new();
        let mut any = false;
        for projection in &self.architecture.query_key_value {
            let head_size = self.dimensions.head_size;
            let length = self.dimensions.head_count(projection.heads) * head_size;
            let name = format!("blk.{layer}.{}.bias", projection.tensor);
            let bias = self.bias(&name, length, projection.interleaved_head(self.gguf, head_size))?;
            any |= bias.is_some();
            joined.extend(bias.unwrap_or_else(|| vec![0.0; length]));
        }
        Ok(any.then_some(joined))
    }

    fn bias(&mut self, name: &str, length: usize, interleaved_head: Option<usize>) -> Result<Option<Vec<f32>>> {
        if !self.architecture.biases || self.gguf.tensor(name).is_none() {
            return Ok(None);
        }
        self.vector(name, length, interleaved_head).map(Some)
    }

    fn vector(&mut self, name: &str, length: usize, interleaved_head: Option<usize>) -> Result<Vec<f32>> {
        let tensor = self.take(name, &[length])?;
        let values = Rows { tensor, interleaved_head }.vector();
        if values.iter().all(|value| value.is_finite()) {
            Ok(values)
        } else {
            Err(ModelError::NotFinite { tensor: name.to_owned() }.into())
        }
    }

    fn matrix(&mut self, name: &str, k: usize, n: usize, interleaved_head: Option<usize>) -> Result<Rows<'g, 'a>> {
        Ok(Rows { tensor: self.take(name, &[k, n])?, interleaved_head })
    }

    fn take(&mut self, name: &str, shape: &[usize]) -> Result<&'g Tensor<'a>> {
        let tensor = find_tensor(self.gguf, name)?;
        if tensor.shape != shape {
            let (found, expected) = (tensor.shape.clone(), shape.to_vec());
            return Err(ModelError::TensorShape { tensor: name.to_owned(), found, expected }.into());
        }
        Ok(tensor)
    }

    fn store(&mut self, parts: &[Rows<'g, 'a>]) -> Result<Stored> {
        let layout = self.precision.layout(parts);
        let width = parts[0].tensor.shape[0];
        let Progress { done, total, report } = &mut self.progress;
        let stored = store(self.graph.data(), parts, layout, self.threads, &mut |rows| {
            *done += rows * width;
            report(*done as f32 / *total as f32);
        })?;
        parts.iter().for_each(|part| self.source.release(part.tensor));
        Ok(stored)
    }
}

/// The tables of most layers, or of those which have their own.
fn rotary_names(own: bool) -> [&'static str; 2] {
    if own { ["cos_cache.window", "sin_cache.window"] } else { ["cos_cache", "sin_cache"] }
}

/// Multiplies embeddings where the model does; returns the name of the result.
pub fn scale_embedding<'n>(
    graph: &mut GraphWriter,
    dimensions: &Dimensions,
    input: &'n str,
    output: &'n str,
) -> &'n str {
    let Some(scale) = dimensions.embedding_scale else { return input };
    graph.inside("embedding.scale", DataType::Float, &[], float_bytes(&[scale]));
    graph.node(ONNX, "Mul", &[input, "embedding.scale"], &[output], &[]);
    output
}

/// Keeps logits within -`cap` and `cap`: cap * tanh(logit / cap).
pub fn softcap(graph: &mut GraphWriter, cap: f32, input: &str, output: &str) {
    graph.inside("cap", DataType::Float, &[], float_bytes(&[cap]));
    graph.node(ONNX, "Div", &[input, "cap"], &["capped/part"], &[]);
    graph.node(ONNX, "Tanh", &["capped/part"], &["capped/tanh"], &[]);
    graph.node(ONNX, "Mul", &["capped/tanh", "cap"], &[output], &[]);
}
