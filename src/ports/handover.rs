//! Handing a result on to whoever waits for it (design, section 8).

use std::fmt;

use async_trait::async_trait;
use thiserror::Error;

use crate::domain::job::JobKey;

/// Why a result was not handed on.
#[derive(Debug, Error)]
pub enum HandoverError {
    /// The receiver did not take this result. It is tried again, at most five times in all.
    #[error("handing on the result failed: {0}")]
    Refused(String),
    /// Nothing can be handed on until a person acts: a command that isn't there, a machine without processes or
    /// temporary files. No result is to blame.
    #[error("no result can be handed on: {0}")]
    NeedsPerson(String),
}

/// Takes each durable result: at least once, always with the same id.
#[async_trait]
pub trait Handover: fmt::Debug + Send + Sync {
    /// Hands on the durable object of a result to the `receiver` that the job's intake names, else to the process's own,
    /// else to nobody: `results/<id>.json`, or a file of results of an attempt of a batch run, one row a line. Returns
    /// when the receiver has taken it.
    async fn hand_on(&self, id: &JobKey, receiver: Option<&str>, object: &str) -> Result<(), HandoverError>;
}

/// Nobody waits beyond the result's own object.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nobody;

#[async_trait]
impl Handover for Nobody {
    async fn hand_on(&self, _id: &JobKey, _receiver: Option<&str>, _object: &str) -> Result<(), HandoverError> {
        Ok(())
    }
}
