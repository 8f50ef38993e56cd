//! A request as it came, and why it is refused.

use bytes::Bytes;
use thiserror::Error;

/// The longest body that is read, in bytes: events hold an id and a link or two.
pub const LARGEST: usize = 256 * 1024;

/// A request, wherever it came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Names and values as they came: names in any case, repeated ones each.
    pub headers: Vec<(String, String)>,
    /// The raw bytes, which are what is signed.
    pub body: Bytes,
}

/// Why an event is not taken. None of these says what would have been right.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refusal {
    /// It is no event: a header is missing, comes twice or can't be read, or the body is none.
    #[error("{0}")]
    Malformed(String),
    /// Nobody whom we know has signed it, or not for now: a wrong signature, or one made too long ago or too far ahead.
    #[error("{0}")]
    Unsigned(String),
    /// Its body is longer than [`LARGEST`].
    #[error("the body is longer than {LARGEST} bytes")]
    TooLarge,
}

impl Refusal {
    /// The HTTP status (design, section 8).
    #[must_use]
    pub const fn status(&self) -> u16 {
        match self {
            Self::Malformed(_) => 400,
            Self::Unsigned(_) => 401,
            Self::TooLarge => 413,
        }
    }
}
