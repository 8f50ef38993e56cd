//! Gemini, as far as jobs need it. Each error says what is known about the remote side.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::value::RawValue;
use thiserror::Error;

use super::batches::Batches;
use super::webhooks::Webhooks;

use crate::domain::failure::Failure;
use crate::domain::interaction::Interaction;
use crate::domain::job::KeyId;

/// Why a create call brought no handle.
#[derive(Debug, Error)]
pub enum CreateError {
    /// No byte of the request reached Gemini (no route, refused connection, failed TLS): nothing was created.
    #[error("Gemini could not be reached: {0}")]
    NotSent(String),
    /// A definite refusal, any 4xx but 408 and 409, or a model that no URL can be made of: nothing was created.
    #[error("Gemini refused: {}", .0.summary())]
    Refused(Box<Failure>),
    /// Bytes were sent and no answer says what became of them: time-out, broken connection, 5xx, 408, 409,
    /// or a success without a readable id.
    #[error("it is unclear whether Gemini accepted: {0}")]
    Unclear(String),
}

/// Why a plain call brought no answer to judge.
#[derive(Debug, Error)]
pub enum CallError {
    /// No byte of the request reached Gemini: nothing was asked, nothing is paid.
    #[error("Gemini could not be reached: {0}")]
    NotSent(String),
    /// Gemini answered with an error, whichever: with 5xx, 408 and 409 it may have done the work all the same. Or no URL
    /// can be made of the model, which reads as a 400.
    #[error("Gemini refused: {}", .0.summary())]
    Refused(Box<Failure>),
    /// Bytes were sent and no answer came that can be read: it may have done the work, and nothing remains of it.
    #[error("it is unclear whether Gemini did the work: {0}")]
    Unclear(String),
    /// The answer is longer than this program takes, and would be so again.
    #[error("Gemini's answer is longer than {0} bytes")]
    TooLong(u64),
}

/// Why a read, or a cancel, brought no interaction. None of these says anything about the remote job, but
/// a `Refused` with 403 or 404 that stays.
#[derive(Debug, Error)]
pub enum ReadError {
    /// Gemini answered with an error.
    #[error("Gemini answered: {}", .0.summary())]
    Refused(Box<Failure>),
    /// No answer, or one that can't be read.
    #[error("no answer from Gemini: {0}")]
    NoAnswer(String),
    /// The answer is longer than this program takes.
    #[error("Gemini's answer is longer than {0} bytes")]
    TooLong(u64),
}

/// Gemini: its interactions here, its batch jobs and files in [`Batches`], its webhooks in [`Webhooks`]. No create is ever
/// repeated.
#[async_trait]
pub trait Gemini: Batches + Webhooks + fmt::Debug + Send + Sync {
    /// The key that creates.
    fn creates_as(&self) -> &KeyId;

    /// Every key that is at hand, the creating one first.
    fn keys(&self) -> Vec<KeyId>;

    /// Whether the key of that fingerprint is at hand, so that a 403 or 404 with it means something.
    fn has_key(&self, key: &KeyId) -> bool;

    /// Creates a background interaction from a whole request body.
    async fn create_interaction(&self, body: Bytes) -> Result<Interaction, CreateError>;

    /// `generateContent`: one request, answered when it is done, within the time-out of calls. The answer as it came: any
    /// JSON but an object that holds nothing but an error.
    async fn generate(&self, model: &str, body: Bytes) -> Result<Box<RawValue>, CallError>;

    /// Looks at an interaction, with the key that created it when it is at hand, else with the creating one.
    async fn get_interaction(&self, handle: &str, created_by: &KeyId) -> Result<Interaction, ReadError>;

    /// Asks Gemini to cancel it.
    async fn cancel_interaction(&self, handle: &str, created_by: &KeyId) -> Result<Interaction, ReadError>;
}
