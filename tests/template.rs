//! What must never be lost from `template.yaml`, looked at as CloudFormation gets it: after the SAM transform.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test says what it found by failing"
)]

mod emulator;

#[path = "template/alarms.rs"]
mod alarms;
#[path = "template/events.rs"]
mod events;
#[path = "template/functions.rs"]
mod functions;
#[path = "template/kept.rs"]
mod kept;
#[path = "template/roles.rs"]
mod roles;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use serde_json::Value;

/// The template, expanded.
static TEMPLATE: LazyLock<Value> = LazyLock::new(|| printed_by("scripts/template-json", &[]));

/// What a script prints, run with the tests' Python.
fn printed_by(script: &str, arguments: &[&str]) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(script);
    let mut run = Command::new(emulator::python());
    let output = run.arg(&script).args(arguments).env("PYTHONDONTWRITEBYTECODE", "1").output().unwrap();
    assert!(output.status.success(), "{}: {}", script.display(), String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Every resource of a type, by its name.
fn of_type(kind: &str) -> BTreeMap<&'static str, &'static Value> {
    let resources = TEMPLATE["Resources"].as_object().unwrap().iter();
    let found: BTreeMap<_, _> = resources
        .filter(|(_, resource)| resource["Type"] == kind)
        .map(|(name, resource)| (name.as_str(), resource))
        .collect();
    assert!(!found.is_empty(), "there is no {kind}");
    found
}

/// The properties of a resource.
fn properties(name: &str) -> &'static Value {
    let found = &TEMPLATE["Resources"][name]["Properties"];
    assert!(found.is_object(), "there is no resource {name}");
    found
}

/// A list, or the one thing in place of it.
fn listed(value: &Value) -> Vec<&Value> {
    value.as_array().map_or_else(|| vec![value], |list| list.iter().collect())
}

/// Values of parameters that somebody gave; the others have their defaults.
type Given<'a> = &'a [(&'a str, &'a str)];

/// A value as text: references are parameters, or the names of resources; what only AWS knows stands by its name.
fn text_given(value: &Value, given: Given<'_>) -> String {
    let Some((function, argument)) = value.as_object().and_then(|object| object.iter().next()) else {
        return match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            other => panic!("{other} is not understood here"),
        };
    };
    let text = |value: &Value| text_given(value, given);
    match (function.as_str(), argument) {
        ("Ref", name) => reference(&text(name), given),
        ("Fn::GetAtt", Value::Array(parts)) => reference(&parts.iter().map(text).collect::<Vec<_>>().join("."), given),
        ("Fn::If", choice) => text(&choice[if holds(text(&choice[0]).as_str(), given) { 1 } else { 2 }]),
        ("Fn::Sub", Value::String(plain)) => substituted(plain, &Value::Null, given),
        ("Fn::Sub", pair) => substituted(pair[0].as_str().unwrap(), &pair[1], given),
        _ => panic!("{value} is not understood here"),
    }
}

fn reference(name: &str, given: Given<'_>) -> String {
    if let Some((_, value)) = given.iter().find(|(parameter, _)| *parameter == name) {
        return (*value).to_owned();
    }
    match (name, &TEMPLATE["Parameters"][name]["Default"]) {
        ("Api.ApiEndpoint", _) => "https://api.example".to_owned(),
        (_, Value::Null) => name.to_owned(),
        (_, default) => text_given(default, given),
    }
}

fn substituted(plain: &str, own: &Value, given: Given<'_>) -> String {
    let mut parts = plain.split("${");
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |text, part| {
        let (name, rest) = part.split_once('}').unwrap();
        let value = own.get(name).map_or_else(|| reference(name, given), |value| text_given(value, given));
        text + &value + rest
    })
}

/// Whether a condition holds.
fn holds(condition: &str, given: Given<'_>) -> bool {
    fn judge(condition: &Value, given: Given<'_>) -> bool {
        match condition.as_object().unwrap().iter().next().unwrap() {
            (function, pair) if function == "Fn::Equals" => text_given(&pair[0], given) == text_given(&pair[1], given),
            (function, other) if function == "Fn::Not" => !judge(&other[0], given),
            other => panic!("{other:?} is not understood here"),
        }
    }
    judge(&TEMPLATE["Conditions"][condition], given)
}
