//! Text to tokens and back, by the folder's `tokenizer.json`.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::spelling::Spelling;

pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    spelling: Spelling,
}

#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    #[error("the tokenizer '{}' cannot be read: {reason}", path.display())]
    Open { path: PathBuf, reason: String },
    #[error("the text cannot be tokenized: {0}")]
    Encode(String),
    #[error("the tokens cannot be decoded: {0}")]
    Decode(String),
}

/// What must be JSON before the crate sees it: it panics where a file ends, or is damaged, within its decoder.
#[derive(Deserialize)]
struct Readable {
    decoder: Option<Value>,
}

impl Tokenizer {
    pub fn open(path: &Path) -> Result<Self, TokenizerError> {
        let failed = |error: tokenizers::Error| TokenizerError::Open { path: path.into(), reason: error.to_string() };
        let bytes = std::fs::read(path).map_err(|error| failed(error.into()))?;
        let Readable { decoder } = serde_json::from_slice(&bytes).map_err(|error| failed(error.into()))?;
        let mut inner = tokenizers::Tokenizer::from_bytes(bytes).map_err(failed)?;
        // What was set for training: a prompt is neither cut nor filled up.
        inner.with_truncation(None).map_err(failed)?;
        inner.with_padding(None);
        Ok(Self { inner, spelling: Spelling::of(decoder.as_ref()) })
    }

    /// The number of a token with this text, special or not.
    pub fn token(&self, text: &str) -> Option<u32> {
        self.inner.token_to_id(text)
    }

    /// A token that is written as a whole in any text, and left out when decoding.
    pub fn is_special(&self, id: u32) -> bool {
        self.inner.get_added_tokens_decoder().get(&id).is_some_and(|token| token.special)
    }

    /// One more than the highest token's number. A model may have logits for more.
    pub fn size(&self) -> usize {
        self.inner.get_vocab(true).values().max().map_or(0, |id| *id as usize + 1)
    }

    /// The bytes that a token stands for, whatever stands beside it; of a special token those of its name. Empty for a
    /// token that there is not.
    pub fn bytes(&self, id: u32) -> Vec<u8> {
        match self.inner.get_added_tokens_decoder().get(&id) {
            Some(added) => added.content.clone().into_bytes(),
            None => self.inner.id_to_token(id).map_or_else(Vec::new, |token| self.spelling.bytes(&token)),
        }
    }

    /// As `encode`, with the tokens that a text of the model's begins with.
    pub fn encode_text(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        self.encode_with(text, true)
    }

    /// Special tokens written in the text become those tokens; none are added, since the chat template writes them.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        self.encode_with(text, false)
    }

    fn encode_with(&self, text: &str, special: bool) -> Result<Vec<u32>, TokenizerError> {
        let encoding =
            self.inner.encode_fast(text, special).map_err(|error| TokenizerError::Encode(error.to_string()))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Special tokens are left out. Bytes that are no valid UTF-8 become U+FFFD.
    pub fn decode(&self, ids: &[u32]) -> Result<String, TokenizerError> {
        self.inner.decode(ids, true).map_err(|error| TokenizerError::Decode(error.to_string()))
    }

    /// As `decode`, with the special tokens.
    pub fn decode_whole(&self, ids: &[u32]) -> Result<String, TokenizerError> {
        self.inner.decode(ids, false).map_err(|error| TokenizerError::Decode(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_ends_too_early_or_is_damaged_is_refused() {
        let whole = include_bytes!("../../tests/fixtures/models/llama-trained/tokenizer.json");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokenizer.json");
        let open = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            Tokenizer::open(&path)
        };
        assert_eq!(open(whole).unwrap().encode("hello").unwrap().len(), 1);
        for end in (0..whole.len()).step_by(7) {
            let error = open(&whole[..end]).err().unwrap().to_string();
            assert!(error.contains("cannot be read: "), "{error}");
        }
        for at in (0..whole.len()).step_by(5) {
            let mut damaged = whole.to_vec();
            damaged[at] = 0;
            assert!(open(&damaged).is_err(), "{at}");
        }
    }
}
