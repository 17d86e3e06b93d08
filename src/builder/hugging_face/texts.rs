//! The tokenizer's files, the chat template, and what `generation_config.json` recommends.

use serde_json::Value;

use super::config::{present, wrong};
use super::{CONFIG, Checkpoint, read_json};
use crate::builder::error::{BuildError, ModelError};
use crate::builder::genai_config::SamplingDefaults;
use crate::builder::source::{SpecialTokens, Texts};
use crate::builder::tokenizer::END_TOKENS;

const TOKENIZER: &str = "tokenizer.json";
const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
const TEMPLATE: &str = "chat_template.jinja";
const GENERATION: &str = "generation_config.json";

impl Checkpoint {
    /// For a model whose embedding has so many rows.
    pub fn texts(&self, rows: usize) -> Result<Texts, BuildError> {
        let path = self.folder.join(TOKENIZER);
        let tokenizer = std::fs::read(&path).map_err(|error| BuildError::Read { path: path.clone(), error })?;
        // What it says is checked by the library that will use it.
        tokenizers::Tokenizer::from_bytes(&tokenizer).map_err(|error| BuildError::Checkpoint {
            path: self.folder.clone(),
            problem: format!("has a {TOKENIZER} that is not right: {error}"),
        })?;
        let vocabulary = read_json(&path)?.unwrap_or_default();
        let mut config =
            read_json(&self.folder.join(TOKENIZER_CONFIG))?.unwrap_or_else(|| Value::Object(Default::default()));
        let template = self.template(&config)?;
        // It has a file of its own from now on.
        if let Some(config) = config.as_object_mut() {
            config.remove("chat_template");
        }
        let of_model = |error| BuildError::Model { path: self.folder.clone(), error };
        let generation = read_json(&self.folder.join(GENERATION))?.unwrap_or_default();
        let special = special(&[&generation, &self.config], &vocabulary, &config, rows).map_err(of_model)?;
        Ok(Texts { tokenizer, config, template, special })
    }

    /// The sampling that the folder recommends, filled up with moderate values.
    pub fn sampling(&self) -> Result<SamplingDefaults, BuildError> {
        let moderate = SamplingDefaults::default();
        let Some(generation) = read_json(&self.folder.join(GENERATION))? else { return Ok(moderate) };
        let float = |key: &str, range: std::ops::RangeInclusive<f64>, default: f32| {
            let found = generation.get(key).and_then(Value::as_f64).filter(|value| range.contains(value));
            found.map_or(default, |value| value as f32)
        };
        let top_k = generation.get("top_k").and_then(Value::as_u64).and_then(|value| u32::try_from(value).ok());
        let greedy = generation.get("do_sample") == Some(&Value::Bool(false));
        Ok(SamplingDefaults {
            temperature: if greedy { 0.0 } else { float("temperature", 0.0..=10.0, moderate.temperature) },
            top_p: float("top_p", 0.0..=1.0, moderate.top_p),
            top_k: top_k.unwrap_or(moderate.top_k),
        })
    }

    /// A file of its own comes before one in `tokenizer_config.json`, where it is a text, or one of several with names.
    fn template(&self, config: &Value) -> Result<Option<String>, BuildError> {
        let path = self.folder.join(TEMPLATE);
        match std::fs::read_to_string(&path) {
            Ok(text) => return Ok(Some(text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(BuildError::Read { path, error }),
        }
        let named = |templates: &Vec<Value>| {
            let default = templates.iter().find(|one| one.get("name").and_then(Value::as_str) == Some("default"))?;
            default.get("template")?.as_str().map(str::to_owned)
        };
        Ok(config.get("chat_template").and_then(|template| match template {
            Value::Array(templates) => named(templates),
            other => other.as_str().map(str::to_owned),
        }))
    }
}

/// The tokens that begin, end and pad texts: those that the first of `configs` with the key names, else those that
/// `tokenizer_config.json` does; and all special tokens that are known to end an answer.
fn special(
    configs: &[&Value],
    vocabulary: &Value,
    tokenizer_config: &Value,
    rows: usize,
) -> Result<SpecialTokens, ModelError> {
    let no_tokens = Vec::new();
    let added = vocabulary.get("added_tokens").and_then(Value::as_array).unwrap_or(&no_tokens);
    let content = |token: &Value| token.get("content").and_then(Value::as_str).map(str::to_owned);
    let id = |token: &Value| token.get("id").and_then(Value::as_u64).and_then(|id| usize::try_from(id).ok());
    let largest = {
        let model = vocabulary.get("model").and_then(|model| model.get("vocab")).and_then(Value::as_object);
        let ids = model.into_iter().flat_map(|model| model.values()).filter_map(Value::as_u64);
        ids.map(|id| id as usize).chain(added.iter().filter_map(id)).max()
    };
    if let Some(largest) = largest.filter(|largest| *largest >= rows) {
        return Err(ModelError::VocabularySize { tokens: largest.saturating_add(1), rows });
    }
    let by_text = |key: &str| {
        let token = tokenizer_config.get(key)?;
        let text = token.as_str().map(str::to_owned).or_else(|| content(token))?;
        added.iter().find(|added| content(added).as_ref() == Some(&text)).and_then(id)
    };
    let named = |key: &str, text_key: &str| -> Result<Vec<usize>, ModelError> {
        let Some(value) = configs.iter().find_map(|config| present(config, key)) else {
            return Ok(by_text(text_key).into_iter().collect());
        };
        let one = |value: &Value| {
            let id = value.as_u64().and_then(|id| usize::try_from(id).ok()).filter(|id| *id < rows);
            id.ok_or_else(|| wrong(key, value, &format!("a token's number, below {rows}")))
        };
        match value {
            Value::Array(values) => values.iter().map(one).collect(),
            value => Ok(vec![one(value)?]),
        }
    };
    let mut ends = named("eos_token_id", "eos_token")?;
    let known = added.iter().filter(|token| token.get("special") == Some(&Value::Bool(true)));
    let known = known.filter(|token| content(token).is_some_and(|text| END_TOKENS.contains(&text.as_str())));
    for id in known.filter_map(id) {
        if !ends.contains(&id) {
            ends.push(id);
        }
    }
    if ends.is_empty() {
        let expected = format!("the token that ends an answer, in {GENERATION} or {CONFIG}");
        return Err(ModelError::Value { key: "eos_token_id".to_owned(), found: "missing".to_owned(), expected });
    }
    let [bos, padding] = [named("bos_token_id", "bos_token")?, named("pad_token_id", "pad_token")?];
    Ok(SpecialTokens { bos: bos.first().copied(), padding: padding.first().copied(), ends })
}
