//! What can go wrong with a server, in words that quote what it said.

use std::time::Duration;

/// Letters of a server's message that are shown.
const LONGEST_QUOTE: usize = 300;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemoteError {
    #[error("{host} cannot be reached: {reason}")]
    Unreachable { host: String, reason: String },
    #[error("{host} wants a key{said}; {}", match with_key {
        true => "the one that it got is not known there",
        false => "name the variable that has it with api-key-env in the settings, or --api-key-env",
    })]
    Key { host: String, with_key: bool, said: String },
    #[error("{host} does not allow this (status {status}){said}")]
    Forbidden { host: String, status: u16, said: String },
    #[error("{url} is not there{said}; is the address right, and does the server know the model?")]
    NotFound { url: String, said: String },
    #[error("{host} answers too many already (status 429){said}{}", wait.map(|wait| format!("; it asks to wait {} s", wait.as_secs())).unwrap_or_default())]
    Busy { host: String, wait: Option<Duration>, said: String },
    /// The server does not take the request; `param` is the field at fault where it says so.
    #[error("{host} does not take the request (status {status}){said}")]
    Refused { host: String, status: u16, param: Option<String>, said: String },
    #[error("{host} failed (status {status}){said}")]
    Server { host: String, status: u16, wait: Option<Duration>, said: String },
    #[error("{host} sends on to '{target}' (status {status}); if that is right, make it the address")]
    Redirect { host: String, status: u16, target: String },
    #[error("{host} answered with '{found}' and not with a stream of events{said}")]
    NotAStream { host: String, found: String, said: String },
    #[error("what {host} answered makes no sense: {problem}")]
    Garbage { host: String, problem: String },
    #[error("{host} broke off before the answer was complete: {reason}")]
    Cut { host: String, reason: String },
    #[error("{host} said nothing for {} s", waited.as_secs())]
    Silent { host: String, waited: Duration },
    /// An error in place of the answer's next piece.
    #[error("{host} failed while it answered{said}")]
    Reported { host: String, said: String },
    #[error("stopped")]
    Stopped,
}

impl RemoteError {
    /// Asking again later may help: nothing is wrong with the settings or with what was asked.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::Busy { .. }
            | Self::Server { .. }
            | Self::Garbage { .. }
            | Self::Cut { .. }
            | Self::Silent { .. }
            | Self::Reported { .. }
            | Self::Stopped => true,
            Self::Key { .. }
            | Self::Forbidden { .. }
            | Self::NotFound { .. }
            | Self::Refused { .. }
            | Self::Redirect { .. }
            | Self::NotAStream { .. } => false,
        }
    }

    /// How long the server wants to be left alone, where it says so.
    pub fn wait(&self) -> Option<Duration> {
        match self {
            Self::Busy { wait, .. } | Self::Server { wait, .. } => *wait,
            _ => None,
        }
    }
}

/// What a server said, for the end of a sentence: one line, no longer than is good, and without the key, which some servers
/// repeat.
pub fn quoted(message: &str, key: Option<&str>) -> String {
    let message = match key {
        Some(key) => message.replace(key, "(the key)"),
        None => message.to_owned(),
    };
    let words: Vec<&str> = message.split_whitespace().collect();
    let line: String = words.join(" ").chars().filter(|c| !c.is_control()).collect();
    match line.char_indices().nth(LONGEST_QUOTE) {
        None if line.is_empty() => String::new(),
        None => format!(", saying \"{line}\""),
        Some((end, _)) => format!(", saying \"{}...\"", &line[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_quoted_in_one_line_and_without_the_key() {
        for (message, expected) in [
            ("", ""),
            ("  \n ", ""),
            ("no such\n  model\u{1b}[31m", ", saying \"no such model[31m\""),
            ("Incorrect key sk-secret.", ", saying \"Incorrect key (the key).\""),
        ] {
            assert_eq!(quoted(message, Some("sk-secret")), expected);
        }
        let long = quoted(&"é".repeat(1000), None);
        assert_eq!(long.chars().filter(|c| *c == 'é').count(), LONGEST_QUOTE);
        assert!(long.ends_with("...\""));
    }
}
