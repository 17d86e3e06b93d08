//! Which tokens a decoder can take, checked before anything runs.

use serde::{Deserialize, Serialize};

use super::DecodeError;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// The longest sequence, in tokens.
    pub context: usize,
    /// Tokens are below it.
    pub vocabulary: usize,
    /// What every sequence must start with, where it matters.
    pub first_token: Option<u32>,
}

impl Limits {
    /// Whether `tokens` may follow `position` others.
    pub fn check(&self, tokens: &[u32], position: usize) -> Result<(), DecodeError> {
        let Self { context: limit, vocabulary, first_token } = *self;
        let first = *tokens.first().ok_or(DecodeError::NoTokens)?;
        if tokens.len() > limit.saturating_sub(position) {
            return Err(DecodeError::ContextFull { tokens: tokens.len(), position, limit });
        }
        // The embedding's gather would read outside of its table.
        if let Some(token) = tokens.iter().find(|token| **token as usize >= vocabulary) {
            return Err(DecodeError::UnknownToken { token: *token, vocabulary });
        }
        match first_token {
            Some(expected) if position == 0 && expected != first => {
                Err(DecodeError::FirstToken { expected, found: first })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused() {
        let limits = Limits { context: 8, vocabulary: 100, first_token: Some(1) };
        let cases: [(&[u32], usize, &str); 8] = [
            (&[1; 8], 0, ""),
            (&[9], 7, ""),
            (&[], 0, "no tokens"),
            (&[1; 9], 0, "9 more tokens do not fit after 0: the context holds 8"),
            (&[2], 8, "1 more tokens do not fit after 8"),
            (&[1, 100], 0, "token 100 is outside"),
            (&[2, 1], 0, "starts with token 2, but this model was built for sequences that start with token 1"),
            (&[2, 1], 1, ""),
        ];
        for (tokens, position, expected) in cases {
            let found = limits.check(tokens, position).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(found.contains(expected) && found.is_empty() == expected.is_empty(), "{found}");
        }
    }
}
