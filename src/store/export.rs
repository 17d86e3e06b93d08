//! A conversation for others to read: Markdown of the way that is shown, or JSON of all of it.

use std::collections::HashSet;

use serde::Serialize;
use serde_json::Value;

use super::message::Message;
use super::record::timestamp;
use super::tree::Tree;

/// The version of the JSON; it grows when a field changes its meaning.
pub const SCHEMA: u32 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Markdown,
    Json,
}

impl Format {
    /// By a file's name; `None` for another ending than `.md`, `.markdown` and `.json`.
    pub fn of(file: &str) -> Option<Self> {
        let (_, ending) = file.rsplit_once('.')?;
        match ending.to_ascii_lowercase().as_str() {
            "md" | "markdown" => Some(Self::Markdown),
            "json" => Some(Self::Json),
            _ => None,
        }
    }

    pub fn ending(self) -> &'static str {
        match self {
            Self::Markdown => "md",
            Self::Json => "json",
        }
    }

    /// The whole file.
    pub fn write(self, tree: &Tree, id: Option<&str>) -> String {
        match self {
            Self::Markdown => markdown(tree),
            Self::Json => format!("{:#}\n", json(tree, id)),
        }
    }
}

/// A heading for each message, its text as it is.
pub fn markdown(tree: &Tree) -> String {
    let mut out = format!("# {}\n", one_line(&tree.title().unwrap_or_else(|| "Conversation".to_owned())));
    if let Some(system) = tree.system() {
        out.push_str(&section("System", system));
    }
    for message in tree.path() {
        let who = match &message.answer {
            None => "You".to_owned(),
            Some(answer) => {
                let lane = answer.lane().map(|lane| match answer.is_emulated() {
                    true => format!(", {lane} emulated"),
                    false => format!(", {lane}"),
                });
                let model = if answer.model.is_empty() { "Answer" } else { &answer.model };
                format!("{}{}", one_line(model), lane.unwrap_or_default())
            }
        };
        out.push_str(&section(&who, &message.text));
        if let Some(note) = note(message) {
            out.push_str(&format!("\n*{}*\n", one_line(&note)));
        }
    }
    out
}

fn section(heading: &str, text: &str) -> String {
    format!("\n## {heading}\n\n{}\n", text.trim_end())
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// How an answer ended, where that was not its own end.
pub fn note(message: &Message) -> Option<String> {
    match &message.answer.as_ref()?.end {
        Some(end) => end.note.clone(),
        None => Some("cut: ortalk ended while it was written".to_owned()),
    }
}

/// All messages with their parents, those beside the way that is shown, too.
pub fn json(tree: &Tree, id: Option<&str>) -> Value {
    #[derive(Serialize)]
    struct Conversation<'a> {
        schema: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<&'a str>,
        title: Option<String>,
        system: Option<&'a str>,
        /// The last message of the conversation as it is shown.
        head: Option<u32>,
        messages: Vec<Value>,
    }
    let path: HashSet<u32> = tree.path().iter().map(|message| message.id).collect();
    let conversation = Conversation {
        schema: SCHEMA,
        id,
        title: tree.title(),
        system: tree.system(),
        head: tree.head(),
        messages: tree.visible().map(|message| message_json(message, path.contains(&message.id))).collect(),
    };
    serde_json::to_value(conversation).unwrap_or_default()
}

fn message_json(message: &Message, shown: bool) -> Value {
    #[derive(Serialize)]
    struct Row<'a> {
        id: u32,
        parent: Option<u32>,
        role: &'static str,
        time: String,
        /// It is part of the conversation as it is shown.
        shown: bool,
        text: &'a str,
        #[serde(flatten)]
        answer: Option<AnswerRow<'a>>,
    }
    #[derive(Serialize)]
    struct AnswerRow<'a> {
        model: &'a str,
        lane: Option<&'a str>,
        emulated: bool,
        #[serde(skip_serializing_if = "str::is_empty")]
        thinking: &'a str,
        /// `null` where the program ended before the answer did.
        finish: Option<&'a str>,
        tokens: Option<usize>,
        thinking_tokens: Option<usize>,
        ttft_ms: Option<f64>,
        tokens_per_second: Option<f64>,
    }
    let answer = message.answer.as_ref().map(|answer| {
        let end = answer.end.as_ref();
        AnswerRow {
            model: &answer.model,
            lane: answer.lane(),
            emulated: answer.is_emulated(),
            thinking: &answer.thinking,
            finish: end.map(|end| end.finish.as_str()),
            tokens: end.map(|end| end.tokens),
            thinking_tokens: end.map(|end| end.thinking_tokens),
            ttft_ms: end.and_then(|end| end.ttft).map(|ttft| ttft.as_secs_f64() * 1000.0),
            tokens_per_second: end.and_then(|end| end.tokens_per_second),
        }
    });
    let row = Row {
        id: message.id,
        parent: message.parent,
        role: if answer.is_some() { "assistant" } else { "user" },
        time: timestamp(message.time),
        shown,
        text: &message.text,
        answer,
    };
    serde_json::to_value(row).unwrap_or_default()
}

/// A file's name for this conversation, without an ending.
pub fn file_name(tree: &Tree) -> String {
    let title = tree.title().unwrap_or_default().to_lowercase();
    let mut name = String::new();
    for c in title.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }) {
        if !(c == '-' && (name.is_empty() || name.ends_with('-'))) {
            name.push(c);
        }
    }
    let name: String = name.chars().take(40).collect();
    match name.trim_end_matches('-') {
        "" => "conversation".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::record::tests::{answer, end, question, text};
    use super::super::{Record, Tree};
    use super::*;

    fn tree() -> Tree {
        let mut tree = Tree::default();
        for record in [
            Record::System(Some("Be brief.".into())),
            question(0, None, "Name a *river*, please!\n"),
            answer(1, 0),
            Record::Lane { id: 1, lane: "npu".into(), emulated: true, why: None },
            text(1, "- Loire\n- Seine"),
            end(1, "length"),
            answer(2, 0),
            text(2, "Garonne"),
            end(2, "stop"),
            Record::Head(Some(1)),
        ] {
            tree.apply(&record);
        }
        tree
    }

    #[test]
    fn markdown_is_what_is_shown() {
        let expected = "# Name a *river*, please!\n\n## System\n\nBe brief.\n\n## You\n\nName a *river*, please!\n\n\
            ## test-model, npu emulated\n\n- Loire\n- Seine\n\n*length: cut*\n";
        assert_eq!(markdown(&tree()), expected);
        assert_eq!(markdown(&Tree::default()), "# Conversation\n");
    }

    #[test]
    fn json_has_all_of_it() {
        let json = json(&tree(), Some("id"));
        let messages = json["messages"].as_array().unwrap();
        let field = |name: &str| messages.iter().map(|message| message[name].clone()).collect::<Vec<_>>();
        assert_eq!(field("role"), ["user", "assistant", "assistant"]);
        assert_eq!(field("shown"), [true, true, false]);
        assert_eq!(field("parent"), [Value::Null, 0.into(), 0.into()]);
        assert_eq!(field("finish"), [Value::Null, "length".into(), "stop".into()]);
        assert_eq!((&json["head"], &json["title"]), (&1.into(), &"Name a *river*, please!".into()));
        assert_eq!(messages[1]["ttft_ms"], 40.0);
        assert_eq!(messages[0].as_object().unwrap().len(), 6);
    }

    #[test]
    fn files_are_named_by_the_title() {
        assert_eq!(file_name(&tree()), "name-a-river-please");
        assert_eq!(file_name(&Tree::default()), "conversation");
        assert_eq!(
            (Format::of("a.b/x.MD"), Format::of("x.json"), Format::of("x.txt"), Format::of("md")),
            (Some(Format::Markdown), Some(Format::Json), None, None)
        );
    }
}
