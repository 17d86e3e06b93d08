//! Jinja as transformers sets it up in Python, where it is more than the language: what `tojson` writes, what counts as a
//! sequence, the clock, and blocks that mark what the assistant said.

use std::fmt::{self, Write};
use std::io;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, Value};
use serde::Serialize;
use serde_json::ser::Formatter;

/// An environment without templates, each of which may take so many steps.
pub fn environment(most_steps: u64) -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_function("raise_exception", |message: String| -> Result<String, Error> { Err(invalid(message)) });
    environment.add_function("strftime_now", strftime_now);
    environment.add_filter("tojson", to_json);
    environment.set_formatter(|output, _, value| match value.as_str() {
        Some(text) => output.write_str(text).map_err(Error::from),
        // A list of lists is counted when it is made, as one; what it prints is not.
        None => write!(Bounded { output, left: MOST_TEXT }, "{value}").map_err(|_| too_long()),
    });
    // Strings are sequences, and can be iterated over; `None` cannot.
    environment.add_test("sequence", |value: &Value| matches!(value.kind(), ValueKind::Seq | ValueKind::String));
    environment.add_test("iterable", |value: &Value| match value.kind() {
        ValueKind::String => true,
        ValueKind::None => false,
        _ => value.try_iter().is_ok(),
    });
    environment.set_fuel(Some(most_steps));
    Ok(environment)
}

/// The longest text that a single value is written as, in bytes.
const MOST_TEXT: usize = 64 << 20;

/// Writes so many bytes and no more.
struct Bounded<W> {
    output: W,
    left: usize,
}

impl<W: fmt::Write> fmt::Write for Bounded<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.left = self.left.checked_sub(text.len()).ok_or(fmt::Error)?;
        self.output.write_str(text)
    }
}

impl<W: io::Write> io::Write for Bounded<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.left = self.left.checked_sub(bytes.len()).ok_or(io::ErrorKind::FileTooLarge)?;
        self.output.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

fn too_long() -> Error {
    invalid(format!("a value is longer than {MOST_TEXT} bytes as text"))
}

/// JSON as templates see it.
pub fn from_serde(value: impl Serialize) -> Value {
    Value::from(Serde(value))
}

fn invalid(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

/// `{% generation %}` and its end mark the assistant's text for those who train on it; here they only group. What stands
/// in their place trims white space as they do.
pub fn without_generation_tags(source: &str) -> String {
    let mut text = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("{%") {
        let Some(end) = rest[at..].find("%}").map(|end| at + end) else { break };
        // The last beginning before the end: one before it is text in quotes.
        let at = rest[..end].rfind("{%").unwrap_or(at);
        let (before, tag) = rest.split_at(at);
        let end = end - at;
        text.push_str(before);
        let inner = &tag[2..end];
        let word = inner.trim_matches(|c: char| c.is_whitespace() || c == '-' || c == '+');
        let replacement = match word {
            "generation" => Some("if true"),
            "endgeneration" => Some("endif"),
            _ => None,
        };
        match replacement {
            Some(replacement) => text.push_str(&format!("{{%{}%}}", inner.replacen(word, replacement, 1))),
            None => text.push_str(&tag[..end + 2]),
        }
        rest = &tag[end + 2..];
    }
    text.push_str(rest);
    text
}

/// The local time, in the way that C's `strftime` writes it.
fn strftime_now(format: &str) -> Result<String, Error> {
    let mut text = String::new();
    // What cannot be written is an error here and a panic in `to_string`.
    write!(text, "{}", chrono::Local::now().format(format))
        .map_err(|_| invalid(format!("strftime_now cannot write '{format}'")))?;
    Ok(text)
}

/// What Python's `json.dumps` writes, with its `indent`, `separators`, `ensure_ascii` and `sort_keys`.
fn to_json(state: &mut State, value: &Value, options: Kwargs) -> Result<Value, Error> {
    let ensure_ascii = options.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false);
    let indent = options.get::<Option<Value>>("indent")?.filter(|indent| !indent.is_none());
    let separators = options.get::<Option<Vec<String>>>("separators")?;
    let sort_keys = options.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    options.assert_all_used()?;
    let indent = match indent {
        None => None,
        Some(indent) => Some(match (indent.as_str(), usize::try_from(indent.clone())) {
            (Some(text), _) => text.to_owned(),
            // No line is so deep, and no screen so wide.
            (None, Ok(columns)) => " ".repeat(columns.min(64)),
            (None, Err(_)) => return Err(invalid(format!("tojson's indent is {indent}; expected a number or a text"))),
        }),
    };
    let (item, key) = match separators.as_deref() {
        None => (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()),
        Some([item, key]) => (item.clone(), key.clone()),
        Some(other) => return Err(invalid(format!("tojson's separators are {} texts; expected two", other.len()))),
    };
    let mut bytes = Vec::new();
    let style = PythonStyle { item, key, indent, depth: 0, empty: false };
    let failed = |error: serde_json::Error| Error::new(ErrorKind::BadSerialization, "not JSON").with_source(error);
    let json = if sort_keys {
        let mut json = serde_json::to_value(value).map_err(failed)?;
        json.sort_all_objects();
        from_serde(&json)
    } else {
        value.clone()
    };
    let writer = Bounded { output: &mut bytes, left: MOST_TEXT };
    json.serialize(&mut serde_json::Serializer::with_formatter(writer, style)).map_err(failed)?;
    let text = String::from_utf8(bytes).map_err(|_| invalid("tojson made no text"))?;
    let text = if ensure_ascii { ascii(&text) } else { text };
    state.consume_fuel(text.len() as u64 / 64)?;
    Ok(Value::from_safe_string(text))
}

/// Characters beyond ASCII as UTF-16 escapes.
fn ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_ascii() {
            text.push(c);
        } else {
            text.extend(c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    text
}

struct PythonStyle {
    item: String,
    key: String,
    indent: Option<String>,
    depth: usize,
    /// The array or object that is open has nothing in it yet.
    empty: bool,
}

impl PythonStyle {
    fn open<W: ?Sized + io::Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.empty = true;
        writer.write_all(bracket)
    }

    fn next<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.empty = false;
        if !first {
            writer.write_all(self.item.as_bytes())?;
        }
        self.line(writer)
    }

    fn close<W: ?Sized + io::Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth -= 1;
        if !std::mem::take(&mut self.empty) {
            self.line(writer)?;
        }
        writer.write_all(bracket)
    }

    fn line<W: ?Sized + io::Write>(&self, writer: &mut W) -> io::Result<()> {
        match &self.indent {
            Some(indent) => writer.write_all(format!("\n{}", indent.repeat(self.depth)).as_bytes()),
            None => Ok(()),
        }
    }
}

impl Formatter for PythonStyle {
    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"[")
    }

    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.next(writer, first)
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"]")
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"{")
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.next(writer, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(self.key.as_bytes())
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"}")
    }

    /// 1e+16 and not 1e16, as Python writes it.
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        let text = format!("{value:?}");
        let text = match text.split_once('e') {
            Some((digits, exponent)) => {
                let (sign, exponent) = exponent.strip_prefix('-').map_or(("+", exponent), |rest| ("-", rest));
                format!("{digits}e{sign}{exponent:0>2}")
            }
            None => text,
        };
        writer.write_all(text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(source: &str, value: &serde_json::Value) -> Result<String, Error> {
        let mut environment = environment(100_000)?;
        environment.add_template_owned("t", without_generation_tags(source))?;
        environment.get_template("t")?.render(minijinja::context! { x => from_serde(value) })
    }

    /// The right column is what Python's `json.dumps(x, ensure_ascii=False, ...)` prints.
    #[test]
    fn json_is_written_as_python_writes_it() {
        let value = serde_json::json!({
            "b": [1, 2.0, 1e16, 1e-7, true, null], "a": "é<'>&\"\\\n\u{1f}\u{7f}", "e": {}, "l": [], "n": {"k": [[]]},
        });
        for (filter, expected) in [
            (
                "tojson",
                "{\"b\": [1, 2.0, 1e+16, 1e-07, true, null], \"a\": \"é<'>&\\\"\\\\\\n\\u001f\u{7f}\", \"e\": {}, \
                 \"l\": [], \"n\": {\"k\": [[]]}}",
            ),
            (
                "tojson(indent=2, sort_keys=true)",
                "{\n  \"a\": \"é<'>&\\\"\\\\\\n\\u001f\u{7f}\",\n  \"b\": [\n    1,\n    2.0,\n    1e+16,\n    1e-07,\n    \
                 true,\n    null\n  ],\n  \"e\": {},\n  \"l\": [],\n  \"n\": {\n    \"k\": [\n      []\n    ]\n  }\n}",
            ),
        ] {
            assert_eq!(render(&format!("{{{{ x | {filter} }}}}"), &value).unwrap(), expected, "{filter}");
        }
        let short = serde_json::json!({"k": ["é😀", 1]});
        let compact = "{{ x | tojson(separators=(',', ':'), ensure_ascii=true) }}";
        assert_eq!(render(compact, &short).unwrap(), "{\"k\":[\"\\u00e9\\ud83d\\ude00\",1]}");
        assert!(render("{{ x | tojson(indent='a', sperators=1) }}", &short).is_err());
    }

    #[test]
    fn generation_blocks_only_group() {
        let source = "a\n  {%- generation -%}\n b {{ '{%' }} \n{% endgeneration %}\n  c{% if x %}{%generation%}d{%endgeneration%}{% endif %}";
        let grouped =
            "a\n  {%- if true -%}\n b {{ '{%' }} \n{% endif %}\n  c{% if x %}{%if true%}d{%endif%}{% endif %}";
        assert_eq!(without_generation_tags(source), grouped);
        assert_eq!(without_generation_tags("{% unclosed"), "{% unclosed");
    }

    #[test]
    fn strings_are_sequences() {
        let kinds = "{{ x is sequence }} {{ x is iterable }} {{ x is string }} {{ x is mapping }}";
        for (value, expected) in [
            (serde_json::json!("a"), "True True True False"),
            (serde_json::json!(["a"]), "True True False False"),
            (serde_json::json!({"a": 1}), "False True False True"),
            (serde_json::json!(1), "False False False False"),
            (serde_json::Value::Null, "False False False False"),
        ] {
            assert_eq!(render(kinds, &value).unwrap(), expected, "{value}");
        }
    }

    #[test]
    fn the_clock_is_the_machine_s() {
        let year = chrono::Local::now().format("%Y").to_string();
        assert_eq!(render("{{ strftime_now('%Y') }}", &serde_json::Value::Null).unwrap(), year);
        let error = render("{{ strftime_now('%') }}", &serde_json::Value::Null).unwrap_err().to_string();
        assert!(error.contains("strftime_now cannot write '%'"), "{error}");
    }
}
