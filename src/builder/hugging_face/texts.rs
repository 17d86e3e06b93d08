//! The tokenizer's files, the chat template, and what `generation_config.json` recommends.

use std::io::ErrorKind;

use serde_json::Value;

use super::config::{present, wrong};
use super::{CONFIG, Checkpoint, read_json};
use crate::builder::error::{BuildError, ModelError};
use crate::builder::genai_config::SamplingDefaults;
use crate::builder::source::{SpecialTokens, Texts};
use crate::builder::tokenizer::END_TOKENS;
use crate::model::{ChatTemplate, TemplateSources, Tokenizer, end_tokens};

const TOKENIZER: &str = "tokenizer.json";
const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
const GENERATION: &str = "generation_config.json";

impl Checkpoint {
    /// For a model whose embedding has so many rows.
    pub fn texts(&self, rows: usize) -> Result<Texts, BuildError> {
        let path = self.folder.join(TOKENIZER);
        let tokenizer = std::fs::read(&path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => BuildError::Checkpoint {
                path: self.folder.clone(),
                problem: format!(
                    "has no {TOKENIZER}; other formats of vocabularies are not read, except in a GGUF file"
                ),
            },
            _ => BuildError::Read { path: path.clone(), error },
        })?;
        // What it says is checked by the library that will use it.
        let understood = Tokenizer::open(&path).map_err(|error| BuildError::Checkpoint {
            path: self.folder.clone(),
            problem: format!("has a {TOKENIZER} that is not right: {error}"),
        })?;
        let vocabulary = read_json(&path)?.unwrap_or_default();
        let mut config =
            read_json(&self.folder.join(TOKENIZER_CONFIG))?.unwrap_or_else(|| Value::Object(Default::default()));
        let template = TemplateSources::read(&self.folder, &config)
            .map_err(|error| BuildError::Read { path: error.path, error: error.error })?;
        // They have files of their own from now on.
        if let Some(config) = config.as_object_mut() {
            config.remove("chat_template");
        }
        let of_model = |error| BuildError::Model { path: self.folder.clone(), error };
        let generation = read_json(&self.folder.join(GENERATION))?.unwrap_or_default();
        let mut special = special(&[&generation, &self.config], &vocabulary, &config, rows).map_err(of_model)?;
        // A template that cannot be read is for those to complain of who want to chat.
        if let Some(template) = template.as_ref().and_then(|template| ChatTemplate::new(template, &config).ok()) {
            let ends = end_tokens(&[generation, self.config.clone()], &config, &template, &understood);
            for id in ends.into_iter().map(|id| id as usize) {
                if !special.ends.contains(&id) {
                    special.ends.push(id);
                }
            }
        }
        if special.ends.is_empty() {
            let expected = format!("the token that ends an answer, in {GENERATION} or {CONFIG}");
            let key = "eos_token_id".to_owned();
            return Err(of_model(ModelError::Value { key, found: "missing".to_owned(), expected }));
        }
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
    let [bos, padding] = [named("bos_token_id", "bos_token")?, named("pad_token_id", "pad_token")?];
    Ok(SpecialTokens { bos: bos.first().copied(), padding: padding.first().copied(), ends })
}
