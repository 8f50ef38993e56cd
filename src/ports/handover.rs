//! Handing a result on to whoever waits for it (design, section 8).

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use thiserror::Error;

use crate::domain::job::JobKey;

/// The receiver did not take the result. It is tried again, at most five times in all.
#[derive(Debug, Error)]
#[error("handing on the result failed: {0}")]
pub struct HandoverError(pub String);

/// Takes each durable result once more than never: at least once, always with the same id.
#[async_trait]
pub trait Handover: fmt::Debug + Send + Sync {
    /// Hands on the bytes of `results/<id>.json`. Returns when the receiver has taken it.
    async fn hand_on(&self, id: &JobKey, result: Bytes) -> Result<(), HandoverError>;

    /// Whether anybody takes results at all.
    fn is_anybody(&self) -> bool {
        true
    }
}

/// Nobody waits beyond the result's own object.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nobody;

#[async_trait]
impl Handover for Nobody {
    async fn hand_on(&self, _id: &JobKey, _result: Bytes) -> Result<(), HandoverError> {
        Ok(())
    }

    fn is_anybody(&self) -> bool {
        false
    }
}
