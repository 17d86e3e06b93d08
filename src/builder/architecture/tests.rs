//! Keys that change what a model computes, on tiny files. What it then computes is compared with transformers in
//! `tests/lane` and `tests/npu`.

use pretty_assertions::assert_eq;

use super::*;
use crate::builder::blocks::TensorType;
use crate::builder::testing::{Encoded, GgufWriter, array, boolean, f32_value, renamed, text, tiny_llama, u32_value};

fn tiny(architecture: &str, keys: impl IntoIterator<Item = (&'static str, Encoded)>) -> GgufWriter {
    let mut file = renamed(tiny_llama(TensorType::Q8_0), architecture);
    for (key, value) in keys {
        file.key(&format!("{architecture}.{key}"), value);
    }
    file
}

fn dimensions(file: &GgufWriter) -> Dimensions {
    let bytes = file.bytes();
    let gguf = Gguf::parse(&bytes).unwrap();
    Dimensions::read(&gguf, of(&gguf).unwrap()).unwrap()
}

fn windows(dimensions: &Dimensions) -> Vec<Option<usize>> {
    (0..dimensions.layers).map(|layer| dimensions.window(layer)).collect()
}

#[test]
fn layers_have_windows_by_period_or_by_list() {
    let with = |architecture: &str, layers: u32, pattern: Option<Encoded>| {
        let window = [("attention.sliding_window", u32_value(9)), ("block_count", u32_value(layers))];
        let keys = window.into_iter().chain(pattern.map(|pattern| ("attention.sliding_window_pattern", pattern)));
        let found = dimensions(&tiny(architecture, keys));
        (windows(&found), found.common_window(), found.own_window())
    };
    let (yes, no) = (Some(9), None);
    for (architecture, layers, pattern, expected) in [
        ("llama", 2, None, (vec![yes, yes], yes, no)),
        ("phi3", 1, None, (vec![yes], yes, no)),
        ("gemma3", 7, None, (vec![yes, yes, yes, yes, yes, no, yes], no, yes)),
        ("gemma3", 4, Some(u32_value(2)), (vec![yes, no, yes, no], no, yes)),
        ("gemma3", 2, Some(u32_value(0)), (vec![yes, yes], yes, no)),
        ("gemma3", 2, Some(u32_value(1)), (vec![no, no], no, no)),
        ("llama", 2, Some(array(7, [false, true].map(boolean))), (vec![no, yes], no, yes)),
    ] {
        assert_eq!(with(architecture, layers, pattern), expected, "{architecture} {layers}");
    }
    // A window that reaches over the whole context is none.
    let mut wide = dimensions(&tiny("llama", [("attention.sliding_window", u32_value(512))]));
    assert_eq!(windows(&wide), [no, no]);
    assert_eq!((wide.limit_context(513), wide.limit_context(1)), (Err(512), Err(512)));
    let mut narrow = dimensions(&tiny("llama", [("attention.sliding_window", u32_value(100))]));
    assert_eq!(windows(&narrow), [Some(100); 2]);
    narrow.limit_context(100).unwrap();
    assert_eq!(windows(&narrow), [no, no]);
}

#[test]
fn layers_with_a_window_turn_by_a_base_of_their_own() {
    let linear = [("rope.scaling.factor", f32_value(4.0)), ("rope.freq_base", f32_value(1e6))];
    let period = [("attention.sliding_window", u32_value(9)), ("attention.sliding_window_pattern", u32_value(2))];
    let found = dimensions(&tiny("gemma3", linear.into_iter().chain(period)));
    assert_eq!([0, 1].map(|layer| found.has_own_rotary(layer)), [true, false]);
    // Pair 2 of 8: base^(-1/4).
    let turns = [false, true].map(|own| found.rotary(own).frequencies[2]);
    assert!((turns[0] - 1e6_f64.powf(-0.25) / 4.0).abs() < 1e-12 && (turns[1] - 0.1).abs() < 1e-12, "{turns:?}");
    // Where there are no others, theirs is everybody's.
    let all = [("attention.sliding_window", u32_value(9)), ("rope.freq_base_swa", f32_value(1e4))];
    let found = dimensions(&tiny("gemma3", all));
    assert_eq!([0, 1].map(|layer| found.has_own_rotary(layer)), [false, false]);
    assert!((found.rotary(false).frequencies[2] - 0.1).abs() < 1e-12);
}

#[test]
fn the_longest_sequence_chooses_the_table() {
    let original = ("rope.scaling.original_context_length", u32_value(64));
    let mut file = tiny("phi3", [original, ("rope.scaling.attn_factor", f32_value(1.25))]);
    file.floats(ROPE_FACTORS_SHORT, &[1.0; 8]).floats(ROPE_FACTORS_LONG, &[2.0; 8]);
    let mut found = dimensions(&file);
    for (context, first) in [(512, 0.5), (65, 0.5), (64, 1.0)] {
        found.limit_context(context).unwrap();
        let Rotary { frequencies, magnitude } = found.rotary(false);
        assert_eq!((frequencies[0], *magnitude), (first, 1.25), "{context}");
    }
}

/// By hand, for 16 values, a base of 10,000 and 64 tokens: pair i turns 64 / (2 pi 10^(i / 2)) times. 32 turns are those of a
/// pair before the first; one turn is that of pair 2.02, and so all from pair 3 on are slowed by 4.
#[test]
fn yarn_slows_what_turns_seldom() {
    let keys = [
        ("rope.scaling.type", text("yarn")),
        ("rope.scaling.factor", f32_value(4.0)),
        ("rope.scaling.original_context_length", u32_value(64)),
    ];
    let found = dimensions(&tiny("qwen2", keys));
    let Rotary { frequencies, magnitude } = found.rotary(false);
    assert!((magnitude - (1.0 + 0.1 * 4_f64.ln())).abs() < 1e-12);
    for (pair, slowed) in [0.0, 1.0 / 3.0, 2.0 / 3.0, 1.0, 1.0, 1.0, 1.0, 1.0].into_iter().enumerate() {
        let expected = 10_f64.powf(-0.5 * pair as f64) * (slowed / 4.0 + 1.0 - slowed);
        assert!((frequencies[pair] / expected - 1.0).abs() < 1e-6, "pair {pair}: {} {expected}", frequencies[pair]);
    }
}

#[test]
fn heads_may_be_turned_in_part() {
    let keys = [("attention.head_count", 2), ("attention.head_count_kv", 1), ("rope.dimension_count", 16)];
    let found = dimensions(&tiny("phi3", keys.map(|(key, value)| (key, u32_value(value)))));
    assert_eq!((found.head_size, found.rotary(false).frequencies.len()), (32, 8));
    assert_eq!(found.rotary(false).frequencies[4], 10_000_f64.powf(-0.5));
}

#[test]
fn scores_have_their_scale_and_caps() {
    let plain = dimensions(&tiny("llama", []));
    assert_eq!(
        (plain.score_scale, plain.score_softcap, plain.logit_softcap, plain.embedding_scale),
        (0.25, None, None, None)
    );
    let caps = [("attn_logit_softcapping", f32_value(50.0)), ("final_logit_softcapping", f32_value(30.0))];
    let capped = dimensions(&tiny("gemma3", caps.into_iter().chain([("attention.scale", f32_value(0.5))])));
    assert_eq!((capped.score_scale, capped.score_softcap, capped.logit_softcap), (0.5, Some(50.0), Some(30.0)));
    assert_eq!(capped.embedding_scale, Some(8.0));
    // The largest: hidden / heads is 16, a head has 32 values.
    let largest = [("block_count", u32_value(62)), ("attention.key_length", u32_value(32))];
    assert_eq!(dimensions(&tiny("gemma3", largest)).score_scale, 0.25);
}

#[test]
fn matrices_that_hold_several_are_cut() {
    let mut file = tiny("phi3", []);
    for layer in 0..2 {
        let name = |part: &str| format!("blk.{layer}.{part}.weight");
        for (fused, parts) in [("attn_qkv", &["attn_q", "attn_k", "attn_v"][..]), ("ffn_up", &["ffn_gate", "ffn_up"])] {
            let (mut rows, mut bytes) = (0, Vec::new());
            for part in parts {
                let (_, _, shape, values) = file.tensors.iter().find(|(tensor, ..)| *tensor == name(part)).unwrap();
                rows += shape[1];
                bytes.extend(values);
            }
            parts.iter().for_each(|part| {
                file.without_tensor(&name(part));
            });
            file.tensor(&name(fused), TensorType::Q8_0.id(), &[64, rows], bytes);
        }
    }
    let whole = tiny("phi3", []).bytes();
    let whole = Gguf::parse(&whole).unwrap();
    let bytes = file.bytes();
    let mut gguf = Gguf::parse(&bytes).unwrap();
    let architecture = of(&gguf).unwrap();
    let dimensions = Dimensions::read(&gguf, architecture).unwrap();
    split_fused(&mut gguf, architecture, &dimensions).unwrap();
    check_tensors(&gguf, architecture, 2).unwrap();
    assert!(gguf.tensors().eq(whole.tensors()));

    file.tensor("blk.1.attn_qkv.weight", TensorType::F32.id(), &[1, 7], vec![0; 28]);
    let bytes = file.bytes();
    let mut gguf = Gguf::parse(&bytes).unwrap();
    let error = split_fused(&mut gguf, architecture, &dimensions).unwrap_err().to_string();
    assert!(error.contains("\"blk.1.attn_qkv.weight\" has the shape [1, 7], expected [64, 128]"), "{error}");
}

#[test]
fn what_cannot_be_turned_is_refused() {
    let message = |architecture: &str, key, value| {
        let bytes = tiny(architecture, [(key, value)]).bytes();
        let gguf = Gguf::parse(&bytes).unwrap();
        Dimensions::read(&gguf, of(&gguf).unwrap()).unwrap_err().to_string()
    };
    for (found, expected) in [
        (
            message("llama", "rope.scaling.type", text("dynamic")),
            "is \"dynamic\", expected \"none\", \"linear\", \"yarn\" or \"longrope\"",
        ),
        (message("llama", "rope.scaling.type", text("yarn")), "rope.scaling.factor\" is missing, expected at least 1"),
        (message("gemma3", "rope.freq_base_swa", f32_value(0.5)), "rope.freq_base_swa\" is 0.5, expected at least 1"),
        (message("phi3", "rope.scaling.attn_factor", f32_value(0.0)), "attn_factor\" is 0, expected more than 0"),
        (message("gemma3", "attention.scale", f32_value(-1.0)), "attention.scale\" is -1, expected more than 0"),
    ] {
        assert!(found.contains(expected), "{found}\nshould contain\n{expected}");
    }
}
