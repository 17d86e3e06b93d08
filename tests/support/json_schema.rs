//! A validator for the part of JSON Schema (2020-12) that our schemas use. A keyword that it does not know is an error, so
//! that no part of a schema goes unchecked.

use serde_json::Value;

/// What is wrong with `value`, each with the place; empty where it is valid.
pub fn errors(schema: &Value, value: &Value) -> Vec<String> {
    let mut errors = Vec::new();
    Validator { root: schema }.check(schema, value, "", &mut errors);
    errors
}

struct Validator<'a> {
    root: &'a Value,
}

impl Validator<'_> {
    fn check(&self, schema: &Value, value: &Value, at: &str, errors: &mut Vec<String>) {
        for (keyword, argument) in schema.as_object().expect("a schema is an object") {
            let wrong = match keyword.as_str() {
                "$schema" | "title" | "description" | "$defs" => false,
                "$ref" => {
                    let path = argument.as_str().unwrap().strip_prefix('#').expect("a reference into this schema");
                    let target = self.root.pointer(path).unwrap_or_else(|| panic!("{path} is not in the schema"));
                    self.check(target, value, at, errors);
                    false
                }
                "type" => match argument {
                    Value::Array(kinds) => !kinds.iter().any(|kind| is_of(value, kind)),
                    kind => !is_of(value, kind),
                },
                "const" => value != argument,
                "enum" => !argument.as_array().unwrap().contains(value),
                "minimum" => value.as_f64().is_some_and(|number| number < argument.as_f64().unwrap()),
                "maximum" => value.as_f64().is_some_and(|number| number > argument.as_f64().unwrap()),
                "minLength" => {
                    value.as_str().is_some_and(|text| (text.chars().count() as u64) < argument.as_u64().unwrap())
                }
                "maxLength" => {
                    value.as_str().is_some_and(|text| text.chars().count() as u64 > argument.as_u64().unwrap())
                }
                "anyOf" => !argument.as_array().unwrap().iter().any(|schema| {
                    let mut found = Vec::new();
                    self.check(schema, value, at, &mut found);
                    found.is_empty()
                }),
                "required" => {
                    let names = argument.as_array().unwrap();
                    value
                        .as_object()
                        .is_some_and(|object| names.iter().any(|name| !object.contains_key(name.as_str().unwrap())))
                }
                "properties" => {
                    for (name, schema) in argument.as_object().unwrap() {
                        if let Some(value) = value.get(name) {
                            self.check(schema, value, &format!("{at}/{name}"), errors);
                        }
                    }
                    false
                }
                "additionalProperties" => {
                    assert_eq!(argument, &Value::Bool(false));
                    let known = schema["properties"].as_object().unwrap();
                    value.as_object().is_some_and(|object| object.keys().any(|name| !known.contains_key(name)))
                }
                "items" => {
                    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.check(argument, item, &format!("{at}/{index}"), errors);
                    }
                    false
                }
                "minItems" => value.as_array().is_some_and(|items| (items.len() as u64) < argument.as_u64().unwrap()),
                "maxItems" => value.as_array().is_some_and(|items| items.len() as u64 > argument.as_u64().unwrap()),
                keyword => panic!("the validator does not know '{keyword}'"),
            };
            if wrong {
                errors.push(format!("{at}: {keyword} {argument}"));
            }
        }
    }
}

fn is_of(value: &Value, kind: &Value) -> bool {
    match kind.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        // `-0` is one by JSON Schema, 6.1.1, and serde_json reads it as a float.
        "integer" => {
            value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|n| n == 0.0 && n.is_sign_negative())
        }
        kind => panic!("the validator does not know the type '{kind}'"),
    }
}
