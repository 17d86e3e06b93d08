//! How a model writes calls of tools: what its chat template shows of it, and which of its markers are tokens.

use super::template::ChatTemplate;
use super::tokenizer::Tokenizer;

/// How the calls of an answer are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallStyle {
    /// `<tool_call>\n{"name": ..., "arguments": {...}}\n</tool_call>`, of Hermes and Qwen.
    Tagged,
    /// `{"name": ..., "parameters": {...}}` as the whole answer, behind `<|python_tag|>` or not, of Llama 3.
    Llama,
    /// `[TOOL_CALLS][{"name": ..., "arguments": {...}}, ...]`, of Mistral.
    MistralList,
    /// `[TOOL_CALLS]name[ARGS]{...}`, of Mistral's newer models.
    MistralArguments,
    /// `{"name": ..., "arguments": {...}}` as the whole answer; models whose style is not known are held to it.
    Plain,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolStyle {
    pub calls: CallStyle,
    /// The chat template tells the model of the tools.
    pub in_template: bool,
    /// Markers that are special tokens, which decoding leaves out.
    pub hidden: Vec<(u32, &'static str)>,
}

pub const TAG: (&str, &str) = ("<tool_call>", "</tool_call>");
pub const PYTHON_TAG: &str = "<|python_tag|>";
pub const TOOL_CALLS: &str = "[TOOL_CALLS]";
pub const ARGS: &str = "[ARGS]";
pub const CALL_ID: &str = "[CALL_ID]";

impl ToolStyle {
    pub fn of(template: &ChatTemplate, tokenizer: &Tokenizer) -> Self {
        let in_template = template.mentions("tools");
        let calls = match in_template {
            // The style that most models know, and that text is not mistaken for.
            false => CallStyle::Tagged,
            // Qwen3-Coder writes XML within the tags.
            true if template.mentions(TAG.0) && !template.mentions("<function=") => CallStyle::Tagged,
            true if template.mentions(ARGS) => CallStyle::MistralArguments,
            true if template.mentions(TOOL_CALLS) => CallStyle::MistralList,
            true if template.mentions("\"parameters\": ") && template.mentions("<|start_header_id|>") => {
                CallStyle::Llama
            }
            true => CallStyle::Plain,
        };
        let markers = [TAG.0, TAG.1, PYTHON_TAG, TOOL_CALLS, ARGS, CALL_ID].into_iter();
        let hidden = markers.filter_map(|marker| {
            let id = tokenizer.token(marker)?;
            tokenizer.is_special(id).then_some((id, marker))
        });
        Self { calls, in_template, hidden: hidden.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A vocabulary with Mistral's marker as a special token and Qwen's as a plain one.
    fn tokenizer() -> Tokenizer {
        let added = |id: u32, text: &str, special: bool| {
            json!({"id": id, "content": text, "special": special, "single_word": false, "lstrip": false,
                   "rstrip": false, "normalized": false})
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokenizer.json");
        let added = [added(1, TOOL_CALLS, true), added(2, TAG.0, false)];
        let tokenizer = json!({"version": "1.0", "added_tokens": added,
            "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}});
        std::fs::write(&path, tokenizer.to_string()).unwrap();
        Tokenizer::open(&path).unwrap()
    }

    #[test]
    fn the_template_tells_the_style() {
        let style = |source: &str| {
            let template = ChatTemplate::new(&source.into(), &json!({})).unwrap();
            let style = ToolStyle::of(&template, &tokenizer());
            assert_eq!(style.hidden, [(1, TOOL_CALLS)]);
            (style.calls, style.in_template)
        };
        for (source, expected) in [
            ("{{ messages }}", (CallStyle::Tagged, false)),
            ("{{ tools | tojson }}<tool_call>{\"name\"", (CallStyle::Tagged, true)),
            ("{% for t in tools %}{% endfor %}<tool_call><function=x>", (CallStyle::Plain, true)),
            ("{% if tools %}[TOOL_CALLS]{% endif %}", (CallStyle::MistralList, true)),
            ("{% if tools %}[TOOL_CALLS]x[ARGS]{}{% endif %}", (CallStyle::MistralArguments, true)),
            ("<|start_header_id|>{% if tools %}{{ '\"parameters\": ' }}{% endif %}", (CallStyle::Llama, true)),
            ("{{ tools }}", (CallStyle::Plain, true)),
        ] {
            assert_eq!(style(source), expected, "{source}");
        }
    }
}
