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
        let (name, value) = match (name, value) {
            ("nullable", Value::Bool(_)) => continue,
            ("type", kind) => match kinds(kind) {
                Some(kinds) => (name, kinds),
                None => continue,
            },
            ("ref" | "$ref", Value::String(target)) => ("$ref", reference(target)),
            (name, Value::String(limit)) if LIMITS.contains(&name) => (name, number(limit, &place)?),
            (name, Value::Object(named)) if NAMED.contains(&name) => (name, map_named(named, &place)?),
            (name, value) if ONE.contains(&name) => (name, map_each(value, &place)?),
            (name, value) => (name, value.clone()),
        };
        mapped.insert(name.to_owned(), value);
    }
    widen_enum(&mut mapped);
    if node.get("nullable") == Some(&Value::Bool(true)) {
        allow_null(&mut mapped);
    }
    Ok(Value::Object(mapped))
}

/// One schema, or each of an array.
fn map_each(schemas: &Value, place: &str) -> Result<Value, String> {
    let Value::Array(schemas) = schemas else { return map(schemas, place) };
    let schemas = schemas.iter().enumerate().map(|(index, schema)| map(schema, &format!("{place}/{index}")));
    schemas.collect::<Result<_, _>>().map(Value::Array)
}

/// Schemas under the user's own names.
fn map_named(named: &Map<String, Value>, place: &str) -> Result<Value, String> {
    let named = named.iter().map(|(name, schema)| Ok((name.clone(), map(schema, &format!("{place}/{name}"))?)));
    named.collect::<Result<_, _>>().map(Value::Object)
}

fn reference(target: &str) -> Value {
    target.strip_prefix("#/defs/").map_or_else(|| target.to_owned(), |name| format!("#/$defs/{name}")).into()
}

fn number(limit: &str, place: &str) -> Result<Value, String> {
    limit.trim().parse().map(Value::Number).map_err(|_| format!("is no schema at {place}: no number"))
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
