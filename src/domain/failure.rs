//! A failure in Gemini's words, whichever dialect it speaks (design, section 6).

use std::time::Duration;

use serde_json::{Map, Value};

use super::mask::clean;

/// Characters kept of a message: a refused batch says a sentence on each of its lines that is wrong.
const MESSAGE_CHARS: usize = 2_000_000;
/// Characters kept of a code word, a status, a reason or a quota id.
const WORD_CHARS: usize = 120;
/// Reasons and quota ids kept of one failure.
const WORDS: usize = 16;
/// Characters of [`Failure::summary`].
const SUMMARY_CHARS: usize = 400;
/// Bytes of a body that is no JSON that are looked at.
const BODY_BYTES: usize = 16_384;
/// How deep an error may be wrapped in others, or details in details, before it is left alone.
const DEPTH: u8 = 8;

/// An error code as it came: both dialects and gRPC numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Code {
    /// 1 to 16 are gRPC's, 100 and more are HTTP's.
    Number(i64),
    /// `rate_limit_exceeded`, `INVALID_ARGUMENT`, …
    Word(String),
}

/// Everything that is known about a failure. Text that is read from an answer is bounded, and what looks like
/// an API key in it is masked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Failure {
    /// Status of the HTTP answer that carried it, when that was an error.
    pub http: Option<u16>,
    /// `error.code`.
    pub code: Option<Code>,
    /// `error.status`.
    pub status: Option<String>,
    /// `error.message`, or the beginning of a body that is no JSON.
    pub message: String,
    /// `reason` of each `google.rpc.ErrorInfo` in the details.
    pub reasons: Vec<String>,
    /// `quotaId` of each violation of each `google.rpc.QuotaFailure`.
    pub quota_ids: Vec<String>,
    /// `google.rpc.RetryInfo`, else the header `Retry-After`.
    pub retry_after: Option<Duration>,
    /// Why a candidate ended.
    pub finish_reason: Option<String>,
    /// Why a prompt was blocked.
    pub block_reason: Option<String>,
}

impl Failure {
    /// Reads an HTTP error: any body, JSON of either dialect, wrapped in an array or not, HTML or nothing.
    ///
    /// Of the header `Retry-After` only seconds are read. An HTTP date says nothing here: a wait could be made of it
    /// only with a clock, and the caller's own back-off does as well. `RetryInfo` in the body goes before the header.
    #[must_use]
    pub fn from_http(status: u16, retry_after: Option<&str>, body: &[u8]) -> Self {
        let mut failure = serde_json::from_slice(body).map_or_else(|_| Self::default(), |json| Self::from_error(&json));
        if failure == Self::default() {
            let start = body.get(..BODY_BYTES).unwrap_or(body);
            failure.message = clean(String::from_utf8_lossy(start).trim(), MESSAGE_CHARS);
        }
        failure.http = Some(status);
        failure.retry_after = failure.retry_after.or_else(|| retry_after.and_then(|header| seconds(header.trim())));
        failure
    }

    /// Reads the `error` object of a row, an operation, a step or an entry of `errors`. Something that says nothing
    /// gives [`Failure::default`].
    #[must_use]
    pub fn from_error(error: &Value) -> Self {
        Self::unwrap_error(error, DEPTH)
    }

    /// One line for people: status, code, reasons and message, at most 400 characters, keys masked.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut parts: Vec<String> = self.http.map(|http| format!("HTTP {http}")).into_iter().collect();
        match &self.code {
            Some(Code::Number(number)) if self.http.is_none_or(|http| i64::from(http) != *number) => {
                parts.push(format!("code {number}"));
            }
            Some(Code::Word(word)) => parts.push(word.clone()),
            _ => {}
        }
        parts.extend(self.status.clone());
        parts.extend(self.block_reason.as_ref().map(|reason| format!("block reason {reason}")));
        parts.extend(self.finish_reason.as_ref().map(|reason| format!("finish reason {reason}")));
        if !self.reasons.is_empty() {
            parts.push(format!("({})", self.reasons.join(", ")));
        }
        let message = if parts.is_empty() && self.message.is_empty() { "no reason given" } else { &self.message };
        let line = match (parts.is_empty(), message.is_empty()) {
            (true, _) => message.to_owned(),
            (false, true) => parts.join(" "),
            (false, false) => format!("{}: {message}", parts.join(" ")),
        };
        let line: Vec<&str> =
            line.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()).collect();
        clean(&line.join(" "), SUMMARY_CHARS)
    }

    /// The error inside whatever wraps it: an array, an object with `error`, a string.
    fn unwrap_error(error: &Value, depth: u8) -> Self {
        let Some(depth) = depth.checked_sub(1) else { return Self::default() };
        match error {
            Value::String(text) => Self { message: clean(text.trim(), MESSAGE_CHARS), ..Self::default() },
            Value::Array(entries) => entries
                .iter()
                .map(|entry| Self::unwrap_error(entry, depth))
                .find(|failure| *failure != Self::default())
                .unwrap_or_default(),
            Value::Object(object) => {
                let inner = object.get("error").map(|inner| Self::unwrap_error(inner, depth));
                inner.filter(|inner| *inner != Self::default()).unwrap_or_else(|| Self::read(object, depth))
            }
            _ => Self::default(),
        }
    }

    /// The fields of an error object, each read for itself.
    fn read(error: &Map<String, Value>, depth: u8) -> Self {
        let mut failure = Self { code: error.get("code").and_then(code), ..Self::default() };
        match error.get("status") {
            Some(Value::String(status)) => failure.status = Some(word(status)).filter(|status| !status.is_empty()),
            // Some gateways put the HTTP number here.
            Some(number @ Value::Number(_)) => failure.code = failure.code.or_else(|| code(number)),
            _ => {}
        }
        for details in ["details", "errors"].iter().filter_map(|name| error.get(*name)) {
            failure.read_details(details, DEPTH);
        }
        match error.get("message") {
            Some(Value::String(message)) => failure.read_message(message, depth),
            None | Some(Value::Null) => {}
            Some(other) => failure.message = clean(&other.to_string(), MESSAGE_CHARS),
        }
        failure
    }

    /// A message is text, or (seen where one Google service passes on another's answer) a whole error body as text,
    /// which then adds what the outer one leaves out.
    fn read_message(&mut self, message: &str, depth: u8) {
        let message = message.trim();
        self.message = clean(message, MESSAGE_CHARS);
        if !message.starts_with(['{', '[']) {
            return;
        }
        let Ok(json) = serde_json::from_str::<Value>(message) else { return };
        let inner = Self::unwrap_error(&json, depth);
        if inner == Self::default() {
            return;
        }
        if !inner.message.is_empty() {
            self.message = inner.message;
        }
        self.code = self.code.take().or(inner.code);
        self.status = self.status.take().or(inner.status);
        self.retry_after = self.retry_after.or(inner.retry_after);
        self.reasons.extend(inner.reasons);
        self.quota_ids.extend(inner.quota_ids);
    }

    /// Finds what counts in details of whatever shape: by the name of the field, so that a missing `@type` or
    /// another nesting doesn't hide it.
    fn read_details(&mut self, details: &Value, depth: u8) {
        let Some(depth) = depth.checked_sub(1) else { return };
        match details {
            Value::Array(entries) => entries.iter().for_each(|entry| self.read_details(entry, depth)),
            Value::Object(detail) => {
                let delay = detail.get("retryDelay").or_else(|| detail.get("retry_delay"));
                self.retry_after = self.retry_after.or_else(|| delay.and_then(duration));
                if let Some(Value::String(id)) = detail.get("quotaId").or_else(|| detail.get("quota_id")) {
                    keep(&mut self.quota_ids, id);
                }
                if let Some(Value::String(reason)) = detail.get("reason").filter(|_| is_error_info(detail)) {
                    keep(&mut self.reasons, reason);
                }
                detail.values().for_each(|value| self.read_details(value, depth));
            }
            _ => {}
        }
    }
}

/// Other details have a `reason` too (a field violation); `ErrorInfo`, and an entry of the oldest dialect's
/// `errors`, also have a `domain`.
fn is_error_info(detail: &Map<String, Value>) -> bool {
    match detail.get("@type") {
        Some(Value::String(kind)) => kind.ends_with("ErrorInfo"),
        _ => detail.contains_key("domain"),
    }
}

fn keep(words: &mut Vec<String>, new: &str) {
    let new = word(new);
    if words.len() < WORDS && !new.is_empty() && !words.contains(&new) {
        words.push(new);
    }
}

fn word(text: &str) -> String {
    clean(text.trim(), WORD_CHARS)
}

/// A code: a number, also as a string or with a fraction of zero; else a word. Zero is kept, and says nothing.
fn code(value: &Value) -> Option<Code> {
    match value {
        Value::Number(number) => {
            let whole =
                number.as_i64().or_else(|| number.to_string().strip_suffix(".0").and_then(|text| text.parse().ok()));
            whole.map(Code::Number)
        }
        Value::String(text) => {
            let text = word(text);
            text.parse().map(Code::Number).ok().or_else(|| (!text.is_empty()).then_some(Code::Word(text)))
        }
        _ => None,
    }
}

/// A `google.protobuf.Duration`: `"19s"`, `"45.25s"`, or `{"seconds": "19", "nanos": 250000000}`; plain seconds too.
fn duration(value: &Value) -> Option<Duration> {
    match value {
        Value::String(text) => seconds(text.trim().strip_suffix('s').unwrap_or(text)),
        Value::Number(number) => seconds(&number.to_string()),
        Value::Object(parts) => {
            let part = |name: &str| match parts.get(name) {
                Some(Value::String(text)) => text.parse::<u64>().ok(),
                other => other.and_then(Value::as_u64),
            };
            let (whole, nanos) = (part("seconds"), part("nanos"));
            whole.or(nanos)?;
            Some(Duration::from_secs(whole.unwrap_or(0)).saturating_add(Duration::from_nanos(nanos.unwrap_or(0))))
        }
        _ => None,
    }
}

/// Seconds in plain decimals, not negative.
fn seconds(text: &str) -> Option<Duration> {
    if text.is_empty() || !text.chars().all(|c| c.is_ascii_digit() || c == '.') {
        return None;
    }
    text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
}

#[cfg(test)]
mod tests;
