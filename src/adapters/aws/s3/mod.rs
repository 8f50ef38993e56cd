//! Objects, and the inbox, in one S3 bucket.
//!
//! - **Nothing is replaced**: every write is conditional (`If-None-Match: *`). Each carries a token of its own in the
//!   object's metadata, so that one that was done although it was reported as failed is known again by its token.
//! - **Reads** go on where a connection broke, and never mix two objects.
//! - A missing object and a missing bucket are told apart by the body of the answer, which a HEAD doesn't have. So the
//!   length of an object is asked by a GET of its first byte, at the same price.
//!
//! S3 answers 403 for an object that isn't there unless whoever asks may list the bucket: `s3:ListBucket` on the bucket,
//! without a condition on the prefix, since such a request names none. Without it every look for an object that
//! isn't there is an error for a person
//! (<https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html>, under permissions).
//!
//! The SDK's checksums stay on: S3 checks each upload by its CRC, and a whole object that comes back is checked too. The
//! pieces of one that is read by ranges are not (S3 has checksums of whole objects); TLS guards those.

mod inbox;
mod key;
mod multipart;
mod object;
mod put;

use std::fmt::Display;
use std::ops::Range;

use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::Builder;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use bytes::Bytes;
use tokio::io::AsyncRead;

pub use self::inbox::S3Inbox;
use self::object::Object;
use super::calls::Calls;
use super::fault::{Fault, judge};
use crate::ports::objects::{ObjectError, Objects, Put, check_name};

/// How often a call is tried in all where the SDK doesn't try again by itself.
const TRIES: u32 = 5;

/// A client. With an endpoint of one's own (`AWS_ENDPOINT_URL`) buckets are named in the path, since a made-up host seldom
/// has a name per bucket; the SDK does the same by itself where the endpoint is an IP address.
#[must_use]
pub fn client(config: &SdkConfig) -> Client {
    let mut builder = Builder::from(config).interceptor(Calls);
    if config.endpoint_url().is_some() {
        builder = builder.force_path_style(true);
    }
    Client::from_conf(builder.build())
}

/// Objects in a bucket, versioned or not.
///
/// A stream that is dropped half written, and one whose upload could not be aborted (the log tells), leaves parts that
/// are no object and cost money: the bucket needs a lifecycle rule that aborts incomplete uploads.
#[derive(Debug, Clone)]
pub struct S3Objects {
    client: Client,
    bucket: String,
}

impl S3Objects {
    /// The objects in `bucket`; [`client`] makes a client.
    #[must_use]
    pub const fn new(client: Client, bucket: String) -> Self {
        Self { client, bucket }
    }

    fn object<'a>(&'a self, name: &'a str) -> Result<Object<'a>, ObjectError> {
        check_name(name)?;
        Ok(Object { client: &self.client, bucket: &self.bucket, key: name })
    }
}

#[async_trait]
impl Objects for S3Objects {
    async fn put(&self, name: &str, bytes: Bytes) -> Result<Put, ObjectError> {
        put::whole(&self.object(name)?, bytes).await
    }

    /// Up to 8 MiB go as one put. What is longer goes in parts, a few at once; an object that is there already is then
    /// answered without reading the rest of `source`.
    async fn put_stream(&self, name: &str, source: &mut (dyn AsyncRead + Send + Unpin)) -> Result<Put, ObjectError> {
        multipart::stream(&self.object(name)?, source).await
    }

    async fn get(&self, name: &str) -> Result<Bytes, ObjectError> {
        self.object(name)?.read(None, 0..u64::MAX).await
    }

    async fn read(&self, name: &str, range: Range<u64>) -> Result<Bytes, ObjectError> {
        self.object(name)?.read(None, range).await
    }

    async fn size(&self, name: &str) -> Result<Option<u64>, ObjectError> {
        Ok(self.object(name)?.look().await?.map(|found| found.bytes))
    }
}

impl From<Fault> for ObjectError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Busy(why) => Self::Busy(why),
            Fault::NeedsPerson(why) => Self::NeedsPerson(why),
        }
    }
}

/// The error of a call about an object, or about a part of it.
fn fault<E>(doing: &str, object: &impl Display, error: &SdkError<E>) -> ObjectError
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    judge(&format!("{doing} {object}"), error).into()
}

/// The status of an answer, if there was one.
fn status<E>(error: &SdkError<E>) -> Option<u16> {
    error.raw_response().map(|answer| answer.status().as_u16())
}
