//! Downloads: a stream that breaks off with an error, and never with an end.

use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures::Stream;
use futures::stream::try_unfold;
use reqwest::header::{CONTENT_ENCODING, HeaderValue};
use reqwest::{Response, StatusCode, Url};
use tokio::io::{AsyncRead, ReadBuf};

use super::answer::{Answer, reason};
use super::client::{API_KEY, HttpGemini, no_url};
use super::idle::{Moved, NO_TOTAL, stood_still, while_moving};
use super::key::{ApiKey, mask};
use super::verdict;
use crate::domain::job::KeyId;
use crate::ports::batches::Download;
use crate::ports::clock::Clock;
use crate::ports::gemini::ReadError;

impl HttpGemini {
    /// Both forms of the URL are reported to work (gemini-api.md, 4.4), so that only both together say "not found".
    pub(super) async fn begin_download(&self, file: &str, created_by: &KeyId) -> Result<Download, ReadError> {
        let [first, second] = self.endpoint.downloads(file).ok_or_else(no_url)?;
        let key = self.key(created_by);
        match self.open(first, key).await {
            Err(ReadError::Refused(failure)) if failure.http == Some(404) => self.open(second, key).await,
            outcome => outcome,
        }
    }

    async fn open(&self, url: Url, key: &ApiKey) -> Result<Download, ReadError> {
        let request = self.client.get(url).header(API_KEY, key.header()).timeout(NO_TOTAL);
        let still = Moved::default();
        let response = while_moving(&*self.clock, self.http_timeout, &still, request.send())
            .await
            .ok_or_else(|| ReadError::NoAnswer(stood_still(self.http_timeout)))?
            .map_err(|error| verdict::of_silent_read(error, self.http_timeout, &self.keys))?;
        let status = response.status();
        if !status.is_success() {
            let headers = response.headers().clone();
            let answer =
                while_moving(&*self.clock, self.http_timeout, &still, Answer::read(response, self.max_body)).await;
            let answer = answer.unwrap_or_else(|| Answer::head(status, headers, stood_still(self.http_timeout)));
            return Err(verdict::no_success(&answer, &self.keys));
        }
        if status != StatusCode::OK {
            let status = status.as_u16();
            return Err(ReadError::NoAnswer(format!("HTTP {status}, where only 200 brings a whole file")));
        }
        // None is asked for, and what is stored must be what the rows are read from.
        let plain = HeaderValue::from_static("identity");
        if response.headers().get(CONTENT_ENCODING).is_some_and(|encoding| encoding != plain) {
            return Err(ReadError::NoAnswer("the file comes in an encoding that was not asked for".to_owned()));
        }
        let bytes = response.content_length();
        let chunks = chunks(response, Arc::clone(&self.clock), self.http_timeout, Arc::clone(&self.keys));
        let reader = Incoming { chunks: Box::pin(chunks), chunk: Bytes::new(), left: bytes, end: None };
        Ok(Download { reader: Box::new(reader), bytes })
    }
}

/// Why no more bytes come.
#[derive(Debug, Clone)]
struct Broken(ErrorKind, String);

/// The body, chunk by chunk.
fn chunks(
    response: Response,
    clock: Arc<dyn Clock>,
    idle: Duration,
    keys: Arc<[ApiKey]>,
) -> impl Stream<Item = Result<Bytes, Broken>> + Send {
    try_unfold((response, clock, keys), move |(mut response, clock, keys)| async move {
        match while_moving(&*clock, idle, &Moved::default(), response.chunk()).await {
            None => Err(Broken(ErrorKind::TimedOut, stood_still(idle))),
            Some(Err(error)) => {
                let why = reason(error);
                Err(Broken(ErrorKind::ConnectionAborted, format!("the download broke off: {}", mask(&why, &keys))))
            }
            Some(Ok(None)) => Ok(None),
            Some(Ok(Some(chunk))) => Ok(Some((chunk, (response, clock, keys)))),
        }
    })
}

/// The body as bytes to be read. Once it has ended it stays ended, and once it has broken off every further read says so.
struct Incoming {
    chunks: Pin<Box<dyn Stream<Item = Result<Bytes, Broken>> + Send>>,
    chunk: Bytes,
    /// How many of the announced bytes have not come.
    left: Option<u64>,
    end: Option<Result<(), Broken>>,
}

impl Incoming {
    /// Takes what the connection brought next.
    fn take(&mut self, next: Option<Result<Bytes, Broken>>) {
        match next {
            Some(Ok(chunk)) => {
                self.left = self.left.map(|left| left.saturating_sub(chunk.len() as u64));
                self.chunk = chunk;
            }
            Some(Err(broken)) => self.end = Some(Err(broken)),
            None => {
                self.end = Some(match self.left {
                    None | Some(0) => Ok(()),
                    Some(left) => Err(Broken(
                        ErrorKind::UnexpectedEof,
                        format!("the download ended {left} bytes before its announced length"),
                    )),
                });
            }
        }
    }
}

impl AsyncRead for Incoming {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            if !this.chunk.is_empty() {
                let length = this.chunk.len().min(buf.remaining());
                buf.put_slice(this.chunk.get(..length).unwrap_or_default());
                this.chunk.advance(length);
                return Poll::Ready(Ok(()));
            }
            match &this.end {
                Some(Ok(())) => return Poll::Ready(Ok(())),
                Some(Err(Broken(kind, why))) => return Poll::Ready(Err(io::Error::new(*kind, why.clone()))),
                None => {
                    let next = ready!(this.chunks.as_mut().poll_next(cx));
                    this.take(next);
                }
            }
        }
    }
}
