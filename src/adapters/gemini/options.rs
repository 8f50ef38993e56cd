//! What the client must be told.

use std::time::Duration;

use thiserror::Error;

use super::key::ApiKey;

/// Google's own address of the Gemini API.
pub const BASE_URL: &str = "https://generativelanguage.googleapis.com";

/// The default of [`Options::http_timeout`] (`GLEANER_HTTP_TIMEOUT`; design, section 10).
pub const HTTP_TIMEOUT: Duration = Duration::from_secs(60);

/// The default of [`Options::call_timeout`] (`GLEANER_CALL_TIMEOUT`).
pub const CALL_TIMEOUT: Duration = Duration::from_secs(600);
/// The default of [`Options::connect_timeout`].
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The default of [`Options::max_body`]: 64 MiB.
pub const MAX_BODY: u64 = 64 << 20;

/// How much of an error's body is read, in bytes: 8 MiB, for a refused batch says a sentence on each line. What is behind it is dropped.
pub const ERROR_BODY: u64 = 8 << 20;

/// What the client must be told.
pub struct Options {
    /// Where Gemini is: `https://` and a host, with a port and a path prefix if need be, with or without a slash
    /// at the end. `http://` is taken for this machine only (`localhost`, 127.0.0.0/8, `[::1]`).
    pub base_url: String,
    /// The first one creates; all of them read, so that a key can be replaced under running jobs.
    pub keys: Vec<ApiKey>,
    /// How long one request may take from connecting to the last byte of the answer.
    pub http_timeout: Duration,
    /// How long one plain call may take in the same way: Gemini answers when its work is done.
    pub call_timeout: Duration,
    /// How long name look-up, connecting and TLS may take together. At most half of `http_timeout` is used, so
    /// that a server which can't be reached is always told from one that was reached and kept silent.
    pub connect_timeout: Duration,
    /// The longest answer that is taken, in bytes.
    pub max_body: u64,
}

impl Options {
    /// Google's own address, these keys, and the defaults.
    #[must_use]
    pub fn new(keys: Vec<ApiKey>) -> Self {
        Self {
            base_url: BASE_URL.to_owned(),
            keys,
            http_timeout: HTTP_TIMEOUT,
            call_timeout: CALL_TIMEOUT,
            connect_timeout: CONNECT_TIMEOUT,
            max_body: MAX_BODY,
        }
    }
}

/// Why no client can be made of the options: a person must mend them. No text of it shows a secret.
#[derive(Debug, Error)]
pub enum OptionsError {
    /// There must be one to create with.
    #[error("no API key is given: set GEMINI_API_KEY")]
    NoKey,
    /// The base URL can't be used.
    #[error("the base URL of Gemini (GEMINI_BASE_URL) {0}")]
    BaseUrl(String),
    /// The key would cross a network in the clear.
    #[error(
        "the base URL of Gemini (GEMINI_BASE_URL) is http:// to {0}, which would send the API key unencrypted: \
         use https:// (http:// is allowed for localhost, 127.0.0.1 and [::1] only)"
    )]
    PlainHttp(String),
    /// A time-out or a limit that would refuse everything.
    #[error("{0} of the Gemini client must be more than nothing")]
    Zero(&'static str),
    /// The HTTP client could not be made.
    #[error("the HTTP client can't be set up: {0}")]
    Client(String),
}
