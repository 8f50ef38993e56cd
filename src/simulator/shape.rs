//! JSON that fits a schema: JSON Schema, or Gemini's upper-case OpenAPI dialect.
//!
//! Every free string carries the digest of the input. Understood are types (also in a list, also upper-case),
//! `nullable`, `enum`, `const`, `properties`, `required`, `items`, `prefixItems`, the limits of lengths, counts
//! and numbers (as numbers or as strings of digits), the formats of times and addresses, `anyOf`, `oneOf`,
//! `allOf` and `$ref` within the schema. `pattern`, `not` and conditions are not: an answer may violate them.

use serde_json::{Map, Number, Value, json};

use super::answer::Digest;

/// Below this depth only required properties and the fewest items are made, so that recursive schemas end.
const DEEP: usize = 6;
/// Where a schema that requires itself is left alone.
const TOO_DEEP: usize = 32;

/// A value that fits the schema, the same for the same digest.
pub(super) fn fitting(schema: &Value, digest: Digest) -> Value {
    let mut shaper = Shaper { root: schema, digest, made: 0 };
    // Whoever asks for any JSON expects an object.
    let any = schema.as_object().is_some_and(Map::is_empty);
    if any { shaper.object(schema, "", 0) } else { shaper.fit(schema, "", 0) }
}

struct Shaper<'a> {
    root: &'a Value,
    digest: Digest,
    /// How many numbers and choices were made: so that the items of a list differ.
    made: u64,
}

impl Shaper<'_> {
    fn fit(&mut self, schema: &Value, path: &str, depth: usize) -> Value {
        if depth > TOO_DEEP {
            return Value::Null;
        }
        if let Some(fixed) = schema.get("const") {
            return fixed.clone();
        }
        if let Some(choices) = schema.get("enum").and_then(Value::as_array) {
            return self.choose(choices);
        }
        if let Some(other) = self.elsewhere(schema) {
            return self.fit(&other, path, depth + 1);
        }
        match kind(schema).as_str() {
            "object" => self.object(schema, path, depth),
            "array" => self.array(schema, path, depth),
            "integer" => self.number(schema, true),
            "number" => self.number(schema, false),
            "boolean" => Value::Bool(self.next().is_multiple_of(2)),
            "null" => Value::Null,
            _ => Value::String(self.string(schema, path)),
        }
    }

    fn next(&mut self) -> u64 {
        self.made += 1;
        self.digest.0.wrapping_add(self.made)
    }

    fn choose(&mut self, choices: &[Value]) -> Value {
        let among = u64::try_from(choices.len()).unwrap_or(1).max(1);
        let place = usize::try_from(self.next() % among).unwrap_or(0);
        choices.get(place).cloned().unwrap_or(Value::Null)
    }

    /// The schema that stands in for this one: behind a reference, an alternative, or all parts in one.
    fn elsewhere(&self, schema: &Value) -> Option<Value> {
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            let pointer = reference.strip_prefix('#')?;
            return self.root.pointer(pointer).cloned();
        }
        let mut rest = schema.as_object()?.clone();
        for word in ["anyOf", "oneOf"] {
            if let Some(Value::Array(choices)) = rest.remove(word) {
                let some = choices.iter().find(|choice| kind(choice) != "null").or_else(|| choices.first())?;
                return Some(merged(rest, some));
            }
        }
        let Some(Value::Array(parts)) = rest.remove("allOf") else { return None };
        let resolved = parts.iter().map(|part| self.elsewhere(part).unwrap_or_else(|| part.clone()));
        Some(
            resolved.fold(Value::Object(rest), |all, part| merged(all.as_object().cloned().unwrap_or_default(), &part)),
        )
    }

    fn object(&mut self, schema: &Value, path: &str, depth: usize) -> Value {
        let none = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
        let required: Vec<&str> =
            schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        let mut object = Map::new();
        for (name, property) in properties {
            if depth < DEEP || required.contains(&name.as_str()) {
                object.insert(name.clone(), self.fit(property, &below(path, name), depth + 1));
            }
        }
        for name in required {
            if !object.contains_key(name) {
                object.insert(name.to_owned(), self.fit(&json!({}), &below(path, name), depth + 1));
            }
        }
        let free = schema.get("additionalProperties");
        if object.is_empty() && properties.is_empty() && free != Some(&Value::Bool(false)) {
            let value = self.fit(free.filter(|free| free.is_object()).unwrap_or(&json!({})), path, depth + 1);
            object.insert("answer".into(), value);
        }
        Value::Object(object)
    }

    fn array(&mut self, schema: &Value, path: &str, depth: usize) -> Value {
        let (any, none) = (json!({}), Vec::new());
        let first = schema.get("prefixItems").and_then(Value::as_array).unwrap_or(&none);
        let least = limit(schema, "minItems").unwrap_or(0);
        let wanted = if depth < DEEP { first.len().max(2) } else { 0 };
        let count = wanted.max(least).min(limit(schema, "maxItems").unwrap_or(usize::MAX));
        let rest = schema.get("items").filter(|items| items.is_object()).unwrap_or(&any);
        let item = |n| first.get(n).unwrap_or(rest);
        (0..count).map(|n| self.fit(item(n), &below(path, &n.to_string()), depth + 1)).collect()
    }

    fn number(&mut self, schema: &Value, whole: bool) -> Value {
        let bound = |word: &str| schema.get(word).and_then(Value::as_f64);
        let least = [bound("minimum"), bound("exclusiveMinimum")].into_iter().flatten().reduce(f64::max);
        let most = [bound("maximum"), bound("exclusiveMaximum")].into_iter().flatten().reduce(f64::min);
        let room = least.zip(most).map(|(least, most)| (most - least) / 4.0).filter(|room| *room > 0.0);
        let free = if whole { 1.0 } else { room.unwrap_or(0.25).min(0.25) };
        let step = bound("multipleOf").filter(|step| *step > 0.0).unwrap_or(free);
        let lowest = least.map(|min| if bound("exclusiveMinimum") == least { min + step / 2.0 } else { min });
        let highest = most.map(|max| if bound("exclusiveMaximum") == most { max - step / 2.0 } else { max });
        // In steps, so that every choice is a multiple of the step.
        let low = lowest.map(|min| (min / step).ceil());
        let high = highest.map(|max| (max / step).floor());
        let low = low.or_else(|| high.map(|high| high - 1000.0)).unwrap_or(0.0);
        let choices = high.map_or(1000.0, |high| (high - low + 1.0).clamp(1.0, 1000.0));
        let value = (low + ((self.next() % 100_000) as f64) % choices) * step;
        // A range of one number need not hold a whole step.
        let value = if highest.is_some_and(|max| value > max) { lowest.unwrap_or(value) } else { value };
        let number = if whole { Some(Number::from(value as i64)) } else { Number::from_f64(value) };
        number.map_or(Value::Null, Value::Number)
    }

    fn string(&mut self, schema: &Value, path: &str) -> String {
        let digest = self.digest;
        match schema.get("format").and_then(Value::as_str) {
            Some("date-time") => return "2026-11-29T22:30:21Z".into(),
            Some("date") => return "2026-11-29".into(),
            Some("time") => return "22:30:21Z".into(),
            Some("email") => return format!("sim-{digest}@example.test"),
            Some("uri" | "url") => return format!("https://example.test/sim/{digest}"),
            Some("uuid") => return format!("51a00000-0000-4000-8000-{:012x}", digest.0 >> 16),
            _ => {}
        }
        let longest = limit(schema, "maxLength").unwrap_or(usize::MAX);
        let name = if path.is_empty() { String::new() } else { format!(": {path}") };
        let mut text = if longest < 20 { digest.to_string() } else { format!("sim {digest}{name}") };
        let missing = limit(schema, "minLength").unwrap_or(0).saturating_sub(text.chars().count());
        text.extend(std::iter::repeat_n('.', missing));
        text.chars().take(longest).collect()
    }
}

/// The type in small letters; what other words imply when there is none.
fn kind(schema: &Value) -> String {
    let named = match schema.get("type") {
        Some(Value::String(name)) => Some(name),
        Some(Value::Array(names)) => names
            .iter()
            .find_map(|name| name.as_str().filter(|n| !n.eq_ignore_ascii_case("null")).and(Some(name)))
            .or_else(|| names.first())
            .and_then(|name| if let Value::String(name) = name { Some(name) } else { None }),
        _ => None,
    };
    let implied = || {
        let has = |words: [&str; 2]| words.iter().any(|word| schema.get(word).is_some());
        let objects = has(["properties", "required"]);
        let word = if objects {
            "object"
        } else if has(["items", "prefixItems"]) {
            "array"
        } else {
            "string"
        };
        word.to_owned()
    };
    named.map_or_else(implied, |name| name.to_ascii_lowercase())
}

fn merged(mut all: Map<String, Value>, part: &Value) -> Value {
    for (word, value) in part.as_object().into_iter().flatten() {
        match (all.get_mut(word), value) {
            (Some(Value::Object(have)), Value::Object(more)) => have.extend(more.clone()),
            (Some(Value::Array(have)), Value::Array(more)) => have.extend(more.clone()),
            _ => drop(all.insert(word.clone(), value.clone())),
        }
    }
    Value::Object(all)
}

/// Gemini's own dialect writes counts as strings of digits.
fn limit(schema: &Value, word: &str) -> Option<usize> {
    let value = schema.get(word)?;
    let number = value.as_u64().or_else(|| value.as_str()?.parse().ok())?;
    usize::try_from(number).ok()
}

fn below(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(schema: &Value) -> Value {
        let value = fitting(schema, Digest(0x0123_4567_89ab_cdef));
        let validator = jsonschema::validator_for(schema).unwrap();
        assert!(validator.is_valid(&value), "{value} does not fit {schema}");
        value
    }

    #[test]
    fn answers_fit_json_schemas() {
        let value = fits(&json!({"type": "object", "required": ["title", "n", "extra"], "properties": {
            "title": {"type": "string", "minLength": 80, "maxLength": 90},
            "short": {"type": "string", "maxLength": 5}, "n": {"type": "integer", "minimum": 3, "maximum": 3},
            "share": {"type": "number", "exclusiveMinimum": 0.1, "exclusiveMaximum": 0.2},
            "one": {"type": "number", "minimum": 0.1, "maximum": 0.1}, "even": {"type": "integer", "multipleOf": 2},
            "below": {"type": "number", "maximum": -7}, "above": {"type": "integer", "exclusiveMinimum": 7},
            "mood": {"enum": ["good", "bad"]}, "fixed": {"const": [1]}, "flag": {"type": "boolean"},
            "maybe": {"type": ["null", "string"]}, "nothing": {"type": "null"}, "empty": {"type": "object", "additionalProperties": false},
            "map": {"type": "object", "additionalProperties": {"type": "integer"}},
            "facts": {"type": "array", "items": {"type": "string"}, "minItems": 3, "maxItems": 4, "uniqueItems": true},
            "numbers": {"type": "array", "items": {"type": "integer", "maximum": 5}, "uniqueItems": true, "minItems": 5},
            "pair": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "boolean"}], "items": false, "maxItems": 2},
            "either": {"anyOf": [{"type": "null"}, {"type": "array", "items": {"type": "number"}}]},
            "both": {"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
                               {"properties": {"b": {"type": "string"}}, "required": ["b"]}]},
            "at": {"type": "string", "format": "date-time"}, "id": {"type": "string", "format": "uuid"}}}));
        assert!(value["title"].as_str().unwrap().starts_with("sim 0123456789abcdef: title"));
        assert_eq!(value["facts"][2], "sim 0123456789abcdef: facts.2");
        assert_eq!(value["extra"], "sim 0123456789abcdef: extra");
        assert_eq!(value["short"], "01234");
    }

    #[test]
    fn recursive_and_referring_schemas_end() {
        let tree = json!({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "required": ["name"], "properties": {
            "name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}}}});
        assert!(fits(&tree)["children"][0]["name"].is_string());
        let endless = json!({"$ref": "#"});
        assert_eq!(fitting(&endless, Digest(1)), Value::Null);
    }

    #[test]
    fn any_json_is_an_object_with_the_digest() {
        assert_eq!(fits(&json!({})), json!({"answer": "sim 0123456789abcdef"}));
        assert_eq!(fits(&json!({"type": "object"})), json!({"answer": "sim 0123456789abcdef"}));
    }

    #[test]
    fn the_upper_case_dialect_is_understood() {
        let schema = json!({"type": "OBJECT", "properties": {
            "a": {"type": "STRING", "nullable": true}, "b": {"type": "ARRAY", "items": {"type": "INTEGER"}, "minItems": "3"},
            "c": {"type": "NUMBER"}, "d": {"type": "BOOLEAN"}, "e": {"type": "STRING", "format": "enum", "enum": ["X"]}}});
        let value = fitting(&schema, Digest(5));
        assert!(value["a"].is_string() && value["c"].is_number() && value["d"].is_boolean() && value["e"] == "X");
        assert_eq!(value["b"].as_array().unwrap().iter().filter(|n| n.is_i64()).count(), 3);
    }
}
