//! The lines of an intake: its header, and jobs (design, section 4).

use std::time::Duration;

use serde_json::value::RawValue;

use super::job::{JobKey, Mode};

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
    /// How long one attempt may take.
    pub deadline: Option<Duration>,
    /// Attempts a job may use.
    pub max_attempts: Option<u32>,
    /// Fields for every line that doesn't set them itself, as written.
    pub request: Vec<(String, Box<RawValue>)>,
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineError {
    /// `bad_line:utf8`, `bad_line:json`, `bad_line:field`, …
    pub class: &'static str,
    /// What is wrong, naming the field or the column.
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
    /// The model or agent it names; none: the default model.
    pub target: Option<String>,
    /// The create call's fields as written, without the program's own.
    pub request: Vec<(String, Box<RawValue>)>,
    /// What its answer must be, as written.
    pub expect: Option<Box<RawValue>>,
    /// Fields that count for the key and are not sent.
    pub unsent: Vec<String>,
}

impl JobLine {
    /// The body of the create call: the line's fields, `model` where none is named, `background`, `store`, and
    /// the label `gleaner` with the key.
    #[must_use]
    pub fn create_body(&self, default_model: &str) -> Vec<u8> {
        unimplemented!("{default_model}")
    }
}

/// Reads the first line of an intake that is not blank: its header, or none when it is a line like any other.
///
/// # Errors
/// An object whose only field is `gleaner` but whose options can't be read. The whole intake is refused for it,
/// since every line would be understood wrongly.
pub fn parse_header(line: &[u8]) -> Result<Option<Header>, LineError> {
    unimplemented!("{line:?}")
}

/// Reads a line after the header (without its line ending; a BOM before the first one is taken off by the caller).
/// None: a blank line.
///
/// # Errors
/// A line that no job can be made of.
pub fn parse_line(line: &[u8], header: &Header) -> Result<Option<JobLine>, LineError> {
    unimplemented!("{line:?} {header:?}")
}
impl JobLine {
    /// The request as one value.
    #[must_use]
    pub fn request_value(&self) -> serde_json::Value {
        unimplemented!()
    }
}
