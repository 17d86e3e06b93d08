//! What an answer may be, as a grammar in llguidance's form of Lark: JSON by a schema, calls of tools in the model's style,
//! and free text around them; thinking before all of it is free.

use serde_json::{Value as Json, json};

use super::request::{AnswerFormat, ChatRequest};
use super::tools::{Tool, ToolChoice};
use crate::model::{ARGS, CallStyle, PYTHON_TAG, TAG, TOOL_CALLS};

/// What of a request cannot be done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct InvalidRequest {
    /// By its name in OpenAI's interface.
    pub parameter: &'static str,
    pub message: String,
}

impl InvalidRequest {
    pub fn new(parameter: &'static str, message: impl Into<String>) -> Self {
        Self { parameter, message: message.into() }
    }
}

/// A model's habits that a grammar has to know.
#[derive(Debug, Clone, Copy)]
pub struct Habits {
    pub calls: CallStyle,
    /// The markers of its thinking, where it may think.
    pub thinking: Option<(&'static str, &'static str)>,
    /// The prompt ends within the thinking.
    pub opened: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Grammar {
    pub lark: String,
    /// The schemas in it, with the parameter that each came in and what it is of.
    pub schemas: Vec<(&'static str, String, Json)>,
}

/// White space between JSON's tokens: a space, or a new line with its indentation. Were there no end to it, small models
/// would write nothing else.
const WHITE_SPACE: &str = r" |\r?\n[ \t]{0,32}";

/// A grammar takes time by the square of an object's optional properties: of so many, about a second.
const MOST_PROPERTIES: usize = 1000;

/// Whether any text matches so many patterns at once is found out in milliseconds; for twenty it may take minutes.
const MOST_COMBINED: usize = 8;

/// `None` where any text will do.
pub fn grammar(request: &ChatRequest, habits: Habits) -> Result<Option<Grammar>, InvalidRequest> {
    let tools = callable(request)?;
    let mut rules = Rules::default();
    let calls = match tools {
        [] => None,
        tools => Some(rules.calls(tools, request, habits.calls)?),
    };
    let must_call = matches!(request.tool_choice, ToolChoice::Required | ToolChoice::Named(_));
    let json = match &request.format {
        AnswerFormat::Text => None,
        _ if must_call => None,
        AnswerFormat::JsonObject => Some(json!({"type": "object"})),
        AnswerFormat::JsonSchema(schema) => Some(schema.clone()),
    };
    let json = json.map(|schema| rules.json("response_format", "the answer".to_owned(), schema)).transpose()?;
    let answer = match (calls, json) {
        (None, None) => return Ok(None),
        (None, Some(json)) => json,
        (Some(calls), None) if must_call => calls,
        (Some(_), None) => rules.text_or_calls(request, habits.calls),
        (Some(_), Some(_)) if matches!(habits.calls, CallStyle::Llama | CallStyle::Plain) => {
            return Err(InvalidRequest::new(
                "response_format",
                "this model writes calls of tools as JSON, which cannot be told from an answer in JSON; \
                 leave the tools away, or require a call",
            ));
        }
        (Some(calls), Some(json)) => format!("({calls} | {json})"),
    };
    let thought = match habits.thinking {
        None => "",
        Some((_, close)) if habits.opened => {
            rules.add(format!("thought[lazy]: TEXT {}", literal(close)));
            "thought BLANK? "
        }
        Some((open, close)) => {
            rules.add(format!("thought[lazy]: {} TEXT {}", literal(open), literal(close)));
            "(thought BLANK?)? "
        }
    };
    rules.add("TEXT: /(?s:.*)/".to_owned());
    rules.add(r"BLANK: /[ \r\n]{1,8}/".to_owned());
    let lark = format!("%llguidance {{}}\nstart: {thought}{answer}\n{}\n", rules.lines.join("\n"));
    Ok(Some(Grammar { lark, schemas: rules.schemas }))
}

/// The tools that the answer may call, checked.
fn callable(request: &ChatRequest) -> Result<&[Tool], InvalidRequest> {
    let tools = &request.tools[..];
    for (index, tool) in tools.iter().enumerate() {
        if tool.name.is_empty() {
            return Err(InvalidRequest::new("tools", "a tool has an empty name"));
        }
        if tools[..index].iter().any(|other| other.name == tool.name) {
            return Err(InvalidRequest::new("tools", format!("two tools are called '{}'", tool.name)));
        }
    }
    match &request.tool_choice {
        ToolChoice::None => Ok(&[]),
        ToolChoice::Auto => Ok(tools),
        ToolChoice::Required if tools.is_empty() => {
            Err(InvalidRequest::new("tool_choice", "a call is required, but there are no tools"))
        }
        ToolChoice::Required => Ok(tools),
        ToolChoice::Named(name) => match tools.iter().position(|tool| tool.name == *name) {
            Some(index) => Ok(&tools[index..=index]),
            None => Err(InvalidRequest::new("tool_choice", format!("there is no tool '{name}' among the tools"))),
        },
    }
}

#[derive(Default)]
struct Rules {
    lines: Vec<String>,
    schemas: Vec<(&'static str, String, Json)>,
}

impl Rules {
    fn add(&mut self, line: String) {
        self.lines.push(line);
    }

    /// The name of a rule for JSON that is valid by a schema.
    fn json(&mut self, parameter: &'static str, what: String, mut schema: Json) -> Result<String, InvalidRequest> {
        let wrong = |problem: &str| InvalidRequest::new(parameter, format!("the schema of {what} {problem}"));
        let fields = schema.as_object_mut().ok_or_else(|| wrong("is no object"))?;
        let options = json!({"whitespace_pattern": WHITE_SPACE});
        if fields.insert("x-guidance".to_owned(), options).is_some() {
            return Err(wrong("has 'x-guidance', which is no keyword of JSON Schema"));
        }
        if let Some(number) = most_properties(&schema).filter(|number| *number > MOST_PROPERTIES) {
            return Err(wrong(&format!(
                "has an object of {number} properties; at most {MOST_PROPERTIES} can be followed"
            )));
        }
        let mut patterns = Patterns::default();
        patterns.count(&schema);
        if patterns.combined && patterns.number > MOST_COMBINED {
            return Err(wrong(&format!(
                "has {} patterns and formats, and asks some of them at once; at most {MOST_COMBINED} can be followed so",
                patterns.number
            )));
        }
        let rule = format!("json_{}", self.schemas.len());
        self.add(format!("{rule}: %json {schema}"));
        self.schemas.push((parameter, what, schema));
        Ok(rule)
    }

    /// The name of a rule for one call, or for several, from the first marker on.
    fn calls(&mut self, tools: &[Tool], request: &ChatRequest, style: CallStyle) -> Result<String, InvalidRequest> {
        let mut names = Vec::new();
        for (index, tool) in tools.iter().enumerate() {
            let arguments = self.json("tools", format!("tool '{}'", tool.name), parameters(tool)?)?;
            let name = Json::from(tool.name.as_str());
            let (begin, end) = match style {
                CallStyle::MistralArguments => (format!("{}{ARGS}", tool.name), ""),
                CallStyle::Llama => (format!("{{\"name\": {name}, \"parameters\": "), "}"),
                _ => (format!("{{\"name\": {name}, \"arguments\": "), "}"),
            };
            let end = if end.is_empty() { String::new() } else { format!(" {}", literal(end)) };
            self.add(format!("call_{index}: {} {arguments}{end}", literal(&begin)));
            names.push(format!("call_{index}"));
        }
        self.add(format!("object: {}", names.join(" | ")));
        let several = several(request, style);
        let rest = match style {
            CallStyle::Tagged => format!(r#""\n" object {}"#, literal(&format!("\n{}", TAG.1))),
            CallStyle::MistralList if several => r#"" "? "[" object (", " object)* "]""#.to_owned(),
            CallStyle::MistralList => r#"" "? "[" object "]""#.to_owned(),
            CallStyle::MistralArguments | CallStyle::Llama | CallStyle::Plain => "object".to_owned(),
        };
        // What follows the marker, which free text finds for itself.
        self.add(format!("rest: {rest}"));
        let marked = match style {
            CallStyle::Tagged if several => format!("{0} rest (\"\\n\" {0} rest)*", literal(TAG.0)),
            CallStyle::Tagged => format!("{} rest", literal(TAG.0)),
            CallStyle::MistralArguments if several => format!("({} rest)+", literal(TOOL_CALLS)),
            CallStyle::MistralList | CallStyle::MistralArguments => format!("{} rest", literal(TOOL_CALLS)),
            CallStyle::Llama => format!("{}? rest", literal(PYTHON_TAG)),
            CallStyle::Plain => "rest".to_owned(),
        };
        self.add(format!("calls: {marked}"));
        Ok("calls".to_owned())
    }

    /// Any text, with calls behind it where there is a marker.
    fn text_or_calls(&mut self, request: &ChatRequest, style: CallStyle) -> String {
        let marker = match style {
            CallStyle::Tagged => TAG.0,
            CallStyle::MistralList | CallStyle::MistralArguments => TOOL_CALLS,
            CallStyle::Llama | CallStyle::Plain => {
                self.add(r"WORDS: /[^{](?s:.*)/".to_owned());
                return "(calls | WORDS | \"\")".to_owned();
            }
        };
        self.add(format!("head[lazy]: TEXT {}", literal(marker)));
        // A list of calls is the end of an answer.
        match several(request, style) && style != CallStyle::MistralList {
            true => "(head rest)* TEXT".to_owned(),
            false => "(head rest | TEXT)".to_owned(),
        }
    }
}

/// An answer may have several calls; Llama's templates know of one only.
fn several(request: &ChatRequest, style: CallStyle) -> bool {
    let one =
        matches!(request.tool_choice, ToolChoice::Named(_)) || matches!(style, CallStyle::Llama | CallStyle::Plain);
    request.parallel_tool_calls && !one
}

/// Of the object that has the most.
fn most_properties(schema: &Json) -> Option<usize> {
    match schema {
        Json::Object(fields) => {
            let own = fields.get("properties").and_then(Json::as_object).map(serde_json::Map::len);
            fields.values().filter_map(most_properties).chain(own).max()
        }
        Json::Array(items) => items.iter().filter_map(most_properties).max(),
        _ => None,
    }
}

/// The regular expressions of a schema.
#[derive(Default)]
struct Patterns {
    number: usize,
    /// More than one may have to match the same text.
    combined: bool,
}

impl Patterns {
    fn count(&mut self, schema: &Json) {
        match schema {
            Json::Object(fields) => {
                let text = |name: &str| usize::from(fields.get(name).is_some_and(Json::is_string));
                let names = fields.get("patternProperties").and_then(Json::as_object).map_or(0, serde_json::Map::len);
                self.number += text("pattern") + text("format") + names;
                let there =
                    ["pattern", "format", "anyOf", "oneOf", "$ref"].iter().filter(|name| fields.contains_key(**name));
                self.combined |= there.count() > 1 || names > 1 || fields.contains_key("allOf");
                fields.values().for_each(|value| self.count(value));
            }
            Json::Array(items) => items.iter().for_each(|item| self.count(item)),
            _ => {}
        }
    }
}

/// The schema of a tool's arguments, which are an object.
fn parameters(tool: &Tool) -> Result<Json, InvalidRequest> {
    let Some(schema) = &tool.parameters else {
        return Ok(json!({"type": "object", "properties": {}, "additionalProperties": false}));
    };
    let mut schema = schema.clone();
    if let Some(fields) = schema.as_object_mut() {
        let kind = fields.entry("type").or_insert_with(|| "object".into());
        if kind != "object" {
            let problem = format!("the parameters of tool '{}' are of type {kind}; expected \"object\"", tool.name);
            return Err(InvalidRequest::new("tools", problem));
        }
    }
    Ok(schema)
}

/// Text in Lark, which writes it as JSON does.
fn literal(text: &str) -> String {
    Json::from(text).to_string()
}
