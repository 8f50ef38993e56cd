//! JSON as Python prints it: the canonical form behind idempotency keys (design, section 3).
//!
//! [`Json::parse`] takes strict JSON only, and of that only what Python's `json` could print again as strict
//! JSON: no duplicate names, no number beyond a float's range, no lone surrogates. [`Json::canonical`] prints
//! what `json.dumps(value, sort_keys=True, ensure_ascii=False)` prints.

mod print;
mod read;

use std::borrow::Cow;
use std::fmt;

use sha2::{Digest, Sha256};
use thiserror::Error;

use super::job::JobKey;

pub use print::quoted;
pub use read::text_of;

/// How deeply arrays and objects may be nested, the outermost one counted: as deep as `serde_json` follows, so
/// that whatever this module takes can be read again by everything that uses `serde_json`.
pub const DEPTH: usize = 127;

/// A JSON value that borrows from the text it was read from.
#[derive(Debug, Clone, PartialEq)]
pub enum Json<'a> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number without fraction and exponent, as written: it may have any number of digits.
    Integer(&'a str),
    /// A number with a fraction or an exponent. Always finite.
    Float(f64),
    /// A string, its escapes undone.
    Text(Cow<'a, str>),
    /// An array.
    Array(Vec<Json<'a>>),
    /// An object, its members in the order in which they were written; no two have the same name.
    Object(Vec<Member<'a>>),
}

/// A member of an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Member<'a> {
    /// Its name, escapes undone.
    pub name: Cow<'a, str>,
    /// Its value.
    pub value: Json<'a>,
    /// Its value as written, without the space around it.
    pub text: &'a str,
}

/// What is wrong with a text that should be JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Bytes that are not UTF-8.
    Utf8,
    /// Not JSON, or JSON with half a surrogate pair, or nested deeper than [`DEPTH`].
    Syntax,
    /// Two members of one object have the same name.
    DuplicateName,
    /// NaN, an infinity, or a number that is too large for a float.
    Number,
}

/// Where in a text something is: both count from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Line.
    pub line: usize,
    /// Column within the line, in characters.
    pub column: usize,
}

impl fmt::Display for Position {
    /// `column 5`, with the line only when it is not the first: an intake's lines are single ones.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            1 => write!(f, "column {}", self.column),
            line => write!(f, "line {line}, column {}", self.column),
        }
    }
}

/// Why a text was not taken.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{problem} at {at}")]
pub struct JsonError {
    /// The kind of fault.
    pub fault: Fault,
    /// In words, with at most a few dozen characters of the text.
    pub problem: String,
    /// Where.
    pub at: Position,
}

impl<'a> Json<'a> {
    /// Reads one JSON value that fills `text` but for white space. Takes time and memory linear in its length.
    ///
    /// # Errors
    /// The first thing that is wrong with it, in any of the ways of [`Fault`] but `Utf8`.
    pub fn parse(text: &'a str) -> Result<Self, JsonError> {
        read::parse(text)
    }

    /// The canonical form. It does not depend on the order of members or on how numbers and strings were written.
    #[must_use]
    pub fn canonical(&self) -> String {
        let mut out = String::new();
        print::value(&mut out, self);
        out
    }

    /// The same value for code that works on `serde_json`'s. Integers beyond 64 bits become the nearest float there,
    /// or the largest one when they are beyond that; everything else stays what it is.
    #[must_use]
    pub fn to_value(&self) -> serde_json::Value {
        match self {
            Self::Null => serde_json::Value::Null,
            Self::Bool(value) => (*value).into(),
            Self::Integer(digits) => integer_value(digits),
            Self::Float(value) => (*value).into(),
            Self::Text(text) => text.as_ref().into(),
            Self::Array(values) => values.iter().map(Self::to_value).collect(),
            Self::Object(members) => members.iter().map(|m| (m.name.as_ref(), m.value.to_value())).collect(),
        }
    }

    /// What kind of value it is, in words for an error: `a string`, `null`, …
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Integer(_) | Self::Float(_) => "a number",
            Self::Text(_) => "a string",
            Self::Array(_) => "an array",
            Self::Object(_) => "an object",
        }
    }
}

/// An integer of any size as `serde_json` can hold it.
fn integer_value(digits: &str) -> serde_json::Value {
    if let Ok(small) = digits.parse::<i64>() {
        return small.into();
    }
    if let Ok(large) = digits.parse::<u64>() {
        return large.into();
    }
    // Every JSON integer is a float to Rust; one beyond the range is read as an infinity, which JSON has no word for.
    digits.parse::<f64>().map_or(f64::MAX, |float| float.clamp(f64::MIN, f64::MAX)).into()
}

/// The idempotency key of a job's canonical form: the first 32 hex digits of its sha256 (design, section 3).
#[must_use]
pub fn idempotency_key(canonical: &str) -> JobKey {
    JobKey(digest(canonical))
}

/// The digest by which two contents are told apart: the first 32 hex digits of sha256 over the canonical form.
#[must_use]
pub fn digest(canonical: &str) -> String {
    let mut hex = hex::encode(Sha256::digest(canonical.as_bytes()));
    hex.truncate(32);
    hex
}

#[cfg(test)]
mod tests;
