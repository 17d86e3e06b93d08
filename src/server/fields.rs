//! Reads a JSON object field by field, with types and ranges checked. Each error names the field by its path in the
//! request; a field that nobody took is refused by name.

use std::fmt::Display;
use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use super::error::ApiError;

type Result<T> = std::result::Result<T, ApiError>;

pub struct Fields {
    /// Where the object is in the request; empty for the request itself.
    path: String,
    map: Map<String, Value>,
}

/// Characters of a wrong value that are quoted.
const LONGEST_QUOTE: usize = 60;

impl Fields {
    pub fn of(value: Value, path: impl Into<String>) -> Result<Self> {
        let path = path.into();
        match value {
            Value::Object(map) => Ok(Self { path, map }),
            other => Err(wrong_type(&path, &other, "an object")),
        }
    }

    /// The object as it was, without what was taken from it.
    pub fn into_value(self) -> Value {
        Value::Object(self.map)
    }

    /// A field's path, as errors name it.
    pub fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// Takes a field; `None` where it is absent or null.
    pub fn take(&mut self, name: &str) -> Option<Value> {
        self.map.remove(name).filter(|value| !value.is_null())
    }

    /// These change nothing in the answer.
    pub fn ignore(&mut self, names: &[&str]) {
        for name in names {
            self.map.remove(*name);
        }
    }

    /// Takes a field that may only say what holds anyway.
    pub fn only(&mut self, name: &str, allowed: &Value, why: &str) -> Result<()> {
        match self.take(name) {
            Some(value) if value != *allowed => Err(self.unsupported(name, why)),
            _ => Ok(()),
        }
    }

    pub fn unsupported(&self, name: &str, why: &str) -> ApiError {
        let path = self.path_of(name);
        ApiError::param(&path, "unsupported_parameter", format!("'{path}' is not supported: {why}"))
    }

    pub fn missing(&self, name: &str) -> ApiError {
        let path = self.path_of(name);
        ApiError::param(&path, "missing_required_parameter", format!("'{path}' is missing"))
    }

    pub fn wrong(&self, name: &str, value: &Value, expected: impl Display) -> ApiError {
        wrong_value(&self.path_of(name), value, expected)
    }

    pub fn boolean(&mut self, name: &str) -> Result<Option<bool>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(value)),
            Some(other) => Err(wrong_type(&self.path_of(name), &other, "true or false")),
        }
    }

    pub fn string(&mut self, name: &str) -> Result<Option<String>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(value)) => Ok(Some(value)),
            Some(other) => Err(wrong_type(&self.path_of(name), &other, "a string")),
        }
    }

    pub fn integer(&mut self, name: &str, range: RangeInclusive<i64>) -> Result<Option<i64>> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let path = self.path_of(name);
        let Value::Number(number) = &value else { return Err(wrong_type(&path, &value, "a whole number")) };
        let found = number.as_i64().filter(|number| range.contains(number));
        let (least, most) = (range.start(), range.end());
        let expected = if *most == i64::MAX {
            format!("a whole number, {least} or more")
        } else {
            format!("a whole number between {least} and {most}")
        };
        found.map(Some).ok_or_else(|| wrong_value(&path, &value, expected))
    }

    pub fn count(&mut self, name: &str, range: RangeInclusive<usize>) -> Result<Option<usize>> {
        let bound = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let found = self.integer(name, bound(*range.start())..=bound(*range.end()))?;
        Ok(found.and_then(|number| usize::try_from(number).ok()))
    }

    pub fn number(&mut self, name: &str, range: RangeInclusive<f64>) -> Result<Option<f32>> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let path = self.path_of(name);
        let Some(number) = value.as_f64() else { return Err(wrong_type(&path, &value, "a number")) };
        if !range.contains(&number) {
            return Err(wrong_value(&path, &value, format!("between {} and {}", range.start(), range.end())));
        }
        Ok(Some(number as f32))
    }

    pub fn one_of<T: Copy>(&mut self, name: &str, choices: &[(&str, T)]) -> Result<Option<T>> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let chosen = value.as_str().and_then(|text| choices.iter().find(|(name, _)| *name == text));
        let names = || choices.iter().map(|(name, _)| format!("'{name}'")).collect::<Vec<_>>().join(", ");
        match chosen {
            Some((_, chosen)) => Ok(Some(*chosen)),
            None => Err(self.wrong(name, &value, format!("one of {}", names()))),
        }
    }

    pub fn object(&mut self, name: &str) -> Result<Option<Self>> {
        let path = self.path_of(name);
        self.take(name).map(|value| Self::of(value, path)).transpose()
    }

    pub fn list(&mut self, name: &str) -> Result<Option<Vec<Value>>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Array(list)) => Ok(Some(list)),
            Some(other) => Err(wrong_type(&self.path_of(name), &other, "a list")),
        }
    }

    /// Everything was taken; what was not is no parameter here.
    pub fn finish(self) -> Result<()> {
        match self.map.iter().find(|(_, value)| !value.is_null()) {
            None => Ok(()),
            Some((name, _)) => {
                let path = self.path_of(&shortened(name));
                Err(ApiError::param(&path, "unknown_parameter", format!("'{path}' is no parameter of this server")))
            }
        }
    }
}

pub fn wrong_type(path: &str, value: &Value, expected: &str) -> ApiError {
    let found = match value {
        Value::Null => "null".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::String(_) => "a string".to_owned(),
        Value::Bool(_) | Value::Number(_) => format!("'{value}'"),
    };
    let what = if path.is_empty() { "the request".to_owned() } else { format!("'{path}'") };
    let error = ApiError::param(path, "invalid_type", format!("{what} is {found}; it must be {expected}"));
    if path.is_empty() { ApiError { param: None, ..error } } else { error }
}

pub fn wrong_value(path: &str, value: &Value, expected: impl Display) -> ApiError {
    let quoted = match value {
        Value::String(text) => shortened(text),
        other => shortened(&other.to_string()),
    };
    ApiError::param(path, "invalid_value", format!("'{path}' is '{quoted}'; it must be {expected}"))
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(LONGEST_QUOTE) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(value: Value) -> Fields {
        Fields::of(value, "").unwrap()
    }

    #[test]
    fn what_is_there_is_taken_and_null_is_not_there() {
        let mut read = fields(json!({"a": 0.5, "b": 7, "c": "x", "d": true, "e": null, "f": [1], "g": {"h": 2}}));
        assert_eq!(read.number("a", 0.0..=1.0).unwrap(), Some(0.5));
        assert_eq!(read.integer("b", 0..=7).unwrap(), Some(7));
        assert_eq!(read.string("c").unwrap().as_deref(), Some("x"));
        assert_eq!(read.boolean("d").unwrap(), Some(true));
        assert_eq!(read.boolean("e").unwrap(), None);
        assert_eq!(read.list("f").unwrap(), Some(vec![json!(1)]));
        let mut inner = read.object("g").unwrap().unwrap();
        assert_eq!(inner.path_of("h"), "g.h");
        assert_eq!(inner.count("h", 1..=usize::MAX).unwrap(), Some(2));
        assert_eq!(read.string("nothing").unwrap(), None);
        read.finish().unwrap();
    }

    #[test]
    fn errors_name_the_field_and_say_what_was_expected() {
        let error = |result: Result<()>| {
            let error = result.unwrap_err();
            (error.param.clone().unwrap_or_default(), error.code.unwrap_or_default(), error.message)
        };
        let mut read = fields(json!({"a": 3, "b": 0.5, "c": 1, "d": "deep"}));
        let (param, code, message) = error(read.number("a", 0.0..=2.0).map(|_| ()));
        assert_eq!((param.as_str(), code), ("a", "invalid_value"));
        assert_eq!(message, "'a' is '3'; it must be between 0 and 2");
        let (_, _, message) = error(read.integer("b", 1..=i64::MAX).map(|_| ()));
        assert_eq!(message, "'b' is '0.5'; it must be a whole number, 1 or more");
        let (_, code, message) = error(read.string("c").map(|_| ()));
        assert_eq!((code, message.as_str()), ("invalid_type", "'c' is '1'; it must be a string"));
        let (_, _, message) = error(read.one_of("d", &[("low", 1), ("high", 2)]).map(|_| ()));
        assert_eq!(message, "'d' is 'deep'; it must be one of 'low', 'high'");
        let (param, code, _) = error(fields(json!({"x": null, "y": 1})).finish());
        assert_eq!((param.as_str(), code), ("y", "unknown_parameter"));
    }

    #[test]
    fn a_long_value_is_not_quoted_whole() {
        let long = "\u{e4}".repeat(5000);
        let error = fields(json!({"a": long})).one_of("a", &[("b", ())]).unwrap_err();
        assert!(error.message.len() < 300, "{}", error.message);
    }

    #[test]
    fn no_object_is_no_request() {
        let error = Fields::of(json!([1]), "").err().unwrap();
        assert_eq!((error.param, error.message.as_str()), (None, "the request is a list; it must be an object"));
    }
}
