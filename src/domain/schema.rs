//! Gemini's upper-case OpenAPI dialect of schemas, mapped to JSON Schema, and checks against either.

mod dialect;

use serde_json::Value;

use super::mask::bound;

pub use self::dialect::to_json_schema;

/// Characters of a message about a schema or an answer that doesn't fit.
const MESSAGE_CHARS: usize = 300;

/// A schema ready to check answers.
#[derive(Debug)]
pub struct Schema(jsonschema::Validator);

impl Schema {
    /// Compiles a schema: JSON Schema as it is, Gemini's dialect mapped to it (see [`to_json_schema`]).
    ///
    /// `format` is never checked: it is an annotation in JSON Schema 2020-12, and Gemini has words of its own there
    /// (`float`, `int32`, `enum`). References outside the schema are refused, never fetched.
    ///
    /// # Errors
    /// Why it is no schema, in words.
    pub fn compile(schema: &Value) -> Result<Self, String> {
        if !matches!(schema, Value::Object(_) | Value::Bool(_)) {
            return Err("is no schema: neither an object nor true or false".to_owned());
        }
        let schema = to_json_schema(schema)?;
        let compiled = jsonschema::options().offline().should_validate_formats(false).build(&schema);
        compiled.map(Self).map_err(|error| {
            let place = error.instance_path().to_string();
            let place = if place.is_empty() { place } else { format!(" at {place}") };
            bound(&format!("is no schema that can be used{place}: {error}"), MESSAGE_CHARS)
        })
    }

    /// Checks a value.
    ///
    /// # Errors
    /// The place of the first thing that doesn't fit, as a JSON pointer, and what is wrong with it. The value itself
    /// is not repeated, for messages go to logs and queues.
    pub fn check(&self, value: &Value) -> Result<(), String> {
        self.0.validate(value).map_err(|error| {
            let place = error.instance_path().to_string();
            let place = if place.is_empty() { "the whole value".to_owned() } else { place };
            bound(&format!("{place}: {}", error.masked_with("it")), MESSAGE_CHARS)
        })
    }
}

#[cfg(test)]
mod tests;
