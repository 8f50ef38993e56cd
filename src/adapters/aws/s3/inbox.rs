//! The inbox: what people put under `inbox/` in the bucket.

use std::io;
use std::pin::Pin as Pinned;
use std::task::{Context, Poll};

use async_trait::async_trait;
use aws_sdk_s3::Client;
use aws_sdk_s3::error::ProvideErrorMetadata;
use aws_sdk_s3::types::EncodingType;
use bytes::{Buf, Bytes};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use tokio::io::{AsyncRead, ReadBuf};

use super::object::{Object, Pin};
use super::put::Refusal;
use super::{TRIES, fault, key};
use crate::adapters::aws::backoff::pause;
use crate::ports::inbox::{Arrival, Inbox};
use crate::ports::objects::ObjectError;

/// What the names of files begin with in the bucket.
pub const PREFIX: &str = "inbox/";

/// What the version of a file is called that has none, before its entity tag.
const UNVERSIONED: &str = "null:";

/// Files that are looked at at once.
const AT_ONCE: usize = 8;

/// How much of a file is held in memory.
const PIECE: u64 = 4 << 20;

/// Files under `inbox/` in a bucket.
///
/// A listing costs one request, whatever has been in the inbox before, and one more for each file that it finds (two for
/// an empty one). What ends in a slash is no file: consoles make such objects as folders.
///
/// A bucket should be versioned. Then a file that was put in twice before anybody took it is two arrivals: when the newer
/// one is removed, S3 brings the older one forward, and the next listing has it. In a bucket without versions the newer one has replaced
/// the older one; a file is then known by its entity tag, and removed only while it has that one.
#[derive(Debug, Clone)]
pub struct S3Inbox {
    client: Client,
    bucket: String,
}

impl S3Inbox {
    /// The inbox of `bucket`; [`client`](super::client) makes a client.
    #[must_use]
    pub const fn new(client: Client, bucket: String) -> Self {
        Self { client, bucket }
    }

    fn object<'a>(&'a self, key: &'a str) -> Object<'a> {
        Object { client: &self.client, bucket: &self.bucket, key }
    }

    /// The file of that key as it is now; none when it is gone since it was listed.
    async fn arrival(&self, key: String) -> Result<Option<Arrival>, ObjectError> {
        let Some(found) = self.object(&key).look().await? else { return Ok(None) };
        let name = key.strip_prefix(PREFIX).unwrap_or(&key).to_owned();
        Ok(Some(Arrival { name, version: version(&found.pin), bytes: found.bytes }))
    }

    /// A page of keys, and where the next one begins.
    async fn page(&self, from: Option<String>) -> Result<(Vec<String>, Option<String>), ObjectError> {
        let request = self.client.list_objects_v2().bucket(&self.bucket).prefix(PREFIX);
        let request = request.encoding_type(EncodingType::Url).set_continuation_token(from);
        let page = request.send().await.map_err(|error| fault("listing", &self.object(PREFIX), &error))?;
        let is_encoded = page.encoding_type == Some(EncodingType::Url);
        let listed = page.contents.unwrap_or_default().into_iter();
        let listed = listed.filter_map(|object| Some((object.key?, object.size.unwrap_or_default())));
        let keys = listed.filter_map(|(listed, bytes)| {
            let key = if is_encoded { key::decoded(&listed) } else { Some(listed.clone()) };
            if key.is_none() {
                tracing::error!(listed, "the inbox has a file whose name can't be read; rename it");
            }
            let is_folder = key.as_ref().is_some_and(|key| key.ends_with('/'));
            if is_folder && bytes > 0 {
                tracing::error!(
                    key,
                    bytes,
                    "a file in the inbox has a folder's name, which ends in a slash; rename it"
                );
            }
            key.filter(|_| !is_folder)
        });
        Ok((keys.collect(), page.next_continuation_token))
    }
}

#[async_trait]
impl Inbox for S3Inbox {
    /// A file that only a person can make readable (archived, or encrypted by a key that may not be used) is left out, as
    /// the log says, so that it doesn't hold up the others; when there are no others, its error is the listing's.
    async fn list(&self, limit: usize) -> Result<Vec<Arrival>, ObjectError> {
        let (mut arrivals, mut unreadable, mut from) = (Vec::new(), None, None);
        while arrivals.len() < limit {
            let (keys, next) = self.page(from).await?;
            let mut looks = futures::stream::iter(keys).map(|key| self.arrival(key)).buffered(AT_ONCE);
            while arrivals.len() < limit
                && let Some(look) = looks.next().await
            {
                match look {
                    Ok(arrival) => arrivals.extend(arrival),
                    Err(error @ ObjectError::NeedsPerson(_)) => {
                        tracing::error!(%error, "a file in the inbox can't be read and is left there");
                        unreadable = Some(error);
                    }
                    Err(error) => return Err(error),
                }
            }
            let Some(next) = next else { break };
            from = Some(next);
        }
        match unreadable {
            Some(error) if arrivals.is_empty() => Err(error),
            _ => Ok(arrivals),
        }
    }

    async fn open(&self, arrival: &Arrival) -> Result<Box<dyn AsyncRead + Send + Unpin>, ObjectError> {
        let mut reader = Reader {
            client: self.client.clone(),
            bucket: self.bucket.clone(),
            key: format!("{PREFIX}{}", arrival.name),
            pin: pin(&arrival.version),
            at: 0,
            end: arrival.bytes,
            piece: Bytes::new(),
            coming: None,
        };
        // Whether it is there is better said now. An empty file has no range to ask for.
        reader.piece = reader.next(if arrival.bytes == 0 { u64::MAX } else { PIECE }).await?;
        reader.at = reader.piece.len() as u64;
        Ok(Box::new(reader))
    }

    async fn remove(&self, arrival: &Arrival) -> Result<(), ObjectError> {
        let key = format!("{PREFIX}{}", arrival.name);
        let object = self.object(&key);
        for failed in 1..=TRIES {
            let request = self.client.delete_object().bucket(&self.bucket).key(&key);
            let request = match pin(&arrival.version) {
                Pin::Etag(etag) => request.if_match(etag),
                Pin::Version(version) => request.version_id(version),
            };
            let Err(error) = request.send().await else { return Ok(()) };
            let is_gone = matches!(error.code(), Some("NoSuchKey" | "NoSuchVersion"));
            match Refusal::of(&error) {
                // Another file is there by now, or none; the one that was meant is gone.
                Some(Refusal::IsThere) => return Ok(()),
                None if is_gone => return Ok(()),
                Some(Refusal::Conflict) if failed < TRIES => pause(failed).await,
                _ => return Err(fault("removing", &object, &error)),
            }
        }
        Err(ObjectError::Busy(format!("removing {object}: others change it")))
    }
}

/// How an arrival names its version.
fn version(pin: &Pin) -> String {
    match pin {
        Pin::Version(version) => version.clone(),
        Pin::Etag(etag) => format!("{UNVERSIONED}{etag}"),
    }
}

fn pin(version: &str) -> Pin {
    match version.strip_prefix(UNVERSIONED) {
        Some(etag) => Pin::Etag(etag.to_owned()),
        None => Pin::Version(version.to_owned()),
    }
}

/// A file that is read a piece at a time.
struct Reader {
    client: Client,
    bucket: String,
    key: String,
    pin: Pin,
    /// The first byte that has not been asked for.
    at: u64,
    end: u64,
    /// What came and was not yet read.
    piece: Bytes,
    coming: Option<BoxFuture<'static, Result<Bytes, ObjectError>>>,
}

impl Reader {
    /// The next `length` bytes, if there are as many.
    fn next(&self, length: u64) -> BoxFuture<'static, Result<Bytes, ObjectError>> {
        let (client, bucket, key, pin) = (self.client.clone(), self.bucket.clone(), self.key.clone(), self.pin.clone());
        let range = self.at..self.at.saturating_add(length);
        async move { Object { client: &client, bucket: &bucket, key: &key }.read(Some(&pin), range).await }.boxed()
    }
}

impl AsyncRead for Reader {
    fn poll_read(
        mut self: Pinned<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.piece.is_empty() && self.at < self.end {
            let mut coming = self.coming.take().unwrap_or_else(|| self.next(PIECE));
            let Poll::Ready(came) = coming.poll_unpin(context) else {
                self.coming = Some(coming);
                return Poll::Pending;
            };
            let piece = came.map_err(io::Error::other)?;
            if piece.is_empty() {
                let why = format!("{} ended at {} of {} bytes", self.key, self.at, self.end);
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::UnexpectedEof, why)));
            }
            self.at += piece.len() as u64;
            self.piece = piece;
        }
        let length = self.piece.len().min(buffer.remaining());
        buffer.put_slice(self.piece.get(..length).unwrap_or_default());
        self.piece.advance(length);
        Poll::Ready(Ok(()))
    }
}
