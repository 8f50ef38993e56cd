//! What a token says about the request that it came with. Which claims Gemini makes is not documented, so that every
//! one that plainly speaks of the body or of the delivery must be true, and others say nothing.

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::domain::webhook::request::Refusal;
use crate::domain::webhook::signature::from_base64;

/// Names of claims that hold a SHA-256 of the body, without marks between their words and in small letters.
const DIGESTS: [&str; 13] = [
    "bodysha256",
    "payloadsha256",
    "contentsha256",
    "requestbodysha256",
    "sha256",
    "bodyhash",
    "payloadhash",
    "contenthash",
    "requestbodyhash",
    "bodydigest",
    "payloaddigest",
    "contentdigest",
    "digest",
];

/// Names of claims that hold the whole event, if they hold an object.
const EVENTS: [&str; 4] = ["event", "payload", "body", "webhook"];

/// Names of claims and members that hold the event's type, if they look like one.
const TYPES: [&str; 3] = ["type", "event", "eventtype"];

/// Names of claims that hold the delivery's id.
const IDS: [&str; 3] = ["webhookid", "messageid", "msgid"];

/// Begins the ids of Standard Webhooks.
const MESSAGE: &str = "msg_";

/// Checks what `claims` say of the body, and of the header `webhook-id` if it is there.
///
/// # Errors
/// A token that was made for another body or delivery.
pub(super) fn check(claims: &Map<String, Value>, body: &[u8], id: Option<&str>) -> Result<(), Refusal> {
    let is_true = |(name, claim): (&String, &Value)| {
        let name = plain(name);
        let is = |names: &[&str]| names.contains(&name.as_str());
        (!is(&DIGESTS) || is_digest(claim, body))
            && (!is(&IDS) || names_delivery(claim, id))
            && (name != "jti" || !claim.as_str().is_some_and(is_message) || names_delivery(claim, id))
    };
    if claims.iter().all(is_true) && speaks_of(claims, body) {
        Ok(())
    } else {
        Err(Refusal::Unsigned("the token was made for another request".to_owned()))
    }
}

/// A name without marks between its words, and in small letters.
fn plain(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '_' | '-' | '.')).map(|c| c.to_ascii_lowercase()).collect()
}

/// A digest in hex or base64, with the name of its algorithm before it or not. What can't be read is none: it may be of
/// another kind, but then nobody has checked the body.
fn is_digest(claim: &Value, body: &[u8]) -> bool {
    let Some(text) = claim.as_str() else { return false };
    let text =
        ["sha256", "sha-256", "SHA256", "SHA-256"].iter().find_map(|name| text.strip_prefix(name)).unwrap_or(text);
    let text = text.strip_prefix(['=', ':', '-']).unwrap_or(text);
    // Structured fields (RFC 8941) have colons around bytes.
    let text = text.strip_prefix(':').and_then(|rest| rest.strip_suffix(':')).unwrap_or(text);
    let digest = Sha256::digest(body);
    let is = |bytes: Vec<u8>| bytes == digest.as_slice();
    hex::decode(text).is_ok_and(is) || from_base64(text).is_some_and(is)
}

fn is_message(id: &str) -> bool {
    id.starts_with(MESSAGE)
}

/// Whether the claim is the header's value. Without the header there is nothing to compare; neither is there when the
/// header's value is of another form.
fn names_delivery(claim: &Value, id: Option<&str>) -> bool {
    match (claim.as_str(), id) {
        (Some(claim), Some(id)) => claim == id || is_message(claim) != is_message(id),
        _ => true,
    }
}

/// Whether the parts of an event that are among the claims are in the body too.
fn speaks_of(claims: &Map<String, Value>, body: &[u8]) -> bool {
    let parts: Vec<_> = claims.iter().filter_map(|(name, claim)| part(&plain(name), claim)).collect();
    if parts.is_empty() {
        return true;
    }
    let Ok(Value::Object(body)) = serde_json::from_slice::<Value>(body) else { return false };
    parts.into_iter().all(|part| match part {
        Part::Event(event) => event.iter().all(|(name, claim)| body.get(name).is_some_and(|own| holds(own, claim))),
        Part::Member(name, claim) => body.iter().any(|(own_name, own)| plain(own_name) == name && holds(own, claim)),
    })
}

/// A part of an event among the claims.
enum Part<'a> {
    Event(&'a Map<String, Value>),
    /// A member of that name, written without marks.
    Member(&'static str, &'a Value),
}

fn part<'a>(name: &str, claim: &'a Value) -> Option<Part<'a>> {
    match claim {
        Value::Object(event) if EVENTS.contains(&name) => Some(Part::Event(event)),
        Value::Object(_) if name == "data" => Some(Part::Member("data", claim)),
        Value::Object(_) if name == "usermetadata" => Some(Part::Member("usermetadata", claim)),
        // `type` may just as well be `JWT`.
        Value::String(text) if TYPES.contains(&name) && text.contains('.') => Some(Part::Member("type", claim)),
        _ => None,
    }
}

/// Whether all that the claim says is in the body's own value. A batch may be named with its prefix or without.
fn holds(own: &Value, claim: &Value) -> bool {
    match (own, claim) {
        (Value::Object(own), Value::Object(claim)) => {
            claim.iter().all(|(name, claim)| own.get(name).is_some_and(|own| holds(own, claim)))
        }
        (Value::String(own), Value::String(claim)) => bare(own) == bare(claim),
        _ => own == claim,
    }
}

fn bare(text: &str) -> &str {
    text.strip_prefix("batches/").unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
    use serde_json::json;

    use super::*;

    const BODY: &str = r#"{"type": "batch.succeeded", "version": "v1", "data": {"id": "batches/a", "n": 1},
        "user_metadata": {"key": "k", "nonce": "n"}}"#;

    fn is_bound(claims: Value, id: Option<&str>) -> bool {
        check(claims.as_object().unwrap(), BODY.as_bytes(), id).is_ok()
    }

    #[test]
    fn a_digest_of_the_body_must_be_its_own_however_it_is_written() {
        let digest = Sha256::digest(BODY);
        let (hex, base64) = (hex::encode(digest), STANDARD.encode(digest));
        let for_urls = URL_SAFE_NO_PAD.encode(digest);
        let upper = hex.to_uppercase();
        for name in ["body_sha256", "bodySha256", "sha256", "SHA-256", "payload_hash", "digest", "body-digest"] {
            for text in [
                hex.clone(),
                upper.clone(),
                base64.clone(),
                for_urls.clone(),
                format!("sha256={hex}"),
                format!("SHA-256={base64}"),
                format!("sha-256=:{base64}:"),
                format!("sha256:{hex}"),
                format!("sha256-{base64}"),
            ] {
                assert!(is_bound(json!({name: text}), None), "{name} {text}");
            }
            let other = hex::encode(Sha256::digest("other"));
            for text in [json!(other), json!(""), json!("sha256="), json!("text"), json!(1), json!(null), json!([hex])]
            {
                assert!(!is_bound(json!({name: text}), None), "{name} {text}");
            }
        }
        assert!(!is_bound(json!({"sha256": hex, "bodyHash": "other"}), None));
        // Claims that only sound like it.
        assert!(is_bound(json!({"at_hash": "x", "c_hash": "x", "hashes": 1}), None));
    }

    #[test]
    fn parts_of_the_event_must_be_those_of_the_body() {
        for claims in [
            json!({"type": "JWT", "event": "ping", "data": "text", "payload": 1, "sub": "batches/b", "version": "v2"}),
            json!({"type": "batch.succeeded"}),
            json!({"event_type": "batch.succeeded", "data": {"id": "a"}}),
            json!({"data": {"id": "batches/a", "n": 1}}),
            json!({"data": {}}),
            json!({"userMetadata": {"nonce": "n"}}),
            json!({"event": {"type": "batch.succeeded", "data": {"id": "a"}}}),
        ] {
            assert!(is_bound(claims.clone(), None), "{claims}");
        }
        for claims in [
            json!({"type": "batch.failed"}),
            json!({"event": "interaction.completed"}),
            json!({"event_type": "batch.failed"}),
            json!({"data": {"id": "b"}}),
            json!({"data": {"id": "a", "m": 1}}),
            json!({"data": {"id": ["a"]}}),
            json!({"data": {"n": 2}}),
            json!({"user_metadata": {"nonce": "m"}}),
            json!({"payload": {"type": "batch.failed"}}),
            json!({"body": {"data": {"id": "b"}}}),
        ] {
            assert!(!is_bound(claims.clone(), None), "{claims}");
        }
        let claims = json!({"data": {"id": "a"}});
        for body in ["", "[]", "null", "{}", "\u{0}", r#"{"data": []}"#] {
            assert!(check(claims.as_object().unwrap(), body.as_bytes(), None).is_err(), "{body}");
        }
        assert!(check(&Map::new(), b"anything", None).is_ok(), "a token need not speak of the body");
    }

    #[test]
    fn the_id_of_the_delivery_must_be_the_one_of_the_header() {
        for (claims, id, good) in [
            (json!({"webhook_id": "msg_a"}), Some("msg_a"), true),
            (json!({"webhook_id": "msg_a"}), Some("msg_b"), false),
            (json!({"webhook-id": "a"}), Some("b"), false),
            (json!({"webhook_id": "msg_a"}), None, true),
            // The id of the registered webhook, say.
            (json!({"webhook_id": "projects-1"}), Some("msg_b"), true),
            (json!({"jti": "msg_a"}), Some("msg_a"), true),
            (json!({"jti": "msg_a"}), Some("msg_b"), false),
            (json!({"jti": "8d3f"}), Some("msg_b"), true),
            (json!({"jti": "8d3f"}), Some("9e4a"), true),
        ] {
            assert_eq!(is_bound(claims.clone(), id), good, "{claims} {id:?}");
        }
    }
}
