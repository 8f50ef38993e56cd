//! Refusals that only a person can mend: the key, and billing. They concern every job alike, so none is condemned.

use super::super::failure::Failure;
use super::{Meaning, words};

/// Words of `ErrorInfo` about the key and its project; those of the oldest dialect at the end.
const KEY_REASONS: [&str; 7] = [
    "CONSUMER_SUSPENDED",
    "CONSUMER_INVALID",
    "SERVICE_DISABLED",
    "CREDENTIALS_MISSING",
    "ACCESSNOTCONFIGURED",
    "KEYINVALID",
    "KEYEXPIRED",
];

/// Gemini's sentences about a key that it refuses, in lower case; the last is the answer to no key at all.
const KEY_TEXTS: [&str; 8] = [
    "api key not valid",
    "api key expired",
    "api key not found",
    "api key is missing",
    "api key was reported as leaked",
    "api_key_invalid",
    "has not been used in project",
    "unregistered callers",
];

/// What a person must mend, if that is what a refusal with a 4xx says.
pub(super) fn operator(meaning: &Meaning, failure: &Failure) -> Option<&'static str> {
    match meaning.http() {
        Some(401) => return Some("operator:key"),
        Some(402) => return Some("operator:billing"),
        Some(400 | 403) => {}
        _ => return None,
    }
    let reason = |is: fn(&str) -> bool| failure.reasons.iter().any(|reason| is(&words::normal(reason)));
    let text = failure.message.to_lowercase();
    if reason(is_key) || KEY_TEXTS.iter().any(|sentence| text.contains(sentence)) {
        return Some("operator:key");
    }
    let precondition = matches!(meaning, Meaning::Named(named) if named.grpc == Some(9))
        && (text.contains("billing") || text.contains("free tier"));
    let anywhere = text.contains("location is not supported") || text.contains("requires billing to be enabled");
    (reason(is_billing) || precondition || anywhere).then_some("operator:billing")
}

fn is_key(reason: &str) -> bool {
    reason.starts_with("API_KEY_") || reason.starts_with("ACCESS_TOKEN_") || KEY_REASONS.contains(&reason)
}

fn is_billing(reason: &str) -> bool {
    reason.starts_with("BILLING_")
}
