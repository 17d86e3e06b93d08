//! Turns a GGUF file's vocabulary into Hugging Face's `tokenizer.json`, `tokenizer_config.json` and `chat_template.jinja`.
//!
//! Three kinds are known (`tokenizer.ggml.model`): byte-level BPE (`gpt2`), whose ways of cutting text before merging are in
//! `pre`; SentencePiece's BPE (`llama`), whose scores become merges in `sentencepiece`; and BPE over characters (`gemma4`).
//! The last two write a character that the vocabulary lacks as its bytes.

mod pre;
mod sentencepiece;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::error::ModelError;
use super::gguf::{Gguf, GgufError};
use super::source::{SpecialTokens, Texts};
use crate::model::{ChatTemplate, TemplateSources};
use pre::PreTokenizer;

/// Tokens that end an answer whatever `eos_token_id` says, where they are control tokens: instruct models end a turn
/// with one token and a text with another, and files often name only one of them.
pub const END_TOKENS: &[&str] = &[
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|end|>",
    "<|return|>",
    "<end_of_turn>",
    "<end_of_utterance>",
    "<｜end▁of▁sentence｜>",
    "</s>",
];

/// llama.cpp's `LLAMA_TOKEN_TYPE_NORMAL` and others.
const NORMAL: i64 = 1;
const UNKNOWN: i64 = 2;
const CONTROL: i64 = 3;
const USER_DEFINED: i64 = 4;

/// How text becomes the vocabulary's tokens.
#[derive(Debug, Clone, Copy)]
enum Scheme {
    Bytes(&'static PreTokenizer),
    /// Characters, with `▁` for a space. `prefix`: a text begins with a space, as words within it do.
    Characters {
        prefix: bool,
    },
}

/// The vocabulary of a file, checked.
#[derive(Debug)]
pub struct Vocabulary<'g, 'a> {
    tokens: &'g [&'a str],
    kinds: Vec<i64>,
    merges: Vec<(&'a str, &'a str)>,
    scheme: Scheme,
    /// White space behind a special token goes with it.
    special_strips: bool,
    adds_bos: bool,
    adds_eos: bool,
    pub bos: Option<usize>,
    pub eos: Option<usize>,
    pub padding: Option<usize>,
    unknown: Option<usize>,
    /// Every token that ends an answer, `eos` first.
    pub ends: Vec<usize>,
    pub template: Option<TemplateSources>,
}

impl<'g, 'a> Vocabulary<'g, 'a> {
    /// Reads the vocabulary of a model whose embedding has so many rows.
    pub fn read(gguf: &'g Gguf<'a>, rows: usize) -> Result<Self, ModelError> {
        let missing = |key: &str| GgufError::MissingKey { key: key.to_owned() };
        let model = gguf.string(MODEL_KEY)?.ok_or_else(|| missing(MODEL_KEY))?;
        let pre = || {
            let name = gguf.string(PRE_KEY)?.unwrap_or("default");
            pre::named(name).ok_or_else(|| ModelError::TokenizerKind {
                key: PRE_KEY,
                found: name.to_owned(),
                known: pre::known(),
            })
        };
        let (scheme, adds_bos) = match model {
            "gpt2" => match pre()? {
                pre if pre.characters => (Scheme::Characters { prefix: false }, pre.adds_bos),
                pre => (Scheme::Bytes(pre), pre.adds_bos),
            },
            "llama" => {
                let prefix = gguf.boolean("tokenizer.ggml.add_space_prefix")?.unwrap_or(true);
                (Scheme::Characters { prefix }, true)
            }
            "gemma4" => (Scheme::Characters { prefix: false }, true),
            other => {
                let known = "\"gpt2\" (byte-level BPE), \"llama\" (SentencePiece BPE), \"gemma4\"".to_owned();
                let found = match other {
                    "t5" => "t5 (SentencePiece Unigram of encoder-decoder models)",
                    "bert" => "bert (WordPiece of embedding models)",
                    other => other,
                };
                return Err(ModelError::TokenizerKind { key: MODEL_KEY, found: found.to_owned(), known });
            }
        };

        let tokens = gguf.strings(TOKENS_KEY)?.ok_or_else(|| missing(TOKENS_KEY))?;
        if tokens.is_empty() || tokens.len() > rows {
            return Err(ModelError::VocabularySize { tokens: tokens.len(), rows });
        }
        let kinds = gguf.integers(KINDS_KEY)?.unwrap_or_else(|| vec![1; tokens.len()]);
        if kinds.len() != tokens.len() {
            return Err(ModelError::Value {
                key: KINDS_KEY.to_owned(),
                found: format!("an array of {} values", kinds.len()),
                expected: format!("one for each of the {} tokens", tokens.len()),
            });
        }
        let mut known = HashSet::with_capacity(tokens.len());
        for (id, token) in tokens.iter().enumerate().filter(|(_, token)| !token.is_empty()) {
            if !known.insert(*token) {
                let (found, problem) = ((*token).to_owned(), "an earlier token has the same text".to_owned());
                return Err(ModelError::Token { id, name: TOKENS_KEY, found, problem });
            }
        }
        let merges = if model == "llama" {
            let scores = gguf.floats(SCORES_KEY)?.ok_or_else(|| missing(SCORES_KEY))?;
            sentencepiece::merges(tokens, &scores, |id| kinds[id] == NORMAL)
        } else {
            read_merges(gguf.strings(MERGES_KEY)?.ok_or_else(|| missing(MERGES_KEY))?, &known)?
        };

        let token_id = |key: &'static str| -> Result<Option<usize>, ModelError> {
            match gguf.unsigned(key)?.map(|id| (id, usize::try_from(id))) {
                None => Ok(None),
                Some((_, Ok(id))) if id < tokens.len() => Ok(Some(id)),
                Some((id, _)) => Err(ModelError::Value {
                    key: key.to_owned(),
                    found: id.to_string(),
                    expected: format!("a token's number, below {}", tokens.len()),
                }),
            }
        };
        let eos = token_id("tokenizer.ggml.eos_token_id")?;
        let mut ends: Vec<usize> = eos.into_iter().collect();
        let named = [token_id("tokenizer.ggml.eot_token_id")?, token_id("tokenizer.ggml.eom_token_id")?];
        let by_text = (0..tokens.len()).filter(|id| kinds[*id] == CONTROL && END_TOKENS.contains(&tokens[*id]));
        let template = templates(gguf)?;
        let closing = template.as_ref().and_then(|template| ChatTemplate::new(template, &Value::Null).ok());
        let closing = closing.map(|template| template.turn_end()).unwrap_or_default();
        let closing = (0..tokens.len()).find(|id| kinds[*id] == CONTROL && closing.starts_with(tokens[*id]));
        for id in named.into_iter().flatten().chain(by_text).chain(closing) {
            if !ends.contains(&id) {
                ends.push(id);
            }
        }
        Ok(Self {
            tokens,
            kinds,
            merges,
            scheme,
            special_strips: strips_behind_special(gguf)?,
            adds_bos: gguf.boolean("tokenizer.ggml.add_bos_token")?.unwrap_or(adds_bos),
            adds_eos: gguf.boolean("tokenizer.ggml.add_eos_token")?.unwrap_or(false),
            bos: token_id("tokenizer.ggml.bos_token_id")?,
            eos,
            padding: token_id("tokenizer.ggml.padding_token_id")?,
            unknown: token_id("tokenizer.ggml.unknown_token_id")?,
            ends,
            template,
        })
    }

    /// The contents of `tokenizer.json`, in the format of the `tokenizers` library.
    pub fn tokenizer_json(&self) -> Value {
        let added: Vec<Value> = (0..self.tokens.len())
            .filter(|id| [UNKNOWN, CONTROL, USER_DEFINED].contains(&self.kinds[*id]) && !self.tokens[*id].is_empty())
            .map(|id| {
                json!({
                    "id": id, "content": self.tokens[id], "single_word": false, "lstrip": false,
                    "rstrip": self.special_strips && ![self.bos, self.unknown, self.padding].contains(&Some(id)),
                    "normalized": false, "special": self.kinds[id] != USER_DEFINED,
                })
            })
            .collect();
        let named = self.tokens.iter().enumerate().filter(|(_, token)| !token.is_empty());
        let vocabulary: Map<String, Value> = named.map(|(id, token)| ((*token).to_owned(), json!(id))).collect();
        let (normalizer, pre_tokenizer, decoder, ignore_merges) = match self.scheme {
            Scheme::Bytes(pre) => {
                let normalizer = if pre.nfc { json!({"type": "NFC"}) } else { Value::Null };
                (normalizer, pre.json(), byte_level(true), pre.ignore_merges)
            }
            Scheme::Characters { prefix } => {
                (sentencepiece::normalizer(prefix), Value::Null, sentencepiece::decoder(prefix), false)
            }
        };
        let by_characters = matches!(self.scheme, Scheme::Characters { .. });
        let unknown = self.unknown.filter(|_| by_characters).map(|id| self.tokens[id]);
        json!({
            "version": "1.0",
            "truncation": null,
            "padding": null,
            "added_tokens": added,
            "normalizer": normalizer,
            "pre_tokenizer": pre_tokenizer,
            "post_processor": self.post_processor(),
            "decoder": decoder,
            "model": {
                "type": "BPE",
                "dropout": null,
                "unk_token": unknown,
                "continuing_subword_prefix": null,
                "end_of_word_suffix": null,
                "fuse_unk": by_characters,
                "byte_fallback": by_characters,
                "ignore_merges": ignore_merges,
                "vocab": vocabulary,
                "merges": self.merges,
            },
        })
    }

    /// Puts BOS before and EOS after a text, where the file wants that.
    fn post_processor(&self) -> Value {
        let bos = self.bos.filter(|_| self.adds_bos);
        let eos = self.eos.filter(|_| self.adds_eos);
        if bos.is_none() && eos.is_none() {
            return Value::Null;
        }
        let special = |id: usize, kind: usize| json!({"SpecialToken": {"id": self.tokens[id], "type_id": kind}});
        let sequence = |name: &str, kind: usize| {
            let text = json!({"Sequence": {"id": name, "type_id": kind}});
            let parts = [bos.map(|id| special(id, kind)), Some(text), eos.map(|id| special(id, kind))];
            parts.into_iter().flatten().collect::<Vec<_>>()
        };
        let tokens: Map<String, Value> = bos
            .into_iter()
            .chain(eos)
            .map(|id| {
                let text = self.tokens[id];
                (text.to_owned(), json!({"id": text, "ids": [id], "tokens": [text]}))
            })
            .collect();
        let pair = [sequence("A", 0), sequence("B", 1)].concat();
        json!({
            "type": "TemplateProcessing",
            "single": sequence("A", 0),
            "pair": pair,
            "special_tokens": tokens,
        })
    }

    /// All that a model folder has of it.
    pub fn texts(&self, context: usize) -> Texts {
        Texts {
            // Fifty thousand merges, one a line, help nobody: this one is written compactly.
            tokenizer: self.tokenizer_json().to_string().into_bytes(),
            config: self.config_json(context),
            template: self.template.clone(),
            special: SpecialTokens { bos: self.bos, padding: self.padding, ends: self.ends.clone() },
        }
    }

    /// The contents of `tokenizer_config.json`, without the chat template, which is a file of its own.
    pub fn config_json(&self, context: usize) -> Value {
        let text = |id: Option<usize>| id.map(|id| self.tokens[id]);
        json!({
            "add_bos_token": self.adds_bos,
            "add_eos_token": self.adds_eos,
            "add_prefix_space": false,
            "bos_token": text(self.bos),
            "clean_up_tokenization_spaces": false,
            "eos_token": text(self.eos),
            "model_max_length": context,
            "pad_token": text(self.padding),
            "tokenizer_class": match self.scheme {
                Scheme::Bytes(pre) => pre.class(),
                Scheme::Characters { .. } => "LlamaTokenizer",
            },
            "unk_token": text(self.unknown),
        })
    }
}

const MODEL_KEY: &str = "tokenizer.ggml.model";
const PRE_KEY: &str = "tokenizer.ggml.pre";
const TOKENS_KEY: &str = "tokenizer.ggml.tokens";
const KINDS_KEY: &str = "tokenizer.ggml.token_type";
const MERGES_KEY: &str = "tokenizer.ggml.merges";
const SCORES_KEY: &str = "tokenizer.ggml.scores";

/// Phi-3's tokenizer takes white space behind its special tokens with them. GGUF has no place for that, so, as in
/// llama.cpp, the model's name tells.
fn strips_behind_special(gguf: &Gguf<'_>) -> Result<bool, GgufError> {
    let name = gguf.string("general.name")?.unwrap_or_default().to_lowercase();
    Ok(["phi-3", "phi3"].iter().any(|part| name.contains(part)))
}

/// The chat template, and those for a purpose, whose names are listed.
fn templates(gguf: &Gguf<'_>) -> Result<Option<TemplateSources>, GgufError> {
    let Some(default) = gguf.string("tokenizer.chat_template")? else { return Ok(None) };
    let mut sources = TemplateSources::from(default);
    for name in gguf.strings("tokenizer.chat_templates")?.unwrap_or_default() {
        let template = gguf.string(&format!("tokenizer.chat_template.{name}"))?;
        sources.named.extend(template.map(|template| ((*name).to_owned(), template.to_owned())));
    }
    Ok(Some(sources))
}

fn byte_level(cuts: bool) -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": cuts})
}

/// A merge is two tokens with a space between; a token may begin with a space, but has none further on.
fn read_merges<'a>(merges: &[&'a str], known: &HashSet<&str>) -> Result<Vec<(&'a str, &'a str)>, ModelError> {
    let mut joined = String::new();
    merges
        .iter()
        .enumerate()
        .map(|(index, merge)| {
            let bad = |problem: String| ModelError::Merge { index, found: (*merge).to_owned(), problem };
            let first = merge.chars().next().map_or(0, char::len_utf8);
            let (left, right) = merge
                .get(first..)
                .and_then(|rest| rest.find(' '))
                .map(|space| (&merge[..first + space], &merge[first + space + 1..]))
                .filter(|(_, right)| !right.is_empty())
                .ok_or_else(|| bad("expected two tokens with a space between".to_owned()))?;
            joined.clear();
            joined.push_str(left);
            joined.push_str(right);
            match [left, right, &joined].into_iter().find(|token| !known.contains(token)) {
                Some(token) => Err(bad(format!("{token:?} is not in the vocabulary"))),
                None => Ok((left, right)),
            }
        })
        .collect()
}
