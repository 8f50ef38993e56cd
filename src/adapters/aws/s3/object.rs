//! One object: what is there, and its bytes.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;

use aws_sdk_s3::Client;
use aws_sdk_s3::error::ProvideErrorMetadata;
use aws_sdk_s3::operation::get_object::GetObjectOutput;
use bytes::{Bytes, BytesMut};

use super::put::TOKEN;
use super::{TRIES, fault, status};
use crate::adapters::aws::backoff::pause;
use crate::adapters::aws::fault::chain;
use crate::ports::objects::ObjectError;

/// No object is that long: S3 takes some terabytes.
const BEYOND: u64 = 1 << 53;

/// The most memory that is set aside on the word of an answer.
const ROOM: u64 = 64 << 20;

/// Where an object is, or would be.
#[derive(Debug, Clone, Copy)]
pub struct Object<'a> {
    pub client: &'a Client,
    pub bucket: &'a str,
    pub key: &'a str,
}

impl fmt::Display for Object<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}/{}", self.bucket, self.key)
    }
}

/// One of the objects that have been under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pin {
    /// That version.
    Version(String),
    /// The one with that entity tag, as long as nothing has taken its place: for buckets without versions.
    Etag(String),
}

/// What is there.
#[derive(Debug)]
pub struct Found {
    /// Its length.
    pub bytes: u64,
    /// Which one it is.
    pub pin: Pin,
    /// The token of the write that made it.
    pub token: Option<String>,
}

/// Why bytes did not come.
enum Broken {
    /// It is no use to ask again.
    Settled(ObjectError),
    /// The connection, or what came by it.
    OnTheWay(String),
}

impl Object<'_> {
    /// What is there now, if anything.
    pub async fn look(&self) -> Result<Option<Found>, ObjectError> {
        let first = self.client.get_object().bucket(self.bucket).key(self.key).range("bytes=0-0");
        let answer = match first.send().await {
            Ok(answer) => answer,
            // It is empty: there is no first byte.
            Err(error) if status(&error) == Some(416) => return self.look_at_head().await,
            Err(error) if is_missing(error.code()) => return Ok(None),
            Err(error) => return Err(fault("looking for", self, &error)),
        };
        let (_, bytes) = self.span(&answer)?;
        let found = self.found(bytes, answer.e_tag, answer.version_id, answer.metadata)?;
        // Only a connection whose answer was read to the end is used again.
        if let Err(error) = answer.body.collect().await {
            tracing::debug!(object = %self, %error, "the first byte did not come, which does not matter");
        }
        Ok(Some(found))
    }

    async fn look_at_head(&self) -> Result<Option<Found>, ObjectError> {
        match self.client.head_object().bucket(self.bucket).key(self.key).send().await {
            Ok(head) => {
                let bytes = head.content_length().and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or_default();
                self.found(bytes, head.e_tag, head.version_id, head.metadata).map(Some)
            }
            Err(error) if status(&error) == Some(404) => Ok(None),
            Err(error) => Err(fault("looking for", self, &error)),
        }
    }

    fn found(
        &self,
        bytes: u64,
        etag: Option<String>,
        version: Option<String>,
        metadata: Option<HashMap<String, String>>,
    ) -> Result<Found, ObjectError> {
        let pin = match (version, etag) {
            (Some(version), _) if version != "null" => Pin::Version(version),
            (_, Some(etag)) => Pin::Etag(etag),
            (_, None) => return Err(self.is_no_s3("no entity tag")),
        };
        Ok(Found { bytes, pin, token: metadata.and_then(|mut metadata| metadata.remove(TOKEN)) })
    }

    /// The bytes of `range` that exist, all of one object: the one that `pin` names, or the one that is there now.
    pub async fn read(&self, pin: Option<&Pin>, range: Range<u64>) -> Result<Bytes, ObjectError> {
        if range.start >= range.end || range.start >= BEYOND {
            return match self.look().await? {
                Some(_) => Ok(Bytes::new()),
                None => Err(self.not_found()),
            };
        }
        let mut piece = Piece { range, got: BytesMut::new(), of: pin.cloned() };
        let mut failed = 0;
        loop {
            let before = piece.got.len();
            let why = match self.go_on(&mut piece, pin.is_some()).await {
                Ok(()) => return Ok(piece.got.freeze()),
                Err(Broken::Settled(error)) => return Err(error),
                Err(Broken::OnTheWay(why)) => why,
            };
            failed = if piece.got.len() > before { 1 } else { failed + 1 };
            if failed >= TRIES {
                return Err(ObjectError::Busy(format!("reading {self}: {why}")));
            }
            tracing::debug!(object = %self, at = piece.at(), why, "a read broke off and is gone on with");
            if piece.got.is_empty() {
                // Nothing is held of the one that was begun.
                piece.of = pin.cloned();
            }
            pause(failed).await;
        }
    }

    /// Asks for what is still missing, once. `pinned`: no other object will do.
    async fn go_on(&self, piece: &mut Piece, pinned: bool) -> Result<(), Broken> {
        let settled = |error| Err(Broken::Settled(error));
        let mut request = self.client.get_object().bucket(self.bucket).key(self.key).set_range(piece.header());
        request = match &piece.of {
            None => request,
            Some(Pin::Version(version)) => request.version_id(version),
            Some(Pin::Etag(etag)) => request.if_match(etag),
        };
        let mut answer = match request.send().await {
            Ok(answer) => answer,
            Err(error) if status(&error) == Some(416) && piece.got.is_empty() => return Ok(()),
            Err(error) if is_missing(error.code()) => return settled(self.not_found()),
            Err(error) if status(&error) == Some(412) && pinned => return settled(self.not_found()),
            Err(error) if status(&error) == Some(412) => {
                piece.got.clear();
                return Err(Broken::OnTheWay("another object took its place".to_owned()));
            }
            Err(error) => return settled(fault("reading", self, &error)),
        };
        let (from, length) = self.span(&answer).map_err(Broken::Settled)?;
        let at = piece.at();
        if answer.content_range.is_some() && from != at {
            return settled(self.is_no_s3(&format!("bytes from {from} on instead of {at}")));
        }
        // A server may ignore the range and bring all of it.
        let mut unwanted = usize::try_from(at.saturating_sub(from)).unwrap_or(usize::MAX);
        if piece.of.is_none() {
            piece.of = answer.e_tag.take().map(Pin::Etag);
        }
        let missing = piece.range.end.min(length).saturating_sub(at);
        piece.got.reserve(usize::try_from(missing.min(ROOM)).unwrap_or_default());
        let mut left = usize::try_from(missing).unwrap_or(usize::MAX);
        while let Some(chunk) = answer.body.next().await {
            match chunk {
                Ok(chunk) => {
                    let skipped = unwanted.min(chunk.len());
                    unwanted -= skipped;
                    let chunk = chunk.slice(skipped..);
                    let wanted = chunk.get(..chunk.len().min(left)).unwrap_or_default();
                    piece.got.extend_from_slice(wanted);
                    left -= wanted.len();
                }
                Err(error) => {
                    if left == 0 {
                        // All of it came, and the checksum at its end doesn't fit.
                        piece.got.clear();
                    }
                    return Err(Broken::OnTheWay(chain(&error)));
                }
            }
        }
        if left > 0 { Err(Broken::OnTheWay(format!("{left} bytes are missing"))) } else { Ok(()) }
    }

    /// From where on an answer brings bytes, and how long the whole object is.
    fn span(&self, answer: &GetObjectOutput) -> Result<(u64, u64), ObjectError> {
        let span = match &answer.content_range {
            Some(range) => parse_content_range(range),
            None => answer.content_length.and_then(|length| u64::try_from(length).ok()).map(|length| (0, length)),
        };
        span.ok_or_else(|| self.is_no_s3(&format!("the range {:?}", answer.content_range)))
    }

    pub fn not_found(&self) -> ObjectError {
        ObjectError::NotFound(self.key.to_owned())
    }

    fn is_no_s3(&self, what: &str) -> ObjectError {
        ObjectError::NeedsPerson(format!(
            "reading {self}: the answer has {what}, so what answers is no S3; look at AWS_ENDPOINT_URL, and at proxies \
             between here and there"
        ))
    }
}

/// What is being read.
struct Piece {
    range: Range<u64>,
    got: BytesMut,
    /// The object that it is read from, as far as that is known.
    of: Option<Pin>,
}

impl Piece {
    fn at(&self) -> u64 {
        self.range.start.saturating_add(self.got.len() as u64)
    }

    /// The `Range` to ask for; none for the whole object, which then comes with its checksum.
    fn header(&self) -> Option<String> {
        match (self.at(), self.range.end) {
            (0, BEYOND..) => None,
            (at, BEYOND..) => Some(format!("bytes={at}-")),
            (at, end) => Some(format!("bytes={at}-{}", end.saturating_sub(1))),
        }
    }
}

/// Whether that code says that there is no such object, which a missing bucket's doesn't.
fn is_missing(code: Option<&str>) -> bool {
    matches!(code, Some("NoSuchKey" | "NoSuchVersion"))
}

/// `bytes 5-10/1048`: the first byte, and the length of the whole.
fn parse_content_range(range: &str) -> Option<(u64, u64)> {
    let (span, length) = range.strip_prefix("bytes ")?.split_once('/')?;
    let (from, _) = span.split_once('-')?;
    Some((from.parse().ok()?, length.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_ranges_are_read() {
        assert_eq!(parse_content_range("bytes 5-10/1048"), Some((5, 1048)));
        for other in ["bytes */1048", "bytes 5-10/*", "5-10/1048", "bytes 5/10", ""] {
            assert_eq!(parse_content_range(other), None, "{other}");
        }
    }

    #[test]
    fn the_range_that_is_asked_for_begins_where_the_bytes_end() {
        let header = |range, got: &'static [u8]| Piece { range, got: got.into(), of: None }.header();
        assert_eq!(header(0..u64::MAX, b""), None);
        assert_eq!(header(0..u64::MAX, b"123").unwrap(), "bytes=3-");
        assert_eq!(header(7..u64::MAX, b"").unwrap(), "bytes=7-");
        assert_eq!(header(7..9, b"").unwrap(), "bytes=7-8");
        assert_eq!(header(7..11, b"12").unwrap(), "bytes=9-10");
    }
}
