//! What an answer, or its absence, says about the remote side (the table in the module's page).

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::RETRY_AFTER;
use serde_json::Value;
use serde_json::value::RawValue;

use super::answer::{Answer, End, reason};
use super::key::{ApiKey, mask};
use crate::domain::batch::{Batch, Page};
use crate::domain::failure::Failure;
use crate::domain::interaction::Interaction;
use crate::domain::job::{MESSAGE_BYTES, clip};
use crate::ports::gemini::{CallError, CreateError, ReadError};

/// What a success is read as.
pub(super) trait Parsed: Sized {
    /// What it is called in messages, after "no".
    const WHAT: &'static str;

    /// Reads it, or says in words without the content why it is none.
    fn parse(body: &[u8]) -> Result<Self, String>;
}

impl Parsed for Interaction {
    const WHAT: &'static str = "interaction";

    fn parse(body: &[u8]) -> Result<Self, String> {
        Self::parse(body)
    }
}

impl Parsed for Batch {
    const WHAT: &'static str = "batch job";

    fn parse(body: &[u8]) -> Result<Self, String> {
        Self::parse(body)
    }
}

impl Parsed for Page {
    const WHAT: &'static str = "page of batch jobs";

    fn parse(body: &[u8]) -> Result<Self, String> {
        Self::parse(body)
    }
}

/// The answer to a cancel or a delete: nothing, an empty object, or the job as it then is.
#[derive(Debug)]
pub(super) struct Done;

impl Parsed for Done {
    const WHAT: &'static str = "answer to this request";

    fn parse(body: &[u8]) -> Result<Self, String> {
        if body.trim_ascii().is_empty() {
            return Ok(Self);
        }
        let value: Value = serde_json::from_slice(body).map_err(|error| format!("the answer is no JSON: {error}"))?;
        let object = value.as_object().ok_or("the answer is no JSON object")?;
        match object.get("error").filter(|error| !error.is_null()) {
            // A job that was cancelled at once comes with the error of having been cancelled.
            Some(error) if !object.contains_key("name") => {
                Err(format!("the answer is an error: {}", Failure::from_error(error).summary()))
            }
            _ => Ok(Self),
        }
    }
}

/// Judges the answer to a create.
pub(super) fn of_create<T: Parsed>(answer: &Answer, keys: &[ApiKey]) -> Result<T, CreateError> {
    let status = answer.status;
    if status.is_success() {
        return read(answer, keys).map_err(|unread| CreateError::Unclear(unread.text(status)));
    }
    if !status.is_client_error() && !status.is_server_error() {
        return Err(CreateError::Unclear(not_final(status)));
    }
    let failure = failure(answer, keys);
    // A request that timed out or met a conflict may have been carried out all the same.
    let definite = status.is_client_error() && !matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::CONFLICT);
    if definite {
        Err(CreateError::Refused(Box::new(failure)))
    } else {
        Err(CreateError::Unclear(clip(&failure.summary(), MESSAGE_BYTES)))
    }
}

/// Judges the answer to a plain call.
pub(super) fn of_call(answer: &Answer, keys: &[ApiKey]) -> Result<Box<RawValue>, CallError> {
    let status = answer.status;
    if status.is_client_error() || status.is_server_error() {
        return Err(CallError::Refused(Box::new(failure(answer, keys))));
    }
    if !status.is_success() {
        return Err(CallError::Unclear(not_final(status)));
    }
    let Content(content) = read::<Content>(answer, keys).map_err(|unread| match unread {
        Unread::TooLong(limit) => CallError::TooLong(limit),
        other => CallError::Unclear(other.text(status)),
    })?;
    match error_in(&content) {
        Some(failure) => Err(CallError::Refused(Box::new(failure))),
        None => Ok(content),
    }
}

/// The answer of a model, whatever it holds.
struct Content(Box<RawValue>);

impl Parsed for Content {
    const WHAT: &'static str = "answer of a model";
    fn parse(body: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(body).map(Self).map_err(|error| format!("the answer is no JSON: {error}"))
    }
}

/// The error in an answer that holds one and no candidates.
fn error_in(content: &RawValue) -> Option<Failure> {
    let fields: BTreeMap<String, &RawValue> = serde_json::from_str(content.get()).ok()?;
    let error = fields.get("error").filter(|_| !fields.contains_key("candidates"))?;
    let failure = Failure::from_error(&serde_json::from_str(error.get()).ok()?);
    (failure != Failure::default()).then_some(failure)
}

/// Judges a call that was not answered.
pub(super) fn of_silent_call(error: reqwest::Error, timeout: Duration, keys: &[ApiKey]) -> CallError {
    match of_silent_create(error, timeout, keys) {
        CreateError::NotSent(why) => CallError::NotSent(why),
        CreateError::Refused(failure) => CallError::Refused(failure),
        CreateError::Unclear(why) => CallError::Unclear(why),
    }
}

/// Judges the answer to anything else, which may be asked again.
pub(super) fn of_read<T: Parsed>(answer: &Answer, keys: &[ApiKey]) -> Result<T, ReadError> {
    let status = answer.status;
    if status.is_success() {
        return read(answer, keys).map_err(|unread| unread.error(status));
    }
    Err(no_success(answer, keys))
}

/// What an answer says that is no success.
pub(super) fn no_success(answer: &Answer, keys: &[ApiKey]) -> ReadError {
    let status = answer.status;
    if status.is_client_error() || status.is_server_error() {
        return ReadError::Refused(Box::new(failure(answer, keys)));
    }
    ReadError::NoAnswer(not_final(status))
}

/// The JSON of a success, whatever it is: null for an empty body.
pub(super) fn json(answer: &Answer, keys: &[ApiKey]) -> Result<Value, ReadError> {
    let whole = whole(answer, keys).map_err(|unread| unread.error(answer.status))?;
    if whole.trim_ascii().is_empty() {
        return Ok(Value::Null);
    }
    let text = String::from_utf8_lossy(whole);
    serde_json::from_str(&mask(&text, keys)).map_err(|error| {
        let status = answer.status.as_u16();
        ReadError::NoAnswer(format!("HTTP {status} with something that is no JSON: {error}"))
    })
}

/// Judges a create that was not answered.
pub(super) fn of_silent_create(error: reqwest::Error, timeout: Duration, keys: &[ApiKey]) -> CreateError {
    // Certain in two cases only: there was no connection that the request could have gone over, or there was no
    // request. Everything else may have happened after its first byte.
    let unsent = error.is_connect() || error.is_builder();
    let text = silence(error, timeout, keys);
    if unsent { CreateError::NotSent(text) } else { CreateError::Unclear(text) }
}

/// Judges anything else that was not answered.
pub(super) fn of_silent_read(error: reqwest::Error, timeout: Duration, keys: &[ApiKey]) -> ReadError {
    ReadError::NoAnswer(silence(error, timeout, keys))
}

/// Why a success could not be read.
enum Unread {
    TooLong(u64),
    Broken(String),
    Else(&'static str, String),
}

impl Unread {
    fn error(self, status: StatusCode) -> ReadError {
        match self {
            Self::TooLong(limit) => ReadError::TooLong(limit),
            other => ReadError::NoAnswer(other.text(status)),
        }
    }

    fn text(self, status: StatusCode) -> String {
        let status = status.as_u16();
        let text = match self {
            Self::TooLong(limit) => format!("HTTP {status} with more than {limit} bytes"),
            Self::Broken(why) => format!("HTTP {status}, then the answer broke off: {why}"),
            Self::Else(what, why) => format!("HTTP {status} with something that is no {what}: {why}"),
        };
        clip(&text, MESSAGE_BYTES)
    }
}

fn read<T: Parsed>(answer: &Answer, keys: &[ApiKey]) -> Result<T, Unread> {
    T::parse(whole(answer, keys)?).map_err(|why| Unread::Else(T::WHAT, mask(&why, keys).into_owned()))
}

/// The body, if it came as a whole.
fn whole<'a>(answer: &'a Answer, keys: &[ApiKey]) -> Result<&'a [u8], Unread> {
    match &answer.end {
        End::TooLong(limit) => Err(Unread::TooLong(*limit)),
        End::Broken(why) => Err(Unread::Broken(mask(why, keys).into_owned())),
        End::Whole => Ok(&answer.body),
    }
}

/// The failure in an error's body, as far as the body came: the status alone is a definite answer.
fn failure(answer: &Answer, keys: &[ApiKey]) -> Failure {
    let body = String::from_utf8_lossy(&answer.body);
    let body = mask(&body, keys);
    Failure::from_http(answer.status.as_u16(), answer.header(&RETRY_AFTER), body.as_bytes())
}

fn not_final(status: StatusCode) -> String {
    if status.is_redirection() {
        format!("HTTP {}, a redirect, which is not followed: is GEMINI_BASE_URL right?", status.as_u16())
    } else {
        format!("HTTP {}, which is no final answer", status.as_u16())
    }
}

fn silence(error: reqwest::Error, timeout: Duration, keys: &[ApiKey]) -> String {
    let connecting = error.is_connect();
    let late = error.is_timeout();
    let why = reason(error);
    let text = match (connecting, late) {
        (true, _) => format!("no connection: {why}"),
        (false, true) => format!("no answer within {}: {why}", humantime::format_duration(timeout)),
        (false, false) => format!("the connection broke before an answer: {why}"),
    };
    clip(&mask(&text, keys), MESSAGE_BYTES)
}
