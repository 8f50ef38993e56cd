//! From Gemini's dialect to JSON Schema, node by node. Source of the dialect: `Schema` in google-genai 3.3.0
//! (`types.py`), <https://ai.google.dev/api/caching#Schema>.

use serde_json::{Map, Number, Value, json};

/// snake_case names of the dialect, and Gemini's own names for what JSON Schema has with a `$`.
const RENAMED: [(&str, &str); 12] = [
    ("any_of", "anyOf"),
    ("one_of", "oneOf"),
    ("all_of", "allOf"),
    ("min_items", "minItems"),
    ("max_items", "maxItems"),
    ("min_length", "minLength"),
    ("max_length", "maxLength"),
    ("min_properties", "minProperties"),
    ("max_properties", "maxProperties"),
    ("additional_properties", "additionalProperties"),
    ("prefix_items", "prefixItems"),
    ("defs", "$defs"),
];

/// Limits, which the dialect may write as strings (int64).
const LIMITS: [&str; 8] =
    ["minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties", "minimum", "maximum"];

/// Members that hold one schema, or an array of schemas.
const ONE: [&str; 15] = [
    "items",
    "additionalItems",
    "additionalProperties",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contains",
    "propertyNames",
    "not",
    "if",
    "then",
    "else",
    "anyOf",
    "oneOf",
    "allOf",
    "prefixItems",
];

/// Members that hold schemas under names, which are the user's own and never words of the dialect.
const NAMED: [&str; 5] = ["properties", "patternProperties", "dependentSchemas", "$defs", "definitions"];

/// Members that hold values rather than schemas.
const VALUES: [&str; 5] = ["const", "default", "enum", "example", "examples"];

/// JSON Schema that says the same: type names in lower case, `nullable` as a type, numbers for limits written as
/// strings, snake_case names in camelCase, `ref` and `defs` with their `$`, numbers beside the strings of an
/// integer's `enum`, unset (`null`) members dropped. JSON Schema itself comes through as it is, but for `nullable`,
/// which it doesn't have and Gemini honours there too. What neither dialect knows (`propertyOrdering`) stays,
/// without effect.
///
/// # Errors
/// A limit that is no number, with its place.
pub fn to_json_schema(schema: &Value) -> Result<Value, String> {
    map(schema, "")
}

fn map(schema: &Value, place: &str) -> Result<Value, String> {
    let Value::Object(node) = schema else { return Ok(schema.clone()) };
    let mut mapped = Map::new();
    for (name, value) in node {
        if value.is_null() && !VALUES.contains(&name.as_str()) {
            continue;
        }
        let place = format!("{place}/{name}");
        let name = RENAMED.iter().find(|(snake, _)| snake == name).map_or(name.as_str(), |(_, camel)| camel);
        match (name, value) {
            ("type", value) => {
                if let Some(kinds) = kinds(value) {
                    mapped.insert(name.to_owned(), kinds);
                }
            }
            ("ref" | "$ref", Value::String(target)) => {
                let target =
                    target.strip_prefix("#/defs/").map_or_else(|| target.clone(), |name| format!("#/$defs/{name}"));
                mapped.insert("$ref".to_owned(), target.into());
            }
            (name, Value::String(limit)) if LIMITS.contains(&name) => {
                let number: Number = limit.trim().parse().map_err(|_| format!("is no schema at {place}: no number"))?;
                mapped.insert(name.to_owned(), number.into());
            }
            (name, Value::Object(named)) if NAMED.contains(&name) => {
                let named = named.iter().map(|(key, value)| Ok((key.clone(), map(value, &format!("{place}/{key}"))?)));
                mapped.insert(name.to_owned(), Value::Object(named.collect::<Result<_, String>>()?));
            }
            (name, value) if ONE.contains(&name) => {
                let value = match value {
                    Value::Array(schemas) => {
                        let schemas =
                            schemas.iter().enumerate().map(|(i, schema)| map(schema, &format!("{place}/{i}")));
                        Value::Array(schemas.collect::<Result<_, String>>()?)
                    }
                    one => map(one, &place)?,
                };
                mapped.insert(name.to_owned(), value);
            }
            ("nullable", Value::Bool(_)) => {}
            (name, value) => {
                mapped.insert(name.to_owned(), value.clone());
            }
        }
    }
    widen_enum(&mut mapped);
    if node.get("nullable") == Some(&Value::Bool(true)) {
        allow_null(&mut mapped);
    }
    Ok(Value::Object(mapped))
}

/// Type names in lower case; none for `TYPE_UNSPECIFIED`. What is no type name stays, for the compiler to refuse.
fn kinds(value: &Value) -> Option<Value> {
    match value {
        Value::String(kind) if kind.eq_ignore_ascii_case("TYPE_UNSPECIFIED") => None,
        Value::String(kind) => {
            let lower = kind.to_ascii_lowercase();
            let known = ["object", "array", "string", "number", "integer", "boolean", "null"].contains(&lower.as_str());
            Some(if known { lower.into() } else { value.clone() })
        }
        Value::Array(all) => Some(Value::Array(all.iter().filter_map(kinds).collect())),
        other => Some(other.clone()),
    }
}

/// The dialect's `enum` holds strings only, also for integers (`{type: INTEGER, format: enum, enum: ["101"]}`); the
/// answer then holds a number.
fn widen_enum(node: &mut Map<String, Value>) {
    let numeric = match node.get("type") {
        Some(Value::String(kind)) => kind == "integer" || kind == "number",
        _ => false,
    };
    if let (true, Some(Value::Array(values))) = (numeric, node.get_mut("enum")) {
        let numbers: Vec<Value> =
            values.iter().filter_map(|value| value.as_str()?.parse::<Number>().ok().map(Value::Number)).collect();
        values.extend(numbers);
    }
}

/// Lets `null` fit, whatever else the node says.
fn allow_null(node: &mut Map<String, Value>) {
    if node.contains_key("$ref") || node.contains_key("allOf") {
        // Definitions stay where references look for them.
        let mut outer = Map::new();
        for name in ["$schema", "$id", "$defs", "definitions"] {
            outer.extend(node.remove(name).map(|value| (name.to_owned(), value)));
        }
        let inner = std::mem::take(node);
        outer.insert("anyOf".to_owned(), json!([inner, {"type": "null"}]));
        *node = outer;
        return;
    }
    if let Some(only) = node.remove("const") {
        node.insert("enum".to_owned(), json!([only]));
    }
    match node.get_mut("type") {
        Some(Value::Array(kinds)) => kinds.push("null".into()),
        Some(kind) => *kind = json!([kind.take(), "null"]),
        None => {}
    }
    if let Some(Value::Array(values)) = node.get_mut("enum") {
        values.push(Value::Null);
    }
    for name in ["anyOf", "oneOf"] {
        if let Some(Value::Array(choices)) = node.get_mut(name) {
            choices.push(json!({"type": "null"}));
        }
    }
    for values in ["type", "enum"] {
        if let Some(Value::Array(values)) = node.get_mut(values) {
            let all = std::mem::take(values);
            for value in all {
                if !values.contains(&value) {
                    values.push(value);
                }
            }
        }
    }
}
