//! An event: what is said of the end of a piece of work.

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value};

use super::super::faults::hash;
use crate::domain::time::Millis;

/// The events that a webhook can subscribe to. The SDK's list lacks the cancelled ones; the documentation has them.
pub(super) const KINDS: &[&str] = &[
    "batch.succeeded",
    "batch.cancelled",
    "batch.expired",
    "batch.failed",
    "interaction.completed",
    "interaction.failed",
    "interaction.requires_action",
    "interaction.cancelled",
    "video.generated",
];

/// What an event is about.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(in super::super) struct Data {
    /// The id of an interaction; the name of a batch, `batches/…`.
    pub(in super::super) id: String,
    /// The output of a batch that has one in a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in super::super) output_file_uri: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in super::super) error_code: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in super::super) error_message: Option<Value>,
}

/// How a piece of work ended.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) struct End {
    /// The event's type. None where no event is documented.
    pub(in super::super) kind: Option<&'static str>,
    pub(in super::super) data: Data,
}

/// An event as it is sent, however often.
#[derive(Debug)]
pub(super) struct Event {
    /// `msg_` and a UUID, the same in every try.
    pub(super) id: String,
    pub(super) kind: &'static str,
    /// What it is about: the `id` of its data, or of the webhook that a ping goes to.
    pub(super) about: String,
    pub(super) body: Bytes,
}

#[derive(Debug, Serialize)]
struct Body<'a> {
    r#type: &'a str,
    version: &'a str,
    timestamp: String,
    data: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_metadata: Option<&'a Map<String, Value>>,
}

impl Event {
    /// Writes the body down, once and for all.
    pub(super) fn new(
        id: String,
        kind: &'static str,
        (about, data): (String, Value),
        user_metadata: Option<&Map<String, Value>>,
        now: Millis,
    ) -> serde_json::Result<Self> {
        // Where `user_metadata` sits is not documented; at the top is where the field's description suggests.
        let body = Body { r#type: kind, version: "v1", timestamp: now.to_string(), data, user_metadata };
        Ok(Self { id, kind, about, body: serde_json::to_vec(&body)?.into() })
    }
}

/// The form that was seen on live events: `msg_` and a UUID.
pub(super) fn new_id(seed: u64, what: &str, subject: u64, tries: &[u64]) -> String {
    let word = |part: &str| hash(seed, &format!("{what}/{part}"), subject, tries);
    let hex = format!("{:016x}{:016x}", word("first"), word("second"));
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    format!("msg_{}-{}-4{}-8{}-{}", part(0, 8), part(8, 12), part(13, 16), part(17, 20), part(20, 32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_body_is_as_documented() {
        let data = Data {
            id: "batches/a".into(),
            output_file_uri: Some("files/batch-a".into()),
            error_code: None,
            error_message: None,
        };
        let metadata = json!({"key": "k"});
        let at = Millis(1_764_000_000_999);
        let about = || ("batches/a".to_owned(), json!(data));
        let event = Event::new("msg_x".into(), "batch.succeeded", about(), metadata.as_object(), at).unwrap();
        assert_eq!(
            std::str::from_utf8(&event.body).unwrap(),
            r#"{"type":"batch.succeeded","version":"v1","timestamp":"2025-11-24T16:00:00Z","data":{"id":"batches/a","output_file_uri":"files/batch-a"},"user_metadata":{"key":"k"}}"#
        );
    }

    #[test]
    fn ids_differ_and_have_the_form_of_a_uuid() {
        let ids: std::collections::BTreeSet<_> = (0..100).map(|n| new_id(1, "event/", 5, &[n])).collect();
        assert_eq!(ids.len(), 100);
        assert!(ids.iter().all(|id| id.len() == 40 && id.starts_with("msg_") && id.split('-').count() == 5));
    }
}
