//! A llama so small that a test can build and run it in a moment: as a GGUF file with random float32 weights, and as the
//! logits that its definition gives, computed in float64 from the same weights.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub const LAYERS: usize = 2;
pub const HIDDEN: usize = 64;
pub const HEADS: usize = 4;
pub const KV_HEADS: usize = 2;
pub const HEAD_SIZE: usize = HIDDEN / HEADS;
const FEED_FORWARD: usize = 96;
const EPSILON: f32 = 1e-5;
const THETA: f32 = 10_000.0;

/// ggml's number of F32.
const F32: u32 = 0;
/// GGUF's numbers of the types of values.
const UINT32: u32 = 4;
const FLOAT32: u32 = 6;
const STRING: u32 = 8;
const ARRAY: u32 = 9;

pub struct TinyLlama {
    /// Name, shape as GGUF has it (the row's length first), values row by row.
    tensors: Vec<(String, Vec<usize>, Vec<f32>)>,
    tokens: Vec<String>,
}

impl TinyLlama {
    /// The same one for the same seed.
    pub fn new(seed: u64) -> Self {
        let tokens = byte_tokens();
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut tensors = Vec::new();
        let mut tensor = |name: &str, shape: &[usize], low: f32, high: f32| {
            let values = (0..shape.iter().product()).map(|_| rng.random_range(low..high)).collect();
            tensors.push((name.to_owned(), shape.to_vec(), values));
        };
        tensor("token_embd.weight", &[HIDDEN, tokens.len()], -1.0, 1.0);
        let kv = KV_HEADS * HEAD_SIZE;
        for layer in 0..LAYERS {
            for (part, width, rows) in [
                ("attn_q", HIDDEN, HIDDEN),
                ("attn_k", HIDDEN, kv),
                ("attn_v", HIDDEN, kv),
                ("attn_output", HIDDEN, HIDDEN),
                ("ffn_gate", HIDDEN, FEED_FORWARD),
                ("ffn_up", HIDDEN, FEED_FORWARD),
                ("ffn_down", FEED_FORWARD, HIDDEN),
            ] {
                // So that a random vector keeps its length.
                let most = (3.0 / width as f32).sqrt();
                tensor(&format!("blk.{layer}.{part}.weight"), &[width, rows], -most, most);
            }
            for part in ["attn_norm", "ffn_norm"] {
                tensor(&format!("blk.{layer}.{part}.weight"), &[HIDDEN], 0.5, 1.5);
            }
        }
        tensor("output_norm.weight", &[HIDDEN], 0.5, 1.5);
        Self { tensors, tokens }
    }

    pub fn vocabulary(&self) -> usize {
        self.tokens.len()
    }

    pub fn gguf(&self) -> Vec<u8> {
        let number = |value: usize| (UINT32, (value as u32).to_le_bytes().to_vec());
        let real = |value: f32| (FLOAT32, value.to_le_bytes().to_vec());
        let text = |value: &str| (STRING, string(value));
        let list = |kind: u32, values: Vec<Vec<u8>>| {
            (ARRAY, [&kind.to_le_bytes()[..], &(values.len() as u64).to_le_bytes(), &values.concat()].concat())
        };
        // Special tokens are of type 3, others of type 1.
        let types = (0..self.tokens.len()).map(|id| if id < 3 { 3u32 } else { 1 }.to_le_bytes().to_vec()).collect();
        let keys = [
            ("general.architecture", text("llama")),
            ("general.name", text("Tiny")),
            ("llama.block_count", number(LAYERS)),
            ("llama.context_length", number(512)),
            ("llama.embedding_length", number(HIDDEN)),
            ("llama.feed_forward_length", number(FEED_FORWARD)),
            ("llama.attention.head_count", number(HEADS)),
            ("llama.attention.head_count_kv", number(KV_HEADS)),
            ("llama.attention.layer_norm_rms_epsilon", real(EPSILON)),
            ("llama.rope.freq_base", real(THETA)),
            ("tokenizer.ggml.model", text("gpt2")),
            ("tokenizer.ggml.pre", text("smollm")),
            ("tokenizer.ggml.tokens", list(STRING, self.tokens.iter().map(|token| string(token)).collect())),
            ("tokenizer.ggml.token_type", list(5, types)),
            ("tokenizer.ggml.merges", list(STRING, vec![string("h e")])),
            ("tokenizer.ggml.bos_token_id", number(1)),
            ("tokenizer.ggml.eos_token_id", number(2)),
            ("tokenizer.chat_template", text("<|im_start|>{{ messages[0]['content'] }}")),
        ];
        let mut file = [b"GGUF".as_slice(), &3u32.to_le_bytes()].concat();
        file.extend((self.tensors.len() as u64).to_le_bytes());
        file.extend((keys.len() as u64).to_le_bytes());
        for (name, (kind, value)) in keys {
            file.extend([string(name).as_slice(), &kind.to_le_bytes(), &value].concat());
        }
        let mut offset = 0u64;
        for (name, shape, values) in &self.tensors {
            file.extend(string(name));
            file.extend((shape.len() as u32).to_le_bytes());
            shape.iter().for_each(|size| file.extend((*size as u64).to_le_bytes()));
            file.extend(F32.to_le_bytes());
            file.extend(offset.to_le_bytes());
            // All rows are multiples of 32 bytes, and so is every tensor.
            offset += values.len() as u64 * 4;
        }
        file.resize(file.len().next_multiple_of(32), 0);
        for (_, _, values) in &self.tensors {
            file.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        }
        file
    }

    /// The logits after each token, by the definition of llama as llama.cpp's files have it: a head's pairs of numbers
    /// are rotated where they lie side by side.
    pub fn logits(&self, tokens: &[u32]) -> Vec<Vec<f64>> {
        let embedding = self.tensor("token_embd.weight");
        let row = |token: &u32| &embedding[*token as usize * HIDDEN..][..HIDDEN];
        let mut states: Vec<Vec<f64>> =
            tokens.iter().map(|token| row(token).iter().map(|x| f64::from(*x)).collect()).collect();
        for layer in 0..LAYERS {
            let weights = |part: &str| self.tensor(&format!("blk.{layer}.{part}.weight"));
            let normed: Vec<_> = states.iter().map(|state| norm(state, weights("attn_norm"))).collect();
            let project = |part: &str| normed.iter().map(|state| multiply(weights(part), state)).collect::<Vec<_>>();
            let rotated = |part: &str| {
                let rows = project(part).into_iter().enumerate();
                rows.map(|(position, row)| rotate(&row, position)).collect::<Vec<_>>()
            };
            let (queries, keys, values) = (rotated("attn_q"), rotated("attn_k"), project("attn_v"));
            for (position, state) in states.iter_mut().enumerate() {
                let mut mixed = Vec::new();
                for head in 0..HEADS {
                    let of = |row: &Vec<f64>, head: usize| row[head * HEAD_SIZE..][..HEAD_SIZE].to_vec();
                    let query = of(&queries[position], head);
                    let kv_head = head * KV_HEADS / HEADS;
                    let scores: Vec<f64> = (0..=position)
                        .map(|at| dot(&query, &of(&keys[at], kv_head)) / (HEAD_SIZE as f64).sqrt())
                        .collect();
                    let sum: f64 = scores.iter().map(|score| score.exp()).sum();
                    mixed.extend((0..HEAD_SIZE).map(|column| {
                        let parts = scores.iter().enumerate();
                        parts.map(|(at, score)| score.exp() / sum * of(&values[at], kv_head)[column]).sum::<f64>()
                    }));
                }
                add(state, &multiply(weights("attn_output"), &mixed));
                let normed = norm(state, weights("ffn_norm"));
                let (gate, up) = (multiply(weights("ffn_gate"), &normed), multiply(weights("ffn_up"), &normed));
                let product: Vec<f64> =
                    gate.iter().zip(up).map(|(gate, up)| gate / (1.0 + (-gate).exp()) * up).collect();
                add(state, &multiply(weights("ffn_down"), &product));
            }
        }
        let normed = states.iter().map(|state| norm(state, self.tensor("output_norm.weight")));
        normed.map(|state| multiply(embedding, &state)).collect()
    }

    fn tensor(&self, name: &str) -> &[f32] {
        &self.tensors.iter().find(|(tensor, ..)| tensor == name).expect(name).2
    }
}

fn norm(state: &[f64], weights: &[f32]) -> Vec<f64> {
    let scale = (dot(state, state) / state.len() as f64 + f64::from(EPSILON)).sqrt();
    state.iter().zip(weights).map(|(x, weight)| x / scale * f64::from(*weight)).collect()
}

fn multiply(matrix: &[f32], vector: &[f64]) -> Vec<f64> {
    let row = |row: &[f32]| row.iter().zip(vector).map(|(weight, x)| f64::from(*weight) * x).sum();
    matrix.chunks_exact(vector.len()).map(row).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn add(state: &mut [f64], more: &[f64]) {
    state.iter_mut().zip(more).for_each(|(state, more)| *state += more);
}

fn rotate(row: &[f64], position: usize) -> Vec<f64> {
    let pair = |(index, pair): (usize, &[f64; 2])| {
        let exponent = -2.0 * (index % (HEAD_SIZE / 2)) as f64 / HEAD_SIZE as f64;
        let (sin, cos) = (position as f64 * f64::from(THETA).powf(exponent)).sin_cos();
        [pair[0] * cos - pair[1] * sin, pair[0] * sin + pair[1] * cos]
    };
    row.as_chunks::<2>().0.iter().enumerate().flat_map(pair).collect()
}

/// Three special tokens, and the 256 bytes as GPT-2 writes them.
fn byte_tokens() -> Vec<String> {
    let mut tokens: Vec<String> = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"].map(str::to_owned).into();
    let mut moved = 256u32;
    for byte in 0u32..256 {
        let printable = matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
        let code = if printable { byte } else { moved };
        moved += u32::from(!printable);
        tokens.extend(char::from_u32(code).map(String::from));
    }
    tokens.push("he".to_owned());
    tokens
}

fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}
