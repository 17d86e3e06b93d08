//! A llama, qwen2 or qwen3 by its definition, one token at a time, on the tensors as the GGUF file has them: the rows of a
//! llama's heads are stored so that rotation turns neighbours, the others' so that it turns halves.

use crate::builder::architecture::{Dimensions, EMBEDDING, OUTPUT_NORM};
use crate::builder::gguf::Gguf;

pub struct Reference<'g, 'a> {
    gguf: &'g Gguf<'a>,
    dimensions: &'g Dimensions,
    neighbours: bool,
    /// For each layer the keys, then the values of each token so far.
    cache: Vec<[Vec<Vec<f64>>; 2]>,
}

/// A tensor's values as they lie in the file.
pub fn tensor(gguf: &Gguf<'_>, name: &str) -> Vec<f64> {
    let tensor = gguf.tensor(name).unwrap();
    let mut values = vec![0.0; tensor.elements()];
    tensor.kind.dequantize(tensor.bytes, &mut values);
    values.into_iter().map(f64::from).collect()
}

impl<'g, 'a> Reference<'g, 'a> {
    pub fn new(gguf: &'g Gguf<'a>, dimensions: &'g Dimensions) -> Self {
        let neighbours = gguf.string("general.architecture").unwrap() == Some("llama");
        Self { gguf, dimensions, neighbours, cache: vec![[Vec::new(), Vec::new()]; dimensions.layers] }
    }

    /// The hidden states after the last norm.
    pub fn forward(&mut self, token: usize) -> Vec<f64> {
        let width = self.dimensions.hidden;
        let mut stream = tensor(self.gguf, EMBEDDING)[token * width..][..width].to_vec();
        for layer in 0..self.dimensions.layers {
            let normed = self.norm(&format!("blk.{layer}.attn_norm.weight"), &stream);
            let attended = self.attention(layer, &normed);
            add(&mut stream, &self.product(&format!("blk.{layer}.attn_output"), &attended));
            let normed = self.norm(&format!("blk.{layer}.ffn_norm.weight"), &stream);
            let gate = self.product(&format!("blk.{layer}.ffn_gate"), &normed);
            let up = self.product(&format!("blk.{layer}.ffn_up"), &normed);
            let gated: Vec<f64> = gate.iter().zip(&up).map(|(gate, up)| gate / (1.0 + (-gate).exp()) * up).collect();
            add(&mut stream, &self.product(&format!("blk.{layer}.ffn_down"), &gated));
        }
        self.norm(OUTPUT_NORM, &stream)
    }

    fn attention(&mut self, layer: usize, normed: &[f64]) -> Vec<f64> {
        let Dimensions { heads, kv_heads, head_size, .. } = *self.dimensions;
        let position = self.cache[layer][0].len();
        let [mut query, mut key, value] =
            ["q", "k", "v"].map(|part| self.product(&format!("blk.{layer}.attn_{part}"), normed));
        for (vector, part) in [(&mut query, "q"), (&mut key, "k")] {
            let norm = format!("blk.{layer}.attn_{part}_norm.weight");
            if self.gguf.tensor(&norm).is_some() {
                *vector = vector.chunks(head_size).flat_map(|head| self.norm(&norm, head)).collect();
            }
            vector.chunks_mut(head_size).for_each(|head| self.rotate(head, position));
        }
        let [keys, values] = &mut self.cache[layer];
        keys.push(key);
        values.push(value);
        let mut result = Vec::new();
        for (head, query) in query.chunks(head_size).enumerate() {
            let shared = head / (heads / kv_heads) * head_size;
            let score = |key: &Vec<f64>| {
                let product: f64 = query.iter().zip(&key[shared..]).map(|(query, key)| query * key).sum();
                (product / (head_size as f64).sqrt()).exp()
            };
            let weights: Vec<f64> = keys.iter().map(score).collect();
            let total: f64 = weights.iter().sum();
            for index in 0..head_size {
                let mixed: f64 =
                    weights.iter().zip(&*values).map(|(weight, value)| weight * value[shared + index]).sum();
                result.push(mixed / total);
            }
        }
        result
    }

    fn rotate(&self, head: &mut [f64], position: usize) {
        for (pair, frequency) in self.dimensions.rotary(false).frequencies.iter().enumerate() {
            let (first, second) =
                if self.neighbours { (2 * pair, 2 * pair + 1) } else { (pair, pair + head.len() / 2) };
            let (sin, cos) = (position as f64 * frequency).sin_cos();
            let (x, y) = (head[first], head[second]);
            (head[first], head[second]) = (x * cos - y * sin, y * cos + x * sin);
        }
    }

    fn norm(&self, name: &str, values: &[f64]) -> Vec<f64> {
        let mean = values.iter().map(|x| x * x).sum::<f64>() / values.len() as f64;
        let scale = 1.0 / (mean + f64::from(self.dimensions.norm_epsilon)).sqrt();
        values.iter().zip(tensor(self.gguf, name)).map(|(x, weight)| x * scale * weight).collect()
    }

    fn product(&self, name: &str, input: &[f64]) -> Vec<f64> {
        let rows = tensor(self.gguf, &format!("{name}.weight"));
        let mut output: Vec<f64> =
            rows.chunks(input.len()).map(|row| row.iter().zip(input).map(|(weight, x)| weight * x).sum()).collect();
        let bias = format!("{name}.bias");
        if self.gguf.tensor(&bias).is_some() {
            add(&mut output, &tensor(self.gguf, &bias));
        }
        output
    }
}

fn add(values: &mut [f64], others: &[f64]) {
    values.iter_mut().zip(others).for_each(|(value, other)| *value += other);
}
