//! What the endpoints answer.

use std::time::Instant;

use ortalk::engine::GenerationEvent;
use ortalk::wire::{AnswerExtension, Snapshot};
use serde_json::{Value, json};

use super::client::{Events, JSON, content, get, request, send};
use super::server::{Server, capital, ortalk};

const CHAT: &str = "/v1/chat/completions";

/// The request with other fields.
fn with(mut request: Value, fields: Value) -> Value {
    request.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    request
}

fn text(answer: &Value) -> &str {
    answer["choices"][0]["message"]["content"].as_str().unwrap()
}

#[test]
fn an_answer_is_the_one_that_run_gives_and_says_where_it_was_made() {
    let server = Server::shared();
    let run = ortalk(&["run", "--temperature", "0", "What is the capital of France?"]).output().unwrap();
    let expected = String::from_utf8(run.stdout).unwrap();
    let reply = server.ask(CHAT, &capital());
    let answer = reply.json();
    assert_eq!(text(&answer), expected.trim_end());
    assert_eq!(reply.header("x-ortalk-lane"), Some("cpu"));
    assert_eq!(reply.header("x-ortalk-route"), Some("only_ready"));
    assert_eq!(reply.header("x-ortalk-emulated"), Some("false"));
    assert_eq!(answer["object"], "chat.completion");
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    let usage = &answer["usage"];
    let number = |name: &str| usage[name].as_u64().unwrap();
    assert!(number("prompt_tokens") > 10 && number("completion_tokens") > 3, "{usage}");
    assert_eq!(number("total_tokens"), number("prompt_tokens") + number("completion_tokens"));
    assert!(answer.get("ortalk").is_none(), "{answer}");
}

#[test]
fn a_stream_has_the_same_text_and_the_usage_where_it_is_asked_for() {
    let server = Server::shared();
    let whole = server.answers();
    let request = with(capital(), json!({"stream": true, "stream_options": {"include_usage": true}}));
    let events = Events::open(server.address, CHAT, &request);
    assert_eq!(events.opened.header("x-ortalk-lane"), Some("cpu"));
    let chunks = events.chunks();
    assert_eq!(content(&chunks, 0), text(&whole));
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    let (last, before) = chunks.split_last().unwrap();
    assert_eq!(
        (&last["choices"], &last["usage"]["completion_tokens"]),
        (&json!([]), &whole["usage"]["completion_tokens"])
    );
    assert!(before.iter().all(|chunk| chunk["usage"].is_null() && chunk["object"] == "chat.completion.chunk"));
    let ids: std::collections::BTreeSet<&str> = chunks.iter().map(|chunk| chunk["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 1);
    let ends: Vec<&Value> = before.iter().map(|chunk| &chunk["choices"][0]["finish_reason"]).collect();
    assert_eq!(**ends.last().unwrap(), json!("stop"));
    assert!(ends[..ends.len() - 1].iter().all(|end| end.is_null()));
    // Without being asked for.
    let chunks = Events::open(server.address, CHAT, &with(capital(), json!({"stream": true}))).chunks();
    assert!(chunks.iter().all(|chunk| chunk.get("usage").is_none()));
}

#[test]
fn several_answers_and_seeds() {
    let server = Server::shared();
    let drawn = json!({"temperature": 1.5, "seed": 7, "n": 3, "max_tokens": 12});
    let texts = |answer: Value| -> Vec<String> {
        let choices = answer["choices"].as_array().unwrap().clone();
        choices.iter().map(|choice| choice["message"]["content"].as_str().unwrap().to_owned()).collect()
    };
    let first = texts(server.ask(CHAT, &with(capital(), drawn.clone())).json());
    assert_eq!(first.len(), 3);
    assert!(first[0] != first[1] && first[1] != first[2], "{first:?}");
    assert_eq!(texts(server.ask(CHAT, &with(capital(), drawn.clone())).json()), first);
    let streamed = with(with(capital(), drawn), json!({"stream": true, "stream_options": {"include_usage": true}}));
    let chunks = Events::open(server.address, CHAT, &streamed).chunks();
    assert_eq!([0, 1, 2].map(|index| content(&chunks, index)).as_slice(), first);
    let usage = &chunks.last().unwrap()["usage"];
    assert!(usage["completion_tokens"].as_u64().unwrap() <= 36 && usage["prompt_tokens"].as_u64().unwrap() < 60);
}

#[test]
fn stop_texts_and_lengths_end_answers() {
    let server = Server::shared();
    let whole = server.answers();
    let answer = server.ask(CHAT, &with(capital(), json!({"stop": [" of", "Paris"]}))).json();
    assert_eq!(text(&answer), text(&whole).split(" of").next().unwrap());
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    for name in ["max_tokens", "max_completion_tokens"] {
        let mut request = capital();
        request[name] = 2.into();
        let answer = server.ask(CHAT, &request).json();
        assert_eq!(answer["choices"][0]["finish_reason"], "length");
        assert_eq!(answer["usage"]["completion_tokens"], 2);
        assert!(text(&whole).starts_with(text(&answer)));
    }
}

#[test]
fn log_probabilities_are_those_of_the_tokens() {
    let server = Server::shared();
    let request = with(capital(), json!({"logprobs": true, "top_logprobs": 3, "max_tokens": 5}));
    let answer = server.ask(CHAT, &request).json();
    let list = answer["choices"][0]["logprobs"]["content"].as_array().unwrap();
    assert_eq!(list.len(), 5);
    let joined: String = list.iter().map(|token| token["token"].as_str().unwrap()).collect();
    assert_eq!(joined, text(&answer));
    for token in list {
        let top = token["top_logprobs"].as_array().unwrap();
        assert_eq!(top.len(), 3);
        // Greedy: the likeliest is the one that was taken.
        assert_eq!((&top[0]["token"], &top[0]["logprob"]), (&token["token"], &token["logprob"]));
        let of = |token: &Value| token["logprob"].as_f64().unwrap();
        assert!(of(&top[0]) <= 0.0 && of(&top[0]) >= of(&top[1]) && of(&top[1]) >= of(&top[2]), "{token}");
        assert!(top.iter().map(|other| of(other).exp()).sum::<f64>() <= 1.0 + 1e-5);
    }
    let chunks = Events::open(server.address, CHAT, &with(request, json!({"stream": true}))).chunks();
    let streamed: Vec<Value> = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["logprobs"]["content"].as_array())
        .flatten()
        .cloned()
        .collect();
    assert_eq!(&streamed, list);
}

#[test]
fn a_lane_is_named_by_the_model_or_by_the_extension() {
    let server = Server::shared();
    for fields in [
        json!({"model": "smollm2-135m@cpu"}),
        json!({"model": "SmolLM2-135M-Instruct@cpu"}),
        json!({"ortalk": {"lane": "cpu"}}),
    ] {
        let reply = server.ask(CHAT, &with(capital(), fields.clone()));
        assert_eq!(reply.header("x-ortalk-route"), Some("requested"), "{fields}: {}", reply.text());
    }
    let trace = json!({"ortalk": {"route_trace": true, "policy": "efficient"}});
    let answer = server.ask(CHAT, &with(capital(), trace)).json();
    let route = &answer["ortalk"]["route"];
    assert_eq!((&route["lane"], &route["policy"]), (&json!("cpu"), &json!("efficient")), "{answer}");
    assert_eq!(route["prompt_tokens"], answer["usage"]["prompt_tokens"]);
    assert_eq!(route["rejected"][0]["lane"], "npu");
    for (fields, status, param, code) in [
        (json!({"model": "gpt-4o"}), 404, "model", "model_not_found"),
        (json!({"model": "smollm2-135m@tpu"}), 404, "model", "model_not_found"),
        (json!({"model": "smollm2-135m@npu"}), 400, "model", "lane_not_available"),
        (json!({"ortalk": {"lane": "npu"}}), 400, "ortalk.lane", "lane_not_available"),
        (json!({"ortalk": {"lane": "gpu"}}), 400, "ortalk.lane", "invalid_value"),
        (json!({"model": "smollm2-135m@cpu", "ortalk": {"lane": "npu"}}), 400, "ortalk.lane", "invalid_value"),
        (json!({"ortalk": {"lanes": "cpu"}}), 400, "ortalk.lanes", "unknown_parameter"),
    ] {
        let reply = server.ask(CHAT, &with(capital(), fields.clone()));
        let (_, found, found_code) = reply.error();
        assert_eq!(
            (reply.status, found.as_deref(), found_code.as_deref()),
            (status, Some(param), Some(code)),
            "{fields}"
        );
    }
}

#[test]
fn the_engine_s_events_come_with_a_stream() {
    let server = Server::shared();
    let request = with(capital(), json!({"stream": true, "ortalk": {"events": true}}));
    let chunks = Events::open(server.address, CHAT, &request).chunks();
    let submitted = Instant::now();
    let mut events = Vec::new();
    for chunk in chunks.iter().filter(|chunk| !chunk["ortalk"].is_null()) {
        let extension: AnswerExtension = serde_json::from_value(chunk["ortalk"].clone()).unwrap();
        events.extend(extension.events.into_iter().filter_map(|event| event.into_engine(submitted)));
    }
    let GenerationEvent::Routed(decision) = &events[0] else { panic!("{:?}", events[0]) };
    let Some(GenerationEvent::Finished(finished)) = events.last() else { panic!("{:?}", events.last()) };
    assert_eq!(decision.prompt_tokens, finished.usage.prompt_tokens);
    let tokens: Vec<_> = events
        .iter()
        .filter_map(|event| if let GenerationEvent::Token(token) = event { Some(token) } else { None })
        .collect();
    assert_eq!(tokens.len(), finished.usage.completion_tokens);
    let text: String = tokens.iter().map(|token| token.text.as_str()).collect();
    assert_eq!(text, content(&chunks, 0));
    assert!(tokens.windows(2).all(|pair| pair[0].at <= pair[1].at) && tokens[0].at > submitted);
    assert!(
        events.iter().any(
            |event| matches!(event, GenerationEvent::PrefillProgress(progress) if progress.done == progress.total)
        )
    );
}

#[test]
fn text_is_gone_on_with() {
    let server = Server::shared();
    let prompt = "The first ten numbers are one, two, three, four,";
    let plain = json!({"prompt": prompt, "temperature": 0, "max_tokens": 8});
    let answer = server.ask("/v1/completions", &plain).json();
    let text = answer["choices"][0]["text"].as_str().unwrap();
    assert!(text.starts_with(" five, six, seven"), "{answer}");
    assert_eq!(
        (&answer["object"], &answer["choices"][0]["finish_reason"]),
        (&json!("text_completion"), &json!("length"))
    );
    let echoed = server.ask("/v1/completions", &with(plain.clone(), json!({"echo": true}))).json();
    assert_eq!(echoed["choices"][0]["text"], format!("{prompt}{text}"));
    let chunks =
        Events::open(server.address, "/v1/completions", &with(plain.clone(), json!({"stream": true}))).chunks();
    let streamed: String = chunks.iter().filter_map(|chunk| chunk["choices"][0]["text"].as_str()).collect();
    assert_eq!(streamed, text);
    // Two prompts, two answers each; greedy ones are the same.
    let several = with(plain.clone(), json!({"prompt": [prompt, "A, B, C, D,"], "n": 2, "logprobs": 1}));
    let answer = server.ask("/v1/completions", &several).json();
    let choices = answer["choices"].as_array().unwrap();
    assert_eq!(choices.len(), 4);
    assert_eq!((&choices[0]["text"], &choices[1]["text"]), (&json!(text), &json!(text)));
    assert_eq!(choices[2]["text"], choices[3]["text"]);
    assert_ne!(choices[1]["text"], choices[2]["text"]);
    let logprobs = &choices[0]["logprobs"];
    let tokens: String = logprobs["tokens"].as_array().unwrap().iter().map(|token| token.as_str().unwrap()).collect();
    assert_eq!(tokens, text);
    assert_eq!((&logprobs["text_offset"][0], &logprobs["text_offset"][1]), (&json!(0), &json!(5)));
    // The default length is OpenAI's.
    let short = server.ask("/v1/completions", &json!({"prompt": prompt, "temperature": 0})).json();
    assert_eq!(short["usage"]["completion_tokens"], 16);
    // Tokens.
    let answer = server.ask("/v1/completions", &with(plain, json!({"prompt": [504, 808, 260]}))).json();
    assert_eq!(answer["usage"]["prompt_tokens"], 3);
    let reply = server.ask("/v1/completions", &json!({"prompt": [504, 99_999_999]}));
    assert_eq!((reply.status, reply.error().1.as_deref()), (400, Some("prompt")));
}

#[test]
fn responses_have_the_api_s_shape_and_events() {
    let server = Server::shared();
    let expected = text(&server.answers()).to_owned();
    let question = "What is the capital of France?";
    let request = json!({"input": question, "temperature": 0, "metadata": {"a": "b"}});
    let reply = server.ask("/v1/responses", &request);
    assert_eq!(reply.header("x-ortalk-lane"), Some("cpu"));
    let response = reply.json();
    assert_eq!(response["output"][0]["content"][0]["text"], expected);
    assert_eq!((&response["status"], &response["metadata"]["a"]), (&json!("completed"), &json!("b")));
    let parts = json!([{"role": "user", "content": [{"type": "input_text", "text": question}]}]);
    let same = server.ask("/v1/responses", &json!({"input": parts, "temperature": 0})).json();
    assert_eq!(same["output"][0]["content"][0]["text"], expected);
    let cut = server.ask("/v1/responses", &with(request.clone(), json!({"max_output_tokens": 2}))).json();
    assert_eq!(
        (&cut["status"], &cut["incomplete_details"]["reason"]),
        (&json!("incomplete"), &json!("max_output_tokens"))
    );

    let events = Events::open(server.address, "/v1/responses", &with(request, json!({"stream": true}))).all();
    let data: Vec<Value> = events.iter().map(|(_, data)| serde_json::from_str(data).unwrap()).collect();
    let names: Vec<&str> = events.iter().map(|(name, _)| name.as_deref().unwrap()).collect();
    for (index, (event, name)) in data.iter().zip(&names).enumerate() {
        assert_eq!((&event["type"], &event["sequence_number"]), (&json!(name), &json!(index)));
    }
    let mut kinds = names.clone();
    kinds.dedup();
    assert_eq!(
        kinds,
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    let deltas: String = data.iter().filter_map(|event| event["delta"].as_str()).collect();
    assert_eq!(deltas, expected);
    let last = &data.last().unwrap()["response"];
    assert_eq!(last["output"][0]["content"][0]["text"], expected);
    assert_eq!(last["usage"], response["usage"]);
}

#[test]
fn a_conversation_that_is_too_long_is_refused_or_trimmed_as_it_is_asked() {
    let server = Server::start(&["--context", "256"]);
    let turn = |role: &str, text: &str| json!({"role": role, "content": text});
    let long = "river ".repeat(90);
    let messages: Vec<Value> = (0..4)
        .map(|index| turn(if index % 2 == 0 { "user" } else { "assistant" }, &long))
        .chain([turn("user", "What is the capital of France?")])
        .collect();
    let request = json!({"messages": messages, "temperature": 0, "max_tokens": 8});
    let reply = server.ask(CHAT, &request);
    let (message, param, code) = reply.error();
    assert_eq!(
        (reply.status, param.as_deref(), code.as_deref()),
        (400, Some("messages"), Some("context_length_exceeded"))
    );
    assert!(message.contains("256"), "{message}");
    let trimmed = server.ask(CHAT, &with(request.clone(), json!({"ortalk": {"trim": true}})));
    assert_eq!(trimmed.status, 200, "{}", trimmed.text());
    assert!(trimmed.json()["usage"]["prompt_tokens"].as_u64().unwrap() < 256);
    let truncated =
        server.ask("/v1/responses", &json!({"input": messages, "truncation": "auto", "max_output_tokens": 4}));
    assert_eq!(truncated.status, 200, "{}", truncated.text());
    let text = server.ask("/v1/completions", &json!({"prompt": "river ".repeat(400)}));
    assert_eq!(text.error().2.as_deref(), Some("context_length_exceeded"));
    // A stream that cannot begin is an error with a status.
    assert_eq!(server.ask(CHAT, &with(request, json!({"stream": true}))).status, 400);
}

#[test]
fn models_health_and_snapshot() {
    let server = Server::shared();
    let list = get(server.address, "/v1/models").json();
    let ids: Vec<&str> = list["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["SmolLM2-135M-Instruct", "SmolLM2-135M-Instruct@cpu"]);
    assert_eq!(list["data"][0]["context_length"], 8192);
    let one = get(server.address, "/v1/models/SmolLM2-135M-Instruct@cpu").json();
    assert_eq!(one["ortalk"], json!({"lane": "cpu", "state": "ready", "emulated": false}));
    assert_eq!(get(server.address, "/v1/models/smollm2-135m").json(), list["data"][0]);
    let missing = get(server.address, "/v1/models/gpt-4o");
    assert_eq!((missing.status, missing.error().2.as_deref()), (404, Some("model_not_found")));
    assert_eq!(get(server.address, "/health").json(), json!({"status": "ok"}));
    let snapshot: Snapshot = serde_json::from_slice(&get(server.address, "/ortalk/snapshot").body).unwrap();
    let engine = snapshot.into_engine(Instant::now());
    assert_eq!(engine.model, "SmolLM2-135M-Instruct");
    assert!(engine.lanes.iter().any(|lane| lane.nodes().is_some_and(|(on, all)| on == all && on > 100)));
}

#[test]
fn what_is_not_there_has_an_error_of_the_api_s_shape() {
    let server = Server::shared();
    for (bytes, status, code) in [
        (request("GET", "/v1/embeddings", &[], b""), 404, "unknown_url"),
        (request("GET", CHAT, &[], b""), 405, "method_not_allowed"),
        (request("DELETE", "/v1/models", &[], b""), 405, "method_not_allowed"),
        (request("POST", CHAT, &[("Content-Type", "text/plain")], b"{}"), 415, "unsupported_media_type"),
        (request("POST", CHAT, &[], b"{}"), 415, "unsupported_media_type"),
        (request("POST", CHAT, &[JSON], b"{"), 400, "invalid_json"),
        (request("POST", CHAT, &[JSON], b"[1]"), 400, "invalid_type"),
        (request("POST", CHAT, &[JSON], b""), 400, "invalid_json"),
    ] {
        let reply = send(server.address, &bytes);
        assert_eq!((reply.status, reply.error().2.as_deref()), (status, Some(code)));
        assert!(reply.header("x-request-id").is_some());
    }
}
