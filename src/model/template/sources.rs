//! Where a folder keeps its chat templates: in files of their own, or within `tokenizer_config.json`.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The text of a model's chat templates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateSources {
    pub default: String,
    /// Those for a purpose, as `tool_use`, by its name.
    pub named: BTreeMap<String, String>,
}

#[derive(Debug, thiserror::Error)]
#[error("'{}' cannot be read: {error}", path.display())]
pub struct SourcesError {
    pub path: PathBuf,
    pub error: std::io::Error,
}

impl From<&str> for TemplateSources {
    fn from(default: &str) -> Self {
        Self { default: default.to_owned(), named: BTreeMap::new() }
    }
}

impl TemplateSources {
    /// The default template, in a folder.
    pub const FILE: &'static str = "chat_template.jinja";
    /// The others, in a folder within, as `tool_use.jinja`.
    pub const FOLDER: &'static str = "additional_chat_templates";
    /// What older folders have: an object with `chat_template`.
    const JSON_FILE: &'static str = "chat_template.json";

    /// A file of its own comes before what `tokenizer_config.json` has, as in transformers. `None` where there is no
    /// template, or several and none of them the default.
    pub fn read(folder: &Path, tokenizer_config: &Value) -> Result<Option<Self>, SourcesError> {
        let mut found = templates(tokenizer_config);
        if let Some(text) = text(&folder.join(Self::JSON_FILE))? {
            // Not JSON: as if it were not there, for what it should say is looked for elsewhere, too.
            found.extend(templates(&serde_json::from_str(&text).unwrap_or_default()));
        }
        if let Some(text) = text(&folder.join(Self::FILE))? {
            found.insert("default".to_owned(), text);
        }
        let others = folder.join(Self::FOLDER);
        for entry in std::fs::read_dir(&others).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = path.file_stem().map(|name| name.to_string_lossy().into_owned());
            if let Some(name) = name.filter(|_| path.extension().is_some_and(|kind| kind == "jinja")) {
                found.extend(text(&path)?.map(|text| (name, text)));
            }
        }
        Ok(found.remove("default").map(|default| Self { default, named: found }))
    }
}

/// One text, or a list of objects with `name` and `template`.
fn templates(config: &Value) -> BTreeMap<String, String> {
    let named = |template: &Value| {
        Some((template.get("name")?.as_str()?.to_owned(), template.get("template")?.as_str()?.to_owned()))
    };
    match config.get("chat_template") {
        Some(Value::String(text)) => BTreeMap::from([("default".to_owned(), text.clone())]),
        Some(Value::Array(several)) => several.iter().filter_map(named).collect(),
        _ => BTreeMap::new(),
    }
}

fn text(path: &Path) -> Result<Option<String>, SourcesError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(SourcesError { path: path.to_owned(), error }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn templates_are_found_wherever_folders_keep_them() {
        let folder = tempfile::tempdir().unwrap();
        let read = |config: &Value| TemplateSources::read(folder.path(), config).unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        assert_eq!(read(&json!({})), None);
        assert_eq!(read(&json!({"chat_template": "one"})), Some("one".into()));
        let several = json!({"chat_template": [
            {"name": "default", "template": "one"}, {"name": "tool_use", "template": "two"}, {"name": 3},
        ]});
        let named = |texts: &[(&str, &str)]| texts.iter().map(|(n, t)| (n.to_string(), t.to_string())).collect();
        let expected = TemplateSources { default: "one".into(), named: named(&[("tool_use", "two")]) };
        assert_eq!(read(&several), Some(expected));
        // Without a default, nobody knows which to take.
        assert_eq!(read(&json!({"chat_template": [{"name": "rag", "template": "x"}]})), None);

        write("chat_template.json", r#"{"chat_template": "three"}"#);
        assert_eq!(read(&json!({"chat_template": "one"})), Some("three".into()));
        write("chat_template.jinja", "four");
        std::fs::create_dir(folder.path().join("additional_chat_templates")).unwrap();
        write("additional_chat_templates/rag.jinja", "five");
        write("additional_chat_templates/README.md", "not one");
        let expected =
            TemplateSources { default: "four".into(), named: named(&[("rag", "five"), ("tool_use", "two")]) };
        assert_eq!(read(&several), Some(expected));
    }
}
