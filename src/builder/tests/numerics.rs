//! Do the written weights say what the file says? Every matrix of a tiny model is decoded from the operands of its node,
//! by the operators' definitions, and compared with the tensors' values, for each type that a tensor may have.
//!
//! What the operators then compute with them is tested end to end, with ONNX Runtime and the real model.

use half::f16;
use pretty_assertions::assert_eq;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::super::blocks::TensorType;
use super::super::repack::BLOCK;
use super::super::testing::{GgufWriter, QWEN3_HEAD, Tiny, random_blocks, renamed, tiny_llama, tiny_qwen3};
use super::{Built, CpuPrecision, built, built_in, every_combination, message};
use crate::onnx_file::NodeProto;

const HEAD: &str = "output.weight";
const EMBEDDING: &str = "token_embd.weight";

impl Built {
    /// The weights of a matrix product, row by row.
    fn matrix(&self, output: &str) -> Vec<f32> {
        let node = self.node(output);
        if node.op_type.as_deref() == Some("FusedMatMul") {
            assert_eq!(int(node, "transB"), 1, "{output}");
            return self.widened(&node.input[1]);
        }
        assert_eq!(node.op_type.as_deref(), Some("MatMulNBits"), "{output}");
        let found = self.decode(node, &node.input[1], &node.input[2], node.input.get(3), int(node, "K"));
        assert_eq!(found.len(), int(node, "N") * int(node, "K"), "{output}");
        found
    }

    /// Values in float32, or in float16 that a node makes float32 of.
    fn widened(&self, name: &str) -> Vec<f32> {
        let Some(node) = self.graph().node.iter().find(|node| node.output == [name]) else { return self.floats(name) };
        assert_eq!((node.op_type.as_deref(), int(node, "to")), (Some("Cast"), 1), "{name}");
        self.halves(&node.input[0])
    }

    fn halves(&self, name: &str) -> Vec<f32> {
        self.bytes(name).as_chunks::<2>().0.iter().map(|bytes| f16::from_le_bytes(*bytes).to_f32()).collect()
    }

    /// The rows that the embedding looks up.
    fn embedding(&self) -> Vec<f32> {
        let node = self.node("embedding");
        let node = match node.op_type.as_deref() {
            Some("Gather") => return self.floats(&node.input[0]),
            Some("Cast") => return self.halves(&self.node(&node.input[0]).input[0]),
            _ => self.node("embedding/blocks"),
        };
        assert_eq!(node.op_type.as_deref(), Some("GatherBlockQuantized"));
        assert_eq!(int(node, "gather_axis"), 0);
        let k = self.integers("embedding.shape")[2] as usize;
        self.decode(node, &node.input[0], &node.input[2], node.input.get(3), k)
    }

    /// `scale * (quant - zero_point)`, as both operators define it, for rows of `k` values.
    fn decode(&self, node: &NodeProto, quants: &str, scales: &str, zero_points: Option<&String>, k: usize) -> Vec<f32> {
        let (bits, size) = (int(node, "bits"), int(node, "block_size"));
        let (quants, scales) = (self.bytes(quants), self.floats(scales));
        let zero_points = zero_points.filter(|name| !name.is_empty()).map(|name| self.bytes(name));
        assert_eq!(quants.len() * 8 / bits, scales.len() * size);
        // Numbers lie in as few bytes as they can, the first in the low bits.
        let number = |bytes: &[u8], index: usize| bytes[index * bits / 8] >> (index * bits % 8) & (0xff >> (8 - bits));
        let blocks = k / size;
        let weight = |index: usize| {
            let block = index / size;
            let zero_point = match zero_points {
                // Those of each row begin a byte.
                Some(bytes) => number(&bytes[block / blocks * (blocks * bits).div_ceil(8)..], block % blocks),
                None => 1 << (bits - 1),
            };
            scales[block] * (f32::from(number(quants, index)) - f32::from(zero_point))
        };
        (0..scales.len() * size).map(weight).collect()
    }
}

fn int(node: &NodeProto, name: &str) -> usize {
    let found = node.attribute.iter().find(|attribute| attribute.name.as_deref() == Some(name));
    found.unwrap().i.unwrap() as usize
}

/// The tensor's values by its type's definition, rows in the file's order.
fn original(file: &GgufWriter, name: &str) -> Vec<f32> {
    let (_, kind, shape, bytes) = file.tensors.iter().find(|(tensor, ..)| tensor == name).unwrap();
    let mut values = vec![0.0; shape.iter().product::<u64>() as usize];
    TensorType::from_id(*kind).unwrap().dequantize(bytes, &mut values);
    values
}

/// Puts rows back that llama.cpp's converter moved: `reshape(heads, d / 2, 2, width)`, then swap the middle axes.
fn halves(values: &[f32], width: usize, head_size: usize) -> Vec<f32> {
    let mut result = Vec::new();
    for head in values.chunks(head_size * width) {
        for first in [0, 1] {
            head.chunks(width).skip(first).step_by(2).for_each(|row| result.extend(row));
        }
    }
    result
}

/// Compares what was written with what was meant, to the accuracy that type and precision promise.
fn compare_in(precision: CpuPrecision, kind: TensorType, what: &str, found: &[f32], expected: &[f32]) {
    match precision {
        CpuPrecision::Int4(_) if what.ends_with("output") || what.ends_with("gate_up") => match kind {
            TensorType::Q4_0 => compare(kind, what, found, expected),
            _ => {
                assert_eq!(found.len(), expected.len(), "{kind} {what}");
                let square = |values: &mut dyn Iterator<Item = f32>| values.map(|value| value * value).sum::<f32>();
                let error = square(&mut found.iter().zip(expected).map(|(found, expected)| found - expected));
                // Half a step of 15 over a range of some four standard deviations, and a little less by its rounding.
                let noise = error / square(&mut expected.iter().copied());
                assert!((1e-4..0.012).contains(&noise), "{kind} {what}: {noise}");
            }
        },
        CpuPrecision::Int4(_) | CpuPrecision::Int8 => compare(kind, what, found, expected),
        CpuPrecision::Fp16 => {
            let rounded: Vec<f32> = expected.iter().map(|value| f16::from_f32(*value).to_f32()).collect();
            assert!(found == rounded, "{kind} {what}");
        }
        CpuPrecision::Fp32 => assert!(found == expected, "{kind} {what}"),
    }
}

/// For 8 bits.
fn compare(kind: TensorType, what: &str, found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "{kind} {what}");
    if matches!(kind, TensorType::Q4_0 | TensorType::Q5_0 | TensorType::Q8_0) {
        assert!(found == expected, "{kind} {what}: these types are lossless");
        return;
    }
    for (block, (found, expected)) in found.chunks(BLOCK).zip(expected.chunks(BLOCK)).enumerate() {
        let errors = || found.iter().zip(expected).map(|(found, expected)| (found - expected).abs());
        let largest = errors().fold(0.0, f32::max);
        if kind == TensorType::Q4_1 {
            let step = smallest_gap(expected);
            assert!(largest <= step / 34.0 * 1.001, "{kind} {what}, block {block}: {largest}, a step is {step}");
            continue;
        }
        // 256 levels over the block's range with zero on one of them. Least squares may clip an end of the range by a
        // level and a little for the sake of the others; the whole block stays as good as rounding, half a level.
        let low = expected.iter().copied().fold(0.0, f32::min);
        let high = expected.iter().copied().fold(0.0, f32::max);
        let level = (high - low) / 255.0;
        let mean = (errors().map(|error| error * error).sum::<f32>() / BLOCK as f32).sqrt();
        assert!(largest <= level * 1.1, "{kind} {what}, block {block}: {largest}, a level is {level}");
        assert!(mean <= level * 0.5, "{kind} {what}, block {block}: {mean}, a level is {level}");
    }
}

/// The scale of a Q4_1 block, seen in its values: two of 32 random quants are neighbours.
fn smallest_gap(values: &[f32]) -> f32 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f32::total_cmp);
    let gaps = sorted.windows(2).map(|pair| pair[1] - pair[0]);
    // Equal quants give equal values.
    gaps.filter(|gap| *gap > 0.0).fold(f32::INFINITY, f32::min)
}

/// Every matrix of a layer, as the graph should have it, beside the name of its node.
fn layer(file: &GgufWriter, kind: TensorType, layer: usize, interleaved: bool) -> [(String, Vec<f32>); 4] {
    let Tiny { hidden, heads, .. } = Tiny::of(kind);
    let part = |name: &str| original(file, &format!("blk.{layer}.{name}.weight"));
    let turned = |name: &str| match interleaved {
        true => halves(&part(name), hidden as usize, (hidden / heads) as usize),
        false => part(name),
    };
    [
        ("qkv", [turned("attn_q"), turned("attn_k"), part("attn_v")].concat()),
        ("output", part("attn_output")),
        ("gate_up", [part("ffn_gate"), part("ffn_up")].concat()),
        ("down", part("ffn_down")),
    ]
    .map(|(name, values)| (format!("layers.{layer}.{name}"), values))
}

#[test]
fn every_tensor_type_gives_the_matrices_it_holds() {
    for (kind, precision) in every_combination() {
        let file = tiny_llama(kind);
        let built = built_in(&file, precision);
        for (node, expected) in [0, 1].into_iter().flat_map(|index| layer(&file, kind, index, true)) {
            compare_in(precision, kind, &node, &built.matrix(&node), &expected);
        }
        // Tied: one matrix looks tokens up and makes logits.
        let expected = original(&file, EMBEDDING);
        compare_in(precision, kind, "embedding", &built.embedding(), &expected);
        assert_eq!(built.matrix("logits"), built.embedding(), "{kind} {precision}");
    }
}

#[test]
fn an_output_projection_of_its_own_is_used() {
    for (kind, precision) in every_combination() {
        let mut file = tiny_llama(kind);
        let Tiny { hidden, vocabulary, .. } = Tiny::of(kind);
        let mut rng = ChaCha8Rng::seed_from_u64(77);
        let bytes = random_blocks(kind, (hidden * vocabulary) as usize, &mut rng);
        file.tensor(HEAD, kind.id(), &[hidden, vocabulary], bytes);
        let built = built_in(&file, precision);
        assert!(original(&file, HEAD) != original(&file, EMBEDDING));
        compare_in(precision, kind, "head", &built.matrix("logits"), &original(&file, HEAD));
        compare_in(precision, kind, "embedding", &built.embedding(), &original(&file, EMBEDDING));
    }
}

/// As real files are: K-quants beside each other, and the head in more bits than the rest.
#[test]
fn types_may_differ_between_the_parts_of_a_matrix() {
    let mut file = tiny_llama(TensorType::Q4_0);
    let Tiny { hidden, heads, kv_heads, vocabulary, .. } = Tiny::of(TensorType::Q4_0);
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let mut matrix = |name: &str, kind: TensorType, n: u64| {
        file.tensor(name, kind.id(), &[hidden, n], random_blocks(kind, (hidden * n) as usize, &mut rng));
    };
    matrix("blk.0.attn_v.weight", TensorType::Q8_0, hidden / heads * kv_heads);
    matrix("blk.1.attn_v.weight", TensorType::F16, hidden / heads * kv_heads);
    matrix(HEAD, TensorType::Q8_0, vocabulary);
    let built = built(&file);
    let [(name, expected), ..] = layer(&file, TensorType::Q4_0, 0, true);
    assert!(built.matrix(&name) == expected, "Q4_0 beside Q8_0: both exact in 8 bits");
    let [(name, expected), ..] = layer(&file, TensorType::Q4_0, 1, true);
    let (found, value_rows) = (built.matrix(&name), expected.len() / 4 * 3);
    compare(TensorType::Q4_0, "query and key", &found[..value_rows], &expected[..value_rows]);
    compare(TensorType::F16, "value", &found[value_rows..], &expected[value_rows..]);
    assert!(built.matrix("logits") == original(&file, HEAD));
}

#[test]
fn qwen2_rows_stay_where_they_are() {
    let file = renamed(tiny_llama(TensorType::Q8_0), "qwen2");
    let built = built(&file);
    for (node, expected) in layer(&file, TensorType::Q8_0, 0, false) {
        assert!(built.matrix(&node) == expected, "{node}");
    }
    assert_eq!(built.json("genai_config.json")["model"]["type"], "qwen2");
}

#[test]
fn qwen3_heads_are_normed_before_attention() {
    let file = tiny_qwen3(TensorType::Q8_0);
    let built = built(&file);
    let Tiny { hidden, heads, kv_heads, .. } = Tiny::of(TensorType::Q8_0);
    assert_ne!(heads * QWEN3_HEAD, hidden);
    for (node, expected) in layer(&file, TensorType::Q8_0, 1, false) {
        assert!(built.matrix(&node) == expected, "{node}");
    }
    let (query, other) = ((heads * QWEN3_HEAD) as i64, (kv_heads * QWEN3_HEAD) as i64);
    assert_eq!(built.integers("qkv.sizes"), [query, other, other]);
    let attention = built.node("layers.1.attention");
    let split = ["query", "key", "value"].map(|part| format!("layers.1.{part}"));
    assert_eq!(built.node(&split[0]).output, split);
    assert_eq!(attention.input[2], split[2], "values have no norm");
    for (index, (part, tensor)) in [("query", "attn_q_norm"), ("key", "attn_k_norm")].into_iter().enumerate() {
        // From the attention operator back to the projection.
        let join = built.node(&attention.input[index]);
        let norm = built.node(&join.input[0]);
        let cut = built.node(&norm.input[0]);
        let kinds = [join, norm, cut].map(|node| node.op_type.as_deref());
        assert_eq!(kinds, [Some("Reshape"), Some("SimplifiedLayerNormalization"), Some("Reshape")]);
        assert_eq!(built.integers(&cut.input[1]), [0, 0, -1, QWEN3_HEAD as i64]);
        assert_eq!(cut.input[0], format!("layers.1.{part}"));
        assert_eq!(built.floats(&norm.input[1]), original(&file, &format!("blk.1.{tensor}.weight")));
    }
    assert_eq!(built.json("genai_config.json")["model"]["type"], "qwen3");
}

#[test]
fn a_head_of_another_width_is_refused() {
    let mut file = tiny_llama(TensorType::Q4_1);
    let Tiny { hidden, vocabulary, .. } = Tiny::of(TensorType::Q4_1);
    let mut rng = ChaCha8Rng::seed_from_u64(77);
    let bytes = random_blocks(TensorType::Q6K, (256 * vocabulary) as usize, &mut rng);
    file.tensor(HEAD, TensorType::Q6K.id(), &[256, vocabulary], bytes);
    let expected = format!("{HEAD:?} has the shape [256, {vocabulary}], expected [{hidden}, {vocabulary}]");
    assert!(message(&file).contains(&expected), "{}", message(&file));
}
