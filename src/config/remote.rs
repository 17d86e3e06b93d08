//! The table `[remote]`: a server that may answer, and what it may hear.

use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};

use super::TokenPriceSettings;

/// A server that speaks OpenAI's interface. Without `url` there is none.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct RemoteSettings {
    pub url: Option<String>,
    /// By the server's own name; by default the first one that it lists.
    pub model: Option<String>,
    /// The environment variable that has the key.
    pub api_key_env: Option<String>,
    pub privacy: Privacy,
    pub when: RemotePlace,
    /// Of a million tokens, in the settings' currency.
    pub price_per_million: Option<TokenPriceSettings>,
    /// Prompt and answer together, in tokens; by default what the server says.
    pub context: Option<NonZeroUsize>,
    /// Seconds without a word from the server until it is given up.
    pub silence: Option<NonZeroUsize>,
}

/// What a server may hear of conversations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Privacy {
    /// Nothing.
    Never,
    /// Those that a person allows one by one.
    #[default]
    Ask,
    /// Those that the router sends there.
    Allow,
}

impl Privacy {
    /// As it is written in the settings, and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Ask => "ask",
            Self::Allow => "allow",
        }
    }
}

/// Where the server stands among the lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RemotePlace {
    /// Behind the lanes of this machine: it takes what they have no room for, and what they break at.
    #[default]
    Outgrown,
    /// Before them: they take what it does not.
    First,
    /// Only what names it.
    Named,
}

impl RemotePlace {
    /// As it is written in the settings, and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Outgrown => "outgrown",
            Self::First => "first",
            Self::Named => "named",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<RemoteSettings, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn nothing_is_sent_that_nobody_allowed() {
        let settings = parse("url = 'http://h'").unwrap();
        assert_eq!((settings.privacy, settings.when), (Privacy::Ask, RemotePlace::Outgrown));
        let settings = parse("url = 'http://h'\nprivacy = 'allow'\nwhen = 'first'").unwrap();
        assert_eq!((settings.privacy.name(), settings.when.name()), ("allow", "first"));
    }

    #[test]
    fn nonsense_is_named() {
        for (text, words) in [
            ("privacy = 'sometimes'", "expected one of `never`, `ask`, `allow`"),
            ("when = 'last'", "expected one of `outgrown`, `first`, `named`"),
            ("price-per-million = { input = 1 }", "missing field `output`"),
            ("price-per-million = { input = -1, output = 1 }", "a price is -1; it must be 0 or more"),
            ("context = 0", "nonzero"),
            ("api-key = 'sk-1'", "unknown field `api-key`"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
