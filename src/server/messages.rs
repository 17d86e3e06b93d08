//! Conversations as OpenAI's chat API has them: messages of text, tools, and what an answer has to look like.

use serde_json::{Value, json};

use super::error::ApiError;
use super::fields::{Fields, wrong_type, wrong_value};
use crate::engine::{AnswerFormat, ChatMessage, Role, Tool, ToolCall, ToolChoice};

/// As OpenAI limits them.
const MOST_TOOLS: usize = 128;
const LONGEST_NAME: usize = 64;

/// The field `messages`, oldest first.
pub fn messages(fields: &mut Fields, most: usize) -> Result<Vec<ChatMessage>, ApiError> {
    let list = fields.list("messages")?.ok_or_else(|| fields.missing("messages"))?;
    let path = fields.path_of("messages");
    check_count(&path, list.len(), most)?;
    let each = list.into_iter().enumerate().map(|(index, value)| message(value, format!("{path}[{index}]")));
    each.collect()
}

/// At least one, and at most so many.
pub fn check_count(path: &str, count: usize, most: usize) -> Result<(), ApiError> {
    if (1..=most).contains(&count) {
        return Ok(());
    }
    let message = format!("'{path}' has {count} entries; it must have between 1 and {most}");
    Err(ApiError::param(path, "invalid_value", message))
}

const ROLES: [(&str, Role); 5] = [
    ("system", Role::System),
    ("developer", Role::System),
    ("user", Role::User),
    ("assistant", Role::Assistant),
    ("tool", Role::Tool),
];

fn message(value: Value, path: String) -> Result<ChatMessage, ApiError> {
    let mut fields = Fields::of(value, path)?;
    let role = fields.one_of("role", &ROLES)?.ok_or_else(|| fields.missing("role"))?;
    let content = content(&mut fields, &["text"])?;
    let mut message = ChatMessage::new(role, String::new());
    message.name = fields.string("name")?;
    match role {
        Role::Assistant => {
            message.tool_calls = tool_calls(&mut fields)?;
            // What an answer had besides its text, when it is sent back. Past thinking is not shown to models.
            fields.ignore(&["reasoning_content", "reasoning", "refusal", "annotations", "audio", "function_call"]);
        }
        Role::Tool => {
            let id = fields.string("tool_call_id")?;
            message.tool_call_id = Some(id.ok_or_else(|| fields.missing("tool_call_id"))?);
        }
        Role::System | Role::User => {}
    }
    message.content = match content {
        Some(content) => content,
        None if !message.tool_calls.is_empty() => String::new(),
        None => return Err(fields.missing("content")),
    };
    fields.ignore(&["id", "status"]);
    fields.finish()?;
    Ok(message)
}

/// A text, or a list of parts whose types are all among `types`; parts are put on lines of their own.
pub fn content(fields: &mut Fields, types: &[&str]) -> Result<Option<String>, ApiError> {
    let path = fields.path_of("content");
    let parts = match fields.take("content") {
        None => return Ok(None),
        Some(Value::String(text)) => return Ok(Some(text)),
        Some(Value::Array(parts)) => parts,
        Some(other) => return Err(wrong_type(&path, &other, "a string or a list of parts")),
    };
    let texts = parts.into_iter().enumerate().map(|(index, part)| {
        let mut part = Fields::of(part, format!("{path}[{index}]"))?;
        let kind = part.string("type")?.ok_or_else(|| part.missing("type"))?;
        if !types.contains(&kind.as_str()) {
            let at = part.path_of("type");
            let error =
                wrong_value(&at, &kind.into(), format!("'{}': this server takes text alone", types.join("' or '")));
            return Err(error);
        }
        let text = part.string("text")?.ok_or_else(|| part.missing("text"))?;
        part.ignore(&["annotations", "logprobs", "cache_control"]);
        part.finish()?;
        Ok(text)
    });
    let texts: Vec<String> = texts.collect::<Result<_, _>>()?;
    Ok(Some(texts.join("\n")))
}

fn tool_calls(fields: &mut Fields) -> Result<Vec<ToolCall>, ApiError> {
    let path = fields.path_of("tool_calls");
    let calls = fields.list("tool_calls")?.unwrap_or_default();
    let each = calls.into_iter().enumerate().map(|(index, call)| {
        let mut call = Fields::of(call, format!("{path}[{index}]"))?;
        let id = call.string("id")?.ok_or_else(|| call.missing("id"))?;
        call.one_of("type", &[("function", ())])?;
        let mut function = call.object("function")?.ok_or_else(|| call.missing("function"))?;
        let name = function.string("name")?.ok_or_else(|| function.missing("name"))?;
        let arguments = function.string("arguments")?.ok_or_else(|| function.missing("arguments"))?;
        call.ignore(&["index"]);
        function.finish().and_then(|()| call.finish())?;
        Ok(ToolCall { id, name, arguments })
    });
    each.collect()
}

/// The fields `tools`, `tool_choice` and `parallel_tool_calls`.
pub fn tools(fields: &mut Fields) -> Result<(Vec<Tool>, ToolChoice, bool), ApiError> {
    for old in ["functions", "function_call"] {
        if fields.take(old).is_some() {
            return Err(fields.unsupported(old, "it was replaced by 'tools' and 'tool_choice'"));
        }
    }
    let path = fields.path_of("tools");
    let list = fields.list("tools")?.unwrap_or_default();
    if list.len() > MOST_TOOLS {
        check_count(&path, list.len(), MOST_TOOLS)?;
    }
    let each = list.into_iter().enumerate().map(|(index, value)| tool(value, format!("{path}[{index}]")));
    let tools: Vec<Tool> = each.collect::<Result<_, _>>()?;
    let choice = tool_choice(fields, &tools)?;
    let parallel = fields.boolean("parallel_tool_calls")?.unwrap_or(true);
    Ok((tools, choice, parallel))
}

fn tool(value: Value, path: String) -> Result<Tool, ApiError> {
    let mut tool = Fields::of(value, path)?;
    tool.one_of("type", &[("function", ())])?.ok_or_else(|| tool.missing("type"))?;
    let mut function = tool.object("function")?.ok_or_else(|| tool.missing("function"))?;
    let name = name(&mut function)?;
    let description = function.string("description")?;
    let parameters = function.object("parameters")?.map(Fields::into_value);
    // Arguments follow their schema wherever it can be kept to.
    function.boolean("strict")?;
    function.finish().and_then(|()| tool.finish())?;
    Ok(Tool { name, description, parameters })
}

fn name(fields: &mut Fields) -> Result<String, ApiError> {
    let name = fields.string("name")?.ok_or_else(|| fields.missing("name"))?;
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(fits) {
        let expected = format!("1 to {LONGEST_NAME} letters, digits, '_' or '-'");
        return Err(fields.wrong("name", &name.into(), expected));
    }
    Ok(name)
}

fn tool_choice(fields: &mut Fields, tools: &[Tool]) -> Result<ToolChoice, ApiError> {
    let Some(value) = fields.take("tool_choice") else { return Ok(ToolChoice::Auto) };
    let path = fields.path_of("tool_choice");
    let choice = match value.as_str() {
        Some("none") => ToolChoice::None,
        Some("auto") => ToolChoice::Auto,
        Some("required") => ToolChoice::Required,
        Some(_) => return Err(wrong_value(&path, &value, "'none', 'auto', 'required' or an object that names a tool")),
        None => {
            let mut object = Fields::of(value, &path)?;
            object.one_of("type", &[("function", ())])?.ok_or_else(|| object.missing("type"))?;
            let mut function = object.object("function")?.ok_or_else(|| object.missing("function"))?;
            let name = function.string("name")?.ok_or_else(|| function.missing("name"))?;
            if !tools.iter().any(|tool| tool.name == name) {
                return Err(function.wrong("name", &name.into(), "the name of one of 'tools'"));
            }
            function.finish().and_then(|()| object.finish())?;
            return Ok(ToolChoice::Named(name));
        }
    };
    if choice == ToolChoice::Required && tools.is_empty() {
        let message = format!("'{path}' is 'required', but there are no tools");
        return Err(ApiError::param(path, "invalid_value", message));
    }
    Ok(choice)
}

/// What an answer has to look like, as `response_format` of the chat API says it; in the responses API the schema's fields
/// are not in an object of their own.
pub fn format(format: Option<Fields>, is_flat: bool) -> Result<AnswerFormat, ApiError> {
    let Some(mut format) = format else { return Ok(AnswerFormat::Text) };
    let kinds = [("text", 0), ("json_object", 1), ("json_schema", 2)];
    let kind = format.one_of("type", &kinds)?.ok_or_else(|| format.missing("type"))?;
    let answer = match kind {
        0 => AnswerFormat::Text,
        1 => AnswerFormat::JsonObject,
        _ if is_flat => AnswerFormat::JsonSchema(schema(&mut format)?),
        _ => {
            let mut named = format.object("json_schema")?.ok_or_else(|| format.missing("json_schema"))?;
            let schema = schema(&mut named)?;
            named.finish()?;
            AnswerFormat::JsonSchema(schema)
        }
    };
    format.finish()?;
    Ok(answer)
}

fn schema(fields: &mut Fields) -> Result<Value, ApiError> {
    name(fields)?;
    fields.string("description")?;
    // Schemas are always kept to.
    fields.boolean("strict")?;
    fields.object("schema")?.map(Fields::into_value).ok_or_else(|| fields.missing("schema"))
}

/// `reasoning_effort`: whether to think at all, where a model can be told.
pub fn thinking(fields: &mut Fields, name: &str) -> Result<Option<bool>, ApiError> {
    let efforts =
        [("none", false), ("minimal", false), ("low", true), ("medium", true), ("high", true), ("xhigh", true)];
    fields.one_of(name, &efforts)
}

/// Calls of tools as an answer has them.
pub fn calls_as_json(calls: &[ToolCall]) -> Vec<Value> {
    let of = |call: &ToolCall| {
        json!({
            "id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}
        })
    };
    calls.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: Value) -> Result<Vec<ChatMessage>, ApiError> {
        messages(&mut Fields::of(json!({"messages": value}), "").unwrap(), 8)
    }

    #[test]
    fn messages_of_every_role_are_read() {
        let call = json!({"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}});
        let found = read(json!([
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "name": "ada"},
            {"role": "assistant", "content": null, "tool_calls": [call], "refusal": null},
            {"role": "tool", "content": "42", "tool_call_id": "call_1"},
        ]))
        .unwrap();
        let expected = [
            ChatMessage::new(Role::System, "Be brief."),
            ChatMessage { name: Some("ada".into()), ..ChatMessage::new(Role::User, "a\nb") },
            ChatMessage {
                tool_calls: vec![ToolCall { id: "call_1".into(), name: "f".into(), arguments: "{}".into() }],
                ..ChatMessage::new(Role::Assistant, "")
            },
            ChatMessage { tool_call_id: Some("call_1".into()), ..ChatMessage::new(Role::Tool, "42") },
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_wrong_is_named_by_its_place() {
        for (value, param) in [
            (json!("hi"), "messages"),
            (json!([]), "messages"),
            (json!(vec![json!({"role": "user", "content": "x"}); 9]), "messages"),
            (json!([3]), "messages[0]"),
            (json!([{"content": "x"}]), "messages[0].role"),
            (json!([{"role": "function", "content": "x"}]), "messages[0].role"),
            (json!([{"role": "user"}]), "messages[0].content"),
            (json!([{"role": "user", "content": 3}]), "messages[0].content"),
            (json!([{"role": "user", "content": [{"type": "image_url"}]}]), "messages[0].content[0].type"),
            (json!([{"role": "user", "content": [{"type": "text"}]}]), "messages[0].content[0].text"),
            (json!([{"role": "user", "content": "x", "mood": "good"}]), "messages[0].mood"),
            (json!([{"role": "tool", "content": "x"}]), "messages[0].tool_call_id"),
            (json!([{"role": "assistant", "tool_calls": [{"id": "1"}]}]), "messages[0].tool_calls[0].function"),
        ] {
            let error = read(value.clone()).unwrap_err();
            assert_eq!(error.param.as_deref(), Some(param), "{value}: {}", error.message);
        }
    }

    fn read_tools(value: Value) -> Result<(Vec<Tool>, ToolChoice, bool), ApiError> {
        tools(&mut Fields::of(value, "").unwrap())
    }

    #[test]
    fn tools_and_the_choice_among_them() {
        let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
        let tool = json!({"type": "function", "function": {"name": "weather", "parameters": schema, "strict": true}});
        let expected = vec![Tool { name: "weather".into(), description: None, parameters: Some(schema) }];
        for (choice, found) in [
            (json!(null), ToolChoice::Auto),
            (json!("none"), ToolChoice::None),
            (json!("required"), ToolChoice::Required),
            (json!({"type": "function", "function": {"name": "weather"}}), ToolChoice::Named("weather".into())),
        ] {
            let read = read_tools(json!({"tools": [tool], "tool_choice": choice})).unwrap();
            assert_eq!(read, (expected.clone(), found, true));
        }
        for (value, param) in [
            (json!({"functions": []}), "functions"),
            (json!({"tools": [{"type": "web_search"}]}), "tools[0].type"),
            (json!({"tools": [{"type": "function", "function": {"name": "a b"}}]}), "tools[0].function.name"),
            (
                json!({"tools": [{"type": "function", "function": {"name": "a", "parameters": 1}}]}),
                "tools[0].function.parameters",
            ),
            (json!({"tool_choice": "required"}), "tool_choice"),
            (json!({"tool_choice": "any"}), "tool_choice"),
            (
                json!({"tools": [tool], "tool_choice": {"type": "function", "function": {"name": "x"}}}),
                "tool_choice.function.name",
            ),
        ] {
            let error = read_tools(value.clone()).unwrap_err();
            assert_eq!(error.param.as_deref(), Some(param), "{value}: {}", error.message);
        }
    }

    #[test]
    fn formats() {
        let read = |value: Value, is_flat| format(Some(Fields::of(value, "response_format").unwrap()), is_flat);
        assert_eq!(format(None, false).unwrap(), AnswerFormat::Text);
        assert_eq!(read(json!({"type": "json_object"}), false).unwrap(), AnswerFormat::JsonObject);
        let schema = json!({"type": "object"});
        let named = json!({"name": "n", "schema": schema, "strict": true});
        let nested = read(json!({"type": "json_schema", "json_schema": named}), false).unwrap();
        let flat = read(json!({"type": "json_schema", "name": "n", "schema": schema, "strict": true}), true).unwrap();
        assert_eq!((&nested, &flat), (&AnswerFormat::JsonSchema(schema.clone()), &AnswerFormat::JsonSchema(schema)));
        for (value, param) in [
            (json!({"type": "xml"}), "response_format.type"),
            (json!({"type": "json_schema"}), "response_format.json_schema"),
            (json!({"type": "json_schema", "json_schema": {"name": "n"}}), "response_format.json_schema.schema"),
            (json!({"type": "text", "json_schema": {}}), "response_format.json_schema"),
        ] {
            assert_eq!(read(value, false).unwrap_err().param.as_deref(), Some(param));
        }
    }
}
