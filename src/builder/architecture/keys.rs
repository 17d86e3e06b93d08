//! The keys of one architecture in a file, with messages that quote what was found.

use super::required;
use crate::builder::error::ModelError;
use crate::builder::gguf::Gguf;
use crate::builder::repack::BLOCK;

/// The keys of one architecture.
pub struct Keys<'g, 'a> {
    pub gguf: &'g Gguf<'a>,
    pub prefix: &'static str,
}

impl Keys<'_, '_> {
    pub fn name(&self, key: &str) -> String {
        format!("{}.{key}", self.prefix)
    }

    pub fn bad(&self, key: &str, found: impl ToString, expected: String) -> ModelError {
        ModelError::Value { key: self.name(key), found: found.to_string(), expected }
    }

    pub fn unsigned(&self, key: &str) -> Result<u64, ModelError> {
        let name = self.name(key);
        Ok(required(self.gguf.unsigned(&name)?, &name)?)
    }

    /// A size that multiplies with others: from 1 to 2^24, so that no product of two overflows.
    pub fn bounded(&self, key: &str, found: u64) -> Result<usize, ModelError> {
        match usize::try_from(found) {
            Ok(size) if (1..=1 << 24).contains(&size) => Ok(size),
            _ => Err(self.bad(key, found, format!("1 to {}", 1 << 24))),
        }
    }

    pub fn size(&self, key: &str) -> Result<usize, ModelError> {
        self.bounded(key, self.unsigned(key)?)
    }

    pub fn optional_size(&self, key: &str) -> Result<Option<usize>, ModelError> {
        self.gguf.unsigned(&self.name(key))?.map(|found| self.bounded(key, found)).transpose()
    }

    /// A size that weights run along.
    pub fn blocks(&self, key: &str) -> Result<usize, ModelError> {
        let size = self.size(key)?;
        if size.is_multiple_of(BLOCK) { Ok(size) } else { Err(self.bad(key, size, format!("a multiple of {BLOCK}"))) }
    }

    /// A number above 0, or nothing.
    pub fn positive(&self, key: &str) -> Result<Option<f64>, ModelError> {
        match self.gguf.float(&self.name(key))? {
            Some(found) if found <= 0.0 => Err(self.bad(key, found, "more than 0".to_owned())),
            found => Ok(found),
        }
    }
}
