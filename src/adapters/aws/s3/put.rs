//! Writing an object in one request.

use std::time::Duration;

use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::config::{Builder, Config};
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::primitives::ByteStream;
use bytes::Bytes;

use super::object::Object;
use super::{TRIES, fault, status};
use crate::adapters::aws::backoff::pause;
use crate::adapters::system::SystemIds;
use crate::ports::ids::Ids;
use crate::ports::objects::{ObjectError, Put};

/// The metadata that holds a write's own token.
pub const TOKEN: &str = "gleaner-put";

/// The slowest line, in bytes a second, that an upload gets to the end by.
const SLOWEST: u64 = 64 << 10;

/// How long S3 may take beyond the upload itself.
const ANSWER: Duration = Duration::from_secs(10);

/// What goes by the client's own time-outs: by the slowest line it takes less than those.
const SMALL: usize = 512 << 10;

/// Writes `bytes` if nothing is there.
pub async fn whole(object: &Object<'_>, bytes: Bytes) -> Result<Put, ObjectError> {
    let token = SystemIds.token();
    let mut why = String::new();
    for failed in 1..=TRIES {
        let request = object.client.put_object().bucket(object.bucket).key(object.key);
        let request = request.if_none_match("*").metadata(TOKEN, &token).body(ByteStream::from(bytes.clone()));
        let sent = request.customize().config_override(patience(bytes.len())).send().await;
        let Err(error) = sent else { return Ok(Put::Written) };
        why = match Refusal::of(&error) {
            Some(Refusal::IsThere) => match whose(object, &token).await? {
                Some(put) => return Ok(put),
                None => "something was there and is gone".to_owned(),
            },
            Some(Refusal::Conflict) => "another write of it is under way".to_owned(),
            None => return Err(fault("writing", object, &error)),
        };
        if failed < TRIES {
            pause(failed).await;
        }
    }
    Err(ObjectError::Busy(format!("writing {object}: {why}")))
}

/// Why S3 refused a conditional write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// An object is there: 412.
    IsThere,
    /// Another conditional write, or a delete, was under way, and S3 did not wait to see how it ends: 409.
    Conflict,
}

impl Refusal {
    /// None: it failed for another reason.
    pub fn of<E: ProvideErrorMetadata>(error: &SdkError<E>) -> Option<Self> {
        match (status(error), error.code()) {
            (Some(412), _) | (_, Some("PreconditionFailed")) => Some(Self::IsThere),
            (Some(409), _) | (_, Some("ConditionalRequestConflict")) => Some(Self::Conflict),
            _ => None,
        }
    }
}

/// Whether what is there was written by the write with that token, which was done although it was reported as failed,
/// or by another one. None: nothing is there.
pub async fn whose(object: &Object<'_>, token: &str) -> Result<Option<Put>, ObjectError> {
    let found = object.look().await?;
    Ok(found.map(|found| if found.token.as_deref() == Some(token) { Put::Written } else { Put::AlreadyThere }))
}

/// What a request that carries that many bytes changes of the client's configuration.
pub fn patience(bytes: usize) -> Builder {
    if bytes <= SMALL {
        return Config::builder();
    }
    within(ANSWER.saturating_add(Duration::from_secs(bytes as u64 / SLOWEST)))
}

/// A configuration by which one try may take that long. The SDK's time for reading an answer begins before the request is
/// sent, so that there is none; an upload that stands still is ended by the SDK's guard against that.
///
/// That time is part of what the SDK keeps connections by: there must not be many different ones.
pub fn within(longest: Duration) -> Builder {
    let timeouts = TimeoutConfig::builder().disable_read_timeout().operation_attempt_timeout(longest).build();
    Config::builder().timeout_config(timeouts)
}
