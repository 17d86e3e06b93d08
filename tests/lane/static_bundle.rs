//! Static graphs on the CPU, in float32 and quantized.

use ortalk::decoder::{Decoder, StaticDecoder};
use pretty_assertions::assert_eq;

use crate::bundle::{CHUNK, CONTEXT, float, float_with_sink, quantized};

/// The largest difference from what the definition gives.
fn difference(found: &[f32], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    found.iter().zip(expected).map(|(found, expected)| (f64::from(*found) - expected).abs()).fold(0.0, f64::max)
}

fn cosine(found: &[f32], expected: &[f64]) -> f64 {
    let found = found.iter().map(|x| f64::from(*x));
    let products = found.clone().zip(expected).map(|(a, b)| a * b).sum::<f64>();
    let squares = found.map(|a| a * a).sum::<f64>() * expected.iter().map(|b| b * b).sum::<f64>();
    products / squares.sqrt()
}

#[test]
fn prompts_of_any_length_and_the_tokens_behind_them() {
    let built = float();
    let mut decoder = built.decoder();
    let tokens = built.tokens(CONTEXT);
    let expected = built.model.logits(&tokens);
    for length in [1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 3] {
        decoder.rewind(0);
        let all = decoder.forward_all(&tokens[..length]).unwrap();
        for (row, expected) in all.chunks(built.model.vocabulary()).zip(&expected) {
            assert!(difference(row, expected) < 1e-4, "{length}");
        }
        for next in length..length + 4 {
            decoder.forward(&tokens[next..=next]).unwrap();
            assert_eq!(decoder.position(), next + 1);
            assert!(difference(decoder.logits(), &expected[next]) < 1e-4, "{length}, then {next}");
        }
    }
}

#[test]
fn what_was_rewound_leaves_no_trace() {
    for built in [float(), float_with_sink(), quantized()] {
        let tokens = built.tokens(CONTEXT);
        let (turn, next) = (&tokens[..CHUNK + 3], &tokens[CHUNK + 3..3 * CHUNK]);
        let answer = |decoder: &mut StaticDecoder| {
            let mut logits = Vec::new();
            for part in [next, &tokens[40..41], &tokens[41..42]] {
                decoder.forward(part).unwrap();
                logits.extend(decoder.logits().iter().map(|logit| logit.to_bits()));
            }
            logits
        };
        let mut fresh = built.decoder();
        fresh.forward(turn).unwrap();
        let expected = answer(&mut fresh);

        let mut used = built.decoder();
        used.forward(turn).unwrap();
        // Fills the cache behind the turn with something else, and rewinds into it.
        used.forward(&tokens.iter().rev().take(CONTEXT - turn.len()).copied().collect::<Vec<_>>()).unwrap();
        assert_eq!(used.position(), CONTEXT);
        used.rewind(turn.len());
        assert!(answer(&mut used) == expected);
        // A new conversation over the old one.
        used.rewind(0);
        used.forward(turn).unwrap();
        assert!(answer(&mut used) == expected);
    }
}

#[test]
fn a_constant_first_token_is_as_good_as_a_computed_one() {
    let built = float_with_sink();
    let mut decoder = built.decoder();
    let tokens = built.tokens(2 * CHUNK + 3);
    let expected = built.model.logits(&tokens);
    let all = decoder.forward_all(&tokens).unwrap();
    for (row, expected) in all.chunks(built.model.vocabulary()).zip(&expected) {
        assert!(difference(row, expected) < 1e-4);
    }
    // Token by token, from the first one on.
    decoder.rewind(0);
    for (position, expected) in expected.iter().enumerate() {
        decoder.forward(&tokens[position..=position]).unwrap();
        assert!(difference(decoder.logits(), expected) < 1e-4, "{position}");
    }
    decoder.rewind(0);
    let error = decoder.forward(&tokens[1..]).unwrap_err().to_string();
    assert!(error.contains("sequences that start with token 1"), "{error}");
}

#[test]
fn integer_graphs_follow_the_definition() {
    let built = quantized();
    let quantization = built.bundle().quantization.unwrap();
    assert_eq!(quantization.keys.len(), 2);
    let mut decoder = built.decoder();
    let tokens = built.tokens(2 * CHUNK + 3);
    let expected = built.model.logits(&tokens);
    let all = decoder.forward_all(&tokens[..CHUNK + 5]).unwrap().to_vec();
    // Behind the first token, for which they are not made.
    for (row, expected) in all.chunks(built.model.vocabulary()).zip(&expected).skip(1) {
        assert!(cosine(row, expected) > 0.99);
    }
    for position in CHUNK + 5..tokens.len() {
        decoder.forward(&tokens[position..=position]).unwrap();
        assert!(cosine(decoder.logits(), &expected[position]) > 0.99, "{position}");
    }
}

#[test]
fn the_context_is_the_limit() {
    let built = float();
    let mut decoder = built.decoder();
    let tokens = built.tokens(CONTEXT + 1);
    let error = decoder.forward(&tokens).unwrap_err().to_string();
    assert!(error.contains("49 more tokens do not fit after 0: the context holds 48"), "{error}");
    decoder.forward(&tokens[..CONTEXT]).unwrap();
    let expected = built.model.logits(&tokens[..CONTEXT]).pop().unwrap();
    assert!(difference(decoder.logits(), &expected) < 1e-4);
    assert!(decoder.forward(&tokens[CONTEXT..]).is_err());
    assert_eq!(decoder.position(), decoder.context_limit());
}

#[test]
fn an_observer_sees_every_pass() {
    let built = float_with_sink();
    let mut bundle = built.bundle();
    bundle.files.prefill = "prefill_observed.onnx".into();
    bundle.files.decode = "decode_observed.onnx".into();
    let mut decoder = built.decoder_of(bundle).unwrap();
    let mut passes = Vec::new();
    let mut names = Vec::new();
    let observer = &mut |observed: &ortalk::decoder::Observed<'_>| {
        assert_eq!(observed.values.len(), observed.shape.iter().product::<usize>());
        if observed.name == "output_hidden_states" {
            passes.push((observed.position, observed.rows, observed.shape[1]));
        }
        if passes.len() == 1 {
            names.push(observed.name.to_owned());
        }
    };
    decoder.forward_observed(&built.tokens(2 * CHUNK + 2), observer).unwrap();
    assert_eq!(passes, [(1, CHUNK, CHUNK), (1 + CHUNK, CHUNK, CHUNK), (1 + 2 * CHUNK, 1, 1)]);
    assert!(names.iter().any(|name| name == "present.1.value"), "{names:?}");
    assert!(names.len() > 20, "{names:?}");
}

#[test]
fn graphs_that_are_not_as_described_are_refused() {
    let built = float_with_sink();
    let refusal = |change: &dyn Fn(&mut ortalk::model::NpuBundle)| {
        let mut bundle = built.bundle();
        change(&mut bundle);
        built.decoder_of(bundle).err().unwrap().to_string()
    };
    let cases = [
        (
            refusal(&|b| b.context = 40),
            "'prefill.onnx' takes 'mask' as f32 [1, 1, 8, 56], but its model folder says f32 [1, 1, 8, 48]",
        ),
        (
            refusal(&|b| b.layers = 1),
            "sink.bin' is not right: it has 512 bytes; the keys and values of one token are 256",
        ),
        (refusal(&|b| b.hidden = 32), "'embeddings.onnx' gives 'hidden_states'"),
        (refusal(&|b| b.vocabulary = 5), "'lm_head.onnx' gives 'logits'"),
        (
            refusal(&|b| std::mem::swap(&mut b.files.prefill, &mut b.files.decode)),
            "'decode.onnx' takes 'hidden_states'",
        ),
        (refusal(&|b| b.sink.as_mut().unwrap().file = "none".into()), "none' is not right"),
    ];
    for (message, expected) in cases {
        assert!(message.contains(expected), "{message}");
    }
}
