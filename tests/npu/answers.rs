//! `ortalk run` with both lanes over the two-layer model: which one answers, why, and how an answer moves.

use std::path::Path;
use std::process::{Command, Output};

use ortalk::decoder::{Decoder, DecoderOptions, PlainDecoder, StaticDecoder};
use ortalk::model::{ModelFolder, NpuBundle, TemplateMessage};
use ortalk::onnx_runtime::CpuSessionOptions;
use serde_json::{Value, json};

use crate::support::{home, library, ortalk, plugin, runtime, x_elite};
use crate::two_layers::two_layers;

const CONTEXT: usize = 512;
const CPU: CpuSessionOptions = CpuSessionOptions { threads: 2, spinning: false };

/// `ortalk run` on the two-layer model, taking the most likely token each time.
fn run(arguments: &[&str]) -> Command {
    library();
    plugin();
    let two_layers = two_layers();
    let mut command = ortalk(&home(), &["run", "--temperature", "0"]);
    command.arg("--model").arg(&two_layers.source).arg("--npu-model").arg(&two_layers.bundle).args(arguments);
    command
}

fn emulated(arguments: &[&str]) -> Output {
    run(&[&["--emulate-npu"], arguments].concat()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The answer, and what was said beside it.
fn answer(output: &Output) -> (Value, String) {
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    (serde_json::from_slice(&output.stdout).unwrap(), said)
}

fn refusal(output: &Output) -> String {
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), String::new()), "{said}");
    said
}

/// A question whose prompt has this many tokens: a word of one token, over and over.
fn question(tokens: usize) -> String {
    let empty = prompt("sea").len() - 1;
    let question = vec!["sea"; tokens - empty].join(" ");
    assert_eq!(prompt(&question).len(), tokens);
    question
}

fn folder() -> ModelFolder {
    ModelFolder::open(&two_layers().bundle).unwrap()
}

fn prompt(question: &str) -> Vec<u32> {
    let folder = folder();
    let message = TemplateMessage { role: "user", content: question };
    folder.tokenizer.encode(&folder.template.render(&[message], true).unwrap()).unwrap()
}

/// The most likely tokens behind a sequence, one after the other.
fn greedy(decoder: &mut dyn Decoder, sequence: &[u32], count: usize) -> Vec<u32> {
    let mut chosen = Vec::new();
    let mut next = sequence.to_vec();
    while chosen.len() < count {
        next.chunks(decoder.prefill_chunk()).for_each(|tokens| decoder.forward(tokens).unwrap());
        let logits = decoder.logits();
        let best = (0..logits.len()).reduce(|best, at| if logits[at] > logits[best] { at } else { best }).unwrap();
        next = vec![best as u32];
        chosen.extend(&next);
    }
    chosen
}

/// The bundle on the simulator, in this process.
fn npu() -> StaticDecoder {
    let (plugin, options) = (plugin(), x_elite());
    let session = |path: &Path| runtime().npu_session(path, &plugin, &options);
    let bundle = &two_layers().bundle;
    StaticDecoder::new(&runtime(), bundle, NpuBundle::read(bundle).unwrap(), CPU, &session).unwrap()
}

#[test]
fn a_short_question_is_answered_by_the_npu_as_a_whole() {
    let question = "What is the capital of France?";
    let (answer, said) = answer(&emulated(&["--json", "-n", "5", question]));
    assert_eq!(said, "");
    let routing = &answer["routing"];
    assert_eq!((&routing["lane"], &routing["emulated"]), (&json!("npu"), &json!(true)), "{answer}");
    assert_eq!((&routing["rule"], &routing["policy"]), (&json!("first_that_fits"), &json!("auto")));
    assert_eq!((&routing["prompt_tokens"], &routing["needed_tokens"]), (&json!(37), &json!(37 + 5)));
    assert_eq!((&routing["context_limit"], &routing["rejected"][0]["lane"]), (&json!(CONTEXT), &json!("cpu")));
    assert_eq!(answer["usage"]["completion_tokens_by_lane"], json!({"npu": 5}));
    assert_eq!(answer["lane_changes"], json!([]));

    let npu_lane = &answer["lanes"][0];
    assert_eq!(
        (&npu_lane["lane"], &npu_lane["state"], &npu_lane["emulated"]),
        (&"npu".into(), &"ready".into(), &true.into())
    );
    assert!(npu_lane["device"].as_str().unwrap().starts_with("simulator on"), "{npu_lane}");
    let graphs = npu_lane["placement"].as_array().unwrap();
    assert_eq!(graphs.iter().map(|graph| &graph["graph"]).collect::<Vec<_>>(), ["prefill", "decode"]);
    for graph in graphs {
        let nodes = graph["nodes"].as_object().unwrap();
        assert_eq!(nodes.keys().collect::<Vec<_>>(), ["QNNExecutionProvider"], "{graph}");
        assert!(nodes["QNNExecutionProvider"].as_u64().unwrap() > 0, "{graph}");
    }

    // What the bundle's own decoder says in this process, token by token.
    let tokens = greedy(&mut npu(), &prompt(question), 5);
    assert_eq!(answer["text"], folder().tokenizer.decode(&tokens).unwrap());
}

#[test]
fn what_the_npu_cannot_hold_goes_to_the_cpu_with_the_reason() {
    // Too long alone, and too long with an answer of the length that is expected.
    for (tokens, answered, needed) in [(600, 3, 603), (400, 1024, 400 + 128)] {
        let answered = answered.to_string();
        let (answer, said) = answer(&emulated(&["--json", "-n", &answered, "--stop", " ", &question(tokens)]));
        assert_eq!(said, "");
        let routing = &answer["routing"];
        assert_eq!((&routing["lane"], &routing["emulated"]), (&json!("cpu"), &json!(false)), "{answer}");
        assert_eq!(routing["prompt_tokens"], tokens);
        let rejected = &routing["rejected"][0];
        let reason = format!("{needed} tokens, context of {CONTEXT}");
        assert_eq!((&rejected["lane"], &rejected["reason"]), (&json!("npu"), &json!(reason)));
        assert_eq!(rejected["context_limit"], CONTEXT);
        assert!(answer["usage"]["completion_tokens_by_lane"].get("npu").is_none(), "{answer}");
    }
}

#[test]
fn an_answer_that_outgrows_the_npu_goes_on_on_the_cpu() {
    let (length, total) = (CONTEXT - 3, 12);
    let question = question(length);
    let (answer, said) = answer(&emulated(&["--json", "-n", &total.to_string(), "--policy", "npu", &question]));
    // The tokens that fill the context, and the one that was chosen by then.
    let on_npu = CONTEXT - length + 1;
    let reason = format!("the context of {CONTEXT} is full");
    assert_eq!(said, format!("ortalk: the answer goes on in the cpu lane, not npu: {reason}\n"));
    let change = json!({"from": "npu", "to": "cpu", "after_tokens": on_npu, "reason": reason});
    assert_eq!(answer["lane_changes"], json!([change]));
    assert_eq!((&answer["routing"]["lane"], &answer["routing"]["rule"]), (&json!("npu"), &json!("preferred")));
    assert_eq!(answer["usage"]["completion_tokens_by_lane"], json!({"npu": on_npu, "cpu": total - on_npu}));
    assert_eq!((&answer["usage"]["completion_tokens"], &answer["finish_reason"]), (&json!(total), &json!("length")));
    assert_eq!(answer["timings"]["token_latencies_ms"].as_array().unwrap().len(), total - 1);

    // No token is lost or said twice: first what the bundle says, then what the CPU's model says behind that.
    let mut sequence = prompt(&question);
    let mut said = greedy(&mut npu(), &sequence, on_npu);
    sequence.extend(&said);
    let for_cpu = tempfile::tempdir().unwrap();
    let for_cpu = for_cpu.path().join("cpu");
    ortalk::builder::build(&two_layers().source, &for_cpu, &Default::default(), &mut |_| {}).unwrap();
    let options = DecoderOptions { session: CPU, context: 1024 };
    let mut cpu = PlainDecoder::new(&runtime(), &ModelFolder::open(&for_cpu).unwrap(), options).unwrap();
    said.extend(greedy(&mut cpu, &sequence, total - on_npu));
    assert_eq!(answer["text"], folder().tokenizer.decode(&said).unwrap());
}

#[test]
fn who_asks_for_the_npu_gets_the_npu_or_an_error() {
    let long = question(600);
    let said = refusal(&emulated(&["--lane", "npu", &long]));
    let expected = "ortalk: the npu lane was asked for, but the last message needs 600 tokens with its template; a context of \
                    512 leaves room for ";
    assert!(said.starts_with(expected), "{said}");

    let (answer, _) = answer(&emulated(&["--lane", "npu", "--json", "-n", "2", "Hi"]));
    assert_eq!((&answer["routing"]["lane"], &answer["routing"]["rule"]), (&json!("npu"), &json!("requested")));
    assert_eq!(answer["usage"]["completion_tokens_by_lane"], json!({"npu": 2}));
    assert_eq!(answer["lanes"][1]["reason"], "not opened: npu was asked for");
}

#[test]
fn a_simulator_answers_only_where_it_was_asked_for() {
    let said = refusal(&run(&["--lane", "npu", "Hi"]).output().unwrap());
    assert!(said.starts_with("ortalk: the npu lane was asked for, but it is not there: no NPU found"), "{said}");
    assert!(said.ends_with("; --emulate-npu simulates one\n"), "{said}");

    let (answer, said) = answer(&run(&["--json", "-n", "2", "Hi"]).output().unwrap());
    assert_eq!((&answer["routing"]["lane"], &answer["routing"]["rule"]), (&json!("cpu"), &json!("only_ready")));
    let reason = answer["routing"]["rejected"][0]["reason"].as_str().unwrap();
    assert!(reason.ends_with("; --emulate-npu simulates one"), "{reason}");
    // A bundle was named, so nobody should think that it answered.
    assert_eq!(said, format!("ortalk: the npu lane is not there: {reason}\n"));
}
