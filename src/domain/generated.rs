//! From a generateContent response to a value, for rows of a batch and plain calls (design, section 6).

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

use super::classify::{Judgement, Met, Verdict, classify};
use super::extract::{self, Expectation};
use super::failure::Failure;
use super::interaction::Media;
use super::mask::clean;
use super::raw::{elements, field, members};

/// Characters kept of Gemini's own message on why a candidate ended.
const MESSAGE_CHARS: usize = 300;

/// The value of a response: the visible text of candidate 0, by the same rules as [`extract::extract`].
///
/// Visible are the parts with `text` that are no thoughts, joined. A response that is `null`, or holds no candidate
/// and no block reason, is empty.
///
/// # Errors
/// The judgement to act on, and a message for people that does not repeat the answer. A finish reason that this
/// program doesn't know is `unknown`, with or without text: the answer may be cut.
pub fn extract(response: &RawValue, expectation: &Expectation) -> Result<Box<RawValue>, (Judgement, String)> {
    extract_by(response, expectation, &|value| extract::fits(value, expectation))
}

/// The same with a check that the caller keeps ready (see [`extract::value_by`]).
pub(super) fn extract_by(
    response: &RawValue,
    expectation: &Expectation,
    fits: &dyn Fn(&Value) -> Result<(), String>,
) -> Result<Box<RawValue>, (Judgement, String)> {
    let fields = members(response).unwrap_or_default();
    let candidate =
        get(&fields, "candidates").and_then(elements).and_then(|all| all.into_iter().next()).and_then(members);
    let Some(candidate) = candidate else {
        return Err(judged(Failure { block_reason: block_reason(&fields), ..Failure::default() }));
    };
    let reason = get_text(&candidate, "finishReason");
    let ended = Failure {
        message: get_text(&candidate, "finishMessage").map(|text| clean(&text, MESSAGE_CHARS)).unwrap_or_default(),
        finish_reason: reason,
        ..Failure::default()
    };
    if !is_whole(ended.finish_reason.as_deref()) {
        return Err(judged(ended));
    }
    let parts =
        get(&candidate, "content").and_then(members).and_then(|content| get(&content, "parts").and_then(elements));
    let parts: Vec<_> = parts.unwrap_or_default().into_iter().map(|part| members(part).unwrap_or_default()).collect();
    let visible =
        |part: &&BTreeMap<String, &RawValue>| get(part, "thought").is_none_or(|thought| thought.get() != "true");
    let text: String = parts.iter().filter(visible).filter_map(|part| field(part, "text")).collect();
    let media: Vec<Media> = parts.iter().enumerate().filter_map(|(index, part)| media(index, part)).collect();
    extract::value_by(&text, &media, expectation, fits)
}

/// Its `usageMetadata`, unchanged; `null` when it has none.
#[must_use]
pub fn usage(response: &RawValue) -> Box<RawValue> {
    let fields = members(response).unwrap_or_default();
    get(&fields, "usageMetadata").unwrap_or(RawValue::NULL).to_owned()
}

/// Its `responseId`: what Gemini calls the answer of a plain call; empty when it says nothing.
#[must_use]
pub fn response_id(response: &RawValue) -> String {
    let fields = members(response).unwrap_or_default();
    get_text(&fields, "responseId").unwrap_or_default()
}

/// Whether a candidate ended of its own accord, as far as it says.
fn is_whole(reason: Option<&str>) -> bool {
    let reason = reason.unwrap_or_default().to_ascii_uppercase();
    matches!(reason.as_str(), "" | "STOP" | "FINISH_REASON_UNSPECIFIED")
}

fn block_reason(response: &BTreeMap<String, &RawValue>) -> Option<String> {
    let feedback = get(response, "promptFeedback").and_then(members)?;
    get_text(&feedback, "blockReason")
}

/// The judgement of an answer that ended so. One that says nothing at all is empty, not unknown.
fn judged(failure: Failure) -> (Judgement, String) {
    let judgement = classify(&failure, Met::InWork);
    if failure.finish_reason.is_none() && judgement.verdict == Verdict::Retryable {
        return (Judgement::empty(), "the response holds no candidate".to_owned());
    }
    (judgement, failure.summary())
}

fn media(index: usize, part: &BTreeMap<String, &RawValue>) -> Option<Media> {
    let data = get(part, "inlineData").or_else(|| get(part, "fileData")).and_then(members)?;
    let mime_type = get_text(&data, "mimeType");
    let kind = mime_type.as_deref().and_then(|mime_type| mime_type.split('/').next()).unwrap_or("file").to_owned();
    let pointer = format!("/candidates/0/content/parts/{index}");
    Some(Media { kind, mime_type, uri: get_text(&data, "fileUri"), pointer })
}

/// A member under its camelCase name, or as snake_case, which some of Gemini's own clients write.
fn get<'a>(fields: &BTreeMap<String, &'a RawValue>, name: &str) -> Option<&'a RawValue> {
    let found = fields.get(name).or_else(|| fields.get(&snake(name)));
    found.copied().filter(|value| value.get() != "null")
}

fn get_text(fields: &BTreeMap<String, &RawValue>, name: &str) -> Option<String> {
    field(fields, name).or_else(|| field(fields, &snake(name)))
}

fn snake(name: &str) -> String {
    name.chars()
        .flat_map(|c| c.is_ascii_uppercase().then_some('_').into_iter().chain([c.to_ascii_lowercase()]))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(response: &Value, expectation: &Expectation) -> Result<String, (Verdict, String)> {
        let response = RawValue::from_string(response.to_string()).unwrap();
        extract(&response, expectation).map(|value| value.get().to_owned()).map_err(|(judgement, message)| {
            assert!(!message.is_empty());
            (judgement.verdict, judgement.class)
        })
    }

    fn candidate(reason: &str, parts: &Value) -> Value {
        json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": reason}], "usageMetadata": {"totalTokenCount": 3}})
    }

    fn class(response: &Value) -> (Verdict, String) {
        of(response, &Expectation::default()).unwrap_err()
    }

    #[test]
    fn the_visible_text_of_the_first_candidate() {
        let mut response = candidate(
            "STOP",
            &json!([{"thought": true, "text": "hm"}, {"text": "A"}, {"thoughtSignature": "s"}, {"text": "B", "thought": false}]),
        );
        response["candidates"].as_array_mut().unwrap().push(json!({"content": {"parts": [{"text": "other"}]}}));
        assert_eq!(of(&response, &Expectation::default()).unwrap(), "\"AB\"");
        let snake = json!({"candidates": [{"content": {"parts": [{"text": "A"}]}, "finish_reason": "MAX_TOKENS"}]});
        assert_eq!(class(&snake).1, "truncated");
        let json = Expectation { json: true, ..Expectation::default() };
        assert_eq!(
            of(&candidate("STOP", &json!([{"text": "```json\n{\"a\": "}, {"text": "1}\n```"}])), &json).unwrap(),
            "{\"a\":1}"
        );
        assert_eq!(
            of(&candidate("STOP", &json!([{"text": "{\"a\": "}])), &json).unwrap_err(),
            (Verdict::Permanent, "extract:json".to_owned())
        );
        let raw = RawValue::from_string(response.to_string()).unwrap();
        assert_eq!((usage(&raw).get(), usage(RawValue::NULL).get()), ("{\"totalTokenCount\":3}", "null"));
    }

    /// Every shape of gemini-api.md, section 5.4.
    #[test]
    fn a_response_without_an_answer() {
        let permanent = |class: &str| (Verdict::Permanent, class.to_owned());
        let retryable = |class: &str| (Verdict::Retryable, class.to_owned());
        let table = [
            (
                json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {}}),
                permanent("blocked:PROHIBITED_CONTENT"),
            ),
            (json!({"candidates": [], "promptFeedback": {"blockReason": "OTHER"}}), permanent("blocked:OTHER")),
            (json!({"candidates": [{"finishReason": "SAFETY"}]}), permanent("blocked:SAFETY")),
            (
                json!({"candidates": [{"content": {"role": "model"}, "finishReason": "MAX_TOKENS"}]}),
                permanent("truncated"),
            ),
            (candidate("MAX_TOKENS", &json!([{"text": "{\"a\":"}])), permanent("truncated")),
            (candidate("STOP", &json!([{"thoughtSignature": "s"}])), retryable("empty")),
            (candidate("STOP", &json!([{"thought": true, "text": "hm"}])), retryable("empty")),
            (candidate("STOP", &json!([])), retryable("empty")),
            (candidate("OTHER", &json!([{"text": "half"}])), retryable("empty")),
            (json!({"candidates": [{"finishReason": "STOP"}]}), retryable("empty")),
            (
                json!({"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL"}]}),
                retryable("malformed:MALFORMED_FUNCTION_CALL"),
            ),
            (json!({"candidates": [{"citationMetadata": {"citationSources": []}}]}), retryable("empty")),
            (candidate("A_REASON_OF_TOMORROW", &json!([{"text": "half"}])), retryable("unknown")),
            (json!(null), retryable("empty")),
            (json!({}), retryable("empty")),
            (
                json!({"candidates": null, "promptFeedback": {"blockReason": "BLOCK_REASON_UNSPECIFIED"}}),
                retryable("empty"),
            ),
            (json!({"candidates": ["odd"]}), retryable("empty")),
            (json!("odd"), retryable("empty")),
        ];
        for (response, expected) in table {
            assert_eq!(class(&response), expected, "{response}");
        }
    }

    #[test]
    fn media_is_pointed_at() {
        let wanted = Expectation { media: true, ..Expectation::default() };
        let image = candidate("STOP", &json!([{"inlineData": {"mimeType": "image/png", "data": "AA"}}]));
        let value: Value = serde_json::from_str(&of(&image, &wanted).unwrap()).unwrap();
        assert_eq!(
            value,
            json!({"media": [{"type": "image", "mime_type": "image/png", "pointer": "/candidates/0/content/parts/0"}]})
        );
        assert_eq!(class(&image).1, "empty");
    }
}
