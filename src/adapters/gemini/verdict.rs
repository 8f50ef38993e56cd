//! What an answer, or its absence, says about the remote side (the table in the module's page).

use std::time::Duration;

use reqwest::StatusCode;

use super::answer::{Answer, End, reason};
use super::key::{ApiKey, mask};
use crate::domain::failure::Failure;
use crate::domain::interaction::Interaction;
use crate::domain::job::{MESSAGE_BYTES, clip};
use crate::ports::gemini::{CreateError, ReadError};

/// Judges the answer to a create.
pub(super) fn of_create(answer: &Answer, keys: &[ApiKey]) -> Result<Interaction, CreateError> {
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

/// Judges the answer to a look or a cancel.
pub(super) fn of_read(answer: &Answer, keys: &[ApiKey]) -> Result<Interaction, ReadError> {
    let status = answer.status;
    if status.is_success() {
        return read(answer, keys).map_err(|unread| match unread {
            Unread::TooLong(limit) => ReadError::TooLong(limit),
            other => ReadError::NoAnswer(other.text(status)),
        });
    }
    if status.is_client_error() || status.is_server_error() {
        return Err(ReadError::Refused(Box::new(failure(answer, keys))));
    }
    Err(ReadError::NoAnswer(not_final(status)))
}

/// Judges a create that was not answered.
pub(super) fn of_silent_create(error: reqwest::Error, timeout: Duration, keys: &[ApiKey]) -> CreateError {
    // Certain in two cases only: there was no connection that the request could have gone over, or there was no
    // request. Everything else may have happened after its first byte.
    let unsent = error.is_connect() || error.is_builder();
    let text = silence(error, timeout, keys);
    if unsent { CreateError::NotSent(text) } else { CreateError::Unclear(text) }
}

/// Judges a look or a cancel that was not answered.
pub(super) fn of_silent_read(error: reqwest::Error, timeout: Duration, keys: &[ApiKey]) -> ReadError {
    ReadError::NoAnswer(silence(error, timeout, keys))
}

/// Why a success could not be read.
enum Unread {
    TooLong(u64),
    Broken(String),
    NoInteraction(String),
}

impl Unread {
    fn text(self, status: StatusCode) -> String {
        let status = status.as_u16();
        let text = match self {
            Self::TooLong(limit) => format!("HTTP {status} with more than {limit} bytes"),
            Self::Broken(why) => format!("HTTP {status}, then the answer broke off: {why}"),
            Self::NoInteraction(why) => format!("HTTP {status} with something that is no interaction: {why}"),
        };
        clip(&text, MESSAGE_BYTES)
    }
}

fn read(answer: &Answer, keys: &[ApiKey]) -> Result<Interaction, Unread> {
    match &answer.end {
        End::TooLong(limit) => Err(Unread::TooLong(*limit)),
        End::Broken(why) => Err(Unread::Broken(mask(why, keys).into_owned())),
        End::Whole => {
            Interaction::parse(&answer.body).map_err(|why| Unread::NoInteraction(mask(&why, keys).into_owned()))
        }
    }
}

/// The failure in an error's body, as far as the body came: the status alone is a definite answer.
fn failure(answer: &Answer, keys: &[ApiKey]) -> Failure {
    let body = String::from_utf8_lossy(&answer.body);
    let body = mask(&body, keys);
    Failure::from_http(answer.status.as_u16(), answer.retry_after.as_deref(), body.as_bytes())
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
