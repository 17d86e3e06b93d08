//! Pipelines as WinML CLI and Olive lay them out, which `tests/fixtures/make_pipelines.py` wrote with what their model's
//! definition gives.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ortalk::decoder::{
    ChildDecoder, ChildOptions, Deadlines, DecodeError, Decoder, LaneProvider, LaneRequest, PipelineDecoder,
};
use ortalk::model::{GenaiConfig, read_config};
use pretty_assertions::assert_eq;

use crate::bundle::ONE_THREAD;
use crate::support::{library, runtime};

const CONTEXT: usize = 32;
const WINDOW: usize = 8;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/pipelines")
}

/// Tokens, and the logits after each of them.
#[derive(serde::Deserialize)]
struct Expected {
    tokens: Vec<u32>,
    logits: Vec<Vec<f32>>,
}

fn expected() -> Expected {
    serde_json::from_slice(&std::fs::read(fixtures().join("expected.json")).unwrap()).unwrap()
}

fn open(name: &str, change: &dyn Fn(&mut GenaiConfig)) -> Result<PipelineDecoder, DecodeError> {
    let folder = fixtures().join(name);
    let mut config = read_config(&folder).unwrap();
    change(&mut config);
    PipelineDecoder::new(&runtime(), &folder, &config, ONE_THREAD, &|graph| runtime().cpu_session(graph, ONE_THREAD))
}

fn difference(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len());
    found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// In float32; float16 has three digits.
const TOLERANCES: [(&str, f32); 2] = [("float32", 1e-4), ("float16", 2e-2)];

#[test]
fn prompts_of_any_length_and_the_tokens_behind_them() {
    let Expected { tokens, logits } = expected();
    for (name, tolerance) in TOLERANCES {
        let mut decoder = open(name, &|_| ()).unwrap();
        assert_eq!((decoder.context_limit(), decoder.prefill_chunk()), (CONTEXT, WINDOW));
        for length in [1, WINDOW - 1, WINDOW, WINDOW + 1, 2 * WINDOW + 3, CONTEXT - 3] {
            decoder.rewind(0);
            decoder.forward(&tokens[..length]).unwrap();
            assert!(difference(decoder.logits(), &logits[length - 1]) < tolerance, "{name}, {length}");
            for next in length..CONTEXT.min(length + 4) {
                decoder.forward(&tokens[next..=next]).unwrap();
                assert!(difference(decoder.logits(), &logits[next]) < tolerance, "{name}, {length}, then {next}");
            }
        }
    }
}

/// A second turn begins in the middle of a window, behind the padding of the first, and again after a rewind.
#[test]
fn turns_go_on_from_a_padded_window() {
    let Expected { tokens, logits } = expected();
    for (name, tolerance) in TOLERANCES {
        let mut decoder = open(name, &|_| ()).unwrap();
        let turns = [(0, 11), (11, 14), (14, 15), (15, 25), (3, 20), (20, CONTEXT)];
        for (start, end) in turns {
            decoder.rewind(start);
            assert_eq!(decoder.position(), start);
            decoder.forward(&tokens[start..end]).unwrap();
            assert!(difference(decoder.logits(), &logits[end - 1]) < tolerance, "{name}, {start}..{end}");
        }
        let error = decoder.forward(&tokens[..1]).unwrap_err().to_string();
        assert!(error.contains("the context holds 32"), "{error}");
    }
}

#[test]
fn a_child_runs_pipelines_too() {
    let Expected { tokens, logits } = expected();
    let request = LaneRequest {
        folder: fixtures().join("float16"),
        library: library().into(),
        provider: LaneProvider::Cpu,
        threads: 1,
    };
    let options = ChildOptions {
        executable: env!("CARGO_BIN_EXE_ortalk").into(),
        log: Arc::new(|_| ()),
        deadlines: Deadlines::default(),
    };
    let mut child = ChildDecoder::open(request, options).unwrap();
    let graphs: Vec<_> = child.ready().placement.iter().map(|graph| graph.graph.as_str()).collect();
    assert_eq!(graphs, ["context_0.onnx", "context_1.onnx", "iterator_0.onnx", "iterator_1.onnx"]);
    child.forward(&tokens[..20]).unwrap();
    assert!(difference(child.logits(), &logits[19]) < 2e-2);
}

#[test]
fn what_does_not_fit_together_is_named() {
    let refusal = |change: &dyn Fn(&mut GenaiConfig)| open("float32", change).err().unwrap().to_string();
    let cases = [
        (refusal(&|c| c.model.decoder.num_key_value_heads = 2), "'context.onnx' takes its cache 'past_keys_0' as"),
        (refusal(&|c| c.model.decoder.num_hidden_layers = 1), "'context.onnx' has the input 'past_keys_1'"),
        (refusal(&|c| c.model.decoder.num_hidden_layers = 3), "'context.onnx' has keys and values 4 times, but"),
        (refusal(&|c| c.model.decoder.hidden_size = 8), "'embeddings.onnx' gives 'hidden_0'"),
        (refusal(&|c| c.model.vocab_size = 7), "'lm_head.onnx' gives 'logits'"),
        (
            refusal(&|c| c.model.decoder.sliding_window.as_mut().unwrap().window_size = 4),
            "'context.onnx' takes 'hidden_0' as f32 [1, 8, 16], but its model folder says f32 [1, 4, 16]",
        ),
        (
            refusal(&|c| c.model.decoder.inputs.past_sequence_length = "other".into()),
            "'context.onnx' has no input 'other'",
        ),
        (
            refusal(&|c| c.model.decoder.sliding_window.as_mut().unwrap().slide_key_value_cache = true),
            "its cache slides, as in Qualcomm AI Hub's layout",
        ),
    ];
    for (message, expected) in cases {
        assert!(message.contains(expected), "{message}");
    }
}
