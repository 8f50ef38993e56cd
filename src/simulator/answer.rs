//! What the simulated model answers: a function of the input, so that an answer under the wrong key is seen.

use std::fmt;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::shape;
use crate::domain::json::Json;

/// The first 16 hex digits of the sha256 of an input's canonical JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(pub(super) u64);

impl Digest {
    /// Of what Python's `json.dumps(input, sort_keys=True, ensure_ascii=False)` prints.
    #[must_use]
    pub fn of(input: &Value) -> Self {
        let written = input.to_string();
        // What `Json` refuses of a value (an escape of half a surrogate pair can't be in one) is digested as written.
        let canonical = Json::parse(&written).map_or_else(|_| written.clone(), |json| json.canonical());
        let hash = Sha256::digest(canonical.as_bytes());
        Self(hash.iter().take(8).fold(0, |number, byte| (number << 8) | u64::from(*byte)))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// What was asked, as far as the answer depends on it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Question {
    pub(super) digest: Digest,
    /// The text of the input.
    said: String,
    /// The schema of the JSON that is asked for: `{}` for any. None when text will do.
    schema: Option<Value>,
}

impl Question {
    /// From the body of an interaction.
    pub(super) fn of_interaction(body: &Value) -> Self {
        let input = body.get("input").unwrap_or(&Value::Null);
        Self { digest: Digest::of(input), said: said(input), schema: asked_of_interaction(body) }
    }

    /// From the body of a `generateContent` request.
    pub(super) fn of_contents(body: &Value) -> Self {
        let contents = body.get("contents").unwrap_or(&Value::Null);
        let config = body.get("generationConfig").unwrap_or(&Value::Null);
        let schema = ["responseJsonSchema", "_responseJsonSchema", "responseSchema"].iter().find_map(|k| config.get(k));
        let json = config.get("responseMimeType") == Some(&json!("application/json"));
        let schema = schema.cloned().or_else(|| json.then(|| json!({})));
        Self { digest: Digest::of(contents), said: said(contents), schema }
    }

    pub(super) fn wants_json(&self) -> bool {
        self.schema.is_some()
    }

    /// The whole answer.
    pub(super) fn answer(&self) -> String {
        match &self.schema {
            Some(schema) => shape::fitting(schema, self.digest).to_string(),
            None => format!("sim {}: {}", self.digest, self.said.chars().take(60).collect::<String>()),
        }
    }

    /// The whole answer, with so many bytes at least: JSON is followed by spaces, a text by more text.
    pub(super) fn long_answer(&self, at_least: usize) -> String {
        let mut answer = self.answer();
        let missing = at_least.saturating_sub(answer.len());
        if self.wants_json() {
            answer.push_str(&" ".repeat(missing));
        } else {
            let more = " and so on";
            let mut rest = more.repeat(missing.div_ceil(more.len()));
            // All of it is ASCII.
            rest.truncate(missing);
            answer.push_str(&rest);
        }
        answer
    }

    /// The first half of the answer: what a token limit, or a bad day, leaves of it.
    pub(super) fn half(&self) -> String {
        let whole = self.answer();
        whole.chars().take(whole.chars().count() / 2).collect()
    }

    /// How many tokens the prompt had, the thoughts, and an answer of `text`: about four characters each.
    pub(super) fn tokens(&self, text: &str) -> [u64; 3] {
        let of = |text: &str| u64::try_from(text.chars().count().div_ceil(4)).unwrap_or(u64::MAX);
        [of(&self.said), 16 + self.digest.0 % 32, of(text)]
    }
}

/// The texts in an input, in order.
fn said(input: &Value) -> String {
    match input {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(said).collect(),
        Value::Object(fields) => ["text", "content", "parts"].iter().filter_map(|k| fields.get(*k)).map(said).collect(),
        _ => String::new(),
    }
}

/// `response_format` is an object or an array of them; its older form is the schema itself beside a
/// `response_mime_type` (gemini-api, section 1.2).
fn asked_of_interaction(body: &Value) -> Option<Value> {
    let json = json!("application/json");
    let mime = body.get("response_mime_type") == Some(&json);
    let formats = match body.get("response_format") {
        Some(Value::Array(formats)) => formats.as_slice(),
        Some(format) => std::slice::from_ref(format),
        None => return mime.then(|| json!({})),
    };
    formats.iter().find_map(|format| match (format.get("schema"), format.get("mime_type")) {
        (Some(schema), _) => Some(schema.clone()),
        (None, Some(mime)) => (mime == &json).then(|| json!({})),
        (None, None) => mime.then(|| format.clone()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_python() {
        // python3 -c 'import hashlib,json; print(hashlib.sha256(json.dumps(X,sort_keys=True,ensure_ascii=False).encode()).hexdigest()[:16])'
        let digest = |input| Digest::of(&input).to_string();
        assert_eq!(digest(json!("hello")), "5aa762ae383fbb72");
        assert_eq!(digest(json!("記事\n\"a\" \u{1} \u{7f} 😀")), "72a459ba77df2c04");
        assert_eq!(
            digest(json!([{"type": "text", "text": "a"}, {"n": [1, 2.5, null, true], "é": {}}])),
            "824beb9144520ae0"
        );
    }

    #[test]
    fn text_says_digest_and_the_beginning() {
        let question = Question::of_interaction(&json!({"input": "あ".repeat(61)}));
        assert_eq!(question.answer(), format!("sim {}: {}", question.digest, "あ".repeat(60)));
        assert!(!question.wants_json());
        let parts = Question::of_interaction(&json!({"input": [{"type": "text", "text": "a"}, {"type": "image"}]}));
        assert!(parts.answer().ends_with(": a"));
        let steps = json!([{"type": "user_input", "content": [{"type": "text", "text": "b"}]}]);
        assert!(Question::of_interaction(&json!({"input": steps})).answer().ends_with(": b"));
    }

    #[test]
    fn json_is_asked_for_in_many_ways() {
        let schema = json!({"type": "object"});
        let asked = |fields: Value| {
            let mut body = fields;
            body["input"] = json!("x");
            Question::of_interaction(&body).schema
        };
        let format = json!({"type": "text", "mime_type": "application/json", "schema": schema});
        assert_eq!(asked(json!({"response_format": format})), Some(schema.clone()));
        assert_eq!(asked(json!({"response_format": [{"type": "audio"}, format]})), Some(schema.clone()));
        let old = json!({"response_format": schema, "response_mime_type": "application/json"});
        assert_eq!(asked(old), Some(schema.clone()));
        assert_eq!(asked(json!({"response_format": {"mime_type": "application/json"}})), Some(json!({})));
        assert_eq!(asked(json!({"response_format": {"type": "text"}})), None);
        assert_eq!(asked(json!({"response_format": {"mime_type": "text/plain"}})), None);
        let config = json!({"contents": [], "generationConfig": {"responseSchema": schema}});
        assert_eq!(Question::of_contents(&config).schema, Some(schema));
    }
}
