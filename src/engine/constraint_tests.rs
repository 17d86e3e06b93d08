//! Schemas and their values by chance, in both directions: what the constraint lets through is valid, and what is valid gets
//! through. A validator that knows nothing of the constraint says what is valid.

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::super::request::{AnswerFormat, ChatMessage, Role};
use super::super::testing::{END, byte_model};
use super::super::tools::{Tool, ToolChoice};
use super::*;
use crate::model::{CallStyle, Thinking};

#[path = "../../tests/support/json_schema.rs"]
mod json_schema;

fn grammars(change: impl FnOnce(&mut ModelFolder)) -> Grammars {
    let folder = tempfile::tempdir().unwrap();
    let mut model = byte_model(folder.path());
    change(&mut model);
    Grammars::new(Arc::new(model))
}

fn request() -> ChatRequest {
    ChatRequest::new(vec![ChatMessage::new(Role::User, "Hi")])
}

fn with_schema(schema: &Json) -> ChatRequest {
    ChatRequest { format: AnswerFormat::JsonSchema(schema.clone()), ..request() }
}

fn tool(name: &str, parameters: Json) -> Tool {
    Tool { name: name.into(), description: None, parameters: Some(parameters) }
}

/// Why a text does not get through, byte by byte: where it stops, or that it may not end there.
fn takes(constraint: Option<Constraint>, text: &str) -> Result<(), String> {
    let mut constraint = constraint.ok_or("no constraint")?;
    for (at, byte) in text.bytes().enumerate() {
        if !constraint.allowed()?.is_allowed(byte.into()) {
            return Err(format!("{:?} stops before {:?}", &text[..at], char::from(byte)));
        }
        constraint.take(byte.into())?;
    }
    if constraint.allowed()?.is_allowed(END) { Ok(()) } else { Err(format!("{text:?} may not end")) }
}

/// A text that the constraint lets through, by chance; ends of strings, lists and objects are preferred, so that it ends.
fn any_text(mut constraint: Constraint, choices: &[u8]) -> Result<String, String> {
    let mut bytes = Vec::new();
    let mut choices = choices.iter().copied().cycle();
    for _ in 0..2000 {
        let allowed: Vec<u32> = constraint.allowed()?.to_list();
        if allowed.contains(&END) {
            return String::from_utf8(bytes).map_err(|error| error.to_string());
        }
        let choice = usize::from(choices.next().ok_or("no choices")?);
        let ends: Vec<u32> =
            allowed.iter().copied().filter(|byte| b"\"]}".contains(&(*byte as u8)) && choice % 3 > 0).collect();
        let from = if ends.is_empty() { &allowed } else { &ends };
        let byte = from[choice % from.len()];
        bytes.push(byte as u8);
        constraint.take(byte)?;
    }
    Err(format!("no end: {}", String::from_utf8_lossy(&bytes)))
}

/// A schema, and a value that is valid by it.
fn schemas() -> impl Strategy<Value = (Json, Json)> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(|value| (json!({"type": "boolean"}), json!(value))),
        Just((json!({"type": "null"}), Json::Null)),
        (-50i64..50, 0i64..40, 0i64..40).prop_map(|(value, below, above)| {
            (json!({"type": "integer", "minimum": value - below, "maximum": value + above}), json!(value))
        }),
        // Without bounds, a number may have an exponent that no float has.
        (-4000i32..4000).prop_map(|eighths| {
            let value = f64::from(eighths) / 8.0;
            (json!({"type": "number", "minimum": value - 100.5, "maximum": value + 100.0}), json!(value))
        }),
        "[a-z é\"\\\\\n日]{0,8}".prop_map(|text| {
            let length = text.chars().count();
            (json!({"type": "string", "minLength": length / 2, "maxLength": length + 2}), json!(text))
        }),
        prop::collection::vec("[a-z0-9 ]{1,6}", 1..4).prop_map(|texts| {
            let value = json!(texts[0]);
            (json!({"enum": texts}), value)
        }),
        "[a-zß]{0,4}".prop_map(|text| (json!({"const": text}), json!(text))),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            (prop::collection::vec(inner.clone(), 1..3), 0usize..3).prop_map(|(mut items, more)| {
                let (schema, value) = items.swap_remove(0);
                let values = vec![value; 1 + more];
                (json!({"type": "array", "items": schema, "minItems": 1, "maxItems": 3 + more}), json!(values))
            }),
            prop::collection::vec((inner.clone(), any::<bool>(), any::<bool>()), 0..4).prop_map(|fields| {
                let (mut properties, mut value, mut required) = (json!({}), json!({}), Vec::new());
                for (index, ((schema, field), needed, there)) in fields.into_iter().enumerate() {
                    let name = format!("field {index}é");
                    properties[&name] = schema;
                    if needed || there {
                        value[&name] = field;
                    }
                    if needed {
                        required.push(name);
                    }
                }
                let schema = json!({"type": "object", "properties": properties, "required": required,
                                    "additionalProperties": false});
                (schema, value)
            }),
            (inner.clone(), inner).prop_map(|((a, value), (b, _))| (json!({"anyOf": [b, a]}), value)),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_gets_through_is_valid_and_what_is_valid_gets_through(
        (schema, value) in schemas(),
        choices in prop::collection::vec(any::<u8>(), 64..200),
    ) {
        prop_assert_eq!(json_schema::errors(&schema, &value), Vec::<String>::new());
        let grammars = grammars(|_| {});
        let constraint = || grammars.constraint(&with_schema(&schema), false).unwrap();
        for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
            prop_assert_eq!(takes(constraint(), &text), Ok(()), "{}", schema);
        }
        let text = any_text(constraint().unwrap(), &choices).unwrap();
        let value: Json = serde_json::from_str(&text).map_err(|error| TestCaseError::fail(format!("{error}: {text}")))?;
        prop_assert_eq!(json_schema::errors(&schema, &value), Vec::<String>::new(), "{} {}", schema, text);
    }
}

#[test]
fn any_json_object_is_one_and_nothing_else_is() {
    let grammars = grammars(|_| {});
    let json_object = ChatRequest { format: AnswerFormat::JsonObject, ..request() };
    let takes = |text: &str| takes(grammars.constraint(&json_object, false).unwrap(), text);
    for text in ["{}", r#"{"a": [1, -2.5e3, null, true, "\u0000é\n"], "b": {"c": {}}}"#, "{\n  \"a\": 1\n}"] {
        assert_eq!(takes(text), Ok(()), "{text}");
    }
    for text in ["[]", "Sure: {}", "{} {}", "{\"a\"}", "{'a': 1}", "{\"a\": 01}", "{\"a\": \"\n\"}", "{", "{\"a\": 1,}"]
    {
        assert!(takes(text).is_err(), "{text}");
    }
    // White space has an end.
    assert!(takes(&format!("{{{}}}", " ".repeat(40))).is_err());
    assert!(takes(&format!("{{{}}}", "\n".repeat(40))).is_err());
}

#[test]
fn a_schema_that_refers_to_itself_can_be_followed() {
    let tree = json!({"type": "object", "properties": {"name": {"type": "string"}, "children":
        {"type": "array", "items": {"$ref": "#"}}}, "required": ["name", "children"], "additionalProperties": false});
    let list = json!({"$defs": {"node": {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/node"},
        {"type": "null"}]}}, "required": ["next"], "additionalProperties": false}}, "$ref": "#/$defs/node"});
    let grammars = grammars(|_| {});
    for (schema, text) in [
        (&tree, r#"{"name": "a", "children": [{"name": "b", "children": []}]}"#),
        (&list, r#"{"next": {"next": null}}"#),
    ] {
        assert_eq!(takes(grammars.constraint(&with_schema(schema), false).unwrap(), text), Ok(()));
    }
    // The references of a tool's parameters are into the parameters.
    let forced = ChatRequest { tools: vec![tool("f", list)], tool_choice: ToolChoice::Required, ..request() };
    let text = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"next\": null}}\n</tool_call>";
    assert_eq!(takes(grammars.constraint(&forced, false).unwrap(), text), Ok(()));
}

#[test]
fn what_cannot_be_followed_is_named() {
    let grammars = grammars(|_| {});
    let refused = |request: ChatRequest| {
        let error = grammars.constraint(&request, false).err().unwrap();
        (error.parameter, error.message)
    };
    let patterns: Vec<Json> =
        (0..20).map(|n| json!({"type": "string", "pattern": format!("(a|b){{0,{n}}}")})).collect();
    for (schema, named) in [
        (json!({"not": {"type": "string"}}), "\"not\""),
        (json!({"type": "object", "properties": {"a": {"if": {}, "then": {}}}}), "\"if\""),
        (json!({"type": "array", "uniqueItems": true}), "\"uniqueItems\""),
        (json!({"oneOf": [{"type": "integer"}, {"type": "number"}]}), "'oneOf'"),
        (json!({"type": "string", "format": "color"}), "color"),
        (json!({"$ref": "https://example.org/schema"}), "https://example.org/schema"),
        (json!({"$ref": "#/$defs/missing"}), "missing"),
        (json!({"type": "thing"}), "thing"),
        (json!({"type": "string", "pattern": "("}), "("),
        (json!({"type": "object", "x-guidance": {"lenient": true}}), "x-guidance"),
        (json!({"$ref": "#"}), "finite"),
        (json!({"type": "integer", "minimum": 2, "maximum": 1}), "minimum (2)"),
        (json!({"allOf": patterns}), "20 patterns"),
        (json!([1]), "no object"),
    ] {
        let (parameter, message) = refused(with_schema(&schema));
        assert_eq!(parameter, "response_format");
        assert!(message.contains(named), "{schema}: {message}");
    }
    let tools = |tools: Vec<Tool>, tool_choice: ToolChoice| refused(ChatRequest { tools, tool_choice, ..request() });
    let object = || json!({"type": "object"});
    for ((parameter, message), expected, named) in [
        (tools(vec![tool("f", json!({"not": {}}))], ToolChoice::Auto), "tools", "tool 'f'"),
        (tools(vec![tool("f", json!({"type": "array"}))], ToolChoice::Auto), "tools", "\"array\""),
        (tools(vec![tool("f", object()), tool("f", object())], ToolChoice::Auto), "tools", "'f'"),
        (tools(vec![tool("f", object())], ToolChoice::Named("g".into())), "tool_choice", "'g'"),
        (tools(vec![], ToolChoice::Required), "tool_choice", "no tools"),
    ] {
        assert_eq!(parameter, expected);
        assert!(message.contains(named), "{message}");
    }
}

/// Schemas that never end, or are far too large, are refused and break nothing.
#[test]
fn hostile_schemas_are_refused() {
    let grammars = grammars(|_| {});
    let mut deep = json!({"type": "string"});
    for _ in 0..100 {
        deep = json!({"type": "array", "items": deep});
    }
    let wide: Vec<Json> =
        (0..300).map(|index| json!({"type": "string", "pattern": format!("(a|b){{0,{index}}}c*{index}")})).collect();
    let properties: serde_json::Map<String, Json> = (0..2000).map(|index| (index.to_string(), json!({}))).collect();
    for schema in [
        json!({"allOf": [{"$ref": "#"}]}),
        json!({"anyOf": [{"$ref": "#"}]}),
        json!({"type": "string", "pattern": "(((a{1,1000}){1,1000}){1,1000}){1,1000}"}),
        json!({"type": "string", "maxLength": 1_000_000_000}),
        json!({"type": "array", "items": {"type": "string"}, "minItems": 1_000_000_000}),
        json!({"allOf": wide}),
        json!({"anyOf": wide}),
        json!({"type": "object", "properties": properties}),
        deep,
    ] {
        // Either is right; what is not is a stop without end, or the end of the process.
        if let Ok(Some(mut constraint)) = grammars.constraint(&with_schema(&schema), false) {
            let _ = constraint.allowed();
        }
    }
}

fn weather() -> Tool {
    tool("get_weather", json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}))
}

fn clock() -> Tool {
    Tool { name: "clock".into(), description: None, parameters: None }
}

#[test]
fn forced_calls_are_in_the_model_s_style() {
    let call = |name: &str, key: &str, arguments: &str| format!("{{\"name\": \"{name}\", \"{key}\": {arguments}}}");
    let oslo = r#"{"city": "Oslo"}"#;
    let tagged = |call: &str| format!("<tool_call>\n{call}\n</tool_call>");
    let (w, c) = (call("get_weather", "arguments", oslo), call("clock", "arguments", "{}"));
    for (calls, one, two) in [
        (CallStyle::Tagged, tagged(&w), format!("{}\n{}", tagged(&w), tagged(&c))),
        (CallStyle::Llama, call("get_weather", "parameters", oslo), String::new()),
        (CallStyle::MistralList, format!("[TOOL_CALLS] [{w}]"), format!("[TOOL_CALLS][{w}, {c}]")),
        (
            CallStyle::MistralArguments,
            format!("[TOOL_CALLS]get_weather[ARGS]{oslo}"),
            format!("[TOOL_CALLS]get_weather[ARGS]{oslo}[TOOL_CALLS]clock[ARGS]{{}}"),
        ),
        (CallStyle::Plain, w.clone(), String::new()),
    ] {
        let grammars = grammars(|model| model.tools.calls = calls);
        let forced = |tool_choice: ToolChoice, parallel_tool_calls: bool, text: &str| {
            let tools = vec![weather(), clock()];
            let request = ChatRequest { tools, tool_choice, parallel_tool_calls, ..request() };
            takes(grammars.constraint(&request, false).unwrap(), text)
        };
        let named = || ToolChoice::Named("get_weather".into());
        assert_eq!(forced(ToolChoice::Required, true, &one), Ok(()), "{calls:?}");
        assert_eq!(forced(named(), true, &one), Ok(()), "{calls:?}");
        if !two.is_empty() {
            assert_eq!(forced(ToolChoice::Required, true, &two), Ok(()), "{calls:?}");
            assert!(forced(ToolChoice::Required, false, &two).is_err(), "{calls:?}");
            assert!(forced(named(), true, &two).is_err(), "{calls:?}");
        }
        for wrong in [
            "Sure.",
            "",
            &one.replace("Oslo\"", "Oslo\", 1"),
            &one.replace("\"city\"", "\"town\""),
            &one.replace("get_", "set_"),
        ] {
            assert!(forced(ToolChoice::Required, true, wrong).is_err(), "{calls:?} {wrong}");
        }
        assert!(forced(ToolChoice::Named("clock".into()), true, &one).is_err(), "{calls:?}");
    }
}

#[test]
fn calls_are_free_to_come_and_not_free_in_their_form() {
    let w = r#"{"name": "get_weather", "arguments": {"city": "Oslo"}}"#;
    for (calls, good, bad) in [
        (
            CallStyle::Tagged,
            vec![
                format!("Let me see.\n<tool_call>\n{w}\n</tool_call>\n<tool_call>\n{w}\n</tool_call> Done"),
                "a <tool> {".into(),
            ],
            vec![format!("<tool_call>{w}"), "a <tool_call>\n{\"name\": \"other\"".into()],
        ),
        (
            CallStyle::MistralList,
            vec![format!("[TOOL_CALLS] [{w}, {w}]"), "[TOOL] [".into()],
            vec!["[TOOL_CALLS] [{\"name\": \"other\"".into()],
        ),
        (CallStyle::Plain, vec![w.to_owned(), "a { b".into()], vec!["{\"answer\": 1}".into()]),
    ] {
        let grammars = grammars(|model| model.tools.calls = calls);
        let auto = ChatRequest { tools: vec![weather()], ..request() };
        let takes = |text: &str| takes(grammars.constraint(&auto, false).unwrap(), text);
        for text in good.iter().map(String::as_str).chain(["", "It rains.\n\nIn Oslo é 日本."]) {
            assert_eq!(takes(text), Ok(()), "{calls:?}");
        }
        for text in bad {
            assert!(takes(&text).is_err(), "{calls:?} {text}");
        }
        let none = ChatRequest { tool_choice: ToolChoice::None, ..auto.clone() };
        assert!(grammars.constraint(&none, false).unwrap().is_none());
    }
}

#[test]
fn thinking_is_free_and_the_answer_behind_it_is_not() {
    let thinking = Thinking { open: "<think>", close: "</think>", hidden: Vec::new(), switchable: true };
    let grammars = grammars(|model| model.thinking = Some(thinking));
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]});
    let takes = |thinking: Option<bool>, opened: bool, text: &str| {
        let request = ChatRequest { thinking, ..with_schema(&schema) };
        takes(grammars.constraint(&request, opened).unwrap(), text)
    };
    let thought = "Hm, {so}.\n</think>\n\n{\"a\": 1}";
    assert_eq!(takes(None, false, &format!("<think>\n{thought}")), Ok(()));
    assert_eq!(takes(None, false, "{\"a\": 1}"), Ok(()));
    assert_eq!(takes(Some(true), true, thought), Ok(()));
    assert!(takes(Some(true), true, "{\"a\": 1}").is_err());
    assert!(takes(None, false, "<think>\nHm.</think>\n\nSure: {").is_err());
    assert!(takes(Some(false), false, "<think>").is_err());
    // The answer ends only where it is whole.
    assert!(takes(None, false, "<think>Hm.").is_err());
    assert!(takes(None, false, "{\"a\": ").is_err());
}
