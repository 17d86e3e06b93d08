//! Tools that a model may call: what a request says of them, and the calls in conversations and answers.

use serde_json::{Map, Value as Json, json};

/// A function that a model may call.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    pub name: String,
    pub description: Option<String>,
    /// A JSON Schema of the arguments, which are one object; `None` for a function without any.
    pub parameters: Option<Json>,
}

impl Tool {
    /// As chat templates read it.
    pub fn for_template(&self) -> Json {
        let mut function = Map::from_iter([("name".to_owned(), Json::from(self.name.as_str()))]);
        function.extend(self.description.as_ref().map(|text| ("description".to_owned(), text.as_str().into())));
        function.extend(self.parameters.as_ref().map(|schema| ("parameters".to_owned(), schema.clone())));
        json!({"type": "function", "function": function})
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ToolChoice {
    /// The model is not told of the tools.
    None,
    /// The model calls tools or answers, as it likes.
    #[default]
    Auto,
    /// It calls at least one.
    Required,
    /// It calls this one, once.
    Named(String),
}

/// A call that a model made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// Ties the tool's answer to the call.
    pub id: String,
    pub name: String,
    /// A JSON object, as the model wrote it.
    pub arguments: String,
}

impl ToolCall {
    /// As chat templates read it: with the arguments as an object.
    pub fn for_template(&self) -> Json {
        let text = self.arguments.as_str();
        let arguments: Json = serde_json::from_str(text).unwrap_or_else(|_| text.into());
        json!({"id": self.id, "type": "function", "function": {"name": self.name, "arguments": arguments}})
    }
}

/// A piece of a call, as it comes in. The calls of an answer are counted from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolCallDelta {
    Start {
        index: usize,
        id: String,
        name: String,
    },
    /// More of the arguments' text.
    Arguments {
        index: usize,
        text: String,
    },
}
