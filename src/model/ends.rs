//! The tokens that end an answer. Folders name them in several files, and hardly one names all of them: a model's turn
//! ends with one token, its text with another.

use serde_json::Value;

use super::template::ChatTemplate;
use super::tokenizer::Tokenizer;

/// All that `configs` (`generation_config.json`, `config.json`) name, and the tokenizer's configuration; and the special
/// token that the chat template closes an assistant's turn with.
pub fn end_tokens(
    configs: &[Value],
    tokenizer_config: &Value,
    template: &ChatTemplate,
    tokenizer: &Tokenizer,
) -> Vec<u32> {
    let number = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
    let named = configs.iter().filter_map(|config| config.get("eos_token_id")).flat_map(|value| match value {
        Value::Array(ids) => ids.iter().filter_map(number).collect(),
        id => number(id).into_iter().collect::<Vec<_>>(),
    });
    let text =
        tokenizer_config.get("eos_token").and_then(|token| token.as_str().or_else(|| token.get("content")?.as_str()));
    let by_text = text.and_then(|text| tokenizer.token(text));
    let closing = tokenizer.encode(&template.turn_end()).unwrap_or_default();
    let closing = closing.first().copied().filter(|id| tokenizer.is_special(*id));
    let mut ends: Vec<u32> = Vec::new();
    for id in named.chain(by_text).chain(closing) {
        if !ends.contains(&id) {
            ends.push(id);
        }
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn tokenizer(folder: &std::path::Path) -> Tokenizer {
        let added = |id: u32, text: &str, special: bool| {
            json!({"id": id, "content": text, "special": special, "single_word": false, "lstrip": false,
                   "rstrip": false, "normalized": false})
        };
        let path = folder.join("tokenizer.json");
        let tokenizer = json!({
            "version": "1.0",
            "added_tokens": [added(1, "<eos>", true), added(2, "<turn>", true), added(3, "<plain>", false)],
            "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []},
        });
        std::fs::write(&path, tokenizer.to_string()).unwrap();
        Tokenizer::open(&path).unwrap()
    }

    #[test]
    fn every_file_s_tokens_count_and_the_template_s() {
        let folder = tempfile::tempdir().unwrap();
        let tokenizer = tokenizer(folder.path());
        let template = |close: &str| {
            let source = format!("{{% for m in messages %}}{{{{ m.content }}}}{close}\n{{% endfor %}}");
            ChatTemplate::new(&source.as_str().into(), &Value::Null).unwrap()
        };
        let ends =
            |configs: &[Value], config: Value, close: &str| end_tokens(configs, &config, &template(close), &tokenizer);
        let configs =
            [json!({"eos_token_id": [7, 8]}), json!({"eos_token_id": 7}), json!({"eos_token_id": -1}), json!({})];
        assert_eq!(ends(&configs, json!({"eos_token": {"content": "<eos>"}}), "<turn>"), [7, 8, 1, 2]);
        assert_eq!(ends(&[], json!({"eos_token": "<unknown>"}), "<eos><turn>"), [1]);
        // A token that texts may have as well ends nothing.
        assert_eq!(ends(&[], json!({}), "<plain>"), [0_u32; 0]);
        assert_eq!(ends(&[], json!({}), ""), [0_u32; 0]);
    }
}
