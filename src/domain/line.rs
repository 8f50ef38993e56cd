//! The lines of an intake: its header, and jobs (design, section 4).

mod call;
mod changed_row;
mod fields;
mod header;
mod job;
mod row;

use std::time::Duration;

use serde_json::value::RawValue;
use thiserror::Error;

use super::job::{JobKey, Mode};
use super::json::{self, Fault, Json, JsonError, Member};

pub use changed_row::{changed_row, check_row_changes};
pub use fields::is_label_text;
pub use header::parse_header;
pub use job::parse_line;
pub use row::{ROW_BYTES, ROW_KEY_BYTES, RowLine, agree, parse_row};

/// The label under which a create carries the idempotency key, where Gemini and its billing show it.
pub const KEY_LABEL: &str = "gleaner";

/// The longest line that is taken, in bytes. Gemini takes about 20 MB in one request
/// (<https://ai.google.dev/gemini-api/docs/batch-api>); a longer line is a bad line.
pub const LINE_BYTES: u64 = 20_000_000;

/// The options of an intake's first line, `{"gleaner": {...}}`.
#[derive(Debug, Clone, Default)]
pub struct Header {
    /// Mode for lines that name none.
    pub mode: Option<Mode>,
    /// Model for lines that name none.
    pub model: Option<String>,
    /// What answers must be, for lines that say nothing themselves.
    pub expect: Option<Box<RawValue>>,
    /// How long one attempt may take; at least a second.
    pub deadline: Option<Duration>,
    /// Attempts a job may use; 1 to 100.
    pub max_attempts: Option<u32>,
    /// Fields for every line that doesn't set them itself, as written.
    pub request: Vec<(String, Box<RawValue>)>,
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct LineError {
    /// `bad_line:utf8`, `bad_line:json`, `bad_line:duplicate_name`, `bad_line:number`, `bad_line:not_an_object`,
    /// `bad_line:field`, `bad_line:row`, `bad_line:header`, `bad_line:too_long`,
    /// `bad_line:repeated_key`.
    pub class: &'static str,
    /// What is wrong, naming the field or the column (from 1, in characters). It quotes at most a few dozen
    /// characters of the line.
    pub message: String,
}

/// A line that is a job.
#[derive(Debug, Clone)]
pub struct JobLine {
    /// Its idempotency key.
    pub key: JobKey,
    /// Digest of its whole content, header options merged in: 32 hex digits.
    pub content: String,
    /// Its mode.
    pub mode: Mode,
    /// The model or agent it names; none: the default model. A plain call has no agent.
    pub target: Option<String>,
    /// The create call's fields as written, without the program's own; of a plain call, generateContent's fields as they are
    /// sent.
    pub request: Vec<(String, Box<RawValue>)>,
    /// What its answer must be, as written.
    pub expect: Option<Box<RawValue>>,
    /// Fields that count for the key and are not sent.
    pub unsent: Vec<String>,
}

impl From<JsonError> for LineError {
    fn from(error: JsonError) -> Self {
        let class = match error.fault {
            Fault::Utf8 => "bad_line:utf8",
            Fault::Syntax => "bad_line:json",
            Fault::DuplicateName => "bad_line:duplicate_name",
            Fault::Number => "bad_line:number",
        };
        Self { class, message: error.to_string() }
    }
}

/// The line as text, if it is short enough and UTF-8.
fn text_of(line: &[u8]) -> Result<&str, LineError> {
    let bytes = line.len() as u64;
    if bytes > LINE_BYTES {
        let message = format!("the line is {bytes} bytes long; at most {LINE_BYTES} are taken");
        return Err(LineError { class: "bad_line:too_long", message });
    }
    Ok(json::text_of(line)?)
}

/// A value's text as a raw value of its own.
fn raw(text: &str) -> Result<Box<RawValue>, LineError> {
    // It was cut out of checked JSON, so an error here would be a fault of this program; it is told all the same.
    RawValue::from_string(text.to_owned())
        .map_err(|error| LineError { class: "bad_line:json", message: format!("not JSON: {error}") })
}

/// The member of that name.
fn member<'m, 'a>(members: &'m [Member<'a>], name: &str) -> Option<&'m Member<'a>> {
    members.iter().find(|member| member.name == name)
}

/// The members of an object, or the kind of what is no object.
fn members_of(value: Json<'_>) -> Result<Vec<Member<'_>>, &'static str> {
    match value {
        Json::Object(members) => Ok(members),
        other => Err(other.kind()),
    }
}

#[cfg(test)]
mod any_bytes;
#[cfg(test)]
mod tests;
