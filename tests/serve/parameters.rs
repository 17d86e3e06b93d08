//! Every parameter's range, and what is refused by name.

use serde_json::{Value, json};

use super::server::{Server, capital};

fn param_of(server: &Server, path: &str, request: &Value) -> String {
    let reply = server.ask(path, request);
    assert_eq!(reply.status, 400, "{request}: {}", reply.text());
    let (message, param, _) = reply.error();
    let param = param.unwrap_or_else(|| panic!("{request}: {message}"));
    // The message says it, too.
    assert!(message.contains(&param) || param.contains('['), "{request}: {message}");
    param
}

#[test]
fn values_out_of_range_are_refused_with_the_parameter_s_name() {
    let server = Server::shared();
    for (name, values) in [
        ("temperature", vec![json!(-0.1), json!(2.1), json!("hot"), json!([])]),
        ("top_p", vec![json!(-1), json!(1.1)]),
        ("max_tokens", vec![json!(0), json!(-1), json!(1.5), json!("9"), json!(1e30)]),
        ("max_completion_tokens", vec![json!(0)]),
        ("n", vec![json!(0), json!(129), json!(true)]),
        ("seed", vec![json!(0.5), json!("x")]),
        ("stop", vec![json!(3), json!(["a", "b", "c", "d", "e"])]),
        ("frequency_penalty", vec![json!(-2.1), json!(2.1)]),
        ("presence_penalty", vec![json!(-3), json!(3)]),
        ("logit_bias", vec![json!([]), json!({"x": 1})]),
        ("logprobs", vec![json!(1)]),
        ("top_logprobs", vec![json!(21), json!(-1), json!(3)]),
        ("stream", vec![json!("yes")]),
        ("stream_options", vec![json!({"include_usage": true}), json!(true)]),
        ("response_format", vec![json!("json")]),
        ("tools", vec![json!({})]),
        ("tool_choice", vec![json!("any"), json!("required")]),
        ("messages", vec![json!([]), json!(null), json!("hi"), json!({})]),
        ("model", vec![json!(3)]),
        ("min_p", vec![json!(2)]),
        ("top_k", vec![json!(-1)]),
        ("repetition_penalty", vec![json!(0)]),
    ] {
        for value in values {
            let mut request = capital();
            request[name] = value;
            assert_eq!(param_of(&server, "/v1/chat/completions", &request), name, "{request}");
        }
    }
    for (fields, param) in [
        (json!({"stop": ["a", ""]}), "stop[1]"),
        (json!({"stop": ["a", 3]}), "stop[1]"),
        (json!({"logit_bias": {"5": 101}}), "logit_bias.5"),
        (json!({"logit_bias": {"5": "x"}}), "logit_bias.5"),
        (json!({"response_format": {"type": "xml"}}), "response_format.type"),
        (json!({"stream": true, "stream_options": {"x": 1}}), "stream_options.x"),
        (json!({"max_tokens": 3, "max_completion_tokens": 4}), "max_tokens"),
    ] {
        let mut request = capital();
        request.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        assert_eq!(param_of(&server, "/v1/chat/completions", &request), param);
    }
}

#[test]
fn what_would_change_the_answer_and_is_not_there_is_refused_by_name() {
    let server = Server::shared();
    for (path, base, fields) in [
        (
            "/v1/chat/completions",
            capital(),
            json!({
                "audio": {"voice": "x"}, "modalities": ["audio"], "prediction": {"type": "content"}, "store": true,
                "web_search_options": {}, "functions": [], "function_call": "auto", "verbosity": "low",
                "reasoning_effort": "high", "temprature": 0.5,
            }),
        ),
        (
            "/v1/completions",
            json!({"prompt": "x", "max_tokens": 1}),
            json!({"suffix": "y", "best_of": 3, "messages": [], "logprobs": 6}),
        ),
        (
            "/v1/responses",
            json!({"input": "x", "max_output_tokens": 1}),
            json!({
                "previous_response_id": "resp_1", "conversation": "c", "tools": [{"type": "web_search"}],
                "background": true, "include": ["x"], "store": true, "prompt": {"id": "p"}, "n": 2,
            }),
        ),
    ] {
        for (name, value) in fields.as_object().unwrap() {
            let mut request = base.clone();
            request[name] = value.clone();
            assert_eq!(param_of(&server, path, &request), *name);
        }
    }
}

#[test]
fn what_changes_nothing_is_taken() {
    let server = Server::shared();
    let mut request = capital();
    let harmless = json!({
        "user": "ada", "metadata": {"a": "b"}, "store": false, "service_tier": "auto", "modalities": ["text"],
        "parallel_tool_calls": false, "safety_identifier": "x", "prompt_cache_key": "k", "n": 1, "stop": null,
        "temperature": 0, "top_p": 1, "frequency_penalty": 0, "presence_penalty": 0, "logit_bias": {}, "logprobs": false,
        "seed": 5, "response_format": {"type": "text"}, "tools": [], "tool_choice": "auto", "stream": false,
        "reasoning_effort": "none", "model": "smollm2-135m",
    });
    request.as_object_mut().unwrap().extend(harmless.as_object().unwrap().clone());
    let reply = server.ask("/v1/chat/completions", &request);
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(reply.json()["choices"][0]["message"], server.answers()["choices"][0]["message"]);
}

#[test]
fn what_is_asked_of_the_sampler_reaches_it() {
    let server = Server::shared();
    let plain = server.answers();
    let text = |fields: Value| {
        let mut request = capital();
        request["max_tokens"] = 24.into();
        request.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        server.ask("/v1/chat/completions", &request).json()["choices"][0]["message"]["content"].clone()
    };
    // The first token of the answer, made impossible.
    let mut request = capital();
    request["logprobs"] = true.into();
    request["ortalk"] = json!({"events": true});
    request["stream"] = true.into();
    let chunks = super::client::Events::open(server.address, "/v1/chat/completions", &request).chunks();
    let events = chunks.iter().filter_map(|chunk| chunk["ortalk"]["events"][0].as_object());
    let first =
        events.filter(|event| event["type"] == "token").map(|event| event["id"].as_u64().unwrap()).next().unwrap();
    let plain = &plain["choices"][0]["message"]["content"];
    let forbidden = text(json!({"logit_bias": {first.to_string(): -100}}));
    assert_ne!(forbidden.as_str().unwrap().chars().next(), plain.as_str().unwrap().chars().next());
    assert_ne!(text(json!({"temperature": 2, "seed": 1, "top_k": 0, "top_p": 1, "min_p": 0})), *plain);
    assert_eq!(text(json!({"temperature": 2, "seed": 1, "top_k": 1})), *plain);
}
