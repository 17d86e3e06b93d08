//! Chat templates: turns a conversation into the prompt text the model was trained on, as Hugging Face transformers'
//! `apply_chat_template` renders it.
//!
//! What its Jinja has beyond the language is in `python`, where a folder keeps its templates in `sources`. Text that a
//! user typed is not told apart from the template's own: `<|im_end|>` within a message becomes that token, as there.

mod python;
mod sources;

use minijinja::{Environment, context};
use python::from_serde;
use serde_json::{Map, Value as Json};

pub use sources::{SourcesError, TemplateSources};

pub struct ChatTemplate {
    environment: Environment<'static>,
    /// `bos_token`, `eos_token` and their like, by which templates name them.
    special: Map<String, Json>,
    /// Of all templates.
    source: String,
}

/// A message of plain text.
#[derive(Debug, Clone, Copy)]
pub struct TemplateMessage<'a> {
    pub role: &'a str,
    pub content: &'a str,
}

/// What a template may see. Messages, tools and documents are objects as OpenAI's chat interface has them.
#[derive(Debug, Clone, Default)]
pub struct TemplateInputs {
    /// With `role`, `content` and, where there are any, `tool_calls`, `reasoning_content` and others.
    pub messages: Vec<Json>,
    pub tools: Option<Vec<Json>>,
    pub documents: Option<Vec<Json>>,
    /// `None` leaves it to the template.
    pub thinking: Option<bool>,
    /// The text ends where the assistant's answer begins.
    pub add_generation_prompt: bool,
    /// The text ends with the last message's content, as the beginning of an answer to be gone on with.
    pub continue_last: bool,
    /// What a single model's template knows besides, as `date_string`.
    pub more: Map<String, Json>,
}

#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    #[error("the model's chat template cannot be read: {0:#}")]
    Parse(minijinja::Error),
    #[error("the model's chat template refuses this conversation: {0:#}")]
    Render(minijinja::Error),
    #[error("the last message cannot be gone on with: {0}")]
    Continue(&'static str),
}

const DEFAULT: &str = "default";
/// The template for conversations with tools, where a model has one of its own.
const TOOL_USE: &str = "tool_use";

/// Steps that one rendering may take, so that a template that loops without end stops; every 64 bytes that it makes are a
/// step, too. A turn takes some tens of them. What it does not stop: a list that is joined with itself some thirty times, whose
/// length the library counts part by part.
const MOST_STEPS: u64 = 4_000_000;

/// Stands where the last message's content ends, to be found in the text.
const MARK: &str = "CONTINUE_FROM_HERE ";

/// The names that a message's thinking goes by; the first is what templates read.
const REASONING: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

impl ChatTemplate {
    /// `tokenizer_config` gives the texts of the special tokens that a template may name.
    pub fn new(sources: &TemplateSources, tokenizer_config: &Json) -> Result<Self, TemplateError> {
        let mut environment = python::environment(MOST_STEPS).map_err(TemplateError::Parse)?;
        let named = sources.named.iter().map(|(name, source)| (name.as_str(), source.as_str()));
        let mut all = String::new();
        for (name, source) in std::iter::once((DEFAULT, sources.default.as_str())).chain(named) {
            let source = python::without_generation_tags(source);
            all.push_str(&source);
            environment.add_template_owned(name.to_owned(), source).map_err(TemplateError::Parse)?;
        }
        Ok(Self { environment, special: special_tokens(tokenizer_config), source: all })
    }

    /// The prompt text of a conversation of plain texts.
    pub fn render(
        &self,
        messages: &[TemplateMessage<'_>],
        add_generation_prompt: bool,
    ) -> Result<String, TemplateError> {
        let plain =
            |message: &TemplateMessage<'_>| serde_json::json!({"role": message.role, "content": message.content});
        let messages = messages.iter().map(plain).collect();
        self.render_inputs(&TemplateInputs { messages, add_generation_prompt, ..TemplateInputs::default() })
    }

    pub fn render_inputs(&self, inputs: &TemplateInputs) -> Result<String, TemplateError> {
        let mut messages: Vec<Json> = inputs.messages.iter().map(with_reasoning).collect();
        let end = if inputs.continue_last { Some(mark_end(&mut messages)?) } else { None };
        let mut variables = self.special.clone();
        // Both names are in use.
        for (name, thinking) in [("enable_thinking", inputs.thinking), ("thinking", inputs.thinking)] {
            variables.extend(thinking.map(|on| (name.to_owned(), on.into())));
        }
        variables.extend(inputs.more.clone());
        let name = match inputs.tools {
            Some(_) if self.environment.get_template(TOOL_USE).is_ok() => TOOL_USE,
            _ => DEFAULT,
        };
        let template = self.environment.get_template(name).map_err(TemplateError::Render)?;
        let text = template
            .render(context! {
                messages => from_serde(&messages),
                tools => from_serde(&inputs.tools),
                documents => from_serde(&inputs.documents),
                add_generation_prompt => inputs.add_generation_prompt,
                ..from_serde(&variables)
            })
            .map_err(TemplateError::Render)?;
        match end {
            Some(content) => cut_at_mark(&text, &content),
            None => Ok(text),
        }
    }

    /// The text is somewhere in the templates.
    pub fn mentions(&self, text: &str) -> bool {
        self.source.contains(text)
    }

    /// The template asks whether to think.
    pub fn switches_thinking(&self) -> bool {
        self.environment.get_template(DEFAULT).is_ok_and(|template| {
            let read = template.undeclared_variables(false);
            ["enable_thinking", "thinking"].iter().any(|name| read.contains(*name))
        })
    }

    /// What a template writes behind an assistant's answer, white space at its ends aside; empty where it is nothing or
    /// the template refuses to say.
    pub fn turn_end(&self) -> String {
        // Nothing that a template would write by itself.
        const ANSWER: &str = "qzxanswerqzx";
        let messages =
            [TemplateMessage { role: "user", content: "Hi" }, TemplateMessage { role: "assistant", content: ANSWER }];
        let text = self.render(&messages, false).unwrap_or_default();
        text.rsplit_once(ANSWER).map_or_else(String::new, |(_, end)| end.trim().to_owned())
    }
}

/// Every key of the tokenizer's configuration that names a token, written as a string or as an object with `content`.
/// Those that any template may name are there in any case.
fn special_tokens(config: &Json) -> Map<String, Json> {
    let text = |value: &Json| value.as_str().or_else(|| value.get("content")?.as_str()).map(Json::from);
    let named = config.as_object().into_iter().flatten();
    let named =
        named.filter(|(key, _)| key.ends_with("_token")).filter_map(|(key, value)| Some((key.clone(), text(value)?)));
    let empty = ["bos_token", "eos_token"].map(|key| (key.to_owned(), Json::from("")));
    empty.into_iter().chain(named).collect()
}

/// A message whose thinking has all of its names, as transformers gives it.
fn with_reasoning(message: &Json) -> Json {
    let mut message = message.clone();
    if let Some(fields) = message.as_object_mut() {
        let thinking = REASONING.iter().find_map(|name| fields.get(*name).filter(|value| !value.is_null()).cloned());
        if let Some(thinking) = thinking {
            fields.entry("thinking").or_insert_with(|| thinking.clone());
            fields.insert(REASONING[0].to_owned(), thinking);
        }
    }
    message
}

/// Marks where the last message's content ends, and returns that content.
fn mark_end(messages: &mut [Json]) -> Result<String, TemplateError> {
    let content = messages.last_mut().and_then(|message| message.get_mut("content"));
    let content = content.ok_or(TemplateError::Continue("it has no content"))?;
    let text = content.as_str().ok_or(TemplateError::Continue("its content is not one text"))?.to_owned();
    *content = format!("{text}{MARK}").into();
    Ok(text)
}

fn cut_at_mark(text: &str, content: &str) -> Result<String, TemplateError> {
    let at = text.rfind(MARK.trim_end()).filter(|_| text.contains(content.trim()));
    let at = at.ok_or(TemplateError::Continue("the model's chat template leaves it out"))?;
    // Where the template cut the mark's space off, it would have cut white space at the content's end, too.
    let kept = &text[..at];
    Ok(if text[at..].starts_with(MARK) { kept } else { kept.trim_end() }.to_owned())
}

#[cfg(test)]
mod tests;
