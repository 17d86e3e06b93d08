//! What the environment says about the Hub, by the same variables as `huggingface_hub`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const ENDPOINT: &str = "https://huggingface.co";

/// A transfer that brings nothing for so long is cut.
const SILENCE: Duration = Duration::from_secs(10);

/// Where the Hub is, who asks, and where its files are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubSettings {
    /// `HF_ENDPOINT`; without a slash at its end.
    pub endpoint: String,
    /// `HF_TOKEN`, else the file that `hf auth login` writes.
    pub token: Option<Token>,
    /// `HF_HUB_CACHE`, else `hub` in `HF_HOME`.
    pub cache: PathBuf,
    /// `HF_HUB_OFFLINE`: nothing is asked of the Hub.
    pub offline: bool,
    /// `HF_HUB_DISABLE_SYMLINKS`: files lie in their snapshots, not in `blobs`.
    pub without_links: bool,
    /// `HF_HUB_DOWNLOAD_TIMEOUT`, in seconds.
    pub silence: Duration,
}

/// Who asks. It is shown nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    pub fn secret(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

#[derive(Debug, thiserror::Error)]
pub enum HubSettingsError {
    #[error("HF_ENDPOINT is '{0}'; expected an address that begins with https:// or http://")]
    Endpoint(String),
    #[error("{0} is no access token: it has blanks or other characters that no token has")]
    Token(String),
    #[error("{variable} is '{value}'; expected a number of seconds, 1 or more")]
    Seconds { variable: &'static str, value: String },
    #[error("no home folder was found for this user; set HF_HOME to a folder that ortalk may write to")]
    NoHome,
}

impl HubSettings {
    pub fn discover() -> Result<Self, HubSettingsError> {
        let home = directories::BaseDirs::new().map(|folders| folders.home_dir().to_path_buf());
        Self::from_variables(&|name| std::env::var(name).ok(), home.as_deref())
    }

    fn from_variables(
        variable: &dyn Fn(&str) -> Option<String>,
        home: Option<&Path>,
    ) -> Result<Self, HubSettingsError> {
        let variable = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let folder = |name: &str| variable(name).map(|text| expanded(&text, home));
        let hf_home = match folder("HF_HOME") {
            Some(folder) => folder,
            None => {
                let cache = folder("XDG_CACHE_HOME").or(home.map(|home| home.join(".cache")));
                cache.ok_or(HubSettingsError::NoHome)?.join("huggingface")
            }
        };
        let cache = folder("HF_HUB_CACHE").or(folder("HUGGINGFACE_HUB_CACHE")).unwrap_or_else(|| hf_home.join("hub"));
        let named = ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"];
        let token = match named.iter().find_map(|name| Some((name.to_string(), variable(name)?))) {
            Some((name, text)) => Some(token(&text, &name)?),
            None if is_true(variable("HF_HUB_DISABLE_IMPLICIT_TOKEN")) => None,
            None => token_in(&folder("HF_TOKEN_PATH").unwrap_or_else(|| hf_home.join("token")))?,
        };
        let endpoint = variable("HF_ENDPOINT").unwrap_or_else(|| ENDPOINT.to_string());
        if !endpoint.starts_with("https://") && !endpoint.starts_with("http://") {
            return Err(HubSettingsError::Endpoint(endpoint));
        }
        Ok(Self {
            endpoint: endpoint.trim_end_matches('/').to_string(),
            token,
            cache,
            offline: is_true(variable("HF_HUB_OFFLINE").or(variable("TRANSFORMERS_OFFLINE"))),
            without_links: is_true(variable("HF_HUB_DISABLE_SYMLINKS")),
            silence: seconds("HF_HUB_DOWNLOAD_TIMEOUT", variable("HF_HUB_DOWNLOAD_TIMEOUT"))?.unwrap_or(SILENCE),
        })
    }
}

fn expanded(text: &str, home: Option<&Path>) -> PathBuf {
    match (text.strip_prefix('~'), home) {
        (Some(""), Some(home)) => home.to_path_buf(),
        (Some(rest), Some(home)) if rest.starts_with(['/', '\\']) => home.join(rest.trim_start_matches(['/', '\\'])),
        _ => PathBuf::from(text),
    }
}

fn token_in(file: &Path) -> Result<Option<Token>, HubSettingsError> {
    match std::fs::read_to_string(file) {
        Ok(text) if !text.trim().is_empty() => token(&text, &format!("the text in '{}'", file.display())).map(Some),
        _ => Ok(None),
    }
}

fn token(text: &str, by: &str) -> Result<Token, HubSettingsError> {
    let text = text.trim();
    if text.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(Token(text.to_string()))
    } else {
        Err(HubSettingsError::Token(by.to_string()))
    }
}

fn is_true(value: Option<String>) -> bool {
    value.is_some_and(|value| matches!(value.trim().to_ascii_uppercase().as_str(), "1" | "ON" | "YES" | "TRUE"))
}

fn seconds(variable: &'static str, value: Option<String>) -> Result<Option<Duration>, HubSettingsError> {
    let Some(value) = value else { return Ok(None) };
    match value.trim().parse::<u32>() {
        Ok(seconds @ 1..) => Ok(Some(Duration::from_secs(seconds.into()))),
        _ => Err(HubSettingsError::Seconds { variable, value }),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Where nothing is asked of any Hub.
    pub fn settings_in(cache: &Path) -> HubSettings {
        let cache = cache.to_str().unwrap();
        settings(&[("HF_HUB_CACHE", cache), ("HF_HUB_OFFLINE", "1"), ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")]).unwrap()
    }

    fn settings(variables: &[(&str, &str)]) -> Result<HubSettings, HubSettingsError> {
        let of = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string());
        HubSettings::from_variables(&of, Some(Path::new("/home/me")))
    }

    #[test]
    fn the_cache_is_where_other_programs_have_it() {
        for (variables, expected) in [
            (&[][..], "/home/me/.cache/huggingface/hub"),
            (&[("XDG_CACHE_HOME", "/x")], "/x/huggingface/hub"),
            (&[("HF_HOME", "~/hf"), ("XDG_CACHE_HOME", "/x")], "/home/me/hf/hub"),
            (&[("HF_HOME", "/hf"), ("HUGGINGFACE_HUB_CACHE", "/old")], "/old"),
            (&[("HF_HUB_CACHE", "/new"), ("HUGGINGFACE_HUB_CACHE", "/old")], "/new"),
            (&[("HF_HUB_CACHE", ""), ("HF_HOME", "/hf")], "/hf/hub"),
        ] {
            assert_eq!(settings(variables).unwrap().cache, Path::new(expected), "{variables:?}");
        }
        let error = HubSettings::from_variables(&|_| None, None).unwrap_err().to_string();
        assert!(error.contains("HF_HOME"), "{error}");
    }

    #[test]
    fn a_token_is_named_or_lies_in_its_file_and_is_never_shown() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("token"), "hf_file\n").unwrap();
        let home = dir.path().to_str().unwrap();
        let secret = |variables: &[(&str, &str)]| settings(variables).unwrap().token.map(|token| token.0);
        assert_eq!(secret(&[("HF_HOME", home)]).as_deref(), Some("hf_file"));
        assert_eq!(secret(&[("HF_HOME", home), ("HF_TOKEN", " hf_named\n")]).as_deref(), Some("hf_named"));
        assert_eq!(secret(&[("HF_HOME", home), ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")]), None);
        assert_eq!(
            secret(&[("HF_HOME", "/none"), ("HF_TOKEN_PATH", &format!("{home}/token"))]).as_deref(),
            Some("hf_file")
        );
        let named = settings(&[("HF_TOKEN", "hf_secret")]).unwrap();
        assert!(!format!("{named:?}").contains("hf_secret"));
        let error = settings(&[("HF_TOKEN", "two words")]).unwrap_err().to_string();
        assert!(error.contains("HF_TOKEN") && !error.contains("two words"), "{error}");
    }

    #[test]
    fn nonsense_is_named() {
        assert_eq!(settings(&[("HF_ENDPOINT", "https://mirror/")]).unwrap().endpoint, "https://mirror");
        let error = settings(&[("HF_ENDPOINT", "mirror")]).unwrap_err().to_string();
        assert!(error.contains("'mirror'") && error.contains("https://"), "{error}");
        for wrong in ["0", "-1", "soon"] {
            let error = settings(&[("HF_HUB_DOWNLOAD_TIMEOUT", wrong)]).unwrap_err().to_string();
            assert!(error.contains(wrong), "{error}");
        }
        for (value, offline) in [("1", true), ("true", true), ("yes", true), ("0", false), ("", false)] {
            assert_eq!(settings(&[("HF_HUB_OFFLINE", value)]).unwrap().offline, offline, "{value}");
        }
    }
}
