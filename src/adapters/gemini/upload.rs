//! Resumable uploads (gemini-api.md, 4.1): begin, chunks, and a question when a chunk may not have been taken.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName};
use reqwest::{Body, StatusCode, Url};
use serde_json::json;

use super::answer::Answer;
use super::client::{API_KEY, HttpGemini, JSON, NO_LENGTH};
use super::idle::{Moved, NO_TOTAL, Pieces, stood_still, while_moving};
use super::{file, verdict};
use crate::ports::batches::{Upload, UploadError};
use crate::ports::gemini::ReadError;

/// What a JSONL file may be called. The documented type is refused on some days, and then only (field-reports.md, 41).
const MIME_TYPES: [&str; 3] = ["application/jsonl", "application/json", "text/plain"];

/// Bytes of a chunk: the SDKs' size. Read whole into memory.
const CHUNK: u64 = 8 << 20;

/// The coarsest grain of chunks that is taken from Gemini, in bytes; Google's is 256 KiB.
const GRAIN: u64 = 64 << 20;

/// How long to wait before Gemini is asked how far a chunk came: the SDKs' waits. So often in a row, and no more.
const WAITS: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)];

const PROTOCOL: HeaderName = HeaderName::from_static("x-goog-upload-protocol");
const COMMAND: HeaderName = HeaderName::from_static("x-goog-upload-command");
const OFFSET: HeaderName = HeaderName::from_static("x-goog-upload-offset");
const LENGTH: HeaderName = HeaderName::from_static("x-goog-upload-header-content-length");
const TYPE: HeaderName = HeaderName::from_static("x-goog-upload-header-content-type");
const TARGET: HeaderName = HeaderName::from_static("x-goog-upload-url");
const GRANULARITY: HeaderName = HeaderName::from_static("x-goog-upload-chunk-granularity");
const STATUS: HeaderName = HeaderName::from_static("x-goog-upload-status");
const RECEIVED: HeaderName = HeaderName::from_static("x-goog-upload-size-received");

impl HttpGemini {
    /// Uploads with the MIME type that went through last, then with the others: a refusal of the type means a new upload.
    pub(super) async fn upload_object(&self, upload: Upload<'_>) -> Result<String, UploadError> {
        let first = self.mime.load(Ordering::Relaxed);
        let places = (0..MIME_TYPES.len()).map(|step| (first + step) % MIME_TYPES.len());
        let mut refused = ReadError::NoAnswer("there is no MIME type to upload with".to_owned());
        for (place, mime) in places.filter_map(|place| Some((place, MIME_TYPES.get(place)?))) {
            match self.upload_as(mime, upload).await {
                Ok(name) => {
                    self.mime.store(place, Ordering::Relaxed);
                    return Ok(name);
                }
                Err(UploadError::Gemini(error)) if refuses_the_type(&error) => {
                    tracing::warn!(upload.mime_type = mime, error = %error, "Gemini refuses the MIME type of an upload");
                    refused = error;
                }
                Err(error) => return Err(error),
            }
        }
        Err(refused.into())
    }

    async fn upload_as(&self, mime: &str, upload: Upload<'_>) -> Result<String, UploadError> {
        let (target, chunk) = self.begin_upload(mime, upload).await?;
        let session = Session { gemini: self, target, chunk, upload };
        let (mut progress, mut furthest, mut lost) = (Progress::At(0), 0, 0);
        loop {
            progress = match progress {
                Progress::Ended(name) => return Ok(name),
                Progress::At(offset) => {
                    if offset > furthest {
                        (furthest, lost) = (offset, 0);
                    }
                    session.send(offset).await?
                }
                Progress::Lost(why) => {
                    let Some(wait) = WAITS.get(lost) else { return Err(why.into()) };
                    lost += 1;
                    self.clock.sleep(*wait).await;
                    session.query().await?
                }
            };
        }
    }

    /// The URL that takes the bytes, and the size of chunks. Only this request carries an API key.
    async fn begin_upload(&self, mime: &str, upload: Upload<'_>) -> Result<(Url, u64), ReadError> {
        let body = json!({"file": {"displayName": upload.display_name, "mimeType": mime}});
        let request = self
            .client
            .post(self.endpoint.uploads())
            .header(API_KEY, self.creating.header())
            .header(PROTOCOL, "resumable")
            .header(COMMAND, "start")
            .header(LENGTH, upload.bytes)
            .header(TYPE, mime)
            .header(CONTENT_TYPE, JSON)
            .body(body.to_string());
        let silent = |error| verdict::of_silent_read(error, self.http_timeout, &self.keys);
        let answer = Answer::read(request.send().await.map_err(silent)?, self.max_body).await;
        if !answer.status.is_success() {
            return Err(verdict::no_success(&answer, &self.keys));
        }
        let Some(target) = answer.header(&TARGET) else {
            let json = verdict::json(&answer, &self.keys)?;
            return Err(file::refusal(&json).unwrap_or_else(|| {
                ReadError::NoAnswer("the upload was begun, but the answer names no URL for its bytes".to_owned())
            }));
        };
        // The URL itself stays out of the message: whoever has it can write to the upload.
        let target = self.endpoint.upload_target(target).map_err(|why| {
            ReadError::NoAnswer(format!("Gemini names a URL for the upload {why}; nothing was sent there"))
        })?;
        let grain = answer.header(&GRANULARITY).and_then(|grain| grain.parse().ok());
        let grain = grain.filter(|grain| (1..=GRAIN).contains(grain)).unwrap_or(1);
        Ok((target, CHUNK.next_multiple_of(grain)))
    }
}

/// Whether it is the MIME type that was refused: a 4xx that names it, or the same under a success status.
fn refuses_the_type(error: &ReadError) -> bool {
    let ReadError::Refused(failure) = error else { return false };
    let client = failure.http.is_none_or(|http| (400..500).contains(&http) && http != 429);
    client && (failure.http == Some(415) || failure.message.to_ascii_lowercase().contains("mime"))
}

/// How far an upload came.
enum Progress {
    /// Gemini has its first bytes up to there.
    At(u64),
    /// It is a file.
    Ended(String),
    /// It is not known whether the last chunk was taken.
    Lost(ReadError),
}

/// An upload under way. Its errors end it.
struct Session<'a> {
    gemini: &'a HttpGemini,
    target: Url,
    chunk: u64,
    upload: Upload<'a>,
}

impl Session<'_> {
    /// Sends the chunk from there; the last one ends the upload, an empty one too.
    async fn send(&self, offset: u64) -> Result<Progress, UploadError> {
        let total = self.upload.bytes;
        let end = offset.saturating_add(self.chunk).min(total);
        let bytes = if offset == end {
            Bytes::new()
        } else {
            self.upload.objects.read(self.upload.object, offset..end).await?
        };
        if bytes.len() as u64 != end - offset {
            let name = self.upload.object;
            return Err(ReadError::NoAnswer(format!(
                "{name} gave {} of the {} bytes from {offset} on, where {total} in all were announced",
                bytes.len(),
                end - offset
            ))
            .into());
        }
        let last = end == total;
        let command = if last { "upload, finalize" } else { "upload" };
        let answer = match self.exchange(command, Some(offset), bytes).await {
            Ok(answer) => answer,
            Err(silence) => return Ok(Progress::Lost(silence)),
        };
        Ok(match self.judge(&answer, last)? {
            Some(progress) => progress,
            None if last => Progress::Lost(ReadError::NoAnswer("the last chunk did not end the upload".to_owned())),
            None => Progress::At(end),
        })
    }

    /// Asks how far it came.
    async fn query(&self) -> Result<Progress, ReadError> {
        let answer = match self.exchange("query", None, Bytes::new()).await {
            Ok(answer) => answer,
            Err(silence) => return Ok(Progress::Lost(silence)),
        };
        if let Some(progress) = self.judge(&answer, true)? {
            return Ok(progress);
        }
        let total = self.upload.bytes;
        Ok(match answer.header(&RECEIVED).and_then(|received| received.parse().ok()) {
            Some(received) if received <= total => Progress::At(received),
            Some(received) => {
                return Err(ReadError::NoAnswer(format!("Gemini says that it has {received} of {total} bytes")));
            }
            None => Progress::Lost(ReadError::NoAnswer("Gemini does not say how far the upload came".to_owned())),
        })
    }

    /// What an answer says; none: the upload goes on.
    fn judge(&self, answer: &Answer, may_end: bool) -> Result<Option<Progress>, ReadError> {
        let keys = &self.gemini.keys;
        if !answer.status.is_success() {
            let error = verdict::no_success(answer, keys);
            // What passes is asked about; any other answer is definite.
            let passes = answer.status.is_server_error()
                || matches!(answer.status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS);
            return if passes { Ok(Some(Progress::Lost(error))) } else { Err(error) };
        }
        let status = answer.header(&STATUS).map(str::to_ascii_lowercase);
        let json = match verdict::json(answer, keys) {
            Ok(json) => json,
            // What else is in an answer that says so doesn't matter.
            Err(_) if status.as_deref() == Some("active") => return Ok(None),
            Err(unread) => return Ok(Some(Progress::Lost(unread))),
        };
        if let Some(refusal) = file::refusal(&json) {
            return Err(refusal);
        }
        match status.as_deref() {
            Some("active") => Ok(None),
            Some("final") if may_end => Ok(Some(Progress::Ended(file::uploaded(&json, self.upload.bytes)?))),
            Some("final") => Err(ReadError::NoAnswer("Gemini ended the upload before its last chunk".to_owned())),
            // The header may get lost on the way; the file speaks for itself.
            None if may_end && json.get("file").is_some() => {
                Ok(Some(Progress::Ended(file::uploaded(&json, self.upload.bytes)?)))
            }
            None => Ok(Some(Progress::Lost(ReadError::NoAnswer(
                "the answer does not say whether the chunk was taken".to_owned(),
            )))),
            Some(_) => Err(ReadError::NoAnswer("Gemini gave the upload up".to_owned())),
        }
    }

    /// One request to the upload's URL, without an API key and without a limit but the idle time-out.
    async fn exchange(&self, command: &'static str, offset: Option<u64>, bytes: Bytes) -> Result<Answer, ReadError> {
        let gemini = self.gemini;
        let moved = Moved::default();
        let mut request = gemini.client.post(self.target.clone()).header(COMMAND, command).timeout(NO_TOTAL);
        if let Some(offset) = offset {
            request = request.header(OFFSET, offset);
        }
        if bytes.is_empty() {
            request = request.header(CONTENT_LENGTH, NO_LENGTH);
        } else {
            request = request.body(Body::wrap(Pieces::new(bytes, moved.clone())));
        }
        let work = async { Ok(Answer::read(request.send().await?, gemini.max_body).await) };
        while_moving(&*gemini.clock, gemini.http_timeout, &moved, work)
            .await
            .ok_or_else(|| ReadError::NoAnswer(stood_still(gemini.http_timeout)))?
            .map_err(|error| verdict::of_silent_read(error, gemini.http_timeout, &gemini.keys))
    }
}
