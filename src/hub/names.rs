//! The names that the Hub's things have, checked before any of them becomes part of a path or an address.

use std::fmt;

/// What a repository's name may have beside letters and digits.
const NAME_MARKS: &str = "-_.";

/// Longer names are no repository's.
const LONGEST_NAME: usize = 96;

/// Device names of Windows: no file may be called so, whatever its ending.
const DEVICES: [&str; 6] = ["con", "prn", "aux", "nul", "conin$", "conout$"];

/// A repository of models: `owner/name`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RepoId(String);

/// A repository, and which of its models is meant: `owner/name[:variant]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelRef {
    pub repo: RepoId,
    pub variant: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error(
        "'{0}' is no repository's name; expected owner/name, with letters, digits, '-', '_' and '.', as in Qwen/Qwen3-0.6B"
    )]
    Repo(String),
    #[error("'{0}' is no revision; expected the name of a branch or a tag, or a commit's 40 hexadecimal digits")]
    Revision(String),
}

impl RepoId {
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let wrong = || NameError::Repo(text.to_string());
        let (owner, name) = text.split_once('/').ok_or_else(wrong)?;
        if text.len() > LONGEST_NAME || ![owner, name].into_iter().all(is_name) {
            return Err(wrong());
        }
        Ok(Self(text.to_string()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name without its owner.
    pub fn name(&self) -> &str {
        self.0.split_once('/').map_or(self.as_str(), |(_, name)| name)
    }

    /// The folder's name in the Hub's cache.
    pub fn folder_name(&self) -> String {
        format!("models--{}", self.0.replace('/', "--"))
    }

    /// The repository of a folder in the Hub's cache.
    pub fn of_folder(name: &str) -> Option<Self> {
        let (owner, name) = name.strip_prefix("models--")?.split_once("--")?;
        Self::parse(&format!("{owner}/{name}")).ok()
    }
}

impl fmt::Display for RepoId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl ModelRef {
    /// Takes the address of a repository's page, too.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let prefixes = ["https://huggingface.co/", "https://hf.co/", "huggingface.co/", "hf.co/", "hf://"];
        let short = prefixes.iter().find_map(|prefix| text.strip_prefix(prefix)).unwrap_or(text).trim_end_matches('/');
        let (repo, variant) = match short.split_once(':') {
            Some((repo, variant)) if !variant.is_empty() => (repo, Some(variant.to_string())),
            Some(_) => return Err(NameError::Repo(text.to_string())),
            None => (short, None),
        };
        Ok(Self { repo: RepoId::parse(repo)?, variant })
    }
}

impl fmt::Display for ModelRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.variant {
            Some(variant) => write!(f, "{}:{variant}", self.repo),
            None => write!(f, "{}", self.repo),
        }
    }
}

fn is_name(text: &str) -> bool {
    let marks_at_an_end = text.starts_with(['-', '.']) || text.ends_with(['-', '.']);
    !text.is_empty()
        && !marks_at_an_end
        && !text.contains("--")
        && !text.contains("..")
        && text.chars().all(|c| c.is_ascii_alphanumeric() || NAME_MARKS.contains(c))
}

/// A branch, a tag or a commit; it becomes a path below `refs/`.
pub fn check_revision(text: &str) -> Result<(), NameError> {
    let part_is_good = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && !part.ends_with('.')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.+".contains(c))
    };
    if text.split('/').all(part_is_good) { Ok(()) } else { Err(NameError::Revision(text.to_string())) }
}

/// Whether this is a commit's name, of 40 hexadecimal digits.
pub fn is_commit(text: &str) -> bool {
    text.len() == 40 && is_hex(text)
}

pub fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// What is wrong with a file's name in a repository, on any system: a list of files that has such a name is not to be trusted.
pub fn hostile(path: &str) -> Option<&'static str> {
    if path.is_empty() || path.starts_with('/') {
        return Some("it is absolute or empty");
    }
    if path.contains('\\') || path.chars().any(char::is_control) {
        return Some("it has a backslash or a control character in it");
    }
    path.split('/').any(|part| matches!(part, "" | "." | "..")).then_some("it leads out of its folder")
}

/// Why a file of this name cannot be written everywhere that ortalk runs.
pub fn unwritable(path: &str) -> Option<&'static str> {
    for part in path.split('/') {
        if part.contains(['<', '>', ':', '"', '|', '?', '*']) {
            return Some("Windows allows no such character in a name");
        }
        if part.ends_with(['.', ' ']) {
            return Some("Windows allows no point and no space at a name's end");
        }
        let stem = part.split('.').next().unwrap_or(part).trim_end().to_ascii_lowercase();
        let numbered = ["com", "lpt"]
            .iter()
            .any(|port| stem.strip_prefix(port).is_some_and(|number| matches!(number.as_bytes(), [b'0'..=b'9'])));
        if numbered || DEVICES.contains(&stem.as_str()) {
            return Some("Windows keeps this name for a device");
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_are_named_as_on_the_hub() {
        for good in ["Qwen/Qwen3-0.6B", "a/b", "onnx-community/gemma-3-1b-it-ONNX", "x_1/y.z"] {
            let repo = RepoId::parse(good).unwrap();
            assert_eq!(RepoId::of_folder(&repo.folder_name()), Some(repo));
        }
        for bad in [
            "gpt2",
            "a/b/c",
            "/b",
            "a/",
            "../b",
            "a/..",
            "a/b c",
            "a/b--c",
            "a/-b",
            "a/b.",
            "a/b\\c",
            "a/ä",
            "models/x:y",
            "C:/models",
        ] {
            assert!(RepoId::parse(bad).is_err(), "{bad}");
        }
        assert!(RepoId::parse(&format!("a/{}", "b".repeat(95))).is_err());
        assert_eq!(RepoId::parse("Qwen/Qwen3-0.6B").unwrap().folder_name(), "models--Qwen--Qwen3-0.6B");
        for other in ["datasets--a--b", "models--a", "models--..--b", ".locks"] {
            assert_eq!(RepoId::of_folder(other), None, "{other}");
        }
    }

    #[test]
    fn a_variant_follows_a_colon() {
        let parse = |text: &str| ModelRef::parse(text).map(|model| (model.repo.to_string(), model.variant));
        assert_eq!(parse("a/b").unwrap(), ("a/b".into(), None));
        assert_eq!(parse("a/b:Q4_K_M").unwrap(), ("a/b".into(), Some("Q4_K_M".into())));
        assert_eq!(parse("a/b:cpu/x").unwrap(), ("a/b".into(), Some("cpu/x".into())));
        assert_eq!(parse("https://huggingface.co/a/b").unwrap(), ("a/b".into(), None));
        assert_eq!(parse("hf.co/a/b:q4").unwrap(), ("a/b".into(), Some("q4".into())));
        for bad in ["a/b:", ":q4", "https://example.com/a/b", ""] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        let error = parse("qwen3").unwrap_err().to_string();
        assert!(error.contains("'qwen3'") && error.contains("owner/name"), "{error}");
    }

    #[test]
    fn revisions_become_no_other_path() {
        for good in ["main", "v1.0", "refs/pr/1", &"0".repeat(40)] {
            assert_eq!(check_revision(good), Ok(()), "{good}");
        }
        for bad in ["", "..", "a/../b", "/main", "a//b", ".x", "a b", "a\\b", "x."] {
            assert!(check_revision(bad).is_err(), "{bad}");
        }
        assert!(is_commit(&"a".repeat(40)) && !is_commit(&"a".repeat(39)) && !is_commit(&"g".repeat(40)));
    }

    #[test]
    fn names_that_lead_elsewhere_are_hostile() {
        for bad in ["../x", "a/../../x", "/etc/x", "a//b", "./a", "", "a\\b", "a\nb", "a/..", "\0"] {
            assert!(hostile(bad).is_some(), "{bad:?}");
        }
        for good in ["config.json", "onnx/model_q4.onnx_data", "..a/b..", "a b.txt"] {
            assert_eq!(hostile(good), None, "{good}");
        }
    }

    #[test]
    fn names_that_windows_keeps_are_not_written() {
        for bad in ["aux", "NUL.txt", "onnx/com1.onnx", "a:b", "C:x", "x.", "x ", "a?b", "lpt0", "con .x"] {
            assert!(unwritable(bad).is_some(), "{bad}");
        }
        for good in ["config.json", "com10.bin", "auxiliary.txt", "console", "com", "model-00001-of-00002.safetensors"]
        {
            assert_eq!(unwritable(good), None, "{good}");
        }
    }
}
