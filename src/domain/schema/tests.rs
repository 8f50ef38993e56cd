use serde_json::json;

use super::*;

fn fits(schema: &Value, value: &Value) -> bool {
    Schema::compile(schema).unwrap().check(value).is_ok()
}

#[test]
fn geminis_dialect_means_what_it_says() {
    let schema = json!({
        "type": "OBJECT",
        "title": null,
        "required": ["name", "n"],
        "propertyOrdering": ["name", "n", "tags", "type"],
        "properties": {
            "name": {"type": "STRING", "maxLength": "5", "description": "d", "nullable": true},
            "n": {"type": "INTEGER", "format": "int32", "minimum": 1, "maximum": "9"},
            "ratio": {"type": "NUMBER", "format": "float", "nullable": false},
            "tags": {"type": "ARRAY", "minItems": "1", "max_items": "2", "items": {"type": "STRING", "format": "enum", "enum": ["a", "b"]}},
            "when": {"type": "STRING", "format": "date-time"},
            "either": {"any_of": [{"type": "BOOLEAN"}, {"type": "NULL"}]},
            "type": {"type": "STRING"},
            "nullable": {"type": "BOOLEAN"},
            "any": {"type": "TYPE_UNSPECIFIED"}}});
    let good = [
        json!({"name": "潮の満ち引", "n": 1}),
        json!({"name": null, "n": 9, "ratio": 0.5, "tags": ["a"], "when": "tomorrow", "either": null, "type": "x", "nullable": true, "any": {}}),
    ];
    for value in good {
        assert_eq!(Schema::compile(&schema).unwrap().check(&value), Ok(()));
    }
    let bad = [
        (json!({"n": 1}), ""),
        (json!({"name": "abcdef", "n": 1}), "/name"),
        (json!({"name": "a", "n": 1.5}), "/n"),
        (json!({"name": "a", "n": 10}), "/n"),
        (json!({"name": "a", "n": null}), "/n"),
        (json!({"name": "a", "n": 1, "ratio": null}), "/ratio"),
        (json!({"name": "a", "n": 1, "tags": []}), "/tags"),
        (json!({"name": "a", "n": 1, "tags": ["a", "b", "a"]}), "/tags"),
        (json!({"name": "a", "n": 1, "tags": ["c"]}), "/tags/0"),
        (json!({"name": "a", "n": 1, "either": "x"}), "/either"),
        (json!({"name": "a", "n": 1, "type": 4}), "/type"),
        (json!([]), ""),
    ];
    for (value, place) in bad {
        let place = if place.is_empty() { "the whole value: ".to_owned() } else { format!("{place}: ") };
        let message = Schema::compile(&schema).unwrap().check(&value).unwrap_err();
        assert!(message.starts_with(&place), "{value}: {message}");
    }
}

#[test]
fn json_schema_is_left_as_it_is() {
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": ["object", "null"],
        "properties": {"a": {"$ref": "#/definitions/A"}, "defs": {"const": {"type": "STRING"}}, "ref": {"type": "string"}},
        "definitions": {"A": {"type": "integer", "exclusiveMinimum": 0}},
        "additionalProperties": false,
        "default": null,
        "examples": [{"type": "OBJECT", "min_items": "1"}]});
    assert_eq!(to_json_schema(&schema).unwrap(), schema);
    assert!(fits(&schema, &json!({"a": 1, "defs": {"type": "STRING"}, "ref": "x"})));
    assert!(!fits(&schema, &json!({"a": 0})));
    assert!(!fits(&schema, &json!({"b": 0})));
    assert!(fits(&json!(true), &json!(1)) && !fits(&json!(false), &json!(1)));
}

#[test]
fn nullable_lets_null_in_whatever_else_is_said() {
    let nodes = [
        json!({"type": "string"}),
        json!({"type": ["STRING", "null"]}),
        json!({"enum": ["a", "b"]}),
        json!({"type": "STRING", "enum": ["a"]}),
        json!({"const": "a"}),
        json!({"anyOf": [{"type": "STRING"}, {"type": "NUMBER"}]}),
        json!({"oneOf": [{"type": "STRING"}, {"type": "NUMBER"}]}),
        json!({"allOf": [{"type": "STRING"}]}),
        json!({"ref": "#/defs/A", "defs": {"A": {"type": "STRING"}}}),
    ];
    for mut node in nodes {
        assert!(fits(&node, &json!("a")) && !fits(&node, &json!(true)), "{node}");
        node["nullable"] = json!(true);
        assert!(fits(&node, &json!(null)) && fits(&node, &json!("a")) && !fits(&node, &json!(true)), "{node}");
    }
}

#[test]
fn numbers_of_an_enum_may_be_written_as_strings() {
    let schema = json!({"type": "INTEGER", "format": "enum", "enum": ["101", "201"]});
    assert!(fits(&schema, &json!(101)) && !fits(&schema, &json!(102)) && !fits(&schema, &json!("101")));
}

#[test]
fn references_stay_inside() {
    let tree = json!({"type": "OBJECT", "properties": {"child": {"$ref": "#"}}, "required": ["v"]});
    assert!(fits(&tree, &json!({"v": 1, "child": {"v": 2}})) && !fits(&tree, &json!({"v": 1, "child": {}})));
    for target in ["https://example.com/s.json", "file:///etc/passwd", "other.json", "#/$defs/none"] {
        let error = Schema::compile(&json!({"properties": {"a": {"$ref": target}}})).unwrap_err();
        assert!(error.starts_with("is no schema that can be used"), "{error}");
    }
    // Endless references end.
    assert!(fits(&json!({"$ref": "#"}), &json!(1)));
}

#[test]
fn what_is_no_schema_is_told() {
    let cases = [
        (json!("x"), "is no schema: neither an object nor true or false"),
        (json!([{}]), "is no schema: neither an object nor true or false"),
        (json!({"properties": {"a": {"minItems": "many"}}}), "is no schema at /properties/a/minItems: no number"),
        (json!({"type": "objekt"}), "is no schema that can be used at /type: "),
        (json!({"properties": {"a": {"pattern": "("}}}), "is no schema that can be used at /properties/a/pattern: "),
    ];
    for (schema, message) in cases {
        let error = Schema::compile(&schema).unwrap_err();
        assert!(error.starts_with(message) && error.chars().count() <= MESSAGE_CHARS, "{error}");
    }
}

#[test]
fn a_message_is_bounded_and_does_not_repeat_the_answer() {
    let schema =
        Schema::compile(&json!({"properties": {"a": {"type": "integer"}}, "required": ["x".repeat(1_000)]})).unwrap();
    let message = schema.check(&json!({"a": "private words", "x".repeat(1_000): 1})).unwrap_err();
    assert_eq!(message, "/a: it is not of type \"integer\"");
    assert!(schema.check(&json!({})).unwrap_err().chars().count() <= MESSAGE_CHARS);
}
