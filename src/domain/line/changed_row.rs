//! What a replay may change of the requests of rows.

use super::super::changes::Changes;
use super::super::json::{self, Json, Member};
use super::fields::Fields;
use super::{LineError, call, members_of, raw};

/// Whether these changes may be made to any row: only fields of generateContent, each of its kind, and nothing that would
/// leave a row without contents.
///
/// # Errors
/// They may not, in words that begin with `request.`.
pub fn check_row_changes(changes: &Changes) -> Result<(), LineError> {
    let Some(patch) = &changes.request else { return Ok(()) };
    let members = patch_of(patch.get())?;
    let fields = Fields { path: "request.", ..Fields::of_line(&members) };
    for member in &members {
        if member.name == "model" {
            return Err(fields.bad(&member.name, "another model is given beside the request's fields, as model"));
        }
        match (call::sent_as(&member.name), &member.value) {
            // It goes out as it is, without the short forms that a line of mode call has.
            (Some("systemInstruction"), Json::Text(_)) => {
                return Err(
                    fields.bad(&member.name, "must be an object, as {\"parts\": [{\"text\": …}]}, not a string")
                );
            }
            (Some(_), _) => {}
            (None, _) if member.name == "input" => {
                return Err(
                    fields.bad("input", "a row has contents, as [{\"role\": \"user\", \"parts\": [{\"text\": …}]}]")
                );
            }
            (None, _) => {
                // What a plain call has in its place, where somebody knows.
                call::check(&fields)?;
                return Err(fields.bad(&member.name, "Gemini's request has no such field"));
            }
        }
    }
    call::check(&fields)
}

/// A row's request with the changes, in the row's own spelling of its fields.
///
/// # Errors
/// JSON that can't be read.
pub fn changed_row(request: &str, changes: &Changes) -> Result<String, LineError> {
    let Some(patch) = &changes.request else { return Ok(request.to_owned()) };
    let own = members_of(Json::parse(request)?).unwrap_or_default();
    let members = patch_of(patch.get())?;
    let mut renamed = String::from("{");
    for member in &members {
        let is_same = |field: &&Member<'_>| {
            call::sent_as(&member.name).is_some_and(|sent| call::sent_as(&field.name) == Some(sent))
        };
        let name = own.iter().find(is_same).map_or(&member.name, |field| &field.name);
        if renamed.len() > 1 {
            renamed.push(',');
        }
        renamed.push_str(&json::quoted(name));
        renamed.push(':');
        renamed.push_str(member.text);
    }
    renamed.push('}');
    Ok(Changes { model: None, request: Some(raw(&renamed)?) }.apply(request)?)
}

fn patch_of(patch: &str) -> Result<Vec<Member<'_>>, LineError> {
    members_of(Json::parse(patch)?).map_err(|kind| LineError {
        class: "bad_line:field",
        message: format!("request: must be an object, not {kind}"),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    fn changes(patch: &str) -> Changes {
        Changes { model: None, request: Some(RawValue::from_string(patch.to_owned()).unwrap()) }
    }

    #[test]
    fn what_would_spoil_a_row_is_told() {
        for (patch, said) in [
            (r#"{"contents": null}"#, "request.contents: must be an array"),
            (r#"{"contents": []}"#, "request.contents: must not be empty"),
            (r#"{"contents": ["hi"]}"#, "request.contents: must hold"),
            (r#"{"generationConfig": 5}"#, "request.generationConfig: must be an object"),
            (r#"{"generation_config": []}"#, "request.generation_config: must be an object"),
            (r#"{"tools": {}}"#, "request.tools: must be an array"),
            (r#"{"systemInstruction": "Be brief."}"#, "request.systemInstruction: must be an object"),
            (r#"{"key": "a"}"#, "request.key: Gemini's request has no such field"),
            (r#"{"request": {}}"#, "request.request: Gemini's request has no such field"),
            (r#"{"input": "hi"}"#, "request.input: a row has contents"),
            (r#"{"model": "x"}"#, "request.model: another model is given beside"),
            (r#"{"stream": true}"#, "request.stream: a plain call is answered as a whole"),
            (r#"{"generationConfig": {}, "generation_config": {}}"#, "both spellings"),
            ("[]", "request: must be an object"),
        ] {
            let error = check_row_changes(&changes(patch)).unwrap_err();
            assert!(error.message.contains(said), "{patch}: {error}");
        }
        for patch in [
            r#"{"generationConfig": {"maxOutputTokens": 8192}, "tools": null}"#,
            r#"{"contents": [{"parts": [{"text": "hi"}]}], "safety_settings": []}"#,
            r#"{"systemInstruction": {"parts": [{"text": "Be brief."}]}, "cachedContent": "c"}"#,
        ] {
            assert_eq!(check_row_changes(&changes(patch)), Ok(()), "{patch}");
        }
        assert_eq!(check_row_changes(&Changes::default()), Ok(()));
    }

    #[test]
    fn a_row_keeps_its_own_spelling() {
        let own = r#"{"contents":[{}],"generation_config":{"seed":1}}"#;
        assert_eq!(
            changed_row(own, &changes(r#"{"generationConfig": {"topK": 3}}"#)).unwrap(),
            r#"{"contents":[{}],"generation_config":{"seed":1,"topK":3}}"#
        );
        assert_eq!(changed_row(own, &changes(r#"{"generationConfig": null}"#)).unwrap(), r#"{"contents":[{}]}"#);
        assert_eq!(changed_row(own, &Changes::default()).unwrap(), own);
    }
}
