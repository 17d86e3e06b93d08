//! Reads the JSON object of a call character by character: its name, and its arguments as they come.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Open,
    /// `first`: the object may end here.
    Key {
        first: bool,
    },
    KeyText,
    Colon,
    Value,
    Text,
    /// Within objects or lists, so many deep.
    Nested {
        depth: usize,
        quoted: bool,
    },
    /// A number or a word.
    Scalar,
    Next,
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Name,
    Arguments,
    Other,
}

#[derive(Debug, Clone)]
pub struct CallReader {
    at: At,
    escaped: bool,
    /// The value is all there is.
    bare: bool,
    field: Field,
    /// A key, or a value that is not passed on as it comes; with its quotes.
    text: String,
    name: Option<String>,
    any_arguments: bool,
    /// Arguments that nobody took yet.
    arguments: String,
}

/// The character cannot be part of a call's object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

impl CallReader {
    /// `{"name": "...", "arguments": {...}}`, in any order; `parameters` is another name of the arguments.
    pub fn call() -> Self {
        Self {
            at: At::Open,
            escaped: false,
            bare: false,
            field: Field::Other,
            text: String::new(),
            name: None,
            any_arguments: false,
            arguments: String::new(),
        }
    }

    /// The arguments alone.
    pub fn arguments() -> Self {
        Self { at: At::Value, bare: true, field: Field::Arguments, ..Self::call() }
    }

    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    pub fn is_done(&self) -> bool {
        self.at == At::Done
    }

    pub fn take_arguments(&mut self) -> String {
        std::mem::take(&mut self.arguments)
    }

    pub fn push(&mut self, c: char) -> Result<(), Malformed> {
        let blank = matches!(c, ' ' | '\t' | '\n' | '\r');
        match self.at {
            At::Open | At::Key { .. } | At::Colon | At::Value | At::Next if blank => {}
            At::Open if c == '{' => self.at = At::Key { first: true },
            At::Key { .. } if c == '"' => self.begin(c, At::KeyText),
            At::Key { first: true } if c == '}' => self.end(),
            At::KeyText => {
                if self.closes(c) {
                    self.key()?;
                }
            }
            At::Colon if c == ':' => self.at = At::Value,
            At::Value if c == '"' => self.begin(c, At::Text),
            At::Value if matches!(c, '{' | '[') => {
                self.at = At::Nested { depth: 1, quoted: false };
                self.pass_on(c);
            }
            At::Value if c == '-' || c.is_ascii_alphanumeric() => self.begin(c, At::Scalar),
            At::Text => {
                if self.closes(c) {
                    self.value()?;
                }
            }
            At::Nested { depth, quoted } => self.nested(c, depth, quoted)?,
            At::Scalar if blank || matches!(c, ',' | '}') => {
                self.value()?;
                return self.push(c);
            }
            At::Scalar => self.text.push(c),
            At::Next if c == ',' => self.at = At::Key { first: false },
            At::Next if c == '}' => self.end(),
            At::Open | At::Key { .. } | At::Colon | At::Value | At::Next | At::Done => return Err(Malformed),
        }
        Ok(())
    }

    fn begin(&mut self, c: char, at: At) {
        self.text.clear();
        self.text.push(c);
        self.at = at;
    }

    /// Takes a character of a string, and says whether the string ends with it.
    fn closes(&mut self, c: char) -> bool {
        self.text.push(c);
        let closes = c == '"' && !self.escaped;
        self.escaped = c == '\\' && !self.escaped;
        closes
    }

    fn nested(&mut self, c: char, depth: usize, quoted: bool) -> Result<(), Malformed> {
        self.pass_on(c);
        let escaped = self.escaped;
        self.escaped = quoted && c == '\\' && !escaped;
        let (depth, quoted) = match c {
            '"' if !escaped => (depth, !quoted),
            '{' | '[' if !quoted => (depth + 1, quoted),
            '}' | ']' if !quoted => (depth - 1, quoted),
            _ => (depth, quoted),
        };
        self.at = if depth == 0 { self.behind_value() } else { At::Nested { depth, quoted } };
        Ok(())
    }

    fn pass_on(&mut self, c: char) {
        if self.field == Field::Arguments {
            self.any_arguments = true;
            self.arguments.push(c);
        }
    }

    fn key(&mut self) -> Result<(), Malformed> {
        let key: String = serde_json::from_str(&self.text).map_err(|_| Malformed)?;
        self.field = match key.as_str() {
            "name" if self.name.is_none() => Field::Name,
            "arguments" | "parameters" if !self.any_arguments => Field::Arguments,
            _ => Field::Other,
        };
        self.at = At::Colon;
        Ok(())
    }

    /// A string, a number or a word has ended.
    fn value(&mut self) -> Result<(), Malformed> {
        let text = || serde_json::from_str::<String>(&self.text);
        match self.field {
            Field::Name => self.name = Some(text().map_err(|_| Malformed)?),
            Field::Arguments if self.text == "null" => {}
            Field::Arguments => {
                // Some models write the arguments' JSON as a string, as OpenAI's interface does.
                self.arguments = text().unwrap_or_else(|_| self.text.clone());
                self.any_arguments = true;
            }
            Field::Other => {}
        }
        self.at = self.behind_value();
        Ok(())
    }

    fn behind_value(&self) -> At {
        if self.bare { At::Done } else { At::Next }
    }

    fn end(&mut self) {
        if !self.any_arguments {
            self.arguments = "{}".to_owned();
        }
        self.at = At::Done;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The name and the arguments, and what of the text was left.
    fn read(mut reader: CallReader, text: &str) -> (Option<String>, String, Result<String, String>) {
        for (at, c) in text.char_indices() {
            if reader.is_done() {
                return (reader.name.clone(), reader.take_arguments(), Ok(text[at..].into()));
            }
            if reader.push(c).is_err() {
                return (reader.name.clone(), reader.take_arguments(), Err(text[at..].into()));
            }
        }
        let left = if reader.is_done() { Ok(String::new()) } else { Err(String::new()) };
        (reader.name.clone(), reader.take_arguments(), left)
    }

    #[test]
    fn objects_are_read_as_they_are_written() {
        for (text, name, arguments, left) in [
            (
                r#"{"name": "f", "arguments": {"a": "}]\"\\", "b": [1, {}]}} x"#,
                Some("f"),
                r#"{"a": "}]\"\\", "b": [1, {}]}"#,
                Ok(" x"),
            ),
            (r#"{"parameters":{"a":1},"name":"\u0066"}"#, Some("f"), r#"{"a":1}"#, Ok("")),
            (r#"{"type": "function", "id": 7, "name": "f", "x": [null, "}"]}"#, Some("f"), "{}", Ok("")),
            (r#"{"name": "f", "arguments": "{\"a\": 1}"}"#, Some("f"), r#"{"a": 1}"#, Ok("")),
            (r#"{"name": "f", "arguments": null}"#, Some("f"), "{}", Ok("")),
            (r#"{"name": "f", "arguments": {}, "parameters": {"a": 1}}"#, Some("f"), "{}", Ok("")),
            ("{}", None, "{}", Ok("")),
            (r#"{"name": 3}"#, None, "", Err("}")),
            (r#"{"name": "f", }"#, Some("f"), "", Err("}")),
            (r#"{name: "f"}"#, None, "", Err(r#"name: "f"}"#)),
            (r#"{"name" "f"}"#, None, "", Err(r#""f"}"#)),
            (r#"{"name": "f", "arguments": {"a": "#, Some("f"), r#"{"a": "#, Err("")),
        ] {
            let left = left.map(String::from).map_err(String::from);
            assert_eq!(read(CallReader::call(), text), (name.map(String::from), arguments.to_owned(), left), "{text}");
        }
        assert_eq!(read(CallReader::arguments(), r#" {"a": 1} "#), (None, r#"{"a": 1}"#.into(), Ok(" ".into())));
    }
}
