//! What goes over the wire, as far as it is needed: the body of a chat, its chunks, errors, the list of models.

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The body of `POST /chat/completions`, by the interface's own names.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatBody(Map<String, Value>);

impl ChatBody {
    /// Asks for a stream that ends with the counts of tokens. `messages` are objects with `role` and `content`.
    pub fn new(model: &str, messages: Vec<Value>) -> Self {
        let mut body = Map::new();
        body.insert("model".into(), model.into());
        body.insert("messages".into(), messages.into());
        body.insert("stream".into(), true.into());
        body.insert("stream_options".into(), json!({"include_usage": true}));
        Self(body)
    }

    /// Leaves a field out where there is no value.
    #[must_use]
    pub fn with(mut self, field: &str, value: Option<impl Into<Value>>) -> Self {
        if let Some(value) = value {
            self.0.insert(field.to_owned(), value.into());
        }
        self
    }

    /// Takes out a field that the server does not know, where the request is as good without it; `max_tokens` gets its newer
    /// name. False where that is no remedy.
    pub fn give_up(&mut self, field: &str) -> bool {
        match field {
            "max_tokens" => match self.0.remove("max_tokens") {
                Some(value) => self.0.insert("max_completion_tokens".into(), value).is_none(),
                None => false,
            },
            "stream_options" | "temperature" | "top_p" | "seed" | "frequency_penalty" | "presence_penalty" | "stop" => {
                self.0.remove(field).is_some()
            }
            _ => false,
        }
    }

    pub(super) fn to_json(&self) -> Vec<u8> {
        // A map with text as keys always becomes JSON.
        serde_json::to_vec(&self.0).unwrap_or_default()
    }
}

/// One of the server's models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelEntry {
    pub id: String,
    /// Who offers it, as the server has it: `ortalk`, `vllm`, `openai`.
    pub owned_by: Option<String>,
    /// Prompt and answer together, in tokens; OpenAI's interface has no field for it, but most servers add one.
    pub context: Option<usize>,
}

impl ModelEntry {
    /// Reads the answer of `GET /models`.
    pub(super) fn list(json: &[u8]) -> Result<Vec<Self>, String> {
        #[derive(Deserialize)]
        struct List {
            data: Vec<Value>,
        }
        let list: List = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        let entry = |value: &Value| {
            let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
            let number = |value: Option<&Value>| {
                value
                    .and_then(Value::as_u64)
                    .and_then(|number| usize::try_from(number).ok())
                    .filter(|number| *number > 0)
            };
            // vLLM, ortalk and others, llama-server.
            let named = ["max_model_len", "context_length", "context_window"];
            let own = || named.iter().find_map(|name| number(value.get(name)));
            let meta = || ["n_ctx", "n_ctx_train"].iter().find_map(|name| number(value.get("meta")?.get(name)));
            Some(Self { id: text("id")?, owned_by: text("owned_by"), context: own().or_else(meta) })
        };
        Ok(list.data.iter().filter_map(entry).collect())
    }
}

/// Counts of tokens, as the server has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServerUsage {
    pub prompt_tokens: usize,
    /// Reasoning included.
    pub completion_tokens: usize,
    /// Prompt tokens that the server had in its cache.
    pub cached_tokens: Option<usize>,
}

/// One `data` of a stream.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Chunk {
    #[serde(default)]
    pub choices: Vec<Choice>,
    pub usage: Option<WireUsage>,
    /// In place of a piece.
    pub error: Option<Value>,
    /// What ortalk's own server adds.
    pub ortalk: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Choice {
    #[serde(default)]
    pub delta: Delta,
    pub finish_reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Delta {
    pub content: Option<String>,
    /// Thinking has two names: DeepSeek's, llama-server's and vLLM's older one, and vLLM's newer one.
    pub reasoning_content: Option<String>,
    pub reasoning: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct WireUsage {
    prompt_tokens: usize,
    #[serde(default)]
    completion_tokens: usize,
    prompt_tokens_details: Option<PromptDetails>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct PromptDetails {
    cached_tokens: Option<usize>,
}

impl From<WireUsage> for ServerUsage {
    fn from(usage: WireUsage) -> Self {
        Self {
            prompt_tokens: usage.prompt_tokens,
            completion_tokens: usage.completion_tokens,
            cached_tokens: usage.prompt_tokens_details.and_then(|details| details.cached_tokens),
        }
    }
}

/// What an error says, and which field of the request it is about: `{"error": {"message", "param"}}`, `{"error": "..."}`,
/// `{"message"}`, `{"detail"}`, or plain text.
pub(super) fn fault(body: &str) -> (String, Option<String>) {
    let Ok(value) = serde_json::from_str::<Value>(body) else {
        // A page for browsers says nothing in a line.
        let is_page = body.trim_start().starts_with('<');
        return (if is_page { String::new() } else { body.to_owned() }, None);
    };
    let error = value.get("error").unwrap_or(&value);
    let named = || ["message", "detail", "error"].iter().find_map(|name| error.get(name)?.as_str());
    let message = error.as_str().or_else(named).or_else(|| value.get("detail")?.as_str()).unwrap_or_default();
    let param = error.get("param").and_then(Value::as_str).map(str::to_owned);
    (message.to_owned(), param)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_read_in_the_forms_that_servers_have() {
        for (body, message, param) in [
            (
                r#"{"error": {"message": "no such model", "type": "x", "param": "model", "code": null}}"#,
                "no such model",
                Some("model"),
            ),
            (r#"{"error": {"message": "no"}}"#, "no", None),
            (r#"{"error": "no"}"#, "no", None),
            (r#"{"object": "error", "message": "too long", "param": null}"#, "too long", None),
            (r#"{"detail": "Not Found"}"#, "Not Found", None),
            ("upstream connect error", "upstream connect error", None),
            (" <html>502</html>", "", None),
            ("[]", "", None),
            ("", "", None),
        ] {
            assert_eq!(fault(body), (message.to_owned(), param.map(str::to_owned)), "{body}");
        }
    }

    #[test]
    fn a_model_s_context_has_many_names() {
        let list = ModelEntry::list(
            br#"{"object": "list", "data": [
                {"id": "a", "object": "model", "owned_by": "vllm", "max_model_len": 4096},
                {"id": "b", "context_length": 8192},
                {"id": "c", "owned_by": "llamacpp", "meta": {"n_ctx_train": 2048, "n_vocab": 5}},
                {"id": "d", "context_window": 0},
                {"object": "model"}
            ]}"#,
        )
        .unwrap();
        let found: Vec<_> = list.iter().map(|entry| (entry.id.as_str(), entry.context)).collect();
        assert_eq!(found, [("a", Some(4096)), ("b", Some(8192)), ("c", Some(2048)), ("d", None)]);
        assert_eq!(list[0].owned_by.as_deref(), Some("vllm"));
        assert!(ModelEntry::list(b"{}").is_err() && ModelEntry::list(b"<html>").is_err());
    }

    #[test]
    fn only_fields_that_change_no_meaning_are_given_up() {
        let mut body =
            ChatBody::new("m", vec![]).with("max_tokens", Some(5)).with("seed", Some(1)).with("stop", None::<Value>);
        assert!(body.give_up("seed") && !body.give_up("seed"));
        assert!(body.give_up("max_tokens") && !body.give_up("max_tokens"));
        assert!(
            !body.give_up("stop") && !body.give_up("messages") && !body.give_up("model") && !body.give_up("nonsense")
        );
        let json: Value = serde_json::from_slice(&body.to_json()).unwrap();
        let expected = json!({"model": "m", "messages": [], "stream": true, "stream_options": {"include_usage": true},
            "max_completion_tokens": 5});
        assert_eq!(json, expected);
    }
}
