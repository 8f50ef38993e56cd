//! Reading an answer, whatever a server sends.

use std::error::Error;

use reqwest::header::{HeaderMap, HeaderName};
use reqwest::{Response, StatusCode};

use super::options::ERROR_BODY;

/// How the body of an answer ended.
#[derive(Debug)]
pub(super) enum End {
    /// As the server said it would.
    Whole,
    /// It went on after as many bytes as are taken.
    TooLong(u64),
    /// The connection broke, or the time was up.
    Broken(String),
}

/// An answer: its status is certain, its body as far as it was read.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    headers: HeaderMap,
    pub(super) body: Vec<u8>,
    pub(super) end: End,
}

impl Answer {
    /// Reads an answer in chunks. `Content-Length` decides nothing: neither what is reserved nor what is read.
    /// Of anything but a success only the first [`ERROR_BODY`] bytes are read.
    pub(super) async fn read(mut response: Response, max_body: u64) -> Self {
        let status = response.status();
        let headers = response.headers().clone();
        let limit = if status.is_success() { max_body } else { max_body.min(ERROR_BODY) };
        let mut body = Vec::new();
        let end = loop {
            match response.chunk().await {
                Ok(None) => break End::Whole,
                Err(error) => break End::Broken(reason(error)),
                Ok(Some(chunk)) => {
                    let room = usize::try_from(limit).unwrap_or(usize::MAX).saturating_sub(body.len());
                    body.extend(chunk.iter().take(room));
                    if chunk.len() > room {
                        break End::TooLong(limit);
                    }
                }
            }
        };
        Self { status, headers, body, end }
    }

    /// An answer of which nothing is known but its head.
    pub(super) const fn head(status: StatusCode, headers: HeaderMap, why: String) -> Self {
        Self { status, headers, body: Vec::new(), end: End::Broken(why) }
    }

    /// A header as text. None also for what is no text.
    pub(super) fn header(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim)
    }
}

/// What went wrong on the way, in words, without the URL: the causes below reqwest's own general sentence.
pub(super) fn reason(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut causes = Vec::new();
    let mut source = error.source();
    while let Some(cause) = source {
        causes.push(cause.to_string());
        source = cause.source();
    }
    // Some layers repeat the text of the one below.
    causes.dedup();
    if causes.is_empty() { error.to_string() } else { causes.join(": ") }
}
