use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;
use crate::decoder::plain::outline::GraphNode;

const FLOAT: TensorElementType = TensorElementType::Float32;
const LONG: TensorElementType = TensorElementType::Int64;

fn port(name: &str, element: TensorElementType, shape: &[Option<usize>]) -> GraphPort {
    GraphPort { name: name.into(), element: Some(element), shape: shape.to_vec() }
}

/// A graph of one layer, whose attention is this operator.
fn graph(operator: &str) -> GraphOutline {
    let cache = [None, Some(2), None, Some(8)];
    GraphOutline {
        inputs: vec![
            port("input_ids", LONG, &[None, None]),
            port("attention_mask", LONG, &[None, None]),
            port("past_key_values.7.key", FLOAT, &cache),
            port("past_key_values.7.value", FLOAT, &cache),
        ],
        optional_inputs: Vec::new(),
        rotary_positions: None,
        outputs: vec![
            port("logits", FLOAT, &[None, None, Some(36)]),
            port("present.7.key", FLOAT, &cache),
            port("present.7.value", FLOAT, &cache),
        ],
        nodes: vec![GraphNode {
            operator: operator.into(),
            inputs: ["q", "past_key_values.7.key", "past_key_values.7.value"].map(str::to_owned).into(),
        }],
    }
}

fn model() -> ModelConfig {
    serde_json::from_value(json!({
        "type": "llama", "context_length": 64, "vocab_size": 36,
        "decoder": {"filename": "m.onnx", "head_size": 16, "num_hidden_layers": 40, "num_key_value_heads": 4},
    }))
    .unwrap()
}

fn of(graph: &GraphOutline) -> Contract {
    Contract::of(graph, &model()).unwrap()
}

fn refusal(change: impl Fn(&mut GraphOutline)) -> String {
    let mut graph = graph("GroupQueryAttention");
    change(&mut graph);
    Contract::of(&graph, &model()).unwrap_err()
}

#[test]
fn sizes_and_layers_are_the_graphs() {
    let found = of(&graph("GroupQueryAttention"));
    let names: Vec<_> = found.cache.iter().map(|port| (port.past.as_str(), port.present.as_str())).collect();
    assert_eq!(
        names,
        [("past_key_values.7.key", "present.7.key"), ("past_key_values.7.value", "present.7.value")],
        "not the 40 layers of the configuration"
    );
    assert_eq!((found.cache[0].heads, found.cache[0].width), (2, 8));
    assert_eq!(found.position_ids, None);
    assert_eq!((found.wanted, found.logits.last_only), (Wanted::Given, false));
}

#[test]
fn a_token_takes_what_the_graph_keeps_of_it() {
    // Keys and values of one layer, in 2 heads of 8 numbers.
    assert_eq!(of(&graph("GroupQueryAttention")).token_bytes(), 2 * 2 * 8 * 4);
    let mut half = graph("GroupQueryAttention");
    half.inputs[2..].iter_mut().for_each(|port| port.element = Some(TensorElementType::Float16));
    assert_eq!(of(&half).token_bytes(), 2 * 2 * 8 * 2);
    // Past and present at once.
    assert_eq!(of(&graph("Concat")).token_bytes(), 2 * (2 * 2 * 8 * 4));
}

#[test]
fn what_the_graph_leaves_open_the_configuration_says() {
    let mut open = graph("Concat");
    open.inputs[2].shape = vec![None; 4];
    let found = of(&open);
    assert_eq!((found.cache[0].heads, found.cache[0].width), (4, 16));
}

#[test]
fn only_grouped_query_attention_shares_a_buffer() {
    assert_eq!(of(&graph("GroupQueryAttention")).kind, CacheKind::Shared);
    assert_eq!(of(&graph("MultiHeadAttention")).kind, CacheKind::Growing);
    assert_eq!(of(&graph("Concat")).kind, CacheKind::Growing);
    // Its length is asked for, too.
    let mut asked = graph("GroupQueryAttention");
    asked.nodes.push(GraphNode { operator: "Shape".into(), inputs: vec!["past_key_values.7.key".into()] });
    assert_eq!(of(&asked).kind, CacheKind::Growing);
    let mut nested = graph("GroupQueryAttention");
    nested.nodes.push(GraphNode { operator: "If".into(), inputs: vec!["use_cache_branch".into()] });
    assert_eq!(of(&nested).kind, CacheKind::Growing);
    let mut unseen = graph("GroupQueryAttention");
    unseen.nodes.clear();
    assert_eq!(of(&unseen).kind, CacheKind::Growing);
}

#[test]
fn every_input_that_is_fed_is_found() {
    let mut full = graph("Concat");
    let int = TensorElementType::Int32;
    full.inputs[1].element = Some(int);
    full.inputs.push(port("position_ids", LONG, &[None, None]));
    full.inputs.push(port("num_logits_to_keep", LONG, &[]));
    full.inputs.push(port("use_cache_branch", TensorElementType::Bool, &[Some(1)]));
    let found = of(&full);
    assert_eq!(found.attention_mask, Some(Integers { name: "attention_mask".into(), element: int }));
    assert_eq!(found.position_ids.map(|input| input.name).as_deref(), Some("position_ids"));
    let kept = Integers { name: "num_logits_to_keep".into(), element: LONG };
    assert_eq!(found.wanted, Wanted::Last(kept, Rank::Scalar));
    assert_eq!(found.cache_branch.as_deref(), Some("use_cache_branch"));
    let mut selecting = graph("Concat");
    selecting.optional_inputs.push(port("logits_index", LONG, &[None]));
    assert_eq!(of(&selecting).wanted, Wanted::Index("logits_index".into()));
}

#[test]
fn what_does_not_run_says_why() {
    for (input, expected) in [
        ("encoder_hidden_states", "encoder-decoder"),
        ("inputs_embeds", "vision-language"),
        ("pixel_values", "images or sound"),
        ("past_conv.0", "recurrent state"),
        ("past_key_values.0.recurrent_state", "recurrent state"),
        ("block_table", "paged cache"),
        ("past_key_values.0.key_scale", "part of a cache"),
        ("past_7", "part of a cache"),
        ("mystery", "'mystery', which is not known here"),
    ] {
        let found = refusal(|graph| graph.inputs.push(port(input, FLOAT, &[None])));
        assert!(found.contains(expected) && found.contains(input), "{found}");
    }
    let quantized = refusal(|graph| graph.inputs[2].element = Some(TensorElementType::Int8));
    assert!(quantized.contains("quantized, as i8 [n, 2, n, 8]"), "{quantized}");
    let text = refusal(|graph| graph.inputs[2].element = Some(LONG));
    assert!(text.contains("as i64 [n, 2, n, 8]; expected float32"), "{text}");
    let fixed = refusal(|graph| graph.inputs[2].shape[2] = Some(512));
    assert!(fixed.contains("fixed length of 512"), "{fixed}");
    let huge = refusal(|graph| graph.inputs[2].shape[3] = Some(usize::MAX));
    assert!(huge.contains("no model's is so large"), "{huge}");
    let one_way = refusal(|graph| graph.outputs.truncate(1));
    assert!(one_way.contains("gives no 'present.7.key'"), "{one_way}");
    let blind = refusal(|graph| graph.inputs.truncate(2));
    assert!(blind.contains("'past_key_values.%d.key'") && blind.contains("with its cache"), "{blind}");
    let silent = refusal(|graph| graph.outputs[0].name = "hidden".into());
    assert!(silent.contains("no output 'logits'"), "{silent}");
    let narrow = refusal(|graph| graph.outputs[0].shape[2] = Some(35));
    assert!(narrow.contains("f32 [n, n, 35]") && narrow.contains("vocab_size 36"), "{narrow}");
    let masked = refusal(|graph| graph.inputs[1].element = Some(FLOAT));
    assert!(masked.contains("'attention_mask' as f32 [n, n]; expected int64 or int32"), "{masked}");
    let placed = refusal(|graph| graph.inputs.push(port("position_ids", LONG, &[Some(3), None, None])));
    assert!(placed.contains("for images"), "{placed}");
}
