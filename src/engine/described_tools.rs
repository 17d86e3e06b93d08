//! Tools for models whose chat template knows nothing of them: they are described in the system message, and calls and their
//! results are written into the messages' text, as Hermes and Qwen have them.

use super::request::{ChatMessage, Role};
use super::tools::Tool;
use crate::model::TAG;

/// The conversation in plain messages.
pub fn described(messages: &[ChatMessage], tools: &[Tool]) -> Vec<ChatMessage> {
    let mut plain: Vec<ChatMessage> = messages.iter().map(in_text).collect();
    if tools.is_empty() {
        return plain;
    }
    let description = description(tools);
    match plain.first_mut() {
        Some(first) if first.role == Role::System => first.content = format!("{}\n\n{description}", first.content),
        _ => plain.insert(0, ChatMessage::new(Role::System, description)),
    }
    plain
}

fn description(tools: &[Tool]) -> String {
    let tools: Vec<String> = tools.iter().map(|tool| tool.for_template()["function"].to_string()).collect();
    let (open, close) = TAG;
    format!(
        "You may call these tools, each of which is described in a line of JSON:\n{}\n\nTo call one, write its name and its \
         arguments like this, and wait for the result:\n{open}\n{{\"name\": \"a tool's name\", \"arguments\": {{\"a \
         parameter\": \"a value\"}}}}\n{close}",
        tools.join("\n")
    )
}

fn in_text(message: &ChatMessage) -> ChatMessage {
    let (open, close) = TAG;
    if message.role == Role::Tool {
        let result = format!("<tool_response>\n{}\n</tool_response>", message.content);
        return ChatMessage::new(Role::User, result);
    }
    let calls = message.tool_calls.iter().map(|call| {
        let name = serde_json::Value::from(call.name.as_str());
        format!("{open}\n{{\"name\": {name}, \"arguments\": {}}}\n{close}", call.arguments)
    });
    let said = (!message.content.is_empty()).then(|| message.content.clone());
    let parts: Vec<String> = said.into_iter().chain(calls).collect();
    ChatMessage { content: parts.join("\n"), tool_calls: Vec::new(), ..message.clone() }
}

#[cfg(test)]
mod tests {
    use super::super::tools::ToolCall;
    use super::*;
    use serde_json::json;

    #[test]
    fn tools_calls_and_results_become_text() {
        let parameters = Some(json!({"type": "object"}));
        let tool = Tool { name: "weather".into(), description: Some("Of a city".into()), parameters };
        let call = ToolCall { id: "x".into(), name: "weather".into(), arguments: r#"{"city": "Oslo"}"#.into() };
        let messages = [
            ChatMessage::new(Role::System, "Be brief."),
            ChatMessage::new(Role::User, "Oslo?"),
            ChatMessage { tool_calls: vec![call], ..ChatMessage::new(Role::Assistant, "Let me see.") },
            ChatMessage { tool_call_id: Some("x".into()), ..ChatMessage::new(Role::Tool, "Rain") },
        ];
        let plain = described(&messages, std::slice::from_ref(&tool));
        let line = r#"{"name":"weather","description":"Of a city","parameters":{"type":"object"}}"#;
        assert!(
            plain[0].content.starts_with("Be brief.\n\n") && plain[0].content.contains(line),
            "{}",
            plain[0].content
        );
        let called =
            "Let me see.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>";
        assert_eq!(plain[2], ChatMessage::new(Role::Assistant, called));
        assert_eq!(plain[3], ChatMessage::new(Role::User, "<tool_response>\nRain\n</tool_response>"));
        // What was called before can be read without tools, too, and tools without a system message.
        assert_eq!(described(&messages, &[])[0], messages[0]);
        let alone = described(&messages[1..2], &[tool]);
        assert_eq!((alone.len(), alone[0].role, &alone[1]), (2, Role::System, &messages[1]));
    }
}
