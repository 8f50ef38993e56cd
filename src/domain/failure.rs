//! A failure in Gemini's words, whichever dialect it speaks (design, section 6).

use std::time::Duration;

/// An error code as it came: both dialects and gRPC numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Code {
    /// 1 to 16 are gRPC's, 100 and more are HTTP's.
    Number(i64),
    /// `rate_limit_exceeded`, `INVALID_ARGUMENT`, …
    Word(String),
}

/// Everything that is known about a failure.
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
    #[must_use]
    pub fn from_http(status: u16, retry_after: Option<&str>, body: &[u8]) -> Self {
        unimplemented!("{status} {retry_after:?} {body:?}")
    }

    /// Reads the `error` object of a row, an operation, a step or an entry of `errors`.
    #[must_use]
    pub fn from_error(error: &serde_json::Value) -> Self {
        unimplemented!("{error:?}")
    }

    /// One line for people: status, code and message.
    #[must_use]
    pub fn summary(&self) -> String {
        unimplemented!()
    }
}
