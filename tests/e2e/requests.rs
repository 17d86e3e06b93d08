//! What a request may ask of an answer, with the real model: its form, calls of tools, log probabilities, and text without a
//! template.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use ortalk::decoder::{Decoder, DecoderOptions, PlainDecoder};
use ortalk::engine::*;
use ortalk::model::ModelFolder;
use ortalk::onnx_runtime::CpuSessionOptions;
use serde_json::{Value, json};

use crate::json_schema;
use crate::support::{model, ortalk, runtime, text};

fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let model = Arc::new(ModelFolder::open(model()).unwrap());
        let setting = (CpuSetting::with_threads(2), ChosenBy::Default);
        let lanes = vec![cpu_lane(runtime(), model.clone(), setting, Some(1024), 0)];
        Engine::load(EngineOptions { model, lanes, emulation: false, listener: None }).unwrap()
    })
}

#[derive(Default)]
struct Answer {
    text: String,
    tokens: Vec<u32>,
    logprobs: Vec<TokenLogprobs>,
    /// Name and arguments.
    calls: Vec<(String, String)>,
    reason: Option<FinishReason>,
}

fn follow(mut stream: GenerationStream) -> Answer {
    let mut answer = Answer::default();
    while let Some(event) = stream.blocking_recv() {
        let calls = match event {
            GenerationEvent::Token(token) => {
                answer.text.push_str(&token.text);
                answer.tokens.push(token.id);
                answer.logprobs.extend(token.logprobs);
                token.tool_calls
            }
            GenerationEvent::TrailingText { text, tool_calls, .. } => {
                answer.text.push_str(&text);
                tool_calls
            }
            GenerationEvent::Finished(finished) => {
                answer.reason = Some(finished.reason);
                break;
            }
            _ => continue,
        };
        for call in calls {
            match call {
                ToolCallDelta::Start { name, .. } => answer.calls.push((name, String::new())),
                ToolCallDelta::Arguments { index, text } => answer.calls[index].1.push_str(&text),
            }
        }
    }
    answer
}

fn question(text: &str) -> ChatRequest {
    ChatRequest { max_tokens: 400, ..ChatRequest::new(vec![ChatMessage::new(Role::User, text)]) }
}

/// Ten schemas, and five questions for each; everything in them has an end, so that every answer has one.
fn schemas() -> Vec<(Value, [&'static str; 5])> {
    let object = |properties: Value| {
        let required: Vec<&String> = properties.as_object().unwrap().keys().collect();
        json!({"type": "object", "required": required, "properties": properties, "additionalProperties": false})
    };
    let string = |length: u64| json!({"type": "string", "minLength": 1, "maxLength": length});
    let integer = |least: i64, most: i64| json!({"type": "integer", "minimum": least, "maximum": most});
    let list = |items: Value, most: u64| json!({"type": "array", "items": items, "minItems": 1, "maxItems": most});
    vec![
        (
            object(json!({"name": string(30), "age": integer(0, 120), "married": {"type": "boolean"}})),
            ["Invent a person.", "Who was Ada Lovelace?", "Describe your uncle.", "Name a king.", "Wer bist du?"],
        ),
        (
            object(json!({"color": {"enum": ["red", "green", "blue", "it depends"]}})),
            ["Which color is the sky?", "And grass?", "What color do you like?", "Blood is", "日本の国旗は何色ですか?"],
        ),
        (
            list(string(20), 5),
            ["Name three rivers.", "List fruits.", "What do I need for a cake?", "Count to five.", "Say nothing."],
        ),
        (
            object(json!({"city": string(30), "population": integer(0, 50_000_000),
                          "country": {"anyOf": [string(30), {"type": "null"}]}})),
            ["Tell me about Paris.", "Where is Oslo?", "The largest city?", "Is Rome old?", "Atlantis!"],
        ),
        (
            object(json!({"steps": list(object(json!({"do": string(40), "minutes": integer(1, 90)})), 4)})),
            ["How do I boil an egg?", "Plan my morning.", "Repair a bicycle.", "Learn Rust.", "Make tea, please"],
        ),
        (
            object(json!({"title": string(40), "tags": list(json!({"enum": ["news", "sport", "science"]}), 3)})),
            [
                "Water was found on Mars.",
                "Norway won the final.",
                "Taxes rise.",
                "Birds can sing.",
                "<|im_end|>{\"a\": 1}",
            ],
        ),
        (
            json!({"anyOf": [object(json!({"answer": string(50)})), object(json!({"question": string(50)}))]}),
            ["Why is the sky blue?", "Ask me something.", "2 + 2?", "Hello", "What is \"quoted\" and \\ escaped?"],
        ),
        (
            json!({"$defs": {"point": object(json!({"x": integer(-9, 9), "y": integer(-9, 9)}))},
                   "type": "object", "properties": {"from": {"$ref": "#/$defs/point"}, "to": {"$ref": "#/$defs/point"}},
                   "required": ["from", "to"], "additionalProperties": false}),
            ["Draw a line.", "From the origin to (3, 4).", "A vertical line", "Nowhere", "Go left, then up."],
        ),
        (
            object(json!({"yes": {"type": "boolean"}, "because": string(60)})),
            ["Is the earth flat?", "Can fish fly?", "Do you think?", "Is 7 prime?", "Ist Wasser nass?"],
        ),
        (
            object(
                json!({"émotion": {"enum": ["joie", "colère", "peur"]}, "level": {"const": 5}, "😀": {"type": "null"}}),
            ),
            ["I won!", "Leave me alone!", "There is a spider.", "Hm.", "Je suis content."],
        ),
    ]
}

/// Every answer parses and is valid, greedy or drawn.
fn answers_are_valid(each: usize) {
    let mut asked = 0;
    for (schema, questions) in schemas() {
        for text in questions.iter().take(each) {
            let drawn = Sampling { temperature: 1.0, seed: Some(asked), ..Sampling::GREEDY };
            let sampling = if asked % 2 == 0 { Sampling::GREEDY } else { drawn };
            let request = ChatRequest { format: AnswerFormat::JsonSchema(schema.clone()), sampling, ..question(text) };
            let answer = follow(engine().submit(request));
            assert_eq!(answer.reason, Some(FinishReason::Stop), "{text}: {}", answer.text);
            let value: Value = serde_json::from_str(&answer.text).unwrap_or_else(|e| panic!("{e}: {}", answer.text));
            assert_eq!(json_schema::errors(&schema, &value), Vec::<String>::new(), "{schema}: {value}");
            asked += 1;
        }
    }
}

#[test]
fn answers_by_a_schema_parse_and_are_valid() {
    answers_are_valid(1);
}

#[test]
#[ignore = "fifty answers take minutes"]
fn fifty_answers_by_schemas_parse_and_are_valid() {
    answers_are_valid(5);
}

#[test]
fn a_json_object_is_one_or_says_that_it_was_cut() {
    let request = |max_tokens: usize| ChatRequest {
        format: AnswerFormat::JsonObject,
        max_tokens,
        ..question("Describe a cat as a JSON object with its name and its age.")
    };
    let cut = follow(engine().submit(request(4)));
    assert_eq!((cut.reason, cut.tokens.len()), (Some(FinishReason::Length), 4), "{}", cut.text);
    assert!(cut.text.starts_with('{') && serde_json::from_str::<Value>(&cut.text).is_err(), "{}", cut.text);
    let answer = follow(engine().submit(request(400)));
    assert!(answer.text.starts_with(&cut.text), "{} {}", answer.text, cut.text);
    match answer.reason {
        Some(FinishReason::Stop) => assert!(serde_json::from_str::<Value>(&answer.text).unwrap().is_object()),
        reason => assert_eq!(reason, Some(FinishReason::Length), "{}", answer.text),
    }
}

#[test]
fn a_forced_call_is_made_by_the_tool_s_schema() {
    let parameters = json!({"type": "object", "properties": {"city": {"type": "string", "minLength": 1, "maxLength": 20},
        "unit": {"enum": ["celsius", "fahrenheit"]}}, "required": ["city", "unit"], "additionalProperties": false});
    let tool = |name: &str| Tool {
        name: name.into(),
        description: Some("The weather in a city now".into()),
        parameters: Some(parameters.clone()),
    };
    let tools = vec![tool("get_weather"), tool("get_forecast")];
    for tool_choice in [ToolChoice::Required, ToolChoice::Named("get_forecast".into())] {
        let named = matches!(tool_choice, ToolChoice::Named(_));
        let request = ChatRequest {
            tools: tools.clone(),
            tool_choice,
            parallel_tool_calls: false,
            ..question("What is the weather in Paris?")
        };
        let answer = follow(engine().submit(request.clone()));
        assert_eq!(answer.reason, Some(FinishReason::ToolCalls), "{}", answer.text);
        let [(name, arguments)] = &answer.calls[..] else { panic!("{:?}", answer.calls) };
        assert!(!named || name == "get_forecast", "{name}");
        assert_eq!(json_schema::errors(&parameters, &serde_json::from_str(arguments).unwrap()), Vec::<String>::new());
        assert_eq!(answer.text, "");

        // The tool's result goes into the conversation, and the model answers with it.
        let call = ToolCall { id: "a1b2c3d4e".into(), name: name.clone(), arguments: arguments.clone() };
        let mut messages = request.messages.clone();
        messages.push(ChatMessage { tool_calls: vec![call], ..ChatMessage::new(Role::Assistant, "") });
        messages.push(ChatMessage {
            tool_call_id: Some("a1b2c3d4e".into()),
            ..ChatMessage::new(Role::Tool, "{\"sky\": \"clear\", \"degrees\": 21}")
        });
        let request =
            ChatRequest { messages, tools: tools.clone(), tool_choice: ToolChoice::Auto, max_tokens: 40, ..request };
        let answer = follow(engine().submit(request));
        assert!(!answer.text.is_empty() || !answer.calls.is_empty());
    }
}

#[test]
fn what_cannot_be_asked_is_refused_by_its_name() {
    let request = ChatRequest { format: AnswerFormat::JsonSchema(json!({"not": {}})), ..question("Hi") };
    let invalid = engine().check(&request).unwrap_err();
    assert_eq!(invalid.parameter, "response_format");
    assert!(invalid.message.contains("\"not\""), "{invalid}");
    let answer = follow(engine().submit(request));
    assert_eq!(answer.reason, Some(FinishReason::Error(invalid.message)));
}

/// Against float32 and an independent implementation (`tests/fixtures/make_reference.py`), and to rounding against the
/// decoder alone.
#[test]
fn log_probabilities_are_those_of_the_model() {
    let fixture = |name: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
        serde_json::from_slice::<Value>(&std::fs::read(path).unwrap()).unwrap()
    };
    let (reference, ranked) = (fixture("logits.json"), fixture("logprobs.json"));
    let ids = |value: &Value| serde_json::from_value::<Vec<u32>>(value.clone()).unwrap();
    let folder = ModelFolder::open(model()).unwrap();
    let session = CpuSessionOptions { threads: 2, spinning: false };
    let mut bare = PlainDecoder::new(&runtime(), &folder, DecoderOptions { session, context: 512 }).unwrap();
    let (mut compared, mut sum, mut largest) = (0, 0.0, 0.0_f64);
    for (greedy, ranked) in reference["greedy"].as_array().unwrap().iter().zip(ranked.as_array().unwrap()) {
        let (prompt, continuation) = (ids(&greedy["prompt"]), ids(&greedy["continuation"]));
        let request = CompletionRequest {
            prompt: RawPrompt::Tokens(prompt.clone()),
            // What is asked of the sampling does not change them: without it, the first token would be another.
            sampling: Sampling { logit_bias: vec![(continuation[0], 5.0)], ..Sampling::GREEDY },
            max_tokens: continuation.len(),
            stop: Vec::new(),
            logprobs: Some(5),
            policy: Policy::Auto,
            lane: None,
        };
        let answer = follow(engine().complete(request));
        assert_eq!(answer.tokens.len(), answer.logprobs.len());
        let spelled: Vec<u8> = answer.logprobs.iter().flat_map(|token| token.chosen.bytes.clone()).collect();
        assert_eq!(String::from_utf8(spelled).unwrap(), answer.text);

        bare.rewind(0);
        let mut sequence = prompt;
        let same = answer.tokens.iter().zip(&continuation).take_while(|(ours, theirs)| ours == theirs).count();
        assert!(same > 0);
        for step in 0..same {
            let token = &answer.logprobs[step];
            bare.forward(&sequence).unwrap();
            let logits: Vec<f64> = bare.logits().iter().map(|logit| f64::from(*logit)).collect();
            let sum_of_all = logits.iter().map(|logit| logit.exp()).sum::<f64>().ln();
            for TokenLogprob { id, logprob, .. } in token.top.iter().chain([&token.chosen]) {
                let expected = logits[*id as usize] - sum_of_all;
                assert!((f64::from(*logprob) - expected).abs() < 1e-3, "{logprob} {expected}");
            }
            assert_eq!(token.top.len(), 5);
            assert!(token.top.is_sorted_by(|a, b| a.logprob >= b.logprob), "{:?}", token.top);
            assert_eq!(token.chosen.id, answer.tokens[step]);
            for pair in ranked[step].as_array().unwrap() {
                let (id, expected) = (pair[0].as_u64().unwrap(), pair[1].as_f64().unwrap());
                if let Some(ours) = token.top.iter().find(|ours| u64::from(ours.id) == id) {
                    let difference = (f64::from(ours.logprob) - expected).abs();
                    (compared, sum, largest) = (compared + 1, sum + difference, largest.max(difference));
                }
            }
            sequence = vec![answer.tokens[step]];
        }
    }
    let mean = sum / f64::from(compared);
    println!("log probabilities: mean difference {mean:.4}, largest {largest:.4}, over {compared} of the reference's");
    // Activations are rounded to 8 bits here; the mean of the absolute logits is about 10.
    assert!(compared >= 60 && mean < 0.15 && largest < 0.8, "{compared} {mean} {largest}");
}

#[test]
fn text_is_gone_on_with_as_it_is() {
    let request = CompletionRequest {
        prompt: RawPrompt::Text("The capital of France is".into()),
        sampling: Sampling::GREEDY,
        max_tokens: 4,
        stop: Vec::new(),
        logprobs: None,
        policy: Policy::Auto,
        lane: None,
    };
    let answer = follow(engine().complete(request.clone()));
    assert!(answer.text.starts_with(' ') && answer.logprobs.is_empty(), "{:?}", answer.text);
    let empty =
        follow(engine().complete(CompletionRequest { prompt: RawPrompt::Text(String::new()), ..request.clone() }));
    assert!(
        matches!(&empty.reason, Some(FinishReason::Error(reason)) if reason.contains("no text")),
        "{:?}",
        empty.reason
    );
    let long = RawPrompt::Tokens(vec![1000; 5000]);
    let long = follow(engine().complete(CompletionRequest { prompt: long, ..request }));
    assert!(matches!(&long.reason, Some(FinishReason::Error(reason)) if reason.contains("5000")), "{:?}", long.reason);

    // The beginning of an answer, within the template.
    let messages = vec![
        ChatMessage::new(Role::User, "What is the capital of France?"),
        ChatMessage::new(Role::Assistant, "The capital of France is"),
    ];
    let request = ChatRequest { continue_last: true, max_tokens: 10, ..ChatRequest::new(messages) };
    let answer = follow(engine().submit(request));
    assert!(answer.text.starts_with(" Paris"), "{:?}", answer.text);
}

#[test]
fn the_command_answers_in_json() {
    let folder = tempfile::tempdir().unwrap();
    let schema = json!({"type": "object", "properties": {"city": {"enum": ["Paris", "Oslo"]}}, "required": ["city"],
        "additionalProperties": false});
    let file = |name: &str, content: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let run = |path: &str| ortalk(&["run", "The capital of France?", "--schema", path, "-n", "40"]).output().unwrap();
    let output = run(&file("schema.json", &schema.to_string()));
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json_schema::errors(&schema, &value), Vec::<String>::new());
    for (path, named) in [
        (file("broken.json", "{"), "is no JSON"),
        (file("not.json", "{\"not\": {}}"), "\"not\""),
        ("nowhere.json".to_owned(), "nowhere.json"),
    ] {
        let output = run(&path);
        assert!(!output.status.success() && text(&output.stderr).contains(named), "{}", text(&output.stderr));
    }
}
