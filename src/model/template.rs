//! Chat templates: turns a conversation into the prompt text the model was trained on, as Hugging Face transformers
//! renders it (Jinja with `trim_blocks` and `lstrip_blocks`, Python's string methods, `raise_exception`).

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, ErrorKind, Value, context};

pub struct ChatTemplate {
    environment: Environment<'static>,
    bos_token: String,
    eos_token: String,
}

/// A message as templates see it.
#[derive(Debug, Clone, Copy)]
pub struct TemplateMessage<'a> {
    pub role: &'a str,
    pub content: &'a str,
}

#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    #[error("the model's chat template cannot be read: {0:#}")]
    Parse(minijinja::Error),
    #[error("the model's chat template refuses this conversation: {0:#}")]
    Render(minijinja::Error),
}

const NAME: &str = "chat_template";

/// Steps that one rendering may take, so that a template that loops without end stops. A turn takes some tens of them.
const MOST_STEPS: u64 = 20_000_000;

impl ChatTemplate {
    /// `tokenizer_config` gives the texts of the special tokens that a template may name.
    pub fn new(source: &str, tokenizer_config: &serde_json::Value) -> Result<Self, TemplateError> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(TemplateError::Parse)?);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", |message: String| -> Result<String, minijinja::Error> {
            Err(minijinja::Error::new(ErrorKind::InvalidOperation, message))
        });
        environment.set_fuel(Some(MOST_STEPS));
        environment.add_template_owned(NAME, source.to_string()).map_err(TemplateError::Parse)?;
        let token = |key: &str| special_token(tokenizer_config, key);
        Ok(Self { environment, bos_token: token("bos_token"), eos_token: token("eos_token") })
    }

    /// The prompt text; with `add_generation_prompt` it ends where the assistant's answer begins.
    pub fn render(
        &self,
        messages: &[TemplateMessage<'_>],
        add_generation_prompt: bool,
    ) -> Result<String, TemplateError> {
        let messages: Vec<Value> =
            messages.iter().map(|message| context! { role => message.role, content => message.content }).collect();
        let template = self.environment.get_template(NAME).map_err(TemplateError::Render)?;
        template
            .render(context! {
                messages, add_generation_prompt, bos_token => &*self.bos_token, eos_token => &*self.eos_token
            })
            .map_err(TemplateError::Render)
    }
}

/// A special token's text, written as a string or as an object with `content`; empty where there is none.
fn special_token(config: &serde_json::Value, key: &str) -> String {
    let value = config.get(key);
    value.and_then(|v| v.as_str().or_else(|| v.get("content")?.as_str())).unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: TemplateMessage<'static> = TemplateMessage { role: "user", content: "Hi" };

    fn render(source: &str) -> Result<String, TemplateError> {
        ChatTemplate::new(source, &serde_json::json!({"bos_token": {"content": "<s>"}, "eos_token": "</s>"}))?
            .render(&[USER], true)
    }

    #[test]
    fn blocks_leave_no_line_breaks_behind() {
        let source =
            "{% for m in messages %}\n  {% if true %}\n{{ m.role }}: {{ m['content'] }}\n  {% endif %}\n{% endfor %}";
        assert_eq!(render(source).unwrap(), "user: Hi\n");
    }

    #[test]
    fn special_tokens_come_in_both_notations() {
        assert_eq!(render("{{ bos_token }}{{ eos_token }}").unwrap(), "<s></s>");
    }

    #[test]
    fn python_methods_work() {
        assert_eq!(render("{% if messages[0].content.upper().startswith('H') %}yes{% endif %}").unwrap(), "yes");
    }

    #[test]
    fn a_template_can_refuse() {
        let error = render("{{ raise_exception('roles must alternate') }}").unwrap_err().to_string();
        assert!(error.contains("roles must alternate"), "{error}");
    }

    #[test]
    fn a_template_without_end_is_stopped() {
        let source = "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}";
        assert!(matches!(render(source), Err(TemplateError::Render(_))));
    }

    #[test]
    fn a_very_long_conversation_is_rendered() {
        let source = "{% for m in messages %}{{ '<' + m['role'] + '>' + m['content'] }}{% endfor %}";
        let messages = vec![USER; 20_000];
        let text = ChatTemplate::new(source, &serde_json::Value::Null).unwrap().render(&messages, true).unwrap();
        assert_eq!(text.len(), 20_000 * "<user>Hi".len());
    }

    #[test]
    fn a_template_that_cannot_be_read_says_so() {
        assert!(matches!(render("{% for %}"), Err(TemplateError::Parse(_))));
    }
}
