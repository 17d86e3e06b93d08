//! The table `[keys]`: other keys for actions of the screen. Which actions and keys there are, the screen knows.

use std::collections::BTreeMap;

use serde::Deserialize;

/// By an action's name, or by a context's that has a table of its own: `send = "ctrl-enter"`, `[keys.message]`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct KeySettings(pub BTreeMap<String, KeySetting>);

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged, expecting = "expected a key as \"ctrl-k\", a list of keys, or a table of a context's keys")]
pub enum KeySetting {
    Chords(Chords),
    Context(BTreeMap<String, Chords>),
}

/// One key or several; an empty list takes the action's keys away.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged, expecting = "expected a key as \"ctrl-k\" or a list of keys")]
pub enum Chords {
    One(String),
    Several(Vec<String>),
}

impl Chords {
    pub fn as_slice(&self) -> &[String] {
        match self {
            Self::One(chord) => std::slice::from_ref(chord),
            Self::Several(chords) => chords,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_one_or_several_by_action_and_context() {
        let keys: KeySettings =
            toml::from_str("send = 'ctrl-enter'\nsuspend = []\n[message]\nup = ['up', 'k']").unwrap();
        let chords = |name: &str| match &keys.0[name] {
            KeySetting::Chords(chords) => chords.as_slice().to_vec(),
            KeySetting::Context(of) => of["up"].as_slice().to_vec(),
        };
        assert_eq!(chords("send"), ["ctrl-enter"]);
        assert_eq!(chords("suspend"), [""; 0]);
        assert_eq!(chords("message"), ["up", "k"]);
        let error = toml::from_str::<KeySettings>("send = 3").unwrap_err().to_string();
        assert!(error.contains("a key as \"ctrl-k\""), "{error}");
    }
}
