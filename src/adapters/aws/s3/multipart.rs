//! Writing an object from a stream, in parts that become visible together.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_s3::operation::upload_part::UploadPartOutput;
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{ChecksumAlgorithm, CompletedMultipartUpload, CompletedPart};
use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::task::JoinSet;

use super::object::Object;
use super::put::{Refusal, TOKEN, patience, whole, whose, within};
use super::{TRIES, fault, status};
use crate::adapters::aws::backoff::pause;
use crate::adapters::system::SystemIds;
use crate::ports::ids::Ids;
use crate::ports::objects::{ObjectError, Put, broke_off};

/// The length of the first parts. S3 takes parts of 5 MiB to 5 GiB, the last one excepted
/// (<https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html>).
const PART: usize = 8 << 20;

/// After that many parts they become twice as long: so 10,000 of them, which is S3's limit, hold 7.8 TiB.
const DOUBLED_AFTER: usize = 1_000;

/// S3's limit.
const MOST_PARTS: usize = 10_000;

/// The most bytes of parts that are held at once, being read or uploaded; one part at least.
const UNDER_WAY: usize = 24 << 20;

/// The most that is read from the source at once.
const PIECE: usize = 1 << 20;

/// How long S3 may take to put the parts together: it says some minutes
/// (<https://docs.aws.amazon.com/AmazonS3/latest/API/API_CompleteMultipartUpload.html>).
const COMPLETING: Duration = Duration::from_secs(300);

/// Writes what `source` brings if nothing is there.
pub async fn stream(object: &Object<'_>, source: &mut (dyn AsyncRead + Send + Unpin)) -> Result<Put, ObjectError> {
    let first = read_part(object, source, length(1)).await?;
    if first.len() < length(1) {
        return whole(object, first).await;
    }
    if object.look().await?.is_some() {
        return Ok(Put::AlreadyThere);
    }
    let upload = Upload::begin(*object).await?;
    let outcome = match upload.send(first, source).await {
        Ok(parts) => upload.complete(parts).await,
        Err(error) => Err(error),
    };
    if !matches!(outcome, Ok(Put::Written)) {
        upload.abort().await;
    }
    outcome
}

/// The length of the part of that number, from 1 on.
const fn length(number: usize) -> usize {
    PART << (number.saturating_sub(1) / DOUBLED_AFTER)
}

/// The next part; a shorter one is the last.
async fn read_part(
    object: &Object<'_>,
    source: &mut (dyn AsyncRead + Send + Unpin),
    length: usize,
) -> Result<Bytes, ObjectError> {
    let mut part = Vec::new();
    while part.len() < length {
        // Short streams take no more memory than they need.
        let piece = (length - part.len()).min(PIECE);
        part.reserve(if part.len() < PIECE { piece } else { length - part.len() });
        let read = source.take(piece as u64).read_buf(&mut part).await;
        if read.map_err(|error| broke_off(object.key, error))? == 0 {
            break;
        }
    }
    Ok(part.into())
}

/// Parts that are being sent, each with its number.
type Sending = JoinSet<Result<(usize, CompletedPart), ObjectError>>;

/// An upload that is under way.
struct Upload<'a> {
    object: Object<'a>,
    id: String,
    token: String,
}

impl<'a> Upload<'a> {
    async fn begin(object: Object<'a>) -> Result<Self, ObjectError> {
        let token = SystemIds.token();
        let request = object.client.create_multipart_upload().bucket(object.bucket).key(object.key);
        let request = request.metadata(TOKEN, &token).checksum_algorithm(ChecksumAlgorithm::Crc32);
        let begun = request.send().await.map_err(|error| fault("writing", &object, &error))?;
        match begun.upload_id {
            Some(id) => Ok(Self { object, id, token }),
            None => Err(ObjectError::Busy(format!("writing {object}: S3 began an upload without naming it"))),
        }
    }

    /// Sends every part. When one fails, or the source, none is under way any more when this returns: one that came
    /// through later would outlive the abort.
    async fn send(
        &self,
        first: Bytes,
        source: &mut (dyn AsyncRead + Send + Unpin),
    ) -> Result<Vec<CompletedPart>, ObjectError> {
        let mut under_way = Sending::new();
        let outcome = self.send_some_at_once(&mut under_way, first, source).await;
        under_way.shutdown().await;
        outcome
    }

    async fn send_some_at_once(
        &self,
        under_way: &mut Sending,
        first: Bytes,
        source: &mut (dyn AsyncRead + Send + Unpin),
    ) -> Result<Vec<CompletedPart>, ObjectError> {
        let mut sent = BTreeMap::new();
        let (mut number, mut part) = (1, first);
        loop {
            let is_last = part.len() < length(number);
            if !part.is_empty() {
                self.start(under_way, number, part)?;
            }
            // Room for the part that is read next.
            let most = if is_last { 0 } else { (UNDER_WAY / length(number)).max(1) - 1 };
            while under_way.len() > most {
                let Some(done) = under_way.join_next().await else { break };
                let (number, part) = done.map_err(|error| {
                    ObjectError::Busy(format!("writing {}: a part was not sent: {error}", self.object))
                })??;
                sent.insert(number, part);
            }
            if is_last {
                return Ok(sent.into_values().collect());
            }
            number += 1;
            part = read_part(&self.object, source, length(number)).await?;
        }
    }

    /// Starts sending a part by itself: it goes on while the next one is being read, however slow the source is.
    fn start(&self, under_way: &mut Sending, number: usize, part: Bytes) -> Result<(), ObjectError> {
        let Some(named) = i32::try_from(number).ok().filter(|_| number <= MOST_PARTS) else {
            let object = self.object;
            return Err(ObjectError::NeedsPerson(format!(
                "writing {object}: it is longer than the {MOST_PARTS} parts that S3 takes; hand it in as several files"
            )));
        };
        let request = self.object.client.upload_part().bucket(self.object.bucket).key(self.object.key);
        let request = request.upload_id(&self.id).part_number(named).checksum_algorithm(ChecksumAlgorithm::Crc32);
        let patience = patience(part.len());
        let request = request.body(ByteStream::from(part)).customize().config_override(patience);
        let shown = format!("part {number} of {}", self.object);
        under_way.spawn(async move {
            let answer = request.send().await.map_err(|error| fault("writing", &shown, &error))?;
            Ok((number, completed(named, answer)))
        });
        Ok(())
    }

    /// Makes the parts an object if nothing is there.
    async fn complete(&self, parts: Vec<CompletedPart>) -> Result<Put, ObjectError> {
        let object = self.object;
        let parts = CompletedMultipartUpload::builder().set_parts(Some(parts)).build();
        let mut why = String::new();
        for failed in 1..=TRIES {
            let request = object.client.complete_multipart_upload().bucket(object.bucket).key(object.key);
            let request = request.upload_id(&self.id).multipart_upload(parts.clone()).if_none_match("*");
            let request = request.customize().config_override(within(COMPLETING));
            let Err(error) = request.send().await else { return Ok(Put::Written) };
            why = match Refusal::of(&error) {
                Some(Refusal::IsThere) => "something was there and is gone".to_owned(),
                Some(Refusal::Conflict) => "another write of it is under way".to_owned(),
                None => {
                    // It may have been done all the same; that an upload is gone says that its end was reached.
                    let fault = match status(&error) {
                        Some(404) => ObjectError::Busy(format!("writing {object}: the upload is gone")),
                        _ => fault("writing", &object, &error),
                    };
                    return match whose(&object, &self.token).await {
                        Ok(Some(put)) => Ok(put),
                        _ => Err(fault),
                    };
                }
            };
            if let Some(put) = whose(&object, &self.token).await? {
                return Ok(put);
            }
            if failed < TRIES {
                pause(failed).await;
            }
        }
        Err(ObjectError::Busy(format!("writing {object}: {why}")))
    }

    /// Gives the parts back. What stays all the same is for the bucket's lifecycle rule.
    async fn abort(&self) {
        let request = self.object.client.abort_multipart_upload().bucket(self.object.bucket).key(self.object.key);
        match request.upload_id(&self.id).send().await {
            Err(error) if status(&error) != Some(404) => {
                let error = fault("aborting the upload of", &self.object, &error);
                tracing::error!(
                    object = %self.object, upload = self.id, %error,
                    "parts of an upload stay in the bucket, and cost money until its lifecycle rule removes them"
                );
            }
            _ => {}
        }
    }
}

/// How a part is named when all are put together.
fn completed(number: i32, answer: UploadPartOutput) -> CompletedPart {
    CompletedPart::builder()
        .part_number(number)
        .set_e_tag(answer.e_tag)
        .set_checksum_crc32(answer.checksum_crc32)
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_thousand_parts_hold_five_terabytes_and_none_is_too_long() {
        let whole: u128 = (1..=MOST_PARTS).map(|number| length(number) as u128).sum();
        assert!(whole > 5_u128 << 40, "{whole}");
        assert_eq!(length(1), 8 << 20);
        assert_eq!(length(1_000), 8 << 20);
        assert_eq!(length(1_001), 16 << 20);
        assert!(length(MOST_PARTS) as u64 <= 5 << 30);
    }

    #[tokio::test]
    async fn a_part_is_filled_from_a_source_that_brings_little_at_once() {
        let config = aws_sdk_s3::Config::builder().behavior_version(aws_config::BehaviorVersion::latest()).build();
        let client = aws_sdk_s3::Client::from_conf(config);
        let object = Object { client: &client, bucket: "bucket", key: "key" };
        let mut source = tokio::io::AsyncReadExt::chain(&b"abc"[..], &b"defgh"[..]);
        assert_eq!(read_part(&object, &mut source, 5).await.unwrap(), "abcde");
        assert_eq!(read_part(&object, &mut source, 5).await.unwrap(), "fgh");
        assert_eq!(read_part(&object, &mut source, 5).await.unwrap(), "");
    }
}
