//! For the builder's tests: a writer of GGUF files, and a llama so small that a test can build it in every tensor type.

use half::f16;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::blocks::TensorType;

/// A metadata value as it is written: GGUF's type number, then the bytes.
pub struct Encoded(pub u32, pub Vec<u8>);

pub fn text(value: &str) -> Encoded {
    Encoded(8, string(value))
}

pub fn u32_value(value: u32) -> Encoded {
    Encoded(4, value.to_le_bytes().to_vec())
}

pub fn f32_value(value: f32) -> Encoded {
    Encoded(6, value.to_le_bytes().to_vec())
}

pub fn boolean(value: bool) -> Encoded {
    Encoded(7, vec![value.into()])
}

/// An array of values of one type.
pub fn array(kind: u32, values: impl IntoIterator<Item = Encoded>) -> Encoded {
    let mut count = 0u64;
    let mut bytes = Vec::new();
    for value in values {
        assert_eq!(value.0, kind);
        count += 1;
        bytes.extend(value.1);
    }
    Encoded(9, [kind.to_le_bytes().as_slice(), &count.to_le_bytes(), &bytes].concat())
}

fn string(value: &str) -> Vec<u8> {
    [&(value.len() as u64).to_le_bytes(), value.as_bytes()].concat()
}

/// A GGUF file in the making. Keys and tensors keep their order; a later key replaces an earlier one of its name.
pub struct GgufWriter {
    /// Tensors start at multiples of it; the key `general.alignment` is the caller's.
    pub alignment: u64,
    pub keys: Vec<(String, Encoded)>,
    pub tensors: Vec<(String, u32, Vec<u64>, Vec<u8>)>,
}

impl Default for GgufWriter {
    fn default() -> Self {
        Self { alignment: 32, keys: Vec::new(), tensors: Vec::new() }
    }
}

impl GgufWriter {
    pub fn key(&mut self, name: &str, value: Encoded) -> &mut Self {
        self.keys.retain(|(key, _)| key != name);
        self.keys.push((name.to_owned(), value));
        self
    }

    pub fn without_key(&mut self, name: &str) -> &mut Self {
        self.keys.retain(|(key, _)| key != name);
        self
    }

    pub fn tensor(&mut self, name: &str, kind: u32, shape: &[u64], bytes: Vec<u8>) -> &mut Self {
        self.tensors.retain(|(tensor, ..)| tensor != name);
        self.tensors.push((name.to_owned(), kind, shape.to_vec(), bytes));
        self
    }

    pub fn without_tensor(&mut self, name: &str) -> &mut Self {
        self.tensors.retain(|(tensor, ..)| tensor != name);
        self
    }

    pub fn floats(&mut self, name: &str, values: &[f32]) -> &mut Self {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.tensor(name, TensorType::F32.id(), &[values.len() as u64], bytes)
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut file = b"GGUF".to_vec();
        file.extend(3u32.to_le_bytes());
        file.extend((self.tensors.len() as u64).to_le_bytes());
        file.extend((self.keys.len() as u64).to_le_bytes());
        for (name, Encoded(kind, bytes)) in &self.keys {
            file.extend(string(name));
            file.extend(kind.to_le_bytes());
            file.extend(bytes);
        }
        let mut offset = 0u64;
        for (name, kind, shape, bytes) in &self.tensors {
            file.extend(string(name));
            file.extend((shape.len() as u32).to_le_bytes());
            shape.iter().for_each(|size| file.extend(size.to_le_bytes()));
            file.extend(kind.to_le_bytes());
            file.extend(offset.to_le_bytes());
            offset = (offset + bytes.len() as u64).next_multiple_of(self.alignment);
        }
        for (.., bytes) in &self.tensors {
            file.resize(file.len().next_multiple_of(self.alignment as usize), 0);
            file.extend(bytes);
        }
        file
    }
}

/// Blocks of random quants whose scales are small and whose minimum is about what makes the values center at zero, as
/// real weights do.
pub fn random_blocks(kind: TensorType, elements: usize, rng: &mut ChaCha8Rng) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..elements / kind.block_elements() {
        let mut block: Vec<u8> = (0..kind.block_bytes()).map(|_| rng.random::<u8>()).collect();
        let scale = rng.random_range(0.002f32..0.01);
        let half = |value: f32| f16::from_f32(value).to_le_bytes();
        match kind {
            TensorType::F32 => block = (scale * rng.random_range(-9.0..9.0)).to_le_bytes().to_vec(),
            TensorType::F16 => block = half(scale * rng.random_range(-9.0..9.0)).to_vec(),
            TensorType::Bf16 => {
                block = half::bf16::from_f32(scale * rng.random_range(-9.0..9.0)).to_le_bytes().to_vec();
            }
            TensorType::Q4_0 | TensorType::Q5_0 => block[..2].copy_from_slice(&half(scale)),
            TensorType::Q8_0 => block[..2].copy_from_slice(&half(scale / 16.0)),
            TensorType::Q4_1 | TensorType::Q5_1 => {
                block[..2].copy_from_slice(&half(scale));
                block[2..4].copy_from_slice(&half(-scale * rng.random_range(6.0..9.0)));
            }
            TensorType::Q4K | TensorType::Q5K => {
                block[..2].copy_from_slice(&half(scale / 64.0));
                block[2..4].copy_from_slice(&half(scale / 8.0));
            }
            TensorType::Q6K => block[208..].copy_from_slice(&half(scale / 256.0)),
        }
        bytes.extend(block);
    }
    bytes
}

/// The sizes of `tiny_llama`.
pub struct Tiny {
    pub layers: u64,
    pub hidden: u64,
    pub feed_forward: u64,
    pub heads: u64,
    pub kv_heads: u64,
    pub vocabulary: u64,
}

impl Tiny {
    /// As small as a tensor type allows: rows are whole blocks.
    pub fn of(kind: TensorType) -> Self {
        let (hidden, feed_forward) = if kind.block_elements() > 32 { (256, 512) } else { (64, 96) };
        Self { layers: 2, hidden, feed_forward, heads: 4, kv_heads: 2, vocabulary: tiny_tokens().len() as u64 }
    }
}

/// Byte-level BPE: three special tokens, the 256 bytes as GPT-2 writes them, and a few merges.
pub fn tiny_tokens() -> Vec<String> {
    let mut tokens: Vec<String> = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"].map(str::to_owned).to_vec();
    let mut moved = 256u32;
    for byte in 0u32..256 {
        let printable = matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
        let code = if printable { byte } else { moved };
        moved += u32::from(!printable);
        tokens.push(char::from_u32(code).unwrap().to_string());
    }
    tokens.extend(TINY_MERGES.map(|merge| merge.replace(' ', "")));
    tokens
}

pub const TINY_MERGES: [&str; 3] = ["h e", "l l", "he ll"];

/// A whole llama with tied embeddings, its matrices of one type and random.
pub fn tiny_llama(kind: TensorType) -> GgufWriter {
    let Tiny { layers, hidden, feed_forward, heads, kv_heads, vocabulary } = Tiny::of(kind);
    let mut rng = ChaCha8Rng::seed_from_u64(u64::from(kind.id()));
    let mut file = GgufWriter::default();
    let tokens = tiny_tokens();
    file.key("general.architecture", text("llama"))
        .key("general.name", text("Tiny"))
        .key("llama.block_count", u32_value(layers as u32))
        .key("llama.context_length", u32_value(512))
        .key("llama.embedding_length", u32_value(hidden as u32))
        .key("llama.feed_forward_length", u32_value(feed_forward as u32))
        .key("llama.attention.head_count", u32_value(heads as u32))
        .key("llama.attention.head_count_kv", u32_value(kv_heads as u32))
        .key("llama.attention.layer_norm_rms_epsilon", f32_value(1e-5))
        .key("llama.rope.freq_base", f32_value(10_000.0))
        .key("tokenizer.ggml.model", text("gpt2"))
        .key("tokenizer.ggml.pre", text("smollm"))
        .key("tokenizer.ggml.tokens", array(8, tokens.iter().map(|token| text(token))))
        .key("tokenizer.ggml.token_type", array(4, (0..tokens.len()).map(|id| u32_value(if id < 3 { 3 } else { 1 }))))
        .key("tokenizer.ggml.merges", array(8, TINY_MERGES.map(text)))
        .key("tokenizer.ggml.bos_token_id", u32_value(1))
        .key("tokenizer.ggml.eos_token_id", u32_value(2))
        .key("tokenizer.chat_template", text("{{ messages[0]['content'] }}"));
    let mut matrix = |file: &mut GgufWriter, name: &str, k: u64, n: u64| {
        let bytes = random_blocks(kind, (k * n) as usize, &mut rng);
        file.tensor(name, kind.id(), &[k, n], bytes);
    };
    matrix(&mut file, "token_embd.weight", hidden, vocabulary);
    let kv = hidden / heads * kv_heads;
    let norm: Vec<f32> = (0..hidden).map(|k| 1.0 + k as f32 / 512.0).collect();
    for layer in 0..layers {
        let name = |part: &str| format!("blk.{layer}.{part}.weight");
        file.floats(&name("attn_norm"), &norm).floats(&name("ffn_norm"), &norm);
        matrix(&mut file, &name("attn_q"), hidden, hidden);
        matrix(&mut file, &name("attn_k"), hidden, kv);
        matrix(&mut file, &name("attn_v"), hidden, kv);
        matrix(&mut file, &name("attn_output"), hidden, hidden);
        matrix(&mut file, &name("ffn_gate"), hidden, feed_forward);
        matrix(&mut file, &name("ffn_up"), hidden, feed_forward);
        matrix(&mut file, &name("ffn_down"), feed_forward, hidden);
    }
    file.floats("output_norm.weight", &norm);
    file
}

/// The size of a head of `tiny_qwen3`: not hidden / heads.
pub const QWEN3_HEAD: u64 = 32;

/// The same as a qwen3: heads of a size of their own, and norms over them.
pub fn tiny_qwen3(kind: TensorType) -> GgufWriter {
    let mut file = renamed(tiny_llama(kind), "qwen3");
    let Tiny { layers, hidden, heads, kv_heads, .. } = Tiny::of(kind);
    let mut rng = ChaCha8Rng::seed_from_u64(u64::from(kind.id()) + 100);
    file.key("qwen3.attention.key_length", u32_value(QWEN3_HEAD as u32));
    file.key("qwen3.attention.value_length", u32_value(QWEN3_HEAD as u32));
    for layer in 0..layers {
        let name = |part: &str| format!("blk.{layer}.{part}.weight");
        let [query, other] = [heads, kv_heads].map(|heads| heads * QWEN3_HEAD);
        for (part, k, n) in [
            ("attn_q", hidden, query),
            ("attn_k", hidden, other),
            ("attn_v", hidden, other),
            ("attn_output", query, hidden),
        ] {
            file.tensor(&name(part), kind.id(), &[k, n], random_blocks(kind, (k * n) as usize, &mut rng));
        }
        for part in ["attn_q_norm", "attn_k_norm"] {
            let norm: Vec<f32> = (0..QWEN3_HEAD).map(|_| rng.random_range(0.5..2.0)).collect();
            file.floats(&name(part), &norm);
        }
    }
    file
}

/// A llama under the name of another architecture.
pub fn renamed(mut file: GgufWriter, architecture: &str) -> GgufWriter {
    for (key, _) in &mut file.keys {
        if let Some(rest) = key.strip_prefix("llama.") {
            *key = format!("{architecture}.{rest}");
        }
    }
    file.key("general.architecture", text(architecture));
    file
}
