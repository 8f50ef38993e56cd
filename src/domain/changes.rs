//! What a replay puts in the place of a dead letter's own model or request fields (design, section 7).

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::json::{self, Json, JsonError, Member};

/// Another model, other request fields.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Changes {
    /// The model that takes the place of what was named before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Fields that are merged into the request, an object: as a JSON merge patch (RFC 7396), so that `null` removes a field
    /// and one field of an inner object can be changed alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Box<RawValue>>,
}

impl Changes {
    /// Whether nothing changes.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.model.is_none() && self.request.is_none()
    }

    /// A request, a JSON object, with the fields merged in. What isn't changed stays as it was written.
    ///
    /// # Errors
    /// JSON that can't be read.
    pub fn apply(&self, request: &str) -> Result<String, JsonError> {
        match &self.request {
            Some(patch) => Ok(merged(&Json::parse(request)?, &Json::parse(patch.get())?, patch.get())),
            None => Ok(request.to_owned()),
        }
    }
}

/// RFC 7396, section 2, on texts: numbers and strings that stay keep the form in which they were written.
fn merged(target: &Json<'_>, patch: &Json<'_>, patch_text: &str) -> String {
    let Json::Object(changes) = patch else { return patch_text.trim().to_owned() };
    let nothing = Vec::new();
    let own = match target {
        Json::Object(members) => members,
        _ => &nothing,
    };
    let mut out = String::from("{");
    let mut push = |name: &str, value: &str| {
        if out.len() > 1 {
            out.push(',');
        }
        out.push_str(&json::quoted(name));
        out.push(':');
        out.push_str(value);
    };
    for member in own {
        match changes.iter().find(|change| change.name == member.name) {
            None => push(&member.name, member.text),
            Some(Member { value: Json::Null, .. }) => {}
            Some(change) => push(&member.name, &merged(&member.value, &change.value, change.text)),
        }
    }
    for change in changes.iter().filter(|change| !own.iter().any(|member| member.name == change.name)) {
        if change.value != Json::Null {
            push(&change.name, &merged(&Json::Null, &change.value, change.text));
        }
    }
    out.push('}');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patched(request: &str, patch: &str) -> String {
        let changes = Changes { model: None, request: Some(RawValue::from_string(patch.to_owned()).unwrap()) };
        changes.apply(request).unwrap()
    }

    /// The examples of RFC 7396, appendix A, whose patch is an object.
    #[test]
    fn the_standards_own_examples() {
        for (request, patch, expected) in [
            (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"a":null}"#, "{}"),
            (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
            (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
            (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
            (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
            (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"e":null,"a":1}"#),
            ("{}", r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
        ] {
            assert_eq!(patched(request, patch), expected, "{request} with {patch}");
        }
    }

    #[test]
    fn what_stays_keeps_its_form_and_one_inner_field_can_be_changed_alone() {
        let request = r#"{"n": 1.0e2, "generationConfig": {"seed": 12345678901234567890123, "maxOutputTokens": 10}}"#;
        assert_eq!(
            patched(request, r#"{"generationConfig": {"maxOutputTokens": 8192}}"#),
            r#"{"n":1.0e2,"generationConfig":{"seed":12345678901234567890123,"maxOutputTokens":8192}}"#
        );
        assert_eq!(Changes::default().apply(request).unwrap(), request);
    }
}
