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

/// A value as text: references are the defaults of parameters, or the names of resources.
fn text(value: &Value) -> String {
    if let Some(name) = value["Ref"].as_str() {
        let default = &TEMPLATE["Parameters"][name]["Default"];
        return if default.is_null() { name.to_owned() } else { text(default) };
    }
    if let Some([name, attribute]) = value["Fn::GetAtt"].as_array().map(Vec::as_slice) {
        return format!("{}.{}", text(name), text(attribute));
    }
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        other => panic!("{other} is not understood here"),
    }
}
